"""Mahimahi traces: one delivery opportunity a line, in milliseconds, repeated from the start."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dumbbell._errors import ScenarioError
from dumbbell._import import ImportFileError, read_bytes
from dumbbell._trace_times import TraceLineError, parse_times

MAHIMAHI_MTU = 1504
"""Bytes of one delivery opportunity: an IP packet of 1500 bytes and 4 of the TUN header."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Delivery opportunities of `mtu` bytes at `ms`; the last is also the period."""

    ms: list[int]
    mtu: int

    @property
    def mean_bps(self) -> Fraction:
        return Fraction(len(self.ms) * self.mtu * 8 * 1000, self.ms[-1])


def read_trace(path: Path, *, mtu: int, key: str, written: str) -> Trace:
    """Read a trace file. `key` and `written` are named in the ScenarioError if it is malformed."""

    def wrong(expected: str) -> ScenarioError:
        return ScenarioError(key=key, value=written, expected=expected)

    try:
        return Trace(parse_times(read_bytes(path)), mtu)
    except ImportFileError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise wrong(f"expected a trace file: {reason}") from None
    except TraceLineError as error:
        where = f"line {error.line} of the trace, " if error.line else ""
        raise wrong(f"{where}{error}") from None
