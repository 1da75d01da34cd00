"""dumbbell: a congestion-control laboratory.

>>> import dumbbell
>>> scenario = dumbbell.Scenario.from_dict({
...     "duration": "10s",
...     "path": {"rate": "10Mbit", "rtt": "40ms"},
...     "flows": [{"cc": "cubic"}],
... })
>>> scenario.path.rate
10000000
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dumbbell._compare import Comparison, compare
    from dumbbell._core import ControllerError, InvariantError
    from dumbbell._errors import (
        BackendError,
        DumbbellError,
        MissingExtraError,
        ResultError,
        ScenarioError,
        UsageError,
    )
    from dumbbell._results import Result
    from dumbbell._run import run
    from dumbbell._scenario import Scenario
    from dumbbell.control import CongestionControl
    from dumbbell.media import MediaControl

__version__ = "0.1.0"

__all__ = [
    "BackendError",
    "Comparison",
    "CongestionControl",
    "ControllerError",
    "DumbbellError",
    "InvariantError",
    "MediaControl",
    "MissingExtraError",
    "Result",
    "ResultError",
    "Scenario",
    "ScenarioError",
    "UsageError",
    "compare",
    "run",
]

_HOMES = {
    "dumbbell._compare": ("Comparison", "compare"),
    "dumbbell._core": ("ControllerError", "InvariantError"),
    "dumbbell._errors": (
        "BackendError",
        "DumbbellError",
        "MissingExtraError",
        "ResultError",
        "ScenarioError",
        "UsageError",
    ),
    "dumbbell._results": ("Result",),
    "dumbbell._run": ("run",),
    "dumbbell._scenario": ("Scenario",),
    "dumbbell.control": ("CongestionControl",),
    "dumbbell.media": ("MediaControl",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Imported when first used: the command line must not pay for all of it before it says --help.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'dumbbell' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
