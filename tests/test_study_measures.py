"""What studies measure: metrics, expressions, and the outcome of a run."""

from __future__ import annotations

import math
import pickle
import sys
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("dumbbell._core", reason="the engine is not built")

import dumbbell
from dumbbell._errors import MissingExtraError, UsageError
from dumbbell._results import Result
from dumbbell._scenario import Scenario
from dumbbell.studies.metrics import METRICS
from dumbbell.studies.responses import evaluate, extract, parse_responses
from study_scenario import SCENARIO, study


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
    assert METRICS["max_min_ratio"].of(_result([5.0, 0.0])) == math.inf
    for name in ("jain", "max_min_ratio", "epsilon"):
        assert math.isnan(METRICS[name].of(_result([0.0, 0.0])))


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
