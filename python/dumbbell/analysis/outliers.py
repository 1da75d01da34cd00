"""Which algorithm differs significantly, where and in what: Grubbs' test in each condition."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dumbbell._errors import UsageError
from dumbbell.analysis._frame import cell_means
from dumbbell.analysis._style import SMALL, legend, looks
from dumbbell.analysis.congestion import Congestion

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HIGH, LOW = "high", "low"
FILTERS = ("none", "significant", "large")


@dataclass(frozen=True)
class Grubbs:
    """`index` of the value farthest from the mean; `g` its distance in standard deviations; `p` the
    Bonferroni bound of that distance's probability. `outlier` says whether `g > critical`."""

    index: int
    g: float
    critical: float
    p: float

    @property
    def outlier(self) -> bool:
        return self.g > self.critical


def grubbs_critical(n: int, *, alpha: float = 0.05, sided: int = 2) -> float:
    """Critical value of Grubbs' test for `n` values (NIST/SEMATECH e-Handbook, 1.3.5.17.1)."""
    from scipy.stats import t

    if n < 3:
        raise UsageError(f"Grubbs' test needs at least 3 values, there are {n}")
    if not 0 < alpha < 1:
        raise UsageError(f"alpha = {alpha}: expected a number between 0 and 1")
    if sided not in (1, 2):
        raise UsageError(f"sided = {sided}: expected 1 or 2")
    square = t.isf(alpha / (sided * n), n - 2) ** 2
    return float((n - 1) / math.sqrt(n) * math.sqrt(square / (n - 2 + square)))


def grubbs(values: ArrayLike, *, alpha: float = 0.05, sided: int = 2) -> Grubbs:
    """Test whether the value farthest from the mean is an outlier among normal values.

    `sided = 1` is for a suspect whose side was known beforehand. Where all values are the same, g
    is 0. Source: F. E. Grubbs, Technometrics 11 (1969). Raises UsageError.
    """
    from scipy.stats import t

    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or not np.all(np.isfinite(x)):
        raise UsageError("Grubbs' test needs one row of finite values")
    n = x.size
    critical = grubbs_critical(n, alpha=alpha, sided=sided)
    distance = np.abs(x - x.mean())
    index = int(np.argmax(distance))
    spread = float(x.std(ddof=1))
    # Differences from rounding are no differences.
    if spread <= 1e-12 * float(np.abs(x).max()):
        return Grubbs(index, 0.0, critical, 1.0)
    g = float(distance[index] / spread)
    room = (n - 1) ** 2 - n * g**2
    # No room is left where all others are equal: g has its highest value.
    statistic = math.sqrt(n * (n - 2) * g**2 / room) if room > 0 else math.inf
    return Grubbs(index, g, critical, float(min(1.0, sided * n * t.sf(statistic, n - 2))))


