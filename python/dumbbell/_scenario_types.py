"""Quantities as pydantic types, and the base of all scenario models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NoReturn, Self, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from dumbbell._errors import suggest
from dumbbell._units import (
    format_bytes,
    format_rate,
    format_time,
    parse_bytes,
    parse_fraction,
    parse_rate,
    parse_time,
)

LONGEST_NS = 10**6 * 10**9
"""Longest time in a scenario: a million seconds."""
FASTEST_BPS = 10**14


def fail(expected: str, key: str = "", *, value: object = None) -> NoReturn:
    """Refuse a model because of one of its keys (empty: the model itself)."""
    raise PydanticCustomError(
        "scenario", "{expected}", {"expected": expected, "at": key, "is": value}
    )


def _keys(name: str, field: FieldInfo) -> list[str]:
    """What a file may call a field: its name, or the other names that it has."""
    if isinstance(field.validation_alias, AliasChoices):
        return [str(choice) for choice in field.validation_alias.choices]
    return [field.alias or name]


class Model(BaseModel):
    """Strict and frozen; an unknown key is refused with the nearest known one."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        validate_default=False,
        validate_by_name=False,
        validate_by_alias=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict) or cls.model_config.get("extra") != "forbid":
            return data
        fields = [_keys(name, field) for name, field in cls.model_fields.items()]
        names = {key: keys for keys in fields for key in keys}
        for key in data:
            if key not in names:
                fail(f"no such key{suggest(str(key), names)}", str(key))
            if others := [other for other in names[key] if other != key and other in data]:
                fail(f"{others[0]} is the same key, and is given too", str(key))
        return data


_T = TypeVar("_T")


def _bounded(
    parse: Callable[[object], int], low: int, high: int, show: Callable[[int], str]
) -> Any:
    def check(value: object) -> int:
        number = parse(value)
        if number < low:
            raise ValueError(f"expected at least {show(low)}")
        if number > high:
            raise ValueError(f"expected at most {show(high)}")
        return number

    return check


def _schema(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


_TIME_SCHEMA = _schema(r"^\d*\.?\d+ ?(ns|us|µs|ms|s|sec|min|h)$|^0$", "80ms")

Time = Annotated[
    int,
    BeforeValidator(_bounded(parse_time, 0, LONGEST_NS, format_time)),
    PlainSerializer(format_time, return_type=str),
    _TIME_SCHEMA,
]
"""Nanoseconds, written "80ms"; 0 needs no unit."""

PositiveTime = Annotated[
    int,
    BeforeValidator(_bounded(parse_time, 1, LONGEST_NS, format_time)),
    PlainSerializer(format_time, return_type=str),
    _TIME_SCHEMA,
]
"""Nanoseconds above zero."""

Rate = Annotated[
    int,
    BeforeValidator(_bounded(parse_rate, 1, FASTEST_BPS, format_rate)),
    PlainSerializer(format_rate, return_type=str),
    _schema(r"^\d*\.?\d+ ?([kKMGT]i?)?(bit(/s)?|Bps|B/s)$", "50Mbit"),
]
"""Bits per second above zero, written "50Mbit"."""

Size = Annotated[
    int,
    BeforeValidator(_bounded(parse_bytes, 1, 2**53, format_bytes)),
    PlainSerializer(format_bytes, return_type=str),
    _schema(r"^\d*\.?\d+ ?(B|[kKMGT]B|[KMGT]iB)$", "1500B"),
]
"""Bytes above zero, written "1500B"."""

Bytes = Annotated[
    int,
    BeforeValidator(_bounded(parse_bytes, 0, 2**31 - 1, format_bytes)),
    PlainSerializer(format_bytes, return_type=str),
    _schema(r"^\d*\.?\d+ ?(B|[kKMGT]B|[KMGT]iB)$", "18B"),
]
"""Bytes, zero too."""

PacketSize = Annotated[
    int,
    BeforeValidator(_bounded(parse_bytes, 28, 65535, format_bytes)),
    PlainSerializer(format_bytes, return_type=str),
    _schema(r"^\d*\.?\d+ ?(B|kB|KiB)$", "1500B"),
]
"""Bytes of an IP packet."""

Payload = Annotated[
    int,
    BeforeValidator(_bounded(parse_bytes, 1, 65000, format_bytes)),
    PlainSerializer(format_bytes, return_type=str),
    _schema(r"^\d*\.?\d+ ?(B|kB|KiB)$", "1448B"),
]
"""Bytes of payload in one packet."""

Name = Annotated[str, Field(min_length=1, max_length=100)]

Fraction = Annotated[float, BeforeValidator(parse_fraction), Field(ge=0, le=1)]
"""A probability from 0 to 1."""

Items = Annotated[tuple[_T, ...], Field(strict=False)]
"""A list."""


class Span(Model):
    """A part of the run, between two times."""

    from_: Annotated[Time, Field(alias="from")]
    to: PositiveTime

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.to <= self.from_:
            fail("expected a time after from", "to")
        return self
