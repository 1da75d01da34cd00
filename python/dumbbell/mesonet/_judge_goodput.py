"""Statements about what users get, most of which experiment 2 tells.

The docstring of each function says what must hold; it was written before there were data. Groups of
fewer than five completed flows do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import p_text
from dumbbell.analysis._style import listed
from dumbbell.analysis.anova import anova
from dumbbell.analysis.coexistence import coexistence
from dumbbell.analysis.components import Components, components
from dumbbell.analysis.multiplicity import FALSE_DISCOVERY, adjust
from dumbbell.mesonet._measured import (
    ALGORITHM,
    CONDITION,
    LEAST_COMPARED,
    PRACTICAL,
    TCP,
    Experiments,
    Judged,
    Measured,
    Part,
    group_numbers,
)

LARGE_FILES = ("movie", "service-pack")
SIGN_TEST = 6
"""Conditions below which no sign test is significant."""
SAME_GROUPS = 0.8
"""Adjusted Rand index from which two groupings count as the same; 1 is the same, 0 is chance."""
_LONG_LIVED = [f"{period}.y{i}" for period in ("tp1", "tp2", "tp3") for i in (33, 34, 35)]


def start_decides(experiments: Experiments) -> Judged:
    """F5. In 1a, 2a and 2c, whose initial slow-start threshold is high, over the third of the
    conditions with least congestion and all algorithms:

    - of the factors and the algorithm, x3, x2 or x11 explains most of the goodputs' first
      principal component;
    - the algorithm explains less than a tenth of it;
    - in more than half of the goodputs the algorithm is not significant (analysis of variance of
      their logarithms by condition and algorithm; p < .05 after Benjamini and Hochberg).
    """
    of = experiments.those("1a", "2a", "2c")
    parts = []
    for m in of:
        calm = m.class_goodputs()
        calm = calm[calm[CONDITION].isin(m.least_congested())]
        names = _complete(calm, m)
        found = components(calm, names, factors=[*m.factors, ALGORITHM])
        first = str(found.explained["PC1"].idxmax())
        own = float(found.explained.loc[ALGORITHM, "PC1"])
        many, significant = _significant(calm, m.goodput_names)
        here = f"in {m.experiment}"
        parts += [
            Part(
                f"x3, x2 or x11 tells conditions apart {here}",
                first in ("x3", "x2", "x11"),
                f"{m.experiment}: {first} explains {100 * found.explained['PC1'].max():.0f} % of "
                f"the first component of {len(names)} of {len(m.goodput_names)} goodputs",
            ),
            Part(
                f"the algorithm does not {here}",
                own < PRACTICAL,
                f"{m.experiment}: the algorithm explains {100 * own:.1f} % of it",
            ),
            Part(
                f"goodput does not depend on the algorithm {here}",
                2 * significant < many,
                f"{m.experiment}: significant in {significant} of {many} goodputs",
            ),
        ]
    return Judged(parts, of, [m.unlike() for m in of])


def _complete(frame: pd.DataFrame, m: Measured) -> list[str]:
    """The goodputs of which there are enough flows everywhere."""
    names = [name for name in m.goodput_names if frame[name].notna().all()]
    if not names:
        raise UsageError(f"{m.experiment}: no goodput is of enough flows everywhere; {m.movies()}")
    return names


def _significant(frame: pd.DataFrame, names: list[str]) -> tuple[int, int]:
    """How many goodputs there are to test, and in how many the algorithm is significant."""
    p = []
    for name in names:
        values = frame.assign(log=np.log10(frame[name].where(frame[name] > 0)))
        try:
            table = anova(values, "log", [CONDITION, ALGORITHM], order=1).table
        except UsageError:
            # Of too few flows for a test.
            continue
        p.append(float(table.loc[ALGORITHM, "p"]))
    if not p:
        raise UsageError("no goodput is of enough flows for an analysis of variance")
    adjusted = adjust(pd.DataFrame({"p": p})).table[FALSE_DISCOVERY]
    return len(p), int((adjusted < 0.05).sum())


def alternates_beat_tcp(experiments: Experiments) -> Judged:
    """F6. With the low initial slow-start threshold, in the third of the conditions with least
    congestion, each alternate algorithm has more goodput than TCP in most conditions (sign test,
    p < .05): the long-lived flows in 1b, against those of the runs where all use TCP; movies and
    service packs in 2b, against those of TCP flows in the same run. Not testable in an experiment
    where fewer than half of the algorithms have six conditions to compare them in.
    """
    of = experiments.those("1b", "2b")
    parts, reasons = [], []
    for m in of:
        if m.experiment == "1b":
            table = _long_lived(m)
        else:
            table = m.goodputs()
            table = table[table["group"].isin(group_numbers(*LARGE_FILES))]
            reasons.append(m.movies())
        table = table[table[CONDITION].isin(m.least_congested())]
        names = [name for name in m.algorithms if name != TCP]
        rows, why = _compared(m, table, names)
        reasons += why
        if 2 * len(rows) < len(names):
            continue
        text = f"{m.experiment}, conditions above TCP: {_shares(rows)}"
        if why:
            text += f"; not compared: {listed(name for name in names if name not in rows)}"
        parts += [
            Part(
                f"{name} in {m.experiment}",
                bool(row["share above"] > 0.5 and row["sign test p"] < 0.05),
                text,
            )
            for name, row in rows.items()
        ]
    if not parts:
        raise UsageError("; ".join(reasons))
    return Judged(parts, of, [*reasons, *(m.unlike() for m in of)])


def _long_lived(m: Measured) -> pd.DataFrame:
    """Mean goodput of the long-lived flows of each algorithm, and of TCP in the same condition."""
    m.require(TCP)
    means = m.frame.groupby([CONDITION, ALGORITHM], sort=False)[_LONG_LIVED].mean().mean(axis=1)
    wide = means.unstack(sort=False)
    table = wide.drop(columns=TCP).stack().rename("alternate").reset_index()
    return table.assign(tcp=table[CONDITION].map(wide[TCP])).dropna()


def _compared(
    m: Measured, table: pd.DataFrame, names: Sequence[str], least: int = SIGN_TEST
) -> tuple[dict[str, pd.Series], list[str]]:
    """Algorithms against TCP over conditions, and which have fewer than `least` to compare in."""
    rows, few = {}, []
    for name in names:
        here = table[table[ALGORITHM] == name]
        if here.dropna(subset=["alternate", "tcp"])[CONDITION].nunique() < least:
            few.append(name)
        else:
            rows[name] = coexistence(here).table.loc[name]
    why = f"{m.experiment}: fewer than {least} conditions to compare {listed(few)} in"
    return rows, [why] if few else []


def _shares(rows: Mapping[str, pd.Series]) -> str:
    """`bic 11 of 11 (p = 0.001), ...`"""
    return ", ".join(
        f"{name} {row['share above'] * row['conditions']:.0f} of {row['conditions']:.0f} "
        f"({p_text(row['sign test p'])})"
        for name, row in rows.items()
    )


def movies_beat_tcp(experiments: Experiments) -> Judged:
    """F9. In 2a and 2c, by movies with fast interfaces on all paths, for Scalable, HSTCP and BIC
    each, over the conditions where its own movies and those of TCP flows can be compared (at least
    eight):

    - its flows have more goodput in half of the conditions or more;
    - the share of such conditions in the more congested half is not below that in the other.
    """
    of = experiments.those("2a", "2c")
    parts, reasons = [], [m.movies() for m in of]
    for m in of:
        table = m.goodputs()
        table = table[table["group"].isin(group_numbers("movie", interface="fast"))]
        wanted = [name for name in ("scalable", "hstcp", "bic") if name in m.algorithms]
        rows, why = _compared(m, table, wanted, LEAST_COMPARED)
        reasons += why
        text = f"{m.experiment}, conditions above TCP: {_shares(rows)}"
        for name, row in rows.items():
            points = coexistence(table[table[ALGORITHM] == name]).points
            above = points["alternate"] > points["tcp"]
            top = points[CONDITION].isin(m.most_congested(2))
            more, less = float(above[top].mean()), float(above[~top].mean())
            halves = (
                f"{m.experiment}: {name} in {100 * more:.0f} % of the more congested half, "
                f"{100 * less:.0f} % of the other"
            )
            here = f"in {m.experiment}"
            parts += [
                Part(f"{name} in many conditions {here}", row["share above"] >= 0.5, text),
                Part(f"{name} under congestion {here}", more >= less, halves),
            ]
    if not parts:
        raise UsageError("; ".join(reasons))
    return Judged(parts, of, reasons)


def few_users_gain(experiments: Experiments) -> Judged:
    """F20. In 2b, with the low initial slow-start threshold, by the gain of a flow group in a
    condition (goodput of alternate flows over that of the TCP flows beside them, less 1), over all
    algorithms; large files with fast interfaces on fast paths are the groups 1, 3, 7 and 9:

    - over the two thirds of the conditions with least congestion, the gain of these groups is
      higher than that of the others (rank-sum test, one-sided, p < .05);
    - in the sixth with most congestion, their median gain is lower than in those two thirds;
    - groups whose median gain over those two thirds is less than a tenth have most of the completed
      alternate flows.
    """
    (m,) = experiments.those("2b")
    from scipy.stats import mannwhitneyu

    table = m.goodputs()
    table["gain"] = table["alternate"] / table["tcp"] - 1
    table = table.dropna(subset=["gain"])
    fast = group_numbers(*LARGE_FILES, paths=("very fast", "fast"), interface="fast")
    large = table["group"].isin(fast)
    top, third = (table[CONDITION].isin(m.most_congested(n)) for n in (6, 3))
    wanted, rest = table.loc[large & ~third, "gain"], table.loc[~large & ~third, "gain"]
    if len(wanted) < LEAST_COMPARED or not (large & top).any():
        raise UsageError(f"2b: {len(wanted)} gains of large files can be compared; {m.movies()}")
    p = float(mannwhitneyu(wanted, rest, alternative="greater").pvalue)
    middle, other = float(wanted.median()), float(rest.median())
    extreme = float(table.loc[large & top, "gain"].median())
    parts = [
        Part(
            "large files on fast paths gain more",
            p < 0.05,
            f"2b: median gain {middle:+.1%} of large files on fast paths, {other:+.1%} of others "
            f"({p_text(p)})",
        ),
        Part(
            "less so in extreme congestion",
            extreme < middle,
            f"2b: {extreme:+.1%} of large files on fast paths at the top",
        ),
    ]
    reasons = [m.movies()]
    if "alternate.n1" in m.frame.columns:
        median = table[~third].groupby("group")["gain"].median().abs()
        flows = pd.Series({g: m.frame[f"alternate.n{g}"].sum() for g in median.index})
        share = float(flows[median < PRACTICAL].sum() / flows.sum())
        text = f"2b: {share:.1%} of flows are of groups that gain less than 10 %"
        parts.append(Part("most users gain nothing", share > 0.5, text))
    else:
        reasons.append("2b: users were not counted by group")
    return Judged(parts, (m,), reasons)


def goodput_components(m: Measured) -> Components:
    """Principal components of the goodputs of an experiment over its conditions; those of which
    there are enough flows in each. Raises UsageError."""
    means = m.class_goodputs().groupby(CONDITION)[m.goodput_names].mean()
    names = _complete(means, m)
    frame = m.by_condition([m.rate]).set_index(CONDITION).join(means, how="inner").reset_index()
    return components(frame, names, label=CONDITION, factors=m.factors)


def three_groups(experiments: Experiments) -> Judged:
    """F25. In 2a and 2c each, by the first two principal components of the goodputs over the
    conditions (means over algorithms):

    - three clusters (k-means) are the conditions of low speed, of high speed with long delay, and
      of high speed with short delay: adjusted Rand index 0.8 or more;
    - in each of the three, of the other factors x11, the size of Web objects, explains most of
      these components' variance.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    of = experiments.those("2a", "2c")
    parts, reasons = [], []
    for m in of:
        found = goodput_components(m)
        scores = found.scores.iloc[:, :2]
        reasons += [_only_short_files(m, found), m.unlike()]
        slow, fast = m.by_condition([m.rate])["x3"].agg(["min", "max"])
        low = found.levels["x3"].astype(float) == slow
        long_delay = found.levels["x2"].astype(float) > 1
        kind = np.where(low, "low speed", np.where(long_delay, "long delay", "short delay"))
        if slow == fast or len(set(kind)) < 3:
            raise UsageError(f"{m.experiment}: there are no conditions of some of the three groups")
        clusters = KMeans(3, n_init=20, random_state=0).fit_predict(scores)
        index = float(adjusted_rand_score(kind, clusters))
        parts.append(
            Part(
                f"three groups in {m.experiment}",
                index >= SAME_GROUPS,
                f"{m.experiment}: clusters by {len(found.loadings)} of {len(m.goodput_names)} "
                f"goodputs are the three groups with an adjusted Rand index of {index:.2f}",
            )
        )
        for name in dict.fromkeys(kind):
            here = scores[kind == name]
            explained = _explained(here, found.levels.loc[here.index].drop(columns=["x3", "x2"]))
            first = str(explained.idxmax())
            parts.append(
                Part(
                    f"{name} split by x11 in {m.experiment}",
                    first == "x11",
                    f"{m.experiment}: {first} explains {100 * explained.max():.0f} % within {name}",
                )
            )
    return Judged(parts, of, reasons)


def _only_short_files(m: Measured, found: Components) -> str:
    """What the components are of, where larger files are missing."""
    large = set(group_numbers(*LARGE_FILES))
    if any(name.partition(".g")[2] in large for name in found.loadings.index):
        return ""
    explained = found.explained["PC1"]
    return (
        f"{m.experiment}: no movies and no service packs are completed in enough conditions to be "
        f"among the goodputs, and of those of shorter files {explained.idxmax()} explains most, "
        f"{100 * explained.max():.0f} % of the first component"
    )


def _explained(scores: pd.DataFrame, levels: pd.DataFrame) -> pd.Series:
    """Share of the scores' variance that lies between the levels of each factor."""
    centred = scores - scores.mean()
    total = float((centred**2).to_numpy().sum())
    between = {
        name: float((centred.groupby(levels[name]).transform("mean") ** 2).to_numpy().sum())
        for name in levels
    }
    return pd.Series(between) / total
