"""Run one scenario."""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dumbbell._advice import warnings
from dumbbell._errors import BackendError, ScenarioError, UsageError, suggest
from dumbbell._plugins import (
    ControllerClass,
    ControllerFactory,
    Factory,
    is_controller_class,
    plugins,
)
from dumbbell._registry import builtin
from dumbbell._resolve import resolve
from dumbbell._results import Result, is_result, require_pyarrow
from dumbbell._scenario import Scenario
from dumbbell.mesonet._parameters import Mesonet

if TYPE_CHECKING:
    from collections.abc import Iterator

Progress = Callable[[float, int], bool]
"""Called with the fraction done and the number of events; False ends the run there."""

Controllers = Mapping[str, ControllerFactory]

BACKENDS = {
    "sim": "virtual time, packet by packet",
    "fluid": "virtual time, aggregated per round trip",
    "live": "real time, through a TUN device",
    "kernel": "real time, Linux' own tc in namespaces",
    "wire": "real time, our transports over UDP",
}
PRESETS = Path(__file__).parent / "presets"
_PYTHON = "python:"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that is ready to start: the scenario, the engine's configuration of it, and what
    probably makes it show something else than meant, one line each."""

    scenario: dict[str, Any]
    config: dict[str, Any]
    source: dict[str, Any] = field(default_factory=dict)
    controllers: Controllers = field(default_factory=dict)
    warnings: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "warnings", warnings(self.config, builtin()))


def run(
    scenario: Scenario | Result | Mapping[str, Any] | str | Path,
    *,
    seed: int | None = None,
    backend: str = "sim",
    controllers: Controllers | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run a scenario and return its result.

    `scenario` is a Scenario, a dictionary of the same shape, the path of a TOML file,
    "preset:NAME", or a result (or its directory), which runs again exactly as it did.
    `controllers` maps further names for `cc` to classes of controllers (CongestionControl,
    dumbbell.compiled.CompiledControl or, for media, MediaControl), or to callables that take the
    parameters and return one.

    Raises ScenarioError for a wrong scenario, UsageError for wrong arguments, BackendError where
    the backend cannot run, ControllerError if a controller written in Python failed (its `partial`
    is the result up to there) and InvariantError for a defect of dumbbell.
    """
    check_backend(backend)
    return execute(prepare(scenario, seed=seed, controllers=controllers), progress)


def check_backend(backend: str) -> None:
    """Raise UsageError or BackendError unless the backend can run."""
    if backend not in BACKENDS:
        raise UsageError(f'backend "{backend}"{suggest(backend, BACKENDS)}')
    if backend != "sim":
        raise BackendError(f"backend {backend} ({BACKENDS[backend]}) is not available yet; use sim")


def load_scenario(scenario: Scenario | Mapping[str, Any] | str | Path) -> Scenario:
    """A scenario from what :func:`run` takes, except results. Raises ScenarioError."""
    if isinstance(scenario, Scenario):
        return scenario
    if isinstance(scenario, Mapping):
        return Scenario.from_dict(scenario)
    if isinstance(scenario, str) and scenario.startswith("preset:"):
        return Scenario.load(preset_file(scenario.removeprefix("preset:")))
    return Scenario.load(scenario)


def presets() -> dict[str, Path]:
    """Files of the presets by name."""
    return {path.stem: path for path in sorted(PRESETS.glob("*.toml"))}


def preset_file(name: str) -> Path:
    """File of a preset. Raises UsageError."""
    known = presets()
    if name not in known:
        raise UsageError(f'preset "{name}": there is no such preset{suggest(name, known)}')
    return known[name]


def load_source(path: str | Path) -> Scenario | Result:
    """A result if the path is one, else a scenario. Raises ResultError, ScenarioError."""
    return Result.load(path) if is_result(path) else load_scenario(path)


def scenario_of(result: Result) -> Scenario:
    """The scenario of a result, with trace files where they were. Raises ScenarioError."""
    directory = result.source.get("directory", ".")
    return Scenario.from_dict(
        result.summary["scenario"], file=result.source.get("file"), directory=Path(directory)
    )


def prepare(
    scenario: Scenario | Result | Mapping[str, Any] | str | Path,
    *,
    seed: int | None = None,
    controllers: Controllers | None = None,
) -> Prepared:
    """Check everything that can be checked before a run. Raises ScenarioError, UsageError."""
    if seed is not None and not 0 <= seed < 2**63:
        raise UsageError(f"seed {seed}: expected a whole number from 0 to {2**63 - 1}")
    if isinstance(scenario, str | Path):
        scenario = load_source(scenario)
    if isinstance(scenario, Result):
        config = {**scenario.config, "seed": scenario.config["seed"] if seed is None else seed}
        custom = _custom_controllers(scenario_of(scenario), controllers or {})
        return Prepared(scenario.summary["scenario"], config, scenario.source, custom)
    scenario = load_scenario(scenario)
    custom = _custom_controllers(scenario, controllers or {})
    config = resolve(scenario, builtin().with_custom(frozenset(custom)))
    if seed is not None:
        config["seed"] = seed
    source = {"file": scenario.file, "directory": str(scenario.directory.absolute())}
    return Prepared(scenario.to_dict(), config, source, custom)


