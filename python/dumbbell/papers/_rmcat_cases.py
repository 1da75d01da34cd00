"""The test cases of RFC 8867 under a controller, and what is measured of them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._fairness import jain
from dumbbell._plots_data import by_name, columns
from dumbbell._run import preset_file
from dumbbell._run import run as run_scenario

CONTROLLERS = ("nada", "scream", "gcc")
LIBWEBRTC_GCC = "gcc with libwebrtc's gains"
"""GCC whose threshold follows the delay as in libwebrtc, and not as in the draft."""
CASES = {
    "5.1": "5.1 changing\ncapacity, 1 flow",
    "5.2": "5.2 changing\ncapacity, 2 flows",
    "5.3": "5.3 congested\nfeedback, both ways",
    "5.4": "5.4 three flows",
    "5.5": "5.5 round trips\nof 20 to 300 ms",
    "5.6": "5.6 long TCP flow",
    "5.7": "5.7 short TCP\ntransfers",
    "5.8": "5.8 pause\nand resume",
}
FREE_BACK = "5.3, way back free"
"""Case 5.3 without the changes of the way back."""


def scenario(case: str, cc: str) -> dict[str, Any]:
    """The preset of a case, its media under this controller."""
    if case == FREE_BACK:
        document = scenario("5.3", cc)
        del document["topology"]["links"][1]["changes"]
        return document
    text = preset_file(f"rmcat-{case}").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    for flow in document["flows"]:
        if flow.get("transport") == "rtp":
            flow["cc"] = "gcc" if cc == LIBWEBRTC_GCC else cc
            flow["params"] = {"overuse": "libwebrtc"} if cc == LIBWEBRTC_GCC else {}
    return document


@dataclass(frozen=True)
class Measured:
    """A run of a case. Rates are of media packets' payload, Mbit/s; times in seconds."""

    case: str
    cc: str
    summary: dict[str, Any]
    flows: dict[str, tuple[NDArray[Any], NDArray[Any]]]
    """Time and goodput of each flow."""
    queue: tuple[NDArray[Any], NDArray[Any]]
    """Time and queueing delay (ms) of the first link."""
    capacity: NDArray[Any]
    """Of the first link at those times, Mbit/s."""
    throughput: NDArray[Any]
    """Of the first link at those times, headers included, Mbit/s."""
    frames: dict[str, tuple[NDArray[Any], NDArray[Any]]] = field(repr=False)
    """Time of capture and delay (ms, NaN if lost) of each flow's frames."""

    @classmethod
    def run(cls, case: str, cc: str, seed: int) -> Measured:
        """Run a case."""
        result = run_scenario(scenario(case, cc), seed=seed)
        link = columns(result, "link_series")
        first = link["link"] == result.summary["links"][0]["id"]
        series = by_name(columns(result, "flow_series"), "flow")
        frames = by_name(columns(result, "frames"), "flow")
        return cls(
            case,
            cc,
            result.summary,
            {name: (table["t"], table["goodput_bps"] / 1e6) for name, table in series},
            (link["t"][first], link["queue_delay_ms"][first]),
            link["capacity_bps"][first] / 1e6,
            link["throughput_bps"][first] / 1e6,
            {name: (table["t"], table["delay_ms"]) for name, table in frames},
        )

    @cached_property
    def media(self) -> list[str]:
        """Flows that carry media."""
        return list(self.frames)

    def rate(self, flow: str, start: float, end: float) -> float:
        """Mean rate of a flow."""
        return _mean(*self.flows[flow], start, end)

    def jain(self, start: float, end: float) -> float:
        """Fairness index of the media flows."""
        return jain([self.rate(flow, start, end) for flow in self.media])

    def queue_ms(self, start: float, end: float) -> float:
        """Mean queueing delay."""
        return _mean(*self.queue, start, end)

    def utilisation(self, start: float, end: float) -> float:
        """Media of the first link's capacity, or of all that these flows may send if less."""
        capacity = _mean(self.queue[0], self.capacity, start, end)
        return sum(self.rate(flow, start, end) for flow in self.media) / capacity

    def reached(self, flow: str, share: float, start: float) -> float:
        """Seconds from a time on until the mean of a second is at least so much."""
        t, rate = self.flows[flow]
        step = float(t[1] - t[0])
        smooth = np.convolve(rate, np.full(round(1 / step), step), mode="valid")
        at = t[len(t) - len(smooth) :]
        late = at[(at >= start + 1) & (smooth >= share)]
        return float(late[0] - start) if late.size else float("inf")


