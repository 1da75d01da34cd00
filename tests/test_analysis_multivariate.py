"""Correlation, components, clusters, outliers, ranks, coexistence: published answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.cluster.hierarchy import cophenet, linkage

from dumbbell._errors import UsageError
from dumbbell.analysis.clustering import clusters, stands_out
from dumbbell.analysis.coexistence import coexistence
from dumbbell.analysis.components import components
from dumbbell.analysis.congestion import congestion
from dumbbell.analysis.correlation import correlations
from dumbbell.analysis.goodputs import goodputs
from dumbbell.analysis.outliers import grubbs, grubbs_critical, outliers
from dumbbell.analysis.ranks import ranks
from dumbbell.analysis.summary import agreement, response_bars

ALGORITHMS = ["BIC", "CTCP", "FAST", "HSTCP", "HTCP", "Scalable", "Reno"]

# R's data set USArrests: murder, assault, percentage of urban population, rape (McNeil, 1977).
ARRESTS = """13.2 236 58 21.2  10.0 263 48 44.5  8.1 294 80 31.0  8.8 190 50 19.5  9.0 276 91 40.6
7.9 204 78 38.7  3.3 110 77 11.1  5.9 238 72 15.8  15.4 335 80 31.9  17.4 211 60 25.8
5.3 46 83 20.2  2.6 120 54 14.2  10.4 249 83 24.0  7.2 113 65 21.0  2.2 56 57 11.3
6.0 115 66 18.0  9.7 109 52 16.3  15.4 249 66 22.2  2.1 83 51 7.8  11.3 300 67 27.8
4.4 149 85 16.3  12.1 255 74 35.1  2.7 72 66 14.9  16.1 259 44 17.1  9.0 178 70 28.2
6.0 109 53 16.4  4.3 102 62 16.5  12.2 252 81 46.0  2.1 57 56 9.5  7.4 159 89 18.8
11.4 285 70 32.1  11.1 254 86 26.1  13.0 337 45 16.1  0.8 45 44 7.3  7.3 120 75 21.4
6.6 151 68 20.0  4.9 159 67 29.3  6.3 106 72 14.9  3.4 174 87 8.3  14.4 279 48 22.5
3.8 86 45 12.8  13.2 188 59 26.9  12.7 201 80 25.5  3.2 120 80 22.9  2.2 48 32 11.2
8.5 156 63 20.7  4.0 145 73 26.2  5.7 81 39 9.3  2.6 53 66 10.8  6.8 161 60 15.6"""

# Order of the 32 conditions by retransmission rate, least first: slides of NIST SP 500-282.
ORDERS = {
    "1a": "12 8 20 2 32 26 3 14 4 15 27 9 16 10 28 11 18 24 22 19 17 6 1 29 7 30 5 25 23 13 31 21",
    "1b": "8 12 2 20 26 32 14 3 15 27 9 4 10 16 28 11 22 17 29 23 5 18 24 6 1 19 7 30 25 13 31 21",
    "2a": "16 8 24 32 28 12 4 20 14 6 30 22 15 2 10 31 23 26 11 3 7 13 5 18 27 9 29 25 17 1 19 21",
    "2b": "16 8 24 12 32 28 4 14 30 20 6 22 15 2 10 31 23 11 3 26 7 13 5 18 27 9 29 25 17 1 19 21",
    "2c": "16 28 4 24 8 30 10 2 22 6 32 20 14 12 15 23 31 3 5 11 26 18 7 13 9 27 17 29 25 1 19 21",
}


def iris() -> pd.DataFrame:
    from sklearn.datasets import load_iris

    found = load_iris()
    frame = pd.DataFrame(found.data, columns=["sepal l", "sepal w", "petal l", "petal w"])
    return frame.assign(species=found.target)


def runs(
    value: Callable[[int, int, np.random.Generator], dict[str, float]], conditions: int = 8
) -> pd.DataFrame:
    """One run of each algorithm in each condition."""
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        [
            {"condition": c, "algorithm": name, **value(c, a, rng)}
            for c in range(1, conditions + 1)
            for a, name in enumerate(ALGORITHMS)
        ]
    )


def test_components_of_usarrests_are_those_of_r() -> None:
    """Shares and loadings of prcomp(USArrests, scale. = TRUE) as in James, Witten, Hastie and
    Tibshirani, An Introduction to Statistical Learning, section 10.2 and its lab."""
    values = np.array(ARRESTS.split(), dtype=float).reshape(50, 4)
    frame = pd.DataFrame(values, columns=["Murder", "Assault", "UrbanPop", "Rape"])
    found = components(frame, list(frame.columns))
    assert found.shares.round(4).tolist() == [0.6201, 0.2474, 0.0891, 0.0434]
    published = {"PC1": [0.5359, 0.5832, 0.2782, 0.5434], "PC2": [0.4182, 0.1880, -0.8728, -0.1673]}
    for component, loadings in published.items():
        ours = found.loadings[component]
        assert (ours * np.sign(ours.iloc[0])).round(4).tolist() == loadings
    assert found.enough(0.8) == 2
    assert found.enough(0.9) == 3


def test_components_of_iris_have_the_published_shares() -> None:
    """Shares of standardised iris (Fisher, 1936), as prcomp(iris[, 1:4], scale. = TRUE) prints."""
    frame = iris()
    responses = list(frame.columns[:4])
    found = components(frame, responses, factors=["species"])
    assert found.shares.round(4).tolist() == [0.7296, 0.2285, 0.0367, 0.0052]
    # The scores of a component have the variance of its share; between and within add up to it.
    assert found.scores.var().sum() == pytest.approx(4)
    within = found.scores.groupby(frame["species"]).transform(lambda x: x - x.mean())
    part = 1 - (within["PC1"] ** 2).sum() / (found.scores["PC1"] ** 2).sum()
    assert found.explained.loc["species", "PC1"] == pytest.approx(part)


def test_a_response_that_is_often_missing_does_not_take_the_runs_with_it() -> None:
    frame = iris()
    responses = list(frame.columns[:4])
    often = frame["sepal l"].where(frame.index % 5 != 0)
    seldom = frame["sepal l"].where(frame.index != 7)
    found = components(frame.assign(often=often), [*responses, "often"])
    assert found.dropped == ("often",)
    assert found.left_out == 0
    assert found.shares.round(4).tolist() == [0.7296, 0.2285, 0.0367, 0.0052]
    found = components(frame.assign(seldom=seldom), [*responses, "seldom"])
    assert found.left_out == 1
    assert len(found.scores) == 149


def test_data_of_rank_two_have_two_components() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(40, 2)) @ rng.normal(size=(2, 6))).add_prefix("y")
    found = components(frame.assign(constant=3.0), [*frame.columns, "constant"])
    assert len(found.shares) == 2
    assert found.shares.sum() == pytest.approx(1)
    assert "constant" not in found.loadings.index


def test_correlations_of_iris_and_their_groups() -> None:
    """Pearson's correlations of iris as R's cor(iris[, 1:4]) prints them."""
    frame = iris()
    names = list(frame.columns[:4])
    found = correlations(frame.assign(same=1.0), [*names, "same"], prefer=["petal w"])
    matrix = found.matrix.loc[names, names].round(4).to_numpy()
    assert matrix[0].tolist() == [1, -0.1176, 0.8718, 0.8179]
    assert matrix[1].tolist() == [-0.1176, 1, -0.4284, -0.3661]
    assert matrix[2].tolist() == [0.8718, -0.4284, 1, 0.9629]
    assert [set(group) for group in found.clusters] == [{names[0], names[2], names[3]}, {names[1]}]
    assert found.representatives == ("petal w", "sepal w")
    assert found.dropped == ("same",)
    # Groups are connected, not cliques: 0.96 joins the petals, 0.8718 the sepal to one of them.
    assert len(correlations(frame, names, threshold=0.87).clusters) == 2
    assert len(correlations(frame, names, threshold=0.9).clusters) == 3


def test_grubbs_on_the_handbooks_mass_spectrometer_data() -> None:
    """NIST/SEMATECH e-Handbook section 1.3.5.17.1: G = 2.4687 (digits cut, not rounded) and, for
    the one-sided test of the maximum, the critical value 2.032 at alpha = 0.05."""
    values = [199.31, 199.53, 200.19, 200.82, 201.92, 201.95, 202.18, 245.57]
    found = grubbs(values, sided=1)
    assert found.index == 7
    assert int(found.g * 1e4) / 1e4 == 2.4687
    assert found.critical == pytest.approx(2.032, abs=5e-4)
    assert found.outlier


def test_grubbs_critical_values_are_those_of_the_tables() -> None:
    """Two-sided, alpha = 0.05: 2.020 for 7 values, 2.126 to 2.127 for 8, 2.290 for 10 (Grubbs and
    Beck, Technometrics 14, 1972, one-sided 2.5 %)."""
    assert [round(grubbs_critical(n), 3) for n in (7, 8, 10)] == [2.020, 2.127, 2.290]
    # p is alpha where g is critical.
    rng = np.random.default_rng(3)
    for _ in range(20):
        x = rng.normal(size=8)
        found = grubbs(x)
        if found.p < 1:
            assert grubbs_critical(8, alpha=found.p) == pytest.approx(found.g)


def test_equal_values_have_no_outlier_and_one_other_has_the_highest_g() -> None:
    """G cannot exceed (N - 1) / sqrt(N): 2.268 for N = 7."""
    assert grubbs([4.2] * 7).g == 0
    single = grubbs([0.1 + 0.2] * 3 + [0.3] * 4)
    assert not single.outlier
    extreme = grubbs([0.0] * 6 + [1.0])
    assert extreme.g == pytest.approx(6 / np.sqrt(7))
    assert extreme.p == 0
    with pytest.raises(UsageError, match="at least 3"):
        grubbs([1.0, 2.0])


def test_filters_of_the_condition_response_summary() -> None:
    def value(c: int, a: int, _: np.random.Generator) -> dict[str, float]:
        planted = ALGORITHMS[a] == "FAST" and c > 4
        return {
            "loss": c * (1 + 0.001 * a + (0.5 if planted else 0)),
            # Significant, but less than a tenth of the mean.
            "output": 100 + 0.1 * a - (5 if planted else 0),
        }

    frame = runs(value)
    order = congestion(frame, "loss", classes=2, by="equal")
    assert order.order == list(range(1, 9))
    found = outliers(frame, ["loss", "output"], congestion=order)
    flagged = found.kept("large")
    assert set(flagged["condition"]) == {5, 6, 7, 8}
    assert set(flagged["algorithm"]) == {"FAST"}
    assert set(flagged["response"]) == {"loss"}
    assert set(flagged["sign"]) == {"high"}
    counts = found.counts("significant").loc["FAST"]
    assert counts.to_dict() == {"high": 4, "low": 4, "flags": 8, "class 1": 0, "class 2": 8}
    assert found.matrix().loc[8, "loss"] == "FAST +"
    assert found.matrix().loc[1, "loss"] == ""
    assert len(outliers(frame, ["output"], rel=0.01).kept()) == 4
    assert "4 of these are FAST (4 high, 0 low)" in found.reading()


def test_trees_have_the_cophenetic_distances_worked_by_hand() -> None:
    """Points 0, 1, 3, 7 on a line. Average: {0, 1} at 1, 3 joins at (3 + 2) / 2, 7 at
    (7 + 6 + 4) / 3. Divided by the mean of the values, 2.75."""
    frame = pd.DataFrame(
        {"condition": 1, "algorithm": list("abcd"), "y": [0.0, 1.0, 3.0, 7.0], "same": 5.0}
    )
    tree = clusters(frame, ["y", "same"]).trees[1]
    heights = 2.75 * cophenet(tree.links)
    assert heights.tolist() == pytest.approx([1, 2.5, 17 / 3, 2.5, 17 / 3, 17 / 3])
    assert tree.alone == "d"
    assert clusters(frame, ["y"], ratio=2.5).trees[1].alone is None
    single = clusters(frame, ["y"], linkage="single").trees[1]
    assert 2.75 * single.height == pytest.approx(4)


def test_who_stands_out() -> None:
    pairs = linkage(np.array([[0.0], [0.1], [5.0], [5.1]]), "average")
    assert stands_out(pairs, list("abcd")) is None
    alone = linkage(np.array([[0.0], [0.1], [0.2], [5.0]]), "average")
    assert stands_out(alone, list("abcd")) == "d"
    assert stands_out(linkage(np.zeros((4, 1)), "average"), list("abcd")) is None


@pytest.mark.parametrize("scale", ["mean", "zscore"])
def test_a_shift_of_five_deviations_stands_out_everywhere(scale: str) -> None:
    def value(_: int, a: int, rng: np.random.Generator) -> dict[str, float]:
        shift = 5 if ALGORITHMS[a] == "FAST" else 0
        return {f"y{i}": 100 + 2 * (rng.normal() + shift) for i in range(12)}

    found = clusters(runs(value), [f"y{i}" for i in range(12)], scale=scale)
    assert found.counts()["conditions"].to_dict() == {
        name: 8 if name == "FAST" else 0 for name in ALGORITHMS
    }


def test_standing_out_is_tied_to_congestion() -> None:
    """FAST stands out in the four most congested of eight: the rank-sum test's exact two-sided p is
    2 / C(8, 4), and the point-biserial correlation of 1..4 against 5..8 is 4 / sqrt(21)."""

    def value(c: int, a: int, _: np.random.Generator) -> dict[str, float]:
        planted = ALGORITHMS[a] == "FAST" and c > 4
        return {"loss": float(c), "y": 1 + 0.01 * (a % 2) + (2 if planted else 0)}

    frame = runs(value)
    found = clusters(frame, ["y"], congestion=congestion(frame, "loss"))
    row = found.counts().loc["FAST"]
    assert row["conditions"] == 4
    assert row["p"] == pytest.approx(2 / 70)
    assert row["correlation with congestion"] == pytest.approx(4 / np.sqrt(21))
    assert "mainly in the more congested" in found.reading()


def goodput_runs() -> pd.DataFrame:
    def value(c: int, a: int, rng: np.random.Generator) -> dict[str, float]:
        row: dict[str, float] = {}
        for g in range(1, 5):
            row |= {f"alternate.g{g}": float(rng.integers(1, 6)), f"tcp.g{g}": rng.uniform(1, 9)}
            row |= {f"flows.g{g}": 3 if (g == 4 and c == 2 and a == 1) else 50}
        return row

    return runs(value)


def table_of(frame: pd.DataFrame) -> pd.DataFrame:
    return goodputs(
        frame,
        alternate="alternate.g{group}",
        tcp="tcp.g{group}",
        alternate_flows="flows.g{group}",
        files={"1": "movie", "2": "movie", "3": "document", "4": "document"},
    )


def test_ranks_of_a_group_sum_to_that_of_the_first_numbers() -> None:
    """A (A + 1) / 2 = 28 for seven algorithms, with ties too; none where one has too few flows."""
    found = ranks(table_of(goodput_runs()))
    sums = found.cells.groupby(["condition", "group"])[["alternate", "tcp"]].sum(min_count=1)
    masked = sums["alternate"].isna()
    assert masked[masked].index.tolist() == [(2, "4")]
    assert (sums["alternate"][~masked] == 28).all()
    assert (sums["tcp"] == 28).all()
    best = found.matrix("BIC", "tcp")
    assert best.shape == (4, 8)
    whole = found.table.set_index(["algorithm", "file"])
    cells = found.cells[found.cells["algorithm"] == "BIC"].dropna()
    both = cells[["alternate", "tcp"]].mean(axis=1)
    assert whole.loc[("BIC", "all"), "both mean"] == pytest.approx(both.mean())
    movies = found.matrix("BIC").loc[["1", "2"]].stack()
    assert whole.loc[("BIC", "movie"), "alternate mean"] == pytest.approx(movies.mean())
    assert whole.loc[("BIC", "movie"), "alternate sd"] == pytest.approx(movies.std())


def test_other_names_of_algorithms_change_names_alone() -> None:
    frame = goodput_runs()
    names = dict(zip(ALGORITHMS, ALGORITHMS[1:] + ALGORITHMS[:1], strict=True))
    other = frame.assign(algorithm=frame["algorithm"].map(names))

    def answers(runs_: pd.DataFrame) -> dict[str, Any]:
        table = table_of(runs_)
        responses = [f"tcp.g{g}" for g in range(1, 5)]
        return {
            "ranks": ranks(table).table.set_index(["file", "algorithm"])["both mean"],
            "coexistence": coexistence(table).table["unfairness index"],
            "trees": clusters(runs_, responses).table["merge height"],
            "outliers": outliers(runs_, responses).table["algorithm"],
        }

    before, after = answers(frame), answers(other)
    renamed = before["ranks"].rename(index=names, level="algorithm").sort_index()
    pd.testing.assert_series_equal(renamed, after["ranks"].sort_index())
    renamed = before["coexistence"].rename(index=names)
    pd.testing.assert_series_equal(renamed.sort_index(), after["coexistence"].sort_index())
    assert before["outliers"].map(names).tolist() == after["outliers"].tolist()
    np.testing.assert_allclose(before["trees"], after["trees"])


def test_coexistence_worked_by_hand() -> None:
    """Eight conditions. Beside BIC, TCP has 50 and BIC 100 in all: sign test 2 / 2^8, and the
    signed-rank test the same. CTCP is above in four. TCP beside CTCP has 150: the index of BIC is
    50 / mean(50, 150), that of CTCP 150 / 100."""
    rows = []
    for c in range(1, 9):
        rows.append({"condition": c, "algorithm": "BIC", "alternate": 100.0, "tcp": 50.0})
        own = 150.0 + (c if c > 4 else -c)
        rows.append({"condition": c, "algorithm": "CTCP", "alternate": own, "tcp": 150.0})
    table = pd.DataFrame(rows)
    found = coexistence(table)
    bic, ctcp = found.table.loc["BIC"], found.table.loc["CTCP"]
    assert bic["share above"] == 1
    assert bic["sign test p"] == pytest.approx(2 / 2**8)
    assert bic["signed-rank p"] == pytest.approx(2 / 2**8)
    assert bic["unfairness index"] == pytest.approx(0.5)
    assert ctcp["unfairness index"] == pytest.approx(1.5)
    assert ctcp["share above"] == 0.5
    assert ctcp["sign test p"] == pytest.approx(1)
    # Differences -1 .. -4 and 5 .. 8: the negative ranks sum to 10, and 40 of the 256 subsets of
    # the ranks 1 to 8 sum to 10 or less (1 1 1 2 2 3 4 5 6 7 8 of them to 0, 1, .., 10).
    assert ctcp["median difference"] == pytest.approx((-1 + 5) / 2)
    assert ctcp["signed-rank p"] == pytest.approx(2 * 40 / 256)
    order = congestion(table.assign(loss=table["condition"]), "loss", classes=2, by="equal")
    classes = coexistence(table, congestion=order).by_class()
    ctcp_classes = classes[classes["algorithm"] == "CTCP"].set_index("class")
    assert ctcp_classes["share above"].to_dict() == {1: 0.0, 2: 1.0}


def test_algorithms_are_compared_by_the_same_flow_groups() -> None:
    """BIC has no flows of the slow group 2: it is left out for CTCP too, whose mean it would lower
    from 30 to 20."""
    rows = [
        ("BIC", "1", 30.0, 30.0),
        ("BIC", "2", np.nan, 10.0),
        ("CTCP", "1", 30.0, 30.0),
        ("CTCP", "2", 10.0, 10.0),
    ]
    table = pd.DataFrame(rows, columns=["algorithm", "group", "alternate", "tcp"])
    found = coexistence(table.assign(condition=1))
    assert found.points["tcp"].tolist() == [30, 30]
    assert found.table["unfairness index"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("one", "other", "published"), [("1a", "1b", 0.949), ("2a", "2b", 0.996), ("2a", "2c", 0.932)]
)
def test_orders_of_congestion_of_the_nist_study_agree(
    one: str, other: str, published: float
) -> None:
    """Rank correlation 1 - 6 sum d^2 / (n (n^2 - 1)) of the study's own orders, with d summed here
    by hand."""
    found = agreement(ORDERS[one].split(), ORDERS[other].split())
    places = [{name: i for i, name in enumerate(ORDERS[e].split())} for e in (one, other)]
    square = sum((places[0][name] - places[1][name]) ** 2 for name in places[0])
    assert found.rho == pytest.approx(1 - 6 * square / (32 * (32**2 - 1)))
    assert round(found.rho, 3) == published
    assert found.low < found.rho < found.high < 1


def test_agreement_of_two_short_orders() -> None:
    """a b c d e against b a c e d: d^2 sum to 4, rho = 1 - 24 / 120 = 0.8. Fisher's interval with
    Bonett and Wright's variance: tanh(1.0986 +- 1.96 sqrt(1.32 / 2))."""
    found = agreement("abcde", "baced")
    assert found.rho == pytest.approx(0.8)
    reach = 1.959964 * np.sqrt(1.32 / 2)
    assert found.low == pytest.approx(np.tanh(np.arctanh(0.8) - reach), abs=1e-6)
    assert agreement("abcde", "abcde").rho == pytest.approx(1)
    with pytest.raises(UsageError, match="same members"):
        agreement("abcd", "abce")


