"""How flows share with the flow state exchange: priorities, round-trip times, limited applications,
background traffic."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from dumbbell.papers._fse_arithmetic import sawtooth
from dumbbell.papers._fse_runs import (
    RATE_BPS,
    RTT_MS,
    SLIDES,
    UPDATED,
    Allowed,
    Finished,
    Part,
    Plan,
    Rows,
    Setup,
    Spread,
    allowed,
    fairness,
    goodputs,
    repeat,
)
from dumbbell.papers._paper import between, series, within

if TYPE_CHECKING:
    from dumbbell._results import Result

_DEMAND_BPS = 4_000_000
"""What the application-limited flow needs, in place of a trace of a video conference."""
_DESIRED_BPS = _DEMAND_BPS * 1000 // 956
"""With the headers: packets of 1000 bytes hold 956."""
_STEPS = (1.0, 2.0, 4.0, 8.0)
"""Priority of the first flow over time."""


def _pair(exchange: Any, **more: Any) -> Setup:
    return Setup("rap", (RTT_MS, RTT_MS), exchange, **more)


def priority(pool: Executor, plan: Plan) -> Part:
    step_s = plan.seconds // len(_STEPS)
    changes = [
        {"at": f"{i * step_s}s", "flow": "flow-1", "priority": priority}
        for i, priority in enumerate(_STEPS)
    ]
    runs = repeat(
        pool, plan, _pair(UPDATED, coupling={"changes": changes}), partial(_shares, step_s)
    )

    one = Setup("rap", (RTT_MS,), None)
    alone = repeat(pool, plan, one, lambda result: goodputs(result)[0])

    def finish() -> Finished:
        by_run = runs()
        rows: Rows = []
        for i, priority in enumerate(_STEPS):
            ratio = Spread.of(one[i][0] for one in by_run)
            total = Spread.of(one[i][1] for one in by_run)
            rows.append(
                {
                    "priority of flow 1": priority,
                    "rate of flow 1 over flow 2": ratio.mean,
                    "spread": ratio.deviation,
                    "total (Mbit/s)": total.mean / 1e6,
                }
            )
        error = max(
            abs(r["rate of flow 1 over flow 2"] / r["priority of flow 1"] - 1) for r in rows
        )
        return [
            (
                between("priorities: greatest error of the ratio of rates", high=0.02,
                        source=f"{SLIDES}, slide 15"),
                error,
            ),
            (
                between("priorities: least total, of what one flow gets", low=0.95,
                        source=f"{SLIDES}, slide 15"),
                min(r["total (Mbit/s)"] for r in rows[1:]) * 1e6 / fmean(alone()),
            ),
        ], {"priority over time": rows}  # fmt: skip

    return finish


def _shares(step_s: int, result: Result) -> list[tuple[float, float]]:
    """In each step, its first second left out: ratio and sum of the goodputs."""
    t, first = series(result, "flow_series", "flow-1", "t", "goodput_bps")
    (second,) = series(result, "flow_series", "flow-2", "goodput_bps")
    found = []
    for i in range(len(_STEPS)):
        now = (t > i * step_s + 2) & (t <= (i + 1) * step_s)
        ours, others = float(first[now].sum()), float(second[now].sum())
        found.append((ours / others, (ours + others) / int(now.sum())))
    return found


def round_trips(pool: Executor, plan: Plan) -> Part:
    begun = []
    for exchange in (UPDATED, None):
        for ratio in plan.ratios:
            setup = Setup("rap", (ratio * 10, 10), exchange)
            begun.append(("2", f"{ratio}:1", exchange, repeat(pool, plan, setup, fairness)))
        for unit in plan.units_ms:
            setup = Setup("rap", tuple(unit * n for n in (16, 8, 4, 2, 1)), exchange)
            name = ":".join(str(unit // 10 * n) for n in (16, 8, 4, 2, 1))
            begun.append(("5", name, exchange, repeat(pool, plan, setup, fairness)))

    def finish() -> Finished:
        rows: Rows = []
        for flows, name, exchange, runs in begun:
            index = Spread.of(runs())
            rows.append(
                {
                    "flows": flows,
                    "round-trip times (10 ms)": name,
                    "FSE": exchange is not None,
                    "Jain": index.mean,
                    "spread": index.deviation,
                }
            )
        coupled = [row["Jain"] for row in rows if row["FSE"]]
        alone = [row["Jain"] for row in rows if not row["FSE"] and row["flows"] == "2"]
        source = f"{SLIDES}, slide 15"
        return [
            (between("fairness with FSE: least index", low=0.99, source=source), min(coupled)),
            (
                between("fairness without FSE, two flows, highest ratio", high=0.9, source=source),
                alone[-1],
            ),
        ], {"fairness": rows}

    return finish


def limited(pool: Executor, plan: Plan) -> Part:
    """A flow whose application needs 4 Mbit/s, and a greedy one."""
    traffic = {0: {"kind": "rate", "rate": f"{_DEMAND_BPS}bit", "chunk": "956B"}}
    begun = []
    for capacity in plan.capacities_mbit:
        for name, priority, exchange in (
            ("equal", 1.0, UPDATED), ("protected", 0.2, UPDATED), ("uncoupled", 1.0, None)
        ):  # fmt: skip
            coupling = {
                "priorities": {"flow-2": priority},
                "desired": {"flow-1": f"{_DESIRED_BPS}bit"},
            }
            setup = _pair(
                exchange, rate_bps=capacity * 10**6, limited=traffic,
                coupling=coupling if exchange else {},
            )  # fmt: skip
            begun.append((capacity, name, repeat(pool, plan, setup, _limited_measures)))

    def finish() -> Finished:
        rows: Rows = []
        for capacity, name, runs in begun:
            found = runs()
            own = Spread.of(one[0] for one, _ in found)
            rows.append(
                {
                    "capacity (Mbit/s)": capacity,
                    "FSE": name,
                    "flow 1 (Mbit/s)": own.mean / 1e6,
                    "spread": own.deviation / 1e6,
                    "flow 2 (Mbit/s)": fmean(one[1] for one, _ in found) / 1e6,
                    "time below demand (%)": 100 * fmean(rate.below for _, rate in found),
                    "least of demand": fmean(rate.least for _, rate in found),
                    "back-offs": fmean(rate.back_offs for _, rate in found),
                }
            )
        at = {(row["capacity (Mbit/s)"], row["FSE"]): row for row in rows}
        enough = [capacity for capacity in plan.capacities_mbit if capacity >= 10]
        return [
            (
                between("protected flow, from 10 Mbit/s on: least part of its demand", low=0.95,
                        source=f"{SLIDES}, slide 21"),
                min(at[c, "protected"]["flow 1 (Mbit/s)"] for c in enough) * 1e6 / _DEMAND_BPS,
            ),
            (
                within("application-limited flow at 10 Mbit/s, with FSE: least rate, of what it "
                       "needs", sawtooth().peak_bps / 4 / _DESIRED_BPS, 0.05,
                       source="arithmetic of AIMD"),
                at[10, "equal"]["least of demand"],
            ),
            (
                between("application-limited flow at 10 Mbit/s: times it backs off without FSE "
                        "over those with", low=1, source=f"{SLIDES}, slide 20"),
                at[10, "uncoupled"]["back-offs"] / at[10, "equal"]["back-offs"],
            ),
        ], {"application-limited and greedy": rows}  # fmt: skip

    return finish


def _limited_measures(result: Result) -> tuple[list[float], Allowed]:
    return goodputs(result), allowed(result, _DESIRED_BPS)


def background(pool: Executor, plan: Plan) -> Part:
    """Short TCP transfers that offer half the link's rate, in place of a trace of such."""
    transfers = {
        "id": "transfers",
        "cc": "reno",
        "traffic": {
            "kind": "poisson",
            "load": f"{RATE_BPS // 2}bit",
            "size": {"kind": "pareto", "mean": "50kB", "shape": 1.5, "max": "2MB"},
        },
    }
    begun = [
        (
            priority,
            repeat(
                pool, plan,
                _pair(UPDATED, coupling={"priorities": {"flow-2": priority}}, others=[transfers]),
                goodputs,
            ),
        )
        for priority in plan.priorities
    ]  # fmt: skip
    alone = repeat(pool, plan, Setup("rap", (RTT_MS,), None, others=[transfers]), goodputs)

    def finish() -> Finished:
        rows: Rows = []
        for priority, runs in begun:
            found = runs()
            ratio = Spread.of(one[1] / one[0] for one in found)
            rows.append(
                {
                    "priority of flow 2": priority,
                    "flow 1 (Mbit/s)": fmean(one[0] for one in found) / 1e6,
                    "flow 2 (Mbit/s)": fmean(one[1] for one in found) / 1e6,
                    "transfers (Mbit/s)": fmean(one[2] for one in found) / 1e6,
                    "flow 2 over flow 1": ratio.mean,
                    "spread": ratio.deviation,
                }
            )
        error = max(abs(r["flow 2 over flow 1"] / r["priority of flow 2"] - 1) for r in rows)
        totals = [r["flow 1 (Mbit/s)"] + r["flow 2 (Mbit/s)"] for r in rows]
        source = f"{SLIDES}, slide 16"
        return [
            (
                between("background traffic: greatest error of the ratio of goodputs", high=0.05,
                        source=source),
                error,
            ),
            (
                within("background traffic: what both flows get together, of what one flow without "
                       "FSE gets in their place", 1, 0.1, source=f"{SLIDES}, slide 16"),
                fmean(totals) / (fmean(one[0] for one in alone()) / 1e6),
            ),
        ], {"background traffic": rows}  # fmt: skip

    return finish
