"""Analysis of variance of designs with factors of any number of levels, blocks and replicates."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import Floats, check_columns, numbers, p_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ERROR = "residual"


@dataclass(frozen=True)
class Anova:
    """An analysis-of-variance table of one response.

    `table` is indexed by term (`A`, `A:B`, ..., `residual`): `sum_sq`, `df`, `mean_sq`, `F`, `p`,
    and the sizes of the effects `eta_sq` (share of the total variation), `partial_eta_sq` (share of
    what the other terms leave) and `omega_sq` (the share corrected for chance, which may be
    negative). `aliased` lists the interactions that earlier terms stand for.
    """

    response: str
    table: pd.DataFrame
    aliased: tuple[str, ...]
    block: str | None = None

    def figure(self) -> Figure:
        """Shares of the variation, the largest first; coloured where p < .05."""
        from dumbbell._plots import figure
        from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

        shares = self.table.sort_values("eta_sq", kind="stable")
        made, axes = figure(1, 1, (4.5, 0.9 + 0.2 * len(shares)))
        ax = axes[0, 0]
        colours = np.where(shares["p"] < 0.05, COLOURS[1], CAPACITY_COLOUR)
        ax.barh(list(shares.index), 100 * shares["eta_sq"], color=colours)
        ax.set_xlabel(f"share of the variation in {self.response} (%); coloured: p < .05")
        ax.grid(axis="y", visible=False)
        return made

    def reading(self) -> str:
        aside = [_ERROR, *([self.block] if self.block else [])]
        terms = self.table.drop(index=aside).sort_values("eta_sq", ascending=False)
        first = terms.iloc[0]
        error = self.table.loc[_ERROR]
        rest = [str(name) for name in terms.index[1:] if terms.loc[name, "p"] < 0.05]
        return (
            f"{terms.index[0]} explains {first.eta_sq:.0%} of the variation in {self.response} "
            f"(F({first.df:.0f}, {error.df:.0f}) = {first.F:.3g}, {p_text(first.p)}); "
            f"also p < 0.05: {', '.join(rest) or 'none'}; {error.eta_sq:.0%} is left unexplained."
        )


def anova(
    frame: pd.DataFrame,
    response: str,
    factors: Sequence[str],
    *,
    block: str | None = None,
    order: int = 2,
) -> Anova:
    """Analyse the variance of a response, by sums of squares of type II.

    Each factor is categorical. Terms are the blocks, the factors, and their interactions of up to
    `order` factors; interactions of more are the error, with the spread between replicates where
    there is one. An interaction that earlier terms alias is left out and listed. Runs with a
    missing response are left out. Raises UsageError where nothing is left to estimate the error
    from. Computed by statsmodels.
    """
    import statsmodels.api as sm
    from statsmodels.formula.api import ols

    if not factors or order < 1:
        raise UsageError("anova: expected one factor or more, and order 1 or more")
    sources = [*([block] if block else []), *factors]
    check_columns(frame, [response, *sources])
    values = numbers(frame, response)
    present = np.isfinite(values)
    # Formulas get plain names: a factor may be called `flows[0].cc`.
    plain = {name: f"x{place}" for place, name in enumerate(sources)}
    data = pd.DataFrame(
        {plain[name]: pd.factorize(frame.loc[present, name])[0] for name in sources}
    )
    data["y"] = values[present]
    if data["y"].nunique() < 2:
        raise UsageError(f"anova: {response} is the same in all runs")
    for name in sources:
        if data[plain[name]].nunique() < 2:
            raise UsageError(f"anova: factor {name} has one level only")
    terms, aliased, rank = _estimable(data, sources, list(factors), plain, order)
    if rank >= len(data):
        raise UsageError(
            f"anova: {len(data)} runs leave nothing to estimate the error from; "
            f"expected replicates or an order below {order}"
        )
    formula = " + ".join(":".join(f"C({plain[name]}, Sum)" for name in term) for term in terms)
    found = sm.stats.anova_lm(ols(f"y ~ {formula}", data).fit(), typ=2)
    table = pd.DataFrame(
        {
            "sum_sq": found["sum_sq"].to_numpy(),
            "df": found["df"].to_numpy(),
        },
        index=pd.Index([":".join(term) for term in terms] + [_ERROR], name="term"),
    )
    table["mean_sq"] = table["sum_sq"] / table["df"]
    table["F"] = found["F"].to_numpy()
    table["p"] = found["PR(>F)"].to_numpy()
    _add_sizes(table, data["y"].to_numpy())
    return Anova(response, table, tuple(aliased), block)


def _add_sizes(table: pd.DataFrame, values: Floats) -> None:
    error = table.loc[_ERROR]
    total = float(((values - values.mean()) ** 2).sum())
    table["eta_sq"] = table["sum_sq"] / total
    table["partial_eta_sq"] = table["sum_sq"] / (table["sum_sq"] + error["sum_sq"])
    table["omega_sq"] = (table["sum_sq"] - table["df"] * error["mean_sq"]) / (
        total + error["mean_sq"]
    )
    table.loc[_ERROR, ["partial_eta_sq", "omega_sq"]] = np.nan


def _estimable(
    data: pd.DataFrame, sources: list[str], factors: list[str], plain: dict[str, str], order: int
) -> tuple[list[tuple[str, ...]], list[str], int]:
    """The terms that add columns to the model, those that add none, and the model's rank.

    A term that adds fewer columns than it has is left out too: its sum of squares would be that of
    a part of the interaction only.
    """
    columns = {name: _sum_coding(data[plain[name]].to_numpy()) for name in sources}
    model = np.ones((len(data), 1))
    rank = 1
    kept: list[tuple[str, ...]] = []
    aliased: list[str] = []
    words = [(name,) for name in sources] + [
        word for length in range(2, order + 1) for word in itertools.combinations(factors, length)
    ]
    for word in words:
        block = columns[word[0]]
        for name in word[1:]:
            block = np.einsum("ij,ik->ijk", block, columns[name]).reshape(len(data), -1)
        wider = np.hstack([model, block])
        added = int(np.linalg.matrix_rank(wider)) - rank
        if added == block.shape[1]:
            kept.append(word)
            model, rank = wider, rank + added
        elif len(word) == 1:
            raise UsageError(f"anova: factor {word[0]} is confounded with those before it")
        else:
            aliased.append(":".join(word))
    return kept, aliased, rank


def _sum_coding(codes: np.ndarray[Any, Any]) -> Floats:
    levels = int(codes.max()) + 1
    contrast = np.vstack([np.eye(levels - 1), -np.ones(levels - 1)])
    return np.asarray(contrast[codes], dtype=float)
