"""Designs of experiments against printed tables: rows, resolutions, words and aliases."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumbbell._errors import UsageError
from dumbbell.studies.designs import (
    Design,
    alias,
    defining_words,
    foldover,
    fractional,
    fractional_of_resolution,
    full_factorial,
    latin_hypercube,
    one_at_a_time,
    parse_word,
    plackett_burman,
    resolution,
    signs,
    sobol,
    table,
    verify,
)


def _words(text: str) -> list[str]:
    return text.split()


# The conditions of the study of NIST SP 500-282 (2010): experiment 1, and the 32 rows that are
# printed for experiment 2.
NIST_1 = _words("""
    ------ +----+ -+---+ ++---- --+--+ +-+--- -++--- +++--+
    ---+-+ +--+-- -+-+-- ++-+-+ --++-- +-++-+ -+++-+ ++++--
    ----++ +---+- -+--+- ++--++ --+-+- +-+-++ -++-++ +++-+-
    ---++- +--+++ -+-+++ ++-++- --++++ +-+++- -++++- ++++++
""")
NIST_2 = _words("""
    -----++++ +----+--- -+----+-- ++-----++ --+----+- +-+---+-+ -++--+--+ +++--+++-
    ---+----+ +--+--++- -+-+-+-+- ++-+-++-+ --++-++-- +-++-+-++ -+++--+++ ++++-----
    ----+---- +---+-+++ -+--++-++ ++--+++-- --+-+++-+ +-+-++-+- -++-+-++- +++-+---+
    ---+++++- +--+++--+ -+-++-+-+ ++-++--+- --+++--++ +-+++-+-- -+++++--- +++++++++
""")
NIST_2_GENERATORS = {"6": "2345", "7": "1345", "8": "1245", "9": "1235"}

# NIST/SEMATECH e-Handbook of Statistical Methods, table 5.3.3.4.7: factors, generators of the last
# ones (1 is the first factor), resolution.
HANDBOOK: list[tuple[int, list[str], int]] = [
    (3, ["12"], 3),
    (4, ["123"], 4),
    (5, ["1234"], 5),
    (5, ["12", "13"], 3),
    (6, ["12345"], 6),
    (6, ["123", "234"], 4),
    (6, ["12", "13", "23"], 3),
    (7, ["123456"], 7),
    (7, ["1234", "1245"], 4),
    (7, ["123", "234", "134"], 4),
    (7, ["12", "13", "23", "123"], 3),
    (8, ["1234", "1256"], 5),
    (8, ["123", "124", "2345"], 4),
    (8, ["234", "134", "123", "124"], 4),
    (9, ["13467", "23567"], 6),
    (9, ["2345", "1345", "1245", "1235"], 4),
    (9, ["123", "234", "134", "124", "1234"], 3),
    (15, ["12", "13", "14", "23", "24", "34", "123", "124", "134", "234", "1234"], 3),
]


def rows_of(design: Design) -> list[str]:
    return ["".join("+" if value > 0 else "-" for value in row) for row in design.matrix]


def columns(count: int) -> list[str]:
    return [f"x{i + 1}" for i in range(count)]


def fraction(factors: int, words: list[str]) -> Design:
    names = columns(factors)
    generated = names[factors - len(words) :]
    return fractional(names, dict(zip(generated, words, strict=True)))


def test_experiment_1_of_the_nist_study_has_the_printed_rows() -> None:
    design = fractional("123456", {"6": "12345"})
    assert rows_of(design) == NIST_1
    assert resolution(design) == 6
    assert [str(word) for word in defining_words(design)] == ["1*2*3*4*5*6"]
    # Two-factor interactions are aliased with those of four factors only.
    assert alias(design) == []


def test_experiment_2_of_the_nist_study_has_the_printed_rows_words_and_aliases() -> None:
    """The words and chains stand in the study's description of the design."""
    design = fractional("123456789", NIST_2_GENERATORS)
    assert rows_of(design) == NIST_2
    assert resolution(design) == 4
    words = ["".join(word.columns) for word in defining_words(design)]
    assert [word for word in words if len(word) == 4] == _words("1267 1368 1469 2378 2479 3489")
    assert sorted(map(len, words)) == [4] * 6 + [5] * 8 + [8]
    chains = _words(
        "12=67 13=68 14=69 16=27=38=49 17=26 18=36 19=46 23=78 24=79 28=37 29=47 34=89 39=48"
    )
    assert ["=".join(chain).replace("*", "") for chain in alias(design)] == chains


