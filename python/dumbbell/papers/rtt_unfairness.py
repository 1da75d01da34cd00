"""Two flows of unequal round-trip times at one bottleneck: who gets how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, between, factor, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KERNEL = "Linux 7.2, this specification"
_PIE = {"kind": "pie", "target": "15ms"}
_STEP = {
    "kind": "codel", "ecn": True, "ce_threshold": "1ms",
    "target": "1s", "interval": "10s", "limit": "1000p",
}  # fmt: skip


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
    drop_tail = {
        cc: _ratio(cc, (20, 100), fifo, runs, 60) for cc in ("reno", "cubic", "bbr")
    }
    pie = _ratio("reno", (10, 100), _PIE, runs, 120)
    scalable = {cc: _ratio(cc, (5, 25), _STEP, runs, 60) for cc in ("prague", "dctcp")}
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
            within("Prague, 5 and 25 ms, step marks at 1 ms", 1.0, 0.2,
                   source="Prague draft: independent of the RTT up to 25 ms"),
            scalable["prague"],
        ),
        (
            between("DCTCP, 5 and 25 ms, step marks at 1 ms", 26 / 6,
                    source="at least the ratio of RTTs with the queue, 26/6"),
            scalable["dctcp"],
        ),
    ]  # fmt: skip
    rows = [published.judge(ours) for published, ours in judged]
    return Outcome(rows, lambda: _draw(rows))


def _draw(rows: list[dict[str, Any]]) -> Figure:
    from matplotlib.ticker import FuncFormatter

    from dumbbell._plots import figure
    from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

    made, axes = figure(1, 1, (4.8, 2.6))
    ax = axes[0, 0]
    names = [row["what"] for row in rows]
    ax.barh(range(len(rows)), [row["measured"] for row in rows], left=0, height=0.55,
            color=COLOURS[0], label="measured")  # fmt: skip
    for place, row in enumerate(rows):
        low, high = row["low"] or row["measured"] / 10, row["high"] or 10 * row["measured"]
        ax.plot([low, high], [place, place], color=COLOURS[1], linewidth=2,
                label="expected range" if place == 0 else None)  # fmt: skip
    ax.axvline(1, color=CAPACITY_COLOUR, linestyle="--", label="equal shares")
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_yticks(range(len(rows)), names)
    ax.invert_yaxis()
    ax.set_xlabel("goodput of the shorter round trip over that of the longer")
    made.legend(loc="outside upper left", ncols=3, frameon=False)
    return made


PAPER = Paper(
    name="rtt-unfairness",
    title="Two flows of unequal round-trip times: Reno, CUBIC, BBR, DCTCP and Prague",
    source="RFC 9332, RFC 9331, Linux 7.2 measurements, Prague draft",
    setup=(
        "50 Mbit/s, two flows of the same controller, the longer round trip starting 10 s later; "
        "20 runs of 60 s (Reno over PIE 120 s) with moved starts, the first 20 s left out, "
        "shares of the summed goodputs. Drop tail of 1 BDP, PIE at 15 ms, or marks above 1 ms."
    ),
    run=_run,
)
