"""Controllers for media written in Python, and Python controllers inside priority layers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from polars.testing import assert_frame_equal

import dumbbell
from dumbbell import CongestionControl, MediaControl
from dumbbell._core import MediaFeedback

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from aimd import Aimd  # type: ignore[import-not-found]

SECOND = 1_000_000_000


def scenario(flow: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "duration": "20s",
        "path": {"rate": "10Mbit", "rtt": "40ms"},
        "flows": [{"id": "video", "transport": "rtp", "cc": "mine", **(flow or {})}],
        **changes,
    }


def last(result: dumbbell.Result, variable: str) -> float:
    """The last recorded value of a variable of the controller."""
    series = result.to_polars("controller_series")
    return float(series.filter(series["name"] == variable)["value"][-1])


class Steady(MediaControl):
    """A constant rate, and account of what was sent and reported."""

    target_rate = 1e6
    send_rate = 2e6
    record = ("sent", "arrived", "lost", "marked", "in_flight")
    sent = arrived = lost = marked = in_flight = 0
    gaps: ClassVar[list[tuple[int, int]]] = []

    def on_start(self, now: int) -> None:
        self.gaps.clear()
        self.reported: set[int] = set()
        self.last_sent: tuple[int, int] | None = None

    def on_sent(self, now: int, size: int, in_flight: int) -> None:
        if self.last_sent is not None:
            self.gaps.append((now - self.last_sent[0], self.last_sent[1]))
        self.last_sent = (now, size)
        self.sent += size
        self.in_flight = in_flight

    def on_feedback(self, feedback: MediaFeedback) -> None:
        for result in feedback.results:
            assert result.seq not in self.reported
            self.reported.add(result.seq)
            if result.arrival is None:
                self.lost += result.size
            else:
                assert result.arrival - result.sent >= 20e6, "one way takes 20 ms at least"
                self.arrived += result.size
            self.marked += result.ce
        self.in_flight = feedback.in_flight
        assert feedback.rtt >= 40e6


def test_the_encoder_follows_and_the_pacer_keeps_to_the_rate() -> None:
    """1 Mbit/s of IP packets; the gap after a packet is its size over the pacing rate."""
    result = dumbbell.run(scenario(), controllers={"mine": Steady})
    assert last(result, "sent") * 8 / 20 == pytest.approx(1e6, rel=0.05)
    behind = [gap - size * 8 * SECOND / 2e6 for gap, size in Steady.gaps]
    assert min(behind) >= -1
    assert sum(abs(late) <= 1 for late in behind) > len(behind) / 2
    assert result.summary["flows"][0]["cc"] == "mine"


def test_every_packet_is_accounted_for() -> None:
    result = dumbbell.run(
        scenario(path={"rate": "10Mbit", "rtt": "40ms", "loss": 0.05}, duration="60s"),
        controllers={"mine": Steady},
    )
    accounted = last(result, "arrived") + last(result, "lost") + last(result, "in_flight")
    assert last(result, "sent") == accounted
    lost = last(result, "lost") / last(result, "sent")
    assert lost == pytest.approx(0.05, abs=0.01)


def test_marks_arrive() -> None:
    queue = {"kind": "step", "threshold": "1p"}
    flow = {"options": {"ecn": "l4s"}}
    result = dumbbell.run(
        scenario(flow, path={"rate": "1Mbit", "rtt": "40ms", "queue": queue}),
        controllers={"mine": Steady},
    )
    link = result.summary["links"][0]
    assert last(result, "lost") == 0
    assert 0 < last(result, "marked") <= link["marks"]


def test_a_module_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "slow_media.py").write_text(
        "from dumbbell import MediaControl\n\n\nclass Slow(MediaControl):\n    target_rate = 2e5\n"
    )
    file = tmp_path / "video.toml"
    file.write_text(
        'duration = "10s"\n[path]\nrate = "10Mbit"\nrtt = "40ms"\n[[flows]]\ntransport = "rtp"\n'
        'cc = "python:slow_media:Slow"\nparams = { target_rate = 4e5 }\n'
    )
    result = dumbbell.run(file)
    assert last(result, "target_bps") == 4e5
    assert result.config["flows"][0]["transport"]["cc"]["params"] == {"target_rate": 4e5}
    sys.modules.pop("slow_media")


def test_rates_may_have_a_unit() -> None:
    """As those of the controllers that are built in."""
    flow = {"params": {"target_rate": "250kbit", "max_rate": 4e6}}
    result = dumbbell.run(scenario(flow), controllers={"mine": Steady})
    assert last(result, "target_bps") == 250e3
    flow = {"params": {"max_rate": "4M"}}
    expected = "max_rate = '4M': expected a rate with unit"
    with pytest.raises(dumbbell.ScenarioError, match=expected):
        dumbbell.run(scenario(flow), controllers={"mine": Steady})


class Broken(Steady):
    def on_feedback(self, feedback: MediaFeedback) -> None:
        if feedback.now > SECOND:
            raise ValueError("lost my way")


class Negative(Steady):
    def on_feedback(self, feedback: MediaFeedback) -> None:
        self.target_rate = -1


@pytest.mark.parametrize(
    ("controller", "message"),
    [
        (Broken, "lost my way"),
        (Negative, "target_rate must be a positive number of bits per second, not -1"),
    ],
)
def test_an_exception_ends_the_run(controller: type[MediaControl], message: str) -> None:
    with pytest.raises(dumbbell.ControllerError, match=message) as caught:
        dumbbell.run(scenario(), controllers={"mine": controller})
    assert caught.value.flow == "video"
    assert not caught.value.partial.complete
    assert message in caught.value.traceback


@pytest.mark.parametrize(
    ("transport", "controller", "expected"),
    [
        ("rtp", CongestionControl, "expected an instance of dumbbell.MediaControl, got Cong"),
        ("tcp", MediaControl, "expected an instance of dumbbell.CongestionControl, got Media"),
        ("plt", MediaControl, "expected an instance of dumbbell.CongestionControl, got Media"),
    ],
)
def test_each_transport_has_its_own_kind(
    transport: str, controller: type[Any], expected: str
) -> None:
    with pytest.raises(dumbbell.ScenarioError, match=expected):
        dumbbell.run(scenario({"transport": transport}), controllers={"mine": controller})


def test_coupled_flows_are_given_their_rates() -> None:
    """RFC 8699: by priority, whatever each computes for itself."""

    class Computes(MediaControl):
        max_rate = 4e6

        def on_feedback(self, feedback: MediaFeedback) -> None:
            # What it would have for itself; the exchange then says what it gets.
            self.target_rate = self.target_rate * 1.0

    flows = [
        {"id": name, "transport": "rtp", "cc": "mine", "traffic": {"kind": "video"}, **params}
        for name, params in (
            ("first", {"params": {"target_rate": 6e5}}),
            ("second", {"params": {"target_rate": 6e5}}),
        )
    ]
    coupling = {"host": {"kind": "fse", "flows": ["first", "second"], "priorities": {"first": 2}}}
    result = dumbbell.run(scenario(flows=flows, coupling=coupling), controllers={"mine": Computes})
    series = result.to_polars("controller_series")
    targets = {
        name: series.filter((series["name"] == "target_bps") & (series["flow"] == name))["value"][
            -1
        ]
        for name in ("first", "second")
    }
    assert targets["first"] == pytest.approx(2 * targets["second"])
    assert targets["first"] + targets["second"] == pytest.approx(1.2e6)


@pytest.mark.parametrize("loss", [0.0, 0.001])
def test_aimd_in_the_high_class_equals_the_built_in_reno(loss: float) -> None:
    """Priority layers take any window controller, one of the user's too, to the byte."""

    def outcome(cc: str) -> dumbbell.Result:
        return dumbbell.run(
            scenario(
                {"id": "layers", "transport": "plt", "cc": cc},
                path={"rate": "20Mbit", "rtt": "40ms", "queue": "prio", "loss": loss},
            ),
            controllers={"aimd": Aimd},
        )

    ours, reno = outcome("aimd"), outcome("reno")
    assert ours.summary["flows"][0]["cc"] == "plt-aimd"
    for table in ("flow_series", "link_series"):
        assert_frame_equal(ours.to_polars(table), reno.to_polars(table), check_exact=True)
