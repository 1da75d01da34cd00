"""The rows of a study's table, and a run as the Parquet file that has its rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

from dumbbell._errors import MissingExtraError, UsageError, show_value
from dumbbell.studies._contract import Outcome, Run

_HEAD = {
    "key": "text",
    "index": "integer",
    "replicate": "integer",
    "seed": "integer",
    "block": "integer",
}
TAIL = {"error": "text", "seconds": "number", "version": "text"}
"""Columns that come after the responses, which are not the same in all files."""
RESERVED = (*_HEAD, *TAIL)
"""Columns of every run; factors and responses have other names."""


@dataclass(frozen=True, slots=True)
class Column:
    """How a factor is stored. `kind` is boolean, integer, number or text; text has its levels in
    the order of the plan."""

    name: str
    kind: str
    levels: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, values: Sequence[Any]) -> Self:
        """The narrowest kind that holds all levels as they are written."""
        kinds = {type(value) for value in values}
        if kinds == {bool}:
            return cls(name, "boolean")
        if kinds == {int}:
            return cls(name, "integer")
        if kinds <= {int, float}:
            return cls(name, "number")
        return cls(name, "text", tuple(dict.fromkeys(map(level_text, values))))

    def stored(self, value: Any) -> Any:
        """The value as it stands in the table."""
        return level_text(value) if self.kind == "text" else value


def level_text(value: Any) -> str:
    """A level as text: itself if it is text, JSON otherwise."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def fields(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """Name and kind of what every run has."""
    return [*_HEAD.items(), *((c.name, c.kind) for c in columns), *TAIL.items()]


def encode(columns: Sequence[Column], version: str, runs: Sequence[Run], outcome: Outcome) -> bytes:
    """One Parquet file: a row for each place of a run in the plan. Raises UsageError."""
    pyarrow, parquet = package("pyarrow"), package("pyarrow.parquet")
    common = fields(columns)
    taken = {name.casefold() for name, _ in common}
    for name in outcome.responses:
        if name.casefold() in taken:
            raise UsageError(f"response {show_value(name)}: a column of the study is called so")
    kinds = {
        "boolean": pyarrow.bool_(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "text": pyarrow.string(),
    }
    # SQL leaves out null from means, but not NaN.
    responses = {k: None if v != v else float(v) for k, v in outcome.responses.items()}
    last = {"error": outcome.error, "seconds": outcome.seconds, "version": version}
    rows = [
        {name: getattr(run, name) for name in _HEAD}
        | {column.name: column.stored(run.factors[column.name]) for column in columns}
        | responses
        | last
        for run in runs
    ]
    schema = [(name, kinds[kind]) for name, kind in common]
    schema += [(name, pyarrow.float64()) for name in responses]
    table = pyarrow.Table.from_pylist(rows, pyarrow.schema(schema))
    sink = pyarrow.BufferOutputStream()
    # Statistics, dictionaries and Arrow's own schema would be most of so small a file.
    parquet.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def package(name: str) -> Any:
    """An optional package. Raises MissingExtraError."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError("a study's directory", "study") from None
