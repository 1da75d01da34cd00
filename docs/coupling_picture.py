"""Draw docs/_static/coupling-tutorial.png from the scenarios of its page.

python docs/coupling_picture.py
"""

from __future__ import annotations

import re
from pathlib import Path

import polars
from controller_figures import shrink

import dumbbell
from dumbbell._plots import figure, save_figure
from dumbbell._plots_panels import COLOURS

DOCS = Path(__file__).parent
SMOOTH = 20
"""Samples, of 100 ms, in a running mean."""


def scenarios() -> dict[str, dumbbell.Scenario]:
    """The page's scenarios, and the coupled one with a priority."""
    text = (DOCS / "coupling-tutorial.md").read_text(encoding="utf-8")
    apart, coupled = map(dumbbell.Scenario.loads, re.findall(r"```toml\n(.*?)```", text, re.S))
    far = coupled.replaced({"coupling.host.priorities.far": 3})
    return {"each for itself": apart, "coupled": coupled, "coupled, far with priority 3": far}


def draw() -> None:
    """Goodput of each flow above the queueing delay, a column for each scenario."""
    runs = {title: dumbbell.run(scenario) for title, scenario in scenarios().items()}
    made, axes = figure(2, len(runs), (9, 4), sharex=True, sharey="row")
    for column, (title, result) in zip(axes.T, runs.items(), strict=True):
        column[0].set_title(title)
        series = result.to_polars("flow_series").fill_nan(None)
        for index, flow in enumerate(result.summary["flows"]):
            own = series.filter(polars.col("flow") == flow["id"])
            column[0].plot(
                own["t"],
                own["goodput_bps"].rolling_mean(SMOOTH) / 1e6,
                color=COLOURS[index],
                linewidth=0.9,
                label=f"{flow['id']}, mean {flow['goodput_bps'] / 1e6:.1f}",
            )
        column[0].legend(loc="upper right", fontsize=7)
        link = result.to_polars("link_series")
        column[1].plot(link["t"], link["queue_delay_ms"], color="black", linewidth=0.6)
        column[1].set_xlabel("time (s)")
        column[1].set_xlim(0, 120)
    axes[0, 0].set_ylim(0, 11)
    axes[0, 0].set_ylabel("goodput (Mbit/s)")
    axes[1, 0].set_ylim(0, 60)
    axes[1, 0].set_ylabel("queueing delay (ms)")
    picture = DOCS / "_static" / "coupling-tutorial.png"
    save_figure(made, picture)
    shrink(picture)


if __name__ == "__main__":
    draw()
