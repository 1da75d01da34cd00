"""Statements about macroscopic responses of networks, most of which experiment 1 tells.

The docstring of each function says what must hold; it was written before there were data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import p_text
from dumbbell.analysis.clustering import Clusters, Tree, clusters
from dumbbell.analysis.coexistence import coexistence
from dumbbell.analysis.outliers import HIGH, LOW, Outliers, outliers
from dumbbell.mesonet._measured import (
    FAST,
    FAST_AT,
    PRACTICAL,
    Experiments,
    Judged,
    Measured,
    Part,
    rank_correlation,
)
from dumbbell.mesonet.published import EXPERIMENTS

MACROSCOPIC = [
    *(f"{period}.y{i}" for period in ("tp1", "tp2", "tp3") for i in (*range(1, 9), *range(42, 46))),
    *(f"T.y{i}" for i in range(1, 6)),
]
"""Macroscopic responses of experiment 1: 12 of each period and five totals."""
COMPARED = [name for name in MACROSCOPIC if not name.endswith((".y44", ".y45"))]
"""Those in which algorithms are compared. Numbers of flows in normal and in alternate mode tell TCP
from the others by their definition."""
WINDOWED = ("bic", "ctcp", "hstcp", "scalable")
"""Algorithms that are Reno below some window."""
FEW = 0.25
RARELY = 0.05
SELDOM = 0.2
ALWAYS = 0.95
_SIGNS = {"retransmission rate": HIGH, "connecting flows": HIGH, "completed flows": LOW}
_UNDER_CONGESTION = dict(zip(_SIGNS, ("tp2.y6", "tp2.y42", "tp2.y5"), strict=True))


def macroscopic_outliers(m: Measured, *, without: str = "") -> Outliers:
    frame = m.frame[m.frame["algorithm"] != without]
    return outliers(frame, COMPARED, rel=PRACTICAL, congestion=m.congestion)


def macroscopic_clusters(m: Measured, *, without: str = "") -> Clusters:
    frame = m.frame[m.frame["algorithm"] != without]
    return clusters(frame, COMPARED, congestion=m.congestion)


def few_differences(experiments: Experiments) -> Judged:
    """F1. In 1a and in 1b, with Grubbs' test (p < .05) of each macroscopic response of each period
    (but flows in normal and in alternate mode) and each total in each condition, and differences of
    a tenth of the mean or more:

    - in fewer than a quarter of the pairs of condition and response some algorithm differs;
    - more than half of the algorithms differ in fewer than 5 % of the pairs each.
    """
    parts, reasons = [], []
    of = experiments.those("1a", "1b")
    for m in of:
        found = macroscopic_outliers(m)
        pairs = len(found.table)
        counts = found.counts()["flags"]
        share = float(counts.sum()) / pairs
        quiet = counts[counts < RARELY * pairs]
        note = ""
        if FAST_AT in m.algorithms:
            # Two that differ alike hide each other from a test for one.
            other = macroscopic_outliers(m, without=FAST_AT)
            flags = other.counts()["flags"]
            note = (
                f" ({100 * flags.sum() / len(other.table):.1f} % without FAST-AT, most often "
                f"{flags.idxmax()})"
            )
        parts += [
            Part(
                f"few differences in {m.experiment}",
                share < FEW,
                f"{m.experiment}: {100 * share:.1f} % of {pairs} pairs of condition and response "
                f"have an algorithm that differs{note}",
            ),
            Part(
                f"most algorithms alike in {m.experiment}",
                2 * len(quiet) > len(counts),
                f"{m.experiment}: {len(quiet)} of {len(counts)} algorithms differ in fewer than "
                f"5 % of pairs, most often {counts.idxmax()} ({100 * counts.max() / pairs:.1f} %)",
            ),
        ]
        often = ", ".join(f"{name} {n}" for name, n in counts.nlargest(3).items() if n)
        reasons += [f"{m.experiment}: those that differ are {often}" if often else "", m.unlike()]
    return Judged(parts, of, reasons)


def fast_stands_out(experiments: Experiments) -> Judged:
    """F2. In 1a and in 1b, in the cluster trees (average linkage) of the algorithms by all
    macroscopic responses (as in F1) of a condition, where an algorithm stands out if it is alone
    when the tree is cut in two and joins at twice the height of the rest or more:

    - FAST stands out in more conditions than any other algorithm;
    - the conditions where it does are the more congested ones (rank-sum test, p < .05).
    """
    parts, reasons = [], []
    of = experiments.those("1a", "1b")
    for m in of:
        m.require(FAST)
        found = macroscopic_clusters(m)
        counts = found.counts()
        fast, others = counts.loc[FAST], counts.drop(index=FAST)["conditions"]
        r, p = fast["correlation with congestion"], fast["p"]
        parts += [
            Part(
                f"FAST stands out most in {m.experiment}",
                fast["conditions"] > others.max(),
                f"{m.experiment}: FAST stands out in {fast['conditions']:.0f} of "
                f"{len(found.trees)} conditions, next {others.idxmax()} in {others.max():.0f}",
            ),
            Part(
                f"under congestion in {m.experiment}",
                bool(p < 0.05 and r > 0),
                f"{m.experiment}: standing out and congestion r = {r:.2f}, {p_text(p)}"
                if p == p
                else f"{m.experiment}: no association can be tested",
            ),
        ]
        if FAST_AT in m.algorithms:
            pair = sum(_two(tree) == {FAST, FAST_AT} for tree in found.trees.values())
            if pair:
                reasons.append(
                    f"{m.experiment}: in {pair} conditions FAST and FAST-AT are together apart "
                    "from the rest, so that neither is alone"
                )
            reading = macroscopic_clusters(m, without=FAST_AT).reading()
            alone = reading.removesuffix(".").replace("; ", ", ")
            reasons.append(f"{m.experiment} by the algorithms of 1a, without FAST-AT: {alone}")
        reasons.append(m.unlike())
    return Judged(parts, of, reasons)


def _two(tree: Tree) -> set[object]:
    """The smaller side of a tree that is cut in two."""
    from scipy.cluster.hierarchy import fcluster

    side = fcluster(tree.links, 2, "maxclust")
    one = {name for name, here in zip(tree.names, side, strict=True) if here == 1}
    other = set(tree.names) - one
    return one if len(one) <= len(other) else other


def fast_under_congestion(experiments: Experiments) -> Judged:
    """F3. In 1a and in 1b, for FAST and for FAST-AT where it was run: in more than half of the
    third of conditions with most congestion, in the period of jumbo files (tp2), the algorithm has

    - a higher retransmission rate (y6),
    - more connecting flows (y42),
    - fewer completed flows (y5)

    than every algorithm other than these two. That the window oscillates is not looked at: the
    responses are means.
    """
    of = experiments.those("1a", "1b")
    parts = [part for m in of for _, part in _effects_of_fast(m)]
    return Judged(parts, of, [m.unlike() for m in of])


def _effects_of_fast(m: Measured) -> list[tuple[tuple[str, str], Part]]:
    """Name and response, and whether that is extreme under congestion."""
    m.require(FAST)
    pairs = [(n, what) for n in (FAST, FAST_AT) if n in m.algorithms for what in _UNDER_CONGESTION]
    counts = {pair: _beyond(m, *pair, m.most_congested()) for pair in pairs}
    text = f"{m.experiment}, congested conditions: {_extremes(counts)}"
    return [
        (pair, Part(f"{pair[1]} of {pair[0]} in {m.experiment}", 2 * hits > many, text))
        for pair, (hits, many) in counts.items()
    ]


def _extremes(counts: Mapping[tuple[str, str], tuple[int, int]]) -> str:
    """`fast high in retransmission rate in 11 of 11, ...`"""
    return ", ".join(
        f"{name} {_SIGNS[what]} in {what} in {hits} of {many}"
        for (name, what), (hits, many) in counts.items()
    )


def _beyond(
    m: Measured, name: str, what: str, conditions: Sequence[int], least: float = 0.0
) -> tuple[int, int]:
    """In how many of these conditions an algorithm is beyond all others but FAST's relatives, and
    by `least` of their mean or more from that mean; and of how many that can be said."""
    wide = m.wide(_UNDER_CONGESTION[what]).reindex(conditions).dropna(subset=[name])
    others = wide.drop(columns=[FAST, FAST_AT], errors="ignore").dropna(how="all")
    value, mean = wide.loc[others.index, name], others.mean(axis=1)
    if _SIGNS[what] == HIGH:
        out = (value > others.max(axis=1)) & (value - mean >= least * mean)
    else:
        out = (value < others.min(axis=1)) & (mean - value >= least * mean)
    return int(out.sum()), len(out)


def fast_without_congestion(experiments: Experiments) -> Judged:
    """F4. Each effect of FAST or FAST-AT under congestion that is there (F3) is gone in the third
    of conditions with least congestion: in at most a fifth of them is the algorithm beyond all
    others and a tenth of their mean or more away from it. Not testable where F3 has no effect.
    """
    parts = []
    of = experiments.those("1a", "1b")
    for m in of:
        pairs = [pair for pair, effect in _effects_of_fast(m) if effect.holds]
        counts = {pair: _beyond(m, *pair, m.least_congested(), PRACTICAL) for pair in pairs}
        text = f"{m.experiment}, conditions without congestion: {_extremes(counts)}"
        parts += [
            Part(f"{pair[1]} of {pair[0]} in {m.experiment}", hits <= SELDOM * many, text)
            for pair, (hits, many) in counts.items()
        ]
    reasons = [m.unlike() for m in of]
    if not parts:
        raise UsageError("; ".join(filter(None, ["F3 has no effect that could vanish", *reasons])))
    return Judged(parts, of, reasons)


def reno_under_congestion(experiments: Experiments) -> Judged:
    """F10, as far as numbers of flows in each mode tell.

    In 1a and in 1b, by the share of flows in the alternate mode among those in congestion avoidance
    (tp2: y45 of y44 and y45), for BIC, CTCP, HSTCP and Scalable each:

    - the share falls with congestion (Spearman with the rank of conditions, p < .05);
    - in the sixth of conditions with most congestion its mean is below a half;

    and for FAST, which has no trigger, the share is 95 % or more in each condition of that sixth.
    In 2a, 2b and 2c for each of the four: in the sixth of conditions with most congestion the
    median ratio of its goodput and that of the TCP flows beside it is within a tenth of 1.
    """
    of = experiments.those(*EXPERIMENTS)
    parts, reasons = [], [m.unlike() for m in of]
    for m in of:
        try:
            parts += _modes(m) if m.experiment in ("1a", "1b") else _advantages(m)
        except UsageError as error:
            reasons.append(m.why(error))
    if not parts:
        raise UsageError("; ".join(filter(None, reasons)))
    for m in of:
        if any(_is_advantage(part, m) and not part.holds for part in parts):
            low, high = m.windows(m.most_congested(6))
            reasons.append(
                f"{m.experiment}: there an active flow's window is {low:.0f} to {high:.0f} packets "
                "in the mean (the triggers of BIC and Scalable are 14 and 16)"
            )
    if any(part.name.startswith("FAST") and not part.holds for part in parts):
        reasons.append(
            "flows that recover from losses of the initial slow start, or are in slow start after "
            "a timeout, count as in normal mode, those of FAST too"
        )
    return Judged(parts, of, reasons)


def _is_advantage(part: Part, m: Measured) -> bool:
    return part.name.startswith("no advantage") and part.name.endswith(f"in {m.experiment}")


def _modes(m: Measured) -> list[Part]:
    alternate, normal = m.wide("tp2.y45"), m.wide("tp2.y44")
    share = alternate / (alternate + normal)
    top = share.reindex(m.most_congested(6))
    top = top.dropna(axis=1, how="all")
    there = [name for name in WINDOWED if name in top]
    tests = {name: rank_correlation(share[name], m.congestion.rank) for name in there}
    shown = ", ".join(
        f"{name} {100 * top[name].mean():.0f} % "
        + (f"(rho {rho:.2f}, {p_text(p)})" if p == p else "(the same everywhere)")
        for name, (rho, p) in tests.items()
    )
    text = f"{m.experiment}: in alternate mode in the most congested sixth {shown}"
    parts = []
    for name, (rho, p) in tests.items():
        falls = p < 0.05 and rho < 0
        low = float(top[name].mean()) < 0.5
        parts += [
            Part(f"{name} falls back with congestion in {m.experiment}", falls, text),
            Part(f"{name} is mostly Reno in {m.experiment}", low, text),
        ]
    if FAST in top:
        least = float(top[FAST].min())
        text = f"{m.experiment}: {FAST} at least {100 * least:.0f} %"
        parts.append(Part(f"FAST does not fall back in {m.experiment}", least >= ALWAYS, text))
    return parts


def _advantages(m: Measured) -> list[Part]:
    table = m.goodputs()
    top = table[table["condition"].isin(m.most_congested(6))]
    ratios = {}
    for name in (name for name in WINDOWED if name in m.algorithms):
        points = coexistence(top[top["algorithm"] == name]).points
        ratios[name] = float((points["alternate"] / points["tcp"]).median())
    shown = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    text = f"{m.experiment}: goodput over that of TCP in the most congested sixth {shown}"
    return [
        Part(f"no advantage of {name} in {m.experiment}", abs(ratio - 1) <= PRACTICAL, text)
        for name, ratio in ratios.items()
    ]
