"""Many tests at once: p values adjusted by Holm and by Benjamini and Hochberg."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import check_columns, numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAMILY_WISE, FALSE_DISCOVERY = "p_holm", "p_bh"


@dataclass(frozen=True)
class Adjusted:
    """A table of tests with `p_holm` (chance of any false finding among all) and `p_bh` (expected
    share of false ones among the findings) beside its p values."""

    table: pd.DataFrame
    p: str
    alpha: float

    def figure(self) -> Figure:
        """Sorted p values, raw and adjusted, with the level."""
        from dumbbell._plots import figure
        from dumbbell._plots_panels import COLOURS

        made, axes = figure(1, 1, (4.5, 3.0))
        ax = axes[0, 0]
        rows = self.table.dropna(subset=[self.p]).sort_values(self.p, kind="stable")
        rank = np.arange(1, len(rows) + 1)
        for column, label, mark, colour in (
            (FAMILY_WISE, "Holm", "^", COLOURS[1]),
            (FALSE_DISCOVERY, "Benjamini-Hochberg", "s", COLOURS[2]),
            (self.p, "not adjusted", "o", COLOURS[0]),
        ):
            ax.plot(rank, rows[column], mark, color=colour, markersize=3.5, label=label)
        ax.axhline(self.alpha, color="black", linestyle="--", linewidth=0.9)
        ax.annotate(f"p = {self.alpha:g}", (1, self.alpha), va="bottom", fontsize=7.5)
        ax.set_xlabel("test, by its p value")
        ax.set_ylabel("p value")
        ax.set_ylim(-0.03, 1.03)
        ax.legend(frameon=False, fontsize=7.5)
        return made

    def reading(self) -> str:
        count = int(self.table[self.p].notna().sum())
        below = {name: int((self.table[name] < self.alpha).sum()) for name in self._columns()}
        return (
            f"Of {count} tests {below[self.p]} have p < {self.alpha:g}; after adjustment for their "
            f"number {below[FALSE_DISCOVERY]} (Benjamini-Hochberg) or {below[FAMILY_WISE]} (Holm)."
        )

    def _columns(self) -> tuple[str, str, str]:
        return self.p, FAMILY_WISE, FALSE_DISCOVERY


def adjust(
    table: pd.DataFrame, *, p: str = "p", by: str | None = None, alpha: float = 0.05
) -> Adjusted:
    """Adjust the p values in column `p` for their number.

    All are one family, or with `by` those of each value of that column. Missing p values stay
    missing and do not count. Computed by statsmodels. Raises UsageError for missing columns and
    values outside 0 to 1.
    """
    from statsmodels.stats.multitest import multipletests

    check_columns(table, [p, *([by] if by else [])])
    values = numbers(table, p)
    if np.any((values < 0) | (values > 1)):
        raise UsageError(f"column {p}: expected p values from 0 to 1")
    adjusted = table.copy()
    families = table[by].to_numpy() if by else np.zeros(len(table))
    for column, method in ((FAMILY_WISE, "holm"), (FALSE_DISCOVERY, "fdr_bh")):
        found = np.full(len(values), np.nan)
        for family in pd.unique(families):
            rows = (families == family) & ~np.isnan(values)
            if rows.any():
                found[rows] = multipletests(values[rows], alpha=alpha, method=method)[1]
        adjusted[column] = found
    return Adjusted(adjusted, p, alpha)
