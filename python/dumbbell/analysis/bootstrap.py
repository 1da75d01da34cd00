"""Bootstrap confidence intervals over runs, or over clusters of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import (
    Floats,
    check_columns,
    check_confidence,
    names,
    numbers,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATISTICS: dict[str, Callable[[Floats], float]] = {
    "mean": lambda values: float(np.mean(values)),
    "median": lambda values: float(np.median(values)),
    "sd": lambda values: float(np.std(values, ddof=1)),
}


@dataclass(frozen=True)
class Bootstrap:
    """A statistic of each response with its interval.

    `table` has a row per response and group: `n` (runs), `clusters`, `estimate`, `se`, `ci_low`,
    `ci_high`.
    """

    table: pd.DataFrame
    statistic: str
    confidence: float
    by: tuple[str, ...]

    def figure(self) -> Figure:
        """Estimates and intervals, one set of axes per response."""
        from dumbbell._plots import figure
        from dumbbell._plots_panels import COLOURS

        responses = list(pd.unique(self.table["response"]))
        groups = self.table.groupby("response", sort=False)
        most = int(groups.size().max())
        made, axes = figure(len(responses), 1, (4.5, 0.4 + len(responses) * (0.5 + 0.22 * most)))
        for response, ax in zip(responses, axes[:, 0], strict=True):
            rows = groups.get_group(response)
            place = np.arange(len(rows))
            ax.errorbar(
                rows["estimate"],
                place,
                xerr=[rows["estimate"] - rows["ci_low"], rows["ci_high"] - rows["estimate"]],
                fmt="o",
                color=COLOURS[0],
                markersize=4,
                capsize=2.5,
            )
            labels = [
                ", ".join(f"{name} = {row[name]}" for name in self.by) or "all runs"
                for _, row in rows.iterrows()
            ]
            ax.set_yticks(place, labels)
            ax.set_ylim(len(rows) - 0.5, -0.5)
            ax.set_xlabel(f"{self.statistic} of {response}, {self.confidence:.0%} interval")
        return made

    def reading(self) -> str:
        row = self.table.iloc[0]
        where = " and ".join(f"{name} = {row[name]}" for name in self.by)
        return (
            f"The {self.statistic} of {row.response}{' at ' + where if where else ''} is "
            f"{row.estimate:.4g}, {self.confidence:.0%} interval {row.ci_low:.4g} to "
            f"{row.ci_high:.4g} ({row.n} runs in {row.clusters} clusters)."
        )


def bootstrap(
    frame: pd.DataFrame,
    responses: str | Sequence[str],
    *,
    by: str | Sequence[str] = (),
    cluster: str | Sequence[str] = (),
    statistic: str = "mean",
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Bootstrap:
    """Bootstrap intervals (bias-corrected and accelerated) of a statistic of the responses.

    One interval per combination of the columns `by`. Runs are drawn with replacement; with
    `cluster`, all runs that agree in those columns (such as seed and condition, where runs share
    random numbers) are drawn together. `statistic` is mean, median or sd. Computed by
    `scipy.stats.bootstrap`. Raises UsageError for fewer than three clusters. Where all resamples
    agree the interval is the estimate.
    """
    check_confidence(confidence)
    if statistic not in STATISTICS:
        raise UsageError(f"statistic {statistic!r}: expected one of {', '.join(STATISTICS)}")
    if resamples < 100:
        raise UsageError(f"resamples = {resamples}: expected 100 or more")
    by, cluster = names(by), names(cluster)
    check_columns(frame, [*by, *cluster])
    rows = []
    for response in names(responses):
        runs = frame.assign(_value=numbers(frame, response)).dropna(subset=["_value"])
        groups = runs.groupby(by, sort=False) if by else [((), runs)]
        for key, group in groups:
            parts = (
                [part["_value"].to_numpy() for _, part in group.groupby(cluster, sort=False)]
                if cluster
                else list(group["_value"].to_numpy()[:, None])
            )
            if len(parts) < 3:
                raise UsageError(f"bootstrap of {response}: expected three clusters or more")
            row = {"response": response, **dict(zip(by, key, strict=True))}
            row |= {"n": len(group), "clusters": len(parts)}
            rows.append(row | _interval(parts, statistic, confidence, resamples, seed))
    return Bootstrap(pd.DataFrame(rows), statistic, confidence, tuple(by))


def _interval(
    parts: list[Floats], statistic: str, confidence: float, resamples: int, seed: int
) -> dict[str, float]:
    from scipy import stats

    of = STATISTICS[statistic]
    estimate = of(np.concatenate(parts))
    if np.ptp(np.concatenate(parts)) == 0:
        return {"estimate": estimate, "se": 0.0, "ci_low": estimate, "ci_high": estimate}
    found = stats.bootstrap(
        (np.arange(len(parts)),),
        lambda drawn: of(np.concatenate([parts[place] for place in drawn])),
        vectorized=False,
        n_resamples=resamples,
        confidence_level=confidence,
        method="BCa",
        rng=np.random.default_rng(seed),
    )
    low, high = found.confidence_interval
    return {
        "estimate": estimate,
        "se": float(found.standard_error),
        "ci_low": float(low),
        "ci_high": float(high),
    }
