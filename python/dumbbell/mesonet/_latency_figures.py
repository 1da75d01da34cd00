"""Figures of latencies: ways to the highest rate, and ours against the published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING

from dumbbell._plots import figure
from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS
from dumbbell.mesonet._single_flows import FULL, Rise
from dumbbell.mesonet.published import FINAL_TABLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dumbbell.mesonet.latency import Latencies

LABELS = {
    "bic": "BIC", "ctcp": "CTCP", "fast": "FAST", "fast-at": "FAST-AT", "hstcp": "HSTCP",
    "htcp": "H-TCP", "scalable": "Scalable",
}  # fmt: skip
_COLUMNS = 4


def rises_figure(measured: Latencies, rises: Mapping[str, Sequence[Rise]], axis: str) -> Figure:
    """A panel an algorithm: rate as a share of the highest over time, on the long path."""
    from matplotlib.ticker import FuncFormatter

    at = [i for i, condition in enumerate(measured.conditions) if condition.path == "long"]
    rows = -(-len(rises) // _COLUMNS)
    made, axes = figure(rows, _COLUMNS, (7.2, 1.7 * rows + 0.5), sharex=True, sharey=True)
    longest = max(found[i].latency for found in rises.values() for i in at)
    for place, ax in enumerate(axes.ravel()):
        if place >= len(rises):
            ax.set_visible(False)
            continue
        name = list(rises)[place]
        for order, i in enumerate(at):
            rise = rises[name][i]
            shown = rise.t > 0
            ax.plot(
                rise.t[shown], rise.rate[shown], color=COLOURS[order], linestyle=("-", "--")[order],
                label=f"{measured.conditions[i].rtt_ms} ms",
            )  # fmt: skip
            # Runs end soon after the highest rate is reached, where it stays.
            ax.plot([rise.t[-1], 2 * longest], [rise.rate[-1]] * 2, color=COLOURS[order],
                    linestyle=("-", "--")[order])  # fmt: skip
        ax.axhline(FULL, color=CAPACITY_COLOUR, linestyle=":", linewidth=0.9)
        ax.set_xscale("log")
        ax.set_xlim(0.2, 1.2 * longest)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.set_ylim(0, 1.05)
        ax.tick_params(labelbottom=place + _COLUMNS >= len(rises))
        times = ", ".join(f"{rises[name][i].latency:.1f}" for i in at)
        ax.set_title(f"{LABELS[name]}: {times} s", loc="left", fontsize=8.5)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside upper right", ncols=2, frameon=False,
                title="round trip", title_fontsize=8)  # fmt: skip
    made.supxlabel(axis, fontsize=9)
    made.supylabel("rate / highest rate", fontsize=9)
    return made


def latencies_figure(measured: Latencies) -> Figure:
    """Published and measured latencies of each algorithm, on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter

    made, axes = figure(1, 2, (7.2, 2.9), sharey=True)
    names = sorted(FINAL_TABLE, key=lambda name: FINAL_TABLE[name].goodput_s)
    panels = (
        ("goodput latency (s)", [FINAL_TABLE[n].goodput_s for n in names], measured.goodput),
        ("recovery latency (s)", [FINAL_TABLE[n].recovery_s for n in names], measured.recovery),
    )
    places = range(len(names))
    for ax, (title, published, rises) in zip(axes[0], panels, strict=True):
        times = [[rise.latency for rise in rises[name]] for name in names]
        ax.hlines(places, [min(t) for t in times], [max(t) for t in times], color=COLOURS[0],
                  linewidth=4, alpha=0.3, label="dumbbell, all paths")  # fmt: skip
        ax.plot([mean(t) for t in times], places, "o", color=COLOURS[0], label="dumbbell, mean")
        ax.plot(published, places, "D", color=COLOURS[1], label="NIST study")
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.set_xlabel(title)
    axes[0, 0].set_yticks(places, [LABELS[name] for name in names])
    axes[0, 0].invert_yaxis()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return made
