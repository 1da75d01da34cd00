"""Multiplicity, bootstrap, pairs, steady state and sensitivity against published answers."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from dumbbell._errors import UsageError
from dumbbell.analysis.bootstrap import bootstrap
from dumbbell.analysis.multiplicity import adjust
from dumbbell.analysis.paired import paired
from dumbbell.analysis.sensitivity import (
    given_data,
    morris,
    morris_sample,
    sobol,
    sobol_sample,
)
from dumbbell.analysis.warmup import batch_means, effective_size, mser
from published_experiments import sleep


def test_adjusted_p_values_by_hand() -> None:
    """Holm: 4 x .005, then 3 x .01, 2 x .03, and .04 not below the one before. Benjamini-Hochberg:
    4/1 x .005, 4/2 x .01, 4/3 x .03 and 4/4 x .04, each not above the one after."""
    table = pd.DataFrame({"p": [0.01, 0.04, 0.03, 0.005, np.nan]})
    found = adjust(table)
    assert found.table["p_holm"].to_list() == pytest.approx(
        [0.03, 0.06, 0.06, 0.02, np.nan], nan_ok=True
    )
    assert found.table["p_bh"].to_list() == pytest.approx(
        [0.02, 0.04, 0.04, 0.02, np.nan], nan_ok=True
    )
    assert found.reading() == (
        "Of 4 tests 4 have p < 0.05; after adjustment for their number 4 (Benjamini-Hochberg) "
        "or 2 (Holm)."
    )
    assert "p_holm" not in table


def test_families_are_adjusted_apart() -> None:
    """Two families of two: the smaller p is doubled, the larger stays or rises to it."""
    table = pd.DataFrame({"response": ["a", "b", "a", "b"], "p": [0.01, 0.2, 0.5, 0.3]})
    found = adjust(table, by="response").table
    assert found["p_holm"].to_list() == pytest.approx([0.02, 0.4, 0.5, 0.4])
    assert found["p_bh"].to_list() == pytest.approx([0.02, 0.3, 0.5, 0.3])
    ax = adjust(table).figure().axes[0]
    marked = [line for line in ax.lines if line.get_linestyle() == "None"]
    assert [len(line.get_xdata()) for line in marked] == [4, 4, 4]
    assert ax.get_ylabel() == "p value"


SPATIAL = [
    48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6,
    0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41,
]  # fmt: skip


def test_bootstrap_interval_of_the_spatial_test_data() -> None:
    """Efron and Tibshirani, An Introduction to the Bootstrap, section 14.2: the variance (by n)
    of the 26 values A is 171.5 with a BCa 90 % interval of 115.8 to 259.6. Here it is the standard
    deviation (by n - 1); BCa intervals keep with changes of scale."""
    frame = pd.DataFrame({"a": SPATIAL})
    row = bootstrap(frame, "a", statistic="sd", confidence=0.9, resamples=4000).table.iloc[0]
    variance = np.square([row.estimate, row.ci_low, row.ci_high]) * 25 / 26
    assert variance[0] == pytest.approx(171.5, abs=0.05)
    assert variance[1] == pytest.approx(115.8, rel=0.03)
    assert variance[2] == pytest.approx(259.6, rel=0.03)


def test_bootstrap_of_a_mean_is_near_the_t_interval() -> None:
    """For many normal values the interval is mean +- 1.96 s / sqrt(n)."""
    values = np.random.default_rng(3).normal(50, 10, 400)
    found = bootstrap(pd.DataFrame({"y": values}), "y")
    row = found.table.iloc[0]
    error = values.std(ddof=1) / 20
    assert row.se == pytest.approx(error, rel=0.06)
    assert row.ci_low == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert row.ci_high == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)


def test_runs_of_a_cluster_are_drawn_together() -> None:
    """Four copies of each run say no more than one: clustered, the interval is that of the single
    runs; unclustered it is too narrow, its error half as large."""
    single = pd.DataFrame({"seed": range(25), "y": np.random.default_rng(4).normal(size=25)})
    copies = pd.concat([single] * 4)
    right = bootstrap(copies, "y", cluster="seed").table.iloc[0]
    expected = bootstrap(single, "y").table.iloc[0]
    wrong = bootstrap(copies, "y").table.iloc[0]
    assert (right.n, right.clusters) == (100, 25)
    for name in ("estimate", "se", "ci_low", "ci_high"):
        assert right[name] == pytest.approx(expected[name])
    assert wrong.se == pytest.approx(right.se / 2, rel=0.1)


def test_bootstrap_by_groups() -> None:
    frame = pd.DataFrame(
        {"cc": ["reno", "cubic"] * 10, "loss": [0.0, 1.0] * 10, "rate": np.arange(20.0)}
    )
    found = bootstrap(frame, ["loss", "rate"], by="cc", resamples=200)
    table = found.table.set_index(["response", "cc"])
    assert len(table) == 4
    # All values agree: the interval is the estimate.
    assert table.loc[("loss", "cubic"), ["ci_low", "ci_high"]].to_list() == [1.0, 1.0]
    assert table.loc[("rate", "reno"), "estimate"] == 9.0
    axes = found.figure().axes
    assert [ax.get_xlabel() for ax in axes] == [
        "mean of loss, 95% interval",
        "mean of rate, 95% interval",
    ]
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["cc = reno", "cc = cubic"]
    assert found.reading().startswith("The mean of loss at cc = reno is 0")


def test_paired_t_test_of_the_sleep_data() -> None:
    """R, with(sleep, t.test(extra[group == 1], extra[group == 2], paired = TRUE)): t = -4.0621,
    df = 9, p-value = 0.002833, interval -2.4598858 to -0.7001142, mean difference -1.58."""
    row = paired(sleep(), "extra", "group", "patient").table.loc[2]
    assert row.difference == pytest.approx(1.58)
    assert row.t == pytest.approx(4.0621, abs=5e-5)
    assert row.df == 9
    assert row.p == pytest.approx(0.002833, abs=5e-7)
    assert (row.ci_low, row.ci_high) == pytest.approx((0.7001142, 2.4598858), abs=5e-8)


def test_signed_ranks_of_the_depression_data() -> None:
    """Hollander and Wolfe, 29 f.; R, wilcox.test(x, y, paired = TRUE): V = 40 of 45, so the smaller
    sum is 5, and p-value = 0.03906 (one-sided 0.01953)."""
    first = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    second = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    frame = pd.DataFrame(
        {"visit": ["first"] * 9 + ["second"] * 9, "who": [*range(9)] * 2, "y": first + second}
    )
    row = paired(frame, "y", "visit", "who").table.loc["second"]
    assert row.w == 5
    assert row.p_wilcoxon == pytest.approx(0.03906, abs=5e-6)


def test_pairing_takes_away_what_pairs_share() -> None:
    """By hand: variances 5/3 and 8/3, of the differences (1, 2, 1, 2) 1/3; 1 - (1/3) / (13/3)."""
    frame = pd.DataFrame(
        {
            "cc": ["reno"] * 4 + ["cubic"] * 4,
            "seed": [1, 2, 3, 4] * 2,
            "y": [1.0, 2, 3, 4, 2, 4, 4, 6],
        }
    )
    found = paired(frame, "y", "cc", "seed")
    row = found.table.loc["cubic"]
    assert row.variance_paired == pytest.approx(1 / 12)
    assert row.variance_unpaired == pytest.approx(13 / 12)
    assert row.variance_reduction == pytest.approx(12 / 13)
    assert found.differences["cubic"].to_list() == [1, 2, 1, 2]
    assert "took away 92% of the difference's variance" in found.reading()
    turned = paired(frame, "y", "cc", "seed", baseline="cubic").table.loc["reno"]
    assert turned.difference == -row.difference
    ax = found.figure().axes[0]
    assert ax.get_xlabel().startswith("y: difference from reno")
    assert len(ax.lines[0].get_xdata()) == 4


def test_equal_and_incomplete_pairs() -> None:
    frame = pd.DataFrame(
        {"cc": ["a"] * 4 + ["b"] * 4, "seed": [0, 1, 2, 3] * 2, "y": [1.0, 2, 3, 9] * 2}
    )
    row = paired(frame, "y", "cc", "seed").table.loc["b"]
    assert (row.difference, row.p, row.p_wilcoxon) == (0, 1, 1)
    frame.loc[7, "y"] = np.nan
    assert paired(frame, "y", "cc", "seed").table.loc["b", "pairs"] == 3


def test_planted_transient_is_removed() -> None:
    """50 observations of 10, then 200 that alternate between 1 and -1. By hand: means of five are
    then +-0.2, so at the right cut of 10 batches the statistic is 40 x 0.04 / 40^2 = 0.001, one
    batch later 39 batches with mean 0.2/39 give (1.56 - 0.04/39) / 39^2 = 0.001025, and one batch
    earlier the batch of 10 makes it far larger."""
    series = np.concatenate([np.full(50, 10.0), np.tile([1.0, -1.0], 100)])
    found = mser(series)
    assert found.cut == 50
    assert found.reliable
    assert len(found.steady()) == 200
    statistic = found.table.set_index("cut")["mser"]
    assert statistic[50] == pytest.approx(0.001)
    assert statistic[55] == pytest.approx((1.56 - 0.04 / 39) / 39**2)
    above, below = found.figure().axes
    assert (above.get_ylabel(), below.get_ylabel()) == ("series", "MSER statistic")
    assert found.reading().startswith("The warm-up ends after 50 of 250 observations (20%)")


def test_a_run_without_steady_state_is_told() -> None:
    assert not mser(np.linspace(0, 1, 200) ** 3).reliable
    # Left-over observations at the end stay in the steady part.
    assert len(mser(np.tile([1.0, -1.0], 26)).steady()) == 52


def autoregressive(n: int, phi: float, seed: int) -> NDArray[np.float64]:
    """A stationary AR(1) with innovations of variance 1."""
    noise = np.random.default_rng(seed).normal(size=n)
    noise[0] /= np.sqrt(1 - phi**2)
    series = np.empty(n)
    last = 0.0
    for place, step in enumerate(noise):
        last = phi * last + step
        series[place] = last
    return series


def test_batch_means_by_hand() -> None:
    """Batch means 1 to 10: mean 5.5, variance 55/6, error sqrt(55/60) = 0.9574; t(.975, 9) is
    2.262."""
    series = np.repeat(np.arange(1.0, 11.0), 3)
    found = batch_means(np.concatenate([[99.0], series]), batches=10)
    assert found.table["mean"].to_list() == list(range(1, 11))
    assert found.mean == 5.5
    assert found.se == pytest.approx(np.sqrt(55 / 60))
    assert found.ci_high - found.mean == pytest.approx(2.262 * 0.9574, abs=1e-3)
    assert len(found.figure().axes[0].lines[0].get_xdata()) == 10


def test_batch_means_of_a_known_process() -> None:
    """AR(1) with phi = 0.8: the mean of n has a variance of 1 / (1 - phi)^2 / n, an observation one
    of 1 / (1 - phi^2), so n (1 - phi) / (1 + phi) = n / 9 independent ones say as much. The error
    from 50 batches varies by 1 / sqrt(2 x 49) = 10 %: three of that are allowed."""
    n, phi = 50_000, 0.8
    series = autoregressive(n, phi, 7)
    found = batch_means(series, batches=50)
    assert found.se == pytest.approx(1 / (1 - phi) / np.sqrt(n), rel=0.3)
    assert found.naive_se == pytest.approx(1 / np.sqrt((1 - phi**2) * n), rel=0.03)
    assert found.effective == pytest.approx(n / 9, rel=0.1)
    assert abs(found.batch_correlation) < 3 / np.sqrt(50)
    assert found.ci_low < 0 < found.ci_high


def test_intervals_by_batch_means_cover_the_mean() -> None:
    """Batches of independent normal values have an exact t interval: of 400, 95 % cover the mean,
    give or take three standard deviations of 1.1 %."""
    series = np.random.default_rng(8).normal(size=(400, 60))
    covered = [
        found.ci_low < 0 < found.ci_high
        for found in (batch_means(row, batches=20) for row in series)
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.033)


def test_independent_observations_count_in_full() -> None:
    series = np.random.default_rng(9).normal(size=20_000)
    assert effective_size(series) == pytest.approx(20_000, rel=0.1)
    assert effective_size(np.ones(10)) == 10


RANGES = dict.fromkeys(("x1", "x2", "x3"), (-np.pi, np.pi))


def ishigami(points: pd.DataFrame) -> pd.DataFrame:
    """Ishigami and Homma (1990), a = 7, b = 0.1."""
    x1, x2, x3 = (points[name] for name in RANGES)
    return points.assign(y=np.sin(x1) + 7 * np.sin(x2) ** 2 + 0.1 * x3**4 * np.sin(x1))


def test_sobol_indices_of_the_ishigami_function() -> None:
    """Analytic: S1 = 0.3139, 0.4424, 0; ST = 0.5576, 0.4424, 0.2437; of pairs only x1 with x3, by
    0.2437."""
    frame = ishigami(sobol_sample(RANGES, 4096, seed=1))
    found = sobol(frame, "y", RANGES)
    assert len(frame) == 4096 * 5
    assert found.table["S1"].to_list() == pytest.approx([0.3139, 0.4424, 0], abs=0.012)
    assert found.table["ST"].to_list() == pytest.approx([0.5576, 0.4424, 0.2437], abs=0.012)
    assert found.second is None
    pairs = ishigami(sobol_sample(RANGES, 2048, second_order=True, seed=1))
    second = sobol(pairs, "y", RANGES).second
    again = sobol(pairs, "y", RANGES).second
    pd.testing.assert_frame_equal(again, second)
    assert second is not None
    assert second["pair"].to_list() == ["x1:x2", "x1:x3", "x2:x3"]
    assert second["S2"].to_list() == pytest.approx([0, 0.2437, 0], abs=0.03)
    assert "x1 (0.56), x2 (0.44), x3 (0.24)" in found.reading()
    ax = found.figure().axes[0]
    assert ax.get_xlabel() == "sensitivity of y (Sobol')"
    assert len(ax.patches) == 6


def test_elementary_effects_of_a_plane() -> None:
    """y = 2 a - 3 b + c^0 over ranges of 10, 1 and 5: over its whole range each factor changes y by
    20, -3 and 0, wherever the others are."""
    ranges = {"a": (0.0, 10.0), "b": (1.0, 2.0), "c": (0.0, 5.0)}
    frame = morris_sample(ranges, 8)
    assert len(frame) == 8 * 4
    frame["y"] = 2 * frame["a"] - 3 * frame["b"]
    found = morris(frame, "y", ranges)
    assert found.table["mu"].to_list() == pytest.approx([20, -3, 0])
    assert found.table["mu_star"].to_list() == pytest.approx([20, 3, 0])
    assert found.table["sigma"].to_list() == pytest.approx([0, 0, 0], abs=1e-12)
    ax = found.figure().axes[0]
    assert [text.get_text() for text in ax.texts] == ["c", "b", "a"]


def test_sensitivity_from_any_runs() -> None:
    """y = 3 u + v with u, v uniform: shares of the variance 0.9 and 0.1; w does nothing. The
    Kolmogorov-Smirnov distance that random halves of the runs would have bounds w's index."""
    points = np.random.default_rng(2).uniform(size=(400, 3))
    frame = pd.DataFrame(points, columns=["u", "v", "w"]).assign(y=3 * points[:, 0] + points[:, 1])
    found = given_data(frame, "y", ["u", "v", "w"])
    assert found.table["S1"].to_list() == pytest.approx([0.9, 0.1, 0], abs=0.07)
    pawn = found.table["pawn"]
    assert pawn["u"] > 2 * pawn["v"]
    assert pawn["v"] > pawn["w"]
    # Of 50 runs in a slice against 400, a distance of 1.36 sqrt(1/50 + 1/400) is met in 5 %.
    assert pawn["w"] < 1.36 * np.sqrt(1 / 50 + 1 / 400)


