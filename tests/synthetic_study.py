"""Studies whose results are known by hand, for the tests of what keeps and executes runs.

The response is y = 5 + 3 x1 - 2 x2. As a program it does such a study, so that tests can kill it:
`python synthetic_study.py main DIRECTORY threads REPLICATES SECONDS`.
"""

from __future__ import annotations

import math
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from dumbbell.studies._contract import Executor, Outcome, Run
from dumbbell.studies._executors import Processes, Threads
from dumbbell.studies._running import do_runs
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
    """The measure. Each execution appends a line, key and process, to the log.

    Runs with the controller "bad" fail, unless `cured`. The run `deadly` kills its process the
    first `deaths` times.
    """

    log: str
    seconds: float = 0.0
    cured: bool = False
    deadly: str = ""
    deaths: int = 0

    def __call__(self, run: Run) -> Outcome:
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"{run.key} {os.getpid()}\n")
        if run.key == self.deadly and self.executions()[run.key] <= self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        if run.factors["cc"] == "bad" and not self.cured:
            raise ValueError("no such controller")
        return Outcome(run, {"y": y(run), "none": math.nan}, seconds=0.5)

    def executions(self) -> Counter[str]:
        """How often each run was begun."""
        return Counter(line.split()[0] for line in self._lines())

    def begun(self) -> int:
        """How many executions there were."""
        return len(self._lines()) if Path(self.log).exists() else 0

    def processes(self) -> set[str]:
        """Who did runs."""
        return {line.split()[1] for line in self._lines()}

    def _lines(self) -> list[str]:
        return Path(self.log).read_text(encoding="utf-8").splitlines()


def y(run: Run) -> float:
    """The response, by hand."""
    return float(5 + 3 * run.factors["x1"] - 2 * run.factors["x2"])


def make_store(directory: Path, runs: list[Run]) -> Store:
    """A store of its own study file."""
    file = directory.with_suffix(".toml")
    file.write_text('title = "synthetic"\n')
    return Store.create(directory, file, runs)


def expected_rows(runs: list[Run], *, cured: bool = False) -> list[tuple[Any, ...]]:
    """(index, x1, x2, cc, y, error) of the whole table."""
    rows: list[tuple[Any, ...]] = []
    for run in runs:
        levels = (run.factors["x1"], run.factors["x2"], run.factors["cc"])
        bad = run.factors["cc"] == "bad" and not cured
        what = (None, "ValueError: no such controller") if bad else (y(run), None)
        rows.append((run.index, *levels, *what))
    return rows


def rows_of(store: Store) -> list[tuple[Any, ...]]:
    """The same columns of a store."""
    return store.rows('select "index", x1, x2, cc, y, error from runs order by "index"')[1]


def main(directory: str, kind: str, replicates: str, seconds: str) -> None:
    runs = make_runs(int(replicates))
    store = make_store(Path(directory), runs)
    measure = Synthetic(f"{directory}.log", float(seconds))
    executor: Executor = Threads(2) if kind == "threads" else Processes(2)
    do_runs(store, runs, measure, executor)


def disturbed(directory: str, kills: str) -> None:
    """Do a study in a child that is killed so often, at random moments, then in two at a time.

    Forked, so that a child does not have to import everything; this process itself has no threads.
    """
    for module in ("duckdb", "pandas", "pyarrow.parquet"):
        import_module(module)
    moments = random.Random(20)
    log = Synthetic(f"{directory}.log")
    killed = begun = 0
    for _ in range(int(kills)):
        child = _child(directory)
        begun += moments.randint(3, 12)
        while log.begun() < begun:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.015))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
        begun = log.begun()
    for child in [_child(directory), _child(directory)]:
        _, status = os.waitpid(child, 0)
        assert status == 0
    print(killed)


def _child(directory: str) -> int:
    child = os.fork()
    if child == 0:
        main(directory, "threads", "12", "0.01")
        os._exit(0)
    return child


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