@dataclass(frozen=True)
class Outliers:
    """`table` has one row for each condition and response: the algorithm farthest from the mean,
    `sign` ("high", "low"), `g`, `critical`, `p`, `relative` (its difference from the mean over all
    algorithms, as a fraction of that mean), `significant` (filter 1) and `large` (filters 1 and 2).
    """

    table: pd.DataFrame
    algorithms: tuple[Hashable, ...]
    responses: tuple[str, ...]
    alpha: float
    rel: float
    congestion: Congestion | None

    def kept(self, filters: str = "large") -> pd.DataFrame:
        """The rows left by "none", "significant" (filter 1) or "large" (both filters)."""
        if filters not in FILTERS:
            raise UsageError(f'filters = "{filters}": expected one of {", ".join(FILTERS)}')
        return self.table if filters == "none" else self.table[self.table[filters]]

    def counts(self, filters: str = "large") -> pd.DataFrame:
        """How often each algorithm is flagged: high, low, in all and, with `congestion`, in each
        class of congestion."""
        rows = self.kept(filters)
        table = pd.DataFrame(index=pd.Index(self.algorithms, name="algorithm"))
        for sign in (HIGH, LOW):
            table[sign] = rows.loc[rows["sign"] == sign, "algorithm"].value_counts()
        table["flags"] = rows["algorithm"].value_counts()
        if self.congestion is not None:
            for number in sorted(self.congestion.classes.unique()):
                here = rows.loc[rows["class"] == number, "algorithm"]
                table[f"class {number}"] = here.value_counts()
        return table.fillna(0).astype(int)

    def matrix(self, filters: str = "large") -> pd.DataFrame:
        """Conditions by responses; a cell is the flagged algorithm with + or -, or ""."""
        rows = self.kept(filters)
        cells = rows["algorithm"].astype(str) + rows["sign"].map({HIGH: " +", LOW: " -"})
        order = self.table["condition"].unique()
        wide = cells.groupby([rows["condition"], rows["response"]]).first().unstack()
        return wide.reindex(index=order, columns=list(self.responses)).astype(object).fillna("")

    def reading(self) -> str:
        total = len(self.table)
        first, both = int(self.table["significant"].sum()), int(self.table["large"].sum())
        text = (
            f"Of {total} condition-response pairs an algorithm differs significantly "
            f"(alpha {self.alpha:g}) in {first}, and by {100 * self.rel:g} % of the mean or more "
            f"in {both}"
        )
        if both:
            counts = self.counts().sort_values("flags", ascending=False, kind="stable")
            name, most = counts.index[0], counts.iloc[0]
            text += f"; {most['flags']} of these are {name} ({most[HIGH]} high, {most[LOW]} low)"
        return f"{text}."

    def figure(self, filters: str = "large") -> Figure:
        """Conditions by responses; symbols show which algorithm is high (up) or low (down)."""
        from dumbbell._plots import figure

        order = list(self.table["condition"].unique())
        rows = self.kept(filters)
        size = (2.2 + 0.3 * len(self.responses), 2.0 + 0.19 * len(order))
        made, axes = figure(1, 1, (max(size[0], 5.5), size[1]))
        ax = axes[0, 0]
        styles = looks(self.algorithms)
        across = {name: i for i, name in enumerate(self.responses)}
        down = {name: i for i, name in enumerate(order)}
        for (name, sign), here in rows.groupby(["algorithm", "sign"], sort=False):
            ax.scatter(
                here["response"].map(across),
                here["condition"].map(down),
                marker="^" if sign == HIGH else "v",
                color=styles[name].colour,
                s=34,
                zorder=3,
            )
        ax.set_xlim(-0.6, len(across) - 0.4)
        ax.set_ylim(len(order) - 0.4, -0.6)
        ax.set_xticks(range(len(across)), list(across), rotation=90, fontsize=SMALL)
        ax.set_yticks(range(len(order)), [str(name) for name in order], fontsize=7)
        ordered = self.congestion is not None
        ax.set_ylabel("condition, most congested below" if ordered else "condition")
        if self.congestion is not None:
            classes = self.congestion.classes.reindex(order).to_numpy()
            for edge in np.flatnonzero(np.diff(classes)):
                ax.axhline(edge + 0.5, color="#777777", linewidth=0.8)
        squares = {name: replace(look, marker="s") for name, look in styles.items()}
        title = "colour: algorithm; up: high, down: low"
        legend(made, squares, title, columns=4 if size[0] < 7 else 8)
        return made


def outliers(
    frame: pd.DataFrame,
    responses: Sequence[str],
    *,
    condition: str = "condition",
    algorithm: str = "algorithm",
    alpha: float = 0.05,
    rel: float = 0.1,
    congestion: Congestion | None = None,
) -> Outliers:
    """Condition-response summary: Grubbs' test of the algorithms in each condition and response.

    Filter 1 keeps algorithms that differ significantly (two-sided, `alpha`), filter 2 of those the
    ones that differ by at least `rel` of the mean over all algorithms. Replicates are averaged;
    pairs with fewer than three values are left out. Raises UsageError.
    """
    if rel < 0:
        raise UsageError(f"rel = {rel}: expected 0 or more")
    means = cell_means(frame, responses, condition=condition, algorithm=algorithm)
    present = means.index.get_level_values(0).unique()
    order = [c for c in congestion.order if c in present] if congestion else list(present)
    rows = []
    for name in order:
        for response in responses:
            values = means.loc[name, response].dropna()
            if len(values) < 3:
                continue
            test = grubbs(values, alpha=alpha)
            mean = float(values.mean())
            difference = float(values.iloc[test.index]) - mean
            relative = difference / abs(mean) if mean else math.copysign(math.inf, difference)
            row = {
                "condition": name,
                "response": response,
                "algorithm": values.index[test.index],
                "sign": HIGH if difference > 0 else LOW,
                "g": test.g,
                "critical": test.critical,
                "p": test.p,
                "relative": relative if difference else 0.0,
                "significant": test.outlier,
                "large": test.outlier and abs(relative) >= rel,
            }
            if congestion is not None:
                row["class"] = int(congestion.classes[name])
            rows.append(row)
    if not rows:
        raise UsageError("no condition has a response with values of 3 algorithms")
    names = tuple(means.index.get_level_values(1).unique())
    return Outliers(pd.DataFrame(rows), names, tuple(responses), alpha, rel, congestion)
