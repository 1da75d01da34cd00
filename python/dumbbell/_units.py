"""Quantities as `tc` writes them, read exactly.

Canonical units are those of the engine: integer nanoseconds, bits per second, bytes, packets. A
quantity that is not a whole number of its canonical unit is refused, never rounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

LARGEST = 2**63 - 1
"""No canonical quantity may be larger, so that the engine can add two of them."""

_QUANTITY = re.compile(
    r"\s*([+-]?)(\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})\s*([^\d\s.+-][^\d\s]*)?\s*", re.A
)

_TIME = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9}
_TIME |= {"sec": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_BYTES = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_RATE_UNIT = re.compile(r"([kmgt]i?|)(bit)(/s)?", re.I)
_BYTE_RATE_UNIT = re.compile(r"([kKMGT]?)B(ps|/s)")
_AMBIGUOUS_RATE = re.compile(r"([kmgt]?)b(ps|/s)?", re.I)

TIME_EXPECTED = 'expected a time with unit, such as "80ms"'
RATE_EXPECTED = 'expected a rate with unit, such as "50Mbit"'
BYTES_EXPECTED = 'expected a size with unit, such as "1500B" or "64KiB"'
LIMIT_EXPECTED = 'expected a limit with unit, such as "333p", "64KiB" or "1bdp"'
DSCP_EXPECTED = 'expected a DSCP from 0 to 63 or its name, such as "ef", "af41" or "cs1"'
_DSCPS = (
    {"df": 0, "be": 0, "le": 1, "va": 44, "voice-admit": 44, "ef": 46}
    | {f"cs{c}": 8 * c for c in range(8)}
    | {f"af{c}{d}": 8 * c + 2 * d for c in range(1, 5) for d in range(1, 4)}
)
FRACTION_EXPECTED = "expected a fraction from 0 to 1, such as 0.01"


@dataclass(frozen=True, slots=True)
class Limit:
    """Room in a queue: packets or bytes (whole), or a multiple of the bandwidth-delay product."""

    amount: Fraction
    unit: Literal["packets", "bytes", "bdp"]

    def __str__(self) -> str:
        if self.unit == "bytes":
            return format_bytes(int(self.amount))
        return f"{_decimal(self.amount)}{'p' if self.unit == 'packets' else 'bdp'}"


def _split(value: object, expected: str) -> tuple[Fraction, str]:
    """Number and unit of a quantity. Raises ValueError, with what was expected."""
    if not isinstance(value, str):
        raise ValueError(expected)
    match = _QUANTITY.fullmatch(value)
    if match is None:
        raise ValueError(expected)
    sign, number, unit = match.groups()
    amount = Fraction(number)
    if sign == "-" and amount:
        raise ValueError(f"{expected} (not negative)")
    return amount, unit or ""


def _whole(amount: Fraction, name: str) -> int:
    if amount.denominator != 1:
        raise ValueError(f"expected a whole number of {name}")
    if amount > LARGEST:
        raise ValueError(f"expected at most {LARGEST} {name}")
    return amount.numerator


def parse_time(value: object) -> int:
    """Nanoseconds of a time such as "80ms"; 0 needs no unit. Raises ValueError."""
    if value in (0, "0") and not isinstance(value, bool):
        return 0
    amount, unit = _split(value, TIME_EXPECTED)
    if unit not in _TIME:
        raise ValueError(TIME_EXPECTED)
    return _whole(amount * _TIME[unit], "nanoseconds")


def parse_rate(value: object) -> int:
    """Bits per second of a rate such as "50Mbit" or "6.25MBps" (bytes a second).

    `tc` reads "50Mbps" as bytes per second and most people as bits: that form is refused.
    Raises ValueError.
    """
    amount, unit = _split(value, RATE_EXPECTED)
    if match := _RATE_UNIT.fullmatch(unit):
        prefix = match[1].lower()
        return _whole(amount * {**_PREFIXES, **_BINARY}[prefix], "bits per second")
    if match := _BYTE_RATE_UNIT.fullmatch(unit):
        return _whole(amount * _PREFIXES[match[1].lower()] * 8, "bits per second")
    if (match := _AMBIGUOUS_RATE.fullmatch(unit)) and match[2]:
        prefix = match[1].lower() if match[1] in "kK" else match[1].upper()
        raise ValueError(
            f'{RATE_EXPECTED} ("{unit}" can mean bits or bytes: '
            f'write "{prefix}bit" or "{prefix}Bps")'
        )
    raise ValueError(RATE_EXPECTED)


def parse_bytes(value: object) -> int:
    """Bytes of a size such as "1500B", "64KiB" or "1MB" (10^6). Raises ValueError."""
    amount, unit = _split(value, BYTES_EXPECTED)
    if unit not in _BYTES:
        raise ValueError(BYTES_EXPECTED)
    return _whole(amount * _BYTES[unit], "bytes")


def parse_limit(value: object) -> Limit:
    """A queue's limit: packets ("333p"), bytes ("64KiB") or BDPs ("0.5bdp"). Raises ValueError."""
    if isinstance(value, Limit):
        return value
    amount, unit = _split(value, LIMIT_EXPECTED)
    if unit in ("p", "pkt", "packets"):
        return Limit(Fraction(_whole(amount, "packets")), "packets")
    if unit.lower() == "bdp":
        return Limit(amount, "bdp")
    if unit in _BYTES:
        return Limit(Fraction(_whole(amount * _BYTES[unit], "bytes")), "bytes")
    raise ValueError(LIMIT_EXPECTED)


def parse_fraction(value: object) -> float:
    """A number from 0 to 1. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(FRACTION_EXPECTED)
    return float(value)


def parse_dscp(value: object) -> int:
    """A DSCP from 0 to 63, or its name (RFC 2474, 2597, 3246, 5865, 8622). Raises ValueError."""
    if isinstance(value, str) and value.lower() in _DSCPS:
        return _DSCPS[value.lower()]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 63:
        raise ValueError(DSCP_EXPECTED)
    return value


def _decimal(amount: Fraction) -> str:
    """A fraction with a finite decimal expansion, written out."""
    whole, rest = divmod(amount, 1)
    digits = ""
    while rest:
        digit, rest = divmod(rest * 10, 1)
        digits += str(digit)
    return f"{whole}.{digits}" if digits else str(whole)


def _format(amount: int, units: list[tuple[str, int]]) -> str:
    for unit, factor in units:
        if amount % factor == 0 and amount:
            return f"{amount // factor}{unit}"
    return f"{amount}{units[-1][0]}"


def format_time(ns: int) -> str:
    """Shortest exact form: 80000000 is "80ms"."""
    return "0s" if ns == 0 else _format(ns, [("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)])


def format_rate(bps: int) -> str:
    """Shortest exact form: 50000000 is "50Mbit"."""
    return _format(
        bps, [("Tbit", 10**12), ("Gbit", 10**9), ("Mbit", 10**6), ("kbit", 10**3), ("bit", 1)]
    )


def format_bytes(size: int) -> str:
    """Shortest exact form: 65536 is "64KiB", 1500 is "1500B"."""
    units = ["GiB", "GB", "MiB", "MB", "KiB", "kB", "B"]
    return _format(size, [(unit, _BYTES[unit]) for unit in units])
