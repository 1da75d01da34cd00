"""Effects, interactions, Lenth's method, ANOVA and the ten steps against published analyses."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dumbbell.analysis
from dumbbell._errors import MissingExtraError, UsageError
from dumbbell.analysis._labels import short_terms
from dumbbell.analysis.anova import anova
from dumbbell.analysis.coding import coded, contrasts, two_factor_aliases
from dumbbell.analysis.effects import interactions, main_effects
from dumbbell.analysis.graphical import STEPS, ten_steps
from dumbbell.analysis.halfnormal import effects_plot, lenth
from published_experiments import (
    NIST_FACTORS,
    eddy_current,
    filtration,
    nist_32,
    npk,
    process_development,
    sleep,
    warpbreaks,
)


def test_filtration_effects_are_montgomerys() -> None:
    """Montgomery, table of factor effect estimates of the pilot plant experiment."""
    main = main_effects(filtration(), "y", list("ABCD")).table.set_index("factor")
    pairs = interactions(filtration(), "y", list("ABCD")).table.set_index("interaction")
    expected = {"A": 21.625, "B": 3.125, "C": 9.875, "D": 14.625}
    assert main["effect"].to_dict() == pytest.approx(expected)
    expected = {
        "A:B": 0.125,
        "A:C": -18.125,
        "A:D": 16.625,
        "B:C": 2.375,
        "B:D": -0.375,
        "C:D": -1.125,
    }
    assert pairs["effect"].to_dict() == pytest.approx(expected)
    assert (main["mean_high"] + main["mean_low"]).to_numpy() / 2 == pytest.approx(70.0625)
    assert main.loc["A", "relative"] == pytest.approx(21.625 / 70.0625)


def test_effects_without_replicates_have_a_two_sample_t_test() -> None:
    """R, t.test(extra ~ group, sleep, var.equal = TRUE): t = -1.8608, df = 18, p-value = 0.07919,
    95 percent interval -3.363874 to 0.203874 for group 1 less group 2."""
    row = main_effects(sleep(), "extra", ["group"]).table.iloc[0]
    assert (row.low, row.high, row.df) == (1, 2, 18)
    assert row.effect == pytest.approx(1.58)
    assert row.t == pytest.approx(1.8608, abs=5e-5)
    assert row.p == pytest.approx(0.07919, abs=5e-6)
    assert (row.ci_low, row.ci_high) == pytest.approx((-0.203874, 3.363874), abs=5e-7)


def test_replicates_give_the_error() -> None:
    """Montgomery's 2^2 with three replicates (concentration, catalyst): effects 8.33, -5.00 and
    1.67; error sum of squares 31.33 with 8 degrees of freedom, so a standard error of
    sqrt(31.333 / 8 / 3) = 1.1426 and F = 53.19 and 19.15."""
    cells = {(0, 0): (28, 25, 27), (1, 0): (36, 32, 32), (0, 1): (18, 19, 23), (1, 1): (31, 30, 29)}
    frame = pd.DataFrame(
        [(a, b, k, y) for (a, b), ys in cells.items() for k, y in enumerate(ys)],
        columns=["A", "B", "replicate", "y"],
    )
    main = main_effects(frame, "y", ["A", "B"]).table.set_index("factor")
    both = interactions(frame, "y", ["A", "B"]).table.iloc[0]
    assert main["effect"].to_list() == pytest.approx([25 / 3, -5.0])
    assert both.effect == pytest.approx(5 / 3)
    assert main["df"].to_list() == [8, 8]
    assert main["se"].to_list() == pytest.approx([1.1426, 1.1426], abs=5e-5)
    assert (main["t"] ** 2).to_list() == pytest.approx([53.19, 19.15], abs=0.01)
    without = main_effects(frame.drop(columns="replicate"), "y", ["A", "B"]).table
    assert without["df"].to_list() == [10, 10]


def test_planted_effects_come_back_and_nothing_else() -> None:
    """y = 5 + 3 X1 - 2 X4 without noise: an effect is twice a coefficient."""
    frame = nist_32()
    frame["y"] = 5 + 3 * frame["X1"] - 2 * frame["X4"]
    main = main_effects(frame, "y", NIST_FACTORS).table.set_index("factor")["effect"]
    pairs = interactions(frame, "y", NIST_FACTORS).table["effect"]
    assert main["X1"] == pytest.approx(6, abs=1e-12)
    assert main["X4"] == pytest.approx(-4, abs=1e-12)
    assert main.drop(["X1", "X4"]).abs().max() < 1e-12
    assert pairs.abs().max() < 1e-12


def test_aliases_of_the_nist_design() -> None:
    """Derived by hand from 6 = 2345, 7 = 1345, 8 = 1245, 9 = 1235: the words of four letters are
    1267, 1368, 1469, 2378, 2479 and 3489, so 12 = 67, ..., 16 = 27 = 38 = 49, and interactions with
    X5 are clear of other pairs."""
    frame = nist_32()
    aliases = two_factor_aliases(coded(frame, NIST_FACTORS))
    assert aliases["X1", "X2"] == ("X6:X7",)
    assert set(aliases["X1", "X6"]) == {"X2:X7", "X3:X8", "X4:X9"}
    assert aliases["X3", "X4"] == ("X8:X9",)
    assert all(not others for pair, others in aliases.items() if "X5" in pair)
    frame["y"] = np.random.default_rng(5).normal(size=32)
    found = interactions(frame, "y", NIST_FACTORS).table.set_index("interaction")
    for name, row in found.iterrows():
        for other in filter(None, row.aliases.split(", ")):
            assert found.loc[other, "effect"] == pytest.approx(row.effect, abs=1e-12), name
    words = contrasts(coded(frame, NIST_FACTORS))
    columns = np.array([word.column for word in words], dtype=int)
    assert len(words) == 31
    assert (columns @ columns.T == 32 * np.eye(31)).all()


def test_opposite_columns_are_negative_aliases() -> None:
    """The half fraction C = -AB: main effects are aliased with minus an interaction."""
    frame = pd.DataFrame(
        {"A": [0, 1, 0, 1], "B": [0, 0, 1, 1], "C": [0, 1, 1, 0], "y": [1, 2, 4, 9]}
    )
    aliases = two_factor_aliases(coded(frame, ["A", "B", "C"]))
    assert aliases["A", "B"] == ("-C",)
    effects = main_effects(frame, "y", ["A", "B", "C"]).table.set_index("factor")["effect"]
    pair = interactions(frame, "y", ["A", "B", "C"]).table.set_index("interaction")["effect"]
    assert effects["C"] == pytest.approx(-pair["A:B"])


def test_levels_say_which_is_low() -> None:
    frame = pd.DataFrame({"cc": ["reno", "cubic"] * 2, "rate": [10.0, 2.0, 2.0, 10.0], "y": 0.0})
    assert coded(frame, ["cc", "rate"])["cc"].to_list() == [-1, 1, -1, 1]
    assert coded(frame, ["cc", "rate"])["rate"].to_list() == [1, -1, -1, 1]
    turned = coded(frame, ["cc"], {"cc": ("cubic", "reno")})
    assert turned["cc"].to_list() == [1, -1, 1, -1]


@settings(max_examples=8)
@given(
    st.permutations(NIST_FACTORS),
    st.lists(st.floats(-100, 100), min_size=32, max_size=32).filter(lambda y: len(set(y)) > 8),
)
def test_names_and_the_order_of_runs_do_not_matter(order: list[str], values: list[float]) -> None:
    frame = nist_32().assign(y=values)
    first = main_effects(frame, "y", NIST_FACTORS).table.set_index("factor")
    renamed = frame.rename(columns=dict(zip(NIST_FACTORS, order, strict=True)))
    renamed = renamed.sample(frac=1, random_state=1)
    second = main_effects(renamed, "y", order).table.set_index("factor")
    for column in ("effect", "se", "margin"):
        assert second[column].to_numpy() == pytest.approx(first[column].to_numpy(), abs=1e-9)
    turned = dict.fromkeys(NIST_FACTORS, (1, -1))
    opposite = main_effects(frame, "y", NIST_FACTORS, levels=turned).table["effect"]
    assert opposite.to_numpy() == pytest.approx(-first["effect"].to_numpy(), abs=1e-9)


def test_readings_of_main_effects() -> None:
    """Effects as Montgomery has them; the margin of all 15 is 6.75 (half-normal plot: A, C, D)."""
    assert main_effects(filtration(), "y", list("ABCD")).reading() == (
        "A moves y most: from -1 to 1 it changes by +21.6 (+31% of the mean, p = 0.021); p < 0.05 "
        "for 1 of 4 factors; beyond Lenth's margin: A, C, D."
    )
    centred = filtration().assign(y=[-1.0, 1.0] * 8)
    assert main_effects(centred, "y", ["A"]).reading() == (
        "A moves y most: from -1 to 1 it changes by +2 (p < 0.0001); p < 0.05 for 1 of 1 factors."
    )


def test_several_responses_and_which_factors_matter_in_most() -> None:
    frame = nist_32()
    noise = np.random.default_rng(1)
    for place, (a, b) in enumerate(((6, 0), (6, -6), (6, -6), (6, 0), (0, 0))):
        frame[f"r{place}"] = a * frame["X1"] + b * frame["X3"] + 0.2 * noise.normal(size=32)
    found = main_effects(frame, [f"r{place}" for place in range(5)], NIST_FACTORS)
    assert found.signs().loc["r1", ["X1", "X3"]].to_list() == ["+**", "-**"]
    overall = found.overall()
    assert overall["significant"].to_dict()["X1"] == 4
    assert overall.index[0] == "X1"
    assert overall["sensitive"].sum() == 1
    assert found.figure(["r0", "r1"]).axes[1].get_ylabel() == "mean r1"
    cells = found.signs_figure().axes[0].texts
    assert len(cells) == 5 * 9


def test_lenth_of_the_process_development_study() -> None:
    """Box, Hunter and Hunter: effects -8, 24, -2.25, -5.5, BD 4.5, the rest at most 1.25. By hand:
    the median size is 0.75, so s0 = 1.125; eleven sizes are below 2.8125 with median 0.75, so the
    pseudo standard error is 1.125; t(.975, 5) = 2.571 (any t table)."""
    plot = effects_plot(process_development(), "y", list("ABCD"))
    effects = plot.table["effect"]
    assert len(effects) == 15
    expected = {
        "A": -8,
        "B": 24,
        "C": -2.25,
        "D": -5.5,
        "A:B": 1,
        "B:C": -1.25,
        "B:D": 4.5,
        "A:D": 0,
    }
    assert effects[list(expected)].to_dict() == pytest.approx(expected)
    assert plot.lenth.pse == pytest.approx(1.125)
    assert plot.lenth.margin == pytest.approx(2.571 * 1.125, abs=1e-3)
    verdicts = plot.table["verdict"]
    assert list(verdicts.index[verdicts == "stands out"]) == ["B", "A"]
    assert list(verdicts.index[verdicts == "may be real"]) == ["D", "B:D"]
    assert "B (+24), A (-8)" in plot.reading()


def test_simultaneous_margin_of_lenth() -> None:
    """Lenth (1989): gamma = (1 + 0.95^(1/m)) / 2; for m = 15, t(.99829, 5) = 5.219, so that the
    margins' ratio is 5.219 / 2.571 = 2.030."""
    found = lenth([1.0, -1.0, 1.0] * 5)
    assert found.simultaneous / found.margin == pytest.approx(2.030, abs=1e-3)
    assert found.df == 5
    assert lenth([0.0, 0.0, 0.0]).margin == 0
    with pytest.raises(UsageError, match="three effects"):
        lenth([1.0, 2.0])


