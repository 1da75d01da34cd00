"""Statements about what makes conditions congested, and how experiments differ in it.

The docstring of each function says what must hold; it was written before there were data.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis.effects import MainEffects, main_effects
from dumbbell.mesonet._measured import (
    ALGORITHM,
    CONDITION,
    FACTOR_OF_SAME,
    PRACTICAL,
    UNLIKE,
    Experiments,
    Judged,
    Measured,
    Part,
    rank_correlation,
)
from dumbbell.mesonet.published import (
    CONDITIONS,
    EXPERIMENTS,
    ORDER_CORRELATIONS,
    RETRANSMISSION_RATES,
    congestion_ranks,
    design,
    factor_levels,
)

LEAST_RHO = 0.8
LARGEST = 3
"""Effects whose factors are compared with the published ones."""
WITHOUT_EFFECT = ("x15", "x8")
_OTHERS = [f"y{i}" for i in (*range(1, 10), 11)]
"""Macroscopic responses of experiment 2 beside the retransmission rate."""


def order_correlation(m: Measured) -> float:
    """Spearman's correlation of our order of conditions with the published one, of those run."""
    rho, _ = rank_correlation(m.congestion.rank, congestion_ranks(m.experiment))
    return rho


def published_effects(experiment: str) -> MainEffects:
    """Main effects on the published rank of a condition. Raises UsageError."""
    frame = design(experiment).assign(rank=congestion_ranks(experiment))
    levels = factor_levels(experiment)
    return main_effects(frame, "rank", list(levels), levels=levels)


def congestion_effects(m: Measured) -> MainEffects:
    """Main effects on the decimal logarithm of the retransmission rate, mean over algorithms; no
    loss stands one decade below the least that was seen. All conditions must be there. Raises
    UsageError."""
    frame = m.by_condition([m.rate])
    rate = frame[m.rate].to_numpy(dtype=float)
    if not (rate > 0).any():
        raise UsageError(f"{m.experiment}: nothing was retransmitted")
    frame["log rate"] = np.log10(np.maximum(rate, rate[rate > 0].min() / 10))
    levels = factor_levels(m.experiment)
    return main_effects(frame, "log rate", list(levels), levels=levels)


def same_order(experiments: Experiments) -> Judged:
    """F21. In each experiment, Spearman's correlation of the conditions' mean retransmission rates
    with the published order is 0.8 or more."""
    of = experiments.those(*EXPERIMENTS, compare=False)
    parts, reasons = [], []
    for m in of:
        rho = order_correlation(m)
        text = f"{m.experiment}: rho = {rho:.3f}"
        parts.append(Part(f"order of {m.experiment}", rho >= LEAST_RHO, text))
        lossless = int((m.congestion.table["value"] == 0).sum())
        if lossless:
            reasons.append(f"{m.experiment}: {lossless} conditions have no loss here, and no order")
        reasons.append(m.unlike())
    return Judged(parts, of, reasons)


def same_causes(experiments: Experiments) -> Judged:
    """F22. In each experiment, by main effects on the logarithm of the retransmission rate, against
    those on the published rank of conditions:

    - the factor with the greatest effect is the published one (x3; in the published order of 1b it
      is x4);
    - the three greatest effects are of the three factors of the published order, which are x3, x4
      and a load factor in 1a and 1b, x3, x2 and x4 in 2a and 2b;
    - their signs are the published ones;
    - in experiment 2 the effects of x15 and of x8 are within Lenth's margin.
    """
    there = experiments.those(*EXPERIMENTS, compare=False)
    of = [m for m in there if m.conditions == CONDITIONS]
    if not of:
        extents = "; ".join(f"{m.experiment} has {m.extent}" for m in there)
        raise UsageError(f"effects need all {CONDITIONS} conditions: {extents}")
    parts, reasons = [], []
    for m in of:
        ours = congestion_effects(m).table.set_index("factor")
        theirs = published_effects(m.experiment).table.set_index("factor")
        order, wanted = _largest(ours["effect"]), _largest(theirs["effect"])
        shown = ", ".join(f"{name} {ours['effect'][name]:+.2f}" for name in order)
        expected = ", ".join(f"{name} {theirs['effect'][name]:+.1f}" for name in wanted)
        text = f"{m.experiment}: {shown} decades (published ranks: {expected})"
        signs = np.sign(ours["effect"][wanted]) == np.sign(theirs["effect"][wanted])
        here = f"in {m.experiment}"
        parts += [
            Part(f"{wanted[0]} dominates {here}", order[0] == wanted[0], text),
            Part(f"{', '.join(wanted)} matter most {here}", set(order) == set(wanted), text),
            Part(f"signs of {', '.join(wanted)} {here}", bool(signs.all()), text),
        ]
        for name in WITHOUT_EFFECT if m.experiment[0] == "2" else ():
            effect, margin = ours["effect"][name], ours["margin"][name]
            text = f"{m.experiment}: {name} {effect:+.3f} (margin {margin:.3f})"
            parts.append(Part(f"no effect of {name} {here}", abs(effect) <= margin, text))
            if abs(effect) > margin:
                reasons.append(_by_algorithm(m, name))
        reasons += [_span(m), m.unlike()]
    return Judged(parts, of, reasons)