def test_a_design_tells_its_resolution_by_its_rows_alone() -> None:
    printed = signs(list("123456789"), NIST_2)
    made = fractional("123456789", NIST_2_GENERATORS)
    assert defining_words(printed) == defining_words(made)
    assert alias(printed) == alias(made)


@pytest.mark.parametrize(("factors", "words", "expected"), HANDBOOK)
def test_standard_fractions_have_the_resolution_of_the_handbook(
    factors: int, words: list[str], expected: int
) -> None:
    design = fraction(factors, words)
    assert design.runs == 2 ** (factors - len(words))
    assert resolution(design) == expected
    assert len(defining_words(design)) == 2 ** len(words) - 1
    assert verify(design).problems == []


def test_defining_relation_of_a_quarter() -> None:
    """2^(6-2) with E = ABC, F = BCD: I = ABCE = BCDF = ADEF (Montgomery, Design and Analysis of
    Experiments, section 8.3)."""
    design = fractional("ABCDEF", {"E": "ABC", "F": "BCD"})
    assert ["".join(w.columns) for w in defining_words(design)] == ["ABCE", "ADEF", "BCDF"]
    # His table 8.8 of aliases of two-factor interactions.
    chains = ["=".join(chain).replace("*", "") for chain in alias(design)]
    assert chains == ["AB=CE", "AC=BE", "AD=EF", "AE=BC=DF", "AF=DE", "BD=CF", "BF=CD"]


def test_a_negative_generator_turns_signs() -> None:
    """2^(3-1) with C = -AB: A = -BC, B = -AC, C = -AB."""
    design = fractional("ABC", {"C": "-AB"})
    assert rows_of(design) == ["---", "+-+", "-++", "++-"]
    assert [str(word) for word in defining_words(design)] == ["-A*B*C"]
    assert alias(design) == [["A", "-B*C"], ["B", "-A*C"], ["C", "-A*B"]]


def test_a_full_factorial_stands_in_yates_order() -> None:
    """(1), a, b, ab, c, ac, bc, abc."""
    design = full_factorial({"a": 2, "b": 2, "c": 2})
    assert rows_of(design) == ["---", "+--", "-+-", "++-", "--+", "+-+", "-++", "+++"]
    assert resolution(design) is None
    assert defining_words(design) == []
    assert alias(design, 3) == []


def test_a_mixed_factorial_has_all_combinations() -> None:
    design = full_factorial({"a": 2, "b": 3})
    assert design.matrix.tolist() == [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]]
    assert verify(design).problems == []
    with pytest.raises(UsageError, match="only designs of factors at two levels"):
        resolution(design)


def test_ways_to_write_generators_agree() -> None:
    names = columns(6)
    written: list[dict[str, str] | str] = [
        {"x5": "x1*x2*x3", "x6": "x2*x3*x4"},
        {"x5": "123", "x6": "234"},
        {"x5": "ABC", "x6": "bcd"},
        "a b c d abc bcd",
    ]
    designs = [rows_of(fractional(names, generators)) for generators in written]
    assert designs == [designs[0]] * 4


def test_the_first_column_that_is_not_generated_alternates_fastest() -> None:
    """C = AB may stand before its parents."""
    assert rows_of(fractional("CAB", {"C": "AB"})) == ["+--", "-+-", "--+", "+++"]


