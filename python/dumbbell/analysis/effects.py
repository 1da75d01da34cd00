"""Main effects and two-factor interactions of two-level designs, on several responses at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import (
    Floats,
    check_columns,
    check_confidence,
    names,
    numbers,
    p_text,
    stars,
)
from dumbbell.analysis.coding import (
    Levels,
    Signs,
    coded,
    contrasts,
    difference,
    factor_levels,
    two_factor_aliases,
)
from dumbbell.analysis.halfnormal import lenth

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class MainEffects:
    """What raising each factor from its low to its high level changes in each response.

    `table` has a row per response and factor: `low` and `high` (levels), `mean_low`, `mean_high`,
    `effect` (their difference), `relative` (effect over the grand mean), `se`, `t`, `df`, `p`, the
    confidence interval `ci_low` to `ci_high`, and Lenth's `margin` and `simultaneous` margin.
    """

    table: pd.DataFrame
    responses: tuple[str, ...]
    factors: tuple[str, ...]
    confidence: float

    def figure(self, responses: str | Sequence[str] | None = None) -> Figure:
        """Main-effects plot: mean at the low and the high level, a row of axes per response."""
        from dumbbell.analysis._plot_effects import main_effects_figure

        return main_effects_figure(self, names(responses) if responses else list(self.responses))

    def signs(self) -> pd.DataFrame:
        """Responses x factors: `+` or `-` with `**` for p < .01 and `*` for p < .05."""
        cells = [
            ("+" if effect > 0 else "-" if effect < 0 else "0") + stars(p)
            for effect, p in zip(self.table["effect"], self.table["p"], strict=True)
        ]
        return self._by_response(pd.Series(cells, index=self.table.index))

    def signs_figure(self) -> Figure:
        """The table of signs, coloured by the effect's direction and its class of p."""
        from dumbbell.analysis._plot_effects import signs_figure

        return signs_figure(self)

    def overall(self, alpha: float = 0.05) -> pd.DataFrame:
        """How many responses each factor is significant in, most first.

        `sensitive` says whether it is so in a majority of the responses.
        """
        hit = self._by_response(self.table["p"] < alpha)
        found = pd.DataFrame({"significant": hit.sum(), "share": hit.mean()})
        found["sensitive"] = found["share"] > 0.5
        return found.sort_values("share", ascending=False, kind="stable")

    def reading(self, response: str | None = None) -> str:
        name = response or self.responses[0]
        rows = self.table[self.table["response"] == name]
        largest = rows.loc[rows["effect"].abs().idxmax()]
        count = int((rows["p"] < 0.05).sum())
        large = rows.loc[rows["effect"].abs() > rows["margin"], "factor"]
        # Few contrasts have no margin.
        beyond = f"; beyond Lenth's margin: {', '.join(large) or 'none'}"
        if rows["margin"].isna().all():
            beyond = ""
        # A mean of 0 has no shares.
        known = not np.isnan(largest.relative)
        relative = f"{largest.relative:+.0%} of the mean, " if known else ""
        return (
            f"{largest.factor} moves {name} most: from {largest.low} to {largest.high} it changes "
            f"by {largest.effect:+.3g} ({relative}{p_text(largest.p)}); "
            f"p < 0.05 for {count} of {len(rows)} factors{beyond}."
        )

    def _by_response(self, values: pd.Series) -> pd.DataFrame:
        wide = self.table[["response", "factor"]].assign(value=values)
        wide = wide.pivot(index="response", columns="factor", values="value")
        return wide.loc[list(self.responses), list(self.factors)]


