"""Steady state of a time series: warm-up, standard errors under autocorrelation, sample size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import Floats, check_confidence

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Warmup:
    """Where a series reaches its steady state.

    `cut` is how many observations to discard. `reliable` is false where the rule would discard half
    the series or more: then the run is too short. `table` has the statistic for each possible cut.
    """

    table: pd.DataFrame
    series: Floats
    cut: int
    reliable: bool

    def steady(self) -> Floats:
        """The series without its warm-up."""
        return self.series[self.cut :]

    def figure(self) -> Figure:
        """The series with its warm-up shaded, and the statistic below."""
        from dumbbell._plots import figure
        from dumbbell._plots_panels import COLOURS

        made, axes = figure(2, 1, (4.5, 3.6), sharex=True)
        above, below = axes[:, 0]
        above.plot(self.series, color=COLOURS[0], linewidth=0.7)
        above.axvspan(0, self.cut, color="#EEEEEE", zorder=0)
        mean = self.steady().mean()
        above.plot([self.cut, len(self.series)], [mean, mean], color=COLOURS[1])
        above.set_ylabel("series")
        below.plot(self.table["cut"], self.table["mser"], color=COLOURS[0])
        below.axvline(self.cut, color="black", linestyle="--", linewidth=0.9)
        below.set_yscale("log")
        below.set_ylabel("MSER statistic")
        below.set_xlabel("observation; grey: discarded as warm-up")
        return made

    def reading(self) -> str:
        share = self.cut / len(self.series)
        said = (
            f"The warm-up ends after {self.cut} of {len(self.series)} observations ({share:.0%}); "
            f"the mean of the rest is {self.steady().mean():.4g} (of all, {self.series.mean():.4g})"
        )
        return said + ("." if self.reliable else "; the run is too short to trust this.")


def mser(series: ArrayLike, *, batch: int = 5) -> Warmup:
    """Find the warm-up of an evenly spaced `series`, (n,), by the marginal standard error rule.

    Of the means of `batch` observations each, so many are discarded that the standard error of the
    mean of the rest is least; MSER-5 with the default. Raises UsageError for fewer than ten
    batches. Source: K. P. White, M. J. Cobb and S. C. Spratt, "A comparison of five steady-state
    truncation heuristics for simulation", Winter Simulation Conference, 2000.
    """
    values = _series(series)
    if batch < 1 or len(values) < 10 * batch:
        raise UsageError(
            f"MSER: expected ten batches or more of {batch}, there are {len(values)} observations"
        )
    count = len(values) // batch
    means = values[: count * batch].reshape(count, batch).mean(axis=1)
    # Sums over the batches from each one to the last; centred so that squares lose no digits.
    centred = means - means.mean()
    left = np.arange(len(means), 0, -1)
    total = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum(centred[::-1] ** 2)[::-1]
    statistic = np.maximum(squares - total**2 / left, 0.0) / left**2
    # The last few batches agree by chance: no rule may keep fewer than five.
    table = pd.DataFrame({"cut": np.arange(len(means)) * batch, "mser": statistic}).iloc[:-4]
    best = int(table["mser"].to_numpy().argmin())
    return Warmup(table, values, best * batch, best < len(means) / 2)


@dataclass(frozen=True)
class BatchMeans:
    """The mean of a stationary series, and an error that minds its autocorrelation.

    `table` has the batch means. `naive_se` is the error if observations were independent;
    `batch_correlation` the lag-1 autocorrelation of the batch means, near 0 if the batches are long
    enough; `effective` the number of independent observations that would tell as much.
    """

    table: pd.DataFrame
    mean: float
    se: float
    ci_low: float
    ci_high: float
    naive_se: float
    batch_correlation: float
    effective: float
    confidence: float

    def figure(self) -> Figure:
        """Batch means with the interval of their mean."""
        from dumbbell._plots import figure
        from dumbbell._plots_panels import COLOURS

        made, axes = figure(1, 1, (4.5, 2.8))
        ax = axes[0, 0]
        ax.plot(self.table["batch"], self.table["mean"], "o", color=COLOURS[0], markersize=4)
        ax.axhspan(self.ci_low, self.ci_high, color="#F0D9C8", zorder=0)
        ax.axhline(self.mean, color=COLOURS[1])
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("batch")
        ax.set_ylabel(f"batch mean\n(band: {self.confidence:.0%} interval of the mean)")
        return made

    def reading(self) -> str:
        return (
            f"The mean is {self.mean:.4g}, {self.confidence:.0%} interval {self.ci_low:.4g} to "
            f"{self.ci_high:.4g} ({len(self.table)} batches; as much as {self.effective:.0f} "
            f"independent observations; the batches' autocorrelation is "
            f"{self.batch_correlation:+.2f})."
        )


def batch_means(series: ArrayLike, *, batches: int = 20, confidence: float = 0.95) -> BatchMeans:
    """Estimate the mean of a stationary `series`, (n,), with an interval by batch means.

    The series is cut into `batches` equal parts (observations left over are dropped at its start)
    whose means are taken as independent, so the parts must be long against the autocorrelation.
    Raises UsageError for fewer than ten batches or two observations in each. Source: A. M. Law,
    "Simulation Modeling and Analysis", section on batch means.
    """
    from scipy import stats

    check_confidence(confidence)
    values = _series(series)
    if batches < 10 or len(values) < 2 * batches:
        raise UsageError(
            f"batch means: expected ten batches or more of two observations or more, "
            f"there are {batches} and {len(values)} observations"
        )
    size = len(values) // batches
    means = values[len(values) - size * batches :].reshape(batches, size).mean(axis=1)
    mean = float(means.mean())
    se = float(means.std(ddof=1) / np.sqrt(batches))
    reach = float(stats.t.ppf((1 + confidence) / 2, batches - 1)) * se
    return BatchMeans(
        table=pd.DataFrame({"batch": np.arange(1, batches + 1), "mean": means}),
        mean=mean,
        se=se,
        ci_low=mean - reach,
        ci_high=mean + reach,
        naive_se=float(values.std(ddof=1) / np.sqrt(len(values))),
        batch_correlation=float(_autocorrelation(means)[1]),
        effective=effective_size(values),
        confidence=confidence,
    )


def effective_size(series: ArrayLike) -> float:
    """How many independent observations say as much about the mean as a stationary `series`, (n,).

    n / (1 + 2 * sum of the autocorrelations), the sum ended where that of two neighbouring lags
    turns negative. Source: C. J. Geyer, "Practical Markov chain Monte Carlo", Statistical Science
    7(4), 1992 (initial positive sequence).
    """
    values = _series(series)
    if np.ptp(values) == 0:
        return float(len(values))
    correlation = _autocorrelation(values)
    even = len(correlation) // 2 * 2
    neighbours = correlation[:even].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(neighbours <= 0)
    kept = neighbours[: negative[0]] if len(negative) else neighbours
    # The lag of 0 is in the first pair and counts once.
    return float(len(values) / max(2 * kept.sum() - 1, 1 / len(values)))


def _autocorrelation(values: Floats) -> Floats:
    from statsmodels.tsa.stattools import acf

    if np.ptp(values) == 0:
        return np.concatenate([[1.0], np.zeros(len(values) - 1)])
    return np.asarray(acf(values, nlags=len(values) - 1, fft=True))


def _series(series: ArrayLike) -> Floats:
    values = np.asarray(series, dtype=float)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise UsageError("series: expected two finite numbers or more, in one dimension")
    return values
