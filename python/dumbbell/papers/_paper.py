"""What an entry of the registry of papers is, and how its numbers are judged."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._plots_data import columns, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dumbbell._results import Result

AGREES, DIFFERS = "agrees", "differs"

STEP_MARKS = {"kind": "step", "threshold_time": "1ms"}
"""A queue that marks what waited for more than 1 ms."""


@dataclass(frozen=True)
class Published:
    """A number of the paper.

    `value` as it stands there (None where only a range does), `low` to `high` what counts as
    agreement, `tolerance` says why that range, `source` where the number stands.
    """

    what: str
    unit: str
    source: str
    value: float | None
    low: float
    high: float
    tolerance: str

    def judge(self, ours: float) -> dict[str, Any]:
        """A row of the verdict."""
        agrees = self.low <= ours <= self.high
        unit = f" {self.unit}" if self.unit else ""
        stated = f"{_written(self.value)}{unit}, " if self.value is not None else ""
        return {
            "what": self.what,
            "paper": f"{stated}{self.tolerance}",
            "ours": f"{_written(ours)}{unit}",
            "verdict": AGREES if agrees else DIFFERS,
            "source": self.source,
            "unit": self.unit,
            "published": self.value,
            "low": None if math.isinf(self.low) else self.low,
            "high": None if math.isinf(self.high) else self.high,
            "measured": ours if math.isfinite(ours) else None,
        }


def within(
    what: str, value: float, fraction: float, *, unit: str = "", source: str = ""
) -> Published:
    """A number that must be met within a fraction of it."""
    return Published(
        what, unit, source, value, value * (1 - fraction), value * (1 + fraction),
        f"±{fraction:.0%}",
    )  # fmt: skip


def factor(what: str, value: float, by: float, *, unit: str = "", source: str = "") -> Published:
    """A number that must be met within a factor."""
    return Published(
        what, unit, source, value, value / by, value * by, f"within a factor of {by:g}"
    )


def between(
    what: str, low: float = -math.inf, high: float = math.inf, *, unit: str = "", source: str = ""
) -> Published:
    """A range, of which one end may be open."""
    if math.isinf(low):
        text = f"at most {number(high)}"
    elif math.isinf(high):
        text = f"at least {number(low)}"
    else:
        text = f"{number(low)} to {number(high)}"
    return Published(what, unit, source, None, low, high, f"{text} {unit}".rstrip())


@dataclass(frozen=True)
class Outcome:
    """Verdict rows, what draws the figure when it is wanted, and further tables by title: rows with
    the same keys, values without inf and nan."""

    rows: list[dict[str, Any]]
    draw: Callable[[], Figure]
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Paper:
    """An experiment that was published.

    `setup` says in a paragraph what runs here and where it is not what the paper ran. `run(quick)`
    runs it; quick runs are shorter and keep fewer points, for tests.
    """

    name: str
    title: str
    source: str
    setup: str
    run: Callable[[bool], Outcome]


@contextmanager
def thread_pool() -> Iterator[ThreadPoolExecutor]:
    """A thread for each processor. Ctrl-C need not wait for what has not begun."""
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def series(result: Result, name: str, flow: str, *columns_: str) -> list[NDArray[Any]]:
    """Columns of one flow's time series."""
    table = columns(result, name)
    rows = table["flow"] == flow
    return [table[column][rows] for column in columns_]


def mean_cwnd(result: Result, flow: str, *, after_s: float) -> float:
    """Mean of cwnd over time, segments."""
    t, cwnd = series(result, "flow_series", flow, "t", "cwnd")
    return float(np.nanmean(cwnd[t > after_s]))


def _written(value: float) -> str:
    return f"{value:.2g}" if 0 < abs(value) < 1e-3 else number(value)
