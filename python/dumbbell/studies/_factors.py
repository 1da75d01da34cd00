"""Factors of a study: what they change in its scenario, and their levels."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dumbbell._errors import show_value
from dumbbell._scenario import _descend, set_key, show_key, split_key
from dumbbell._scenario_types import Items, Model, fail
from dumbbell._units import _split

_WHOLE_UNITS = ("B", "p", "pkt", "packets", "ns", "bit")


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a factor: what it is called in tables, and what it puts at which keys."""

    label: str | int | float | bool
    changes: Mapping[str, Any]


class Factor(Model):
    """What is varied: levels, or a range from `low` to `high`."""

    key: Annotated[str, Field(min_length=1)] | None = None
    """Where the level goes in the scenario: "path.rate", "flows[0].cc", "flows[*].cc" (all).
    Default: the factor's name."""
    keys: Annotated[Items[str], Field(min_length=1)] | None = None
    """Several places that get the same level."""
    levels: Items[Any] | None = None
    """Values. Without `key` and `keys`, each may be a table of keys and values:
    { "path.rate" = "10Mbit", "path.rtt" = "20ms" }."""
    labels: Items[str] | None = None
    """What the levels are called in tables; default: their values."""
    low: str | int | float | None = None
    """One end of a range. Designs at two levels take both ends as levels."""
    high: str | int | float | None = None
    """The other end, with the same unit."""
    scale: Literal["linear", "log"] = "linear"
    """How a range is divided."""
    whole: bool = False
    """Only whole numbers (of the unit) in a range."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.key is not None and self.keys is not None:
            fail("expected either key or keys", "keys")
        if (self.levels is None) == (self.low is None and self.high is None):
            fail("expected either levels, or low and high", "levels")
        if self.levels is not None:
            self._check_levels(self.levels)
        else:
            self._check_range()
        return self

    def _check_levels(self, levels: Sequence[Any]) -> None:
        if len(levels) < 2:
            fail("expected at least two levels", "levels")
        if self.labels is not None and len(self.labels) != len(levels):
            fail(f"expected {len(levels)} labels, one a level", "labels")
        shown = [str(self.label(i)) for i in range(len(levels))]
        for i, label in enumerate(shown):
            if label in shown[:i]:
                fail(
                    "there is such a level already", f"{'labels' if self.labels else 'levels'}[{i}]"
                )
        tables = [isinstance(level, dict) and bool(level) for level in levels]
        if self.key is None and self.keys is None and any(tables) and not all(tables):
            fail("expected a table of keys and values, as the other levels", "levels[0]")

    def _check_range(self) -> None:
        ends = []
        for name in ("low", "high"):
            value = getattr(self, name)
            if value is None:
                fail("missing; expected the other end of the range", name)
            try:
                ends.append(_quantity(value))
            except ValueError as error:
                fail(str(error), name)
        (low, unit), (high, other) = ends
        if unit != other:
            fail(f"expected the same unit as low: {unit or 'none'}", "high")
        if not math.isfinite(low) or not math.isfinite(high) or low >= high:
            fail("expected more than low", "high")
        if self.scale == "log" and low <= 0:
            fail("expected more than 0, for scale is log", "low")

    @property
    def is_range(self) -> bool:
        return self.levels is None

    def count(self) -> int:
        """Number of levels; of a range its ends."""
        return 2 if self.levels is None else len(self.levels)

    def label(self, index: int) -> str | int | float | bool:
        """What a level is called in tables."""
        if self.levels is None:
            return _plain((self.low, self.high)[index])
        if self.labels is not None:
            return self.labels[index]
        return _plain(self.levels[index])

    def level(self, name: str, index: int) -> Level:
        """The level of this index of the factor called `name`."""
        value = (self.low, self.high)[index] if self.levels is None else self.levels[index]
        if self.key is None and self.keys is None and isinstance(value, dict):
            return Level(self.label(index), value)
        return Level(self.label(index), dict.fromkeys(self._places(name), value))

    def at(self, name: str, place: float) -> Level:
        """The value of a range at `place` from 0 to 1."""
        value = self._between(place)
        return Level(value, dict.fromkeys(self._places(name), value))

    def _places(self, name: str) -> Sequence[str]:
        return self.keys or (self.key or name,)

    def _between(self, place: float) -> str | int | float:
        (low, unit), (high, _) = _quantity(self.low), _quantity(self.high)
        log = self.scale == "log"
        value = low * (high / low) ** place if log else low + (high - low) * place
        if self.whole or unit in _WHOLE_UNITS:
            return f"{round(value)}{unit}" if unit else round(value)
        # Six digits: more would only be noise in tables.
        number = float(f"{value:.6g}")
        return f"{number:.12f}".rstrip("0").rstrip(".") + unit if unit else number


def _quantity(value: object) -> tuple[float, str]:
    """A number and its unit, "" for a plain number. Raises ValueError."""
    expected = "expected a number, or a quantity with unit"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), ""
    number, unit = _split(value, expected)
    if not unit:
        raise ValueError(expected)
    return float(number), unit


def _short(value: Any) -> Any:
    return {"levels": value} if isinstance(value, list) else value


FactorField = Annotated[Factor, BeforeValidator(_short, json_schema_input_type=Any)]
"""A factor; a list is short for its levels."""


def _plain(value: Any) -> str | int | float | bool:
    """A value as one word of a table."""
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict):
        parts = [
            f"{_plain(item)}" if key == "kind" else f"{key}={_plain(item)}"
            for key, item in value.items()
        ]
        return " ".join(parts)
    return show_value(value)


def apply(data: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a scenario's tables with these values. Raises ScenarioError."""
    data = copy.deepcopy(data)
    for key, value in changes.items():
        for place in places(data, key):
            set_key(data, place, copy.deepcopy(value))
    return data


def places(data: Any, key: str) -> list[str]:
    """The key, or those that it stands for where an index is `*`."""
    found: list[list[str | int]] = [[]]
    for part in split_key(key):
        if part != "*":
            found = [[*parts, part] for parts in found]
            continue
        lists = [(parts, _descend(data, parts)) for parts in found]
        found = [
            [*parts, i]
            for parts, items in lists
            if isinstance(items, list)
            for i in range(len(items))
        ]
    return [show_key(parts) for parts in found]
