"""Controllers written in Python, in the engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest
from polars.testing import assert_frame_equal

import dumbbell
from dumbbell import CongestionControl
from dumbbell._core import Ack, Congestion, Start

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from aimd import Aimd  # type: ignore[import-not-found]

MSS = 1448
Result = dumbbell.Result


def run(make: Callable[..., Any], flow: dict[str, Any] | None = None, **changes: Any) -> Result:
    """Run one flow, with the controller that `make` makes."""
    scenario = {
        "duration": "5s",
        "path": {"rate": "20Mbit", "rtt": "40ms"},
        "flows": [{"cc": "mine", **(flow or {})}],
        **changes,
    }
    return dumbbell.run(scenario, controllers={"mine": lambda params: make(**params)})


class Window(CongestionControl):
    """A constant window."""

    segments = 10

    def on_start(self, event: Start) -> None:
        self.cwnd = self.segments * event.mss


SCENARIOS: dict[str, dict[str, Any]] = {
    "tail drops": {
        "duration": "30s",
        "path": {"rate": "20Mbit", "rtt": "40ms"},
        "flows": [{"count": 3, "stagger": "1s"}],
    },
    "marks": {
        "duration": "20s",
        "path": {"rate": "20Mbit", "rtt": "40ms", "queue": "fq_codel"},
        "flows": [{"ecn": True}],
    },
    "random loss, timeouts and reordering": {
        "duration": "60s",
        "path": {
            "rate": "5Mbit",
            "rtt": "60ms",
            "queue": {"kind": "fifo", "limit": "4p"},
            "loss": {"kind": "gilbert-elliott", "p": 0.002, "r": 0.1},
            "jitter": {"amount": "15ms", "reorder": True},
        },
        "flows": [{"count": 2}],
    },
    "idle times": {
        "duration": "30s",
        "path": {"rate": "20Mbit", "rtt": "40ms"},
        "flows": [{"traffic": {"kind": "onoff", "on": "1s", "off": "3s"}}],
    },
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_aimd_equals_the_built_in_reno(name: str) -> None:
    def outcome(cc: str) -> tuple[Result, dict[str, Any], polars.DataFrame]:
        flows = [{"id": "flow", "cc": cc, **flow} for flow in SCENARIOS[name]["flows"]]
        controllers = {"aimd": lambda params: Aimd(**params)}
        result = dumbbell.run({**SCENARIOS[name], "flows": flows}, controllers=controllers)
        summary = json.loads(json.dumps(result.summary))
        for flow in summary["flows"]:
            assert flow.pop("cc") == cc
            del flow["effective"]
        del summary["scenario"], summary["totals"]["wall_s"], summary["totals"]["peak_rss_bytes"]
        return result, summary, result.to_polars("flow_series")

    reno, reno_summary, reno_series = outcome("reno")
    _, aimd_summary, aimd_series = outcome("aimd")
    assert aimd_summary == reno_summary
    assert_frame_equal(aimd_series, reno_series, check_exact=True)
    cuts = sum(flow["recoveries"] for flow in reno.summary["flows"])
    marks = sum(link["marks"] for link in reno.summary["links"])
    assert cuts + marks > 0 or name == "idle times"


def test_a_constant_window_sends_one_window_a_round_trip() -> None:
    result = run(Window, path={"rate": "1Gbit", "rtt": "100ms"}, duration="20s", warmup="5s")
    # 10 segments a round trip; those of 12 us and the ACKs' delay lengthen it by far less than 1 %.
    assert result.summary["flows"][0]["goodput_bps"] == pytest.approx(10 * MSS * 8 / 0.1, rel=0.01)


def test_a_fraction_of_a_byte_does_not_count() -> None:
    class Fraction(CongestionControl):
        def on_start(self, event: Start) -> None:
            self.cwnd = 10 * event.mss + 0.9

    whole = run(Window).to_polars("flow_series")
    assert_frame_equal(run(Fraction).to_polars("flow_series"), whole, check_exact=True)


def test_the_pacing_rate_is_kept() -> None:
    class Paced(Window):
        segments = 1000
        pacing_rate = 1e6

    result = run(Paced, path={"rate": "100Mbit", "rtt": "20ms"}, warmup="1s")
    assert result.summary["flows"][0]["goodput_bps"] == pytest.approx(8e6, rel=0.01)
    assert result.summary["links"][0]["queue_delay_ms"]["max"] < 0.5


def test_events_tell_what_happened() -> None:
    starts: list[Start] = []
    acks: list[Ack] = []
    events: list[Congestion] = []

    class Watching(Aimd):  # type: ignore[misc]
        def on_start(self, event: Start) -> None:
            starts.append(event)
            assert self.cwnd == event.initial_window

        def on_ack(self, ack: Ack) -> None:
            acks.append(ack)
            super().on_ack(ack)

        def on_congestion(self, event: Congestion) -> None:
            events.append(event)
            super().on_congestion(event)

    result = run(Watching)
    (start,) = starts
    assert (start.mss, start.initial_window) == (MSS, 10 * MSS)
    assert start.rtt == pytest.approx(40e6, rel=0.01)
    assert [ack.now for ack in acks] == sorted(ack.now for ack in acks)
    assert sum(ack.acked for ack in acks) == acks[-1].delivered
    assert acks[-1].snd_una <= acks[-1].snd_nxt
    assert {ack.state for ack in acks} >= {"open", "recovery"}
    # No sample of the delivery rate may exceed what the link carries.
    rates = [ack.delivery_rate for ack in acks if ack.delivery_rate is not None]
    assert max(rates) <= 20e6 / 8 * 1.01
    assert acks[-1].rate_sample.delivered > 0
    assert len(events) == result.summary["flows"][0]["recoveries"]
    assert {event.kind for event in events} == {"loss"}
    with pytest.raises(AttributeError):
        acks[0].acked = 0  # type: ignore[misc]


def test_on_sent_is_called_for_each_segment() -> None:
    sizes: list[int] = []

    class Sending(Window):
        def on_sent(self, now: int, size: int, inflight: int) -> None:
            sizes.append(size)

    result = run(Sending, flow={"size": "100kB"})
    assert sum(sizes) == 100_000
    assert len(sizes) == -(-100_000 // MSS)
    assert result.summary["flows"][0]["completion_s"] is not None


def test_recorded_attributes_and_phase() -> None:
    class Recording(Window):
        phase = "steady"
        record = ("acks", "half")
        acks = 0
        half = 0.5

        def on_ack(self, ack: Ack) -> None:
            self.acks += 1

    result = run(Recording)
    series = result.to_polars("controller_series")
    assert set(series["name"]) == {"acks", "half"}
    assert set(series.filter(polars.col("name") == "half")["value"]) == {0.5}
    acks = series.filter(polars.col("name") == "acks")["value"]
    assert acks.is_sorted()
    assert acks.max() > 100
    assert "steady" in set(result.to_polars("flow_series")["phase"])


def test_each_flow_has_its_own_repeatable_seed() -> None:
    def seeds(seed: int) -> list[int]:
        found: list[int] = []

        class Seeded(Window):
            def on_start(self, event: Start) -> None:
                super().on_start(event)
                found.append(self.seed)

        run(Seeded, flow={"count": 3}, seed=seed, duration="1s")
        return found

    assert len(set(seeds(1))) == 3
    assert seeds(1) == seeds(1)
    assert not set(seeds(1)) & set(seeds(2))


@pytest.mark.parametrize(("mode", "own"), [("classic", False), ("accurate", True), ("l4s", True)])
def test_a_class_says_how_it_uses_ecn(mode: str, own: bool) -> None:
    starts: list[str] = []
    marked: list[int] = []
    cuts: list[str] = []

    class Marked(Aimd):  # type: ignore[misc]
        ecn = mode
        responds_to_marks = own

        def on_start(self, event: Start) -> None:
            starts.append(event.ecn)

        def on_ack(self, ack: Ack) -> None:
            super().on_ack(ack)
            marked.append(ack.ce_packets)
            if own and ack.ce:
                self.cwnd = max(self.cwnd - ack.ce // 2, 2 * MSS)

        def on_congestion(self, event: Congestion) -> None:
            cuts.append(event.kind)
            super().on_congestion(event)

    path = {"rate": "20Mbit", "rtt": "40ms", "queue": {"kind": "codel", "ecn": True}}
    result = run(Marked, flow={"ecn": True}, path=path, duration="10s")
    assert starts == [mode]
    assert result.summary["links"][0]["marks"] > 0
    if own:
        # Counters are exact; marks in flight at the end are not told any more.
        assert 0 < sum(marked) <= result.summary["links"][0]["marks"]
        assert "ecn" not in cuts
    else:
        assert "ecn" in cuts


def test_an_exception_ends_the_run_and_keeps_what_was_recorded() -> None:
    class Failing(Window):
        def on_ack(self, ack: Ack) -> None:
            if ack.now > 2_000_000_000:
                raise ArithmeticError("out of ideas")

    with pytest.raises(dumbbell.ControllerError) as caught:
        run(Failing)
    error = caught.value
    assert isinstance(error.__cause__, ArithmeticError)
    assert error.flow == "mine-1"
    assert 2_000_000_000 < error.now_ns < 2_100_000_000
    assert "out of ideas" in error.traceback
    assert 'raise ArithmeticError("out of ideas")' in error.traceback
    assert error.traceback in str(error)
    assert not error.partial.complete
    assert error.partial.to_polars("flow_series")["t"].max() == pytest.approx(2.0, abs=0.11)


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("cwnd", 0, "1 or more"),
        ("cwnd", -5, "1 or more"),
        ("cwnd", float("nan"), "1 or more"),
        ("cwnd", float("inf"), "1 or more"),
        ("cwnd", True, "1 or more"),
        ("cwnd", "10", "number of bytes"),
        ("cwnd", None, "number of bytes"),
        ("ssthresh", 0, "1 or more"),
        ("ssthresh", "inf", "number of bytes"),
        ("pacing_rate", 0, "positive number"),
        ("pacing_rate", float("inf"), "positive number"),
    ],
)
def test_a_wrong_value_ends_the_run(attribute: str, value: object, expected: str) -> None:
    class Wrong(Window):
        def on_ack(self, ack: Ack) -> None:
            setattr(self, attribute, value)

    with pytest.raises(dumbbell.ControllerError) as caught:
        run(Wrong)
    assert attribute in caught.value.traceback
    assert expected in caught.value.traceback
    assert repr(value) in caught.value.traceback


def test_no_threshold_and_infinity_are_the_same() -> None:
    class NoThreshold(Aimd):  # type: ignore[misc]
        ssthresh = None

        def on_ack(self, ack: Ack) -> None:
            pass

    series = run(NoThreshold, duration="1s", path={"rate": "1Gbit", "rtt": "40ms"})
    assert series.to_polars("flow_series")["ssthresh"].is_nan().all()


def bad_constructor() -> object:
    raise RuntimeError("no luck")


class BadRecord(Window):
    record = "alpha"  # type: ignore[assignment]


class BadStyle(Window):
    recovery_style = "fast"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (bad_constructor, "no luck"),
        (dict, "expected an instance of dumbbell.CongestionControl, got dict"),
        (BadRecord, "record must be a tuple of attribute names"),
        (BadStyle, "recovery_style must be 'prr' or 'own'"),
    ],
)
def test_what_cannot_be_built_is_one_line(make: Callable[[], object], expected: str) -> None:
    with pytest.raises(dumbbell.ScenarioError) as caught:
        run(make)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_parameters_are_refused() -> None:
    with pytest.raises(dumbbell.ScenarioError, match="Window has no parameter 'alfa'"):
        run(Window, flow={"params": {"alfa": 1}})
    result = run(Window, flow={"params": {"segments": 4}})
    assert result.to_polars("flow_series")["cwnd"].max() == 4


def test_interrupt_in_a_controller_ends_the_run_cleanly() -> None:
    class Interrupted(Window):
        def on_ack(self, ack: Ack) -> None:
            if ack.now > 1_000_000_000:
                raise KeyboardInterrupt

    result = run(Interrupted)
    assert not result.complete
    assert 1 < result.summary["totals"]["simulated_s"] < 1.1


def test_a_scenario_names_a_class_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(
        "from dumbbell import CongestionControl\n"
        "class Beside(CongestionControl):\n"
        "    def on_start(self, event):\n"
        "        self.cwnd = 3 * event.mss\n"
    )
    file = tmp_path / "scenario.toml"
    file.write_text(
        'duration = "1s"\n'
        '[path]\nrate = "10Mbit"\nrtt = "20ms"\n'
        '[[flows]]\ncc = "python:beside:Beside"\n'
    )
    series = dumbbell.run(file).to_polars("flow_series")
    assert series["cwnd"].max() == 3