def test_a_plackett_burman_design_is_that_of_1946() -> None:
    """12 runs: the generating row + + - + + + - - - + - of Plackett and Burman (1946), whose cyclic
    shifts and a row of one sign are the design, here with all signs and the order turned."""
    design = plackett_burman(columns(11))
    row = "++-+++---+-"
    turned = {text[::-1].translate(str.maketrans("+-", "-+")) for text in rows_of(design)}
    assert turned == {row[i:] + row[:i] for i in range(11)} | {"-" * 11}
    assert verify(design).problems == []
    assert (design.matrix.T @ design.matrix == 12 * np.eye(11)).all()
    assert resolution(design) == 3
    # Each interaction is aliased in part, by a third, with the nine factors outside it.
    for i, j in combinations(range(11), 2):
        shares = design.matrix.T @ (design.matrix[:, i] * design.matrix[:, j]) / 12
        assert sorted(abs(shares).round(12)) == [0.0, 0.0, *[round(1 / 3, 12)] * 9]


@pytest.mark.parametrize(
    ("factors", "runs"), [(3, 4), (7, 8), (10, 12), (15, 16), (19, 20), (23, 24)]
)
def test_plackett_burman_takes_the_next_multiple_of_four(factors: int, runs: int) -> None:
    design = plackett_burman(columns(factors))
    assert design.runs == runs
    assert verify(design).problems == []


def test_folding_over_lifts_resolution_iii_to_iv() -> None:
    """Montgomery, section 8.6.2: the full fold-over of the 2^(7-4)."""
    design = fraction(7, ["12", "13", "23", "123"])
    folded = foldover(design)
    assert (resolution(design), resolution(folded), folded.runs) == (3, 4, 16)
    # Of one factor: it and its interactions become free of the others.
    single = foldover(design, ["x1"])
    assert all("x1" not in word.columns for word in defining_words(single))


def test_the_smallest_fraction_of_a_resolution() -> None:
    """Runs of the e-Handbook's table 5.3.3.4.7 at each number of factors and resolution."""
    for factors, least, runs in (
        (5, 5, 16),
        (7, 3, 8),
        (7, 6, 64),
        (8, 5, 64),
        (9, 4, 32),
        (11, 5, 128),
    ):
        design = fractional_of_resolution(columns(factors), least)
        assert design.runs == runs
        found = resolution(design)
        assert found is not None
        assert found >= least
        assert verify(design).problems == []


def test_first_points_of_sobol_sequences() -> None:
    """Joe and Kuo (2008), in Gray-code order, as SciPy's documentation shows."""
    points = sobol("ab", 8, scramble=False).matrix.tolist()
    assert points[:5] == [[0, 0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75], [0.375, 0.375]]


def test_one_at_a_time_moves_one_factor() -> None:
    design = one_at_a_time({"a": 2, "b": 3})
    assert design.matrix.tolist() == [[0, 0], [1, 0], [0, 1], [0, 2]]
    assert not verify(design).balanced
    assert not verify(design).orthogonal


def test_what_does_not_hold_is_found() -> None:
    whole = rows_of(full_factorial({"a": 2, "b": 2}))
    missing = verify(signs("ab", whole[:3]))
    assert (missing.balanced, missing.orthogonal, missing.pairs) == (False, False, False)
    twice = verify(signs("ab", whole * 2))
    assert (twice.balanced, twice.orthogonal, twice.pairs, twice.distinct) == (
        True,
        True,
        True,
        False,
    )
    # Balanced, but the factors move together.
    tied = verify(table("ab", [[0, 0], [1, 1]]))
    assert (tied.balanced, tied.orthogonal, tied.pairs, tied.distinct) == (True, False, False, True)
    assert not verify(Design("x", ("a",), np.array([[0.1], [0.2]]), "unit")).balanced


