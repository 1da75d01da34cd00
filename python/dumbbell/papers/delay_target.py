"""Long flows and short requests under a queue that aims at a delay: BBR, CUBIC and DCTCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell._plots_data import columns
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import STEP_MARKS, Outcome, Paper, between, within

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

_PIE = {"kind": "pie", "target": "15ms", "limit": "10000p"}
_STEP = STEP_MARKS | {"limit": "10000p"}


def _scenario(cc: str, queue: dict[str, Any], quick: bool) -> Result:
    long_flows = [{"id": f"long{i + 1}", "cc": cc, "start": f"{200 * i}ms"} for i in range(4)]
    requests = {
        "id": "requests", "cc": cc, "start": "1s",
        "traffic": {
            "kind": "poisson", "interval": "4ms",
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


def _drop_share(result: Result) -> np.ndarray[Any, Any]:
    """Share of packets offered to the queue that it dropped, each second after the warm-up."""
    link = columns(result, "link_series")
    keep = link["t"] >= _WARMUP_S
    drops = np.diff(link["drops"][keep].astype(float)).reshape(-1)
    a_second = drops[: drops.size // 5 * 5].reshape(-1, 5).sum(axis=1)
    return np.asarray(a_second / (a_second + _FRAMES_PER_S))


def _median_delay_ms(result: Result) -> float:
    return float(result.summary["links"][0]["queue_delay_ms"]["p50"])


def _low_delay_ms(result: Result) -> float:
    link = columns(result, "link_series")
    return float(np.percentile(link["queue_delay_ms"][link["t"] >= _WARMUP_S], 10))


def _run(quick: bool) -> Outcome:
    results = {
        "BBR, tail drop": _scenario("bbr", {"kind": "fifo", "limit": "4bdp"}, quick),
        "BBR, PIE 15 ms": _scenario("bbr", _PIE, quick),
        "CUBIC, PIE 15 ms": _scenario("cubic", _PIE, quick),
        "DCTCP, step 1 ms": _scenario("dctcp", _STEP, quick),
    }
    fifo, bbr, cubic, dctcp = results.values()
    shares = _drop_share(bbr)
    heavy = shares[shares > _HIGH_DROP]
    cubic_link = cubic.summary["links"][0]
    window_s = cubic.summary["totals"]["simulated_s"] - _WARMUP_S
    passed = cubic_link["utilisation"] * _FRAMES_PER_S * window_s
    cubic_drops = cubic_link["drops_window"] / passed
    judged: list[tuple[Any, float]] = [
        (
            # "About 20 ms at least", and bursts of short flows on top.
            within("BBR, tail drop: 10th percentile of the queueing delay", 20, 0.3, unit="ms",
                   source=_TALK),
            _low_delay_ms(fifo),
        ),
        (
            within("BBR, PIE: median queueing delay", 15, 0.3, unit="ms", source=_TALK),
            _median_delay_ms(bbr),
        ),
        (
            between("BBR, PIE: share dropped in phases above 2 %", 0.04, 0.12, source=_TALK),
            float(heavy.mean()) if heavy.size else 0.0,
        ),
        (
            between("BBR, PIE: seconds of such phases", 10, unit="s", source=_TALK),
            float(heavy.size),
        ),
        (
            within("CUBIC, PIE: median queueing delay", 15, 0.3, unit="ms", source=_TALK),
            _median_delay_ms(cubic),
        ),
        (
            between("CUBIC, PIE: share dropped", 0.6e-4, 5.6e-4, source=_MODEL),
            float(cubic_drops),
        ),
        (
            between("DCTCP, step: median queueing delay", high=1.0, unit="ms", source=_TALK),
            _median_delay_ms(dctcp),
        ),
        (
            between("DCTCP, step: packets dropped", high=0, source=_TALK),
            float(dctcp.summary["links"][0]["drops_window"]),
        ),
    ]  # fmt: skip
    return Outcome(
        [published.judge(ours) for published, ours in judged], lambda: _draw(results, shares)
    )


def _draw(results: dict[str, Result], shares: np.ndarray[Any, Any]) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import COLOURS

    made, axes = figure(2, 1, (4.5, 3.4), sharex=True)
    for index, (label, result) in enumerate(results.items()):
        link = columns(result, "link_series")
        axes[0, 0].plot(
            link["t"], link["queue_delay_ms"], color=COLOURS[index], linewidth=0.8, label=label
        )
    seconds = _WARMUP_S + np.arange(shares.size)
    axes[1, 0].step(seconds, 100 * shares, where="post", color=COLOURS[1], label="BBR, PIE 15 ms")
    axes[0, 0].set_ylabel("queueing delay\n(ms)")
    axes[1, 0].set_ylabel("dropped by PIE\n(%)")
    axes[1, 0].set_xlabel("time (s)")
    axes[1, 0].set_xlim(0, float(columns(results["BBR, PIE 15 ms"], "link_series")["t"][-1]))
    for ax in axes[:, 0]:
        ax.set_ylim(bottom=0)
    made.align_ylabels(axes[:, 0])
    made.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=2,
                frameon=False)  # fmt: skip
    return made


PAPER = Paper(
    name="bbr-over-pie",
    title="BBR, CUBIC and DCTCP over queues that aim at a delay",
    source="ICCRG at IETF 99, demonstration of AQM for BBR, CUBIC and DCTCP",
    setup=(
        "100 Mbit/s, base RTT 20 ms, four long flows and 250 requests a second (exponential "
        "intervals, Pareto sizes of 12 kB on average), 100 s, the first 10 left out. The talk used "
        "PI2 beside PIE; its request sizes and run times are not stated."
    ),
    run=_run,
)
