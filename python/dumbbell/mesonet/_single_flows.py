"""Single flows of the study's algorithms: when they leave TCP's congestion avoidance, how long they
take to the highest rate of a path and back to it, and what one loss does to them.

Unless it says otherwise a flow is one of the three long-lived ones of experiment 1: with a fast
interface (80 packets a millisecond), on an idle path whose slowest router, a D router at the lower
speed of 1b, is faster. Such a flow never loses a packet that a loss law did not take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._results import Result
from dumbbell._run import run
from dumbbell.mesonet._config import LONG_LIVED, PAYLOAD_BYTES
from dumbbell.mesonet._network import PACKET_BYTES
from dumbbell.mesonet._parameters import ALGORITHMS, NORMAL_TCP, Assumptions
from dumbbell.mesonet._topology import LINKS, Backbone, routers
from dumbbell.papers._paper import series

Controller = tuple[str, Mapping[str, Any]]
"""Name and parameters of a controller."""
Changes = Sequence[Mapping[str, Any]]
INTERFACE = 80
"""Packets a millisecond."""
ROUTER, BUFFER = 150, 6104
"""A D router of experiment 1b, lower speed, packets a millisecond, and its buffer of RTT x C."""
ACCESS = 21
"""Access speed of the study's verification dumbbell (section 5.4), packets a millisecond."""
INTERVAL_MS = 200
"""The study's measurement interval. Rates are over the next whole number of round trips, or they
would go up and down with the bursts that happen to be in an interval."""
LOW_THRESHOLD = 100
"""The study's low initial slow-start threshold."""
FULL = 0.9
"""Share of the highest rate that counts as reaching it."""
LOSS_AT_S = 3
_BITS = 8 * PACKET_BYTES
_SETTLED_S = 1.0
_LONGEST_S = 4000.0


def megabits(packets_per_ms: float) -> str:
    """A speed in packets of 1500 bytes as a rate."""
    return f"{packets_per_ms * _BITS / 1000:g}Mbit"


@dataclass(frozen=True)
class Condition:
    """A path of a long-lived flow, at one of the levels of x2."""

    path: str
    propagation: int
    rtt_ms: int

    @property
    def bdp(self) -> int:
        """Packets in flight at the interface's speed."""
        return INTERFACE * self.rtt_ms


@cache
def conditions() -> tuple[Condition, ...]:
    """The three long-lived flows of experiment 1 at both levels of propagation."""
    ways = Backbone({link: ms * 10**6 for link, ms in LINKS.items()}).ways()
    found = []
    for name, (one, other) in zip(
        LONG_LIVED, Assumptions.model_validate({}).long_lived_pairs, strict=True
    ):
        way = ways[routers()[one].backbone, routers()[other].backbone]
        rtt_ms = 2 * sum(delay for _, delay in way) // 10**6
        found += [Condition(name, x2, x2 * rtt_ms) for x2 in (1, 2)]
    return tuple(found)


def flow(
    controller: Controller, name: str = "f", *, ssthresh: int | None = None, **keys: Any
) -> dict[str, Any]:
    """A flow of a scenario with the study's TCP."""
    cc, params = controller
    given = dict(params) if ssthresh is None else {**params, "initial_ssthresh": ssthresh}
    return {
        "id": name, "cc": cc, "params": given, "initial_window": 2, "ack_every": 1,
        "min_rto": "1s", "syn_timeout": "3s", "tlp": False, **keys,
    }  # fmt: skip


def idle_path(
    controller: Controller,
    rtt_ms: int,
    duration_s: float,
    *,
    ssthresh: int,
    interval_ms: int | None = None,
    seed: int = 1,
    **path: Any,
) -> Result:
    """One flow with a fast interface alone on a path."""
    return run(
        {
            "duration": f"{duration_s}s",
            "interval": f"{interval_ms or -(-INTERVAL_MS // rtt_ms) * rtt_ms}ms",
            "seed": seed,
            "path": {
                "rate": megabits(ROUTER), "rtt": f"{rtt_ms}ms", "overhead": "0B",
                "queue": {"kind": "fifo", "limit": f"{BUFFER}p"}, **path,
            },
            "flows": [flow(controller, ssthresh=ssthresh, max_rate=megabits(INTERFACE))],
        }
    )  # fmt: skip


