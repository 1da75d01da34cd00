"""Two flows of unequal round-trip times at one bottleneck: who gets how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import STEP_MARKS, Outcome, Paper, between, factor, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PRAGUE = "rate of 2(1-p)/(p max(RTT, 25 ms)), RTTs with the queue"
_KERNEL = "Linux 7.2, this specification"
_AXIS = (0.02, 30.0)
"""Ratios that the figure shows."""
_PIE = {"kind": "pie", "target": "15ms"}
_RANDOM_MARKS = {
    "kind": "pie", "ecn": True, "ecn_threshold": 1.0, "target": "5ms", "limit": "2000p",
}  # fmt: skip
_STEP = STEP_MARKS | {"limit": "1000p"}


def _ratio(
    cc: str, rtts_ms: tuple[int, int], queue: dict[str, Any], runs: int, duration_s: int
) -> float:
    """Goodput of the flow with the shorter round trip over that of the other, mean of the runs."""
    short = long = 0.0
    for seed in range(runs):
        result = run_scenario(
            {
                "duration": f"{duration_s}s",
                "warmup": "20s",
                "seed": seed + 1,
                "path": {"rate": "50Mbit", "rtt": f"{rtts_ms[1]}ms", "shaper": "1600B",
                         "queue": queue},
                "flows": [
                    {"id": "short", "cc": cc, "rtt": f"{rtts_ms[0]}ms"},
                    {"id": "long", "cc": cc, "rtt": f"{rtts_ms[1]}ms",
                     "start": f"{10_000 + 37 * seed}ms"},
                ],
            }
        )  # fmt: skip
        goodput = {flow["id"]: flow["goodput_bps"] for flow in result.summary["flows"]}
        short += goodput["short"]
        long += goodput["long"]
    return short / long


def _run(quick: bool) -> Outcome:
    runs = 3 if quick else 20
    fifo = {"kind": "fifo", "limit": "413p"}
    drop_tail = {cc: _ratio(cc, (20, 100), fifo, runs, 60) for cc in ("reno", "cubic", "bbr")}
    pie = _ratio("reno", (10, 100), _PIE, runs, 120)
    prague = {rtts: _ratio("prague", rtts, _RANDOM_MARKS, runs, 90) for rtts in ((5, 15), (10, 50))}
    step = {cc: _ratio(cc, (5, 25), _STEP, runs, 60) for cc in ("prague", "dctcp")}
    judged: list[tuple[Any, float]] = [
        # Mean of the kernel's runs (docs/validation.md, f_rtt20_vs_100).
        (factor("Reno, 20 and 100 ms, drop tail", 2.9, 1.3, source=_KERNEL), drop_tail["reno"]),
        (factor("CUBIC, 20 and 100 ms, drop tail", 2.7, 1.3, source=_KERNEL), drop_tail["cubic"]),
        (between("BBR, 20 and 100 ms, drop tail", high=0.3, source=_KERNEL), drop_tail["bbr"]),
        (
            factor("Reno, 10 and 100 ms, PIE 15 ms", 115 / 25, 1.3,
                   source="RTTs with the queue, 115/25"),
            pie,
        ),
        (
            within("Prague, 5 and 15 ms, random marks, queue of 5 ms", 1.0, 0.1, source=_PRAGUE),
            prague[5, 15],
        ),
        (
            within("Prague, 10 and 50 ms, the same", 55 / 25, 0.1, source=_PRAGUE),
            prague[10, 50],
        ),
        (
            between("Prague, 5 and 25 ms, step marks at 1 ms", 0.6, 1.6,
                    source="Prague draft: independent of the RTT up to 25 ms"),
            step["prague"],
        ),
        (
            between("DCTCP, 5 and 25 ms, step marks at 1 ms", 26 / 6,
                    source="at least the ratio of RTTs with the queue, 26/6"),
            step["dctcp"],
        ),
    ]  # fmt: skip
    rows = [published.judge(ours) for published, ours in judged]
    return Outcome(rows, lambda: _draw(rows))


def _draw(rows: list[dict[str, Any]]) -> Figure:
    from matplotlib.ticker import FuncFormatter

    from dumbbell._plots import figure
    from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

    made, axes = figure(1, 1, (5.6, 2.6))
    ax = axes[0, 0]
    ax.axvline(1, color=CAPACITY_COLOUR, linestyle="--", label="equal shares")
    for place, row in enumerate(rows):
        low, high = row["low"] or _AXIS[0], row["high"] or _AXIS[1]
        ax.plot([low, high], [place, place], color=COLOURS[1], linewidth=5, alpha=0.5,
                label="expected range" if place == 0 else None)  # fmt: skip
    ax.plot([row["measured"] for row in rows], range(len(rows)), "o", color=COLOURS[0],
            markersize=5, label="measured")  # fmt: skip
    ax.set_xscale("log")
    ax.set_xlim(*_AXIS)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_yticks(range(len(rows)), [row["what"] for row in rows])
    ax.invert_yaxis()
    ax.set_xlabel("goodput ratio, shorter RTT over longer")
    made.legend(loc="outside upper left", ncols=3, frameon=False)
    return made


PAPER = Paper(
    name="rtt-unfairness",
    title="Two flows of unequal round-trip times: Reno, CUBIC, BBR, DCTCP and Prague",
    source="RFC 9332, RFC 9331, Linux 7.2 measurements, Prague draft",
    setup=(
        "50 Mbit/s, two flows of the same controller, the longer round trip starting 10 s later; "
        "20 runs of 60 to 120 s with moved starts, the first 20 s left out, shares of the summed "
        "goodputs. Drop tail of 1 BDP, PIE at 15 ms, PIE at 5 ms that marks, or marks above 1 ms."
    ),
    run=_run,
)
