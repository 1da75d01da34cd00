"""PI2 beside PIE: steps of load and of capacity, and scalable flows beside Classic ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell._plots_data import columns
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, between, thread_pool, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dumbbell._results import Result

_PAPER = "De Schepper et al., CoNEXT 2016"
_TARGET_MS = 20
_PHASE_S = 50
_QUICK_PHASE_S = 20
_STEPS = (10, 30, 50, 30, 10)
"""Flows in each phase of the step of load."""
_SETTLING_S = 10
"""Left out of means at the start of a phase."""
_COMMON = {"target": f"{_TARGET_MS}ms", "tupdate": "32ms", "limit": "40000p", "ecn": True}
_PIE = {"kind": "pie", **_COMMON}
_PI2 = {"kind": "pi2", **_COMMON, "alpha": 0.3125, "beta": 3.125}
_RATES_MBPS = (4, 12, 40, 120, 200)
_RTTS_MS = (5, 10, 20, 50, 100)
_QUICK = ((12, 120), (10, 50))
_MIXES = ((1, 9), (3, 7), (5, 5), (7, 3), (9, 1))


def _load_step(queue: dict[str, Any], phase_s: int) -> Result:
    flows, before = [], 0
    for phase, count in enumerate(_STEPS):
        if count > before:
            # Those that begin with this phase end when there are fewer than before again.
            last = len(_STEPS) - phase
            flows.append(
                {
                    "cc": "reno",
                    "count": count - before,
                    "start": f"{phase * phase_s}s",
                    "stop": f"{last * phase_s}s",
                    "stagger": "10ms",
                }
            )
        before = count
    return run_scenario(
        {
            "duration": f"{len(_STEPS) * phase_s}s",
            "path": {"rate": "10Mbit", "rtt": "100ms", "queue": queue},
            "flows": flows,
        }
    )


def _capacity_step(queue: dict[str, Any], phase_s: int) -> Result:
    changes = [
        {"at": f"{phase_s}s", "rate": "20Mbit"},
        {"at": f"{2 * phase_s}s", "rate": "100Mbit"},
    ]
    return run_scenario(
        {
            "duration": f"{3 * phase_s}s",
            "path": {"rate": "100Mbit", "rtt": "100ms", "queue": queue, "changes": changes},
            "flows": [{"cc": "reno", "count": 20, "stagger": "50ms"}],
        }
    )


def _pair(queue: dict[str, Any], point: tuple[int, int], counts: tuple[int, int]) -> float:
    """Mean rate of a DCTCP flow over a CUBIC flow's, at a rate (Mbit/s) and a base RTT (ms)."""
    rate_mbps, rtt_ms = point
    result = run_scenario(
        {
            "duration": "60s",
            "warmup": "20s",
            "path": {"rate": f"{rate_mbps}Mbit", "rtt": f"{rtt_ms}ms", "queue": queue},
            "flows": [
                # The queue tells scalable traffic by ECT(1). In Linux's fixed point less than one
                # mark in 64 packets is none.
                {
                    "id": "dctcp",
                    "cc": "dctcp",
                    "params": {"linux": False},
                    "ecn": "l4s",
                    "count": counts[0],
                    "stagger": "50ms",
                },
                {"id": "cubic", "cc": "cubic", "count": counts[1], "stagger": "50ms"},
            ],
        }
    )
    rates = [flow["goodput_bps"] for flow in result.summary["flows"]]
    return float(np.mean(rates[: counts[0]]) / np.mean(rates[counts[0] :]))


def _peak_ms(result: Result, from_s: float, to_s: float) -> float:
    link = columns(result, "link_series")
    rows = (link["t"] > from_s) & (link["t"] <= to_s)
    return float(np.max(link["queue_delay_ms"][rows]))


def _mean_ms(result: Result, phase_s: int) -> float:
    """Mean over all phases, the start of each left out."""
    link = columns(result, "link_series")
    rows = link["t"] % phase_s > _SETTLING_S
    return float(np.mean(link["queue_delay_ms"][rows]))


