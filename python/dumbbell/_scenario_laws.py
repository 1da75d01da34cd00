"""Times and sizes, constant or random."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dumbbell._scenario_types import Items, Model, PositiveTime, Size, Time, fail

_Shape = Annotated[float, Field(gt=1, le=1000, allow_inf_nan=False)]


class ConstantTime(Model):
    kind: Literal["constant"]
    value: Time


class UniformTime(Model):
    kind: Literal["uniform"]
    low: Time
    high: Time

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.high < self.low:
            fail("expected at least low", "high")
        return self


class ExponentialTime(Model):
    kind: Literal["exponential"]
    mean: PositiveTime


class ParetoTime(Model):
    kind: Literal["pareto"]
    mean: PositiveTime
    """Mean before `max` cuts the samples."""
    shape: _Shape
    max: PositiveTime | None = None


class EmpiricalTime(Model):
    kind: Literal["empirical"]
    values: Annotated[Items[Time], Field(min_length=1)]


class ConstantSize(Model):
    kind: Literal["constant"]
    value: Size


class UniformSize(Model):
    kind: Literal["uniform"]
    low: Size
    high: Size

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.high < self.low:
            fail("expected at least low", "high")
        return self


class ExponentialSize(Model):
    kind: Literal["exponential"]
    mean: Size


class ParetoSize(Model):
    kind: Literal["pareto"]
    mean: Size
    """Mean before `max` cuts the samples."""
    shape: _Shape
    max: Size | None = None


class EmpiricalSize(Model):
    kind: Literal["empirical"]
    values: Annotated[Items[Size], Field(min_length=1)]


def _law(value: Any) -> Any:
    if isinstance(value, str) or (value == 0 and not isinstance(value, bool)):
        return {"kind": "constant", "value": value}
    return value


_constant = BeforeValidator(_law, json_schema_input_type=Any)
TimeLaw = Annotated[
    Annotated[
        ConstantTime | UniformTime | ExponentialTime | ParetoTime | EmpiricalTime,
        Field(discriminator="kind"),
    ],
    _constant,
]
"""A time, or a random law of times."""
SizeLaw = Annotated[
    Annotated[
        ConstantSize | UniformSize | ExponentialSize | ParetoSize | EmpiricalSize,
        Field(discriminator="kind"),
    ],
    _constant,
]
"""A size, or a random law of sizes."""
