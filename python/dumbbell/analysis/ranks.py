"""How algorithms rank by goodput, for their own flows and for the TCP flows beside them."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._style import TITLE, hide_rest, legend, looks, small_colorbar
from dumbbell.analysis.congestion import Congestion
from dumbbell.analysis.goodputs import KINDS, check_goodputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOTH = "both"


@dataclass(frozen=True)
class Ranks:
    """`cells` has one row for each condition, group, file and algorithm: its rank among the
    algorithms by the goodput of its own flows (`alternate`) and of the TCP flows beside it
    (`tcp`); 1 is best, ties are averaged. Missing where an algorithm had too few flows."""

    cells: pd.DataFrame
    algorithms: tuple[Hashable, ...]
    congestion: Congestion | None

    def matrix(self, algorithm: Hashable, kind: str = "alternate") -> pd.DataFrame:
        """Ranks of an algorithm: groups by conditions (in the order of congestion)."""
        if kind not in KINDS:
            raise UsageError(f'kind = "{kind}": expected {" or ".join(KINDS)}')
        if algorithm not in self.algorithms:
            raise UsageError(f'there is no algorithm "{algorithm}" in the table')
        here = self.cells[self.cells["algorithm"] == algorithm]
        wide = here.pivot(index="group", columns="condition", values=kind)
        return wide.reindex(index=self.cells["group"].unique(), columns=self._order())

    @property
    def table(self) -> pd.DataFrame:
        """Mean and standard deviation of the ranks: one row for each algorithm and file type (and
        for "all" of them), for alternate flows, TCP flows and `both` (mean of the two)."""
        cells = self.cells.assign(both=self.cells[list(KINDS)].mean(axis=1, skipna=False))
        parts = [cells.assign(file="all")]
        if cells["file"].nunique() > 1:
            parts.append(cells)
        rows = pd.concat(parts).groupby(["algorithm", "file"], sort=False)
        summary = rows[[*KINDS, BOTH]].agg(["mean", "std"])
        summary.columns = [f"{kind} {'sd' if what == 'std' else what}" for kind, what in summary]
        return summary.reset_index().sort_values(["file", "both mean"], kind="stable")

    def reading(self) -> str:
        table = self.table[self.table["file"] == "all"].set_index("algorithm")
        text = []
        for kind, what in (("alternate", "its own flows"), ("tcp", "the TCP flows beside it")):
            means = table[f"{kind} mean"].dropna().sort_values()
            if len(means):
                text.append(
                    f"by {what} {means.index[0]} ranks best (mean {means.iloc[0]:.2f}) and "
                    f"{means.index[-1]} last ({means.iloc[-1]:.2f})"
                )
        if not text:
            return "No group of flows has enough flows of all algorithms to rank them."
        ranked = int(self.cells["alternate"].notna().sum())
        return (
            f"Of {len(self.algorithms)} algorithms, {'; '.join(text)}; {ranked} of "
            f"{len(self.cells)} cells are ranked."
        )

    def figure(self, kind: str = "alternate") -> Figure:
        """A heat map for each algorithm, groups by conditions; blue is first, grey not ranked."""
        import matplotlib as mpl

        from dumbbell._plots import figure

        shape = self.matrix(self.algorithms[0], kind).shape
        across = min(4, len(self.algorithms))
        down = math.ceil(len(self.algorithms) / across)
        width = min(3.2, max(1.6, 0.09 * shape[1] + 0.4))
        height = min(3.0, max(1.1, 0.085 * shape[0] + 0.4))
        size = (across * width + 1.4, down * height + 0.7)
        made, axes = figure(down, across, size, sharex=True, sharey=True)
        colours = mpl.colormaps["RdYlBu_r"].with_extremes(bad="#BBBBBB")
        images = []
        for ax, name in zip(axes.ravel(), self.algorithms, strict=False):
            values = np.ma.masked_invalid(self.matrix(name, kind).to_numpy(dtype=float))
            worst = len(self.algorithms)
            images.append(ax.imshow(values, cmap=colours, vmin=1, vmax=worst, aspect="auto"))
            ax.grid(False)
            ax.set_title(str(name), **TITLE)
            groups = list(self.cells["group"].unique())
            step = max(1, len(groups) // 12)
            ax.set_yticks(range(0, len(groups), step), groups[::step], fontsize=7)
            step = math.ceil(shape[1] / 8)
            ax.set_xticks(
                range(0, shape[1], step), [str(c) for c in self._order()[::step]], fontsize=7
            )
        hide_rest(axes, len(self.algorithms))
        small_colorbar(made, images[0], axes, "rank (1 = best)")
        ordered = ", most congested right" if self.congestion else ""
        made.supxlabel(f"condition{ordered}", fontsize=9)
        made.supylabel("flow group", fontsize=9)
        return made

    def scatter(self) -> Figure:
        """Mean against standard deviation of the ranks, a panel for each kind of flows."""
        from dumbbell._plots import figure

        table = self.table[self.table["file"] == "all"].set_index("algorithm")
        kinds = {"alternate": "alternate flows", "tcp": "TCP flows", BOTH: "all flows"}
        made, axes = figure(1, len(kinds), (9.0, 3.2), sharey=True, sharex=True)
        styles = looks(self.algorithms)
        for ax, (kind, title) in zip(axes[0], kinds.items(), strict=True):
            for name, look in styles.items():
                row = table.loc[name]
                x, y = row[f"{kind} mean"], row[f"{kind} sd"]
                ax.scatter(x, y, color=look.colour, marker=look.marker, s=36, zorder=3)
            ax.set_title(title, **TITLE)
            ax.set_xlabel("mean rank (1 = best)")
            ax.margins(0.15)
        axes[0, 0].set_ylabel("standard deviation of the rank")
        legend(made, styles)
        return made

    def _order(self) -> list[Hashable]:
        there = list(self.cells["condition"].unique())
        return [c for c in self.congestion.order if c in there] if self.congestion else there


def ranks(table: pd.DataFrame, *, congestion: Congestion | None = None) -> Ranks:
    """Rank the algorithms by goodput in each condition and flow group.

    `table` is one that `goodputs` makes. A group in a condition is ranked only where every
    algorithm has a goodput, so that the ranks always sum to A (A + 1) / 2. Raises UsageError.
    """
    check_goodputs(table, ("group", "file", *KINDS))
    names = tuple(table["algorithm"].unique())
    cells = table[["condition", "group", "file", "algorithm"]].copy()
    for kind in KINDS:
        groups = table.groupby(["condition", "group"], sort=False)[kind]
        complete = groups.transform("count") == len(names)
        cells[kind] = groups.rank(ascending=False, method="average").where(complete)
    return Ranks(cells.reset_index(drop=True), names, congestion)