def _run(quick: bool) -> Outcome:
    phase_s = _QUICK_PHASE_S if quick else _PHASE_S
    rates, rtts = _QUICK if quick else (_RATES_MBPS, _RTTS_MS)
    grid = [(rate, rtt) for rate in rates for rtt in rtts]
    with thread_pool() as pool:
        loads = dict(zip(("PIE", "PI2"), pool.map(
            lambda queue: _load_step(queue, phase_s), (_PIE, _PI2)), strict=True))  # fmt: skip
        drops = dict(zip(("PIE", "PI2"), pool.map(
            lambda queue: _capacity_step(queue, phase_s), (_PIE, _PI2)), strict=True))  # fmt: skip
        pi2 = list(pool.map(lambda point: _pair(_PI2, point, (1, 1)), grid))
        pie = list(pool.map(lambda point: _pair(_PIE, point, (1, 1)), grid))
        mixes = list(pool.map(lambda counts: _pair(_PI2, (40, 10), counts), _MIXES))
    peaks = {name: _peak_ms(result, phase_s, 2 * phase_s) for name, result in drops.items()}
    end = len(_STEPS) * phase_s
    overshoot = {name: _peak_ms(r, phase_s, end) for name, r in loads.items()}
    judged = [
        (
            within("step of load: PI2's mean queueing delay", _TARGET_MS, 0.3, unit="ms",
                   source=_PAPER),
            _mean_ms(loads["PI2"], phase_s),
        ),
        (
            between("step of load: PI2's highest delay over PIE's", high=1, source=_PAPER),
            overshoot["PI2"] / overshoot["PIE"],
        ),
        (
            within("fall of capacity: PIE's highest delay", 510, 0.1, unit="ms", source=_PAPER),
            peaks["PIE"],
        ),
        (
            between("fall of capacity: PI2's highest delay over PIE's", high=0.7, source=_PAPER),
            peaks["PI2"] / peaks["PIE"],
        ),
        (
            between("DCTCP over CUBIC under PI2: least", low=0.5, source=_PAPER),
            min(pi2),
        ),
        (
            between("DCTCP over CUBIC under PI2: greatest", high=2, source=_PAPER),
            max(pi2),
        ),
        (
            between("DCTCP over CUBIC under PIE: median", low=5, source=_PAPER),
            float(np.median(pie)),
        ),
        (
            between("mixes of ten flows under PI2: least ratio", low=0.5, source=_PAPER),
            min(mixes),
        ),
        (
            between("mixes of ten flows under PI2: greatest ratio", high=2, source=_PAPER),
            max(mixes),
        ),
    ]  # fmt: skip
    return Outcome(
        [published.judge(ours) for published, ours in judged],
        lambda: _draw(loads, drops, dict(zip(grid, pi2, strict=True)),
                      dict(zip(grid, pie, strict=True))),
    )  # fmt: skip


def _draw(
    loads: dict[str, Result],
    drops: dict[str, Result],
    pi2: dict[tuple[int, int], float],
    pie: dict[tuple[int, int], float],
) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import COLOURS

    made, axes = figure(1, 3, (9.0, 2.8))
    for ax, results, title in (
        (axes[0, 0], loads, "10, 30, 50, 30, 10 flows"),
        (axes[0, 1], drops, "100, 20, 100 Mbit/s"),
    ):
        for index, (name, result) in enumerate(results.items()):
            link = columns(result, "link_series")
            ax.plot(link["t"], link["queue_delay_ms"], color=COLOURS[index], linewidth=0.7,
                    label=name)  # fmt: skip
        ax.set_title(title, loc="left", fontsize=8)
        ax.set_xlabel("time (s)")
        ax.set_ylim(bottom=0)
    axes[0, 0].set_ylabel("queueing delay (ms)")
    right = axes[0, 2]
    for index, ratios in enumerate((pie, pi2)):
        right.plot([rtt for _, rtt in ratios], list(ratios.values()), "o", markersize=3,
                   color=COLOURS[index])  # fmt: skip
    right.axhspan(0.5, 2, color="#EEEEEE", zorder=0)
    right.set_xscale("log")
    right.set_yscale("log")
    rtts = sorted({rtt for _, rtt in pi2})
    right.set_xticks(rtts, [f"{rtt}" for rtt in rtts])
    right.minorticks_off()
    right.set_xlabel("base RTT (ms)")
    right.set_ylabel("DCTCP's rate over CUBIC's")
    right.set_title("pairs at 4 to 200 Mbit/s", loc="left", fontsize=8)
    made.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2,
                frameon=False)  # fmt: skip
    return made


PAPER = Paper(
    name="pi2-control",
    title="PI2 beside PIE: steps of load and capacity, and coexistence",
    source="De Schepper, Bondarenko, Tsang and Briscoe, PI2, CoNEXT 2016",
    setup=(
        "Target 20 ms, update every 32 ms, PI2's gains 5/16 and 50/16 Hz. Step of load: 10 Mbit/s, "
        "100 ms, 10 to 50 Reno flows in phases of 50 s. Step of capacity: 20 Reno flows, 100 ms. "
        "Pairs: one DCTCP flow, which the queue knows by ECT(1), and one CUBIC flow at 4 to 200 "
        "Mbit/s and 5 to 100 ms; mixes: ten flows at 40 Mbit/s and 10 ms. The paper's numbers are "
        "taken from its figures."
    ),
    run=_run,
)
