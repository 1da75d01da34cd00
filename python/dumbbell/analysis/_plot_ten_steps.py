"""The ten figures of the graphical analysis, in the order of `graphical.STEPS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dumbbell._plots import figure
from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS
from dumbbell.analysis._labels import fitting, mean_of, short_terms, wrapped
from dumbbell.analysis._plot_effects import draw_segment, name_factors
from dumbbell.analysis.coding import product
from dumbbell.analysis.graphical import TenSteps, block_factors, block_means
from dumbbell.analysis.halfnormal import plot_of_effects

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOW, _HIGH = COLOURS[0], COLOURS[1]
_MOST_CONTRASTS = 31
_MOST_LABELS = 12


def ordered_data(steps: TenSteps) -> Figure:
    """Step 1: the responses in ascending order, with the settings of each run below."""
    order = np.argsort(steps.values, kind="stable")
    count = len(steps.factors)
    width = max(4.5, 1.2 + 0.17 * len(order))
    made, axes = figure(
        2,
        1,
        (width, 2.6 + 0.17 * count),
        sharex=True,
        gridspec_kw={"height_ratios": [2.0, 0.17 * count]},
    )
    place = np.arange(1, len(order) + 1)
    axes[0, 0].plot(place, steps.values[order], "o-", color=_LOW, markersize=3.5, linewidth=0.8)
    axes[0, 0].set_ylabel(wrapped(steps.response))
    below = axes[1, 0]
    signs = steps.signs[list(steps.factors)].to_numpy()[order]
    for row in range(count):
        high = signs[:, row] > 0
        below.plot(place[high], np.full(high.sum(), row), "+", color=_HIGH, markersize=5)
        below.plot(place[~high], np.full((~high).sum(), row), "_", color=_LOW, markersize=5)
    below.set_yticks(range(count), steps.factors)
    below.set_ylim(count - 0.5, -0.5)
    below.grid(visible=False)
    below.set_xlabel("runs by response, lowest first;\n+ and - : level of each factor")
    return made


def scatter(steps: TenSteps) -> Figure:
    """Step 2: every response at the low and the high level of each factor."""
    made, ax = _factor_axes(steps)
    for place, factor in enumerate(steps.factors):
        for sign, colour in ((-1, _LOW), (1, _HIGH)):
            here = steps.values[steps.signs[factor].to_numpy() == sign]
            ax.plot(
                np.full(len(here), place + 0.2 * sign),
                here,
                "o",
                color=colour,
                markersize=3,
                alpha=0.7,
            )
    ax.set_ylabel(wrapped(steps.response))
    return made


def means(steps: TenSteps) -> Figure:
    """Step 3: mean response at the low and the high level of each factor."""
    made, ax = _factor_axes(steps)
    margin = steps.lenth.margin
    for place, factor in enumerate(steps.factors):
        row = steps.table.loc[factor]
        draw_segment(ax, place, row.mean_low, row.mean_high, abs(row.effect) > margin)
    ax.axhline(steps.mean, color="black", linewidth=0.7, linestyle=":")
    ax.set_ylabel(mean_of(steps.response))
    return made


def interaction_effects(steps: TenSteps) -> Figure:
    """Step 4: means at - and + of each factor (diagonal) and each product of two factors."""
    count = len(steps.factors)
    size = 0.9 + (0.85 if count > 4 else 1.3) * count
    made, axes = figure(count, count, (size, size), sharex=True, sharey=True)
    margin = steps.lenth.margin
    for (row, column), ax in np.ndenumerate(axes):
        if column < row:
            ax.set_axis_off()
            continue
        word = sorted({row, column})
        factors = [steps.factors[place] for place in word]
        signs = product(steps.signs, factors)
        low, high = (steps.values[signs < 0], steps.values[signs > 0])
        if not len(low) or not len(high):
            ax.text(0.5, 0.5, "constant", ha="center", transform=ax.transAxes, fontsize=7)
            continue
        effect = high.mean() - low.mean()
        colour = _HIGH if abs(effect) > margin else CAPACITY_COLOUR
        ax.plot([-1, 1], [low.mean(), high.mean()], "o-", color=colour, markersize=3)
        ax.axhline(steps.mean, color="black", linewidth=0.5, linestyle=":")
        name = f"{factors[0]}  " if row == column else ""
        points = fitting(f"{name}{effect:+.2g}", size / count, 7.5)
        ax.set_title(f"{name}{effect:+.2g}", fontsize=points)
        ax.set_xticks([-1, 1], ["-", "+"])
        ax.set_xlim(-1.6, 1.6)
        ax.yaxis.set_ticks_position("right")
        ax.tick_params(labelright=column == count - 1, labelleft=False, labelbottom=row == column)
    made.suptitle(
        mean_of(steps.response)
        + "\n"
        + wrapped(
            "at - and + of each factor (diagonal) and product of two; "
            "coloured: beyond Lenth's margin",
            round(14 * size),
        ),
        fontsize=8,
    )
    return made


def blocks(steps: TenSteps) -> Figure:
    """Step 5: the two levels of each factor within blocks of the other factors' settings."""
    by_size = [name for name in steps.table.index if name in steps.factors]
    columns = min(3, len(steps.factors))
    rows = -(-len(steps.factors) // columns)
    made, axes = figure(rows, columns, (2.2 * columns, 0.5 + 1.75 * rows), sharey=True)
    for place, ax in enumerate(axes.flat):
        # Room below the lowest bar.
        ax.use_sticky_edges = False
        ax.set_visible(place < len(steps.factors))
    for factor, ax in zip(steps.factors, axes.flat, strict=False):
        by = block_factors(steps.signs, factor, by_size)
        found = block_means(steps.signs, steps.values, factor, by)
        at = np.arange(len(found))
        ax.bar(
            at,
            (found[1] - found[-1]).abs(),
            bottom=found.min(axis=1),
            width=0.7,
            color="#F2F2F2",
            edgecolor=CAPACITY_COLOUR,
            linewidth=0.6,
        )
        ax.plot(at, found[-1], "_", color=_LOW, markersize=6, markeredgewidth=1.6)
        ax.plot(at, found[1], "+", color=_HIGH, markersize=6, markeredgewidth=1.6)
        row = steps.blocks.loc[factor]
        title = f"{factor}: + above - in {row.above} of {row.blocks}"
        ax.set_title(title, fontsize=fitting(title, 2.0, 7.5))
        ax.set_xticks(range(len(found)), _block_labels(found, by), fontsize=6.5)
        ax.set_xlabel(wrapped("blocks: " + ", ".join(by), 34), fontsize=7)
        ax.grid(axis="x", visible=False)
    made.supylabel(mean_of(steps.response), fontsize=8.5)
    return made


def youden(steps: TenSteps) -> Figure:
    """Step 6: mean at + against mean at - of every factor and interaction."""
    made, axes = figure(1, 1, (4.2, 4.0))
    ax = axes[0, 0]
    table = _shown(steps)
    margin = steps.lenth.margin
    large = (table["effect"].abs() > margin).to_numpy()
    for part, colour in ((~large, CAPACITY_COLOUR), (large, _HIGH)):
        ax.plot(table["mean_low"][part], table["mean_high"][part], "o", color=colour, markersize=4)
    labels, key = short_terms(steps.table.index)
    for name, row in table[large].head(_MOST_LABELS).iterrows():
        ax.annotate(
            labels[str(name)],
            (row.mean_low, row.mean_high),
            xytext=(5, 2),
            textcoords="offset points",
            fontsize=7.5,
        )
    ax.axhline(steps.mean, color="black", linewidth=0.6, linestyle=":")
    ax.axvline(steps.mean, color="black", linewidth=0.6, linestyle=":")
    ax.set_xlabel(f"{mean_of(steps.response)}\nat - of each term")
    ax.set_ylabel(f"{mean_of(steps.response)}\nat + of each term")
    _add_key(made, key)
    ax.margins(0.12)
    return made


def sizes(steps: TenSteps) -> Figure:
    """Step 7: sizes of the effects, the largest first, with Lenth's margins."""
    table = _shown(steps)
    made, ax = _contrast_axes(table)
    size = table["effect"].abs().to_numpy()
    margin = steps.lenth.margin
    colours = np.where(size > margin, _HIGH, CAPACITY_COLOUR)
    ax.bar(range(len(table)), size, color=colours)
    ax.axhline(margin, color="black", linestyle="--", linewidth=0.9, label="margin of error")
    ax.axhline(
        steps.lenth.simultaneous,
        color="black",
        linestyle=":",
        linewidth=0.9,
        label="simultaneous margin",
    )
    ax.legend(frameon=False, fontsize=7.5)
    for place, effect in enumerate(table["effect"]):
        sign = "+" if effect > 0 else "-"
        ax.text(place, abs(effect), sign, ha="center", va="bottom", fontsize=8)
    ax.set_ylabel(wrapped(f"|effect| on {steps.response}"))
    ax.set_xlabel("factor or interaction; + or -: sign of its effect")
    return made


def half_normal(steps: TenSteps) -> Figure:
    """Step 8: half-normal probability plot of the sizes of the effects."""
    return plot_of_effects(steps.response, steps.table["effect"], steps.table["aliases"]).figure()


def residual_sd(steps: TenSteps) -> Figure:
    """Step 9: residual standard deviation as the terms enter the model."""
    table = _shown(steps)
    made, ax = _contrast_axes(table, first="mean")
    ax.plot(
        range(len(table) + 1), [steps.sd, *table["residual_sd"]], "o-", color=_LOW, markersize=4
    )
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"residual standard deviation\nof {wrapped(steps.response)}")
    ax.set_xlabel("term added to the model")
    return made


