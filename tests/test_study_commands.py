"""`dumbbell study run`, `resume`, `status`, `sql` and `slurm` as a person meets them."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
pytest.importorskip("dumbbell._core", reason="the engine is not built")

import dumbbell
from dumbbell._cli import run_command

STUDY = """
replicates = 2
responses = ["goodput_mean_bps", "utilisation"]

[scenario]
duration = "2s"

[scenario.path]
rate = "10Mbit"
rtt = "20ms"

[[scenario.flows]]
cc = "cubic"

[[scenario.flows]]
cc = "reno"

[factors]
rate = { key = "path.rate", levels = ["5Mbit", "10Mbit"] }
cc = { key = "flows[0].cc", levels = ["cubic", "bbr"] }
"""
SCENARIO = {
    "duration": "2s",
    "path": {"rate": "10Mbit", "rtt": "20ms"},
    "flows": [{"cc": "cubic"}, {"cc": "reno"}],
}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(STUDY)
    return tmp_path / "s.toml"


# What runs elsewhere imports the same package.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(dumbbell.__file__).parents[1])}


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = run_command(["study", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def sql(capsys: pytest.CaptureFixture[str], query: str) -> list[dict[str, Any]]:
    status, out, err = call(capsys, "sql", "s.study", query, "--json")
    assert (status, err) == (0, "")
    rows: list[dict[str, Any]] = json.loads(out)
    return rows


def test_study_runs_what_dumbbell_runs(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    """Each response is that of a single run of the same scenario and seed."""
    assert call(capsys, "run", study) == (0, "runs: s.study\n", "")
    rows = sql(capsys, 'from runs order by "index"')
    whole = product(("5Mbit", "10Mbit"), ("cubic", "bbr"), (1, 2))
    assert {(row["rate"], row["cc"], row["seed"]) for row in rows} == set(whole)
    assert [row["index"] for row in rows] == list(range(8))
    for row in rows:
        path = {**SCENARIO["path"], "rate": row["rate"]}  # type: ignore[dict-item]
        flows = [{"cc": row["cc"]}, {"cc": "reno"}]
        one = dumbbell.run({**SCENARIO, "path": path, "flows": flows}, seed=row["seed"])
        goodputs = [flow["goodput_bps"] for flow in one.summary["flows"]]
        assert row["goodput_mean_bps"] == pytest.approx(fmean(goodputs))
        assert row["utilisation"] == one.summary["links"][0]["utilisation"]
        assert 0 < 2 * row["goodput_mean_bps"] < {"5Mbit": 5e6, "10Mbit": 10e6}[row["rate"]]


def test_processes_give_the_table_of_threads(
    capsys: pytest.CaptureFixture[str], study: Path
) -> None:
    call(capsys, "run", study)
    call(capsys, "run", study, "--out", "p.study", "--executor", "processes", "--workers", "2")
    columns = '"index", rate, cc, seed, goodput_mean_bps, utilisation'
    query = f'select {columns} from runs order by "index"'
    threads = sql(capsys, query)
    other = json.loads(call(capsys, "sql", "p.study", query, "--json")[1])
    assert len(threads) == 8
    assert threads == other


def test_shards_and_resume_make_up_the_study(
    capsys: pytest.CaptureFixture[str], study: Path
) -> None:
    def counts() -> tuple[int, int, int]:
        status = json.loads(call(capsys, "status", "s.study", "--json")[1])
        return status["done"], status["failed"], status["missing"]

    assert call(capsys, "run", study, "--shard", "1/4", "--quiet") == (0, "", "")
    assert counts() == (2, 0, 6)
    assert call(capsys, "run", "s.study", "--shard", "2/4", "--quiet") == (0, "", "")
    assert counts() == (4, 0, 4)
    # The study goes on as it was begun.
    study.write_text("broken")
    assert call(capsys, "resume", "s.study", "--quiet") == (0, "", "")
    assert counts() == (8, 0, 0)
    status, out, err = call(capsys, "status", "s.study")
    assert (status, err) == (0, "")
    assert out.startswith("8 runs: 8 done, 0 failed, 0 missing")


def test_sql_as_a_table_and_as_csv(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    call(capsys, "run", study)
    query = "select cc, count(*) as n, null as x from runs group by cc order by cc desc"
    _, out, _ = call(capsys, "sql", "s.study", query, "--csv")
    assert list(csv.reader(out.splitlines())) == [
        ["cc", "n", "x"],
        ["cubic", "4", ""],
        ["bbr", "4", ""],
    ]
    _, out, _ = call(capsys, "sql", "s.study", query)
    assert [line.split() for line in out.splitlines()[2:]] == [
        ["cubic", "4", "-"],
        ["bbr", "4", "-"],
    ]
    many = ", ".join(f"{i} as a_long_name_{i}" for i in range(30))
    _, out, _ = call(capsys, "sql", "s.study", f"select {many} from runs limit 2")
    assert ["a_long_name_29", "29"] in [line.split() for line in out.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "s.toml", "--shard", "3/2"], '--shard "3/2": expected NUMBER/COUNT, such as 1/8'),
        (["run", "s.toml", "--workers", "0"], "--workers 0: expected at least 1"),
        (["run", "s.toml", "--executor", "rays"], '--executor "rays"; did you mean "ray"?'),
        (["run", "s.toml", "--address", "here"], "--address: expected --executor ray"),
        (["run", "s.toml", "--out", "s.toml"], "s.toml: cannot be written: not a directory"),
        (
            ["resume", "nowhere"],
            "nowhere: expected the directory of a study: runs: no such file or directory",
        ),
    ],
)
@pytest.mark.usefixtures("study")
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert call(capsys, *arguments) == (2, "", f"dumbbell: {message}\n")


def test_full_disk_is_one_line(
    capsys: pytest.CaptureFixture[str], study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    call(capsys, "run", study, "--shard", "1/2", "-q")
    with monkeypatch.context() as patch:
        patch.setattr("dumbbell.studies._claims.os.fsync", full)
        status, out, err = call(capsys, "resume", "s.study")
    assert (status, out) == (2, "")
    assert err == (
        "dumbbell: s.study: cannot be written: no space left on device; what is finished is kept, "
        "go on with: dumbbell study resume s.study\n"
    )
    assert sql(capsys, "select count(*) as n from runs") == [{"n": 4}]


def test_optional_packages_are_named(
    capsys: pytest.CaptureFixture[str], study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first run, not after it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    needs = "dumbbell: a study's directory needs optional packages: pip install 'dumbbell[study]'\n"
    assert call(capsys, "run", study) == (2, "", needs)
    assert not (study.parent / "s.study").exists()


FAILING = """
import dumbbell