@dataclass(frozen=True)
class Interactions:
    """How much the effect of one factor depends on another.

    `table` has a row per response and pair of factors: `effect` (mean where the levels are alike
    less mean where they differ), `aliases` (what the same contrast estimates too), `relative`,
    `se`, `t`, `df`, `p`, `ci_low`, `ci_high`, `margin`, `simultaneous`. `cells` has the mean
    response at each of the four combinations of levels.
    """

    table: pd.DataFrame
    cells: pd.DataFrame
    responses: tuple[str, ...]
    factors: tuple[str, ...]

    def figure(self, response: str | None = None) -> Figure:
        """Interaction matrix: for each pair of factors a line per level of the row's factor."""
        from dumbbell.analysis._plot_effects import interactions_figure

        return interactions_figure(self, response or self.responses[0])

    def reading(self, response: str | None = None) -> str:
        name = response or self.responses[0]
        rows = self.table[self.table["response"] == name]
        largest = rows.loc[rows["effect"].abs().idxmax()]
        with_others = f", not told apart from {largest.aliases}," if largest.aliases else ""
        return (
            f"The largest interaction on {name} is {largest.interaction} "
            f"({largest.effect:+.3g}; {p_text(largest.p)}){with_others} "
            f"among {len(rows)} pairs of factors."
        )


def main_effects(
    frame: pd.DataFrame,
    responses: str | Sequence[str],
    factors: Sequence[str],
    *,
    levels: Levels | None = None,
    confidence: float = 0.95,
    replicate: str = "replicate",
) -> MainEffects:
    """Estimate and test the main effects of two-level factors.

    `frame` has a row per run. Where its column `replicate` says that design points were run more
    than once, the error is the pooled spread between replicates of a point; else it is that within
    the two groups of runs (two-sample t test, n - 2 degrees of freedom), which counts the other
    factors' effects as error and so is cautious. Lenth's margins come from all contrasts of the
    design. Runs with a missing response are left out. Effects are differences of means, so a design
    that lost runs is no longer balanced: `anova` is the test then. Raises UsageError for missing
    columns, factors without two levels and responses that are not numbers.
    """
    study = _Study(frame, responses, factors, levels, confidence, replicate)
    rows = []
    for response in study.responses:
        fit = study.fit(response)
        for factor in factors:
            low, high = factor_levels(frame, factor, levels)
            row = {"response": response, "factor": factor, "low": low, "high": high}
            rows.append(row | fit.effect(fit.columns[factor]))
    table = _with_tests(pd.DataFrame(rows), confidence)
    return MainEffects(table, tuple(study.responses), tuple(factors), confidence)


def interactions(
    frame: pd.DataFrame,
    responses: str | Sequence[str],
    factors: Sequence[str],
    *,
    levels: Levels | None = None,
    confidence: float = 0.95,
    replicate: str = "replicate",
) -> Interactions:
    """Estimate and test all interactions of two of the factors, as `main_effects` does.

    Aliases are read off the design: pairs, and factors, whose columns of signs are identical or
    opposite (`-`).
    """
    if len(factors) < 2:
        raise UsageError("interactions: expected two factors or more")
    study = _Study(frame, responses, factors, levels, confidence, replicate)
    aliases = two_factor_aliases(study.design)
    rows, cells = [], []
    for response in study.responses:
        fit = study.fit(response)
        for first, second in itertools.combinations(factors, 2):
            row = {"response": response, "interaction": f"{first}:{second}"}
            row["aliases"] = ", ".join(aliases[first, second])
            rows.append(row | fit.effect(fit.columns[first] * fit.columns[second]))
            for a, b in itertools.product((-1, 1), repeat=2):
                here = (fit.columns[first] == a) & (fit.columns[second] == b)
                cells.append(
                    {
                        "response": response,
                        "first": first,
                        "second": second,
                        "at_first": a,
                        "at_second": b,
                        "mean": fit.values[here].mean() if here.any() else np.nan,
                    }
                )
    table = _with_tests(pd.DataFrame(rows), confidence).rename(
        columns={
            "mean_low": "mean_unlike",
            "mean_high": "mean_alike",
            "n_low": "n_unlike",
            "n_high": "n_alike",
        }
    )
    return Interactions(table, pd.DataFrame(cells), tuple(study.responses), tuple(factors))


