"""What algorithms take from the TCP flows beside them."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import p_text
from dumbbell.analysis._style import SMALL, TITLE, hide_rest, looks
from dumbbell.analysis.congestion import Congestion
from dumbbell.analysis.goodputs import KINDS, check_goodputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Coexistence:
    """`points` has one row for each condition and algorithm: mean goodput of its own flows
    (`alternate`) and of the TCP flows beside them (`tcp`), in the unit of the input."""

    points: pd.DataFrame
    algorithms: tuple[Hashable, ...]
    unit: str
    congestion: Congestion | None

    @property
    def table(self) -> pd.DataFrame:
        """One row an algorithm: over conditions, the share with more goodput than TCP and the p of
        the sign test; median and quartiles of the difference and the p of Wilcoxon's signed-rank
        test; and the `unfairness index`, the mean over conditions of the TCP goodput beside it over
        that beside all algorithms: below 1, TCP fares worse than beside the others."""
        index = self.unfairness()
        rows = {}
        for name in self.algorithms:
            here = self.points[self.points["algorithm"] == name]
            rows[name] = {**_compared(here), "unfairness index": index[name]}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("algorithm")

    def by_class(self) -> pd.DataFrame:
        """The comparison for each class of congestion: one row for each algorithm and class. Empty
        without `congestion`."""
        if self.congestion is None:
            return pd.DataFrame()
        points = self.points.assign(
            **{"class": self.points["condition"].map(self.congestion.classes)}
        )
        rows = [
            {"algorithm": name, "class": int(number), **_compared(here)}
            for (name, number), here in points.groupby(["algorithm", "class"], sort=False)
        ]
        order = {name: i for i, name in enumerate(self.algorithms)}
        return pd.DataFrame(rows).sort_values(
            ["algorithm", "class"], key=lambda c: c.map(order) if c.name == "algorithm" else c
        )

    def unfairness(self) -> pd.Series:
        """The unfairness index of each algorithm."""
        wide = self.points.pivot(index="condition", columns="algorithm", values="tcp")
        return wide.div(wide.mean(axis=1), axis=0).mean()[list(self.algorithms)]

    def reading(self) -> str:
        table = self.table
        most, index = table["share above"].idxmax(), table["unfairness index"]
        row = table.loc[most]
        return (
            f"{most} flows have more goodput than the TCP flows beside them in "
            f"{100 * row['share above']:.0f} % of {row['conditions']:.0f} conditions "
            f"({p_text(row['sign test p'])}); TCP fares worst beside {index.idxmin()} "
            f"(unfairness index {index.min():.2f}) and best beside {index.idxmax()} "
            f"({index.max():.2f})."
        )

    def figure(self) -> Figure:
        """Goodput of alternate against TCP flows, a panel for each algorithm, a point a condition;
        above the line the algorithm's flows have more."""
        from matplotlib.ticker import LogFormatter

        from dumbbell._plots import figure

        across = min(4, len(self.algorithms))
        down = math.ceil(len(self.algorithms) / across)
        size = (across * 2.15 + 0.6, down * 2.3 + 0.5)
        made, axes = figure(down, across, size, sharex=True, sharey=True)
        both = self.points[list(KINDS)].to_numpy(dtype=float)
        both = both[np.isfinite(both) & (both > 0)]
        ends = [both.min() / 1.3, both.max() * 1.3] if both.size else [0.5, 2]
        table = self.table
        for ax, name in zip(axes.ravel(), self.algorithms, strict=False):
            here = self.points[self.points["algorithm"] == name]
            shade = self._shade(here["condition"])
            ax.plot(ends, ends, color="#999999", linewidth=0.8)
            ax.scatter(here["tcp"], here["alternate"], c=shade, s=16, zorder=3)
            ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
            ax.set_box_aspect(1)
            for axis in (ax.xaxis, ax.yaxis):
                # 200 in place of 2 x 10^2.
                axis.set_major_formatter(LogFormatter())
                axis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.6)))
            ax.set_title(f"{name}: {100 * table.loc[name, 'share above']:.0f} % above", **TITLE)
        hide_rest(axes, len(self.algorithms))
        made.supxlabel(f"goodput of TCP flows ({self.unit})", fontsize=9)
        made.supylabel(f"goodput of alternate flows ({self.unit})", fontsize=9)
        if self.congestion is not None:
            made.suptitle(
                "a point a condition; the darker, the more congested", fontsize=9, ha="left", x=0.01
            )
        return made

    def histograms(self) -> Figure:
        """Differences between alternate and TCP flows as parts of their sum, a row for each class
        of congestion."""
        from dumbbell._plots import figure

        classes: list[int | None] = [None]
        of_point = pd.Series(0, index=self.points.index)
        if self.congestion is not None:
            of_point = self.points["condition"].map(self.congestion.classes)
            classes = sorted(of_point.dropna().astype(int).unique().tolist())
        down, across = len(classes), len(self.algorithms)
        size = (1.35 * across + 1.0, 1.05 * down + 1.0)
        made, axes = figure(down, across, size, sharex=True, sharey="row")
        total = self.points["alternate"] + self.points["tcp"]
        share = (self.points["alternate"] - self.points["tcp"]) / total
        # Both ends are a multiple of a tenth.
        end = max(0.1, math.ceil(10 * float(share.abs().max())) / 10)
        styles = looks(self.algorithms)
        for row, number in zip(axes, classes, strict=True):
            for ax, name in zip(row, self.algorithms, strict=True):
                chosen = self.points["algorithm"] == name
                if number is not None:
                    chosen &= of_point == number
                values = share[chosen].dropna()
                counts, edges = np.histogram(values, bins=np.linspace(-end, end, 21))
                ax.stairs(counts, edges, fill=True, color=styles[name].colour)
                ax.axvline(0, color="#999999", linewidth=0.8)
                if len(values):
                    ax.axvline(values.median(), color="#000000", linewidth=1, linestyle="--")
                ax.set_xticks([-end, 0, end])
                ax.yaxis.get_major_locator().set_params(integer=True)
            if number is not None:
                row[0].set_ylabel(f"class {number}", fontsize=SMALL)
        for ax, name in zip(axes[0], self.algorithms, strict=True):
            ax.set_title(str(name), **TITLE)
        made.supxlabel("(alternate - TCP) / (alternate + TCP) goodput; dashes: median", fontsize=9)
        made.supylabel("conditions", fontsize=9)
        return made

    def _shade(self, conditions: pd.Series) -> NDArray[np.float64] | str:
        import matplotlib as mpl

        if self.congestion is None:
            return "#0072B2"
        rank = conditions.map(self.congestion.rank).to_numpy(dtype=float)
        return np.asarray(mpl.colormaps["Blues"](0.3 + 0.7 * rank / rank.max()))


