"""Draw docs/_static/demo.png: `python docs/demo_picture.py demo/home`, after `make demo`."""

from __future__ import annotations

import sys
from pathlib import Path

import polars

from dumbbell import Result
from dumbbell._plots import figure, save_figure
from dumbbell._results import is_result

COLOURS = {"cubic": "#0072B2", "bbr": "#D55E00"}
"""Colours of Okabe and Ito, which colour-blind readers can tell apart."""


def draw(comparison: Path, picture: Path) -> None:
    """Goodput of each flow above the queueing delay, one column for each queue."""
    results = [Result.load(path) for path in sorted(comparison.iterdir()) if is_result(path)]
    made, axes = figure(2, len(results), (9, 4), sharex=True, sharey="row")
    for column, result in zip(axes.T, results, strict=True):
        column[0].set_title(result.config["links"][0]["queue"]["kind"])
        flows = result.to_polars("flow_series").fill_nan(None)
        for flow in result.summary["flows"]:
            series = flows.filter(polars.col("flow") == flow["id"])
            column[0].plot(
                series["t"],
                series["goodput_bps"].rolling_mean(10) / 1e6,
                color=COLOURS[flow["cc"]],
                label=f"{flow['cc']}, mean {flow['goodput_bps'] / 1e6:.1f}",
            )
        column[0].legend(loc="upper right", fontsize=7)
        link = result.to_polars("link_series")
        column[1].plot(link["t"], link["queue_delay_ms"], color="black", linewidth=0.8)
        column[1].set_xlabel("time (s)")
    axes[0, 0].set_ylim(0, 62)
    axes[0, 0].set_ylabel("goodput (Mbit/s)")
    axes[1, 0].set_ylabel("queueing delay (ms)")
    save_figure(made, picture)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(__file__).parent / "_static" / "demo.png")
