"""Statements about fairness to TCP and about ranks by goodput, of experiment 2.

The docstring of each function says what must hold; it was written before there were data. Groups of
fewer than five completed flows do not count.
"""

from __future__ import annotations

import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import p_text
from dumbbell.analysis.coexistence import Coexistence, coexistence
from dumbbell.analysis.ranks import ranks
from dumbbell.mesonet._measured import (
    ALGORITHM,
    CONDITION,
    LEAST_COMPARED,
    Experiments,
    Judged,
    Measured,
    Part,
)
from dumbbell.mesonet._responses import groups

FAIREST = ("ctcp", "htcp", "fast-at")
UNFAIREST = ("scalable", "bic", "fast")
BETWEEN = "hstcp"
BEST = 2
"""Places that are "among the best"."""


def fairest(experiments: Experiments) -> Judged:
    """F12. In 2a, 2b and 2c each, CTCP, H-TCP and FAST-AT are the three algorithms with the highest
    unfairness index (mean over conditions of the TCP flows' goodput beside an algorithm over that
    beside all); in part if two of them are. Not testable where the goodputs beside the algorithms
    are not told apart (Friedman's test over conditions, p < .05).
    """
    of, found, reasons = _indexes(experiments)
    parts = []
    for m, coexisting in zip(of, found, strict=True):
        index = coexisting.unfairness().sort_values(ascending=False, kind="stable")
        parts += _places(m, set(index.index[:3]), FAIREST, "fairest", _listed(index))
    return Judged(parts, of, reasons)


def unfairest(experiments: Experiments) -> Judged:
    """F13. In 2a, 2b and 2c each, by the index of F12:

    - Scalable, BIC and FAST are the three algorithms with the lowest; in part if two of them are;
    - HSTCP has the fourth lowest;
    - HSTCP has a lower index in the third of the conditions with most congestion than in that with
      least.

    Not testable where F12 is not.
    """
    of, found, reasons = _indexes(experiments)
    parts = []
    for m, coexisting in zip(of, found, strict=True):
        index = coexisting.unfairness().sort_values(kind="stable")
        parts += _places(m, set(index.index[:3]), UNFAIREST, "least fair", _listed(index[::-1]))
        calm, top = (
            _within(coexisting, conditions).unfairness()[BETWEEN]
            for conditions in (m.least_congested(), m.most_congested())
        )
        parts += [
            Part(f"{BETWEEN} between in {m.experiment}", index.index[3] == BETWEEN),
            Part(
                f"{BETWEEN} less fair under congestion in {m.experiment}",
                top < calm,
                f"{m.experiment}: {BETWEEN} {top:.3f} where congested, {calm:.3f} where calm",
            ),
        ]
    return Judged(parts, of, reasons)


def _indexes(experiments: Experiments) -> tuple[list[Measured], list[Coexistence], list[str]]:
    """Experiments in which the algorithms are told apart, and why others are not there."""
    of, found, reasons = [], [], []
    for m in experiments.those("2a", "2b", "2c"):
        try:
            m.require(*FAIREST, *UNFAIREST, BETWEEN)
            coexisting = coexistence(m.goodputs(), congestion=m.congestion)
            wide = coexisting.points.pivot(index=CONDITION, columns=ALGORITHM, values="tcp")
            _told_apart(m, wide, "goodputs of TCP flows beside the algorithms")
        except UsageError as error:
            reasons.append(m.why(error))
        else:
            of.append(m)
            found.append(coexisting)
            low, high = m.windows([*m.least_congested(1)])
            reasons += [
                f"{m.experiment}: an active flow's window is {low:.0f} to {high:.0f} packets in "
                "the mean of a condition, and HSTCP is TCP up to 31",
                m.unlike(),
            ]
    if not of:
        raise UsageError("; ".join(reasons))
    return of, found, reasons


def _compared(m: Measured) -> str:
    """In how many cells all algorithms have enough flows."""
    table = m.goodputs().dropna(subset=["alternate", "tcp"])
    having = table.groupby([CONDITION, "group"])[ALGORITHM].nunique()
    many = m.compared * len(groups())
    whole = int((having == len(m.algorithms)).sum())
    return f"{m.experiment}: {whole} of {many} cells of condition and flow group"