def coexistence(
    table: pd.DataFrame,
    *,
    unit: str = "packets/s",
    congestion: Congestion | None = None,
) -> Coexistence:
    """Compare the goodput of each algorithm's flows with that of the TCP flows beside them.

    `table` is one that `goodputs` makes, perhaps cut to one file type, or has one row for each
    `condition` and `algorithm` with the columns `alternate` and `tcp`. The flow groups of a
    condition are averaged, those alone of which every algorithm has both goodputs: else algorithms
    would be compared by other groups. Raises UsageError.
    """
    check_goodputs(table)
    whole = table.dropna(subset=list(KINDS))
    if "group" in table.columns:
        having = whole.groupby(["condition", "group"], sort=False)["algorithm"]
        whole = whole[having.transform("nunique") == table["algorithm"].nunique()]
    points = whole.groupby(["condition", "algorithm"], sort=False)[list(KINDS)].mean()
    if points.empty:
        raise UsageError("no flow group has goodputs of alternate and TCP flows of all algorithms")
    names = tuple(name for name in table["algorithm"].unique())
    names = tuple(name for name in names if name in points.index.get_level_values(1))
    return Coexistence(points.reset_index(), names, unit, congestion)


def _compared(here: pd.DataFrame) -> dict[str, float]:
    """Alternate against TCP over the conditions of `here`; equal pairs count for neither."""
    from scipy.stats import binomtest, wilcoxon

    difference = (here["alternate"] - here["tcp"]).to_numpy(dtype=float)
    above, below = int(np.sum(difference > 0)), int(np.sum(difference < 0))
    low, middle, high = np.quantile(difference, [0.25, 0.5, 0.75])
    unequal = above + below
    return {
        "conditions": len(difference),
        "share above": above / len(difference),
        "sign test p": float(binomtest(above, unequal).pvalue) if unequal else 1.0,
        "median difference": float(middle),
        "lower quartile": float(low),
        "upper quartile": float(high),
        "signed-rank p": float(wilcoxon(difference).pvalue) if unequal else 1.0,
    }
