"""Studies: many runs of a scenario after a design of experiments."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dumbbell.studies._contract import Executor, Measure, Outcome, Run
    from dumbbell.studies._executors import Processes, Ray, Threads
    from dumbbell.studies._running import Shard, run_study
    from dumbbell.studies._store import Store, frame
    from dumbbell.studies._study import Study

__all__ = [
    "Executor",
    "Measure",
    "Outcome",
    "Processes",
    "Ray",
    "Run",
    "Shard",
    "Store",
    "Study",
    "Threads",
    "frame",
    "run_study",
]

_HOMES = {
    "dumbbell.studies._contract": ("Executor", "Measure", "Outcome", "Run"),
    "dumbbell.studies._executors": ("Processes", "Ray", "Threads"),
    "dumbbell.studies._running": ("Shard", "run_study"),
    "dumbbell.studies._store": ("Store", "frame"),
    "dumbbell.studies._study": ("Study",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Imported when first used: a study pulls in more than a scenario needs.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'dumbbell.studies' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
