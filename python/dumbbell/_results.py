"""What a run gives back, in memory or in a directory.

A directory holds `result.json` (scenario, configuration as the engine read it, seed, version,
summary) and one Parquet file for each table. `result.json` is written last: where it is, the rest
is whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from dumbbell._errors import MissingExtraError, ResultError

RESULT_FILE = "result.json"
_KEYS = {"scenario", "config", "seed", "version", "backend", "flows", "links", "probes", "totals"}


class ArrowTable(Protocol):
    """A table of the Arrow PyCapsule interface: pyarrow, polars, pandas and DuckDB read it."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class _Tables(Protocol):
    """Where tables come from: the engine, or a directory."""

    def tables(self) -> list[str]: ...

    def table(self, name: str) -> ArrowTable: ...


class Result:
    """Result of a run.

    `summary` has the keys of `dumbbell run --json`: scenario, seed, version, backend, flows, links,
    probes, totals. `config` is what the engine read. Tables (`tables()`, `table(name)`) are Arrow.
    """

    def __init__(
        self,
        summary: Mapping[str, Any],
        config: Mapping[str, Any],
        tables: _Tables,
        *,
        source: Mapping[str, Any] | None = None,
    ) -> None:
        self.summary: dict[str, Any] = dict(summary)
        self.config: dict[str, Any] = dict(config)
        self.source: dict[str, Any] = dict(source or {})
        self._tables = tables

    def __repr__(self) -> str:
        flows = len(self.summary["flows"])
        title = self.summary["scenario"].get("title", "")
        return f"<Result {title!r}: {flows} flows, seed {self.summary['seed']}>"

    @property
    def complete(self) -> bool:
        """False if the run was interrupted."""
        return bool(self.summary["totals"].get("complete", True))

    def tables(self) -> list[str]:
        """Names of the tables that were recorded."""
        return self._tables.tables()

    def table(self, name: str) -> ArrowTable:
        """A table, readable through the Arrow PyCapsule interface. Raises KeyError."""
        return self._tables.table(name)

    def to_polars(self, name: str) -> Any:
        """A table as polars.DataFrame. Raises KeyError, MissingExtraError."""
        try:
            import polars
        except ImportError:
            raise MissingExtraError("to_polars", "frames") from None
        return polars.DataFrame(self.table(name))

    def to_pandas(self, name: str) -> Any:
        """A table as pandas.DataFrame. Raises KeyError, MissingExtraError."""
        return require_pyarrow("to_pandas").table(self.table(name)).to_pandas()

    def save(self, directory: str | Path) -> Path:
        """Write to a directory, made if absent. Raises ResultError, MissingExtraError."""
        pyarrow = require_pyarrow("saving a result's tables")
        from pyarrow import parquet

        directory = Path(directory)
        document = {**self.summary, "source": self.source, "config": self.config}
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / RESULT_FILE).unlink(missing_ok=True)
            for name in self.tables():
                table = pyarrow.table(self.table(name))
                parquet.write_table(table, directory / f"{name}.parquet", compression="zstd")
            text = json.dumps(document, separators=(",", ":"), allow_nan=False)
            (directory / RESULT_FILE).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise ResultError(f"{directory}: cannot be written: {_reason(error)}") from None
        return directory

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a result from its directory (or its `result.json`). Raises ResultError."""
        path = Path(path)
        file = path / RESULT_FILE if path.is_dir() else path
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ResultError(f"{file}: cannot be read: {_reason(error)}") from None
        except (ValueError, RecursionError):
            raise ResultError(f"{file}: not a result: expected a JSON object") from None
        if not isinstance(document, dict) or not document.keys() >= _KEYS:
            raise ResultError(f"{file}: not a result: expected the keys {', '.join(sorted(_KEYS))}")
        config = document.pop("config")
        source = document.pop("source", {})
        return cls(document, config, _Directory(file.parent), source=source)


def is_result(path: str | Path) -> bool:
    """Whether a path is a result: its directory, or its `result.json`."""
    path = Path(path)
    return (path / RESULT_FILE).is_file() if path.is_dir() else path.name == RESULT_FILE


class _Directory:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def tables(self) -> list[str]:
        return sorted(path.stem for path in self._directory.glob("*.parquet"))

    def table(self, name: str) -> ArrowTable:
        if name not in self.tables():
            raise KeyError(name)
        require_pyarrow("reading a result's tables")
        from pyarrow import parquet

        table: ArrowTable = parquet.read_table(self._directory / f"{name}.parquet")
        return table


def require_pyarrow(feature: str) -> Any:
    """The pyarrow package. Raises MissingExtraError, naming what needs it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(feature, "frames") from None
    return pyarrow


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
