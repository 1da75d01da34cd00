"""Pairs of flows over a dual queue, one queue and queues for each flow, against a testbed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell._fairness import jain
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, Published, factor, thread_pool, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_REPORT = "heistp/l4s-tests, November 2020"
_SECONDS = 180
_JAIN = 0.01
_RATE = 0.20
_DUALPI2 = {"kind": "dualpi2"}
_CNQ = {"kind": "cnq"}
_FQ_CODEL = {"kind": "fq_codel"}
_PFIFO = {"kind": "fifo", "limit": "1000p"}
_CODEL = {"kind": "fq_codel", "flows": 1}
_PIE = {"kind": "pie", "ecn": True}


@dataclass(frozen=True)
class _Pair:
    """Two flows as (controller, base RTT in ms), and the Mbit/s that each got."""

    queue: dict[str, Any]
    first: tuple[str, int]
    second: tuple[str, int]
    published: tuple[float, float]

    @property
    def title(self) -> str:
        name = "CoDel, one queue" if self.queue is _CODEL else self.queue["kind"]
        flows = (f"{cc} {rtt} ms" for cc, rtt in (self.first, self.second))
        return f"{name}: {' and '.join(flows)}"


_BY_RATE = [
    _Pair(_DUALPI2, ("cubic", 20), ("prague", 20), (14.94, 32.39)),
    _Pair(_DUALPI2, ("cubic", 80), ("prague", 80), (17.85, 29.58)),
    _Pair(_DUALPI2, ("cubic", 20), ("cubic", 20), (24.80, 22.67)),
    _Pair(_DUALPI2, ("prague", 80), ("prague", 20), (5.80, 41.48)),
    _Pair(_PFIFO, ("cubic", 20), ("prague", 20), (35.44, 12.24)),
    _Pair(_PFIFO, ("cubic", 80), ("prague", 80), (43.71, 3.74)),
    _Pair(_PFIFO, ("cubic", 80), ("cubic", 20), (22.32, 25.14)),
]
_BY_FAIRNESS = [
    _Pair(_CNQ, ("cubic", 20), ("prague", 20), (22.66, 24.68)),
    _Pair(_CNQ, ("cubic", 80), ("prague", 80), (20.70, 26.57)),
    _Pair(_CNQ, ("cubic", 80), ("cubic", 20), (21.36, 25.43)),
    _Pair(_CNQ, ("cubic", 80), ("cubic", 80), (23.63, 23.03)),
    _Pair(_FQ_CODEL, ("cubic", 20), ("prague", 20), (23.31, 24.02)),
    _Pair(_FQ_CODEL, ("cubic", 80), ("cubic", 20), (22.24, 24.54)),
]
_BY_STARVATION = [
    _Pair(_CODEL, ("prague", 20), ("cubic", 20), (45.70, 1.94)),
    _Pair(_CODEL, ("prague", 20), ("reno", 20), (46.60, 1.10)),
    _Pair(_PIE, ("prague", 20), ("cubic", 20), (45.69, 1.98)),
    _Pair(_PIE, ("prague", 20), ("reno", 20), (46.94, 0.78)),
]


def _measure(pair: _Pair) -> tuple[float, float]:
    """Mbit/s of both flows over a minute that ends 2 s before the end."""
    flows = [
        {"id": name, "cc": cc, "rtt": f"{rtt}ms", "ecn": True, "stop": f"{_SECONDS - 2}s"}
        for name, (cc, rtt) in (("first", pair.first), ("second", pair.second))
    ]
    result = run_scenario(
        {
            "duration": f"{_SECONDS}s",
            "warmup": f"{_SECONDS - 62}s",
            "path": {"rate": "50Mbit", "rtt": "20ms", "queue": pair.queue},
            "flows": flows,
        }
    )
    first, second = (flow["goodput_bps"] / 1e6 for flow in result.summary["flows"])
    return first, second


def _ratio(rates: tuple[float, float]) -> float:
    return rates[0] / rates[1]


def _fairness(pair: _Pair) -> Published:
    index = jain(pair.published)
    return Published(
        f"{pair.title}: Jain index", "", _REPORT, index, index - _JAIN, index + _JAIN, f"±{_JAIN}"
    )


def _run(quick: bool) -> Outcome:
    by_rate = [pair for pair in _BY_RATE if pair.queue is _DUALPI2] if quick else _BY_RATE
    pairs = [*by_rate, *_BY_FAIRNESS, *_BY_STARVATION]
    with thread_pool() as pool:
        rates = list(pool.map(_measure, pairs))
    measured = dict(zip(map(id, pairs), rates, strict=True))
    rows = []
    for pair in by_rate:
        sides = zip((pair.first, pair.second), pair.published, measured[id(pair)], strict=True)
        for number, ((cc, rtt), published, ours) in enumerate(sides, start=1):
            what = f"{pair.title}: flow {number}, {cc} {rtt} ms"
            rows.append(within(what, published, _RATE, unit="Mbit/s", source=_REPORT).judge(ours))
    rows += [_fairness(pair).judge(jain(measured[id(pair)])) for pair in _BY_FAIRNESS]
    rows += [
        factor(f"{pair.title}: ratio", _ratio(pair.published), 2, source=_REPORT).judge(
            _ratio(measured[id(pair)])
        )
        for pair in _BY_STARVATION
    ]
    return Outcome(rows, lambda: _draw(pairs, rates))


def _draw(pairs: list[_Pair], rates: list[tuple[float, float]]) -> Figure:
    """Our rates as dots, those of the testbed as rings."""
    from dumbbell._plots import figure
    from dumbbell._plots_panels import COLOURS

    made, axes = figure(1, 1, (6.5, 4.2))
    ax = axes[0, 0]
    places = np.arange(len(pairs))[::-1]
    for place, pair, ours in zip(places, pairs, rates, strict=True):
        for side, colour in ((0, COLOURS[0]), (1, COLOURS[1])):
            ax.plot(pair.published[side], place, "o", markersize=7, markerfacecolor="none",
                    markeredgecolor=colour)  # fmt: skip
            ax.plot(ours[side], place, "o", markersize=3, color=colour)
    ax.set_yticks(places, [pair.title for pair in pairs], fontsize=7)
    ax.set_xlim(0, 50)
    ax.set_xlabel("goodput (Mbit/s); ring: testbed, dot: here")
    handles = [
        ax.plot([], [], "o", markersize=4, color=colour, label=label)[0]
        for colour, label in ((COLOURS[0], "first flow"), (COLOURS[1], "second flow"))
    ]
    made.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)
    return made


PAPER = Paper(
    name="l4s-tests",
    title="Pairs of flows over DualPI2, CodelAF, FQ-CoDel, CoDel, PIE and a FIFO",
    source="P. Heist, tests of L4S, github.com/heistp/l4s-tests, November 2020",
    setup=(
        "50 Mbit/s, two flows with ECN of 20 or 80 ms for three minutes; rates are means of the "
        "minute that ends 2 s before the end. The report ran Linux of 2020 in network namespaces."
    ),
    run=_run,
)
