"""The study file: a scenario, what is varied in it, after which design, and what is measured."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from dumbbell._errors import DumbbellError, MissingExtraError, ScenarioError, UsageError, suggest
from dumbbell._run import prepare, preset_file
from dumbbell._scenario import Scenario, _explain, read_toml, show_key, split_key
from dumbbell._scenario_types import Items, Model, fail
from dumbbell.studies._contract import Run
from dumbbell.studies._design_kinds import (
    MOST_RUNS,
    TWO_LEVEL,
    Count,
    DesignField,
    FullDesign,
    Seed,
)
from dumbbell.studies._factors import FactorField, Level, apply, places
from dumbbell.studies._measure import Measurement
from dumbbell.studies.responses import ALL, parse_responses

if TYPE_CHECKING:
    from dumbbell.studies.designs import Design

READY = Path(__file__).parent / "ready"
_CHECK_S = 2.0
"""For so long all conditions are laid out, and then only those with a new level."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A point of the plan: `row` of the design (from 0) with the levels of all factors."""

    row: int
    levels: Mapping[str, Level]
    block: int = 0

    @property
    def labels(self) -> dict[str, Any]:
        """What the levels are called."""
        return {name: level.label for name, level in self.levels.items()}


class Study(Model):
    """A validated study: many runs of a scenario.

    Written as TOML (:meth:`load`), or as a dictionary of the same shape (:meth:`from_dict`).
    """

    title: str = ""
    scenario: str | dict[str, Any]
    """A file relative to the study's, "preset:NAME", or the scenario itself as a table."""
    set_: Annotated[dict[str, Any], Field(alias="set", default_factory=dict)]
    """Values at keys of the scenario that are the same in all runs: { duration = "30s" }."""
    factors: Annotated[dict[str, FactorField], Field(min_length=1)]
    """What is varied, by name; their order is that of the design's columns."""
    design: DesignField = FullDesign(kind="full")
    """How the levels are combined; default: in all ways."""
    replicates: Count = 1
    """How often each condition runs, with other seeds."""
    seed: Seed = 1
    """Seed of the first replicate; the scenario's own is not used."""
    seeds: Literal["common", "distinct"] = "common"
    """common: all conditions of a replicate have the same seed, so that they differ by their levels
    alone; distinct: each run has its own."""
    block: str | Items[str] | None = None
    """"replicate", a factor, or words of two-level factors ("A*B*C"): what tells the blocks."""
    order: Literal["standard", "random"] = "standard"
    """random: within each block, by the seed."""
    responses: str | Items[str] | dict[str, str] = ALL
    """What is measured: metrics or expressions; "all" is the scenario's own or else all metrics."""

    _file: str | None = PrivateAttr(default=None)
    _directory: Path = PrivateAttr(default_factory=Path)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for i, name in enumerate(self.design.cross):
            if name not in self.factors:
                fail(f"no such factor{suggest(name, self.factors)}", f"design.cross[{i}]")
        if not self.columns:
            fail("expected at least one factor that is not crossed", "design.cross")
        for name, factor in self.factors.items():
            inside = name not in self.design.cross
            if inside and self.design.kind in TWO_LEVEL and factor.count() != 2:
                fail(
                    f"expected two levels, for the design is {self.design.kind}", f"factors.{name}"
                )
            for key in factor.keys or (factor.key or name,):
                if key == "seed":
                    fail("the study sets the seed: see replicates and seed", f"factors.{name}")
        return self

    @property
    def file(self) -> str | None:
        """The file that it was read from, for messages."""
        return self._file

    @property
    def directory(self) -> Path:
        """What the scenario's file is relative to."""
        return self._directory

    @property
    def columns(self) -> list[str]:
        """Factors of the design; the others are crossed with it."""
        return [name for name in self.factors if name not in self.design.cross]

    def levels(self) -> dict[str, list[Any]]:
        """What the levels of each factor are called; of a range, its ends."""
        return {
            name: [factor.label(i) for i in range(factor.count())]
            for name, factor in self.factors.items()
        }

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a study file (TOML), or "ready:NAME". Raises ScenarioError, UsageError."""
        if isinstance(path, str) and path.startswith("ready:"):
            path = ready_file(path.removeprefix("ready:"))
        return cls.from_dict(read_toml(path), file=str(path), directory=Path(path).parent)

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], *, file: str | None = None, directory: Path | None = None
    ) -> Self:
        """Validate a dictionary of the shape of the TOML file. Raises ScenarioError."""
        try:
            study = cls.model_validate(data)
        except ValidationError as error:
            raise _explain(error.errors(include_url=False)[0], data).in_file(file) from None
        except RecursionError:
            raise ScenarioError(file=file, expected="tables are nested too deeply") from None
        study._file = file
        study._directory = directory or Path()
        return study

    def error(self, key: str, expected: str, value: object = None) -> ScenarioError:
        """An error about a key of the study's file."""
        return ScenarioError(file=self._file, key=key, value=value, expected=expected)

    @property
    def measure(self) -> Measurement:
        """Runs one run and takes the responses; can be pickled. Raises ScenarioError."""
        try:
            return Measurement(parse_responses(self.responses))
        except UsageError as error:
            raise self.error("responses", str(error)) from None

    def build_design(self) -> Design:
        """The design, without what is crossed with it. Raises ScenarioError, MissingExtraError."""
        try:
            return self.design.build(self, self.columns)
        except UsageError as error:
            raise self.error("design", str(error)) from None
        except ModuleNotFoundError as error:
            if error.name not in ("numpy", "pydoe", "scipy"):
                raise
            raise MissingExtraError("a study", "study") from None

    def conditions(self) -> list[Condition]:
        """The points of the plan: row by row of the design, and in each all levels of the crossed
        factors. Raises ScenarioError."""
        design = self.build_design()
        crossed = [
            [(name, self.factors[name].level(name, i)) for i in range(self.factors[name].count())]
            for name in self.design.cross
        ]
        blocks = _Blocks(self)
        found = []
        for row, inside in enumerate(self._rows(design)):
            for outside in product(*crossed):
                levels = {**inside, **dict(outside)}
                ordered = {name: levels[name] for name in self.factors}
                found.append(Condition(row, ordered, blocks.of(ordered)))
        return found

    def _rows(self, design: Design) -> Iterator[dict[str, Level]]:
        """The levels of each row of the design."""
        columns: list[list[Level]] = []
        indexes = design.index({name: self.factors[name].count() for name in design.columns})
        for column, name in enumerate(design.columns):
            factor = self.factors[name]
            if design.coding == "unit" and factor.is_range:
                columns.append([factor.at(name, place) for place in design.matrix[:, column]])
            else:
                levels = [factor.level(name, i) for i in range(factor.count())]
                columns.append([levels[i] for i in indexes[:, column]])
        for row in zip(*columns, strict=True):
            yield dict(zip(design.columns, row, strict=True))

    def runs(self) -> list[Run]:
        """All runs in the order of the plan, with their scenarios checked.

        Every scenario is validated. What shows only when the network is laid out is looked at for
        each level of each factor, and for all conditions where that takes a few seconds at most.
        Raises ScenarioError, of the factor and level that is wrong.
        """
        conditions = self.conditions()
        if len(conditions) * self.replicates > MOST_RUNS:
            raise self.error("replicates", f"expected at most {MOST_RUNS} runs in all")
        checked = self._checked(conditions)
        planned = [
            (condition, scenario, replicate, self._seed_of(number, replicate, len(conditions)))
            for replicate in range(self.replicates)
            for number, (condition, scenario) in enumerate(zip(conditions, checked, strict=True))
        ]
        by_replicate = self.block == "replicate"
        if self.order == "random":
            random.Random(self.seed).shuffle(planned)
        # A stable sort: blocks one after the other, each in the order that there was.
        planned.sort(key=lambda plan: plan[2] + 1 if by_replicate else plan[0].block)
        return [
            Run(
                index=index,
                key=scenario.key(seed),
                factors=condition.labels,
                replicate=replicate,
                seed=seed,
                block=replicate + 1 if by_replicate else condition.block,
                scenario=scenario.data,
                directory=scenario.directory,
            )
            for index, (condition, scenario, replicate, seed) in enumerate(planned)
        ]

    def _seed_of(self, number: int, replicate: int, conditions: int) -> int:
        if self.seeds == "common":
            return self.seed + replicate
        return self.seed + replicate * conditions + number

    def base(self) -> tuple[dict[str, Any], str | None, Path]:
        """Tables of the scenario, with `set`, its file, and the directory of its trace files.

        Raises ScenarioError.
        """
        file, directory = self._file, self._directory
        if isinstance(self.scenario, dict):
            data = self.scenario
        else:
            path = self._scenario_file(self.scenario)
            data, file, directory = read_toml(path), str(path), path.parent
        try:
            return apply(data, self.set_), file, directory
        except ScenarioError as error:
            raise self.error(f"set.{error.key}", error.expected, error.value) from None

    def _scenario_file(self, name: str) -> Path:
        if not name.startswith("preset:"):
            return self._directory / name
        try:
            return preset_file(name.removeprefix("preset:"))
        except UsageError as error:
            raise self.error("scenario", str(error)) from None

    def _checked(self, conditions: Sequence[Condition]) -> list[_Checked]:
        base, file, directory = self.base()
        deadline = time.monotonic() + _CHECK_S
        files = _Files(directory)
        seen: set[tuple[str, object]] = set()
        found = []
        for condition in conditions:
            levels = set(condition.labels.items())
            changes = {
                k: v for level in condition.levels.values() for k, v in level.changes.items()
            }
            try:
                data = apply(base, changes)
                data.pop("seed", None)
                scenario = Scenario.from_dict(data, directory=directory)
                if not levels <= seen or time.monotonic() < deadline:
                    prepare(scenario)
            except ScenarioError as error:
                raise self._blame(error, condition, base, file) from None
            seen |= levels
            given = scenario.to_dict()
            content = {key: value for key, value in given.items() if key != "title"}
            digest = _digest({"scenario": content, "files": files.of(content)})
            found.append(_Checked(given, str(directory), digest))
        return found

    def _blame(
        self, error: ScenarioError, condition: Condition, base: dict[str, Any], file: str | None
    ) -> DumbbellError:
        """The error, said of the factor whose level is wrong, or of the scenario."""
        for name, level in condition.levels.items():
            keys = [show_key(split_key(p)) for key in level.changes for p in places(base, key)]
            if any(_about(error.key, key) for key in keys or level.changes):
                return self.error(f"factors.{name}", str(error.in_file(None)), level.label)
        for key in self.set_:
            if _about(error.key, key):
                return self.error(f"set.{key}", str(error.in_file(None)))
        with_levels = ", ".join(f"{name} = {label}" for name, label in condition.labels.items())
        expected = f"{error.expected} (with {with_levels})"
        return ScenarioError(file=file, key=error.key, value=error.value, expected=expected)


