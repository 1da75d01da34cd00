"""Study files: what they list to run, what they measure, and what they refuse."""

from __future__ import annotations

import json
import math
import pickle
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("dumbbell._core", reason="the engine is not built")

import dumbbell
from dumbbell._cli import run_command
from dumbbell._errors import MissingExtraError, ScenarioError, UsageError
from dumbbell._results import Result
from dumbbell._run import prepare
from dumbbell._scenario import Scenario, read_toml
from dumbbell.studies import Run, Study
from dumbbell.studies._factors import Factor
from dumbbell.studies._study import ready_studies
from dumbbell.studies.designs import verify
from dumbbell.studies.metrics import METRICS
from dumbbell.studies.responses import evaluate, extract, parse_responses

SCENARIO: dict[str, Any] = {
    "duration": "4s",
    "warmup": "1s",
    "path": {"rate": "10Mbit", "rtt": "20ms"},
    "flows": [{"cc": "cubic"}, {"cc": "reno"}],
}
FACTORS: dict[str, Any] = {
    "rate": {"key": "path.rate", "levels": ["5Mbit", "10Mbit"]},
    "rtt": {"key": "path.rtt", "levels": ["10ms", "20ms"]},
    "cc": {"key": "flows[0].cc", "levels": ["cubic", "reno"]},
}


def study(**changes: Any) -> Study:
    return Study.from_dict({"scenario": SCENARIO, "factors": FACTORS, **changes}, file="s.toml")


