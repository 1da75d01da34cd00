"""Which effects stand out where there are no replicates: Lenth's method and probability plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import check_confidence, numbers
from dumbbell.analysis._labels import short_terms, wrapped
from dumbbell.analysis.coding import Levels, coded, contrasts, difference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LARGE = "stands out"
_POSSIBLE = "may be real"
_NOISE = "noise"


@dataclass(frozen=True)
class Lenth:
    """Lenth's error of a set of effects, in the response's unit.

    An effect beyond `margin` is unlikely to be noise if it was asked about before; one beyond
    `simultaneous` even if it is the largest of all.
    """

    pse: float
    """Pseudo standard error of an effect."""
    df: float
    margin: float
    simultaneous: float


def lenth(effects: ArrayLike, confidence: float = 0.95) -> Lenth:
    """Lenth's pseudo standard error and margins of error of `effects`, (m,) orthogonal contrasts.

    Most effects are taken to be noise, so at least three are needed. Raises UsageError for fewer.
    Source: R. V. Lenth, "Quick and Easy Analysis of Unreplicated Factorials", Technometrics 31(4),
    1989.
    """
    from scipy import stats

    check_confidence(confidence)
    sizes = np.abs(np.asarray(effects, dtype=float))
    sizes = sizes[~np.isnan(sizes)]
    if len(sizes) < 3:
        raise UsageError(f"Lenth's method: expected three effects or more, there are {len(sizes)}")
    first = 1.5 * np.median(sizes)
    # All equal to 0 or nearly all: nothing lies below 0, and the error is 0.
    pse = float(1.5 * np.median(sizes[sizes < 2.5 * first])) if first > 0 else 0.0
    df = len(sizes) / 3
    each = (1 + confidence) / 2
    together = (1 + confidence ** (1 / len(sizes))) / 2
    return Lenth(
        pse, df, float(stats.t.ppf(each, df)) * pse, float(stats.t.ppf(together, df)) * pse
    )


@dataclass(frozen=True)
class EffectsPlot:
    """Effects against the quantiles that noise alone would have.

    `table` is by size, the largest first: effect, its aliases, `half_normal` and `normal`
    (quantiles), `ratio` to the pseudo standard error, and `verdict`.
    """

    response: str
    table: pd.DataFrame
    lenth: Lenth

    def figure(self, kind: Literal["half-normal", "normal"] = "half-normal") -> Figure:
        """Half-normal plot of the sizes, or normal plot of the effects with their signs."""
        from dumbbell._plots import figure

        made, axes = figure(1, 1, (4.5, 3.4))
        draw_effects_plot(axes[0, 0], self, kind)
        return made

    def reading(self) -> str:
        large = self.table[self.table["verdict"] == _LARGE]
        margin = f"Lenth's simultaneous margin, {self.lenth.simultaneous:.3g}"
        if large.empty:
            return f"No effect on {self.response} is beyond {margin}."
        listed = ", ".join(f"{name} ({row.effect:+.3g})" for name, row in large.iterrows())
        return f"Effects on {self.response} beyond {margin}: {listed}."


def effects_plot(
    frame: pd.DataFrame,
    response: str,
    factors: Sequence[str],
    *,
    levels: Levels | None = None,
    confidence: float = 0.95,
) -> EffectsPlot:
    """All contrasts of a two-level design on one response, with Lenth's margins.

    Runs whose response is missing are left out. Plotting positions are (i - 0.5) / m.
    """
    values = numbers(frame, response)
    present = np.isfinite(values)
    found = contrasts(coded(frame, factors, levels))
    return plot_of_effects(
        response,
        pd.Series({each.name: difference(values[present], each.column[present]) for each in found}),
        {each.name: ", ".join(each.aliases) for each in found},
        confidence,
    )


def plot_of_effects(
    response: str,
    effects: pd.Series,
    aliases: Mapping[str, str] | pd.Series,
    confidence: float = 0.95,
) -> EffectsPlot:
    """The same of effects that are known, by name; `aliases` has a text for each."""
    from scipy import stats

    error = lenth(effects.to_numpy(), confidence)
    table = pd.DataFrame({"effect": effects.astype(float)})
    table.index.name = "contrast"
    table["aliases"] = [aliases[name] for name in table.index]
    table["size"] = table["effect"].abs()
    share = (np.arange(len(table)) + 0.5) / len(table)
    table = table.sort_values("size", kind="stable")
    table["half_normal"] = stats.halfnorm.ppf(share)
    table = table.sort_values("effect", kind="stable")
    table["normal"] = stats.norm.ppf(share)
    with np.errstate(divide="ignore", invalid="ignore"):
        table["ratio"] = table["effect"] / error.pse
    table["verdict"] = np.select(
        [table["size"] > error.simultaneous, table["size"] > error.margin],
        [_LARGE, _POSSIBLE],
        _NOISE,
    )
    return EffectsPlot(response, table.sort_values("size", ascending=False, kind="stable"), error)


def draw_effects_plot(ax: Axes, plot: EffectsPlot, kind: str) -> None:
    """Draw the plot in given axes."""
    from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

    half = kind == "half-normal"
    x = plot.table["half_normal" if half else "normal"].to_numpy()
    y = plot.table["size" if half else "effect"].to_numpy()
    real = (plot.table["verdict"] != _NOISE).to_numpy()
    ax.plot(x[~real], y[~real], "o", color=CAPACITY_COLOUR, markersize=4)
    ax.plot(x[real], y[real], "o", color=COLOURS[1], markersize=5)
    reach = np.array([0.0 if half else x.min(), x.max()])
    ax.plot(reach, plot.lenth.pse * reach, color=COLOURS[0], linewidth=1, label="noise alone")
    both = ((1.0,), (1.0, -1.0))[not half]
    for margin, dash, label in (
        (plot.lenth.margin, "--", "margin of error"),
        (plot.lenth.simultaneous, ":", "simultaneous margin"),
    ):
        for side in both:
            ax.axhline(
                side * margin,
                color="black",
                linestyle=dash,
                linewidth=0.9,
                label=label if side > 0 else None,
            )
    labels, key = short_terms(map(str, plot.table.index))
    for name, here, there in zip(plot.table.index[real], x[real], y[real], strict=True):
        ax.annotate(
            labels[name],
            (here, there),
            xytext=(-5, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=8,
        )
    quantile = "half-normal quantile" if half else "normal quantile"
    ax.set_xlabel("\n".join([quantile, *([wrapped(key, 72)] if key else [])]))
    ax.set_ylabel(wrapped(f"|effect| on {plot.response}" if half else f"effect on {plot.response}"))
    ax.margins(x=0.08)
    if half:
        ax.set_ylim(bottom=0)
    ax.legend(loc="upper left", fontsize=7, framealpha=1, edgecolor="none")
