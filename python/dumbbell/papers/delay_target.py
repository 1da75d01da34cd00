"""Long flows and short requests under a queue that aims at a delay: BBR, CUBIC and DCTCP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._plots_data import columns
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import STEP_MARKS, Outcome, Paper, Published, between, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dumbbell._results import Result

_TALK = "ICCRG at IETF 99, demonstration"
_MODEL = "1.22/sqrt(p) and 1.05 (R/p)^0.75 at the window of a quarter of the link"
_WARMUP_S = 10
_FRAMES_PER_S = 1e8 / (1514 * 8)
"""What the link passes, full."""
_HIGH_DROP = 0.02
"""Share of packets dropped in a second from which the queue is in a phase of heavy dropping."""
_DOTS = 1500
"""About so many requests of each combination are drawn."""
_FEWEST = 20
"""Requests that a median of the figure needs."""

_PIE = {"kind": "pie", "target": "15ms", "limit": "10000p"}
_PI2 = {"kind": "pi2", "target": "15ms", "limit": "10000p"}
_STEP = STEP_MARKS | {"limit": "10000p"}
_COMBINATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "BBR, tail drop": ("bbr", {"kind": "fifo", "limit": "4bdp"}),
    "BBR, PIE": ("bbr", _PIE),
    "BBR, PI2": ("bbr", _PI2),
    "CUBIC, PIE": ("cubic", _PIE),
    "CUBIC, PI2": ("cubic", _PI2),
    "DCTCP, step": ("dctcp", _STEP),
}
_DROPPING = ("PIE", "PI2")
_REQUESTS_PER_S = (250, 100)
_FULL_WITH_PROBES = 0.98
"""PROBE_RTT takes 200 ms of every 10 s."""
_STEP_UNDERUSE = (0.90, 0.995)
"""What we take for slight underuse."""


def _scenario(cc: str, queue: dict[str, Any], requests_per_s: int, quick: bool) -> Result:
    long_flows = [{"id": f"long{i + 1}", "cc": cc, "start": f"{200 * i}ms"} for i in range(4)]
    requests = {
        "id": "requests", "cc": cc, "start": "1s",
        "traffic": {
            "kind": "poisson", "interval": f"{1000 // requests_per_s}ms",
            "size": {"kind": "pareto", "mean": "12kB", "shape": 1.2, "max": "1MB"},
        },
    }  # fmt: skip
    return run_scenario(
        {
            "duration": "40s" if quick else "100s",
            "warmup": f"{_WARMUP_S}s",
            "interval": "200ms",
            "path": {"rate": "100Mbit", "rtt": "20ms", "queue": queue},
            "flows": [*long_flows, requests],
        }
    )


@dataclass(frozen=True)
class _Seen:
    """What is taken from a run, after the warm-up."""

    t: NDArray[Any]
    delay_ms: NDArray[Any]
    """Over time; `t` begins with the run."""
    median_ms: float
    low_ms: float
    used: float
    dropped: float
    """Share of all packets."""
    heavy: NDArray[Any]
    """Share dropped in each second that has a high one."""
    shares: NDArray[Any]
    """Share dropped in each second."""
    sizes: NDArray[Any]
    completion_s: NDArray[Any]

    def row(self, combination: str, requests_per_s: int) -> dict[str, Any]:
        """Of the table."""
        return {
            "combination": combination,
            "requests/s": requests_per_s,
            "delay p10 (ms)": self.low_ms,
            "delay p50 (ms)": self.median_ms,
            "used (%)": 100 * self.used,
            "dropped (%)": 100 * self.dropped,
            "seconds above 2 % dropped": int(self.heavy.size),
            "completion p50 (ms)": self.completion_ms(50),
            "completion p99 (ms)": self.completion_ms(99),
        }

    def completion_ms(self, percent: float) -> float:
        return 1e3 * float(np.percentile(self.completion_s, percent))


def _see(result: Result) -> _Seen:
    link_table, link = columns(result, "link_series"), result.summary["links"][0]
    late = link_table["t"] >= _WARMUP_S
    shares = _drop_share(link_table["drops"][late])
    passed = (
        link["utilisation"] * _FRAMES_PER_S * (result.summary["totals"]["simulated_s"] - _WARMUP_S)
    )
    transfers = columns(result, "completions")
    counted = transfers["start_s"] >= _WARMUP_S
    return _Seen(
        t=link_table["t"],
        delay_ms=link_table["queue_delay_ms"],
        median_ms=float(link["queue_delay_ms"]["p50"]),
        low_ms=float(np.percentile(link_table["queue_delay_ms"][late], 10)),
        used=float(link["utilisation"]),
        dropped=float(link["drops_window"] / passed),
        heavy=shares[shares > _HIGH_DROP],
        shares=shares,
        sizes=transfers["bytes"][counted],
        completion_s=transfers["duration_s"][counted],
    )  # fmt: skip


def _drop_share(drops: NDArray[Any]) -> NDArray[Any]:
    """Share of packets offered to the queue that it dropped, each second."""
    each = np.diff(drops.astype(float)).reshape(-1)
    a_second = each[: each.size // 5 * 5].reshape(-1, 5).sum(axis=1)
    return np.asarray(a_second / (a_second + _FRAMES_PER_S))


def _run(quick: bool) -> Outcome:
    loads = _REQUESTS_PER_S[:1] if quick else _REQUESTS_PER_S
    seen = {
        load: {
            name: _see(_scenario(cc, queue, load, quick))
            for name, (cc, queue) in _COMBINATIONS.items()
        }
        for load in loads
    }
    rows = [published.judge(ours) for published, ours in _judged(seen[loads[0]])]
    table = [one.row(name, load) for load in loads for name, one in seen[load].items()]
    return Outcome(rows, lambda: _draw(seen[loads[0]]), {"combinations": table})


def _judged(seen: dict[str, _Seen]) -> list[tuple[Published, float]]:
    """The talk's statements, which it made with 250 requests a second."""
    fifo, step = seen["BBR, tail drop"], seen["DCTCP, step"]
    others = [one for name, one in seen.items() if name != "DCTCP, step"]
    judged: list[tuple[Published, float]] = [
        (
            # "About 20 ms at least", and bursts of short flows on top.
            within("BBR, tail drop: 10th percentile of the queueing delay", 20, 0.3, unit="ms",
                   source=_TALK),
            fifo.low_ms,
        ),
        (
            between("BBR, tail drop: use of the link", _FULL_WITH_PROBES, source=_TALK),
            fifo.used,
        ),
    ]  # fmt: skip
    for law in _DROPPING:
        bbr, cubic = seen[f"BBR, {law}"], seen[f"CUBIC, {law}"]
        judged += [
            (
                within(f"BBR, {law}: median queueing delay", 15, 0.3, unit="ms", source=_TALK),
                bbr.median_ms,
            ),
            (
                between(f"BBR, {law}: share dropped in phases above 2 %", 0.04, 0.12,
                        source=_TALK),
                float(bbr.heavy.mean()) if bbr.heavy.size else 0.0,
            ),
            (
                between(f"BBR, {law}: seconds of such phases", 10, unit="s", source=_TALK),
                float(bbr.heavy.size),
            ),
            (
                within(f"CUBIC, {law}: median queueing delay", 15, 0.3, unit="ms",
                       source=_TALK),
                cubic.median_ms,
            ),
            (
                between(f"CUBIC, {law}: share dropped", 0.6e-4, 5.6e-4, source=_MODEL),
                cubic.dropped,
            ),
        ]  # fmt: skip
    judged += [
        (
            between("DCTCP, step: median queueing delay", high=1.0, unit="ms", source=_TALK),
            step.median_ms,
        ),
        (
            between("DCTCP, step: packets dropped", high=0, source=_TALK),
            step.dropped,
        ),
        (
            between("DCTCP, step: use of the link, slightly less", *_STEP_UNDERUSE,
                    source=_TALK),
            step.used,
        ),
        (
            between("DCTCP, step: median completion time over the lowest other", high=1,
                    source=_TALK),
            step.completion_ms(50) / min(one.completion_ms(50) for one in others),
        ),
    ]  # fmt: skip
    return judged