def levels(runs: list[Run], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(run.factors[name] for name in names) for run in runs]


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = run_command([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return status, out, err


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


# What is measured


class _Series:
    """Tables of a made-up result."""

    def __init__(self, **tables: dict[str, list[Any]]) -> None:
        self._tables = tables

    def tables(self) -> list[str]:
        return list(self._tables)

    def table(self, name: str) -> Any:
        return pa.table(self._tables[name])


def _result(goodputs: list[float], **tables: Any) -> Result:
    flows = [
        {
            "id": f"f{i + 1}",
            "goodput_bps": goodput,
            "rtt_ms": {"mean": 20.0 + i},
            "dropped_packets": i,
            "sent_packets": 50,
            "recoveries": 1,
            "timeouts": i,
            "completion_s": None,
        }
        for i, goodput in enumerate(goodputs)
    ]
    delay = {"mean": 1.0, "p50": 2.0, "p95": 3.0, "p99": 4.0, "max": 5.0}
    links = [
        {"id": "a->b", "utilisation": 0.5, "queue_delay_ms": dict.fromkeys(delay, 0.0)},
        {"id": "b->c", "utilisation": 0.9, "queue_delay_ms": delay},
    ]
    config = {
        "warmup_ns": 10**9,
        "interval_ns": 5 * 10**8,
        "flows": [
            {"id": flow["id"], "start_ns": 0, "stop_ns": 10**11, "traffic": {"kind": "bulk"}}
            for flow in flows
        ],
    }
    summary = {"flows": flows, "links": links, "probes": [], "seed": 1}
    return Result(summary, config, _Series(**tables))


def test_metrics_of_goodputs_by_hand() -> None:
    """Goodputs 1, 2 and 3: Jain's index is 6^2 / (3 * 14)."""
    result = _result([1.0, 2.0, 3.0])
    expected = {
        "throughput_bps": 6.0,
        "goodput_mean_bps": 2.0,
        "goodput_min_bps": 1.0,
        "goodput_max_bps": 3.0,
        "jain": 36 / 42,
        "max_min_ratio": 3.0,
        "epsilon": 2 / 3,
        "log_product": math.log(6),
        "utilisation": 0.9,
        "queue_delay_p95_ms": 3.0,
        "rtt_mean_ms": 21.0,
        "loss_ratio": 3 / 150,
        "loss_event_ratio": 6 / 150,
    }
    for name, value in expected.items():
        assert METRICS[name].of(result) == pytest.approx(value, rel=1e-12), name


def test_fairness_at_its_ends() -> None:
    """Jain, Chiu and Hawe (1984): equal shares give 1, and one of n that has all gives 1/n."""
    assert METRICS["jain"].of(_result([5.0, 5.0, 5.0, 5.0])) == 1
    assert METRICS["jain"].of(_result([7.0, 0.0, 0.0, 0.0])) == 0.25
    assert METRICS["epsilon"].of(_result([5.0, 5.0])) == 0
    assert METRICS["log_product"].of(_result([5.0, 0.0])) == -math.inf
    assert math.isnan(METRICS["max_min_ratio"].of(_result([5.0, 0.0])))


def test_metrics_of_series_by_hand() -> None:
    """Intervals of 0.5 s, warm-up of 1 s: of 2, 2, 1, 3 the mean is 2 and the standard deviation
    sqrt(1/2); 2 to 1 is the largest fall."""
    times = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    series = {"t": times, "flow": ["f1"] * 6, "goodput_bps": [9.0, 9.0, 2.0, 2.0, 1.0, 3.0]}
    result = _result([2.0], flow_series=series)
    assert METRICS["rate_variation"].of(result) == pytest.approx(math.sqrt(0.5) / 2)
    assert METRICS["rate_drop_max"].of(result) == 0.5
    assert math.isnan(METRICS["delta_fair_time_s"].of(result))


def test_convergence_by_hand() -> None:
    """The second flow starts at 1 s with a tenth of the link. Over one second (two intervals) its
    share is (1 + 3) / 20 at 2 s, (3 + 4) / 20 at 2.5 s and (4 + 5) / 20 at 3 s, which is 90 % of
    its half: two seconds after its start."""
    first = [10.0, 10.0, 9.0, 7.0, 6.0, 5.0, 5.0]
    second = [0.0, 0.0, 1.0, 3.0, 4.0, 5.0, 5.0]
    series = {
        "t": [0.5 * (i + 1) for i in range(7)] * 2,
        "flow": ["f1"] * 7 + ["f2"] * 7,
        "goodput_bps": first + second,
    }
    result = _result([7.0, 3.0], flow_series=series)
    result.config["flows"][1]["start_ns"] = 10**9
    assert METRICS["delta_fair_time_s"].of(result) == 2.0
    series["goodput_bps"] = [9.0] * 7 + [1.0] * 7
    assert math.isnan(METRICS["delta_fair_time_s"].of(_result([9.0, 1.0], flow_series=series)))


def test_refilling_a_link_by_hand() -> None:
    """After 1 s of warm-up the busier link carries 2, 4, 6, 8, 10, 10 in intervals of 0.5 s: its
    most is 20 in a second, and 18 of that come in the second that begins at the fourth."""
    times = [0.5 * (i + 1) for i in range(8)]
    series = {
        "t": times * 2,
        "link": ["a->b"] * 8 + ["b->c"] * 8,
        "throughput_bps": [9.0] * 8 + [9.0, 9.0, 2.0, 4.0, 6.0, 8.0, 10.0, 10.0],
    }
    assert METRICS["refill_time_s"].of(_result([1.0], link_series=series)) == 1.5
    series["throughput_bps"] = [9.0] * 16
    assert METRICS["refill_time_s"].of(_result([1.0], link_series=series)) == 0
    assert math.isnan(METRICS["refill_time_s"].of(_result([1.0])))


def test_completion_times_by_hand() -> None:
    """Of those that began after the warm-up: 1, 2, 3, 4 s; the 95th percentile lies at 2.85 of the
    three steps between them."""
    completions = {
        "flow": ["f1"] * 5,
        "start_s": [0.5, 1.0, 2.0, 3.0, 4.0],
        "bytes": [1] * 5,
        "duration_s": [100.0, 4.0, 2.0, 3.0, 1.0],
    }
    result = _result([1.0], completions=completions)
    assert METRICS["completion_mean_s"].of(result) == 2.5
    assert METRICS["completion_median_s"].of(result) == 2.5
    assert METRICS["completion_p95_s"].of(result) == pytest.approx(3.85)


def test_metrics_of_flows_are_about_bulk_flows_where_there_are_any() -> None:
    result = _result([4.0, 100.0])
    result.config["flows"][1]["traffic"] = {"kind": "poisson"}
    assert METRICS["goodput_max_bps"].of(result) == 4.0
    assert METRICS["throughput_bps"].of(result) == 104.0
    result.config["flows"][0]["traffic"] = {"kind": "size"}
    assert METRICS["goodput_max_bps"].of(result) == 100.0


SUMMARY: dict[str, Any] = {
    "flows": [
        {"id": "cubic-1", "goodput_bps": 3.0, "rtt_ms": {"p95": 7.0}, "completion_s": None},
        {"id": "cubic-2", "goodput_bps": 5.0, "rtt_ms": None, "completion_s": 2.0},
        {"id": "bbr-1", "goodput_bps": 8.0, "rtt_ms": {"p95": 9.0}, "completion_s": None},
    ],
    "links": [{"id": "bottleneck", "utilisation": 0.5}],
    "totals": {"jain": 0.75, "complete": True},
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("flows.cubic-1.goodput_bps", 3.0),
        ("flows[0].rtt_ms.p95", 7.0),
        ("links.bottleneck.utilisation", 0.5),
        ("totals.jain", 0.75),
        ("sum flows.cubic-*.goodput_bps", 8.0),
        ("mean flows.cubic-*.goodput_bps", 4.0),
        ("median flows.*.goodput_bps", 5.0),
        ("min flows.*.goodput_bps", 3.0),
        ("max flows.*.goodput_bps", 8.0),
        ("count flows.*.completion_s", 1.0),
        ("mean flows.*.completion_s", 2.0),
        ("mean flows.*.rtt_ms.p95", 8.0),
        ("flows[0].completion_s", math.nan),
        ("mean flows.reno-*.goodput_bps", math.nan),
        ("count flows.reno-*.goodput_bps", 0.0),
    ],
)
def test_expressions(expression: str, value: float) -> None:
    found = evaluate(SUMMARY, expression)
    assert found == value or (math.isnan(found) and math.isnan(value))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("flows.cubik-1.goodput_bps", 'there is no "cubik-1"; did you mean "cubic-1"?'),
        ("flows[0].godput_bps", 'there is no "godput_bps"; did you mean "goodput_bps"?'),
        ("flows[7].goodput_bps", "there are only 3 in the list"),
        ("flows.*.goodput_bps", "3 values; expected one of sum, mean"),
        ("flows[0].id", "expected a number there"),
        ("flows[0].rtt_ms", "expected a number there"),
        ("totals.jain.x", 'there is no "x"'),
    ],
)
def test_expressions_that_lead_nowhere(expression: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        evaluate(SUMMARY, expression)
    assert message in str(caught.value)


def test_a_run_is_measured_as_dumbbell_run_would() -> None:
    made = study(responses={"goodput": "flows[0].goodput_bps", "jain": "jain", "j": "totals.jain"})
    run = made.runs()[5]
    outcome = pickle.loads(pickle.dumps(made.measure))(run)
    assert outcome.error is None
    assert outcome.run is run
    assert outcome.seconds > 0
    scenario = Scenario.from_dict(SCENARIO).replaced({"path.rtt": "10ms", "flows[0].cc": "reno"})
    flows = dumbbell.run(scenario, seed=1).summary["flows"]
    assert outcome.responses["goodput"] == flows[0]["goodput_bps"]
    assert outcome.responses["jain"] == pytest.approx(outcome.responses["j"], rel=1e-12)


def test_what_goes_wrong_in_a_run_is_its_outcome() -> None:
    made = study(responses={"x": "flows.nobody.goodput_bps"})
    outcome = made.measure(made.runs()[0])
    assert outcome.responses == {}
    assert outcome.error is not None
    assert 'there is no "nobody"' in outcome.error


def test_without_series_their_metrics_have_no_value() -> None:
    made = study(scenario={**SCENARIO, "interval": 0}, responses="all")
    outcome = made.measure(made.runs()[0])
    assert outcome.error is None
    unknown = {name for name, value in outcome.responses.items() if math.isnan(value)}
    assert {"rate_variation", "rate_drop_max", "delta_fair_time_s"} <= unknown
    assert "goodput_mean_bps" not in unknown


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoe", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dumbbell\[study\]'"):
        study().runs()


