"""Designs of experiments, and what can be told of one by looking at it.

A :class:`Design` is a matrix with a row for each run and a column for each factor. Rows of
two-level and factorial designs stand in Yates' standard order: the first column alternates fastest.
Resolution, defining words and aliases are computed from the matrix, whatever it was made by.

Needs the extra `study`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dumbbell._errors import UsageError, show_value, suggest

Coding = Literal["signs", "levels", "unit"]

_LARGEST = 1_000_000
"""Most rows of a design."""
_MOST_WORDS = 16
"""Most generators of which all words are listed: 2^16 - 1."""


@dataclass(frozen=True, eq=False)
class Design:
    """A design: `matrix` has a row for each run and a column for each of `columns`.

    `coding` says what its numbers are: "signs", -1 and +1; "levels", the index of a level from 0;
    "unit", a place from 0 up to but not including 1.
    """

    kind: str
    columns: tuple[str, ...]
    matrix: NDArray[np.float64] = field(repr=False)
    coding: Coding

    @property
    def runs(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    def index(self, levels: Mapping[str, int]) -> NDArray[np.int64]:
        """The matrix as indexes of levels, of which each factor has so many."""
        if self.coding == "signs":
            return ((self.matrix + 1) / 2).astype(np.int64)
        if self.coding == "levels":
            return self.matrix.astype(np.int64)
        counts = np.array([levels[name] for name in self.columns])
        places: NDArray[np.int64] = np.floor(self.matrix * counts).astype(np.int64)
        return places


@dataclass(frozen=True, slots=True)
class Verification:
    """What holds of a design.

    `balanced`: each column has each of its levels equally often. `orthogonal`: the columns, with
    their mean taken off, are orthogonal; of signs, D'D = n I. `pairs`: each pair of columns has
    each pair of levels equally often. `distinct`: no row comes twice. Of the unit cube, the levels
    are n strata of equal width, and `orthogonal` and `pairs` do not apply (None).
    """

    balanced: bool
    orthogonal: bool | None
    pairs: bool | None
    distinct: bool

    @property
    def problems(self) -> list[str]:
        """What does not hold, in words."""
        words = {
            "balanced": "not balanced: some level comes more often than another",
            "orthogonal": "not orthogonal: effects of the factors cannot be told apart fully",
            "pairs": "some pair of levels comes more often than another",
            "distinct": "some row comes more than once",
        }
        return [text for name, text in words.items() if getattr(self, name) is False]


@dataclass(frozen=True, slots=True)
class Word:
    """A set of columns whose product is constant: `sign` (+1 or -1) in every row."""

    columns: tuple[str, ...]
    sign: int

    def __str__(self) -> str:
        return f"{'-' if self.sign < 0 else ''}{'*'.join(self.columns)}"


def full_factorial(levels: Mapping[str, int]) -> Design:
    """All combinations; `levels` has the number of levels of each factor. Raises UsageError."""
    names, counts = _names(levels), list(levels.values())
    _few_enough(math.prod(counts))
    import pydoe

    matrix = pydoe.fullfact(np.array(counts))
    if all(count == 2 for count in counts):
        return Design("full", names, 2 * matrix - 1, "signs")
    return Design("full", names, matrix, "levels")


def fractional(columns: Sequence[str], generators: Mapping[str, str] | str) -> Design:
    """A regular two-level fraction 2^(k-p).

    `generators` has a word for each generated column, {"F": "ABCDE"}; the other columns are a full
    factorial in Yates' order. A word may begin with "-". Its factors are column names joined by
    "*", or single characters: names, else places of columns (1 to 9, or A to Z from the first on).
    As one text, "a b c d e abcde", it has an entry for each column, as in pyDOE, and its letters
    are the entries of one letter in their order. Raises UsageError.
    """
    names = _names(columns)
    if isinstance(generators, str):
        words = _entries(names, generators)
    else:
        for name in generators:
            if name not in names:
                raise UsageError(f'generator of "{name}": no such factor{suggest(name, names)}')
        base = [name for name in names if name not in generators]
        words = {name: parse_word(word, names) for name, word in generators.items()}
        for name, (_, factors) in words.items():
            for factor in factors:
                if factor not in base:
                    raise UsageError(
                        f'generator of "{name}" = {show_value(generators[name])}: expected only '
                        f'factors that are not generated themselves, not "{factor}"'
                    )
    base = [name for name in names if name not in words]
    _two_level_base(base)
    letters = {name: chr(ord("a") + i) for i, name in enumerate(base)}
    entries = [
        letters[name]
        if name in letters
        else ("-" if words[name][0] < 0 else "") + "".join(letters[f] for f in words[name][1])
        for name in names
    ]
    import pydoe

    matrix = pydoe.fracfact(" ".join(entries))
    # pydoe alternates the last column fastest.
    order = np.lexsort([matrix[:, names.index(name)] for name in base])
    return Design("fractional", names, matrix[order], "signs")


def fractional_of_resolution(columns: Sequence[str], least: int) -> Design:
    """The smallest two-level fraction of at least this resolution, in Yates' order of the columns
    that it is generated from. Raises UsageError."""
    names = _names(columns)
    import pydoe

    try:
        matrix = pydoe.fracfact_by_res(len(names), least)
    except ValueError as error:
        raise UsageError(f"resolution {least}: {error}".rstrip(".").lower()) from None
    _few_enough(len(matrix))
    order = np.lexsort(matrix.T)
    return Design("fractional", names, matrix[order], "signs")


def plackett_burman(columns: Sequence[str]) -> Design:
    """Plackett and Burman's two-level screening design (Biometrika 33, 1946) for up to n - 1
    factors in n runs, n the next multiple of 4. Raises UsageError where pydoe has none of the size.
    """
    names = _names(columns)
    import pydoe

    try:
        matrix = pydoe.pbdesign(len(names))
    except ValueError:
        raise UsageError(
            f"plackett-burman: there is no design for {len(names)} factors; "
            "add an unused factor, or use a fraction"
        ) from None
    return Design("plackett-burman", names, matrix.astype(np.float64), "signs")


def latin_hypercube(columns: Sequence[str], runs: int, seed: int = 1) -> Design:
    """A Latin hypercube: each of `runs` strata of each column has one point, at random in it
    (McKay, Beckman and Conover, Technometrics 21, 1979). Raises UsageError."""
    names = _names(columns)
    _few_enough(runs)
    from scipy.stats import qmc

    sampler = qmc.LatinHypercube(d=len(names), rng=seed)
    return Design("latin-hypercube", names, sampler.random(runs), "unit")


def sobol(
    columns: Sequence[str], runs: int, seed: int | None = None, *, scramble: bool = True
) -> Design:
    """The first `runs` points, a power of two, of a Sobol' sequence, with Owen's scrambling by
    `seed`, or as it is. Raises UsageError."""
    names = _names(columns)
    if runs < 1 or runs & (runs - 1):
        raise UsageError(f"runs = {runs}: expected a power of two for a Sobol' sequence")
    _few_enough(runs)
    from scipy.stats import qmc

    sampler = qmc.Sobol(d=len(names), scramble=scramble, rng=seed)
    return Design("sobol", names, sampler.random_base2(runs.bit_length() - 1), "unit")


def one_at_a_time(levels: Mapping[str, int]) -> Design:
    """The first level of all factors, then each other level of each factor alone."""
    names = _names(levels)
    rows = [[0] * len(names)]
    for place, count in enumerate(levels.values()):
        for level in range(1, count):
            rows.append([level if i == place else 0 for i in range(len(names))])
    return Design("one-at-a-time", names, np.array(rows, dtype=np.float64), "levels")


def table(columns: Sequence[str], rows: Sequence[Sequence[int]]) -> Design:
    """A list of runs as written: for each, the index of each factor's level. Raises UsageError."""
    names = _names(columns)
    _check_rows(names, rows)
    return Design("table", names, np.array(rows, dtype=np.float64), "levels")


