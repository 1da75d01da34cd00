"""What all analyses have in common: a table, a figure, a sentence; and checks of what they read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from dumbbell._errors import UsageError, show_value, suggest

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]


class Analysis(Protocol):
    """The result of any analysis in this package."""

    @property
    def table(self) -> pd.DataFrame: ...

    def figure(self) -> Figure: ...

    def reading(self) -> str:
        """What the table says, in one sentence with the numbers."""
        ...


def names(given: str | Sequence[str]) -> list[str]:
    """One name, or several, as a list."""
    return [given] if isinstance(given, str) else list(given)


def check_columns(frame: pd.DataFrame, wanted: Iterable[str]) -> None:
    """Raise UsageError for a column that the frame of runs has not."""
    for name in wanted:
        if name not in frame.columns:
            there = suggest(name, map(str, frame.columns))
            raise UsageError(f"column {show_value(name)} is not in the table of runs{there}")


def numbers(frame: pd.DataFrame, column: str) -> Floats:
    """A column as floats, NaN where nothing stands. Raises UsageError if it is not of numbers."""
    check_columns(frame, [column])
    try:
        return np.asarray(frame[column].to_numpy(dtype=float, na_value=np.nan))
    except (TypeError, ValueError):
        raise UsageError(f"column {show_value(column)}: expected numbers") from None


def check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise UsageError(f"confidence = {confidence:g}: expected a share between 0 and 1")


def p_text(p: float) -> str:
    """`p = 0.012`, or `p < 0.0001`."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def stars(p: float) -> str:
    """`**` below .01, `*` below .05, else nothing."""
    return "**" if p < 0.01 else "*" if p < 0.05 else ""
