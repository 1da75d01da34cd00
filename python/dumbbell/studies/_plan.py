"""What a study will do: its runs, what its design can tell apart, and how long it takes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dumbbell import _core
from dumbbell._errors import DumbbellError
from dumbbell._results import require_pyarrow
from dumbbell._run import execute, prepare
from dumbbell._scenario import Scenario
from dumbbell.studies._contract import Run
from dumbbell.studies._study import Study
from dumbbell.studies.designs import (
    Design,
    Verification,
    alias,
    defining_words,
    resolution,
    verify,
)
from dumbbell.studies.responses import Response, extract

_PILOT_RUNS = 3
_SHOWN = 8
_PILOT_S = 5.0
"""Longest time that a run of the pilot gets; what is left of it is estimated."""


@dataclass(frozen=True, slots=True)
class Pilot:
    """What a few runs tell: `seconds` of a whole run each, as far as they got; `share`, how far
    that was; responses of those that got to the end; what went wrong, one line each."""

    seconds: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    responses: list[dict[str, float]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def mean_s(self) -> float:
        """Seconds of a run, on average."""
        return math.fsum(self.seconds) / len(self.seconds) if self.seconds else math.nan


@dataclass(frozen=True, slots=True)
class Plan:
    """A study with all that follows from its file. Aliases, words and resolution are None where the
    design has no signs, and words also where there are too many."""

    study: Study
    runs: list[Run]
    design: Design
    verification: Verification
    resolution: int | None = None
    words: list[str] | None = None
    aliases: list[list[str]] | None = None
    pilot: Pilot | None = None

    @property
    def distinct(self) -> int:
        """Number of runs that differ: what has to be run."""
        return len({run.key for run in self.runs})

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        study, pilot = self.study, self.pilot
        return {
            "title": study.title,
            "file": study.file,
            "runs": len(self.runs),
            "distinct": self.distinct,
            "replicates": study.replicates,
            "blocks": len({run.block for run in self.runs} - {0}),
            "factors": study.levels(),
            "design": {
                "kind": self.design.kind,
                "rows": self.design.runs,
                "columns": list(self.design.columns),
                "crossed": list(study.design.cross),
                "balanced": self.verification.balanced,
                "orthogonal": self.verification.orthogonal,
                "distinct": self.verification.distinct,
                "resolution": self.resolution,
                "words": self.words,
                "aliases": self.aliases,
            },
            "pilot": None
            if pilot is None
            else {
                "run_s": pilot.seconds,
                "all_s": pilot.mean_s * self.distinct if pilot.seconds else None,
                "problems": pilot.problems,
            },
            "plan": [
                {
                    "index": run.index,
                    "key": run.key,
                    "factors": run.factors,
                    "replicate": run.replicate,
                    "seed": run.seed,
                    "block": run.block,
                }
                for run in self.runs
            ],
        }


def plan(study: Study, *, with_pilot: bool = True) -> Plan:
    """All runs of a study and what its design can tell apart; `with_pilot` runs three of them, for
    a few seconds each. Raises ScenarioError, UsageError."""
    design = study.build_design()
    runs = study.runs()
    measured = pilot(study, runs) if with_pilot else None
    if design.coding != "signs":
        return Plan(study, runs, design, verify(design), pilot=measured)
    try:
        words = [str(word) for word in defining_words(design)]
    except DumbbellError:
        words = None
    return Plan(
        study,
        runs,
        design,
        verify(design),
        resolution(design),
        words,
        alias(design),
        measured,
    )


def pilot(study: Study, runs: Sequence[Run]) -> Pilot:
    """Run the first, the middle and the last run, each for a few seconds at most, and where there
    are replicates, another one of the first."""
    require_pyarrow("a pilot")  # Loaded before the clock runs.
    result = Pilot()
    last = len(runs) - 1
    places = dict.fromkeys(round(i * last / (_PILOT_RUNS - 1)) for i in range(_PILOT_RUNS))
    first = None
    for place in places:
        values = _try(runs[place], study.measure.responses, result)
        first = values if place == 0 else first
    again = [run for run in runs if run.factors == runs[0].factors and run.seed != runs[0].seed]
    if first and again and _try(again[0], study.measure.responses, result) == first:
        result.problems.append("replicates do not differ: nothing in the scenario is random")
    unknown = [
        name
        for name in (result.responses[0] if result.responses else ())
        if all(math.isnan(values.get(name, math.nan)) for values in result.responses)
    ]
    if unknown:
        shown = ", ".join(unknown[:_SHOWN]) + (", ..." if len(unknown) > _SHOWN else "")
        result.problems.append(f"without a value in each run of the pilot: {shown}")
    return result


def _try(run: Run, responses: Sequence[Response], result: Pilot) -> dict[str, float] | None:
    """Add a run to what the pilot tells; its responses if it got to the end."""
    started, share = time.perf_counter(), 0.0

    def go_on(done: float, _events: int) -> bool:
        nonlocal share
        share = done
        return time.perf_counter() - started < _PILOT_S

    try:
        scenario = Scenario.from_dict(run.scenario, directory=Path(run.directory))
        measured = execute(prepare(scenario, seed=run.seed), go_on)
        values = extract(measured, responses)
    except (DumbbellError, _core.ControllerError, _core.InvariantError) as error:
        result.problems.append(f"run {run.index}: {error}".splitlines()[0])
        return None
    share = 1.0 if measured.complete else max(share, 1e-6)
    result.seconds.append((time.perf_counter() - started) / share)
    result.shares.append(share)
    if not measured.complete:
        return None
    result.responses.append(values)
    return values