def signs(columns: Sequence[str], rows: Sequence[str]) -> Design:
    """A list of runs as written, such as "-+-+": a sign for each factor. Raises UsageError."""
    names = _names(columns)
    _check_rows(names, rows)
    for i, row in enumerate(rows):
        if not set(row) <= {"-", "+"}:
            raise UsageError(f"row {i + 1} = {show_value(row)}: expected signs, such as -+-")
    matrix = np.array([[1.0 if sign == "+" else -1.0 for sign in row] for row in rows])
    return Design("table", names, matrix, "signs")


def foldover(design: Design, columns: Sequence[str] | None = None) -> Design:
    """The runs and those with all signs, or only those of `columns`, turned. All: words of odd
    length go, and resolution III becomes IV. Raises UsageError."""
    _signs_only(design, "foldover")
    for name in columns or ():
        if name not in design.columns:
            raise UsageError(f'foldover: no such factor: "{name}"{suggest(name, design.columns)}')
    places = [i for i, name in enumerate(design.columns) if columns is None or name in columns]
    import pydoe

    return replace(design, matrix=pydoe.fold(design.matrix, np.array(places)))


def verify(design: Design) -> Verification:
    """Check balance, orthogonality, pairs of levels and distinct rows, from the matrix alone."""
    matrix, n = design.matrix, design.runs
    distinct = len(np.unique(matrix, axis=0)) == n
    if design.coding == "unit":
        strata = np.sort(np.floor(matrix * n), axis=0)
        return Verification(bool((strata == np.arange(n)[:, None]).all()), None, None, distinct)
    balanced = all(_even(np.unique(column, return_counts=True)[1]) for column in matrix.T)
    centred = matrix if design.coding == "signs" else matrix - matrix.mean(axis=0)
    products = centred.T @ centred
    off = products - np.diag(np.diag(products))
    return Verification(
        balanced=balanced,
        orthogonal=bool(np.allclose(off, 0, atol=1e-9 * n)),
        pairs=all(_pairs_even(a, b) for a, b in combinations(matrix.T, 2)),
        distinct=distinct,
    )


