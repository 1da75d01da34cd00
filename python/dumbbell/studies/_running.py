"""Doing the runs of a study that are missing, and keeping them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Self

from dumbbell._errors import UsageError
from dumbbell.studies._claims import Claim
from dumbbell.studies._contract import Executor, Measure, Run
from dumbbell.studies._executors import Threads, default_executor
from dumbbell.studies._store import PLAN_FILE, Store, reason
from dumbbell.studies._study import Study

Progress = Callable[[int, int], None]
"""Called with the number of runs that are finished and the number of all, of this shard."""

_OTHERS_S = 0.5
"""How often to look whether another process has finished its runs, or died."""
_LOOK_S = 0.5
"""How often to look what is finished, while runs are done."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` (from 1) of `count`: every count-th run."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """A shard from "2/8". Raises UsageError."""
        number, _, count = text.partition("/")
        try:
            shard = cls(int(number), int(count))
        except ValueError:
            shard = cls(0, 0)
        if not 1 <= shard.number <= shard.count:
            raise UsageError(f'--shard "{text}": expected NUMBER/COUNT, such as 1/8')
        return shard


@dataclass(frozen=True, slots=True)
class OpenStudy:
    """A study with its runs and its directory."""

    study: Study
    runs: list[Run]
    store: Store

    @classmethod
    def at(cls, path: str | Path, out: str | Path | None = None) -> Self:
        """A study from its file, "ready:NAME", or its directory, which goes on as it was begun.

        `out` is the directory, made if absent; default: the name of the file and ".study". Raises
        ScenarioError, UsageError, MissingExtraError.
        """
        if (Path(path) / PLAN_FILE).is_file():
            if out is not None:
                raise UsageError(f"--out {out}: {path} is the directory of a study already")
            out, file = path, Store.open(path).study_file()
            study = Study.load(file)
        else:
            study = Study.load(path)
            assert study.file is not None
            file = Path(study.file)
            out = out or f"{file.stem}.study"
        runs = study.runs()
        responses = study.model_dump(mode="json", include={"responses"})["responses"]
        return cls(study, runs, Store.create(out, file, runs, responses))

    def do(
        self,
        executor: Executor,
        *,
        shard: Shard | None = None,
        retry_failed: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Do the runs that are missing: see do_runs."""
        measure: Measure = self.study.measure
        if isinstance(executor, Threads):
            going = executor.going
            measure = partial(self.study.measure, progress=lambda *_: going())
        do_runs(
            self.store,
            self.runs,
            measure,
            executor,
            shard=shard,
            retry_failed=retry_failed,
            progress=progress,
        )


def run_study(
    path: str | Path,
    out: str | Path | None = None,
    *,
    executor: Executor | None = None,
    shard: Shard | None = None,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> Store:
    """Do the runs of a study that are missing, and return its directory.

    `path` is a study file, "ready:NAME", or the directory of a study; `out` the directory, by
    default the name of the file and ".study". `executor`: Threads, Processes or Ray; default:
    threads, or processes if there are controllers written in Python. `shard`: only a part of the
    runs. `retry_failed`: those that failed as well. `progress` is called with the number of runs
    that are finished and of all. Several processes may share a study; this returns when all is
    done. Raises ScenarioError, UsageError, MissingExtraError.
    """
    opened = OpenStudy.at(path, out)
    opened.do(
        executor or default_executor(opened.runs),
        shard=shard,
        retry_failed=retry_failed,
        progress=progress,
    )
    return opened.store


def do_runs(
    store: Store,
    runs: Sequence[Run],
    measure: Measure,
    executor: Executor,
    *,
    shard: Shard | None = None,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> None:
    """Do the runs of a study that are not finished, sharing them with other processes that do the
    same; returns when all of them are finished, by whichever.

    `retry_failed`: those that failed are not finished. Raises UsageError if the directory cannot
    be written any more; what is finished is kept.
    """
    places: dict[str, list[Run]] = {}
    for run in runs:
        places.setdefault(run.key, []).append(run)
    if shard is not None:
        places = dict(islice(places.items(), shard.number - 1, None, shard.count))
    session = _Session(store, places, progress)
    with session.writing():
        store.sweep()
        if retry_failed:
            store.forget_failed(places)
    while session.look():
        session.work(measure, executor)


class _Session:
    """What one process does for a study."""

    def __init__(
        self, store: Store, places: dict[str, list[Run]], progress: Progress | None
    ) -> None:
        self._store = store
        self._places = places
        self._progress = progress
        self._missing: list[str] = []
        self._claims: dict[str, Claim] = {}
        self._looked = 0.0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Says what became of the study where its directory cannot be written."""
        try:
            yield
        except OSError as error:
            place = self._store.directory
            raise UsageError(
                f"{place}: cannot be written: {reason(error)}; what is finished is kept, "
                f"go on with: dumbbell study resume {place}"
            ) from None

    def look(self) -> bool:
        """Find out what is missing, and say how many are not; False if nothing is."""
        finished = self._store.finished()
        self._missing = [key for key in self._places if key not in finished]
        self._looked = time.monotonic()
        if self._progress is not None:
            missing = sum(len(self._places[key]) for key in self._missing)
            planned = sum(map(len, self._places.values()))
            self._progress(planned - missing, planned)
        return bool(self._missing)

    def work(self, measure: Measure, executor: Executor) -> None:
        """Do what is missing and no other process is at; if there is nothing, wait a little."""
        claimed = self._claimed(self._missing)
        first = next(claimed, None)
        if first is None:
            time.sleep(_OTHERS_S)
            return
        try:
            with closing(executor.outcomes(measure, chain([first], claimed))) as outcomes:
                for outcome in outcomes:
                    key = outcome.run.key
                    with self.writing():
                        self._store.write(self._claims[key], self._places[key], outcome)
                    del self._claims[key]
                    if time.monotonic() > self._looked + _LOOK_S:
                        self.look()
        finally:
            for claim in self._claims.values():
                claim.release()
            self._claims.clear()

    def _claimed(self, keys: list[str]) -> Iterator[Run]:
        for key in keys:
            with self.writing():
                claim = self._store.claim(key)
            if claim is not None:
                self._claims[key] = claim
                yield self._places[key][0]