def execute(prepared: Prepared, progress: Progress | None = None) -> Result:
    """Run what was prepared. Raises as :func:`run`."""
    from dumbbell import _core

    if "mesonet" in prepared.scenario:
        require_pyarrow("the responses of [mesonet]")
    text = json.dumps(prepared.config, separators=(",", ":"))
    started = time.perf_counter()
    try:
        output = _core.run(text, prepared.controllers or None, progress)
    except _core.ConfigError as error:
        raise ScenarioError(
            file=prepared.source.get("file"), key=error.key, expected=error.message
        ) from None
    except _core.ControllerError as error:
        # What the engine had recorded, as the kind of result that a caller knows.
        partial: Any = _result(prepared, error.partial, time.perf_counter() - started)
        error.partial = partial
        raise
    return _result(prepared, output, time.perf_counter() - started)


def _result(prepared: Prepared, output: Any, wall_s: float) -> Result:
    from dumbbell import _core

    summary = json.loads(output.summary_json())
    summary["totals"]["wall_s"] = wall_s
    summary["totals"]["peak_rss_bytes"] = _peak_rss_bytes()
    head = {
        "scenario": prepared.scenario,
        "seed": prepared.config["seed"],
        "version": _core.version(),
        "backend": "sim",
    }
    summary["warnings"] = prepared.warnings
    if "mesonet" in prepared.scenario:
        from dumbbell.mesonet._responses import responses

        mesonet = Mesonet.model_validate(prepared.scenario["mesonet"])
        summary["responses"] = responses(mesonet, prepared.config, output.table)
    return Result({**head, **summary}, prepared.config, output, source=prepared.source)


def _peak_rss_bytes() -> int:
    """Largest resident set of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _custom_controllers(scenario: Scenario, given: Controllers) -> Controllers:
    """What was handed in, classes that the scenario names as `python:module:Class`, and what other
    packages bring."""
    found: dict[str, ControllerFactory] = {
        name: Factory(make) if isinstance(make, type) else make for name, make in given.items()
    }
    known = builtin().all_controllers
    for key, name in _named_controllers(scenario):
        if name in found or name in known:
            continue
        if (controller := controller_class(name, key, scenario)) is not None:
            found[name] = Factory(controller)
        elif plugins():
            names = [*known, *given, *plugins()]
            raise ScenarioError(
                file=scenario.file,
                key=key,
                value=name,
                expected=f"expected the name of a controller{suggest(name, names)}",
            )
    return found


def controller_class(name: str, key: str, scenario: Scenario) -> ControllerClass | None:
    """The class that a scenario names as `python:module:Class` or that a package registers, None if
    there is none of that name. Raises ScenarioError for one that cannot be loaded."""
    if name.startswith(_PYTHON):
        return _import_controller(name, key, scenario)
    plugin = plugins().get(name)
    try:
        return None if plugin is None else plugin.load()
    except UsageError as error:
        raise ScenarioError(
            file=scenario.file, key=key, value=name, expected=str(error)
        ) from error.__cause__


def _named_controllers(scenario: Scenario) -> list[tuple[str, str]]:
    """Keys and names of the controllers that a scenario uses."""
    flows = enumerate(scenario.flows)
    found = [(f"flows[{i}].cc", flow.controller) for i, flow in flows if flow.controller]
    if scenario.mesonet is not None:
        found += scenario.mesonet.controllers
    return found


def _import_controller(name: str, key: str, scenario: Scenario) -> ControllerClass:
    def wrong(expected: str) -> ScenarioError:
        return ScenarioError(file=scenario.file, key=key, value=name, expected=expected)

    module_name, _, class_name = name.removeprefix(_PYTHON).partition(":")
    if not module_name or not class_name:
        raise wrong("expected python:MODULE:CLASS")
    with _import_path(scenario.directory):
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            reason = str(error).splitlines() or [type(error).__name__]
            raise wrong(f"the module cannot be imported: {reason[0]}") from error
    found = getattr(module, class_name, None)
    if not is_controller_class(found):
        raise wrong(
            "expected a subclass of CongestionControl, CompiledControl or MediaControl in module "
            f"{module_name}"
        )
    return found


@contextmanager
def _import_path(directory: Path) -> Iterator[None]:
    """A scenario's own directory may hold the module."""
    entry = str(directory.absolute())
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