def defining_words(design: Design) -> list[Word]:
    """All sets of columns whose product is constant, shorter ones first, found by elimination over
    GF(2). Raises UsageError for designs without signs and with more than 16 generators."""
    relations = _relations(design)
    if len(relations) > _MOST_WORDS:
        raise UsageError(f"2^{len(relations)} - 1 defining words are too many to list")
    group = [(0, 0)]
    for columns, sign in relations:
        group += [(columns ^ other, sign ^ other_sign) for other, other_sign in group]
    words = [
        (tuple(i for i in range(len(design.columns)) if columns >> i & 1), sign)
        for columns, sign in group
        if columns
    ]
    words.sort(key=lambda word: (len(word[0]), word[0]))
    return [Word(tuple(design.columns[i] for i in w), -1 if sign else 1) for w, sign in words]


def resolution(design: Design) -> int | None:
    """Length of the shortest word; of a design that is not regular, the size of the smallest set of
    columns whose product does not sum to zero (the whole part of Deng and Tang's generalised
    resolution, Statistica Sinica 9, 1999). None: no effects are aliased. Raises UsageError for
    designs without signs.
    """
    relations = _relations(design)
    k = len(design.columns)
    regular = len(np.unique(design.matrix, axis=0)) == 2 ** (k - len(relations))
    if regular and len(relations) <= _MOST_WORDS:
        return min((len(word.columns) for word in defining_words(design)), default=None)
    for size in range(1, k + 1):
        for columns in combinations(range(k), size):
            if abs(design.matrix[:, columns].prod(axis=1).sum()) > 0.5:
                return size
    return None


def alias(design: Design, order: int = 2) -> list[list[str]]:
    """Chains of effects of up to `order` factors that cannot be told apart: their columns are the
    same, or opposite ("-"). Effects are written "A*B"; each chain begins with its first.
    Raises UsageError for designs without signs."""
    vectors, ones = _vectors(design)
    chains: dict[int, list[tuple[tuple[int, ...], int]]] = {}
    for size in range(1, order + 1):
        for columns in combinations(range(len(vectors)), size):
            vector = 0
            for i in columns:
                vector ^= vectors[i]
            flipped = vector ^ ones
            key, sign = (vector, 1) if vector < flipped else (flipped, -1)
            chains.setdefault(key, []).append((columns, sign))
    return [
        [
            f"{'-' if sign != chain[0][1] else ''}{'*'.join(design.columns[i] for i in columns)}"
            for columns, sign in chain
        ]
        for chain in chains.values()
        if len(chain) > 1
    ]


