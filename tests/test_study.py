"""Study files: what they list to run, and what they refuse."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("dumbbell._core", reason="the engine is not built")

from dumbbell._errors import ScenarioError
from dumbbell._run import prepare
from dumbbell.studies import Study
from dumbbell.studies._factors import Factor
from dumbbell.studies.designs import verify
from study_scenario import FACTORS, SCENARIO, levels, study

# What is run


def test_a_full_factorial_lists_its_conditions_in_yates_order() -> None:
    runs = study().runs()
    assert levels(runs, "rate", "rtt", "cc") == [
        ("5Mbit", "10ms", "cubic"),
        ("10Mbit", "10ms", "cubic"),
        ("5Mbit", "20ms", "cubic"),
        ("10Mbit", "20ms", "cubic"),
        ("5Mbit", "10ms", "reno"),
        ("10Mbit", "10ms", "reno"),
        ("5Mbit", "20ms", "reno"),
        ("10Mbit", "20ms", "reno"),
    ]
    assert [run.index for run in runs] == list(range(8))
    assert runs[6].scenario["path"] == {"rate": "5Mbit", "rtt": "20ms"}
    assert [flow["cc"] for flow in runs[6].scenario["flows"]] == ["reno", "reno"]


def test_a_fraction_lists_half_of_them() -> None:
    """2^(3-1) with C = AB: c, a, b, abc."""
    design = {"kind": "fractional", "generators": {"cc": "rate*rtt"}}
    assert levels(study(design=design).runs(), "rate", "rtt", "cc") == [
        ("5Mbit", "10ms", "reno"),
        ("10Mbit", "10ms", "cubic"),
        ("5Mbit", "20ms", "cubic"),
        ("10Mbit", "20ms", "reno"),
    ]


def test_crossed_factors_run_at_each_row_of_the_design() -> None:
    """As in NIST SP 500-282: 32 conditions, each with every algorithm, is 2^(6-1) x 7 runs."""
    names = [f"x{i}" for i in range(1, 7)]
    factors: dict[str, Any] = {
        name: {"key": f"flows[0].{key}", "levels": values}
        for name, (key, values) in zip(
            names,
            {
                "mss": ["1000B", "1448B"],
                "delack": ["10ms", "40ms"],
                "ack_every": [1, 2],
                "initial_window": [4, 10],
                "min_rto": ["200ms", "1s"],
                "tlp": [False, True],
            }.items(),
            strict=True,
        )
    }
    factors["cc"] = {
        "key": "flows[*].cc",
        "levels": ["bic", "ctcp", "fast", "highspeed", "htcp", "scalable", "reno"],
    }
    design = {"kind": "fractional", "generators": {"x6": "x1*x2*x3*x4*x5"}, "cross": ["cc"]}
    runs = study(factors=factors, design=design, replicates=2).runs()
    assert len(runs) == 32 * 7 * 2
    assert len({run.key for run in runs}) == len(runs)
    first = runs[:7]
    assert [run.factors["cc"] for run in first] == factors["cc"]["levels"]
    assert len({levels([run], *names)[0] for run in first}) == 1
    assert [flow["cc"] for flow in runs[3].scenario["flows"]] == ["highspeed", "highspeed"]
    # The second replicate is the same plan with the next seed.
    assert levels(runs[224:], *names, "cc") == levels(runs[:224], *names, "cc")
    assert {run.seed for run in runs[:224]} == {1}
    assert {run.seed for run in runs[224:]} == {2}


def test_common_seeds_belong_to_replicates_and_distinct_ones_to_runs() -> None:
    common = study(replicates=3, seed=10).runs()
    assert {(run.replicate, run.seed) for run in common} == {(0, 10), (1, 11), (2, 12)}
    distinct = study(replicates=3, seed=10, seeds="distinct").runs()
    assert sorted(run.seed for run in distinct) == list(range(10, 34))


def test_keys_are_those_of_what_is_run() -> None:
    """Neither the title nor the way a quantity is written matters; all that is simulated does."""
    key = study().runs()[0].key
    assert len(key) == 16
    int(key, 16)
    same = {**SCENARIO, "title": "x", "duration": "4000ms", "seed": 7}
    assert study(scenario=same, title="y", replicates=2).runs()[0].key == key
    other = [{**SCENARIO, "duration": "5s"}, {**SCENARIO, "interval": "50ms"}]
    keys = {study(scenario=scenario).runs()[0].key for scenario in other}
    assert len({key, study(seed=2).runs()[0].key, *keys}) == 4


def test_a_changed_trace_changes_the_key(tmp_path: Path) -> None:
    trace = {"path": {"trace": "t.trace", "rtt": "20ms"}, "flows": [{}], "duration": "4s"}
    keys = []
    for text in ("1\n2\n3\n", "1\n2\n4\n"):
        (tmp_path / "t.trace").write_text(text)
        factors = {"path.rtt": ["10ms", "20ms"]}
        made = Study.from_dict({"scenario": trace, "factors": factors}, directory=tmp_path)
        keys.append(made.runs()[0].key)
    assert keys[0] != keys[1]


def test_random_order_is_a_permutation_that_the_seed_decides() -> None:
    standard = study(replicates=2).runs()
    shuffled = study(replicates=2, order="random").runs()
    assert [run.key for run in shuffled] == [
        run.key for run in study(replicates=2, order="random").runs()
    ]
    assert [run.key for run in shuffled] != [run.key for run in standard]
    assert sorted(run.key for run in shuffled) == sorted(run.key for run in standard)
    assert [run.index for run in shuffled] == list(range(16))


def test_blocks_stand_together() -> None:
    """2^3 in two blocks by ABC: (1), ab, ac, bc in the one and a, b, c, abc in the other
    (Montgomery, Design and Analysis of Experiments, section 7.4)."""
    for order in ("standard", "random"):
        runs = study(block="rate*rtt*cc", order=order).runs()
        assert [run.block for run in runs] == [1] * 4 + [2] * 4
        high = {"rate": "10Mbit", "rtt": "20ms", "cc": "reno"}
        treatments = [
            "".join(
                letter
                for letter, name in zip("abc", high, strict=True)
                if run.factors[name] == high[name]
            )
            for run in runs
        ]
        assert sorted(treatments[:4]) == ["", "ab", "ac", "bc"]
        assert sorted(treatments[4:]) == ["a", "abc", "b", "c"]


def test_blocks_by_two_words_by_a_factor_and_by_replicate() -> None:
    four = study(block=["rate*rtt", "rtt*cc"]).runs()
    assert [run.block for run in four] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [run.block for run in study(block="cc").runs()] == [1] * 4 + [2] * 4
    replicates = study(block="replicate", replicates=2).runs()
    assert [run.block for run in replicates] == [1] * 8 + [2] * 8
    assert {run.block for run in study().runs()} == {0}


def test_levels_may_be_tables_and_go_to_several_places() -> None:
    runs = study(
        factors={
            "size": {
                "levels": [
                    {"path.rate": "1Mbit", "path.rtt": "5ms"},
                    {"path.rate": "2Mbit", "path.rtt": "9ms"},
                ],
                "labels": ["small", "large"],
            },
            "both": {"keys": ["flows[0].cc", "flows[1].cc"], "levels": ["reno", "bbr"]},
            "queue": {
                "key": "path.queue",
                "levels": ["fifo", {"kind": "fq_codel", "target": "3ms"}],
            },
        }
    ).runs()
    assert levels(runs, "size", "both", "queue")[-1] == ("large", "bbr", "fq_codel target=3ms")
    scenario = runs[-1].scenario
    assert scenario["path"]["rate"] == "2Mbit"
    assert scenario["path"]["rtt"] == "9ms"
    assert scenario["path"]["queue"] == {"kind": "fq_codel", "target": "3ms"}
    assert [flow["cc"] for flow in scenario["flows"]] == ["bbr", "bbr"]


def test_a_list_is_short_for_levels_of_the_key_that_is_the_name() -> None:
    runs = study(factors={"path.rtt": ["10ms", "30ms"]}).runs()
    assert [run.scenario["path"]["rtt"] for run in runs] == ["10ms", "30ms"]


def test_a_table_of_runs() -> None:
    rows = [
        {"rate": "10Mbit", "rtt": "10ms", "cc": "reno"},
        {"rate": "5Mbit", "rtt": "10ms", "cc": "cubic"},
    ]
    runs = study(design={"kind": "table", "rows": rows}).runs()
    assert [run.factors for run in runs] == rows
    signs = study(design={"kind": "table", "rows": ["+-+", "---"]}).runs()
    assert [run.factors for run in signs] == rows


def test_one_at_a_time() -> None:
    runs = study(design="one-at-a-time").runs()
    assert levels(runs, "rate", "rtt", "cc") == [
        ("5Mbit", "10ms", "cubic"),
        ("10Mbit", "10ms", "cubic"),
        ("5Mbit", "20ms", "cubic"),
        ("5Mbit", "10ms", "reno"),
    ]


def test_ranges_are_sampled_with_their_units() -> None:
    """Sobol' points 0, 0.5, 0.75, 0.25 of the first column and 0, 0.5, 0.25, 0.75 of the second."""
    made = study(
        factors={
            "rate": {"key": "path.rate", "low": "1Mbit", "high": "9Mbit"},
            "rtt": {"key": "path.rtt", "low": "1ms", "high": "256ms", "scale": "log"},
            "cc": {"key": "flows[0].cc", "levels": ["reno", "cubic"]},
            "iw": {"key": "flows[0].initial_window", "low": 2, "high": 10, "whole": True},
        },
        design={"kind": "sobol", "runs": 4, "scramble": False},
    )
    runs = made.runs()
    assert levels(runs, "rate", "rtt") == [
        ("1Mbit", "1ms"),
        ("5Mbit", "16ms"),
        ("7Mbit", "4ms"),
        ("3Mbit", "64ms"),
    ]
    assert {run.factors["cc"] for run in runs} == {"reno", "cubic"}
    assert all(isinstance(run.factors["iw"], int) for run in runs)


