"""The directory of a study: what is kept, who may write it, and what can be asked of it."""

from __future__ import annotations

import errno
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from dumbbell._errors import UsageError
from dumbbell.studies import _reading
from dumbbell.studies._batch import write_job_array
from dumbbell.studies._contract import Outcome, Run
from dumbbell.studies._executors import Threads
from dumbbell.studies._running import Shard, do_runs
from dumbbell.studies._status import status_of
from dumbbell.studies._store import Store, frame
from synthetic_study import Synthetic, expected_rows, make_runs, make_store, rows_of


def leftovers(store: Store) -> list[str]:
    return [path.name for path in store.directory.rglob("*") if ".part" in path.name]


def measure_in(tmp_path: Path, **more: object) -> Synthetic:
    return Synthetic(str(tmp_path / "log"), **more)  # type: ignore[arg-type]


def test_table_has_every_run_in_the_order_of_the_plan(tmp_path: Path) -> None:
    """The response is the formula of the factors; failed runs have their error in its place."""
    runs = make_runs(2)
    store = make_store(tmp_path / "s", runs)
    do_runs(store, runs, measure_in(tmp_path), Threads(2))
    assert rows_of(store) == expected_rows(runs)
    table = frame(tmp_path / "s")
    head = ["key", "index", "replicate", "seed", "block", "x1", "x2", "cc"]
    assert list(table) == [*head, "y", "none", "error", "seconds", "version"]
    assert list(table["cc"].cat.categories) == ["reno", "cubic", "bad"]
    assert table["x1"].dtype == "int64"
    assert list(table["block"]) == [1] * 12 + [2] * 12
    # 16 runs that did not fail, x1 and x2 balanced: the mean is the constant term.
    assert table["y"].count() == 16
    assert table["y"].mean() == 5
    assert store.arrow().num_rows == 24
    assert leftovers(store) == []


def test_table_of_nothing_has_its_columns(tmp_path: Path) -> None:
    store = make_store(tmp_path / "s", make_runs(1))
    assert len(store.frame()) == 0
    assert store.rows("select count(*), sum(x1) from runs")[1] == [(0, None)]


def test_failed_runs_have_no_responses_even_if_they_are_all_there_is(tmp_path: Path) -> None:
    runs = [run for run in make_runs(1) if run.factors["cc"] == "bad"]
    store = make_store(tmp_path / "s", runs)
    do_runs(store, runs, measure_in(tmp_path), Threads(1))
    assert set(store.failed()) == {run.key for run in runs}
    assert "y" not in store.frame()


def test_factors_are_kept_as_they_are_written(tmp_path: Path) -> None:
    """Kinds by hand: the narrowest that holds all levels."""
    levels = {
        "flag": (True, False),
        "whole": (1, 2),
        "mixed": (1, 2.5),
        "path.rate": ("10Mbit", "2Gbit"),
        "limit": (100, "1bdp"),
        "queue": ({"kind": "codel", "target": "5ms"}, "fifo"),
    }
    runs = [
        replace(run, factors={name: both[i] for name, both in levels.items()})
        for i, run in enumerate(make_runs(1)[:2])
    ]
    store = make_store(tmp_path / "we[ir]d's*", runs)
    do_runs(store, runs, lambda run: Outcome(run, {"y": 1.0}), Threads(1))
    table = store.frame()
    kinds = {name: str(table[name].dtype) for name in levels}
    assert kinds == {
        "flag": "bool",
        "whole": "int64",
        "mixed": "float64",
        "path.rate": "category",
        "limit": "category",
        "queue": "category",
    }
    assert list(table["limit"]) == ["100", "1bdp"]
    assert list(table["queue"]) == ['{"kind": "codel", "target": "5ms"}', "fifo"]


def test_equal_runs_are_done_once_and_stand_in_each_place(tmp_path: Path) -> None:
    runs = make_runs(1)[:3]
    runs.append(replace(runs[0], index=3))
    store = make_store(tmp_path / "s", runs)
    measure = measure_in(tmp_path)
    seen: list[tuple[int, int]] = []
    do_runs(store, runs, measure, Threads(1), progress=lambda *n: seen.append(n))
    assert rows_of(store) == expected_rows(runs)
    assert set(measure.executions().values()) == {1}
    assert (seen[0], seen[-1]) == ((0, 4), (4, 4))


def test_shards_are_disjoint_and_make_up_the_whole(tmp_path: Path) -> None:
    runs = make_runs(1)
    store = make_store(tmp_path / "s", runs)
    measure = measure_in(tmp_path)
    counts = []
    for part in ("1/5", "2/5", "3/5", "4/5", "5/5"):
        do_runs(store, runs, measure, Threads(1), shard=Shard.parse(part))
        counts.append(len(store.finished()))
    # 12 runs by fives: 3, 3, 2, 2, 2.
    assert counts == [3, 6, 8, 10, 12]
    assert set(measure.executions().values()) == {1}


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0", "-1/4"])
def test_shard_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"--shard .*: expected NUMBER/COUNT"):
        Shard.parse(text)