@st.composite
def fractions(draw: Any) -> Design:
    base = draw(st.integers(2, 5))
    words = [w for size in range(2, base + 1) for w in combinations(range(1, base + 1), size)]
    chosen = draw(st.lists(st.sampled_from(words), unique=True, min_size=1, max_size=4))
    texts = [draw(st.sampled_from(["", "-"])) + "".join(map(str, word)) for word in chosen]
    return fraction(base + len(texts), texts)


@settings(max_examples=60)
@given(fractions())
def test_any_fraction_is_balanced_and_orthogonal(design: Design) -> None:
    """D'D = n I, each pair of signs n/4 times: by construction from different words."""
    n, k = design.matrix.shape
    assert (design.matrix.T @ design.matrix == n * np.eye(k)).all()
    assert verify(design).problems == []
    for i, j in combinations(range(k), 2):
        assert ((design.matrix[:, i] > 0) & (design.matrix[:, j] > 0)).sum() == n // 4
    for word in defining_words(design):
        places = [design.columns.index(name) for name in word.columns]
        assert (design.matrix[:, places].prod(axis=1) == word.sign).all()
    # No shorter set of columns has a constant product.
    size = resolution(design)
    assert size is not None
    for smaller in range(1, size):
        for places_ in combinations(range(k), smaller):
            assert abs(design.matrix[:, places_].prod(axis=1).sum()) < n


@settings(max_examples=40)
@given(st.integers(1, 5), st.integers(1, 64), st.integers(0, 2**32))
def test_a_latin_hypercube_has_one_point_in_each_stratum(k: int, n: int, seed: int) -> None:
    design = latin_hypercube(columns(k), n, seed)
    for column in design.matrix.T:
        assert sorted(math.floor(value * n) for value in column) == list(range(n))
    assert verify(design).balanced
    assert (design.matrix == latin_hypercube(columns(k), n, seed).matrix).all()


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from("abcde"), st.integers(2, 4), min_size=1, max_size=4))
def test_any_full_factorial_is_balanced_orthogonal_and_complete(levels: dict[str, int]) -> None:
    design = full_factorial(levels)
    assert design.runs == math.prod(levels.values())
    assert verify(design).problems == []


WRONG: list[tuple[Any, str]] = [
    (lambda: fractional("ABC", {"D": "AB"}), 'generator of "D": no such factor; there are A, B, C'),
    (lambda: fractional("ABCD", {"C": "AB", "D": "AC"}), "expected only factors that are not gen"),
    (lambda: fractional("ABC", {"C": "AQ"}), '"AQ": expected factors joined by *'),
    (lambda: fractional("ABC", {"C": "AA"}), '"AA": expected different factors'),
    (lambda: fractional("ABC", {"C": ""}), '"": expected'),
    (lambda: fractional("ABC", "a b"), 'generators "a b": expected 3 entries, one a factor'),
    (lambda: fractional("ABC", "a b ax"), "no entry is x alone"),
    (lambda: fractional("AA", {}), "each with a name of its own"),
    (lambda: fractional(columns(40), {}), "expected 1 to 1000000"),
    (lambda: fractional_of_resolution("A", 3), "resolution 3: n must be at least 2"),
    (lambda: plackett_burman(columns(91)), "there is no design for 91 factors"),
    (lambda: full_factorial({"a": 10**4, "b": 10**4}), "expected 1 to 1000000"),
    (lambda: sobol("ab", 12), "runs = 12: expected a power of two"),
    (lambda: latin_hypercube("ab", 0), "a design of 0 runs"),
    (lambda: signs("ab", ["--", "+"]), "row 2: expected 2 levels, one a factor"),
    (lambda: signs("ab", ["-0"]), 'row 1 = "-0": expected signs'),
    (lambda: foldover(full_factorial({"a": 2}), ["b"]), 'no such factor: "b"'),
    (lambda: alias(latin_hypercube("ab", 4)), "only designs of factors at two levels have one"),
    (lambda: parse_word("x1*x9", columns(3)), '"x1*x9": expected factors joined by *'),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_what_cannot_be_is_refused(call: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert message in str(caught.value)
