"""What a study is made of: the runs that a plan lists, and what running one gives."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a study.

    `key` is the content address: a hash of the scenario, the seed and the version of dumbbell.
    `factors` has the level of each factor by name, as written in the study file; `block` the block
    it belongs to, 0 where there is none.
    """

    index: int
    key: str
    factors: dict[str, Any]
    replicate: int
    seed: int
    block: int
    scenario: dict[str, Any] = field(repr=False)
    directory: str = "."
    """What trace files in the scenario are relative to."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run: its responses by name, or the error that ended it."""

    run: Run
    responses: dict[str, float] = field(default_factory=dict)
    error: str | None = None
    seconds: float = 0.0
    """Processor time."""


Measure = Callable[[Run], Outcome]
"""Runs one run; never raises for what a scenario can do wrong."""


class Executor(Protocol):
    """Where runs are done. Takes runs as there is room for them and yields outcomes as they come,
    in any order; closing the generator cancels what has not begun and ends what has."""

    def outcomes(self, measure: Measure, runs: Iterable[Run]) -> Generator[Outcome, None, None]: ...
