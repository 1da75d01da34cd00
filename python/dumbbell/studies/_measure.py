"""Run one run of a study and take its responses."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from dumbbell._errors import DumbbellError
from dumbbell._run import Progress, execute, prepare
from dumbbell._scenario import Scenario
from dumbbell.studies._contract import Outcome, Run
from dumbbell.studies.responses import Response, extract


@dataclass(frozen=True, slots=True)
class Measurement:
    """Runs a run and takes these responses; a :data:`~dumbbell.studies._contract.Measure` that can
    be pickled.

    The interpreter is free while the engine runs, unless a controller is written in Python.
    """

    responses: tuple[Response, ...]

    def __call__(self, run: Run, progress: Progress | None = None) -> Outcome:
        """The responses of a run, or the error that it ended with; raises neither.

        `progress` as of :func:`dumbbell.run`: a caller that ends the run by it drops the outcome.
        """
        from dumbbell import _core

        started = time.thread_time()
        try:
            scenario = Scenario.from_dict(run.scenario, directory=Path(run.directory))
            result = execute(prepare(scenario, seed=run.seed), progress)
            responses = extract(result, self.responses)
        except (DumbbellError, _core.ControllerError, _core.InvariantError) as error:
            message = str(error).strip().splitlines()
            seconds = time.thread_time() - started
            return Outcome(
                run, error=message[-1] if message else type(error).__name__, seconds=seconds
            )
        return Outcome(run, responses, seconds=time.thread_time() - started)