def test_lenth_flags_planted_effects_only() -> None:
    frame = nist_32()
    noise = np.random.default_rng(11).normal(size=32)
    frame["y"] = 10 * frame["X2"] + 8 * frame["X4"] * frame["X5"] + noise
    plot = effects_plot(frame, "y", NIST_FACTORS)
    flagged = plot.table.index[plot.table["verdict"] == "stands out"]
    assert set(flagged) == {"X2", "X4:X5"}


def test_analysis_of_variance_of_the_filtration_rate() -> None:
    """Montgomery: without B the design is a 2^3 in A, C, D with two replicates; sums of squares
    1870.56, 390.06, 855.56, 1314.06, 1105.56, 5.06 and 10.56, error 179.52 with 8 degrees of
    freedom, total 5730.94; F of A 83.36 (with the error's mean square rounded to 22.44)."""
    found = anova(filtration(), "y", ["A", "C", "D"], order=3).table
    expected = {
        "A": 1870.56, "C": 390.06, "D": 855.56, "A:C": 1314.06, "A:D": 1105.56, "C:D": 5.06,
        "A:C:D": 10.56, "residual": 179.5,
    }  # fmt: skip
    assert found["sum_sq"].to_dict() == pytest.approx(expected, abs=0.005)
    assert found["sum_sq"].sum() == pytest.approx(5730.94, abs=0.005)
    assert found.loc["residual", "df"] == 8
    assert found.loc["A", "F"] == pytest.approx(83.36, abs=0.02)
    assert found.loc["A", "eta_sq"] == pytest.approx(1870.5625 / 5730.9375)
    assert found.loc["A", "omega_sq"] == pytest.approx(
        (1870.5625 - 22.4375) / (5730.9375 + 22.4375)
    )