def _by_algorithm(m: Measured, factor: str) -> str:
    """Effect of a factor with each algorithm, largest first."""
    low, high = factor_levels(m.experiment)[factor]
    logs = m.runs.assign(log=np.log10(m.runs[m.rate].where(m.runs[m.rate] > 0)))
    means = logs.groupby([ALGORITHM, factor])["log"].mean().unstack()
    effects = (means[high] - means[low]).sort_values(ascending=False)
    shown = ", ".join(f"{name} {effect:+.2f}" for name, effect in effects.items())
    return f"{m.experiment}: effect of {factor} by algorithm: {shown}"


def _span(m: Measured) -> str:
    """How far apart rates are, if that is much less than in the study."""
    rates = m.congestion.table["value"]
    least, greatest = RETRANSMISSION_RATES[m.experiment]
    if not (least > 0 and rates.min() > 0):
        return ""
    here, there = rates.max() / rates.min(), greatest / least
    if here * UNLIKE > there:
        return ""
    return (
        f"the rates of {m.experiment} are within a factor of {here:.1f} here, of {there:.0f} in "
        "the study, so that small effects count for more"
    )


def _largest(effects: pd.Series) -> list[str]:
    return list(effects.abs().sort_values(ascending=False, kind="stable").index[:LARGEST])


def threshold_without_matter(experiments: Experiments) -> Judged:
    """F7. Between 2a and 2b, whose initial slow-start thresholds differ, over the third of the
    conditions that is most congested in 2a:

    - the retransmission rates differ by a factor of less than 1.25 (median);
    - that factor is less than in the third with least congestion;
    - most of the ten other macroscopic responses (y1 to y9, y11) differ by less than a tenth
      (median).
    """
    high, low = experiments.both("2a", "2b")
    top, bottom = high.most_congested(), high.least_congested()
    means = [m.by_condition([m.rate, *_OTHERS]).set_index(CONDITION) for m in (high, low)]
    there = means[0].index.intersection(means[1].index)
    change = pd.DataFrame(
        {name: _factor(means[0].loc[there, name], means[1].loc[there, name])
         for name in (high.rate, *_OTHERS)}
    )  # fmt: skip
    congested, calm = change.reindex(top).median(), change.reindex(bottom).median()
    alike = int((congested[_OTHERS] < 1 + PRACTICAL).sum())
    factors = (
        f"retransmission rates differ by a factor of {congested[high.rate]:.2f} where congested, "
        f"{calm[high.rate]:.3g} where calm"
    )
    parts = [
        Part("same rate under congestion", congested[high.rate] < FACTOR_OF_SAME, factors),
        Part("less so than without", congested[high.rate] < calm[high.rate], factors),
        Part(
            "same other responses",
            2 * alike > len(_OTHERS),
            f"{alike} of {len(_OTHERS)} other responses differ by less than 10 %",
        ),
    ]
    return Judged(parts, (high, low), [high.unlike(), low.unlike()])


def _factor(one: pd.Series, other: pd.Series) -> pd.Series:
    """By what factor, 1 or more, two responses differ; that of a value and nothing is infinite."""
    ratio = one.astype(float).div(other.astype(float))
    return pd.concat([ratio, 1 / ratio], axis=1).max(axis=1).fillna(1.0)


def scale_keeps_order(experiments: Experiments) -> Judged:
    """F23. From 2a to 2c, ten times as large and fast: the retransmission rate is lower in more
    than half of the conditions, and Spearman's correlation of the two is 0.8 or more."""
    small, large = experiments.both("2a", "2c", compare=False)
    both = pd.concat([m.congestion.table["value"] for m in (small, large)], axis=1).dropna()
    both.columns = ["2a", "2c"]
    lower = int((both["2c"] < both["2a"]).sum())
    rho, _ = rank_correlation(both["2a"], both["2c"])
    published = ORDER_CORRELATIONS["2a", "2c"]
    parts = [
        Part(
            "less congestion",
            2 * lower > len(both),
            f"the rate is lower in {lower} of {len(both)} conditions",
        ),
        Part(
            "same order", rho >= LEAST_RHO, f"the orders agree: {rho:.3f} (published {published})"
        ),
    ]
    return Judged(parts, (small, large), [small.unlike(), large.unlike()])


def threshold_without_loss(experiments: Experiments) -> Judged:
    """F24. From 2a to 2b, with the low initial slow-start threshold, the least retransmission rate
    of a condition falls to a tenth or less, and the greatest changes by a factor of less than
    1.25. The first is not testable where there is a condition without loss in 2a already."""
    high, low = experiments.both("2a", "2b", compare=False)
    a, b = (m.congestion.table["value"] for m in (high, low))
    (low_a, top_a), (low_b, top_b) = (RETRANSMISSION_RATES[e] for e in ("2a", "2b"))
    if a.min() == 0:
        lossless = int((a == 0).sum())
        raise UsageError(
            f"{lossless} conditions of 2a have no loss here: too few packets for the rates of the "
            f"study, down to {low_a:.0e}"
        )
    parts = [
        Part(
            "the least rate is lower",
            b.min() <= a.min() / 10,
            f"least rate {a.min():.2g} in 2a, {b.min():.2g} in 2b "
            f"(published {low_a:.0e}, {low_b:.0e})",
        ),
        Part(
            "the greatest rate is as before",
            bool(max(a.max(), b.max()) < FACTOR_OF_SAME * min(a.max(), b.max())),
            f"greatest rate {a.max():.2g} in 2a, {b.max():.2g} in 2b "
            f"(published {top_a:.2g}, {top_b:.2g})",
        ),
    ]
    return Judged(parts, (high, low), [high.unlike(), low.unlike()])
