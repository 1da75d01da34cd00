"""Studies whose results are known by hand, for the tests of what keeps and executes runs.

The response is y = 5 + 3 x1 - 2 x2. As a program it does such a study, so that tests can kill it:
`python synthetic_study.py DIRECTORY [executor] [seconds a run] [shard]`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell.studies._contract import Executor, Outcome, Run
from dumbbell.studies._executors import Processes, Threads
from dumbbell.studies._running import Shard, do_runs
from dumbbell.studies._store import Store

LEVELS = (-1, 1)


def make_runs(replicates: int) -> list[Run]:
    """Full factorial in x1, x2 and a factor of text."""
    points = [(a, b, cc) for a in LEVELS for b in LEVELS for cc in ("reno", "cubic", "bad")]
    return [
        Run(
            index=replicate * len(points) + i,
            key=f"k{replicate}-{i}",
            factors={"x1": a, "x2": b, "cc": cc},
            replicate=replicate,
            seed=1 + replicate,
            block=replicate + 1,
            scenario={},
        )
        for replicate in range(replicates)
        for i, (a, b, cc) in enumerate(points)
    ]


@dataclass(frozen=True)
class Synthetic:
    """The measure. Each execution appends a line to the log, which is one write and so whole.

    Runs with the controller "bad" fail; run `deadly` kills its process the first `deaths` times.
    """

    log: str
    seconds: float = 0.0
    deadly: str = ""
    deaths: int = 0

    def __call__(self, run: Run) -> Outcome:
        with open(self.log, "a", buffering=1) as log:
            log.write(f"{run.key}\n")
        begun = Path(self.log).read_text().split().count(run.key)
        if run.key == self.deadly and begun <= self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        if run.factors["cc"] == "bad":
            raise ValueError("no such controller")
        y = 5 + 3 * run.factors["x1"] - 2 * run.factors["x2"]
        return Outcome(run, {"y": float(y), "seed_again": float(run.seed)}, seconds=0.5)


def make_store(directory: Path, runs: list[Run]) -> Store:
    """A store of its own study file."""
    file = directory.with_suffix(".toml")
    file.write_text('title = "synthetic"\n')
    return Store.create(directory, file, runs)


def expected_rows(runs: list[Run]) -> list[tuple[object, ...]]:
    """(index, x1, x2, cc, y, error) of the whole table."""
    rows: list[tuple[object, ...]] = []
    for run in runs:
        a, b, cc = run.factors["x1"], run.factors["x2"], run.factors["cc"]
        bad = cc == "bad"
        error = "ValueError: no such controller" if bad else None
        rows.append((run.index, a, b, cc, None if bad else 5.0 + 3 * a - 2 * b, error))
    return rows


def rows_of(store: Store) -> list[tuple[Any, ...]]:
    """The same columns of a store."""
    query = 'select "index", x1, x2, cc, y, error from runs order by "index"'
    return store.rows(query)[1]


REPLICATES = 5


def main(directory: str, kind: str = "threads", seconds: str = "0", shard: str = "1/1") -> None:
    runs = make_runs(REPLICATES)
    store = make_store(Path(directory), runs)
    measure = Synthetic(f"{directory}.log", float(seconds))
    executor: Executor = Threads(2) if kind == "threads" else Processes(2)
    do_runs(store, runs, measure, executor, shard=Shard.parse(shard))


if __name__ == "__main__":
    main(*sys.argv[1:])
