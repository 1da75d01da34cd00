"""A case: a public report, the scenario that replays it and the checks that must hold.

The assertion language is this module's models; `_cases_measure` gives them their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from dumbbell._errors import ScenarioError
from dumbbell._scenario import Scenario, _explain, read_toml
from dumbbell._scenario_types import Items, Model, Time, fail
from dumbbell._units import parse_rate, parse_time

Statistic = Literal[
    "min", "max", "mean", "sum", "count", "first", "last", "std",
    "p01", "p05", "p50", "p95", "p99",
    "min_step", "mean_step", "max_step", "p05_step", "p50_step", "p95_step",
    "min_ratio", "max_ratio", "min_step_ratio", "max_step_ratio",
]  # fmt: skip
"""step: differences of consecutive rows; ratio: quotients of consecutive rows; step_ratio:
quotients of consecutive steps."""

_Text = Annotated[str, Field(min_length=1)]
_Number = Annotated[float, Field(strict=False, allow_inf_nan=False)]

_TIME_UNITS = {"s": 10**9, "ms": 10**6, "ns": 1}
_RATE_UNITS = {"bit/s": 1}
_SUFFIX_UNITS = {"_bps": "bit/s", "_ms": "ms", "_ns": "ns", "_s": "s", "_bytes": "bytes"}
_NAMED_UNITS = {
    "t": "s",
    "cwnd": "segments",
    "cwnd_mean": "segments",
    "cwnd_max": "segments",
    "ssthresh": "segments",
    "inflight": "segments",
    "queue_packets": "packets",
}
_DISTRIBUTIONS = ("mean", "p50", "p95", "p99", "max")


class Range(Model):
    """Rows whose number is in a range."""

    at_least: _Number | None = None
    at_most: _Number | None = None


class Measure(Model):
    """One number of a run: from the summary, from a table, or a constant."""

    summary: _Text | None = None
    """Key of the summary; an item of a list is `[0]`, `[its id]`, or `[*]` for the sum of all."""
    table: _Text | None = None
    column: _Text | None = None
    where: Annotated[dict[str, str | _Number | Range], Field(default_factory=dict)]
    """Rows of the table to use: name = value or a range."""
    phase: _Text | None = None
    """Rows at whose time the flow, that of `where`, is in this phase."""
    from_: Annotated[Time, Field(alias="from")] = 0
    to: Time | None = None
    """Rows from `from` up to, not including, `to`."""
    statistic: Statistic | None = None
    value: _Number | None = None
    """A constant."""
    variant: _Text | None = None
    """Take it from this variant, not from the one that is checked."""
    scale: _Number = 1.0
    """Factor, for instance 8 to make bits of bytes."""
    minus: Measure | None = None
    over: Measure | None = None
    """Divide by another measure."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        given = [name for name in ("summary", "table", "value") if getattr(self, name) is not None]
        if len(given) != 1:
            fail("expected one of summary, table or value", given[-1] if given else "summary")
        if self.table is None:
            for name in ("column", "statistic", "phase", "to"):
                if getattr(self, name) is not None:
                    fail("needs a table", name)
        else:
            for name in ("column", "statistic"):
                if getattr(self, name) is None:
                    fail("missing; a table needs it", name)
            if self.phase is not None and "flow" not in self.where:
                fail("needs where.flow", "phase")
        return self

    @property
    def unit(self) -> str:
        """Unit of the measured number, from the name of what is measured; "" if it has none."""
        if self.over is not None or self.scale != 1.0:
            return ""
        if self.statistic is not None and (self.statistic == "count" or "ratio" in self.statistic):
            return ""
        name = self.column or self.summary or ""
        parts = [part for part in re.split(r"[.\[\]]+", name) if part]
        if len(parts) > 1 and parts[-1] in _DISTRIBUTIONS:
            parts.pop()
        last = parts[-1] if parts else ""
        for suffix, unit in _SUFFIX_UNITS.items():
            if last.endswith(suffix):
                return unit
        return _NAMED_UNITS.get(last, "")


class Check(Measure):
    """A measure and its bounds, inclusive. Times and rates are bounded by text with a unit."""

    name: _Text
    at_least: str | _Number | None = None
    at_most: str | _Number | None = None
    equals: str | _Number | None = None
    reads: str | None = None
    """Text that stands at the key of the summary."""
    within: _Number = 0.0
    """Relative tolerance of `equals`."""
    variants: Items[_Text] = ()
    """Variants that it holds for; default: all."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Fraction of the seeds that must pass."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        given = [n for n in ("at_least", "at_most", "equals") if getattr(self, n) is not None]
        if self.reads is not None:
            if self.summary is None or given or self.minus or self.over:
                fail("goes with a summary and nothing else", "reads")
            return self
        if not given or ("equals" in given and len(given) > 1):
            fail("expected equals, or at_least, at_most or both", given[0] if given else "at_least")
        for name in given:
            try:
                bound(getattr(self, name), self.unit)
            except ValueError as error:
                fail(str(error), name)
        return self

    def bounds(self) -> tuple[float | None, float | None]:
        """Lowest and highest value that pass, in the measure's unit."""
        if self.equals is not None:
            exact = bound(self.equals, self.unit)
            margin = abs(exact) * self.within
            return exact - margin, exact + margin
        low = None if self.at_least is None else bound(self.at_least, self.unit)
        high = None if self.at_most is None else bound(self.at_most, self.unit)
        return low, high


