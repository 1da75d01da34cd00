"""The trade-off between delay and goodput (RFC 7928 section 2.7), a panel for each scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dumbbell.papers._rfc7928_cases import CASES, CONTENDERS, TAIL_DROP, Law
from dumbbell.papers._rfc7928_claims import GOODPUT, MEAN, Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 3
_PANEL_IN = (2.5, 1.35)
_LEAST_MS = 0.1
"""Where shorter delays are drawn."""
# Okabe and Ito's palette; the laws also differ in their markers.
_COLOURS: dict[Law, str] = {
    "no law": "#000000",
    "RED, BLUE": "#009E73",
    "CoDel": "#0072B2",
    "PI": "#D55E00",
    "marks only": "#CC79A7",
}
_MARKERS = "osD^v<>PXph"


def draw(grid: Grid) -> Figure:
    """Colour tells the law, shape the queue; filled: flows are held apart."""
    from matplotlib.ticker import FuncFormatter

    from dumbbell._plots import figure

    rows = -(-len(CASES) // _COLUMNS)
    made, axes = figure(
        rows, _COLUMNS, (_COLUMNS * _PANEL_IN[0], rows * _PANEL_IN[1] + 0.9), sharex=True
    )
    for ax in axes.flat[len(CASES) :]:
        ax.set_visible(False)
    for ax, case in zip(axes.flat, CASES, strict=False):
        for kind, measures in grid[case.name].items():
            ax.plot(
                max(measures[MEAN] or 0.0, _LEAST_MS), measures[GOODPUT], linestyle="none",
                label=kind, **_style(kind),
            )  # fmt: skip
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.margins(0.08, 0.15)
        ax.set_title(f"{case.section} {case.name}", loc="left", fontsize=7.5)
        ax.tick_params(labelsize=7)
    # The axes that are last in their column say the delay.
    for ax in axes.flat[max(0, len(CASES) - _COLUMNS) : len(CASES)]:
        ax.tick_params(labelbottom=True)
    made.supxlabel("mean queueing delay (ms)", fontsize=8.5)
    made.supylabel("goodput of all flows (Mbit/s)", fontsize=8.5)
    made.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=9,
        frameon=False, handletextpad=0.1, columnspacing=0.9, fontsize=8,
        title="up and to the left is better; colour: law, filled: flow queueing",
        title_fontsize=8, alignment="left",
    )  # fmt: skip
    return made


def _style(kind: str) -> dict[str, object]:
    one = CONTENDERS[kind]
    same = [name for name, other in CONTENDERS.items() if other.law == one.law]
    colour = _COLOURS[one.law]
    return {
        "marker": _MARKERS[same.index(kind) % len(_MARKERS)],
        "color": colour,
        "markerfacecolor": colour if one.fair else "none",
        # What decides nothing without ECN lies on tail drop.
        "markersize": 7 if kind == TAIL_DROP else 4.5,
        "alpha": 0.9,
    }
