"""Users of a flow's traffic: who thinks, transfers a file, thinks again, and what is recorded."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dumbbell._errors import suggest
from dumbbell._scenario_laws import SizeLaw, TimeLaw
from dumbbell._scenario_types import Fraction, Items, Model, Name, PositiveTime, Span, Time, fail

Weight = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


def _pareto(mean: str) -> dict[str, Any]:
    return {"kind": "pareto", "mean": mean, "shape": 1.5}


MIXES: dict[str, list[dict[str, Any]]] = {
    "web": [{"name": "web", "size": _pareto("144800B")}],
    "web-documents": [
        {"name": "web", "weight": 0.9, "size": _pareto("144800B")},
        {"name": "document", "weight": 0.1, "size": _pareto("1448kB")},
    ],
    "web-movies": [
        {"name": "web", "weight": 0.9778, "size": _pareto("144800B")},
        {"name": "document", "weight": 0.02, "size": _pareto("1448kB")},
        {"name": "service-pack", "weight": 0.002, "size": _pareto("144800kB")},
        {"name": "movie", "weight": 0.0002, "size": _pareto("1448MB")},
    ],
}
"""Files by name: Web objects of 100 packets on average, with the larger files of experiments 1 and
2 of NIST SP 500-282."""


class File(Model):
    """A kind of file, drawn by weight."""

    name: Name
    size: SizeLaw
    weight: Weight = 1.0


class Destination(Model):
    """Where files go, drawn by weight."""

    node: Name
    weight: Weight = 1.0
    class_: Annotated[Name | None, Field(alias="class")] = None
    """What transfers there are counted as; default: the node."""


class StartGroup(Model):
    """A share of the users that begins with a transfer at a set time."""

    share: Fraction
    at: Time


def _destinations(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    return [{"node": item} if isinstance(item, str) else item for item in value]


def _files(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value not in MIXES:
        fail(f"expected a list of files, or a mix of them{suggest(value, MIXES)}")
    return MIXES[value]


Destinations = Annotated[
    Items[Destination],
    Field(min_length=1),
    BeforeValidator(_destinations, json_schema_input_type=Any),
]
Files = Annotated[
    Items[File], Field(min_length=1), BeforeValidator(_files, json_schema_input_type=Any)
]


class Users(Model):
    """Users at one place who think, connect, transfer a file to one of the flow's destinations,
    and think again; each transfer has a connection of its own."""

    kind: Literal["users"]
    count: Annotated[int, Field(ge=1, le=10_000_000)]
    think: TimeLaw
    """Time between two transfers."""
    files: Files
    """Kinds of files, or a mix of them: "web", "web-documents" or "web-movies"."""
    patience: TimeLaw | None = None
    """Time after which a user gives a transfer up; default: never."""
    starts: Items[StartGroup] = ()
    """Who begins with a transfer, and when; the others think first."""
    group: Name | None = None
    """Users of flows that name the same are counted together; default: the flow's id, or its
    controller."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(start.share for start in self.starts) > 1 + 1e-9:
            fail("expected shares whose sum is at most 1", "starts")
        if not any(file.weight for file in self.files):
            fail("expected a weight above 0", "files")
        return self


class Period(Span):
    """A part of the run."""

    name: Name


class UserRecord(Model):
    """What is recorded of users: samples, their means over periods, and sums over transfers."""

    interval: Annotated[PositiveTime, Field(ge=1_000_000)] = 200_000_000
    """Spacing of the samples, at least 1 ms."""
    series: bool = False
    """Record the samples themselves (table `user_series`), not only their means."""
    periods: Items[Period] = ()
    """Default: "all", and "measured" from the end of the warm-up."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [period.name for period in self.periods]
        if len(set(names)) < len(names):
            fail("expected different names", "periods")
        return self