class Mine(dumbbell.CongestionControl):
    def __init__(self, fail: bool = False) -> None:
        self.fail = fail
        self.cwnd = 10.0

    def on_ack(self, ack):
        if self.fail:
            raise ArithmeticError("no model")
"""
CHOICE = """
[factors]
fail = { key = "flows[0].params.fail", levels = [false, true] }
"""


def test_failing_controller_in_python(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    """It runs in processes, is imported from beside the study file, and its error is kept."""
    (study.parent / "mine.py").write_text(FAILING)
    text = STUDY.replace('"cubic"', '"python:mine:Mine"', 1).partition("[factors]")[0]
    study.write_text(text + CHOICE)
    status, out, err = call(capsys, "run", study, "--workers", "1")
    assert (status, out) == (1, "runs: s.study\n")
    assert err == "dumbbell: 2 runs failed, see: dumbbell study status s.study\n"
    _, out, _ = call(capsys, "status", "s.study", "--json")
    (error,) = json.loads(out)["errors"]
    assert (error["runs"], error["first"]) == (2, 1)
    assert "no model" in error["error"]
    status, _, _ = call(capsys, "resume", "s.study", "--retry-failed", "-q", "--workers", "1")
    assert status == 1


def test_job_array_does_its_shard(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    """The script is run as a batch system would."""
    status, out, _ = call(capsys, "slurm", study, "--shards", 2)
    assert (status, out) == (0, "submit it with: sbatch s.study/slurm.sh\n")
    environment = {**ENVIRONMENT, "SLURM_ARRAY_TASK_ID": "2"}
    subprocess.run(["sh", "s.study/slurm.sh"], env=environment, check=True, timeout=60)
    rows = sql(capsys, 'select "index" from runs order by "index"')
    assert [row["index"] for row in rows] == [1, 3, 5, 7]


def test_ctrl_c_says_how_to_go_on(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    """What is done is kept; a run of a simulated day is ended in the middle."""
    levels = 'time = { key = "duration", levels = ["1s", "86400s"] }'
    study.write_text(STUDY.partition("[factors]")[0] + f"[factors]\n{levels}\n")
    program = subprocess.Popen(
        [sys.executable, "-m", "dumbbell", "study", "run", study, "--workers", "1"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    done = study.parent / "s.study" / "runs"
    while not list(done.glob("*.parquet")) or not list(done.glob(".*.part")):
        assert program.poll() is None
        time.sleep(0.05)
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=20)
    assert program.returncode == 1
    assert err == (
        "dumbbell: interrupted; 1 of 4 runs are kept, go on with: dumbbell study resume s.study\n"
    )
    status = json.loads(call(capsys, "status", "s.study", "--json")[1])
    assert (status["done"], status["missing"], status["running"]) == (1, 3, 0)