def parse_word(word: str, columns: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """Sign and factors of a word such as "-ABC", "2345" or "x1*x2". Raises UsageError."""
    text = word.strip()
    sign = -1 if text.startswith("-") else 1
    text = text.lstrip("+-").strip()
    if "*" in text or text in columns:
        parts = [part.strip() for part in text.split("*")]
    elif all(c in columns for c in text):
        parts = list(text)
    else:
        places = [ord(c) - ord("1") if c.isdigit() else ord(c.upper()) - ord("A") for c in text]
        inside = all(c.isascii() and c.isalnum() for c in text)
        inside = inside and all(0 <= p < len(columns) for p in places)
        parts = [columns[p] for p in places] if inside else [text]
    for part in parts:
        if part not in columns:
            raise UsageError(
                f"{show_value(word)}: expected factors joined by *, or their letters, such as "
                f'"{"*".join(columns[:2])}"{suggest(part, columns)}'
            )
    if not text or len(set(parts)) < len(parts):
        raise UsageError(f"{show_value(word)}: expected different factors")
    return sign, tuple(parts)


def _entries(names: Sequence[str], text: str) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Words of the generated columns of pyDOE's notation."""
    entries = text.split()
    if len(entries) != len(names):
        raise UsageError(
            f"generators {show_value(text)}: expected {len(names)} entries, one a factor"
        )
    base = {
        entry.lower(): name
        for entry, name in zip(entries, names, strict=True)
        if len(entry.lstrip("+-")) == 1
    }
    words = {}
    for entry, name in zip(entries, names, strict=True):
        letters = entry.lower().lstrip("+-")
        if len(letters) == 1:
            continue
        for letter in letters:
            if letter not in base:
                raise UsageError(f"generators {show_value(text)}: no entry is {letter} alone")
        if len(set(letters)) < len(letters):
            raise UsageError(f'generators: "{entry}": expected different factors')
        words[name] = (-1 if entry.startswith("-") else 1, tuple(base[c] for c in letters))
    return words


def _names(columns: Sequence[str] | Mapping[str, Any]) -> tuple[str, ...]:
    names = tuple(columns)
    if not names or len(set(names)) < len(names):
        raise UsageError("a design needs at least one factor, each with a name of its own")
    return names


def _few_enough(runs: int) -> None:
    if not 1 <= runs <= _LARGEST:
        raise UsageError(f"a design of {runs} runs: expected 1 to {_LARGEST}")


def _check_rows(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    _few_enough(len(rows))
    for i, row in enumerate(rows):
        if len(row) != len(names):
            raise UsageError(f"row {i + 1}: expected {len(names)} levels, one a factor")


def _two_level_base(base: Sequence[str]) -> None:
    if not base:
        raise UsageError("generators: expected at least one factor that is not generated")
    _few_enough(2 ** len(base))


def _even(counts: NDArray[np.int64]) -> bool:
    return bool((counts == counts[0]).all())


def _pairs_even(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    (levels, one), (others, other) = (np.unique(x, return_inverse=True) for x in (a, b))
    counts = np.bincount(one * len(others) + other, minlength=len(levels) * len(others))
    return _even(counts)


def _signs_only(design: Design, what: str) -> None:
    if design.coding != "signs":
        raise UsageError(f"{what}: only designs of factors at two levels have one")


def _vectors(design: Design) -> tuple[list[int], int]:
    """Columns as sets of bits, one a row, set where the sign is minus; and the set of all rows."""
    _signs_only(design, "aliases")
    packed = np.packbits(design.matrix < 0, axis=0, bitorder="little")
    vectors = [int.from_bytes(column.tobytes(), "little") for column in packed.T]
    return vectors, (1 << design.runs) - 1


def _relations(design: Design) -> list[tuple[int, int]]:
    """Independent words: bits of the columns, and 1 where their product is -1."""
    vectors, ones = _vectors(design)
    basis: dict[int, tuple[int, int, int]] = {ones.bit_length(): (ones, 0, 1)}
    relations = []
    for i, column in enumerate(vectors):
        vector, columns, sign = column, 1 << i, 0
        while vector and (found := basis.get(vector.bit_length())):
            vector, columns, sign = vector ^ found[0], columns ^ found[1], sign ^ found[2]
        if vector:
            basis[vector.bit_length()] = (vector, columns, sign)
        else:
            relations.append((columns, sign))
    return relations
