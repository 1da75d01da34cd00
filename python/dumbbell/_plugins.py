"""Controllers that are not built in: classes, and those that installed packages register.

A package registers a class under the entry-point group `dumbbell.controllers`. It is loaded when a
scenario names it or when it is listed.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeGuard

from dumbbell._errors import UsageError
from dumbbell._registry import Entry, Param, builtin
from dumbbell.compiled import CompiledControl
from dumbbell.control import CongestionControl
from dumbbell.media import MediaControl

GROUP = "dumbbell.controllers"

Control = CongestionControl | CompiledControl | MediaControl
ControllerClass = type[CongestionControl] | type[CompiledControl] | type[MediaControl]
ControllerFactory = Callable[[dict[str, Any]], Control]


def is_controller_class(value: object) -> TypeGuard[ControllerClass]:
    """Whether `value` is a subclass of one of the base classes."""
    return isinstance(value, type) and issubclass(value, Control)


class Factory:
    """Makes controllers of a class from a scenario's parameters.

    `compiled` tells the engine that it may release the interpreter's lock.
    """

    def __init__(self, controller: Callable[..., Control]) -> None:
        self.controller = controller
        self.compiled = bool(getattr(controller, "compiled", False))

    def __call__(self, params: dict[str, Any]) -> Control:
        return self.controller(**params)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A registered name. `problem` says why it cannot be used whatever it loads."""

    name: str
    package: str
    entry_points: tuple[EntryPoint, ...]
    problem: str = ""

    def load(self) -> ControllerClass:
        """The class. Raises UsageError, one line."""
        where = f'controller "{self.name}" of package {self.package}'
        if self.problem:
            raise UsageError(f"{where}: {self.problem}")
        try:
            found = self.entry_points[0].load()
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0] or type(error).__name__
            raise UsageError(f"{where}: cannot be loaded: {reason}") from error
        if not is_controller_class(found):
            raise UsageError(
                f"{where}: expected a subclass of CongestionControl, CompiledControl or "
                f"MediaControl, "
                f"got {getattr(found, '__name__', repr(found))}"
            )
        return found

    def entry(self) -> Entry:
        """What `dumbbell list` says of it. Raises UsageError."""
        controller = self.load()
        summary = (inspect.getdoc(controller) or "").partition("\n")[0].rstrip(".")
        return Entry(
            name=self.name,
            summary=summary or controller.__name__,
            source=f"package {self.package}",
            params=tuple(_params(controller)),
            signals=tuple(getattr(controller, "signals", ())),
        )


@functools.cache
def plugins() -> dict[str, Plugin]:
    """All registered names, in order."""
    points: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        points.setdefault(point.name, []).append(point)
    return {name: _plugin(name, points[name]) for name in sorted(points)}


def _plugin(name: str, points: list[EntryPoint]) -> Plugin:
    packages = sorted({_package(point) for point in points})
    problem = ""
    if name in builtin().all_controllers:
        problem = "refused: a built-in controller has that name"
    elif len({point.value for point in points}) > 1:
        problem = "refused: the name is registered more than once"
    return Plugin(name, " and ".join(packages), tuple(points), problem)


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"


def listing() -> tuple[list[Entry], list[str]]:
    """What can be used, and a line for each name that cannot."""
    entries, problems = [], []
    for plugin in plugins().values():
        try:
            entries.append(plugin.entry())
        except UsageError as error:
            problems.append(str(error))
    return entries, problems


def _params(controller: ControllerClass) -> list[Param]:
    """Attributes that a scenario may set: plain values that the class declares beyond its base."""
    bases = (CompiledControl, CongestionControl, MediaControl)
    base = next(base for base in bases if issubclass(controller, base))
    names: dict[str, None] = {}
    for cls in reversed(controller.__mro__):
        if cls is not base and issubclass(cls, base):
            names |= dict.fromkeys(vars(cls))
    params = []
    for name in names:
        value = getattr(controller, name)
        if name.startswith("_") or name == "signals" or hasattr(base, name):
            continue
        if isinstance(value, bool):
            params.append(Param(name, "bool", value, ""))
        elif isinstance(value, int | float) and math.isfinite(value):
            params.append(Param(name, "number", value, ""))
    return params