def bound(value: str | float, unit: str) -> float:
    """A bound as a number in a measure's unit. Raises ValueError, with what was expected."""
    if unit in _TIME_UNITS:
        return float(Fraction(parse_time(value), _TIME_UNITS[unit]))
    if unit in _RATE_UNITS:
        return float(parse_rate(value))
    if isinstance(value, str):
        raise ValueError(f"expected a number of {unit}" if unit else "expected a number")
    return float(value)


class Variant(Model):
    """The scenario with other values."""

    name: _Text
    set: Annotated[dict[str, Any], Field(default_factory=dict)]
    """Dotted keys of the scenario and their values."""


class TestReference(Model):
    """A test of the repository that covers what no scenario can see."""

    __test__ = False  # not a test class of pytest

    kind: Literal["cargo-test", "pytest"]
    file: _Text
    """Path in the repository."""
    name: _Text
    shows: _Text

    def exists(self, root: Path) -> bool:
        """Whether the repository at `root` has this test, and runs it."""
        try:
            text = (root / self.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return False
        name = re.escape(self.name)
        if self.kind == "pytest":
            return re.search(rf"^(?:async )?def {name}\(", text, re.M) is not None
        found = re.search(rf"((?:^[ \t]*(?:#\[|///).*\n)+)[ \t]*fn {name}\(", text, re.M)
        return found is not None and "#[test]" in found[1] and "#[ignore" not in found[1]


class Case(Model):
    """A row of the list of public reports."""

    title: _Text
    source: _Text
    """The public report, `owner/repository#number`, or the RFC."""
    why: _Text
    """What went wrong there, and what is right."""
    note: str = ""
    """What of the report this case does not cover."""
    scenario: Annotated[dict[str, Any] | None, Field(default=None)]
    seeds: Annotated[int, Field(ge=1, le=1000)] = 1
    """Runs with so many seeds, from the scenario's own upwards."""
    variants: Items[Variant] = ()
    checks: Items[Check] = ()
    tests: Items[TestReference] = ()

    _name: str = PrivateAttr(default="")
    _file: Path = PrivateAttr(default_factory=Path)
    _scenarios: dict[str, Scenario] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.scenario is None and not self.tests:
            fail("missing; expected a [scenario] with [[checks]], or [[tests]]", "scenario")
        if self.scenario is None and self.checks:
            fail("a check needs a [scenario]", "checks")
        if self.scenario is not None and not self.checks:
            fail("missing; a scenario needs at least one of [[checks]]", "checks")
        names = [variant.name for variant in self.variants]
        for i, name in enumerate(names):
            if name in names[:i]:
                fail("there is such a variant already", f"variants[{i}].name")
        for i, check in enumerate(self.checks):
            for name in [*check.variants, *_named_variants(check)]:
                if name not in names:
                    fail(f'there is no variant "{name}"', f"checks[{i}]")
        return self

    @property
    def name(self) -> str:
        return self._name

    @property
    def file(self) -> Path:
        return self._file

    @property
    def scenarios(self) -> Mapping[str, Scenario]:
        """The scenario of each variant by its name; of the only one under ""."""
        return self._scenarios

    @classmethod
    def load(cls, path: Path) -> Case:
        """Read a case. Raises ScenarioError."""
        data = read_toml(path)
        try:
            case = cls.model_validate(data)
        except ValidationError as error:
            raise _explain(error.errors(include_url=False)[0], data).in_file(str(path)) from None
        case._name, case._file = path.stem, path
        if case.scenario is not None:
            base = Scenario.from_dict(case.scenario, file=str(path), directory=path.parent)
            for variant in case.variants or (Variant(name="only", set={}),):
                name = variant.name if case.variants else ""
                case._scenarios[name] = base.replaced(variant.set) if variant.set else base
        return case


def _named_variants(measure: Measure) -> list[str]:
    """Variants that a measure, or one that it is made from, is taken from."""
    names = [measure.variant] if measure.variant else []
    for part in (measure.minus, measure.over):
        names += _named_variants(part) if part is not None else []
    return names


def wrong(case: Case, key: str, expected: str) -> ScenarioError:
    """An error in a case that only shows when it runs."""
    return ScenarioError(file=str(case.file), key=key, expected=expected)
