"""BBR version 1 against CUBIC over the depth of the buffer, and where their shares cross."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, between, factor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAPER = "Hock, Bless, Zitterbart, ICNP 2017"
_KERNEL = "Linux 7.2, same path (tests/reference)"
_BUFFERS = (0.1, 0.25, 0.5, 1, 2, 4, 8, 16)
_QUICK = (0.5, 2, 4, 8)
# Goodput of BBR and CUBIC in Linux, Mbit/s.
_LINUX = {0.5: (42.4, 4.4), 1: (41.7, 5.2), 2: (25.9, 21.8), 4: (17.5, 30.3)}


def _shares(buffer: float, seeds: int) -> float:
    """BBR's share of the goodput of both, mean over the seeds."""
    total = 0.0
    for seed in range(1, seeds + 1):
        result = run_scenario(
            {
                "duration": "60s",
                "seed": seed,
                "path": {
                    "rate": "50Mbit",
                    "rtt": "40ms",
                    "queue": {"kind": "fifo", "limit": f"{buffer}bdp"},
                },
                "flows": [{"id": "bbr", "cc": "bbr"}, {"id": "cubic", "cc": "cubic"}],
            }
        )
        bbr, cubic = (flow["goodput_bps"] for flow in result.summary["flows"])
        total += bbr / (bbr + cubic)
    return total / seeds


def crossing(shares: dict[float, float]) -> float:
    """Buffer at which the first falls below half, on a logarithmic scale; NaN if it does not."""
    points = sorted(shares.items())
    for (low, above), (high, below) in itertools.pairwise(points):
        if above >= 0.5 > below:
            part = (above - 0.5) / (above - below)
            return math.exp(math.log(low) + part * math.log(high / low))
    return math.nan


def _run(quick: bool) -> Outcome:
    shares = {
        buffer: _shares(buffer, 1 if quick else 4)
        for buffer in _BUFFERS
        if not quick or buffer in _QUICK
    }
    linux = {buffer: bbr / (bbr + cubic) for buffer, (bbr, cubic) in _LINUX.items()}
    judged: list[tuple[Any, float]] = [
        (
            between(
                f"BBR's share at {buffer:g} BDP",
                max(0.0, share - 0.1),
                min(1.0, share + 0.1),
                source=f"{_KERNEL}: {share:.2f}",
            ),
            shares[buffer],
        )
        for buffer, share in linux.items()
        if buffer in shares
    ]
    judged.append(
        (
            factor("buffer at which both get the same, BDP", crossing(linux), 1.5, source=_KERNEL),
            crossing(shares),
        )
    )
    if not quick:
        judged.append(
            (between("BBR's share at 0.1 BDP", 0.75, source=_PAPER), shares[0.1]),
        )
    judged.append((between("BBR's share at 8 BDP", high=0.5, source=_PAPER), shares[8]))
    return Outcome(
        [published.judge(ours) for published, ours in judged], lambda: _draw(shares, linux)
    )


def _draw(shares: dict[float, float], linux: dict[float, float]) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

    made, axes = figure(1, 1, (4.5, 3.0))
    ax = axes[0, 0]
    ax.plot(shares.keys(), shares.values(), color=COLOURS[0], marker="o", label="dumbbell")
    ax.plot(linux.keys(), linux.values(), color=COLOURS[1], marker="x", linestyle="", label="Linux")
    ax.axhline(0.5, color=CAPACITY_COLOUR, linestyle="--", label="equal shares")
    ax.axvline(crossing(shares), color=CAPACITY_COLOUR, linestyle=":", label="crossing")
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(shares), [f"{buffer:g}" for buffer in shares])
    ax.set_xlabel("buffer (BDP)")
    ax.set_ylabel("BBR's share of the goodput")
    ax.set_ylim(0, 1)
    made.legend(loc="outside upper left", ncols=2, frameon=False)
    return made


PAPER = Paper(
    name="bbr-cubic-crossing",
    title="BBR version 1 against CUBIC over the depth of the buffer",
    source="Hock, Bless, Zitterbart, Experimental Evaluation of BBR, ICNP 2017; Linux",
    setup=(
        "One BBR and one CUBIC flow for 60 s on 50 Mbit/s and 40 ms, drop-tail buffers of 0.1 to "
        "16 BDP, mean over four seeds. The numbers compared are those of a real Linux kernel on "
        "the same path, one run each: a share may differ by 0.1, the crossing by a factor of 1.5. "
        "From the paper, whose path is 1 Gbit/s and 20 ms, come the ends: BBR starves CUBIC in "
        "shallow buffers, and loses in deep ones."
    ),
    run=_run,
)