def test_analysis_of_variance_with_blocks() -> None:
    """R, summary(aov(yield ~ block + N*P*K, npk)): block F 4.447 p .01594; N 12.259 p .00437;
    P 0.544 p .47490; K 6.166 p .02880; N:P 1.378 p .26317; N:K 2.146 p .16865; P:K 0.031 p .86275;
    residuals 12 df, mean square 15.44; N:P:K is confounded with blocks."""
    found = anova(npk(), "yield", ["N", "P", "K"], block="block", order=3)
    expected_f = [4.447, 12.259, 0.544, 6.166, 1.378, 2.146, 0.031]
    expected_p = [0.01594, 0.00437, 0.47490, 0.02880, 0.26317, 0.16865, 0.86275]
    terms = found.table.drop(index="residual")
    assert list(terms.index) == ["block", "N", "P", "K", "N:P", "N:K", "P:K"]
    assert terms["F"].to_list() == pytest.approx(expected_f, abs=5e-4)
    assert terms["p"].to_list() == pytest.approx(expected_p, abs=5e-6)
    assert found.table.loc["residual", "mean_sq"] == pytest.approx(15.44, abs=5e-3)
    assert found.aliased == ("N:P:K",)
    assert found.reading().startswith("N explains 22%")


def test_analysis_of_variance_with_three_levels() -> None:
    """R, summary(aov(breaks ~ wool * tension, warpbreaks)): wool 451, F 3.765, p .058213; tension
    2034, 2 df, F 8.498, p .000693; wool:tension 1003, F 4.189, p .021044; residuals 5745, 48 df."""
    found = anova(warpbreaks(), "breaks", ["wool", "tension"]).table
    assert found["df"].to_list() == [1, 2, 2, 48]
    assert found["F"].to_list()[:3] == pytest.approx([3.765, 8.498, 4.189], abs=5e-4)
    assert found["p"].to_list()[:3] == pytest.approx([0.058213, 0.000693, 0.021044], abs=5e-7)