def flow_rows(runs: Sequence[Measured]) -> list[dict[str, Any]]:
    """A row for each flow of a case: means over its runs, and the rate's standard deviation."""
    found = []
    for flows in zip(*(run.summary["flows"] for run in runs), strict=True):
        rates = [flow["goodput_bps"] / 1e6 for flow in flows]
        media = [flow["media"] for flow in flows if flow["media"]]
        found.append(
            {
                "case": runs[0].case,
                "controller": runs[0].cc,
                "flow": flows[0]["id"],
                "rate (Mbit/s)": round(float(np.mean(rates)), 3),
                "spread (Mbit/s)": round(float(np.std(rates)), 3),
                "lost packets (%)": _average([100 * flow["loss_ratio"] for flow in flows], 2),
                "frame delay p50 (ms)": _average([m["frame_delay_ms"]["p50"] for m in media], 1),
                "p95 (ms)": _average([m["frame_delay_ms"]["p95"] for m in media], 1),
                "lost frames": _average([m["lost_frames"] for m in media], 1),
                "freezes": _average([m["freezes"] for m in media], 1),
                "frozen (s)": _average([m["freeze_s"] for m in media], 2),
            }
        )
    return found


@dataclass(frozen=True)
class Rest:
    """NADA flows at a capacity that stays: means of the last hundred seconds, ms."""

    flows: int
    capacity_bps: float
    noise: float
    signal: float
    """The flows' own estimate of the queueing delay, which they steer by."""
    queue: float
    """Wait of packets at the link."""

    @classmethod
    def run(cls, flows: int, capacity_bps: float, noise: float, seed: int) -> Rest:
        """Run so many flows, starting 7 s apart, under video with this much noise."""
        video = {"kind": "video", "size_noise": noise, "interval_noise": noise}
        result = run_scenario(
            {
                "duration": "240s",
                "path": {
                    "rate": f"{capacity_bps:.0f}bit",
                    "rtt": "100ms",
                    "overhead": "none",
                    "queue": {"kind": "fifo", "limit": f"{capacity_bps * 0.3 / 8:.0f}B"},
                },
                "flows": [
                    {"transport": "rtp", "cc": "nada", "traffic": video, "count": flows,
                     "stagger": "7s"}
                ],
            },
            seed=seed,
        )  # fmt: skip
        variables = columns(result, "controller_series")
        signal = variables["name"] == "x_curr_ms"
        link = columns(result, "link_series")
        return cls(
            flows,
            capacity_bps,
            noise,
            _mean(variables["t"][signal], variables["value"][signal], 140, 240),
            _mean(link["t"], link["queue_delay_ms"], 140, 240),
        )

    @property
    def expected(self) -> float:
        """RFC 8698: 10 ms times the greatest rate over a flow's share."""
        return 10 * 1.5e6 * self.flows / self.capacity_bps


def rest_row(runs: Sequence[Rest]) -> dict[str, Any]:
    """Means over runs of the same flows, and the signal's standard deviation."""
    signals = [run.signal for run in runs]
    return {
        "flows": runs[0].flows,
        "capacity (Mbit/s)": runs[0].capacity_bps / 1e6,
        "noise": runs[0].noise,
        "RFC 8698 (ms)": round(runs[0].expected, 1),
        "signal (ms)": _average(signals, 1),
        "spread (ms)": round(float(np.std(signals)), 1),
        "queue (ms)": _average([run.queue for run in runs], 1),
    }


def _average(values: Sequence[float], digits: int) -> Any:
    return round(float(np.mean(values)), digits) if values else "-"


def _mean(t: NDArray[Any], values: NDArray[Any], start: float, end: float) -> float:
    return float(np.nanmean(values[(t > start) & (t <= end)]))
