"""The responses in a frame of runs, and their means by condition and algorithm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import check_columns, numbers


def response_values(frame: pd.DataFrame, responses: Sequence[str]) -> pd.DataFrame:
    """The responses as floats; infinite values count as missing. Raises UsageError."""
    if not responses:
        raise UsageError("expected at least one response")
    values = pd.DataFrame({name: numbers(frame, name) for name in responses}, index=frame.index)
    return values.replace([np.inf, -np.inf], np.nan)


def cell_means(
    frame: pd.DataFrame, responses: Sequence[str], *, condition: str, algorithm: str
) -> pd.DataFrame:
    """Mean of each response over the replicates of each (condition, algorithm), its index.

    Conditions and algorithms keep the order in which they appear. Raises UsageError.
    """
    check_columns(frame, [condition, algorithm])
    values = response_values(frame, responses)
    return values.groupby([frame[condition], frame[algorithm]], sort=False).mean()


def varying(values: pd.DataFrame) -> pd.DataFrame:
    """The columns without those that are constant or empty.

    What differs by less than rounding counts as constant.
    """
    spread, size = values.std(), values.abs().max()
    return values.loc[:, (spread > 1e-12 * size) & (spread > 0)]
