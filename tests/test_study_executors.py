"""Threads, processes and Ray do the same runs, whatever dies."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from dumbbell._errors import UsageError
from dumbbell.studies._contract import Executor, Outcome, Run
from dumbbell.studies._executors import Processes, Ray, Threads, holds_interpreter
from dumbbell.studies._running import do_runs
from synthetic_study import Synthetic, expected_rows, make_runs, make_store, rows_of

HERE = Path(__file__).parent
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed"
)


@pytest.mark.parametrize("executor", [Threads(2), Processes(2)], ids=["threads", "processes"])
def test_each_run_is_done_once(tmp_path: Path, executor: Executor) -> None:
    runs = make_runs(1)
    measure = Synthetic(str(tmp_path / "log"))
    outcomes = list(executor.outcomes(measure, runs))
    assert sorted(outcome.run.index for outcome in outcomes) == list(range(12))
    # An exception that a measure should have caught is the run's error, not the study's end.
    errors = {o.error for o in outcomes if o.run.factors["cc"] == "bad"}
    assert errors == {"ValueError: no such controller"}
    assert set(measure.executions().values()) == {1}
    here = str(os.getpid())
    assert (here in measure.processes()) is isinstance(executor, Threads)


def test_runs_are_taken_as_they_begin() -> None:
    """What is not yet begun must be left to other processes."""
    taken: list[int] = []

    def pulled() -> list[Run]:
        for run in make_runs(1):
            taken.append(run.index)
            yield run

    outcomes = Threads(2).outcomes(lambda run: Outcome(run), pulled())
    next(outcomes)
    assert len(taken) <= 4
    outcomes.close()


def test_closing_cancels_what_has_not_begun_and_ends_the_rest() -> None:
    executor = Threads(2)
    threads = threading.active_count()
    begun: list[int] = []

    def until_stopped(run: Run) -> Outcome:
        begun.append(run.index)
        while run.index > 0 and executor.going():
            time.sleep(0.01)
        return Outcome(run)

    outcomes = executor.outcomes(until_stopped, make_runs(1))
    assert next(outcomes).run.index == 0
    before = time.monotonic()
    # A run that has been handed to a thread begins when the machine lets it.
    while len(begun) < 3 and time.monotonic() - before < 5:
        time.sleep(0.01)
    outcomes.close()
    assert time.monotonic() - before < 10
    assert begun == [0, 1, 2]
    assert threading.active_count() == threads


@pytest.mark.parametrize(("deaths", "executions"), [(1, 2), (5, 2)])
def test_worker_that_dies(tmp_path: Path, deaths: int, executions: int) -> None:
    """Done again after the first death, failed after the second; nothing else is lost or done
    twice."""
    runs = make_runs(1)
    store = make_store(tmp_path / "s", runs)
    measure = Synthetic(str(tmp_path / "log"), deadly="k0-1", deaths=deaths)
    do_runs(store, runs, measure, Processes(2))
    expected = expected_rows(runs)
    if deaths > 1:
        error = "the process that ran it died 2 times: killed by signal 9"
        expected[1] = (*expected[1][:4], None, error)
    assert rows_of(store) == expected
    assert measure.executions() == {r.key: executions if r.key == "k0-1" else 1 for r in runs}


@pytest.mark.parametrize(
    ("cc", "holds"), [("cubic", False), ("python:mine:Mine", True), (None, False)]
)
def test_controllers_in_python_are_known(cc: str | None, holds: bool) -> None:
    flow = {} if cc is None else {"cc": cc}
    run = make_runs(1)[0]
    run.scenario["flows"] = [{"cc": "bbr"}, flow]
    assert holds_interpreter(run) is holds


@needs_ray
def test_ray_cluster_that_is_not_there() -> None:
    """A port that nobody listens at: it was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UsageError) as error:
        next(Ray(address=f"127.0.0.1:{port}").outcomes(Outcome, make_runs(1)))
    assert str(error.value) == (
        f"--address 127.0.0.1:{port}: no Ray cluster answers: connection refused"
    )


@needs_ray
@pytest.mark.timeout(180)
def test_ray_does_what_a_killed_node_had(tmp_path: Path) -> None:
    """Two nodes with a processor each; one is killed in the middle, with the run that it has. In a
    process of its own, because of what Ray warns of and leaves running."""
    done = subprocess.run(
        [sys.executable, HERE / "ray_study.py", tmp_path / "s"],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["killed"] is True
    assert told["rows"] == [list(row) for row in expected_rows(make_runs(2))]
    # What the dead node had was begun twice, everything else once.
    assert sum(told["executions"].values()) in (24, 25, 26)
    assert told["processes"] >= 2