def contour(steps: TenSteps) -> Figure:
    """Step 10: the model of the two dominant factors, with the means at the corners."""
    first, second = steps.dominant()
    model = steps.coefficients()
    reach = np.linspace(-1.4, 1.4, 57)
    x, y = np.meshgrid(reach, reach)
    surface: NDArray[Any] = (
        model["mean"] + model[first] * x + model[second] * y + model["interaction"] * x * y
    )
    made, axes = figure(1, 1, (4.4, 4.0))
    ax = axes[0, 0]
    if np.ptp(surface) > 0:
        lines = ax.contour(x, y, surface, levels=9, colors=CAPACITY_COLOUR, linewidths=0.9)
        ax.clabel(lines, fontsize=7)
    cells = pd.DataFrame(
        {"x": steps.signs[first], "y": steps.signs[second], "mean": steps.values}
    ).groupby(["x", "y"])["mean"]
    for (right, up), mean in cells.mean().items():
        ax.plot(right, up, "o", color=_HIGH if mean > steps.mean else _LOW, markersize=6)
        ax.annotate(
            f"{mean:.3g}",
            (right, up),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"},
        )
    ax.set_xticks([-1, 1], steps.levels[first])
    ax.set_yticks([-1, 1], steps.levels[second])
    ax.set_xlabel(first)
    ax.set_ylabel(second)
    ax.set_title(wrapped(f"{steps.response}: model and means of runs", 56), fontsize=8.5)
    ax.grid(visible=False)
    return made