@given(st.floats(0, 1, exclude_max=True), st.booleans(), st.sampled_from(["B", "p", "kB", "ms"]))
def test_a_value_of_a_range_is_inside_it(place: float, log: bool, unit: str) -> None:
    factor = Factor.model_validate(
        {"low": f"3{unit}", "high": f"700{unit}", "scale": "log" if log else "linear"}
    )
    text = str(factor.at("x", place).label)
    assert text.endswith(unit)
    number = float(text.removesuffix(unit))
    assert 3 <= number <= 700
    exact = 3 * (700 / 3) ** place if log else 3 + 697 * place
    assert math.isclose(number, exact, rel_tol=1e-5, abs_tol=0.5 if unit in "Bp" else 0)


@settings(max_examples=20)
@given(st.integers(2, 6), st.integers(1, 3), st.booleans())
def test_any_plan_is_balanced(n: int, replicates: int, shuffled: bool) -> None:
    """Each level of each factor runs equally often, in each replicate."""
    windows = {"key": "flows[0].initial_window", "levels": list(range(1, n + 1))}
    made = study(
        factors={**FACTORS, "iw": windows},
        design={"kind": "fractional", "generators": {"cc": "rate*rtt"}, "cross": ["iw"]},
        replicates=replicates,
        order="random" if shuffled else "standard",
    )
    runs = made.runs()
    assert len(runs) == 4 * n * replicates
    assert verify(made.build_design()).problems == []
    for name, values in made.levels().items():
        for replicate in range(replicates):
            counts = [
                sum(run.factors[name] == value and run.replicate == replicate for run in runs)
                for value in values
            ]
            assert counts == [4 * n // len(values)] * len(values)


# What is refused

WRONG: list[tuple[dict[str, Any], str]] = [
    # a level: the factor, the level, and what the scenario says of it
    (
        {"factors": {"rate": {"key": "path.rate", "levels": ["5Mbit", "5Mb"]}}},
        's.toml: factors.rate = "5Mb": path.rate = "5Mb": expected a rate with unit',
    ),
    (
        {"factors": {"cc": {"key": "flows[*].cc", "levels": ["reno", "cubik"]}}},
        's.toml: factors.cc = "cubik": flows[0].cc = "cubik": expected the name of a controller; '
        'did you mean "cubic"?',
    ),
    (
        {"factors": {"path.rat": ["5Mbit", "6Mbit"]}},
        's.toml: factors.path.rat = "5Mbit": path.rat = "5Mbit": no such key; did you mean "rate"?',
    ),
    (
        {"factors": {"flows[7].cc": ["reno", "cubic"]}},
        'factors.flows[7].cc = "reno": flows[7].cc: there is no such place in the scenario',
    ),
    # what is wrong whatever the levels are is the scenario's
    (
        {"scenario": {**SCENARIO, "warmup": "9s"}},
        's.toml: warmup = "9s": expected a time before the end (duration) (with rate = 5Mbit, rtt',
    ),
    ({"scenario": "preset:hom"}, 's.toml: scenario: preset "hom": there is no such preset;'),
    ({"scenario": "no.toml"}, "no.toml: cannot be read: no such file"),
    # factors
    ({"factors": {}}, "s.toml: factors = {}: expected at least one item"),
    ({"factors": {"x": ["a"]}}, "factors.x.levels: expected at least two levels"),
    ({"factors": {"x": {}}}, "factors.x.levels: expected either levels, or low and high"),
    ({"factors": {"x": {"levels": [1, 1]}}}, "factors.x.levels[1] = 1: there is such a level alr"),
    ({"factors": {"x": {"levels": [1, 2], "labels": ["a"]}}}, "labels: expected 2 labels"),
    ({"factors": {"x": {"low": 1}}}, "factors.x.high: missing; expected the other end"),
    ({"factors": {"x": {"low": "1ms", "high": "1s"}}}, 'x.high = "1s": expected the same unit'),
    ({"factors": {"x": {"low": 2, "high": 1}}}, "factors.x.high = 1: expected more than low"),
    ({"factors": {"x": {"low": 0, "high": 1, "scale": "log"}}}, "low = 0: expected more than 0"),
    ({"factors": {"x": {"low": "few", "high": "many"}}}, 'low = "few": expected a number, or a q'),
    ({"factors": {"x": {"key": "a", "keys": ["b"], "levels": [1, 2]}}}, "either key or keys"),
    ({"factors": {"x": {"lvels": [1, 2]}}}, 'factors.x.lvels: no such key; did you mean "levels"'),
    ({"factors": {"seed": [1, 2]}}, "factors.seed: the study sets the seed: see replicates"),
    # design
    ({"design": "fulll"}, 'design.kind = "fulll": expected a kind; did you mean "full"?'),
    ({"design": {"kind": "fractional"}}, "design.generators: expected either generators or res"),
    (
        {"design": {"kind": "fractional", "generators": {"q": "rate*rtt"}}},
        's.toml: design: generator of "q": no such factor; there are cc, rate, rtt',
    ),
    (
        {"design": "plackett-burman", "factors": {"x": [1, 2, 3]}},
        "factors.x: expected two levels, for the design is plackett-burman",
    ),
    ({"design": {"kind": "sobol", "runs": 6}}, "design: runs = 6: expected a power of two"),
    ({"design": {"kind": "full", "cross": ["x"]}}, 'design.cross[0] = "x": no such factor'),
    ({"design": {"kind": "full", "cross": list(FACTORS)}}, "at least one factor that is not cr"),
    ({"design": {"kind": "table", "rows": ["+-"]}}, "design: row 1: expected 3 levels, one a fac"),
    (
        {
            "design": {"kind": "table", "rows": ["-"]},
            "factors": {"path.rtt": ["1ms", "2ms", "3ms"]},
        },
        "factors.path.rtt: expected two levels, for signs",
    ),
    ({"design": {"kind": "table", "rows": [{"rate": "5Mbit"}]}}, "design.rows[0].rtt: missing"),
    (
        {"design": {"kind": "table", "rows": [{"rate": "6Mbit", "rtt": "10ms", "cc": "reno"}]}},
        'design.rows[0].rate = "6Mbit": expected one of its levels',
    ),
    # the rest
    ({"block": "rate*x"}, 's.toml: block: "rate*x": expected factors joined by *'),
    ({"block": "iw*cc", "factors": {**FACTORS, "iw": [1, 2, 3]}}, "block"),
    ({"replicates": 0}, "s.toml: replicates = 0: expected at least 1"),
    ({"replicates": 200_000}, "s.toml: replicates: expected at most 1000000 runs in all"),
    ({"order": "any"}, 's.toml: order = "any": expected "standard" or "random"'),
    ({"orders": 1}, 's.toml: orders = 1: no such key; did you mean "order"?'),
    (
        {"responses": {"x": "jian"}},
        'responses: "jian": expected a metric or a path into the summary; did you mean "jain"?',
    ),
    ({"responses": {"x": "avg flows.*.goodput_bps"}}, "expected one of sum, mean, median, min"),
    ({"responses": {}}, "responses: expected at least one response"),
]


def _all_of(changes: dict[str, Any]) -> None:
    made = study(**changes)
    assert made.measure
    made.runs()


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_what_is_wrong_is_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        _all_of(changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_each_level_is_tried_however_large_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a controller is only looked up when the scenario is resolved."""
    monkeypatch.setattr("dumbbell.studies._study._CHECK_S", -1.0)
    prepared = []

    def counted(scenario: Any) -> Any:
        prepared.append(scenario)
        return prepare(scenario)

    monkeypatch.setattr("dumbbell.studies._study.prepare", counted)
    assert len(study().runs()) == 8
    # The first condition has three new levels, and three others bring one each.
    assert len(prepared) == 4
    wrong = {**FACTORS, "cc": {"key": "flows[0].cc", "levels": ["cubic", "cubik"]}}
    with pytest.raises(ScenarioError, match=r'factors\.cc = "cubik"'):
        study(factors=wrong).runs()
