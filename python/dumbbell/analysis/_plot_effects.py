"""Figures of main effects and interactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dumbbell._errors import UsageError, show_value, suggest
from dumbbell._plots import figure
from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS
from dumbbell.analysis._labels import fitting, mean_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dumbbell.analysis.effects import Interactions, MainEffects

_HIGH, _LOW = COLOURS[1], COLOURS[0]


def main_effects_figure(effects: MainEffects, responses: Sequence[str]) -> Figure:
    """A row of axes per response; a segment from mean to mean per factor."""
    for response in responses:
        _check_response(response, effects.responses)
    width = max(3.5, 0.8 + 0.75 * len(effects.factors))
    made, axes = figure(len(responses), 1, (width, 0.4 + 2.1 * len(responses)), sharex=True)
    for ax, response in zip(axes[:, 0], responses, strict=True):
        rows = effects.table[effects.table["response"] == response]
        for place, row in enumerate(rows.itertuples()):
            draw_segment(ax, place, row.mean_low, row.mean_high, row.p < 0.05)
            ax.annotate(
                _p_short(row.p)
                if np.isnan(row.relative)
                else f"{row.relative:+.0%}\n{_p_short(row.p)}",
                (place, 1.0),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="bottom",
                fontsize=7,
            )
        mean = (rows["mean_low"] * rows["n_low"] + rows["mean_high"] * rows["n_high"]) / (
            rows["n_low"] + rows["n_high"]
        )
        ax.axhline(float(mean.iloc[0]), color="black", linewidth=0.7, linestyle=":")
        ax.set_ylabel(mean_of(response))
        ax.grid(axis="x", visible=False)
    name_factors(axes[-1, 0], effects.factors)
    axes[-1, 0].set_xlabel("factor, from its low to its high level")
    return made


def draw_segment(ax: Axes, place: float, low: float, high: float, strong: bool) -> None:
    """A factor's two means, joined."""
    colour = _HIGH if strong else CAPACITY_COLOUR
    ax.plot([place - 0.25, place + 0.25], [low, high], color=colour, linewidth=1.4)
    ax.plot([place - 0.25], [low], "o", color=colour, markersize=4, markerfacecolor="white")
    ax.plot([place + 0.25], [high], "o", color=colour, markersize=4)


def name_factors(ax: Axes, factors: Sequence[str]) -> None:
    """Factors' names under the places 0, 1, ...; aslant where they would touch."""
    ax.set_xticks(range(len(factors)), factors)
    if max(map(len, factors)) > 8:
        ax.tick_params(axis="x", rotation=35)
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    ax.set_xlim(-0.6, len(factors) - 0.4)


def signs_figure(effects: MainEffects) -> Figure:
    """Responses x factors; strong colours for p < .01, pale for p < .05."""
    from matplotlib.colors import ListedColormap

    signs = effects.signs()
    shades = signs.map(lambda cell: cell.count("*") * (-1 if cell.startswith("-") else 1))
    colours = ListedColormap([_LOW, "#9CC8E3", "#F2F2F2", "#F0B48A", _HIGH])
    size = (2.2 + 0.55 * len(effects.factors), 1.4 + 0.26 * len(effects.responses))
    made, axes = figure(1, 1, size)
    ax = axes[0, 0]
    ax.imshow(shades.to_numpy(dtype=float), cmap=colours, vmin=-2.5, vmax=2.5, aspect="auto")
    for (row, column), cell in np.ndenumerate(signs.to_numpy()):
        strong = abs(shades.iat[row, column]) == 2
        colour = "white" if strong else "black"
        ax.text(column, row, cell, ha="center", va="center", color=colour, fontsize=8)
    name_factors(ax, effects.factors)
    ax.set_yticks(range(len(signs)), signs.index)
    ax.set_xlabel("factor: sign of its effect,\n** p < .01, * p < .05")
    ax.set_xlim(-0.5, len(effects.factors) - 0.5)
    ax.grid(visible=False)
    ax.tick_params(length=0)
    return made


def interactions_figure(found: Interactions, response: str) -> Figure:
    """Means against the column's factor, one line per level of the row's factor."""
    _check_response(response, found.responses)
    factors = found.factors
    count = len(factors)
    cell = 0.95 if count > 4 else 1.4
    made, axes = figure(
        count, count, (0.8 + cell * count, 0.8 + cell * count), sharex=True, sharey=True
    )
    cells = found.cells[found.cells["response"] == response]
    table = found.table[found.table["response"] == response].set_index("interaction")
    for (row, column), ax in np.ndenumerate(axes):
        first, second = factors[row], factors[column]
        if column <= row:
            ax.set_axis_off()
            if column == row:
                points = fitting(first, cell, 9)
                middle = {"ha": "center", "va": "center", "transform": ax.transAxes}
                ax.text(0.5, 0.5, first, fontsize=points, **middle)
            continue
        here = cells[(cells["first"] == first) & (cells["second"] == second)]
        for level, word, colour, dash in ((-1, "low", _LOW, "-"), (1, "high", _HIGH, "--")):
            line = here[here["at_first"] == level].sort_values("at_second")
            ax.plot(
                line["at_second"],
                line["mean"],
                dash,
                color=colour,
                marker="o",
                markersize=3,
                label=f"{word} level of the row's factor",
            )
        result = table.loc[f"{first}:{second}"]
        ax.set_title(f"{result.effect:+.2g}{' *' if result.p < 0.05 else ''}", fontsize=7.5)
        ax.set_xticks([-1, 1], ["-", "+"])
        ax.set_xlim(-1.5, 1.5)
        ax.yaxis.set_ticks_position("right")
        ax.tick_params(labelright=column == count - 1, labelleft=False, labelbottom=True)
    handles, labels = axes[0, 1].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower left", frameon=False, fontsize=7.5)
    made.suptitle(
        mean_of(response)
        + "\n"
        + wrapped(
            "at - and + of the column's factor; above: the interaction effect, * p < .05",
            round(14 * made.get_figwidth()),
        ),
        fontsize=8,
    )
    return made


def _check_response(response: str, known: Sequence[str]) -> None:
    if response not in known:
        raise UsageError(f"response {show_value(response)}{suggest(response, known)}")


def _p_short(p: float) -> str:
    return "p<.0001" if p < 1e-4 else f"p={p:.2g}".replace("0.", ".")
