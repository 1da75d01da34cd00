"""The test cases of RFC 8867 under a controller, and what is measured of them."""

from __future__ import annotations

import tomllib
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
    frames: dict[str, tuple[NDArray[Any], NDArray[Any]]] = field(repr=False)
    """Time of capture and delay (ms, NaN if lost) of each flow's frames."""

    @classmethod
    def run(cls, case: str, cc: str) -> Measured:
        """Run a case."""
        result = run_scenario(scenario(case, cc))
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

    def rows(self) -> list[dict[str, Any]]:
        """A row for each flow."""
        found = []
        for flow in self.summary["flows"]:
            media = flow["media"] or {}
            found.append(
                {
                    "case": self.case,
                    "controller": self.cc,
                    "flow": flow["id"],
                    "rate (Mbit/s)": round(flow["goodput_bps"] / 1e6, 3),
                    "lost packets (%)": round(100 * flow["loss_ratio"], 2),
                    "frame delay p50 (ms)": _rounded(media, "p50"),
                    "p95 (ms)": _rounded(media, "p95"),
                    "lost frames": media.get("lost_frames", "-"),
                    "freezes": media.get("freezes", "-"),
                    "frozen (s)": round(media["freeze_s"], 2) if media else "-",
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
    def run(cls, flows: int, capacity_bps: float, noise: float) -> Rest:
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
            }
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

    def row(self) -> dict[str, Any]:
        return {
            "flows": self.flows,
            "capacity (Mbit/s)": self.capacity_bps / 1e6,
            "noise": self.noise,
            "RFC 8698 (ms)": round(self.expected, 1),
            "signal (ms)": round(self.signal, 1),
            "queue (ms)": round(self.queue, 1),
        }


def _rounded(media: dict[str, Any], key: str) -> Any:
    value = (media.get("frame_delay_ms") or {}).get(key)
    return "-" if value is None else round(value, 1)


def _mean(t: NDArray[Any], values: NDArray[Any], start: float, end: float) -> float:
    return float(np.nanmean(values[(t > start) & (t <= end)]))