def _told_apart(m: Measured, wide: pd.DataFrame, what: str) -> None:
    """Raise UsageError unless the columns differ over the conditions."""
    from scipy.stats import friedmanchisquare

    whole = wide.dropna()
    if len(whole) < LEAST_COMPARED:
        raise UsageError(f"{m.experiment}: only {len(whole)} conditions have {what}")
    p = float(friedmanchisquare(*(whole[name] for name in whole)).pvalue)
    if not p < 0.05:
        raise UsageError(f"{m.experiment}: {what} do not differ (Friedman's test, {p_text(p)})")


def _places(
    m: Measured, there: set[object], wanted: tuple[str, ...], what: str, text: str
) -> list[Part]:
    hits = len(there & set(wanted))
    number = f"{_compared(m)}, {hits} of {', '.join(wanted)} are the {what} three ({text})"
    return [
        Part(f"two of the {what} three in {m.experiment}", hits >= 2, number),
        Part(f"all of the {what} three in {m.experiment}", hits == 3, number),
    ]


def _listed(index: pd.Series) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in index.items())


def _within(coexisting: Coexistence, conditions: list[int]) -> Coexistence:
    points = coexisting.points
    return coexistence(points[points[CONDITION].isin(conditions)])


def better_on_small_files(experiments: Experiments) -> Judged:
    """F15. In 2a, 2b and 2c each, the mean rank of CTCP by the goodput of its own flows is better
    for documents, and for Web objects, than for movies. Not testable with movies ranked in fewer
    than eight cells of condition and flow group.
    """
    parts, of, reasons = [], [], []
    for m in experiments.those("2a", "2b", "2c"):
        m.require("ctcp")
        found = ranks(m.goodputs())
        own = found.cells[found.cells[ALGORITHM] == "ctcp"]
        ranked = int(own.loc[own["file"] == "movie", "alternate"].count())
        if ranked < LEAST_COMPARED:
            reasons.append(f"{m.experiment}: movies are ranked in {ranked} cells; {m.movies()}")
            continue
        of.append(m)
        mean = own.groupby("file")["alternate"].mean()
        parts += [
            Part(
                f"{name} in {m.experiment}",
                mean[file] < mean["movie"],
                f"{m.experiment}: mean rank {mean[file]:.2f} by {name}, "
                f"{mean['movie']:.2f} by movies",
            )
            for file, name in (("document", "documents"), ("web", "Web objects"))
        ]
    if not parts:
        raise UsageError("; ".join(reasons))
    return Judged(parts, of, reasons)


def among_the_best(experiments: Experiments) -> Judged:
    """F16. By the mean rank over all flow groups of its own flows and the TCP flows beside them,
    CTCP is first or second of the algorithms in 2a (and 2c), and in 2b. Not testable where the
    ranks are not told apart (Friedman's test over conditions, p < .05).
    """
    parts, of, reasons = [], [], []
    for m in experiments.those("2a", "2b", "2c"):
        m.require("ctcp")
        found = ranks(m.goodputs())
        cells = found.cells.assign(
            both=found.cells[["alternate", "tcp"]].mean(axis=1, skipna=False)
        )
        wide = cells.groupby([CONDITION, ALGORITHM], sort=False)["both"].mean().unstack(sort=False)
        try:
            _told_apart(m, wide, "ranks of algorithms")
        except UsageError as error:
            reasons.append(m.why(error))
            continue
        of.append(m)
        reasons.append(m.unlike())
        table = found.table[found.table["file"] == "all"].set_index(ALGORITHM)
        mean = table["both mean"].sort_values(kind="stable")
        place = list(mean.index).index("ctcp") + 1
        shown = ", ".join(f"{name} {value:.2f}" for name, value in mean.items())
        text = f"{_compared(m)}, ctcp is number {place} of {len(mean)} ({shown})"
        parts.append(Part(f"CTCP in {m.experiment}", place <= BEST, text))
    if not parts:
        raise UsageError("; ".join(reasons))
    return Judged(parts, of, reasons)
