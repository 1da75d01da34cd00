"""A response over the conditions in their order, and how far two orders agree."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import check_confidence
from dumbbell.analysis._frame import cell_means
from dumbbell.analysis._style import SMALL, legend, looks
from dumbbell.analysis.congestion import Congestion

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Agreement:
    """Spearman's rank correlation `rho` of two orders, its confidence interval and the two-sided
    `p` of no association."""

    rho: float
    low: float
    high: float
    p: float
    n: int

    def reading(self) -> str:
        return (
            f"The two orders of {self.n} conditions agree with a rank correlation of "
            f"{self.rho:.3f} (interval {self.low:.3f} to {self.high:.3f})."
        )


def agreement(
    one: Sequence[Hashable], other: Sequence[Hashable], *, confidence: float = 0.95
) -> Agreement:
    """Compare two orders of the same conditions, each a list from first to last.

    The interval is Fisher's, with the variance (1 + rho^2 / 2) / (n - 3) of D. G. Bonett and
    T. A. Wright, Psychometrika 65 (2000). Raises UsageError unless both lists have the same
    members, at least four, each once.
    """
    from scipy.stats import norm, spearmanr

    check_confidence(confidence)
    if (
        len(set(one)) != len(one)
        or len(one) < 4
        or sorted(map(str, one)) != sorted(map(str, other))
    ):
        raise UsageError("two orders need the same members, at least four, each once")
    place = {name: i for i, name in enumerate(other)}
    found = spearmanr(range(len(one)), [place[name] for name in one])
    rho = float(found.statistic)
    if abs(rho) >= 1 - 1e-12:
        return Agreement(rho, rho, rho, float(found.pvalue), len(one))
    reach = norm.ppf(0.5 + confidence / 2) * math.sqrt((1 + rho**2 / 2) / (len(one) - 3))
    low, high = np.tanh([math.atanh(rho) - reach, math.atanh(rho) + reach])
    return Agreement(rho, float(low), float(high), float(found.pvalue), len(one))


def response_bars(
    frame: pd.DataFrame,
    response: str,
    *,
    condition: str = "condition",
    algorithm: str = "algorithm",
    congestion: Congestion | None = None,
) -> Figure:
    """A response of every algorithm over the conditions: bars are the mean over algorithms, points
    the algorithms. Conditions follow congestion, or that mean. Raises UsageError.
    """
    from dumbbell._plots import figure

    means = cell_means(frame, [response], condition=condition, algorithm=algorithm)[response]
    wide = means.unstack(sort=False)
    overall = wide.mean(axis=1)
    order = list(overall.sort_values(kind="stable").index)
    if congestion is not None:
        order = [c for c in congestion.order if c in wide.index]
    made, axes = figure(1, 1, (max(5.0, 1.2 + 0.27 * len(order)), 3.2))
    ax = axes[0, 0]
    x = np.arange(len(order))
    ax.bar(x, overall[order], color="#E3E3E3")
    styles = looks(wide.columns)
    # Side by side, so that equal values do not hide each other.
    beside = np.linspace(-0.3, 0.3, len(styles)) if len(styles) > 1 else [0.0]
    for (name, look), shift in zip(styles.items(), beside, strict=True):
        ax.scatter(
            x + shift, wide.loc[order, name], color=look.colour, marker=look.marker, s=14, zorder=3
        )
    values = wide.to_numpy()
    positive = values[values > 0]
    if positive.size and np.nanmin(values) >= 0 and positive.max() > 100 * positive.min():
        ax.set_yscale("log")
    ax.set_xticks(x, [str(c) for c in order], fontsize=7)
    if max(len(str(c)) for c in order) > 2:
        ax.tick_params(axis="x", rotation=90)
    ax.grid(False, axis="x")
    ax.set_xlim(-0.8, len(order) - 0.2)
    ordered = "most congested right" if congestion is not None else "by their mean"
    ax.set_xlabel(f"condition, {ordered}", fontsize=SMALL + 0.5)
    ax.set_ylabel(response)
    legend(made, styles)
    return made