DRAW: tuple[Callable[[TenSteps], Figure], ...] = (
    ordered_data,
    scatter,
    means,
    interaction_effects,
    blocks,
    youden,
    sizes,
    half_normal,
    residual_sd,
    contour,
)


def _shown(steps: TenSteps) -> pd.DataFrame:
    return steps.table.head(_MOST_CONTRASTS)


def _factor_axes(steps: TenSteps) -> tuple[Figure, Axes]:
    made, axes = figure(1, 1, (max(3.5, 0.9 + 0.65 * len(steps.factors)), 2.8))
    name_factors(axes[0, 0], steps.factors)
    axes[0, 0].grid(axis="x", visible=False)
    axes[0, 0].set_xlabel("factor, its low level on the left")
    return made, axes[0, 0]


def _contrast_axes(table: pd.DataFrame, first: str | None = None) -> tuple[Figure, Axes]:
    short, key = short_terms(map(str, table.index))
    labels = [*([first] if first else []), *short.values()]
    longest = max(map(len, labels))
    made, axes = figure(1, 1, (max(4.0, 1.0 + 0.2 * len(labels)), 2.6 + 0.06 * longest))
    ax = axes[0, 0]
    ax.set_xticks(range(len(labels)), labels, rotation=90)
    ax.set_xlim(-0.7, len(labels) - 0.3)
    ax.grid(axis="x", visible=False)
    _add_key(made, key)
    return made, ax


def _add_key(made: Figure, key: str) -> None:
    """What the letters of the terms stand for, under the axes."""
    if key:
        made.supxlabel(wrapped(key, round(made.get_figwidth() * 16)), fontsize=7)


def _block_labels(found: pd.DataFrame, by: list[str]) -> list[str]:
    if not by:
        return ["all"]
    keys = [key if isinstance(key, tuple) else (key,) for key in found.index]
    return ["\n".join("+" if sign > 0 else "-" for sign in key) for key in keys]