@dataclass(frozen=True)
class Rise:
    """A flow's way to the highest rate: `t` in seconds from where time counts (ends of intervals),
    `rate` as a share of the highest, `latency` in seconds."""

    t: NDArray[Any]
    rate: NDArray[Any]
    latency: float


def _rise(result: Result, since_s: float) -> Rise | None:
    """None if the flow is not yet at the highest rate for good."""
    t, goodput = series(result, "flow_series", "f", "t", "goodput_bps")
    t = t - since_s
    rate = goodput / (INTERFACE * 8000 * PAYLOAD_BYTES)
    below = t[(rate < FULL) & (t > 0)]
    latency = float(below[-1]) if len(below) else 0.0
    return Rise(t, rate, latency) if latency < t[-1] - _SETTLED_S else None


def _until_full(start: Callable[[float], Result], since_s: float, first_s: float) -> Rise:
    """The shortest of runs, each twice as long as the one before, that reaches the highest rate."""
    length = first_s
    while length < _LONGEST_S:
        found = _rise(start(since_s + length), since_s)
        if found is not None:
            return found
        length *= 2
    raise AssertionError("a flow alone on a path without loss does not reach its rate")


def _first_s(condition: Condition) -> float:
    return _SETTLED_S + 0.1 * condition.rtt_ms


def goodput_rise(controller: Controller, condition: Condition) -> Rise:
    """From the start, with the low slow-start threshold, to 90 % of the highest rate."""

    def start(duration_s: float) -> Result:
        return idle_path(controller, condition.rtt_ms, duration_s, ssthresh=LOW_THRESHOLD)

    return _until_full(start, 0, _first_s(condition))


def recovery_rise(
    controller: Controller, condition: Condition, *, loss: float, lasting_s: int
) -> Rise:
    """At the highest rate from slow start on; from 3 s random loss for a time; from its end to
    90 % of the highest rate."""
    end = LOSS_AT_S + lasting_s
    changes: Changes = [{"at": f"{LOSS_AT_S}s", "loss": loss}, {"at": f"{end}s", "loss": 0}]

    def start(duration_s: float) -> Result:
        return idle_path(
            controller, condition.rtt_ms, duration_s, ssthresh=condition.bdp, changes=changes,
            seed=condition.rtt_ms,
        )  # fmt: skip

    return _until_full(start, end, _first_s(condition))


def single_loss_rise(controller: Controller, condition: Condition) -> Rise:
    """The same from one lost packet on, or two: all that leaves in 20 us."""
    changes: Changes = [
        {"at": f"{LOSS_AT_S}s", "loss": 1},
        {"at": f"{1000 * LOSS_AT_S}.02ms", "loss": 0},
    ]

    def start(duration_s: float) -> Result:
        return idle_path(
            controller, condition.rtt_ms, duration_s, ssthresh=condition.bdp, changes=changes
        )

    return _until_full(start, LOSS_AT_S, _first_s(condition))


@dataclass(frozen=True)
class Trigger:
    """Where an algorithm leaves TCP's congestion avoidance: the largest window with it and the
    least without (`normal`, `alternate`, packets), or seconds since a loss. Neither: no trigger."""

    normal: int | None = None
    alternate: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"{self.seconds:.2f} s without loss"
        if self.normal is None:
            return "none"
        return f"TCP up to {self.normal} packets, not from {self.alternate}"


def trigger(controller: Controller) -> Trigger:
    """From the phases of a flow that grows after a loss in a window below 14, with round-trip times
    of 20 and 40 ms: a trigger that is a window is the same window in both."""
    found: list[tuple[int, int, float]] = []
    for rtt_ms in (20, 40):
        nth = {"kind": "nth", "indexes": [60]}
        result = idle_path(controller, rtt_ms, 4, ssthresh=8, interval_ms=5, loss=nth)
        t, cwnd, phase = series(result, "flow_series", "f", "t", "cwnd", "phase")
        lost = int(np.flatnonzero(phase == "recovery")[0])
        open_ = lost + int(np.flatnonzero(phase[lost:] != "recovery")[0])
        normal = cwnd[open_:][phase[open_:] == "normal"]
        if not len(normal):
            return Trigger()
        first = open_ + int(np.flatnonzero(phase[open_:] == "alternate")[0])
        found.append((int(normal.max()), int(cwnd[first]), float(t[first] - t[open_])))
    (normal_, alternate, seconds), other = found
    if (normal_, alternate) == other[:2]:
        return Trigger(normal_, alternate)
    return Trigger(seconds=min(seconds, other[2]))


