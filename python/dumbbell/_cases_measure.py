"""What a case's measures say of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dumbbell._cases_model import Measure, Range
from dumbbell._plots_data import Columns, columns
from dumbbell._results import Result
from dumbbell._scenario import split_key

_Values = NDArray[np.float64]

_STATISTICS: dict[str, Callable[[_Values], Any]] = {
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "sum": np.sum,
    "first": lambda v: v[0],
    "last": lambda v: v[-1],
    "std": np.std,
    "p01": lambda v: np.percentile(v, 1),
    "p05": lambda v: np.percentile(v, 5),
    "p50": lambda v: np.percentile(v, 50),
    "p95": lambda v: np.percentile(v, 95),
    "p99": lambda v: np.percentile(v, 99),
    "min_step": lambda v: np.min(np.diff(v)),
    "mean_step": lambda v: (v[-1] - v[0]) / (len(v) - 1),
    "max_step": lambda v: np.max(np.diff(v)),
    "p05_step": lambda v: np.percentile(np.diff(v), 5),
    "p50_step": lambda v: np.percentile(np.diff(v), 50),
    "p95_step": lambda v: np.percentile(np.diff(v), 95),
    "min_ratio": lambda v: np.min(v[1:] / v[:-1]),
    "max_ratio": lambda v: np.max(v[1:] / v[:-1]),
    "min_step_ratio": lambda v: np.min(np.diff(v)[1:] / np.diff(v)[:-1]),
    "max_step_ratio": lambda v: np.max(np.diff(v)[1:] / np.diff(v)[:-1]),
}
# Rows that a statistic needs; the others need one.
_FEWEST = {
    name: 3 if name.endswith("step_ratio") else 2
    for name in _STATISTICS
    if name.endswith(("_step", "_ratio"))
}

_TIME_COLUMNS = (("t", 1.0), ("t_ns", 1e-9), ("start_s", 1.0))


class Runs:
    """Results of one seed by variant, each table read once."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._results = results
        self._tables: dict[tuple[str, str], Columns] = {}

    def measure(self, measure: Measure, variant: str) -> float:
        """The number, NaN where the run recorded nothing to measure. Raises ValueError."""
        source = measure.variant or variant
        if measure.value is not None:
            number = measure.value
        elif measure.summary is not None:
            found = self.read(measure.summary, source)
            number = float("nan") if found is None else _number(found, measure.summary)
        else:
            number = self._statistic(measure, source)
        number *= measure.scale
        if measure.minus is not None:
            number -= self.measure(measure.minus, variant)
        if measure.over is not None:
            divisor = self.measure(measure.over, variant)
            number = number / divisor if divisor else float("nan")
        return number

    def read(self, key: str, variant: str) -> Any:
        """What stands at a key of the summary. Raises ValueError."""
        return _descend(self._results[variant].summary, split_key(key), key)

    def _table(self, variant: str, name: str) -> Columns:
        key = (variant, name)
        if key not in self._tables:
            self._tables[key] = columns(self._results[variant], name)
        return self._tables[key]

    def _in_phase(self, table: Columns, measure: Measure, variant: str) -> NDArray[np.bool_]:
        flows = self._table(variant, "flow_series")
        if "t" not in table:
            raise ValueError(f"table {measure.table} is no time series")
        chosen = (flows["flow"] == measure.where["flow"]) & (flows["phase"] == measure.phase)
        return np.isin(table["t"], flows["t"][chosen])

    def _statistic(self, measure: Measure, variant: str) -> float:
        assert measure.table is not None
        assert measure.column is not None
        assert measure.statistic is not None
        table = self._table(variant, measure.table)
        if not table:
            # An empty table is one that the run had nothing for.
            return 0.0 if measure.statistic == "count" else float("nan")
        for name in (measure.column, *measure.where):
            if name not in table:
                known = ", ".join(table)
                raise ValueError(f'table {measure.table} has no column "{name}"; it has {known}')
        values = table[measure.column]
        keep = np.ones(len(values), dtype=bool)
        for name, wanted in measure.where.items():
            keep &= _matches(table[name], wanted)
        if measure.phase is not None:
            keep &= self._in_phase(table, measure, variant)
        keep &= _in_window(table, measure)
        if measure.statistic == "count":
            return float(np.count_nonzero(keep))
        chosen = values[keep].astype(np.float64)
        chosen = chosen[~np.isnan(chosen)]
        if len(chosen) < _FEWEST.get(measure.statistic, 1):
            return float("nan")
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(_STATISTICS[measure.statistic](chosen))


def _matches(values: NDArray[Any], wanted: str | float | Range) -> NDArray[np.bool_]:
    if isinstance(wanted, Range):
        keep = np.ones(len(values), dtype=bool)
        if wanted.at_least is not None:
            keep &= values >= wanted.at_least
        if wanted.at_most is not None:
            keep &= values <= wanted.at_most
        return keep
    return np.asarray(values == wanted, dtype=bool)


def _in_window(table: Columns, measure: Measure) -> NDArray[np.bool_]:
    times = next((table[name] * unit for name, unit in _TIME_COLUMNS if name in table), None)
    if times is None:
        if measure.from_ or measure.to is not None:
            raise ValueError(f"table {measure.table} has no times")
        return np.True_ * np.ones(len(next(iter(table.values()))), dtype=bool)
    # Series carry the end of their interval: half a nanosecond keeps sums of floats out of it.
    keep = times >= measure.from_ / 1e9 - 5e-10
    if measure.to is not None:
        keep &= times < measure.to / 1e9 - 5e-10
    return np.asarray(keep, dtype=bool)


_ABSENT = object()


def _descend(node: Any, parts: Sequence[str | int], key: str) -> Any:
    for place, part in enumerate(parts):
        if isinstance(node, list) and part == "*":
            rest = parts[place + 1 :]
            return sum(_number(_descend(item, rest, key), key) for item in node)
        if isinstance(node, list) and isinstance(part, str):
            node = next((item for item in node if item.get("id") == part), _ABSENT)
        elif (isinstance(node, Mapping) and part in node) or (
            isinstance(node, list) and isinstance(part, int) and part < len(node)
        ):
            node = cast(Any, node)[part]
        else:
            node = _ABSENT
        if node is _ABSENT:
            raise ValueError(f'the summary has no "{key}" (at "{part}")')
    return node


def _number(value: Any, key: str) -> float:
    if not isinstance(value, int | float):
        raise ValueError(f'"{key}" of the summary is no number')
    return float(value)