def test_classes_of_congestion_are_cut_at_the_widest_gaps() -> None:
    """On a logarithmic scale: 0 and 1e-6 stand within a decade, then gaps of 3, 0.3 and 1.7."""
    frame = pd.DataFrame({"condition": list("fedcba"), "loss": [0.1, 2e-3, 1e-3, 1e-6, 0.0, 0.12]})
    found = congestion(frame, "loss", classes=3)
    assert found.order == list("bcdefa")
    assert found.classes.to_dict() == {"b": 1, "c": 1, "d": 2, "e": 2, "f": 3, "a": 3}
    equal = congestion(frame, "loss", classes=3, by="equal")
    assert equal.classes.tolist() == [1, 1, 2, 2, 3, 3]
    assert congestion(frame.assign(loss=1.0), "loss").classes.unique().tolist() == [1]


def test_figures_are_drawn_with_units_and_names() -> None:
    frame = goodput_runs().assign(loss=lambda f: f["condition"] / 100)
    order = congestion(frame, "loss", classes=2)
    responses = [f"tcp.g{g}" for g in range(1, 5)]
    table = table_of(frame)
    means = frame.groupby("condition").mean(numeric_only=True).reset_index()
    drawn = {
        "clusters": clusters(frame, responses, congestion=order).figure(),
        "components": components(means, responses, label="condition").figure(),
        "correlations": correlations(frame, responses).figure(),
        "outliers": outliers(frame, responses, congestion=order).figure("none"),
        "ranks": ranks(table, congestion=order).figure(),
        "scatter": ranks(table, congestion=order).scatter(),
        "coexistence": coexistence(table, congestion=order).figure(),
        "histograms": coexistence(table, congestion=order).histograms(),
        "bars": response_bars(frame, "loss", congestion=order),
    }
    axes = {name: made.axes for name, made in drawn.items()}
    assert len(axes["clusters"]) == 8
    leaves = [label.get_text() for label in axes["clusters"][0].get_xticklabels()]
    assert sorted(leaves) == sorted(ALGORITHMS)
    assert "packets/s" in drawn["coexistence"].get_supxlabel()
    assert len(axes["histograms"]) == 2 * len(ALGORITHMS)
    assert axes["components"][1].get_xlabel().startswith("PC1 (")
    # One symbol a condition and response: everything is shown where nothing is filtered.
    shown = sum(len(c.get_offsets()) for c in axes["outliers"][0].collections)
    assert shown == 8 * 4


def test_wrong_names_and_values_are_one_line() -> None:
    frame = goodput_runs()
    with pytest.raises(UsageError, match=r"tcp\.g9"):
        correlations(frame, ["tcp.g9"])
    with pytest.raises(UsageError, match="at least one response"):
        clusters(frame, [])
    with pytest.raises(UsageError, match="expected numbers"):
        components(frame, ["algorithm"])
    with pytest.raises(UsageError, match="linkage"):
        clusters(frame, ["tcp.g1"], linkage="nearest")
    with pytest.raises(UsageError, match=r"\{group\}"):
        goodputs(frame, alternate="alternate.g1", tcp="tcp.g{group}")