def test_delta_on_request_and_warnings_as_they_were() -> None:
    """The measure is 0 for a factor that does nothing; a uniform one that alone decides, cut into
    five parts of equal size, leaves 1 - 1/5 at most."""
    shown, filters = warnings.formatwarning, list(warnings.filters)
    np.random.seed(5)
    expected = np.random.uniform()
    np.random.seed(5)
    points = np.random.default_rng(2).uniform(size=(64, 2))
    frame = pd.DataFrame(points, columns=["u", "v"]).assign(y=3 * points[:, 0])
    table = given_data(frame, "y", ["u", "v"], delta_resamples=3).table
    assert 0.4 < table["delta"]["u"] < 0.8
    assert abs(table["delta"]["v"]) < 0.2
    assert np.random.uniform() == expected
    assert warnings.formatwarning is shown
    assert warnings.filters == filters


def test_samples_out_of_order_are_refused() -> None:
    frame = ishigami(sobol_sample(RANGES, 16))
    with pytest.raises(UsageError, match="sorted by run"):
        sobol(frame.sample(frac=1, random_state=1), "y", RANGES)
    with pytest.raises(UsageError, match="sorted by run"):
        sobol(frame.iloc[:-1], "y", RANGES)
    with pytest.raises(UsageError, match="1 runs have no value"):
        sobol(frame.assign(y=[np.nan, *frame["y"][1:]]), "y", RANGES)
    steps = ishigami(morris_sample(RANGES, 4))
    with pytest.raises(UsageError, match="sorted by run"):
        morris(steps.sample(frac=1, random_state=1), "y", RANGES)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda f: adjust(f.assign(p=2.0)), "p values from 0 to 1"),
        (lambda f: bootstrap(f, "extra", statistic="mode"), "expected one of mean, median, sd"),
        (lambda f: bootstrap(f, "extra", cluster="group"), "three clusters"),
        (lambda f: bootstrap(f, "extra", resamples=10), "resamples = 10"),
        (lambda f: paired(f, "extra", "group", "group"), "columns that pairs share"),
        (lambda f: paired(f, "extra", "group", "patient", baseline=3), "expected 3 and another"),
        (
            lambda f: paired(pd.concat([f, f]), "extra", "group", "patient"),
            "two runs with group = 1",
        ),
        (lambda f: paired(f[f["patient"] < 1], "extra", "group", "patient"), "two pairs"),
        (lambda f: mser(f["extra"]), "ten batches"),
        (lambda _: mser([1.0, np.nan]), "finite"),
        (lambda f: batch_means(f["extra"], batches=11), "two observations"),
        (lambda f: given_data(f, "extra", ["group", "patient"]), "64 runs"),
        (lambda _: sobol_sample({"a": (0, 1), "b": (1, 0)}, 8), "range of b"),
        (lambda _: sobol_sample({"a": (0, 1), "b": (0, 1)}, 9), "power of two"),
        (lambda _: morris_sample({"a": (0, 1), "b": (0, 1)}, 4, levels=3), "even number"),
    ],
)
def test_errors_say_what_was_expected(call: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        call(sleep())  # type: ignore[operator]