def _draw(seen: dict[str, _Seen]) -> Figure:
    from matplotlib.ticker import FuncFormatter

    from dumbbell._plots import figure
    from dumbbell._plots_panels import COLOURS

    made, axes = figure(3, 1, (4.8, 5.6), height_ratios=[1, 0.8, 1.3])
    delay, dropped, completion = axes[:, 0]
    for colour, (label, one) in zip(COLOURS, seen.items(), strict=True):
        delay.plot(one.t, one.delay_ms, color=colour, linewidth=0.8, label=label)
        if label in ("BBR, PIE", "BBR, PI2"):
            seconds = _WARMUP_S + np.arange(one.shares.size)
            dropped.step(seconds, 100 * one.shares, where="post", color=colour)
        some = slice(None, None, 1 + one.sizes.size // _DOTS)
        completion.plot(
            one.sizes[some] / 1e3, 1e3 * one.completion_s[some], ".", color=colour, markersize=1.5,
            alpha=0.35, markeredgewidth=0,
        )  # fmt: skip
        completion.plot(*_medians(one), color=colour, linewidth=1.3)
    delay.set_ylabel("queueing delay\n(ms)")
    dropped.set_ylabel("BBR dropped by\nPIE, PI2 (%)")
    completion.set_ylabel("completion time\n(ms), median")
    completion.set_xlabel("size of the request (kB)")
    for ax in (delay, dropped):
        ax.set_ylim(bottom=0)
        ax.set_xlim(0, float(seen["DCTCP, step"].t[-1]))
    dropped.set_xlabel("time (s)")
    completion.set(xscale="log", yscale="log")
    for axis in (completion.xaxis, completion.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    made.align_ylabels(axes[:, 0])
    made.legend(*delay.get_legend_handles_labels(), loc="outside upper left", ncols=3,
                frameon=False)  # fmt: skip
    return made


def _medians(one: _Seen) -> tuple[NDArray[Any], NDArray[Any]]:
    """Median completion time (ms) by size (kB), for sizes that are frequent enough."""
    edges = np.geomspace(one.sizes.min(), one.sizes.max() * 1.01, 16)
    place = np.digitize(one.sizes, edges)
    full = [n for n in range(1, edges.size) if np.count_nonzero(place == n) >= _FEWEST]
    return (
        np.array([np.median(one.sizes[place == n]) / 1e3 for n in full]),
        np.array([1e3 * np.median(one.completion_s[place == n]) for n in full]),
    )


PAPER = Paper(
    name="bbr-over-pie",
    title="BBR, CUBIC and DCTCP over queues that aim at a delay",
    source="ICCRG at IETF 99, demonstration of AQM for BBR, CUBIC and DCTCP",
    setup=(
        "100 Mbit/s, base RTT 20 ms, four long flows and 250 or 100 requests a second (exponential "
        "intervals, Pareto sizes of 12 kB on average), 100 s, the first 10 left out. PIE and PI2 "
        "aim at 15 ms; DCTCP's queue marks above 1 ms. The talk's request sizes and run times are "
        "not stated."
    ),
    run=_run,
)
