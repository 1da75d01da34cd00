"""Studies: many runs of a scenario after a design of experiments."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dumbbell.studies._contract import Executor, Measure, Outcome, Run
    from dumbbell.studies._study import Study

__all__ = ["Executor", "Measure", "Outcome", "Run", "Study"]

_HOMES = {
    "dumbbell.studies._contract": ("Executor", "Measure", "Outcome", "Run"),
    "dumbbell.studies._study": ("Study",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Imported when first used: a study pulls in more than a scenario needs.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'dumbbell.studies' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