def test_responses_that_a_scenario_brings_are_taken_whole() -> None:
    result = _result([1.0])
    result.summary["responses"] = {"y1": 3, "y2": None}
    found = extract(result, parse_responses(["*", "jain"]))
    assert found["y1"] == 3.0
    assert math.isnan(found["y2"])
    assert found["jain"] == 1.0
    assert extract(result, parse_responses("all")).keys() == {"y1", "y2"}


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


# Commands


def test_each_new_study_can_be_planned(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    kinds = ("full", "fractional", "plackett-burman", "latin-hypercube", "sobol", "table")
    for kind in (*kinds, "one-at-a-time"):
        file = tmp_path / f"{kind}.toml"
        assert call(capsys, "study", "new", "--design", kind, "--out", file) == (0, "", "")
        status, out, err = call(capsys, "study", "plan", file, "--no-pilot", "--json")
        assert (status, err) == (0, "")
        assert json.loads(out)["design"]["kind"] == kind


def test_a_new_study_of_a_scenario_names_it_relative_to_itself(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "studies").mkdir()
    scenario = tmp_path / "base.toml"
    scenario.write_text(
        'duration = "2s"\n[path]\nrate = "4Mbit"\nrtt = "20ms"\n[[flows]]\ncc = "reno"\n'
    )
    file = tmp_path / "studies" / "s.toml"
    assert call(capsys, "study", "new", "--from", scenario, "--out", file)[0] == 0
    made = Study.load(file)
    assert made.scenario == "../base.toml"
    assert made.levels()["rate"] == ["4Mbit", "16Mbit"]
    assert len(made.runs()) == 8
    status, _, err = call(capsys, "study", "new", "--from", scenario, "--out", file)
    assert status == 2
    assert "there is such a file already" in err


def test_plan_says_what_the_design_can_tell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "s.toml"
    call(capsys, "study", "new", "--design", "fractional", "--out", file)
    status, out, err = call(capsys, "study", "plan", file, "--no-pilot")
    assert (status, err) == (0, "")
    assert "4 rows x 1 replicate = 4 runs" in out
    assert "fractional, 3 factors in 4 rows, resolution III, balanced, orthogonal" in out
    assert "defining words: rate*rtt*cc" in out
    assert "aliased: rate = rtt*cc, rtt = rate*cc, cc = rate*rtt" in out
    assert "time:" not in out


def test_the_pilot_finds_what_cannot_be_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        '[scenario]\nduration = "2s"\npath = { rate = "4Mbit", rtt = "20ms" }\n'
        'flows = [{ cc = "reno" }]\n'
        '[factors]\n"path.rtt" = ["10ms", "20ms", "30ms"]\n'
        '[responses]\nx = "flows[1].goodput_bps"\n'
    )
    status, _, err = call(capsys, "study", "plan", file)
    assert status == 0
    assert err.splitlines() == [
        f"dumbbell: run {i}: flows[1].goodput_bps: there are only 1 in the list" for i in range(3)
    ]
    file.write_text(file.read_text().replace("[1].good", "[0].good"))
    status, out, err = call(capsys, "study", "plan", file, "--json")
    document = json.loads(out)
    assert (status, err, document["runs"]) == (0, "", 3)
    assert len(document["pilot"]["run_s"]) == 3
    assert document["pilot"]["all_s"] > 0