def same_as_reno(controller: Controller) -> bool:
    """Whether all that is recorded of a flow is equal to Reno's, bit for bit, while one packet in
    50 is lost: windows stay below 14, and losses less than a second apart."""
    pairs = zip(_lossy_trace(controller), _reno_trace(), strict=True)
    return all(np.array_equal(one, other, equal_nan=True) for one, other in pairs)


def _lossy_trace(controller: Controller) -> list[NDArray[Any]]:
    periodic = {"kind": "periodic", "period": 50}
    result = idle_path(controller, 20, 20, ssthresh=8, interval_ms=10, loss=periodic)
    names = ("t", "cwnd", "ssthresh", "goodput_bps", "inflight", "rtt_ms", "retransmits")
    return series(result, "flow_series", "f", *names)


@cache
def _reno_trace() -> list[NDArray[Any]]:
    return _lossy_trace(ALGORITHMS[NORMAL_TCP])


@dataclass(frozen=True)
class SingleLoss:
    """One loss: windows before and after it, packets, and round trips from the end of recovery to
    the window before."""

    before: float
    after: float
    rounds: float

    @property
    def factor(self) -> float:
        return self.after / self.before


def single_loss(controller: Controller, *, window: int = 1000) -> SingleLoss:
    """A loss just after slow start has ended at `window`, at 20 ms and without a queue."""
    found, duration_s = None, 3.0
    while found is None:
        found = _regain(controller, window, duration_s)
        duration_s *= 2
    return found


def _regain(controller: Controller, window: int, duration_s: float) -> SingleLoss | None:
    """None if the run is too short for the window to come back."""
    nth = {"kind": "nth", "indexes": [round(2.2 * window)]}
    result = idle_path(controller, 20, duration_s, ssthresh=window, interval_ms=1, loss=nth)
    names = ("t", "cwnd", "ssthresh", "phase")
    t, cwnd, ssthresh, phase = series(result, "flow_series", "f", *names)
    lost = int(np.flatnonzero(phase == "recovery")[0])
    over = lost + int(np.flatnonzero(phase[lost:] != "recovery")[0])
    before = float(cwnd[lost - 1])
    back = np.flatnonzero(cwnd[over:] >= before)
    if not len(back):
        return None
    return SingleLoss(before, float(ssthresh[over]), float(t[over + back[0]] - t[over]) / 0.02)


def reductions(controller: Controller, duration_s: int) -> NDArray[Any]:
    """Factors of the cuts of a flow that loses packets now and then, at random and to a drop-tail
    buffer of half of a BDP: access of the verification dumbbell, 42 ms."""
    result = run(
        {
            "duration": f"{duration_s}s",
            "interval": "2ms",
            "path": access_path(21, buffer=0.5, loss=2e-5),
            "flows": [flow(controller, ssthresh=800)],
        }
    )
    cwnd, ssthresh, phase = series(result, "flow_series", "f", "cwnd", "ssthresh", "phase")
    recovering = phase == "recovery"
    cuts = np.flatnonzero(recovering[1:] & ~recovering[:-1]) + 1
    return np.asarray(ssthresh[cuts] / cwnd[cuts - 1])


def access_path(delay_ms: int, *, buffer: float = 0.2, **keys: Any) -> dict[str, Any]:
    """The bottleneck of the verification dumbbell: 252 Mbit/s, one-way delay, and a buffer of
    `buffer` round trips at that speed (the dumbbell's own is 0.2 times the one-way delay)."""
    limit = round(buffer * ACCESS * 2 * delay_ms)
    return {
        "rate": megabits(ACCESS), "rtt": f"{2 * delay_ms}ms", "overhead": "0B",
        "queue": {"kind": "fifo", "limit": f"{limit}p"}, **keys,
    }  # fmt: skip