def test_sums_of_squares_are_of_type_ii_where_runs_are_lost() -> None:
    """By hand: type II of A, in a model with A and B alone, is the residual sum of squares of B
    less that of A and B, here by least squares on the three remaining columns."""
    frame = filtration().drop(index=[3, 8, 9])
    found = anova(frame, "y", ["A", "B"], order=1).table
    y, one = frame["y"].to_numpy(), np.ones(len(frame))

    def left(*columns: str) -> float:
        model = np.column_stack([one, *(frame[name] for name in columns)])
        return float(np.linalg.lstsq(model, y, rcond=None)[1][0])

    assert found.loc["A", "sum_sq"] == pytest.approx(left("B") - left("A", "B"))
    assert found.loc["B", "sum_sq"] == pytest.approx(left("A") - left("A", "B"))


def test_pooled_interactions_are_the_error() -> None:
    """NIST e-Handbook 5.6.1.7 (R): with the three-factor interaction as error the residual standard
    deviation is 0.2015254, and t is 21.77, -6.09, 1.49, 0.89, 1.74 and 2.09."""
    found = anova(eddy_current(), "y", ["X1", "X2", "X3"]).table
    assert found.loc["residual", "mean_sq"] == pytest.approx(0.2015254**2, rel=1e-6)
    expected = [21.77, 6.09, 1.49, 0.89, 1.74, 2.09]
    assert np.sqrt(found["F"].to_numpy()[:6]) == pytest.approx(expected, abs=5e-3)


