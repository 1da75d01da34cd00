"""Where a study's runs are kept: a directory that survives whatever ends the writers.

    study.toml          a copy of the study file
    study.json          the plan: where the file was, version, key of each run, factors, responses
    runs/KEY.parquet    a finished run, one row for each place it has in the plan
    runs/.KEY.part      a run that is being done

A run is claimed by an exclusive flock on its `.part` file; the finished run is written into that
file, synced, and renamed. Renaming ends the claim and publishes the run in one step, and the
kernel drops the locks of a process that dies: a `.part` file that nobody holds locked is free to be
claimed again, whatever is in it.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from dumbbell._errors import MissingExtraError, UsageError, show_value
from dumbbell.studies._contract import Outcome, Run

STUDY_FILE = "study.toml"
PLAN_FILE = "study.json"
RUNS = "runs"

_HEAD = {
    "key": "text",
    "index": "integer",
    "replicate": "integer",
    "seed": "integer",
    "block": "integer",
}
_TAIL = {"error": "text", "seconds": "number", "version": "text"}
RESERVED = (*_HEAD, *_TAIL)
"""Columns of every run; factors and responses have other names."""

_ALL = 'from runs order by "index"'
_SQL = {"boolean": "boolean", "integer": "bigint", "number": "double", "text": "varchar"}

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


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


class Claim:
    """The right to do one run, held until it is written, released, or the process ends."""

    def __init__(self, part: Path, final: Path, fd: int) -> None:
        self._part = part
        self._final = final
        self._fd = fd

    def write(self, data: bytes) -> None:
        """Publish the run and give up the claim. Raises OSError; the claim is then still held."""
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        os.fsync(self._fd)
        self._part.rename(self._final)
        os.close(self._fd)

    def release(self) -> None:
        """Let others do the run."""
        with suppress(OSError):
            self._part.unlink()
        os.close(self._fd)


class Store:
    """The directory of a study."""

    def __init__(self, directory: Path, plan: dict[str, Any]) -> None:
        self.directory = directory
        self._plan = plan
        self.version: str = plan["version"]
        self.source = Path(plan["file"])
        """The study file where it was, which its own paths are relative to."""
        self.keys: list[str] = plan["keys"]
        """Key of each run in the order of the plan; equal runs have equal keys."""
        self.columns = [Column(c["name"], c["kind"], tuple(c["levels"])) for c in plan["factors"]]
        self._runs = directory / RUNS

    @classmethod
    def create(
        cls, directory: str | Path, study: str | Path, runs: Sequence[Run], responses: Any = None
    ) -> Self:
        """The store of a study in a directory, made if absent.

        `study` is its file, `responses` what is measured, in a form that JSON can hold. Raises
        UsageError if the directory cannot be written or holds another study.
        """
        # Nobody shall do a run first and then hear that it cannot be kept.
        _package("pyarrow.parquet")
        directory, study = Path(directory), Path(study).absolute()
        plan = _plan(study, runs, responses)
        if not (directory / PLAN_FILE).exists():
            try:
                (directory / RUNS).mkdir(parents=True, exist_ok=True)
                claim = _lock(directory / f".{PLAN_FILE}.part", directory / PLAN_FILE, wait=True)
                assert claim is not None
                if (directory / PLAN_FILE).exists():
                    claim.release()
                else:
                    (directory / STUDY_FILE).write_bytes(study.read_bytes())
                    claim.write(json.dumps(plan, ensure_ascii=False, default=str).encode())
            except OSError as error:
                raise UsageError(f"{directory}: cannot be written: {reason(error)}") from None
        store = cls.open(directory)
        if store.version != plan["version"]:
            raise UsageError(
                f"{directory}: holds runs of dumbbell {store.version}, this is {plan['version']}: "
                "expected another --out"
            )
        if not store._is_of(plan):
            raise UsageError(
                f"{directory}: holds another study, or {study.name} and what it names have changed "
                "since: expected another --out"
            )
        return store

    @classmethod
    def open(cls, directory: str | Path) -> Self:
        """The store in a directory. Raises UsageError if there is none."""
        directory = Path(directory)
        try:
            return cls(directory, json.loads((directory / PLAN_FILE).read_text(encoding="utf-8")))
        except OSError as error:
            raise UsageError(
                f"{directory}: expected the directory of a study: {PLAN_FILE}: {reason(error)}"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{directory / PLAN_FILE}: expected the plan of a study") from None

    def _is_of(self, plan: dict[str, Any]) -> bool:
        """Whether it holds what a plan asks for; tuples and lists are one."""
        same = ("keys", "factors", "responses")
        return all(json.loads(json.dumps(plan[name])) == self._plan[name] for name in same)

    def finished(self) -> dict[str, float]:
        """When each finished run was written, by key; failed ones are finished too."""
        found: dict[str, float] = {}
        with os.scandir(self._runs) as entries:
            for entry in entries:
                key, dot, kind = entry.name.partition(".")
                if key and dot and kind == "parquet":
                    # What another process just retries may be gone again.
                    with suppress(FileNotFoundError):
                        found[key] = entry.stat().st_mtime
        return {key: found[key] for key in dict.fromkeys(self.keys) if key in found}

    def is_finished(self, key: str) -> bool:
        """Whether a run is written."""
        return self._final(key).exists()

    def running(self) -> int:
        """How many runs are claimed, by any process that this file system's locks know of."""
        return sum(_is_locked(part) for part in self._runs.glob(".*.part"))

    def sweep(self) -> None:
        """Remove what killed processes left. Raises OSError."""
        for part in self._runs.glob(".*.part"):
            claim = self._lock(part.name.removeprefix(".").removesuffix(".part"))
            if claim is not None:
                claim.release()

    def study_file(self) -> Path:
        """The study as it was when the directory was made: the file itself, which its paths are
        relative to, or the copy if the file has changed since. Raises UsageError."""
        copy = self.directory / STUDY_FILE
        try:
            if self.source.read_bytes() == copy.read_bytes():
                return self.source
        except OSError:
            pass
        return copy

    def claim(self, key: str) -> Claim | None:
        """The claim of a run, None if it is finished or another process has it. Raises OSError."""
        if self.is_finished(key):
            return None
        claim = self._lock(key)
        # It may have been finished before the lock was there.
        if claim is not None and self.is_finished(key):
            claim.release()
            return None
        return claim

    def forget_failed(self, keys: Iterable[str]) -> None:
        """Make failed runs missing ones, except what other processes are at. Raises OSError."""
        failed = self.failed()
        for key in keys:
            claim = self._lock(key) if key in failed else None
            if claim is not None:
                # Another process may have done it well since.
                if self._is_failed(key):
                    self._final(key).unlink()
                claim.release()

    def write(self, claim: Claim, runs: Sequence[Run], outcome: Outcome) -> None:
        """Keep what became of a run; `runs` are its places in the plan. Raises OSError."""
        claim.write(self._encode(runs, outcome))

    def failed(self) -> dict[str, str]:
        """Errors of the runs that failed, by key."""
        query = 'select key, error from runs where error is not null order by "index"'
        return dict(self.rows(query)[1])

    def rows(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Names of columns and rows of a query about `runs`, the view of the finished runs.

        Raises UsageError where DuckDB cannot answer it.
        """
        duckdb = _package("duckdb")
        try:
            result = self._connect().execute(sql)
            return [column[0] for column in result.description or ()], result.fetchall()
        except duckdb.Error as error:
            raise UsageError(" ".join(str(error).split())) from None

    def _connect(self) -> Any:
        connection = _package("duckdb").connect()
        connection.execute(f"create view runs as {self._select()}")
        return connection

    def arrow(self) -> Any:
        """The finished runs in the order of the plan, as pyarrow.Table; columns as of `frame`."""
        return self._connect().sql(_ALL).to_arrow_table()

    def frame(self) -> Any:
        """The finished runs in the order of the plan, as pandas.DataFrame.

        Columns: key, index, replicate, seed, block, the factors (text as categories in the order
        of the plan), the responses, error, seconds (processor time) and version.
        """
        pandas = _package("pandas")
        frame = self._connect().sql(_ALL).df()
        for column in self.columns:
            if column.kind == "text":
                text, levels = frame[column.name], list(column.levels)
                frame[column.name] = pandas.Categorical(text, categories=levels)
        return frame

    def _final(self, key: str) -> Path:
        return self._runs / f"{key}.parquet"

    def _lock(self, key: str) -> Claim | None:
        return _lock(self._runs / f".{key}.part", self._final(key))

    def _is_failed(self, key: str) -> bool:
        try:
            errors = _package("pyarrow.parquet").read_table(self._final(key), columns=["error"])[
                "error"
            ]
        except FileNotFoundError:
            return False
        return bool(errors[0].is_valid)

    def _encode(self, runs: Sequence[Run], outcome: Outcome) -> bytes:
        """One Parquet file: a row for each place of the run in the plan."""
        pyarrow, parquet = _package("pyarrow"), _package("pyarrow.parquet")
        taken = {name.casefold() for name, _ in self._fields()}
        for name in outcome.responses:
            if name.casefold() in taken:
                raise UsageError(f"response {show_value(name)}: a column of the study is called so")
        kinds = {
            "boolean": pyarrow.bool_(),
            "integer": pyarrow.int64(),
            "number": pyarrow.float64(),
            "text": pyarrow.string(),
        }
        common = {"error": outcome.error, "seconds": outcome.seconds, "version": self.version}
        # SQL leaves out null from means, but not NaN.
        responses = {k: None if v != v else float(v) for k, v in outcome.responses.items()}
        rows = [
            {"key": r.key, "index": r.index, "replicate": r.replicate, "seed": r.seed}
            | {"block": r.block}
            | {column.name: column.stored(r.factors[column.name]) for column in self.columns}
            | responses
            | common
            for r in runs
        ]
        fields = [*self._fields(), *((name, "number") for name in outcome.responses)]
        schema = pyarrow.schema([(name, kinds[kind]) for name, kind in fields])
        sink = pyarrow.BufferOutputStream()
        table = pyarrow.Table.from_pylist(rows, schema)
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

    def _fields(self) -> list[tuple[str, str]]:
        """Name and kind of the columns that every run has."""
        factors = ((column.name, column.kind) for column in self.columns)
        return [*_HEAD.items(), *factors, *_TAIL.items()]

    def _select(self) -> str:
        """SQL for the rows that there are; with typed columns even where there are none."""
        if not self.finished():
            fields = (f"null::{_SQL[kind]} as {_quoted(name)}" for name, kind in self._fields())
            return f"select {', '.join(fields)} limit 0"
        files = (glob.escape(str(self._runs)) + "/*.parquet").replace("'", "''")
        last = ", ".join(_TAIL)
        # Failed runs have no responses: not all files have the same columns.
        return f"select * exclude ({last}), {last} from read_parquet('{files}', union_by_name=true)"


def frame(directory: str | Path) -> Any:
    """The finished runs in a study's directory: see :meth:`Store.frame`. Raises UsageError."""
    return Store.open(directory).frame()


def reason(error: OSError) -> str:
    """Why, without numbers and names of files."""
    return (error.strerror or str(error)).lower()


def _plan(study: Path, runs: Sequence[Run], responses: Any) -> dict[str, Any]:
    from dumbbell import __version__

    names = list(runs[0].factors) if runs else []
    columns = [Column.of(name, [run.factors[name] for run in runs]) for name in names]
    # Names of columns are the same in SQL whatever their case.
    taken = {name.casefold() for name in RESERVED}
    measured = responses if isinstance(responses, list | tuple | dict) else ()
    for kind, name in [*(("factor", n) for n in names), *(("response", n) for n in measured)]:
        if name.casefold() in taken:
            raise UsageError(
                f"{study.name}: {kind} {show_value(name)}: another column of the results is called "
                f"so; {', '.join(RESERVED)} are those of every study"
            )
        taken.add(name.casefold())
    return {
        "version": __version__,
        "file": str(study),
        "keys": [run.key for run in runs],
        "factors": [{"name": c.name, "kind": c.kind, "levels": c.levels} for c in columns],
        "responses": responses,
    }


def _lock(part: Path, final: Path, *, wait: bool = False) -> Claim | None:
    """The claim of a file that is to be written, None if another process has it. Raises OSError."""
    while True:
        fd = os.open(part, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            os.close(fd)
            if isinstance(error, BlockingIOError):
                return None
            if error.errno in _NO_LOCKS:
                raise OSError(error.errno, "its file system has no locks") from None
            raise
        # Who had it before may have renamed or removed the file between the two calls.
        if _is_at(part, fd):
            return Claim(part, final, fd)
        os.close(fd)


def _is_at(path: Path, fd: int) -> bool:
    """Whether an open file still stands at a path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _package(name: str) -> Any:
    """An optional package. Raises MissingExtraError."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError("a study's directory", "study") from None
