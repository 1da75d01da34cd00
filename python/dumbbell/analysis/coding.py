"""Two-level factors as -1 and +1, and the contrasts and aliases of a design."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import Floats, check_columns

Levels = Mapping[str, tuple[Any, Any]]
Signs = NDArray[np.int8]
# Interactions of every order are looked at for so many factors; of more, those of up to five.
_FEW_FACTORS = 10
_MOST_TOGETHER = 5


def factor_levels(frame: pd.DataFrame, factor: str, levels: Levels | None = None) -> list[Any]:
    """The low and the high level of a factor: as `levels` says, else numbers by size and anything
    else by which is met first. Raises UsageError if there are not exactly two.
    """
    check_columns(frame, [factor])
    met = list(frame[factor].unique())
    if levels is not None and factor in levels:
        given = list(levels[factor])
        if len(given) != 2 or given[0] == given[1]:
            raise UsageError(f"levels of {factor}: expected two, the low one first")
        for level in met:
            if level not in given:
                raise UsageError(f"level {level} of {factor}: expected one of {given}")
        return given
    if len(met) != 2:
        raise UsageError(f"factor {factor}: expected two levels, there are {len(met)}")
    return sorted(met) if pd.api.types.is_numeric_dtype(frame[factor]) else met


def coded(
    frame: pd.DataFrame, factors: Sequence[str], levels: Levels | None = None
) -> pd.DataFrame:
    """The factors of each run as -1 (low) and +1 (high), with the index of `frame`.

    `levels` maps a factor to its (low, high). Without it the smaller number is low; of levels that
    are not numbers, the first in the table. Raises UsageError for a factor that has not two levels.
    """
    if not factors:
        raise UsageError("no factors: expected the names of the columns that were varied")
    signs = {}
    for factor in factors:
        _, high = factor_levels(frame, factor, levels)
        signs[factor] = np.where(frame[factor] == high, 1, -1).astype(np.int8)
    return pd.DataFrame(signs, index=frame.index)


def product(signs: pd.DataFrame, factors: Sequence[str]) -> Signs:
    """The column of an interaction: the product of its factors' columns."""
    return np.asarray(signs[list(factors)].to_numpy().prod(axis=1), dtype=np.int8)


def difference(values: Floats, column: Signs) -> float:
    """An effect: the mean of `values` where the column is + less the mean where it is -; NaN if one
    of them has no values."""
    high, low = values[column > 0], values[column < 0]
    return float(high.mean() - low.mean()) if len(high) and len(low) else np.nan


@dataclass(frozen=True)
class Contrast:
    """A column of signs and all effects that it estimates together.

    `factors` is the shortest of them; `aliases` are the others, with a leading `-` where the
    column is the opposite one.
    """

    factors: tuple[str, ...]
    column: Signs
    aliases: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return ":".join(self.factors)


def contrasts(signs: pd.DataFrame, *, order: int | None = None) -> list[Contrast]:
    """The orthogonal contrasts of a design, those of fewest factors first.

    `signs` is a `coded` frame. Interactions of up to `order` factors are looked at (all by default,
    until every degree of freedom between the design's points is used). Interactions whose columns
    are the same or opposite are one contrast with aliases. A column that is neither the same as nor
    orthogonal to the mean and the earlier ones, as in Plackett-Burman designs, is left out.
    """
    points = signs.drop_duplicates()
    matrix = {factor: points[factor].to_numpy() for factor in points.columns}
    enough = len(points) - 1 if order is None else math.inf
    kept: dict[bytes, tuple[tuple[str, ...], int]] = {}
    aliases: dict[bytes, list[str]] = {}
    columns: list[Signs] = []
    longest = 1
    for factors in _words(list(signs.columns), order):
        # Aliases are worth naming up to the order at which the contrasts are complete.
        if len(kept) >= enough and len(factors) > longest:
            break
        column = matrix[factors[0]]
        for factor in factors[1:]:
            column = column * matrix[factor]
        sign = int(column[0])
        key = (column * sign).astype(np.int8).tobytes()
        if key in kept:
            opposite = "" if kept[key][1] == sign else "-"
            aliases[key].append(opposite + ":".join(factors))
        elif len(factors) == 1 or _orthogonal(column, columns):
            kept[key] = factors, sign
            aliases[key] = []
            columns.append(column)
            longest = len(factors)
    return [
        Contrast(factors, product(signs, factors), tuple(aliases[key]))
        for key, (factors, _) in kept.items()
    ]


def two_factor_aliases(signs: pd.DataFrame) -> dict[tuple[str, str], tuple[str, ...]]:
    """For each interaction of two factors, the main effects and other two-factor interactions that
    the same or the opposite (`-`) column estimates."""
    columns = {
        word: product(signs, word)
        for word in _words(list(signs.columns), min(2, len(signs.columns)))
    }
    groups: dict[bytes, list[tuple[tuple[str, ...], int]]] = {}
    for word, column in columns.items():
        sign = int(column[0])
        groups.setdefault((column * sign).astype(np.int8).tobytes(), []).append((word, sign))
    found = {}
    for group in groups.values():
        for word, sign in group:
            if len(word) == 2:
                found[word[0], word[1]] = tuple(
                    ("" if other_sign == sign else "-") + ":".join(other)
                    for other, other_sign in group
                    if other != word
                )
    return {(a, b): found[a, b] for a, b in itertools.combinations(signs.columns, 2)}


def _words(factors: list[str], order: int | None) -> Iterator[tuple[str, ...]]:
    if order is None:
        order = len(factors) if len(factors) <= _FEW_FACTORS else _MOST_TOGETHER
    longest = min(len(factors), order)
    for length in range(1, longest + 1):
        yield from itertools.combinations(factors, length)


def _orthogonal(column: Signs, others: list[Signs]) -> bool:
    if column.sum() != 0:
        return False
    return not others or not np.any(np.array(others, dtype=int) @ column.astype(int))
