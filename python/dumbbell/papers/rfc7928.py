"""The guidelines for characterizing AQMs, over all AQMs that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._fairness import jain
from dumbbell._plots_data import by_name, columns
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, thread_pool
from dumbbell.papers._rfc7928_cases import CASES, CONTENDERS, ONE_WAY_MS, QUICK, Case
from dumbbell.papers._rfc7928_claims import (
    BURSTS_LOST,
    COMPLETION,
    GOODPUT,
    LOST,
    MEAN,
    P95,
    P99,
    TOGETHER,
    USED,
    VOICE,
    Measures,
    by_queue,
    judge,
)
from dumbbell.papers._rfc7928_figure import draw

if TYPE_CHECKING:
    from dumbbell._results import Result

_SEEDS = 4


def _run(quick: bool) -> Outcome:
    grid = _grid(quick)
    tables = {"worst value of each statement": by_queue(grid)}
    tables |= {f"{case.section} {case.name}": _table(grid[case.name]) for case in CASES}
    return Outcome(judge(grid), lambda: draw(grid), tables)


def _table(measures: Mapping[str, Measures]) -> list[dict[str, Any]]:
    """A row a queue, without the metrics that the case has not."""
    names = [
        name
        for name in next(iter(measures.values()))
        if any(one[name] is not None for one in measures.values())
    ]
    return [{"queue": kind} | {name: one[name] for name in names} for kind, one in measures.items()]


def _grid(quick: bool) -> dict[str, dict[str, Measures]]:
    """By case and queue, the mean over the seeds; on all processors."""
    seeds = range(1, 2 if quick else 1 + _SEEDS)
    with thread_pool() as pool:
        futures = {
            (case.name, kind): [pool.submit(_measure, case, kind, seed, quick) for seed in seeds]
            for case in CASES
            for kind in (QUICK if quick else CONTENDERS)
        }
        grid: dict[str, dict[str, Measures]] = {case.name: {} for case in CASES}
        for (name, kind), runs in futures.items():
            grid[name][kind] = _mean([run.result() for run in runs])
        return grid


def _measure(case: Case, kind: str, seed: int, quick: bool) -> Measures:
    result = run_scenario(case.scenario(kind, seed=seed, quick=quick))
    return measure(case, result)


def measure(case: Case, result: Result) -> Measures:
    """The metrics of section 2, of the bottleneck with the longest queue."""
    summary = result.summary
    flows = {flow["id"]: flow for flow in summary["flows"]}
    link = max(summary["links"], key=lambda one: one["queue_delay_ms"]["mean"] or 0.0)
    delay = link["queue_delay_ms"]
    passed = link["packets"] * (1 - case.warmup_s / summary["totals"]["simulated_s"])
    goodput = {name: flow["goodput_bps"] / 1e6 for name, flow in flows.items()}
    bulk = [name for name in flows if name.startswith(case.bulk)] if case.bulk else []
    completion_s = _completions_s(result, case.warmup_s)
    return {
        GOODPUT: _total_mbps(result, case.warmup_s),
        USED: 100 * link["utilisation"],
        MEAN: delay["mean"],
        P95: delay["p95"],
        P99: delay["p99"],
        LOST: 100 * link["drops_window"] / max(passed + link["drops_window"], 1),
        "marked (%)": 100 * link["marks_window"] / max(passed, 1) if case.ecn else None,
        COMPLETION: float(completion_s.mean()) if completion_s.size else None,
        "completion p95 (s)": (
            float(np.percentile(completion_s, 95)) if completion_s.size else None
        ),
        BURSTS_LOST: _lost_of([flows[name] for name in case.bursts]),
        VOICE: _voice_ms(summary["probes"]),
        "Jain": jain([goodput[name] for name in bulk]) if len(bulk) > 1 else None,
        TOGETHER: _together(result, bulk, case.warmup_s),
        case.ratio_name: _ratio(goodput, case),
    }


def _total_mbps(result: Result, warmup_s: float) -> float:
    """Goodput of all flows after the warm-up, whether they were there all the time or not."""
    table = columns(result, "flow_series")
    late = table["t"] > warmup_s
    return float(table["goodput_bps"][late].sum() / np.unique(table["t"][late]).size / 1e6)


def _completions_s(result: Result, warmup_s: float) -> NDArray[Any]:
    """Durations of the transfers that began after the warm-up."""
    table = columns(result, "completions")
    if not table:
        return np.empty(0)
    durations: NDArray[Any] = table["duration_s"][table["start_s"] >= warmup_s]
    return durations


def _lost_of(flows: Sequence[Mapping[str, Any]]) -> float | None:
    sent = sum(flow["sent_packets"] for flow in flows)
    return 100 * sum(flow["dropped_packets"] for flow in flows) / sent if sent else None


def _voice_ms(probes: Sequence[Mapping[str, Any]]) -> float | None:
    """99th percentile of what voice packets wait, beyond the way without a queue."""
    return probes[0]["rtt_ms"]["p99"] - ONE_WAY_MS if probes else None


def _together(result: Result, ids: Sequence[str], warmup_s: float) -> float | None:
    """Loss synchronization (section 2.4): of the flows, how many retransmit in a round trip in
    which any does."""
    if len(ids) < 2:
        return None
    table = columns(result, "flow_series")
    per_flow = dict(by_name(table, "flow"))
    steps = [
        np.diff(per_flow[name]["retransmits"][per_flow[name]["t"] >= warmup_s]) > 0 for name in ids
    ]
    losing = np.sum(steps, axis=0)
    return 100 * float(np.mean(losing[losing > 0])) / len(ids) if losing.any() else None


def _ratio(goodput: Mapping[str, float], case: Case) -> float | None:
    if not case.over:
        return None
    over, under = (
        fmean(rate for name, rate in goodput.items() if name.startswith(group))
        for group in (case.over, case.under)
    )
    return over / under if under else None


def _mean(runs: Sequence[Measures]) -> Measures:
    means: Measures = {}
    for name in runs[0]:
        known = [value for run in runs if (value := run[name]) is not None]
        means[name] = fmean(known) if known else None
    return means


PAPER = Paper(
    name="rfc7928",
    title="Characterization of AQMs: RFC 7928's scenarios over every AQM",
    source="RFC 7928; RFC 7567",
    setup=(
        "10 Mbit/s, base RTT 100 ms, a buffer of one bandwidth-delay product for all queues (83 "
        "packets), the queues with their defaults, Reno where nothing else is said, no ECN outside "
        "section 4.5; 50 to 150 s, the first fifth left out, mean over four seeds. Capacity "
        "changes between 100 and 10 Mbit/s, with the larger product as buffer. Congestion is mild, "
        "medium or heavy by the loss under tail drop. A statement is judged by the queue and "
        "scenario that meet it worst, RED and SFB left out, which need tuning (RFC 7567 section "
        "4.3); the tables have all."
    ),
    run=_run,
)
