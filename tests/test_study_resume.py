"""Studies that are killed, interrupted or shared, and go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
pytest.importorskip("dumbbell._core", reason="the engine is not built")

from dumbbell.studies._executors import Threads
from dumbbell.studies._running import do_runs
from dumbbell.studies._store import Store
from synthetic_study import Synthetic, expected_rows, make_runs, make_store, rows_of

PROGRAM = str(Path(__file__).parent / "synthetic_study.py")
KILLS = 15


def start(*arguments: object) -> subprocess.Popen[str]:
    """A Python program in a process group of its own, as a shell starts it."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(condition: object, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)


def test_killed_again_and_again(tmp_path: Path) -> None:
    """15 writers killed at random moments and two at once in the end leave the same table as an
    undisturbed run: what was finished is kept, and the rest is done."""
    runs = make_runs(12)
    program = start(PROGRAM, "disturbed", tmp_path / "s", KILLS)
    out, err = program.communicate(timeout=100)
    assert program.returncode == 0, err
    assert int(out) == KILLS
    store = Store.open(tmp_path / "s")
    assert rows_of(store) == expected_rows(runs)

    undisturbed = make_store(tmp_path / "u", runs)
    do_runs(undisturbed, runs, Synthetic(str(tmp_path / "u.log")), Threads(2))
    assert store.arrow().equals(undisturbed.arrow())

    kept = sorted(path.name for path in (store.directory / "runs").iterdir())
    assert kept == sorted(f"{run.key}.parquet" for run in runs)
    # Nothing that is kept is done again: a kill costs what two threads were at, and what they had
    # just ended.
    executions = Synthetic(f"{tmp_path}/s.log").executions()
    assert sum(executions.values()) <= len(runs) + 4 * KILLS
    # The kills were all over the study and not just at its beginning.
    assert max(executions.values()) < KILLS / 2


def test_two_processes_share_a_study(tmp_path: Path) -> None:
    runs = make_runs(12)
    program = start(PROGRAM, "disturbed", tmp_path / "s", 0)
    _, err = program.communicate(timeout=100)
    assert program.returncode == 0, err
    log = Synthetic(f"{tmp_path}/s.log")
    assert log.executions() == dict.fromkeys((run.key for run in runs), 1)
    assert len(log.processes()) == 2
    assert rows_of(Store.open(tmp_path / "s")) == expected_rows(runs)


def alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_worker_processes_end_with_the_study(tmp_path: Path, how: signal.Signals) -> None:
    """Ctrl-C reaches the whole group, SIGKILL only the parent."""
    log = Synthetic(f"{tmp_path}/s.log")
    program = start(PROGRAM, "main", tmp_path / "s", "processes", 1, 60)
    wait_for(lambda: Path(log.log).exists() and len(log.executions()) == 2)
    workers = log.processes()
    if how == signal.SIGINT:
        os.killpg(program.pid, how)
    else:
        program.kill()
    _, err = program.communicate(timeout=20)
    wait_for(lambda: not any(map(alive, workers)), seconds=10)
    # Only the parent says that it was interrupted.
    assert err.count("Traceback") == (1 if how == signal.SIGINT else 0)
    store = Store.open(tmp_path / "s")
    assert (store.running(), store.finished()) == (0, set())