def test_failed_runs_are_done_again_only_if_asked(tmp_path: Path) -> None:
    runs = make_runs(1)
    store = make_store(tmp_path / "s", runs)
    do_runs(store, runs, measure_in(tmp_path), Threads(1))
    cured = measure_in(tmp_path, cured=True)
    do_runs(store, runs, cured, Threads(1))
    assert rows_of(store) == expected_rows(runs)
    do_runs(store, runs, cured, Threads(1), retry_failed=True)
    assert rows_of(store) == expected_rows(runs, cured=True)
    again = {run.key for run in runs if run.factors["cc"] == "bad"}
    assert cured.executions() == {run.key: 2 if run.key in again else 1 for run in runs}


def test_claim_is_for_one_and_free_when_it_is_given_up(tmp_path: Path) -> None:
    """Locks are of the open file, so two stores of one process stand for two processes."""
    runs = make_runs(1)
    store, other = make_store(tmp_path / "s", runs), Store.open(tmp_path / "s")
    claim = store.claim("k0-0")
    assert claim is not None
    assert other.claim("k0-0") is None
    assert other.running() == 1
    other.sweep()
    assert other.running() == 1
    claim.release()
    assert other.running() == 0
    claim = other.claim("k0-0")
    assert claim is not None
    other.write(claim, runs[:1], Outcome(runs[0], {"y": 1.0}))
    assert store.claim("k0-0") is None
    assert leftovers(store) == []


def test_run_that_another_has_is_waited_for(tmp_path: Path) -> None:
    """All other runs are done meanwhile, and that one as soon as its claim is free."""
    runs = make_runs(1)
    store = make_store(tmp_path / "s", runs)
    claim = Store.open(tmp_path / "s").claim("k0-3")
    assert claim is not None

    def release(done: int, planned: int) -> None:
        if done == planned - 1:
            claim.release()

    do_runs(store, runs, measure_in(tmp_path), Threads(1), progress=release)
    assert rows_of(store) == expected_rows(runs)


def full_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """A disk that is full after so many writes."""
    write, left = os.write, iter(range(writes))

    def limited(fd: int, data: bytes) -> int:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data)

    monkeypatch.setattr("dumbbell.studies._claims.os.write", limited)


def test_full_disk_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = make_runs(1)
    store = make_store(tmp_path / "s", runs)
    with monkeypatch.context() as patch:
        full_after(patch, 5)
        with pytest.raises(UsageError) as error:
            do_runs(store, runs, measure_in(tmp_path), Threads(2))
    assert str(error.value) == (
        f"{tmp_path}/s: cannot be written: no space left on device; what is finished is kept, "
        f"go on with: dumbbell study resume {tmp_path}/s"
    )
    assert len(store.finished()) == 5
    assert len(store.frame()) == 5
    assert leftovers(store) == []
    do_runs(store, runs, measure_in(tmp_path), Threads(2))
    assert rows_of(store) == expected_rows(runs)