@dataclass(frozen=True, slots=True)
class _Checked:
    """A scenario of the plan, as given, and the hash of it and of the files that it names."""

    data: dict[str, Any]
    directory: str
    digest: str

    def key(self, seed: int) -> str:
        from dumbbell import __version__

        return _digest({"scenario": self.digest, "seed": seed, "version": __version__})[:16]


class _Files:
    """Hashes of the files that scenarios name: traces and graphs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, str] = {}

    def of(self, node: Any) -> dict[str, str]:
        """Hashes by name, for all files in these tables."""
        if isinstance(node, list):
            return {name: digest for item in node for name, digest in self.of(item).items()}
        if not isinstance(node, dict):
            return {}
        found = {}
        for key, value in node.items():
            if key in ("trace", "file") and isinstance(value, str):
                found[value] = self._digest(value)
            else:
                found |= self.of(value)
        return found

    def _digest(self, name: str) -> str:
        if name not in self._known:
            content = (self._directory / name).read_bytes()
            self._known[name] = hashlib.sha256(content).hexdigest()
        return self._known[name]


def _digest(document: Any) -> str:
    """SHA-256 of the canonical JSON of a document."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _about(key: str, changed: str) -> bool:
    """Whether one key is inside the other."""
    short, long = sorted((split_key(key), split_key(changed)), key=len)
    return key != "" and long[: len(short)] == short


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Numbers blocks from 1, in the order of the levels that tell them."""

    study: Study
    words: list[list[str]] = field(init=False)

    def __post_init__(self) -> None:
        from dumbbell.studies.designs import parse_word

        block, factors = self.study.block, list(self.study.factors)
        texts = [block] if isinstance(block, str) else list(block or ())
        words = []
        for text in [] if texts == ["replicate"] else texts:
            try:
                names = [text] if text in factors else list(parse_word(text, factors)[1])
            except UsageError as error:
                raise self.study.error("block", str(error)) from None
            for name in names if len(names) > 1 else ():
                if self.study.factors[name].count() != 2:
                    raise self.study.error("block", f"{name} has not two levels", text)
            words.append(names)
        object.__setattr__(self, "words", words)

    def of(self, levels: Mapping[str, Level]) -> int:
        """The block of a condition, 0 without blocks."""
        number = 0
        for names in self.words:
            indexes = [self._index(name, levels[name]) for name in names]
            count = self.study.factors[names[0]].count() if len(names) == 1 else 2
            number = number * count + (indexes[0] if len(names) == 1 else sum(indexes) % 2)
        return number + 1 if self.words else 0

    def _index(self, name: str, level: Level) -> int:
        labels = self.study.levels()[name]
        if level.label not in labels:
            raise self.study.error("block", f"{name} has no levels but a range")
        return labels.index(level.label)


def ready_studies() -> dict[str, Path]:
    """Files of the ready studies by name."""
    return {path.stem: path for path in sorted(READY.glob("*.toml"))}


def ready_file(name: str) -> Path:
    """File of a ready study. Raises UsageError."""
    known = ready_studies()
    if name not in known:
        raise UsageError(f'ready study "{name}": there is no such study{suggest(name, known)}')
    return known[name]
