"""Measures of fairness and harm against published and hand-worked values."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumbbell._errors import UsageError
from dumbbell.analysis.fairness import (
    epsilon,
    fairness,
    geometric_mean,
    harm,
    harms,
    jain,
    max_min_ratio,
)


def test_jains_index_of_the_ends_and_of_his_example() -> None:
    """1 for equal shares, 1/n for one that has all, k/n for k equal of n (Jain, Chiu and Hawe,
    DEC-TR-301, 1984)."""
    assert jain([1, 1, 1, 1]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([7, 7, 7, 0, 0]) == pytest.approx(3 / 5)
    # (1 + 2 + 3)^2 / (3 * 14)
    assert jain([1, 2, 3]) == pytest.approx(36 / 42)
    assert math.isnan(jain([0, 0]))


@given(st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=30), st.floats(1e-3, 1e3))
def test_jains_index_knows_no_unit(rates: list[float], unit: float) -> None:
    index = jain(rates)
    assert 1 / len(rates) - 1e-9 <= index <= 1 + 1e-9
    assert jain([unit * x for x in rates]) == pytest.approx(index)
    # 1 / (1 + squared coefficient of variation)
    variation = np.std(rates) / np.mean(rates)
    assert index == pytest.approx(1 / (1 + variation**2))


def test_measures_of_rfc_5166_by_hand() -> None:
    """Epsilon-fair: min / max >= 1 - epsilon. Product measure of 2 and 8 is 16, its root 4."""
    assert max_min_ratio([2, 8]) == 4
    assert epsilon([2, 8]) == 0.75
    assert geometric_mean([2, 8]) == pytest.approx(4)
    assert max_min_ratio([0, 1]) == math.inf
    assert geometric_mean([0, 5]) == 0
    assert epsilon([3, 3]) == 0


def test_harm_by_the_papers_definition() -> None:
    """Ware et al., HotNets 2019, section 3: a flow with 15 Mbit/s alone and 5 beside another has
    suffered (15 - 5) / 15; a delay of 20 ms that becomes 80, (80 - 20) / 80."""
    assert harm(15, 5) == pytest.approx(2 / 3)
    assert harm(20, 80, more_is_better=False) == pytest.approx(0.75)
    assert harm(10, 0) == 1
    assert harm([10, 10], [10, 12]).tolist() == pytest.approx([0, -0.2])
    assert harm(0, 0, more_is_better=False) == 0
    with pytest.raises(UsageError, match="beside"):
        harm(1, -1)


def test_an_algorithm_is_held_against_what_the_incumbent_does_to_itself() -> None:
    """Cubic halves itself (harm 0.5). One that leaves it 2 of 10 does 0.8, 0.3 more."""
    frame = pd.DataFrame(
        {
            "algorithm": ["cubic", "bbr", "bbr", "vegas"],
            "goodput": [5.0, 1.0, 3.0, 8.0],
            "delay": [40.0, 50.0, 50.0, 25.0],
        }
    )
    found = harms(
        frame, solo={"goodput": 10, "delay": 20}, incumbent="cubic", less_is_better=("delay",)
    )
    table = found.table.set_index(["algorithm", "response"])
    assert table.loc[("bbr", "goodput"), "harm"] == pytest.approx(0.8)
    assert table.loc[("bbr", "goodput"), "excess"] == pytest.approx(0.3)
    assert table.loc[("bbr", "delay"), "harm"] == pytest.approx(0.6)
    assert table.loc[("bbr", "delay"), "own harm"] == pytest.approx(0.5)
    assert table.loc[("vegas", "goodput"), "excess"] == pytest.approx(-0.3)
    assert found.reading().startswith("2 of 4 pairs")
    assert [ax.get_xlabel() for ax in found.figure().axes] == [
        "harm to cubic in goodput",
        "harm to cubic in delay",
    ]
    with pytest.raises(UsageError, match="reno"):
        harms(frame, solo={"goodput": 10}, incumbent="reno")


def test_fairness_of_each_run() -> None:
    frame = pd.DataFrame({"run": [1, 1, 2, 2], "rate": [4.0, 4.0, 1.0, 3.0]})
    table = fairness(frame, "rate", by=["run"])
    assert table["jain"].tolist() == pytest.approx([1, 16 / 20])
    assert table["max-min ratio"].tolist() == pytest.approx([1, 3])
    assert table["epsilon"].tolist() == pytest.approx([0, 2 / 3])
    assert table["flows"].tolist() == [2, 2]
    with pytest.raises(UsageError, match="not below 0"):
        jain([-1, 2])
