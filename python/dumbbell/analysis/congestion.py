"""The order of conditions from least to most congested, and their classes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell._plots_data import number
from dumbbell.analysis._analysis import check_columns
from dumbbell.analysis._frame import response_values
from dumbbell.analysis._style import legend, looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("gaps", "equal")


@dataclass(frozen=True)
class Congestion:
    """`table` has one row a condition, from least to most congested: its `value`, `rank` (1 =
    least, ties averaged) and `class` (1 = least)."""

    table: pd.DataFrame
    response: str

    @property
    def order(self) -> list[Hashable]:
        """Conditions from least to most congested."""
        return list(self.table.index)

    @property
    def rank(self) -> pd.Series:
        return self.table["rank"]

    @property
    def classes(self) -> pd.Series:
        return self.table["class"]

    def reading(self) -> str:
        values = self.table["value"]
        return (
            f"{self.response} runs from {number(values.iloc[0])} (condition {values.index[0]}) to "
            f"{number(values.iloc[-1])} (condition {values.index[-1]}); the {len(values)} "
            f"conditions fall into {self.classes.nunique()} classes."
        )

    def figure(self) -> Figure:
        """The value of each condition in their order, coloured by class."""
        from dumbbell._plots import figure

        table = self.table
        made, axes = figure(1, 1, (max(4.5, 1.2 + 0.2 * len(table)), 3.0))
        ax = axes[0, 0]
        styles = looks(sorted(table["class"].unique()))
        ax.bar(range(len(table)), table["value"], color=[styles[c].colour for c in table["class"]])
        positive = table["value"][table["value"] > 0]
        if len(positive) and table["value"].iloc[-1] > 100 * positive.iloc[0]:
            ax.set_yscale("log")
        ax.set_xticks(range(len(table)), [str(c) for c in table.index], fontsize=7)
        if max(len(str(c)) for c in table.index) > 2:
            ax.tick_params(axis="x", rotation=90)
        ax.grid(False, axis="x")
        ax.set_xlim(-0.8, len(table) - 0.2)
        ax.set_xlabel("condition, least congested left")
        ax.set_ylabel(self.response)
        legend(made, styles, "class of congestion")
        return made


def congestion(
    frame: pd.DataFrame,
    response: str,
    *,
    condition: str = "condition",
    classes: int = 6,
    by: str = "gaps",
) -> Congestion:
    """Order conditions by the mean of `response` over all their runs, and group them.

    `by` is "gaps" (cut where neighbours lie farthest apart, on a logarithmic scale where values
    span more than tenfold) or "equal" (classes of equal size). Raises UsageError.
    """
    check_columns(frame, [condition, response])
    values = (
        response_values(frame, [response])[response].groupby(frame[condition], sort=False).mean()
    )
    values = values.dropna().sort_values(kind="stable")
    if values.empty:
        raise UsageError(f'"{response}" has no values to order conditions by')
    return Congestion(
        pd.DataFrame(
            {"value": values, "rank": values.rank(), "class": value_classes(values, classes, by)}
        ),
        response,
    )


def value_classes(values: pd.Series, classes: int, by: str = "gaps") -> pd.Series:
    """Class of each of ascending values, 1 = lowest; fewer classes where values repeat."""
    if classes < 1:
        raise UsageError(f"classes = {classes}: expected at least 1")
    if by not in METHODS:
        raise UsageError(f'by = "{by}": expected {" or ".join(METHODS)}')
    n = len(values)
    if by == "equal":
        return pd.Series(np.arange(n) * min(classes, n) // n + 1, index=values.index)
    scale = values.to_numpy(dtype=float)
    positive = scale[scale > 0]
    if positive.size and scale[0] >= 0 and scale[-1] > 10 * positive[0]:
        # A zero stands one decade below the smallest value that is seen.
        scale = np.log10(np.maximum(scale, positive[0] / 10))
    gaps = np.diff(scale)
    widest = np.argsort(-gaps, kind="stable")[: classes - 1]
    starts = np.zeros(n, dtype=int)
    starts[widest[gaps[widest] > 0] + 1] = 1
    return pd.Series(np.cumsum(starts) + 1, index=values.index)
