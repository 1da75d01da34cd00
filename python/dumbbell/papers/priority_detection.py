"""PLT-shutdown: how well the end-to-end test for priority queueing tells."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell._plots_data import columns
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, between, thread_pool
from dumbbell.papers.priority_layers import fifo, layers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_IDEA = "PLT's slides, future work; the test is a reconstruction"
_RATES_MBPS = (10, 50, 250)
_BUFFERS_BDP = (0.25, 1, 2)
_RTT_MS = 40
_PACKET = 1000
_LOADS: dict[str, list[dict[str, Any]]] = {
    "alone": [],
    "TCP": [{"id": "other", "cc": "cubic"}],
    "5 TCP": [{"id": "other", "cc": "cubic", "count": 5, "stagger": "100ms"}],
    "UDP 50 %": [{"id": "other", "transport": "udp"}],
    "UDP 95 %": [{"id": "other", "transport": "udp"}],
}
_UDP_SHARES = {"UDP 50 %": 0.5, "UDP 95 %": 0.95}
_QUICK = ("alone", "TCP")
PRIORITY, UNKNOWN, NONE = "priority", "not known", "no priority"
_WORDS = {1.0: PRIORITY, 0.0: UNKNOWN, -1.0: NONE}


@dataclass(frozen=True)
class _Case:
    priority: bool
    mbps: int
    buffer_bdp: float
    load: str
    seed: int


@dataclass(frozen=True)
class _Told:
    """The first verdict and when, and the last."""

    first: str
    after_s: float
    last: str


def _others(case: _Case) -> list[dict[str, Any]]:
    flows = _LOADS[case.load]
    if case.load in _UDP_SHARES:
        rate = round(_UDP_SHARES[case.load] * case.mbps * 1e6 * 972 / 1000)
        traffic = {"kind": "rate", "rate": f"{rate}bit", "chunk": "972B"}
        flows = [flow | {"traffic": traffic} for flow in flows]
    return flows


def _measure(case: _Case, seconds: int) -> _Told:
    packets = max(10, round(case.buffer_bdp * case.mbps * 1e3 * _RTT_MS / 8 / _PACKET))
    # The others begin at 0; where in their cycles PLT comes is chance.
    start = float(np.random.default_rng(case.seed).uniform(1, 2))
    plt = {
        "id": "plt", "transport": "plt", "start": f"{start:.6f}s",
        "options": {"packet": f"{_PACKET}B", "shutdown": "auto"},
    }  # fmt: skip
    result = run_scenario(
        {
            "duration": f"{seconds}s",
            "interval": "100ms",
            "path": {
                "rate": f"{case.mbps}Mbit",
                "rtt": f"{_RTT_MS}ms",
                "overhead": "0B",
                "queue": layers(packets) if case.priority else fifo(packets),
            },
            "flows": [plt, *_others(case)],
        }
    )
    table = columns(result, "controller_series")
    rows = (table["flow"] == "plt") & (table["name"] == "priority")
    t, value = table["t"][rows], table["value"][rows]
    decided = np.flatnonzero(value != 0)
    if not decided.size:
        return _Told(UNKNOWN, float("nan"), UNKNOWN)
    first = decided[0]
    return _Told(_WORDS[float(value[first])], float(t[first]) - start, _WORDS[float(value[-1])])


def _share(told: list[_Told], word: str) -> float:
    return sum(one.last == word for one in told) / len(told)


def _run(quick: bool) -> Outcome:
    rates = _RATES_MBPS[1:2] if quick else _RATES_MBPS
    loads = _QUICK if quick else tuple(_LOADS)
    seeds = range(1, 2 if quick else 4)
    cases = [_Case(*values) for values in product((True, False), rates, _BUFFERS_BDP, loads, seeds)]
    with thread_pool() as pool:
        told = list(pool.map(lambda case: _measure(case, 6 if quick else 20), cases))
    measured = dict(zip(cases, told, strict=True))
    with_priority = [one for case, one in measured.items() if case.priority]
    without = [one for case, one in measured.items() if not case.priority]
    times = [one.after_s for one in told if one.first != UNKNOWN]
    rows = [
        between("priority found where there is one", 0.9, source=_IDEA).judge(
            _share(with_priority, PRIORITY)
        ),
        between("shut down although there is priority", high=0.05, source=_IDEA).judge(
            _share(with_priority, NONE)
        ),
        between("shut down where there is no priority", 0.9, source=_IDEA).judge(
            _share(without, NONE)
        ),
        between("priority seen where there is none", high=0.05, source=_IDEA).judge(
            _share(without, PRIORITY)
        ),
        between("median time until the verdict", high=5, unit="s", source=_IDEA).judge(
            float(np.median(times)) if times else float("inf")
        ),
    ]
    tables = {"Verdicts": [_row(case, one) for case, one in measured.items()]}
    return Outcome(rows, lambda: _draw(measured), tables)


def _row(case: _Case, told: _Told) -> dict[str, Any]:
    return {
        "bottleneck": "priority" if case.priority else "one FIFO",
        "Mbit/s": case.mbps,
        "buffer (bdp)": case.buffer_bdp,
        "load": case.load,
        "start": case.seed,
        "verdict": told.last,
        "after (s)": None if told.first == UNKNOWN else round(told.after_s, 1),
    }


def _draw(measured: dict[_Case, _Told]) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import COLOURS

    loads = [load for load in _LOADS if any(case.load == load for case in measured)]
    made, axes = figure(1, 2, (8.0, 3.0), sharey=True)
    colours = dict(zip((PRIORITY, NONE, UNKNOWN), (COLOURS[0], COLOURS[1], "#bbbbbb"), strict=True))
    for ax, priority in zip(axes[0], (True, False), strict=True):
        for index, load in enumerate(loads):
            counts = Counter(
                one.last
                for case, one in measured.items()
                if case.priority == priority and case.load == load
            )
            left = 0.0
            for verdict, colour in colours.items():
                width = counts[verdict] / counts.total()
                label = verdict if index == 0 else None
                ax.barh(index, width, left=left, color=colour, label=label)
                left += width
        ax.set_title("strict priority" if priority else "one FIFO", loc="left")
        ax.set(xlabel="share of paths", xlim=(0, 1))
    axes[0, 0].set_yticks(range(len(loads)), loads)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside upper right", ncols=3, frameon=False, fontsize=7)
    return made


PAPER = Paper(
    name="plt-shutdown",
    title="Telling end to end whether the bottleneck gives priority",
    source="Venkataraman, Francis, Kodialam, Lakshman, CoNEXT 2008 (future work)",
    setup=(
        "A PLT flow with shutdown = auto, 40 ms, 10 to 250 Mbit/s, buffers of 0.25 to 2 "
        "bandwidth-delay products, beside nothing, one or five CUBIC flows, or UDP of half or 95 % "
        "of the rate; over strict priority and over one FIFO; three random starts of each. The "
        "source only names the idea: the test, and what counts as good, are ours."
    ),
    run=_run,
)
