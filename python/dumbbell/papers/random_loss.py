"""BBR and CUBIC over a path with random loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, between, factor, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_REPRODUCTION = "Stanford CS244 reproduction of the BBR article's loss figure"
_MODEL = "gain 1.25 makes up for at most 20 % of loss (Cardwell, bbr-dev)"
_ARTICLE = "BBR article, ACM Queue 2016"
_CAPACITY = 100.27
# Goodput in Mbit/s that the reproduction measured: loss, CUBIC, BBR.
MEASURED = (
    (1e-5, 98.8, 95.4), (1e-4, 34.1, 95.2), (1e-3, 5.9, 94.9), (0.01, 1.62, 85.4),
    (0.02, 1.00, 84.1), (0.05, 0.61, 76.9), (0.10, 0.34, 74.6), (0.15, 0.25, 70.3),
    (0.20, 0.20, 67.4), (0.25, 0.15, 66.2), (0.30, 0.15, 61.4), (0.40, 0.09, 57.9),
    (0.50, 0.02, 17.4),
)  # fmt: skip
_QUICK = (1e-3, 0.01, 0.1, 0.25)


def _goodput(cc: str, loss: float, *, seed: int) -> float:
    """Mbit/s over the whole flow."""
    one_way = {"duplex": False}
    result = run_scenario(
        {
            "duration": "60s",
            "seed": seed,
            "interval": 0,
            "topology": {
                "links": [
                    # Losses come before the bottleneck, as where netem stands before its rate.
                    {"from": "sender", "to": "router", "loss": loss, **one_way},
                    {
                        "from": "router",
                        "to": "receiver",
                        "rate": f"{_CAPACITY}Mbit",
                        "delay": "50ms",
                        "overhead": "0B",
                        "queue": {"kind": "fifo", "limit": "100bdp"},
                        **one_way,
                    },
                    {"from": "receiver", "to": "sender", "delay": "50ms", **one_way},
                ]
            },
            "flows": [
                {
                    "cc": cc,
                    "from": "sender",
                    "to": "receiver",
                    # BBR as published in 2016 paced at the full estimate.
                    "params": {"pacing_margin": 0.0} if cc == "bbr" else {},
                }
            ],
        }
    )
    return float(result.summary["flows"][0]["goodput_bps"]) / 1e6


def ceiling(loss: float) -> float:
    """What can arrive: capacity x (1 - loss), payload only, Mbit/s."""
    return _CAPACITY * (1 - loss) * 1448 / 1500


def _run(quick: bool) -> Outcome:
    seeds = range(1, 2 if quick else 6)
    points: list[tuple[float, float, float]] = []
    rows = []
    for loss, cubic, _ in MEASURED:
        if quick and loss not in _QUICK:
            continue
        ours = {
            cc: float(np.median([_goodput(cc, loss, seed=seed) for seed in seeds]))
            for cc in ("cubic", "bbr")
        }
        points.append((loss, ours["cubic"], ours["bbr"]))
        percent = f"{loss * 100:g} %"
        if 1e-4 <= loss <= 0.02:
            published = factor(f"CUBIC at {percent}", cubic, 2, unit="Mbit/s", source=_REPRODUCTION)
            rows.append(published.judge(ours["cubic"]))
        share = ours["bbr"] / ceiling(loss)
        what = f"BBR at {percent}, share of capacity x (1 - loss)"
        if loss <= 0.05:
            rows.append(within(what, 1, 0.05, source=_ARTICLE).judge(share))
        elif loss <= 0.15:
            rows.append(between(what, 0.8, 1.0, source=_ARTICLE).judge(share))
        elif loss >= 0.25:
            rows.append(between(what, high=0.25, source=_MODEL).judge(share))
    return Outcome(rows, lambda: _draw(points))


def _draw(points: list[tuple[float, float, float]]) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

    made, axes = figure(1, 1, (4.5, 3.2))
    ax = axes[0, 0]
    loss = np.geomspace(1e-5, 0.5, 200)
    ax.plot(
        loss * 100, [ceiling(x) for x in loss], color=CAPACITY_COLOUR, label="capacity x (1 - loss)"
    )
    ax.axvline(20, color=CAPACITY_COLOUR, linestyle=":", label="20 % model")
    for index, (name, column) in enumerate((("CUBIC", 1), ("BBR", 2))):
        colour, marker = COLOURS[index], "os"[index]
        ax.plot(
            [row[0] * 100 for row in MEASURED],
            [row[column] for row in MEASURED],
            color=colour,
            linestyle="--",
            label=f"{name}: reproduction (Mahimahi)",
        )
        ax.plot(
            [row[0] * 100 for row in points],
            [row[column] for row in points],
            color=colour,
            marker=marker,
            mfc="white",
            label=f"{name}: dumbbell",
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(0.01, 300)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_xlabel("random loss (%)")
    ax.set_ylabel("goodput (Mbit/s)")
    ax.legend(frameon=False, fontsize=7, loc="lower left")
    return made


PAPER = Paper(
    name="bbr-random-loss",
    title="BBR and CUBIC at 0.001 % to 50 % of random loss",
    source="Cardwell et al., BBR, ACM Queue 2016; CS244 reproduction",
    setup=(
        "One flow of 60 s on 100.27 Mbit/s and 100 ms with a buffer that never fills and no limit "
        "by the receive window; medians of five seeds (at 15 % about one run in twelve leaves "
        "start-up at a low rate and stays there). Each packet is lost with the same probability, "
        "independently (Bernoulli), before the bottleneck. BBR without the pacing "
        "margin of 1 % that Linux added later. The reproduction saw BBR hold its rate to 40 % and "
        "blames its emulator's losses, which came in bursts; with independent losses BBR must "
        "follow the 20 % that its gain of 1.25 can make up for."
    ),
    run=_run,
)
