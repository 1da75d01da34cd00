"""The ten-step graphical analysis of a two-level design.

Source: NIST/SEMATECH e-Handbook of Statistical Methods, section 5.5.9 ("An EDA approach to
experimental design"). Here are the numbers behind the ten figures; `_plot_ten_steps` draws them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError, show_value, suggest
from dumbbell.analysis._analysis import Floats, numbers
from dumbbell.analysis.coding import (
    Contrast,
    Levels,
    coded,
    contrasts,
    difference,
    factor_levels,
    product,
)
from dumbbell.analysis.halfnormal import Lenth, lenth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = (
    "ordered data",
    "scatter",
    "means",
    "interaction effects",
    "blocks",
    "Youden",
    "sizes of effects",
    "half-normal",
    "residual standard deviation",
    "contour",
)
_MOST_BLOCK_FACTORS = 3


@dataclass(frozen=True)
class TenSteps:
    """The statistics of the ten steps for one response.

    `table` has a row per contrast (main effects, and interactions as far as the design has degrees
    of freedom), the largest effect first: `effect`, `relative`, `mean_low`, `mean_high`, `aliases`
    and `residual_sd`, the residual standard deviation of the model with the mean, this term and all
    terms above it (NaN for the saturated model). `blocks` has a row per factor: the factors that
    make its blocks, in how many of the `blocks` its high level is above its low one, and the sign
    test's p.
    """

    response: str
    factors: tuple[str, ...]
    levels: dict[str, tuple[str, str]]
    """The low and the high level of each factor, as text."""
    signs: pd.DataFrame
    values: Floats
    table: pd.DataFrame
    blocks: pd.DataFrame
    lenth: Lenth
    mean: float
    sd: float
    """Standard deviation of the response, the residual one of the model with the mean alone."""

    def figure(self, step: str | int = "sizes of effects") -> Figure:
        """The figure of one step: its number from 1, or its name in `STEPS`."""
        from dumbbell.analysis._plot_ten_steps import DRAW

        if isinstance(step, int) and 1 <= step <= len(STEPS):
            step = STEPS[step - 1]
        if not isinstance(step, str) or step not in STEPS:
            raise UsageError(f"step {show_value(step)}{suggest(str(step), STEPS)}")
        return DRAW[STEPS.index(step)](self)

    def figures(self) -> dict[str, Figure]:
        """All ten figures by the names in `STEPS`."""
        return {step: self.figure(step) for step in STEPS}

    def dominant(self) -> tuple[str, str]:
        """The two factors with the largest main effects."""
        first, second = [name for name in self.table.index if name in self.factors][:2]
        return first, second

    def coefficients(self) -> dict[str, float]:
        """The model of the two dominant factors and their interaction: `mean`, each factor's
        coefficient (half its effect) and `interaction`, in coded units."""
        first, second = self.dominant()
        both = product(self.signs, [first, second])
        return {
            "mean": self.mean,
            first: float(self.table.loc[first, "effect"]) / 2,
            second: float(self.table.loc[second, "effect"]) / 2,
            # Nothing is known of an interaction whose column never changes.
            "interaction": difference(self.values, both) / 2 if len(set(both)) == 2 else 0.0,
        }

    def reading(self) -> str:
        first, second = self.table.iloc[0], self.table.iloc[1]
        return (
            f"{self.response} depends most on {first.name} ({first.effect:+.3g}), then on "
            f"{second.name} ({second.effect:+.3g}); with these two the residual standard deviation "
            f"is {second.residual_sd:.3g}, of {self.sd:.3g} with the mean alone."
        )


def ten_steps(
    frame: pd.DataFrame,
    response: str,
    factors: Sequence[str],
    *,
    levels: Levels | None = None,
) -> TenSteps:
    """Prepare the ten-step graphical analysis of one response of a two-level design.

    Runs whose response is missing are left out. Raises UsageError for fewer than two factors, and
    what `coded` raises.
    """
    if len(factors) < 2:
        raise UsageError("ten-step analysis: expected two factors or more")
    values = numbers(frame, response)
    present = np.isfinite(values)
    design = coded(frame, factors, levels)
    signs = design[present].reset_index(drop=True)
    values = values[present]
    if len(values) < 4:
        raise UsageError(f"ten-step analysis: expected four runs or more, {len(values)} have data")
    found = [replace(each, column=each.column[present]) for each in contrasts(design)]
    table = _effects_table(found, values)
    for factor in factors:
        if factor not in table.index:
            raise UsageError(f"factor {factor} has the levels of another factor in all runs")
    table["residual_sd"] = _cumulative_residual_sd(found, list(table.index), values)
    return TenSteps(
        response=response,
        factors=tuple(factors),
        levels={
            factor: (str(low), str(high))
            for factor in factors
            for low, high in [factor_levels(frame, factor, levels)]
        },
        signs=signs,
        values=values,
        table=table,
        blocks=_block_table(signs, values, [name for name in table.index if name in factors]),
        lenth=lenth(table["effect"]),
        mean=float(values.mean()),
        sd=float(values.std(ddof=1)),
    )


def _effects_table(found: list[Contrast], values: Floats) -> pd.DataFrame:
    rows = {}
    mean = values.mean()
    for contrast in found:
        low = values[contrast.column < 0].mean()
        high = values[contrast.column > 0].mean()
        rows[contrast.name] = {
            "effect": high - low,
            "relative": (high - low) / mean if mean else np.nan,
            "mean_low": low,
            "mean_high": high,
            "aliases": ", ".join(contrast.aliases),
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "contrast"
    return table.sort_values("effect", key=abs, ascending=False, kind="stable")


def _cumulative_residual_sd(found: list[Contrast], order: list[str], values: Floats) -> Floats:
    """Residual standard deviation of least squares as the terms enter in `order`."""
    columns = {contrast.name: contrast.column.astype(float) for contrast in found}
    found_sd = np.full(len(order), np.nan)
    # With as many terms as runs, nothing is left over.
    terms = order[: len(values) - 2]
    model = np.column_stack([np.ones(len(values)), *(columns[name] for name in terms)])
    # Along an orthonormal basis each term explains its own part of the sum of squares.
    parts = np.linalg.qr(model)[0].T @ values
    left = np.maximum((values**2).sum() - np.cumsum(parts**2)[1:], 0.0)
    df = len(values) - np.arange(2, len(terms) + 2)
    found_sd[: len(terms)] = np.sqrt(left / df)
    return found_sd


def block_factors(signs: pd.DataFrame, factor: str, by_size: list[str]) -> list[str]:
    """The other factors whose combinations make the blocks of `factor`.

    The dominant ones come first; a factor is taken while every block still has runs at both levels
    of `factor`, up to three.
    """
    chosen: list[str] = []
    for other in by_size:
        if other == factor or len(chosen) == _MOST_BLOCK_FACTORS:
            continue
        if signs.groupby([*chosen, other])[factor].nunique().eq(2).all():
            chosen.append(other)
    return chosen


def block_means(signs: pd.DataFrame, values: Floats, factor: str, by: list[str]) -> pd.DataFrame:
    """Means at the low (-1) and the high (1) level of `factor` in each block, (blocks, 2)."""
    runs = signs.assign(_value=values)
    if not by:
        return runs.groupby(factor)["_value"].mean().to_frame().T
    return runs.groupby([*by, factor])["_value"].mean().unstack(factor)


def _block_table(signs: pd.DataFrame, values: Floats, by_size: list[str]) -> pd.DataFrame:
    from scipy import stats

    rows = {}
    for factor in signs.columns:
        by = block_factors(signs, factor, by_size)
        means = block_means(signs, values, factor, by)
        above = int((means[1] > means[-1]).sum())
        differ = int((means[1] != means[-1]).sum())
        rows[factor] = {
            "by": ", ".join(by),
            "blocks": len(means),
            "above": above,
            "p": stats.binomtest(above, differ).pvalue if differ else 1.0,
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "factor"
    return table