def test_metrics_are_listed_with_their_sections(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "list", "metrics", "--json")
    rows = json.loads(out)
    assert status == 0
    assert [row["name"] for row in rows] == list(METRICS)
    assert all("RFC 5166 section 2." in row["summary"] for row in rows)


# Long runs are cut, so that testing takes seconds.
_CUT: dict[str, tuple[str, str]] = {
    "tcpeval-access": ("3s", "1s"),
    "tcpeval-data-centre": ("300ms", "100ms"),
    "tcpeval-geostationary": ("15s", "5s"),
    "tcpeval-multiple-bottlenecks": ("3s", "1s"),
    "tcpeval-tradeoff": ("3s", "1s"),
    "tcpeval-trans-oceanic": ("2s", "1s"),
}


# Laying out the network of NIST SP 500-282 takes too long here.
@pytest.mark.parametrize("name", [n for n in ready_studies() if not n.startswith("nist-")])
def test_ready_studies_run(name: str) -> None:
    """Each gives all its responses in its first run, and shares are between 0 and 1."""
    path = ready_studies()[name]
    data = read_toml(path)
    if name in _CUT:
        duration, warmup = _CUT[name]
        data["set"] = {**data.get("set", {}), "duration": duration, "warmup": warmup}
    made = Study.from_dict(data, file=str(path), directory=path.parent)
    assert made.title
    outcome = made.measure(made.runs()[0])
    assert outcome.error is None
    unknown = {key for key, value in outcome.responses.items() if math.isnan(value)}
    # Flows that meet too late to be fair within the run have no such time.
    assert unknown <= {"delta_fair_time_s"}
    for key in ("loss_ratio", "jain", "utilisation", "utilisation_east"):
        assert 0 <= outcome.responses.get(key, 0) <= 1.0001


def test_ready_studies_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = json.loads(call(capsys, "list", "studies", "--json")[1])
    assert [row["name"] for row in rows] == list(ready_studies())
    file = tmp_path / "s.toml"
    assert call(capsys, "study", "new", "--from", "ready:tcpeval-access", "--out", file)[0] == 0
    assert Study.load(file).runs() == Study.load("ready:tcpeval-access").runs()
    with pytest.raises(UsageError, match="there is no such study"):
        Study.load("ready:nothing")


def test_the_pilot_says_when_replicates_are_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two bulk flows meet in the same way each time; one with random loss does not."""
    file = tmp_path / "s.toml"
    text = (
        "replicates = 2\n"
        '[scenario]\nduration = "2s"\npath = { rate = "4Mbit", rtt = "20ms" }\n'
        'flows = [{ cc = "reno" }]\n'
        '[factors]\n"path.rtt" = ["10ms", "20ms"]\n'
        '[responses]\nx = "flows[0].goodput_bps"\n'
    )
    file.write_text(text)
    _, _, err = call(capsys, "study", "plan", file)
    assert err == "dumbbell: replicates do not differ: nothing in the scenario is random\n"
    file.write_text(text.replace('"20ms" }', '"20ms", loss = 0.05 }'))
    assert call(capsys, "study", "plan", file)[2] == ""