def test_ten_steps_of_the_eddy_current_probe() -> None:
    """NIST e-Handbook 5.6.1 (R): mean 2.65875; effects and cumulative residual standard deviations
    as below; the model y = 2.65875 + 1.55125 X1 - 0.43375 X2."""
    found = ten_steps(eddy_current(), "y", ["X1", "X2", "X3"])
    published = {
        "X1": (3.10250, 0.57272), "X2": (-0.86750, 0.30429), "X2:X3": (0.29750, 0.26737),
        "X1:X3": (0.24750, 0.23341), "X3": (0.21250, 0.19121), "X1:X2:X3": (0.14250, 0.18031),
        "X1:X2": (0.12750, np.nan),
    }  # fmt: skip
    assert list(found.table.index) == list(published)
    for name, (effect, residual) in published.items():
        row = found.table.loc[name]
        assert row.effect == pytest.approx(effect, abs=5e-6)
        assert row.residual_sd == pytest.approx(residual, abs=5e-6, nan_ok=True)
    assert found.sd == pytest.approx(1.74106, abs=5e-6)
    assert found.dominant() == ("X1", "X2")
    model = found.coefficients()
    assert [model["mean"], model["X1"], model["X2"]] == pytest.approx([2.65875, 1.55125, -0.43375])
    # Read off the handbook's block plots: in all four settings of the other factors, the response
    # is higher at + of X1, and lower at + of X2.
    assert found.blocks["blocks"].to_list() == [4, 4, 4]
    assert found.blocks["above"].to_list()[:2] == [4, 0]
    assert found.blocks["p"].to_list()[:2] == pytest.approx([2 / 16, 2 / 16])


def test_ten_figures_show_every_run_and_effect() -> None:
    found = ten_steps(eddy_current(), "y", ["X1", "X2", "X3"])
    made = found.figures()
    assert tuple(made) == STEPS
    points = {
        name: sum(len(line.get_xdata()) for line in made[name].axes[0].lines) for name in STEPS
    }
    assert points["ordered data"] == 8
    assert points["scatter"] == 3 * 8
    assert points["residual standard deviation"] == 8
    labels = [text.get_text() for text in made["sizes of effects"].axes[0].get_xticklabels()]
    assert labels == list(found.table.index)
    assert made["sizes of effects"].axes[0].get_ylabel() == "|effect| on y"
    assert [ax.get_title() for ax in made["blocks"].axes] == [
        "X1: + above - in 4 of 4",
        "X2: + above - in 0 of 4",
        "X3: + above - in 3 of 4",
    ]
    assert made["contour"].axes[0].get_xlabel() == "X1"
    assert {text.get_text() for text in made["contour"].axes[0].texts} >= {"4.58", "3.84"}
    assert found.figure(1).axes[0].get_ylabel() == "y"
    with pytest.raises(UsageError, match="step 11"):
        found.figure(11)


def test_blocks_of_a_fraction_hold_both_levels() -> None:
    """In a 2^(9-4) no combination of all other factors has both levels of one; blocks are made by
    three of the others, so of 4 runs each: 8 blocks."""
    frame = nist_32()
    frame["y"] = 3 * frame["X1"] - 2 * frame["X4"]
    found = ten_steps(frame, "y", NIST_FACTORS)
    assert found.blocks["blocks"].to_list() == [8] * 9
    assert found.blocks.loc["X1", "above"] == 8
    assert found.blocks.loc["X4", "above"] == 0


def test_interaction_figure_has_two_lines_per_pair() -> None:
    found = interactions(filtration(), "y", list("ABCD"))
    axes = [ax for ax in found.figure().axes if ax.lines]
    assert len(axes) == 6
    assert all(len(ax.lines) == 2 for ax in axes)
    # Means by hand: A:C at low A and low C are runs (1), b, d, bd: 45, 48, 43, 45.
    cell = found.cells.query(
        "first == 'A' and second == 'C' and at_first == -1 and at_second == -1"
    )
    assert cell["mean"].item() == pytest.approx(45.25)
    assert found.reading() == (
        "The largest interaction on y is A:C (-18.1; p = 0.061) among 6 pairs of factors."
    )


