"""Treatments compared under common random numbers: differences within pairs of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError, show_value
from dumbbell.analysis._analysis import (
    Floats,
    check_columns,
    check_confidence,
    names,
    numbers,
    p_text,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Paired:
    """Each treatment against the baseline, pair by pair.

    `table` has a row per treatment: `pairs`, `mean_baseline`, `mean_treatment`, `difference`, its
    `se`, `ci_low`, `ci_high`, the paired t test's `t`, `df`, `p`, Wilcoxon's signed-rank `w` and
    `p_wilcoxon`, `correlation` between the two, `variance_unpaired` and `variance_paired` of the
    difference, and `variance_reduction` (1 - paired / unpaired; negative where pairing harms).
    `differences` has a column per treatment and a row per pair.
    """

    table: pd.DataFrame
    differences: pd.DataFrame
    response: str
    baseline: Any
    confidence: float

    def figure(self) -> Figure:
        """Differences of all pairs, with means and their intervals."""
        from dumbbell._plots import figure
        from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

        made, axes = figure(1, 1, (4.5, 1.0 + 0.5 * len(self.table)))
        ax = axes[0, 0]
        for place, (treatment, row) in enumerate(self.table.iterrows()):
            points = self.differences[treatment].dropna().to_numpy()
            # Spread over a band, the same every time.
            band = place + 0.3 * (np.arange(len(points)) * 0.618 % 1 - 0.5)
            ax.plot(points, band, "o", color=CAPACITY_COLOUR, markersize=3, alpha=0.7)
            ax.errorbar(
                row.difference,
                place,
                xerr=[[row.difference - row.ci_low], [row.ci_high - row.difference]],
                fmt="D",
                color=COLOURS[1],
                markersize=4.5,
                capsize=3,
                zorder=3,
            )
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_yticks(range(len(self.table)), [str(name) for name in self.table.index])
        ax.set_ylim(len(self.table) - 0.5, -0.5)
        ax.set_xlabel(
            f"{self.response}: difference from {self.baseline}\n"
            f"(diamond: mean, {self.confidence:.0%} interval)"
        )
        return made

    def reading(self) -> str:
        row = self.table.iloc[0]
        return (
            f"{self.response} with {self.table.index[0]} differs from that with {self.baseline} by "
            f"{row.difference:+.3g} ({self.confidence:.0%} interval {row.ci_low:+.3g} to "
            f"{row.ci_high:+.3g}; {row.pairs:.0f} pairs; {p_text(row.p)}, Wilcoxon "
            f"{p_text(row.p_wilcoxon)}); pairing {_reduction_text(row.variance_reduction)}."
        )


def paired(
    frame: pd.DataFrame,
    response: str,
    treatment: str,
    pair_by: str | Sequence[str],
    *,
    baseline: Any = None,
    confidence: float = 0.95,
) -> Paired:
    """Compare the treatments in column `treatment` on runs that share everything else.

    Runs that agree in the columns `pair_by` (condition and seed, say) are a pair; so under common
    random numbers what the pair shares cancels. Each treatment is compared with `baseline`, by
    default the first in the table. Pairs that lack one of the two are left out. Raises UsageError
    for two runs of one treatment in a pair and for fewer than two pairs. t test and Wilcoxon
    signed-rank test by scipy.
    """
    check_confidence(confidence)
    keys = names(pair_by)
    check_columns(frame, [treatment, *keys])
    if not keys or treatment in keys:
        raise UsageError(f"pair_by: expected columns that pairs share, other than {treatment}")
    runs = frame[[treatment, *keys]].assign(_value=numbers(frame, response))
    twice = runs.duplicated([treatment, *keys])
    if twice.any():
        first = runs[twice].iloc[0]
        where = ", ".join(f"{name} = {first[name]}" for name in keys)
        raise UsageError(
            f"two runs with {treatment} = {first[treatment]} at {where}: "
            "expected one; add the column that tells them apart to pair_by"
        )
    wide = runs.pivot(index=keys, columns=treatment, values="_value")
    treatments = list(pd.unique(runs[treatment]))
    baseline = treatments[0] if baseline is None else baseline
    if baseline not in treatments or len(treatments) < 2:
        raise UsageError(
            f"{treatment}: expected {show_value(baseline)} and another treatment, there are "
            f"{', '.join(map(str, treatments))}"
        )
    rows, differences = {}, {}
    for other in treatments:
        if other != baseline:
            both = wide[[baseline, other]].dropna()
            if len(both) < 2:
                raise UsageError(
                    f"{other} against {baseline}: expected two pairs or more, there are {len(both)}"
                )
            rows[other] = _compare(both[baseline].to_numpy(), both[other].to_numpy(), confidence)
            differences[other] = both[other] - both[baseline]
    table = pd.DataFrame.from_dict(rows, orient="index").astype({"pairs": int, "df": int})
    table.index.name = treatment
    return Paired(table, pd.DataFrame(differences), response, baseline, confidence)


def _compare(baseline: Floats, treated: Floats, confidence: float) -> dict[str, float]:
    from scipy import stats

    difference = treated - baseline
    count = len(difference)
    unpaired = (baseline.var(ddof=1) + treated.var(ddof=1)) / count
    within = difference.var(ddof=1) / count
    mean = float(difference.mean())
    row = {
        "pairs": count,
        "mean_baseline": float(baseline.mean()),
        "mean_treatment": float(treated.mean()),
        "difference": mean,
        "se": float(np.sqrt(within)),
    }
    if within > 0:
        test = stats.ttest_rel(treated, baseline)
        interval = test.confidence_interval(confidence)
        row |= {"ci_low": float(interval.low), "ci_high": float(interval.high)}
        row |= {"t": float(test.statistic), "df": count - 1, "p": float(test.pvalue)}
    else:
        # All pairs differ by the same: a test has no error to compare it with.
        row |= {"ci_low": mean, "ci_high": mean}
        row |= {"t": np.copysign(np.inf, mean) if mean else 0.0, "df": count - 1}
        row["p"] = 0.0 if mean else 1.0
    if np.any(difference):
        ranks = stats.wilcoxon(difference)
        row |= {"w": float(ranks.statistic), "p_wilcoxon": float(ranks.pvalue)}
    else:
        row |= {"w": 0.0, "p_wilcoxon": 1.0}
    varies = baseline.std() > 0 and treated.std() > 0
    return row | {
        "correlation": float(np.corrcoef(baseline, treated)[0, 1]) if varies else np.nan,
        "variance_unpaired": float(unpaired),
        "variance_paired": float(within),
        "variance_reduction": float(1 - within / unpaired) if unpaired > 0 else np.nan,
    }


def _reduction_text(reduction: float) -> str:
    if np.isnan(reduction):
        return "changed nothing, as no run differs"
    verb = "took away" if reduction >= 0 else "added"
    return f"{verb} {abs(reduction):.0%} of the difference's variance"
