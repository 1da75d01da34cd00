"""The finished runs of a study as one table, through DuckDB.

Opening thousands of files takes seconds, so that runs that are done are also gathered in
`runs.parquet` once there are many. A run that is done is never written otherwise, which
is why that file cannot be out of date: it only lacks what is newer, and what failed.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dumbbell._errors import UsageError
from dumbbell.studies._claims import lock
from dumbbell.studies._rows import TAIL, package

GATHERED = "runs.parquet"
_MANY = 300
"""Files that are opened each time, about half a second."""
_SQL = {"boolean": "boolean", "integer": "bigint", "number": "double", "text": "varchar"}


@contextmanager
def finished_runs(
    directory: Path, files: Sequence[Path], fields: Sequence[tuple[str, str]]
) -> Iterator[Any]:
    """A DuckDB connection whose table `runs` has the runs of the files, each called by its key.

    `fields`: name and kind of the columns that there are in any case. Raises UsageError for what
    DuckDB complains of.
    """
    duckdb = package("duckdb")
    try:
        with duckdb.connect() as connection:
            _fill(connection, directory, files, fields)
            yield connection
    except duckdb.Error as error:
        raise UsageError(" ".join(str(error).split())) from None


def _fill(
    connection: Any, directory: Path, files: Sequence[Path], fields: Sequence[tuple[str, str]]
) -> None:
    gathered = directory / GATHERED
    known: set[str] = set()
    parts = []
    if gathered.exists():
        parts.append(f"from {_parquet([gathered])}")
        known = {key for (key,) in connection.execute(f"select key {parts[0]}").fetchall()}
    loose = [file for file in files if file.stem not in known]
    if loose:
        # Failed runs have no responses: not all files have the same columns.
        parts.append(f"from {_parquet(loose)}")
    nothing = ", ".join(f"null::{_SQL[kind]} as {_quoted(name)}" for name, kind in fields)
    whole = " union all by name ".join([f"select {nothing} where false", *parts])
    last = ", ".join(TAIL)
    query = f"select * exclude ({last}), {last} from ({whole})"
    if len(loose) <= _MANY:
        connection.execute(f"create view runs as {query}")
        return
    connection.execute(f"create table runs as {query}")
    done = connection.sql("from runs where error is null")
    _gather(gathered, done.to_arrow_table())


def _gather(path: Path, table: Any) -> None:
    """Write the file for those who read next; whoever cannot write does without."""
    pyarrow, parquet = package("pyarrow"), package("pyarrow.parquet")
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    try:
        claim = lock(path.with_name(f".{path.name}.part"), path)
    except OSError:
        return
    if claim is None:
        return
    try:
        claim.write(sink.getvalue())
    except OSError:
        claim.release()


def _parquet(files: Sequence[Path]) -> str:
    names = ", ".join(_text(glob.escape(str(file))) for file in files)
    return f"read_parquet([{names}], union_by_name = true)"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
