"""Shared bottleneck detection: how often flows are told apart rightly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell._run import run as run_scenario
from dumbbell.papers._fse_runs import Spread, variable
from dumbbell.papers._paper import Outcome, Paper, between, thread_pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from dumbbell._results import Result

_RFC = "RFC 8382"
_SETTLED_S = 20
"""Until statistics are of their full length: 50 intervals of 350 ms."""
_FLOWS = ("one", "two")
_CROSS_FLOWS = 6
_CONFIRMATIONS = 10
"""Decisions in a row that must agree, in place of the single ones of the RFC."""
_TRANSPORTS: Mapping[str, dict[str, Any]] = {
    "constant rate": {
        "transport": "udp",
        "traffic": {"kind": "rate", "rate": "800kbit", "chunk": "972B"},
    },
    "rap": {"transport": "rap"},
}


@dataclass(frozen=True)
class _Crossing:
    """Cross traffic through one link."""

    link: str
    start_s: int = 0
    stop_s: int | None = None


def _cross(crossing: _Crossing, number: int) -> dict[str, Any]:
    """Bursts of a TCP flow."""
    link = crossing.link
    law = {"kind": "exponential", "mean": "2s"}
    return {
        "id": f"cross-{link}-{number}",
        "from": f"{link}-in",
        "to": f"{link}-out",
        "cc": "reno",
        "start": f"{crossing.start_s * 1000 + 50 + 170 * number}ms",
        **({} if crossing.stop_s is None else {"stop": f"{crossing.stop_s}s"}),
        "traffic": {
            "kind": "onoff",
            "on": law,
            "off": law,
        },
    }


def _network(rates_mbit: Mapping[str, int], changes: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Both senders go through the link `shared`, then one of them through `left` and the other
    through `right`. Each has a queue of half a second of 10 Mbit/s at most."""
    links = []
    for name, rate in rates_mbit.items():
        links.append(
            {
                "id": name,
                "from": f"{name}-in",
                "to": f"{name}-out",
                "rate": f"{rate}Mbit",
                "delay": "10ms",
                "duplex": False,
                "queue": {"kind": "fifo", "limit": "100p"},
                "changes": list(changes.get(name, ())),
            }
        )
    ways = [("shared-out", "left-in"), ("shared-out", "right-in")]
    for source, target in ways:
        links.append({"from": source, "to": target, "delay": "1ms", "duplex": False})
    for name in rates_mbit:
        links.append({"from": f"{name}-out", "to": f"{name}-in", "delay": "10ms", "duplex": False})
    links += [
        {"from": f"{side}-out", "to": "shared-in", "delay": "11ms", "duplex": False}
        for side in ("left", "right")
    ]
    return {"links": links}


def detect(
    kind: str,
    rates_mbit: Mapping[str, int],
    crossed: Sequence[_Crossing],
    seconds: int,
    seed: int,
    changes: Mapping[str, Sequence[Any]] | None = None,
    *,
    confirmations: int = 1,
) -> Result:
    """Two flows of a kind; links of these rates, and cross traffic."""
    return run_scenario(
        {
            "duration": f"{seconds}s",
            "seed": seed,
            "interval": "350ms",
            "topology": _network(rates_mbit, changes or {}),
            "flows": [
                *(
                    {"id": name, "from": "shared-in", "to": f"{side}-out", **_TRANSPORTS[kind]}
                    for name, side in zip(_FLOWS, ("left", "right"), strict=True)
                ),
                *(
                    _cross(crossing, number)
                    for crossing in crossed
                    for number in range(_CROSS_FLOWS)
                ),
            ],
            "coupling": {
                "seen": {
                    "kind": "observe",
                    "flows": [*_FLOWS],
                    "groups": "sbd",
                    "detection": {"confirmations": confirmations},
                }
            },
        }
    )


def grouped(result: Result) -> tuple[NDArray[Any], NDArray[Any]]:
    """Times, and whether both flows are in one group then."""
    t, first = variable(result, "one", "sbd_group")
    second = variable(result, "two", "sbd_group")[1]
    return t, first == second


def _right(result: Result, shared: bool, start: float, end: float) -> float:
    t, together = grouped(result)
    now = (t > start) & (t <= end)
    return float(np.mean(together[now] == shared))


_SHARED = {"shared": 10, "left": 50, "right": 50}
_APART = {"shared": 100, "left": 10, "right": 10}


