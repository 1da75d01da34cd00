"""The experiments of the NIST study as studies: their sizes, their directories, their commands."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from dumbbell._cli import run_command
from dumbbell._errors import UsageError
from dumbbell.mesonet import experiments
from dumbbell.mesonet._finding import Finding
from dumbbell.studies import Study, Threads
from dumbbell.studies._running import Shard

RUNS = {"nist-1a": 224, "nist-1b": 256, "nist-2a": 224, "nist-2b": 224, "nist-2c": 224}
"""NIST SP 500-282: runs of each experiment."""


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_the_studys_own_size(name: str) -> None:
    """Scale 1 and 25 or 60 minutes: the table of runs, and the published numbers of sources
    (278,000 and 174,600 in 1a, a tenth of that in 1b; 26,190 and 17,460 in 2a and 2b)."""
    duration = "25min" if name.startswith("nist-1") else "60min"
    text = experiments.study_text(name, scale=1, duration=duration)
    study = Study.from_dict(tomllib.loads(text))
    assert study.set_ == {"mesonet.scale": 1, "duration": duration}
    conditions = study.conditions()
    assert len(conditions) == RUNS[name]
    assert len({condition.row for condition in conditions}) == 32


def test_another_size_in_the_same_directory(tmp_path: Path) -> None:
    opened = experiments.open_experiment("nist-1b", tmp_path, scale=0.02, duration="2s")
    assert opened.store.directory == tmp_path / "1b"
    again = experiments.open_experiment("nist-1b", tmp_path)
    assert [run.key for run in again.runs] == [run.key for run in opened.runs]
    with pytest.raises(UsageError, match="another scale or duration"):
        experiments.open_experiment("nist-1b", tmp_path, scale=0.03, duration="2s")


def test_runs_and_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few runs of a very small network are kept, and all 25 findings have a verdict."""
    single = Finding("F8", "of single flows", "reproduced", "measured elsewhere")
    monkeypatch.setattr("dumbbell.mesonet.latency.findings", lambda: [single])
    opened = experiments.open_experiment("nist-2b", tmp_path, scale=0.02, duration="2s")
    opened.do(Threads(2), shard=Shard(1, 56))
    runs = opened.store.frame()
    assert len(runs) == 4
    assert runs["error"].isna().all()
    assert (runs["y12"] > 0).all()
    findings = experiments.judge(tmp_path)
    assert single in findings
    assert [f.id for f in findings] == sorted({f.id for f in findings}, key=lambda f: int(f[1:]))
    (table,) = experiments.section(findings).tables.values()
    assert len(table) == len(findings)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nist-1b", "--quick"], "--quick: expected --scale and --duration instead"),
        (["nist-1b", "--scale", "2"], "--scale 2: expected more than 0, and at most 1"),
        (["nist-2b", "--duration", "1"], "expected a time with unit"),
        (["nist-3a"], 'paper "nist-3a": there is no such paper; did you mean "nist-2a"?'),
        (["sce-mail", "--scale", "0.1"], "only nist-1a to nist-2c have them"),
    ],
)
def test_wrong_commands(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["reproduce", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line


def test_experiments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["list", "papers"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in experiments.EXPERIMENTS)
