"""Where a study's runs are kept: a directory that survives whatever ends the writers.

    study.toml          a copy of the study file
    study.json          the plan: where the file was, version, key of each run, factors, responses
    runs/KEY.parquet    a finished run, one row for each place it has in the plan
    runs/.KEY.part      a run that is being done
    runs.parquet        many of the finished runs, for reading

How files are written is in `_claims.py`, how they are read in `_reading.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Self

from dumbbell._errors import UsageError, show_value
from dumbbell.studies._claims import Claim, is_locked, lock
from dumbbell.studies._contract import Outcome, Run
from dumbbell.studies._reading import finished_runs
from dumbbell.studies._rows import RESERVED, Column, encode, fields, package

STUDY_FILE = "study.toml"
PLAN_FILE = "study.json"
RUNS = "runs"

_ALL = 'from runs order by "index"'


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
        package("pyarrow.parquet")
        directory, study = Path(directory), Path(study).absolute()
        plan = _plan(study, runs, responses)
        if not (directory / PLAN_FILE).exists():
            try:
                (directory / RUNS).mkdir(parents=True, exist_ok=True)
                claim = lock(directory / f".{PLAN_FILE}.part", directory / PLAN_FILE, wait=True)
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
            (directory / RUNS).stat()
            return cls(directory, json.loads((directory / PLAN_FILE).read_text(encoding="utf-8")))
        except OSError as error:
            raise UsageError(
                f"{directory}: expected the directory of a study: {Path(error.filename).name}: "
                f"{reason(error)}"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{directory / PLAN_FILE}: expected the plan of a study") from None

    def _is_of(self, plan: dict[str, Any]) -> bool:
        """Whether it holds what a plan asks for; tuples and lists are one."""
        same = ("keys", "factors", "responses")
        return all(json.loads(json.dumps(plan[name])) == self._plan[name] for name in same)

    def finished(self) -> set[str]:
        """Keys of the runs that are written; failed ones are finished too."""
        with os.scandir(self._runs) as entries:
            names = [entry.name for entry in entries]
        return {name.removesuffix(".parquet") for name in names if name.endswith(".parquet")}

    def times(self) -> list[float]:
        """When the finished runs were written, in ascending order."""
        found = []
        for key in self.finished():
            # What another process just retries may be gone again.
            with suppress(FileNotFoundError):
                found.append(self._final(key).stat().st_mtime)
        return sorted(found)

    def is_finished(self, key: str) -> bool:
        """Whether a run is written."""
        return self._final(key).exists()

    def running(self) -> int:
        """How many runs are claimed, by any process that this file system's locks know of."""
        return sum(is_locked(part) for part in self._runs.glob(".*.part"))

    def sweep(self) -> None:
        """Remove what killed processes left. Raises OSError."""
        for part in (*self.directory.glob(".*.part"), *self._runs.glob(".*.part")):
            claim = lock(part, part)
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
        claim.write(encode(self.columns, self.version, runs, outcome))

    def failed(self) -> dict[str, str]:
        """Errors of the runs that failed, by key."""
        query = 'select key, error from runs where error is not null order by "index"'
        return dict(self.rows(query)[1])

    def rows(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Names of columns and rows of a query about `runs`, the table of the finished runs.

        Raises UsageError where DuckDB cannot answer it.
        """
        with self._table() as connection:
            result = connection.execute(sql)
            return [column[0] for column in result.description or ()], result.fetchall()

    def arrow(self) -> Any:
        """The finished runs in the order of the plan, as pyarrow.Table; columns as of `frame`."""
        with self._table() as connection:
            return connection.sql(_ALL).to_arrow_table()

    def frame(self) -> Any:
        """The finished runs in the order of the plan, as pandas.DataFrame.

        Columns: key, index, replicate, seed, block, the factors (text as categories in the order
        of the plan), the responses, error, seconds (processor time) and version.
        """
        pandas = package("pandas")
        with self._table() as connection:
            frame = connection.sql(_ALL).df()
        for column in self.columns:
            if column.kind == "text":
                text, levels = frame[column.name], list(column.levels)
                frame[column.name] = pandas.Categorical(text, categories=levels)
        return frame

    def _table(self) -> AbstractContextManager[Any]:
        finished = self.finished()
        files = [self._final(key) for key in dict.fromkeys(self.keys) if key in finished]
        return finished_runs(self.directory, files, fields(self.columns))

    def _final(self, key: str) -> Path:
        return self._runs / f"{key}.parquet"

    def _lock(self, key: str) -> Claim | None:
        return lock(self._runs / f".{key}.part", self._final(key))

    def _is_failed(self, key: str) -> bool:
        try:
            errors = package("pyarrow.parquet").read_table(self._final(key), columns=["error"])[
                "error"
            ]
        except FileNotFoundError:
            return False
        return bool(errors[0].is_valid)


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