def _run(quick: bool) -> Outcome:
    seconds, seeds = (150, (1, 2)) if quick else (300, tuple(range(1, 11)))
    turn = seconds // 2
    moves = {
        name: [{"at": f"{turn}s", "rate": f"{_APART[name]}Mbit"}]
        for name in ("shared", "left", "right")
    }
    moving = [
        _Crossing("shared", 0, turn),
        _Crossing("left", turn),
        _Crossing("right", turn),
    ]
    runs = {
        "shared": (_SHARED, [_Crossing("shared")], {}),
        "apart": (_APART, [_Crossing("left"), _Crossing("right")], {}),
        "moving": (_SHARED, moving, moves),
    }
    with thread_pool() as pool:
        begun = {
            (kind, run, confirmations, seed): pool.submit(
                detect, kind, rates, crossed, seconds, seed, changes, confirmations=confirmations
            )
            for kind in _TRANSPORTS
            for run, (rates, crossed, changes) in runs.items()
            for confirmations in (1, _CONFIRMATIONS)
            for seed in seeds
        }
        results = {key: future.result() for key, future in begun.items()}
    cases = (
        ("one queue", "shared", True, 0, seconds),
        ("different queues", "apart", False, 0, seconds),
        ("before the bottleneck moves", "moving", True, 0, turn),
        ("after it has moved", "moving", False, turn, seconds),
    )
    rows = []
    judged = []
    for kind in _TRANSPORTS:
        for name, run, shared, start, end in cases:
            single, confirmed = (
                Spread.of(
                    100 * _right(results[kind, run, needed, seed], shared, start + _SETTLED_S, end)
                    for seed in seeds
                )
                for needed in (1, _CONFIRMATIONS)
            )
            rows.append(
                {
                    "flows": kind,
                    "bottleneck": name,
                    "right, single (%)": single.mean,
                    "spread of single": single.deviation,
                    "right, ten in a row (%)": confirmed.mean,
                    "spread of ten": confirmed.deviation,
                }
            )
            criterion = between(
                f"{kind}, {name}: right decisions", low=90, unit="%", source=f"{_RFC}, criterion"
            )
            judged.append((criterion, confirmed.mean))
    shown = {kind: results[kind, "moving", _CONFIRMATIONS, seeds[0]] for kind in _TRANSPORTS}
    return Outcome(
        [published.judge(ours) for published, ours in judged],
        lambda: _draw(shown, turn),
        {"accuracy": rows},
    )


def _draw(shown: Mapping[str, Result], turn: int) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import COLOURS

    names = (
        ("sbd_skewness", "skewness"),
        ("sbd_variability_ms", "variability (ms)"),
        ("sbd_frequency", "frequency"),
    )
    made, axes = figure(4, len(shown), (4.0 * len(shown), 6.0), sharex=True, sharey="row")
    for column, (kind, result) in enumerate(shown.items()):
        for row, (name, label) in enumerate(names):
            ax = axes[row, column]
            for flow, colour, dash in zip(_FLOWS, COLOURS, ("-", "--"), strict=False):
                ax.plot(*variable(result, flow, name), color=colour, linestyle=dash,
                        label=f"flow {flow}")  # fmt: skip
            if column == 0:
                ax.set_ylabel(label)
        t, together = grouped(result)
        ax = axes[3, column]
        ax.plot(t, together, color="#000000", drawstyle="steps-post")
        ax.set_yticks([0, 1], ["apart", "together"])
        ax.set_xlabel("time (s)")
        axes[0, column].set_title(f"flows of {kind}" if kind == "constant rate" else "RAP flows",
                                  loc="left")  # fmt: skip
        for ax in axes[:, column]:
            ax.axvline(turn, color="#999999", linewidth=0.8, linestyle=":")
    axes[0, 0].legend(frameon=False, fontsize=7, ncols=2, loc="lower right")
    return made


PAPER = Paper(
    name="sbd",
    title="Shared bottleneck detection: groups found from one-way delays",
    source="Hayes, Ferlin, Welzl and Hiorth, RFC 8382",
    setup=(
        "Two flows, at 800 kbit/s or RAP, whose delays alone are looked at; a bottleneck of "
        "10 Mbit/s and 100 packets with six TCP flows that send and pause for 2 s each on "
        "average. It is one link for both flows, or one link each, or moves from the one to the "
        "others halfway. Right decisions are counted from 20 s after the start or the move, over "
        "ten runs of 300 s. The groups change when ten intervals in a row have found the same; the "
        "table has the RFC's single decisions too. RFC 8382 publishes no accuracy; the criterion "
        "of nine in ten is ours."
    ),
    run=_run,
)