class _Study:
    """A design, and the responses to fit on it."""

    def __init__(
        self,
        frame: pd.DataFrame,
        responses: str | Sequence[str],
        factors: Sequence[str],
        levels: Levels | None,
        confidence: float,
        replicate: str,
    ) -> None:
        check_confidence(confidence)
        self.responses = names(responses)
        if not self.responses:
            raise UsageError("no responses: expected the names of the columns to analyse")
        check_columns(frame, [*self.responses, *factors])
        self.frame = frame
        self.design = coded(frame, factors, levels)
        self.contrasts = contrasts(self.design)
        self.confidence = confidence
        self.replicate = replicate

    def fit(self, response: str) -> _Fit:
        values = numbers(self.frame, response)
        present = np.isfinite(values)
        replicated = (
            self.replicate in self.frame.columns
            and self.frame.loc[present, self.replicate].nunique() > 1
        )
        return _Fit(self, values, replicated)


class _Fit:
    """One response of one design, ready for any number of contrasts."""

    def __init__(self, study: _Study, responses: Floats, replicated: bool) -> None:
        present = np.isfinite(responses)
        signs = study.design[present]
        self.columns = {factor: signs[factor].to_numpy() for factor in signs}
        self.values = responses[present]
        if not (signs.nunique() == 2).all() or len(self.values) < 3:
            raise UsageError("too few runs with a response: expected some at each level")
        self._mean = float(self.values.mean())
        self._pooled = _spread_of_replicates(signs, self.values) if replicated else None
        # The design's contrasts, also where it lost runs and they are no longer orthogonal.
        sizes = [difference(self.values, each.column[present]) for each in study.contrasts]
        self._lenth = lenth(sizes, study.confidence) if len(sizes) > 2 else None

    def effect(self, column: Signs) -> dict[str, Any]:
        high, low = self.values[column > 0], self.values[column < 0]
        if not len(high) or not len(low):
            raise UsageError("two factors with the same levels in all runs have no interaction")
        effect = difference(self.values, column)
        if self._pooled is not None:
            variance, df = self._pooled
        else:
            df = len(self.values) - 2
            variance = (
                float(((high - high.mean()) ** 2).sum() + ((low - low.mean()) ** 2).sum()) / df
            )
        se = float(np.sqrt(variance * (1 / len(high) + 1 / len(low))))
        return {
            "n_low": len(low),
            "n_high": len(high),
            "mean_low": float(low.mean()),
            "mean_high": float(high.mean()),
            "effect": effect,
            "relative": effect / self._mean if self._mean else np.nan,
            "se": se,
            # Without any spread an effect is certain.
            "t": effect / se if se > 0 else np.copysign(np.inf, effect) if effect else 0.0,
            "df": df,
            "margin": self._lenth.margin if self._lenth else np.nan,
            "simultaneous": self._lenth.simultaneous if self._lenth else np.nan,
        }


def _with_tests(table: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The table of effects with their p values and confidence intervals."""
    from scipy import stats

    reach = stats.t.ppf((1 + confidence) / 2, table["df"]) * table["se"]
    place = table.columns.get_loc("df") + 1
    table.insert(place, "p", 2 * stats.t.sf(table["t"].abs(), table["df"]))
    table.insert(place + 1, "ci_low", table["effect"] - reach)
    table.insert(place + 2, "ci_high", table["effect"] + reach)
    return table


def _spread_of_replicates(signs: pd.DataFrame, values: Floats) -> tuple[float, int] | None:
    """Variance between runs of the same design point, pooled, and its degrees of freedom."""
    points = signs.assign(_value=values).groupby(list(signs.columns))["_value"]
    df = int((points.size() - 1).sum())
    if df == 0:
        return None
    within = values - points.transform("mean").to_numpy()
    return float((within**2).sum()) / df, df
