"""What figures and exports take from a result: columns as numpy arrays, names, decimation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dumbbell._errors import MissingExtraError

Columns = dict[str, NDArray[Any]]


@runtime_checkable
class ArrowStream(Protocol):
    """Anything that hands out an Arrow C stream (PyCapsule interface)."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ResultLike(Protocol):
    """The part of a result that is read here.

    `table` raises KeyError where the run recorded no such table.
    """

    @property
    def summary(self) -> Mapping[str, Any]: ...

    def table(self, name: str) -> ArrowStream: ...


def arrow_table(result: ResultLike, name: str) -> Any:
    """Return a table as a `pyarrow.Table`, or None if the run recorded none or an empty one."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("reading a result's tables", "plots") from None

    try:
        stream = result.table(name)
    except KeyError:
        return None
    table = pa.table(stream)
    return table if table.num_rows else None


def columns(result: ResultLike, name: str) -> Columns:
    """Return a table's columns: numbers as they are, names as object arrays. Empty if there is no
    table.
    """
    table = arrow_table(result, name)
    if table is None:
        return {}
    return {
        field: table.column(field).combine_chunks().to_numpy(zero_copy_only=False)
        for field in table.column_names
    }


def by_name(
    table: Columns, key: str, order: list[str] | None = None
) -> Iterator[tuple[str, Columns]]:
    """Split a table by the names in column `key`; in `order` first, then as they appear."""
    if not table:
        return
    names, first, codes = np.unique(table[key].astype(str), return_index=True, return_inverse=True)
    appearance = [str(name) for name in names[np.argsort(first)]]
    rank = {name: place for place, name in enumerate(order or [])}
    appearance.sort(key=lambda name: rank.get(name, len(rank)))
    index = {str(name): code for code, name in enumerate(names)}
    for name in appearance:
        rows = np.flatnonzero(codes == index[name])
        yield name, {column: values[rows] for column, values in table.items() if column != key}


def decimate(x: NDArray[Any], y: NDArray[Any], pixels: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Keep, of an ascending `x`, the lowest and the highest `y` of each of `pixels` columns.

    A line through what is kept covers the same pixels as the whole. A column with no finite value
    keeps one NaN, so that gaps stay gaps. Short series come back whole.
    """
    if x.size <= 4 * pixels:
        return x, y
    span = float(x[-1] - x[0]) or 1.0
    column = np.minimum(((x - x[0]) * (pixels / span)).astype(np.int64), pixels - 1)
    finite = np.flatnonzero(np.isfinite(y))
    order = finite[np.lexsort((y[finite], column[finite]))]
    edges = np.flatnonzero(np.diff(column[order], prepend=-1, append=pixels))
    lowest, highest = order[edges[:-1]], order[edges[1:] - 1]
    gaps = np.flatnonzero(np.diff(column, prepend=-1))
    gaps = gaps[~np.isin(column[gaps], column[finite])]
    keep = np.unique(np.concatenate((lowest, highest, gaps, [0, x.size - 1])))
    return x[keep], y[keep]


def flow_labels(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return "id (cc)" for each flow id, or just the id where it already names the controller."""
    labels = {}
    for flow in summary.get("flows", []):
        name, cc = str(flow["id"]), str(flow.get("cc") or "")
        labels[name] = f"{name} ({cc})" if cc and cc not in name else name
    return labels


def number(value: Any, digits: int = 3) -> str:
    """Write a number with `digits` significant digits and no exponent below a million; "-" for
    none.
    """
    if value is None or isinstance(value, str) or not np.isfinite(value):
        return str(value) if isinstance(value, str) else "-"
    if value == 0:
        return "0"
    # Rounded first: 99.97 has three digits as 100, not as 100.0.
    rounded = abs(float(f"{value:.{digits - 1}e}"))
    places = max(0, digits - 1 - int(np.floor(np.log10(rounded))))
    return f"{value:,.{places}f}".replace(",", "\u2009")