def test_probability_plots() -> None:
    plot = effects_plot(filtration(), "y", list("ABCD"))
    half, normal = (plot.figure(kind).axes[0] for kind in ("half-normal", "normal"))
    for ax, label in ((half, "|effect| on y"), (normal, "effect on y")):
        assert ax.get_ylabel() == label
        marked = [line for line in ax.lines if line.get_marker() == "o"]
        assert sum(len(line.get_xdata()) for line in marked) == 15
        assert {text.get_text() for text in ax.texts} == {"A", "A:C", "A:D", "D", "C"}
    # Half-normal quantile of the largest of 15: z of (1 + 29/30) / 2 = .98333, 2.128 in a z table.
    assert plot.table["half_normal"].iloc[0] == pytest.approx(2.128, abs=1e-3)


def test_runs_without_a_response_are_left_out() -> None:
    frame = filtration()
    frame.loc[[0, 1], "y"] = [np.nan, np.inf]
    row = main_effects(frame, "y", list("ABCD")).table.set_index("factor").loc["A"]
    kept = frame.iloc[2:]
    by_hand = kept[kept["A"] > 0]["y"].mean() - kept[kept["A"] < 0]["y"].mean()
    assert row.effect == pytest.approx(by_hand)
    assert (row.n_low, row.n_high, row.df) == (7, 7, 12)
    found = ten_steps(frame, "y", list("ABCD"))
    assert len(found.values) == 14
    assert len(found.table) == 15


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda f: main_effects(f, "z", ["A"]), 'column "z"'),
        (lambda f: main_effects(f, "y", ["Q"]), 'column "Q"'),
        (lambda f: main_effects(f, "y", []), "no factors"),
        (lambda f: main_effects(f, "y", ["y"]), "factor y: expected two levels, there are"),
        (lambda f: main_effects(f.assign(y="fast"), "y", ["A"]), "expected numbers"),
        (lambda f: main_effects(f, "y", ["A"], confidence=95), "confidence = 95"),
        (lambda f: main_effects(f, "y", ["A"], levels={"A": (0, 1)}), "level -1 of A"),
        (lambda f: main_effects(f.assign(y=np.nan), "y", ["A"]), "too few runs"),
        (lambda f: interactions(f, "y", ["A"]), "two factors or more"),
        (lambda f: interactions(f.assign(E=f["A"]), "y", ["A", "E"]), "have no interaction"),
        (lambda f: anova(f, "y", list("ABCD"), order=4), "16 runs leave nothing"),
        (lambda f: anova(f.assign(E=f["A"]), "y", ["A", "E"]), "E is confounded"),
        (lambda f: anova(f.assign(y=1.0), "y", ["A"]), "the same in all runs"),
        (lambda f: ten_steps(f, "y", ["A"]), "two factors or more"),
        (lambda f: ten_steps(f.assign(E=f["A"]), "y", ["A", "B", "E"]), "E has the levels of"),
        (lambda f: interactions(f, "y", list("AB")).figure("z"), 'response "z"'),
    ],
)
def test_errors_say_what_was_expected(call: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        call(filtration())  # type: ignore[operator]


def test_every_pair_is_listed_once() -> None:
    found = interactions(nist_32().assign(y=range(32)), "y", NIST_FACTORS).table["interaction"]
    assert found.to_list() == [f"{a}:{b}" for a, b in itertools.combinations(NIST_FACTORS, 2)]


def test_long_names_get_letters_with_a_key() -> None:
    short = ["X1", "X2", "X1:X2"]
    assert short_terms(short) == ({name: name for name in short}, "")
    labels, key = short_terms(["think time", "bottleneck rate", "think time:bottleneck rate"])
    assert list(labels.values()) == ["B  think time", "A  bottleneck rate", "A:B"]
    assert key.replace("\N{NO-BREAK SPACE}", " ") == "A bottleneck rate; B think time"


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dumbbell\[study\]'"):
        importlib.reload(dumbbell.analysis)