def test_file_that_is_cut_short_is_never_taken_for_a_run(tmp_path: Path) -> None:
    """The kernel writes the first 700 bytes and then refuses."""
    runs = make_runs(1)
    store = make_store(tmp_path / "s", runs)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, before[1]))
    try:
        with pytest.raises(UsageError, match="cannot be written: file too large"):
            do_runs(store, runs, measure_in(tmp_path), Threads(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert store.finished() == set()
    assert leftovers(store) == []


def test_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file: cannot be written: (not a|file exists)"):
        make_store(tmp_path / "file", make_runs(1))
    with pytest.raises(UsageError, match=r"file/s: cannot be written: (not a|file exists)"):
        Store.create(tmp_path / "file" / "s", tmp_path / "file", make_runs(1))


def test_directory_that_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected the directory of a study: runs: no such"):
        Store.open(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(
        UsageError, match=r"expected the directory of a study: study\.json: no such"
    ):
        Store.open(tmp_path)
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(UsageError, match=r"study\.json: expected the plan of a study"):
        Store.open(tmp_path)


def test_directory_of_another_study_or_version_is_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = make_runs(2)
    store = make_store(tmp_path / "s", runs)
    make_store(tmp_path / "s", runs)
    with pytest.raises(UsageError, match="holds another study"):
        make_store(tmp_path / "s", make_runs(3))
    with pytest.raises(UsageError, match="holds another study"):
        Store.create(tmp_path / "s", store.source, runs, ["jain"])
    monkeypatch.setattr("dumbbell.__version__", "9.9.9")
    with pytest.raises(UsageError, match=r"holds runs of dumbbell 0\.1\.0, this is 9\.9\.9"):
        make_store(tmp_path / "s", runs)


def test_study_is_as_it_was_when_the_directory_was_made(tmp_path: Path) -> None:
    store = make_store(tmp_path / "s", make_runs(1))
    assert store.study_file() == store.source
    store.source.write_text("changed")
    assert store.study_file().read_text() == 'title = "synthetic"\n'
    store.source.unlink()
    assert store.study_file().read_text() == 'title = "synthetic"\n'


def renamed(run: Run, name: str) -> Run:
    return replace(run, factors={name: 1})


def test_columns_that_would_have_one_name(tmp_path: Path) -> None:
    """Names of columns are the same in SQL whatever their case."""
    runs = make_runs(1)[:1]
    with pytest.raises(UsageError, match='factor "Seed": another column'):
        make_store(tmp_path / "s", [renamed(runs[0], "Seed")])
    with pytest.raises(UsageError, match='response "CC": another column'):
        Store.create(tmp_path / "r", tmp_path / "s.toml", runs, {"CC": "jain"})
    store = make_store(tmp_path / "t", runs)
    with pytest.raises(UsageError, match='response "X1"'):
        do_runs(store, runs, lambda run: Outcome(run, {"X1": 1.0}), Threads(1))


def test_status_counts_and_groups_errors(tmp_path: Path) -> None:
    """24 runs of which a third fail; 12 of them done."""
    runs = make_runs(2)
    store = make_store(tmp_path / "s", runs)
    do_runs(store, runs, measure_in(tmp_path), Threads(1), shard=Shard(1, 2))
    failed = sum(run.factors["cc"] == "bad" for run in runs[::2])
    assert failed == 4
    status = status_of(store)
    assert {name: status[name] for name in ("runs", "done", "failed", "missing", "running")} == {
        "runs": 24,
        "done": 8,
        "failed": 4,
        "missing": 12,
        "running": 0,
    }
    error = {"error": "ValueError: no such controller", "runs": 4, "first": 2}
    assert status["errors"] == [error]
    assert status["left_s"] == pytest.approx(12 / status["rate_per_s"])


def test_runs_are_gathered_once_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is the same from single files, when they are gathered, from what was gathered, and
    with what has come since; runs that failed are not fixed in it."""
    monkeypatch.setattr("dumbbell.studies._reading._MANY", 10)
    runs = make_runs(3)
    store = make_store(tmp_path / "s", runs)
    do_runs(store, runs[:12], measure_in(tmp_path), Threads(1))
    opened: list[int] = []
    listing = _reading._parquet
    monkeypatch.setattr(
        "dumbbell.studies._reading._parquet", lambda f: opened.append(len(f)) or listing(f)
    )
    assert rows_of(store) == expected_rows(runs[:12])
    do_runs(store, runs[:20], measure_in(tmp_path), Threads(1))
    for _ in range(2):
        opened.clear()
        assert rows_of(store) == expected_rows(runs[:20])
    # The file of 8 runs that were done first; 4 that failed and 8 that are new, of which 2 failed:
    # more than ten, so they are gathered as well; then only those that failed are left.
    assert opened == [1, 6]
    do_runs(store, runs, measure_in(tmp_path, cured=True), Threads(1), retry_failed=True)
    assert rows_of(store) == expected_rows(runs, cured=True)
    assert rows_of(store) == expected_rows(runs, cured=True)
    (tmp_path / "s" / "runs.parquet").write_bytes(b"no Parquet")
    with pytest.raises(UsageError, match=r"runs\.parquet"):
        store.frame()


def test_wrong_sql_is_one_line(tmp_path: Path) -> None:
    store = make_store(tmp_path / "s", make_runs(1))
    with pytest.raises(UsageError) as error:
        store.rows("select quux from runs")
    assert "quux" in str(error.value)
    assert "\n" not in str(error.value)


def test_job_array_does_each_shard(tmp_path: Path) -> None:
    """The script is for sh, and asks for as many jobs as there are shards."""
    store = make_store(tmp_path / "a study", make_runs(1))
    path = write_job_array(store, 8, workers=2, directives=["--time=01:00:00"])
    lines = path.read_text().splitlines()
    assert lines[0] == "#!/bin/sh"
    assert {"#SBATCH --array=1-8", "#SBATCH --cpus-per-task=2", "#SBATCH --time=01:00:00"} <= set(
        lines
    )
    assert lines[-1].endswith(
        f"-m dumbbell study run '{tmp_path}/a study' --shard \"$shard/8\" --workers 2"
    )
    with pytest.raises(UsageError, match="--shards 0: expected at least 1"):
        write_job_array(store, 0)
