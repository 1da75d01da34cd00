"""The study's five experiments, run again: `dumbbell reproduce nist-1a` to `nist-2c`.

Each is a ready study; its runs are kept in a directory and go on where they were interrupted. The
findings are judged on all experiments that the directory has.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit

from dumbbell._errors import UsageError, suggest

if TYPE_CHECKING:
    from dumbbell.analysis.report import Section
    from dumbbell.mesonet._finding import Finding
    from dumbbell.studies._running import OpenStudy

EXPERIMENTS = {
    "nist-1a": "Recovery from congestion in a large, fast network",
    "nist-1b": "Recovery from congestion in a small, slow network",
    "nist-2a": "Goodput beside TCP, high initial slow-start threshold",
    "nist-2b": "Goodput beside TCP, low initial slow-start threshold",
    "nist-2c": "Goodput beside TCP in a large, fast network",
}
SOURCE = "NIST SP 500-282, 2010"


def listing() -> list[dict[str, str]]:
    """Name and title of each experiment."""
    return [{"name": name, "summary": f"{t} ({SOURCE})"} for name, t in EXPERIMENTS.items()]


def study_text(name: str, *, scale: float | None = None, duration: str | None = None) -> str:
    """The study file of an experiment, with another scale of the network or length of the runs.

    Scale 1 and "25min" (1a, 1b) or "60min" are the study's own. Raises UsageError.
    """
    from dumbbell.studies._study import ready_file

    if name not in EXPERIMENTS:
        raise UsageError(f'experiment "{name}"{suggest(name, EXPERIMENTS)}')
    document: Any = tomlkit.parse(ready_file(name).read_text(encoding="utf-8"))
    if scale is not None:
        if not 0 < scale <= 1:
            raise UsageError(f"--scale {scale:g}: expected more than 0, and at most 1")
        document["set"]["mesonet.scale"] = scale
    if duration is not None:
        document["set"]["duration"] = duration
    return tomlkit.dumps(document)


def open_experiment(
    name: str, out: str | Path, *, scale: float | None = None, duration: str | None = None
) -> OpenStudy:
    """The study of an experiment in its directory below `out`, which is made or goes on.

    Raises UsageError, of a directory that was begun with another scale or length as well.
    """
    from dumbbell.studies._running import OpenStudy

    text = study_text(name, scale=scale, duration=duration)
    directory = Path(out) / name.removeprefix("nist-")
    file = directory.with_suffix(".toml")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and scale is None and duration is None:
            text = file.read_text(encoding="utf-8")
        elif file.exists() and directory.exists() and not _same(file, text):
            raise UsageError(f"{file}: this directory has another scale or duration")
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{file}: cannot be written: {reason}") from None
    return OpenStudy.at(file, directory)


def _same(file: Path, text: str) -> bool:
    return tomllib.loads(file.read_text(encoding="utf-8")) == tomllib.loads(text)


def judge(out: str | Path) -> list[Finding]:
    """The findings, on the experiments that `out` has and on single flows."""
    from dumbbell.mesonet import findings, latency
    from dumbbell.mesonet._finding import NOT_TESTABLE
    from dumbbell.studies._store import PLAN_FILE, frame

    names = [name.removeprefix("nist-") for name in EXPERIMENTS]
    present = [name for name in names if (Path(out) / name / PLAN_FILE).is_file()]
    frames = {name: frame(Path(out) / name) for name in present}
    judged = {finding.id: finding for finding in findings.judge(frames)}
    for finding in latency.findings():
        # What the networks show counts, where they show it.
        known = judged.get(finding.id)
        if known is None or known.verdict == NOT_TESTABLE:
            judged[finding.id] = finding
    return sorted(judged.values(), key=lambda finding: int(finding.id.removeprefix("F")))


def section(findings: Sequence[Finding]) -> Section:
    """The findings as a section of a report."""
    from dumbbell.analysis.report import Section
    from dumbbell.mesonet._finding import VERDICTS
    from dumbbell.mesonet.findings import summary_table

    counts = {verdict: sum(f.verdict == verdict for f in findings) for verdict in VERDICTS}
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    reading = f"Of {len(findings)} findings: {listed}."
    return Section("Findings", (reading,), (), {"Findings": summary_table(findings)})
