"""Mahimahi traces: one delivery opportunity a line, in milliseconds, repeated from the start."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dumbbell._errors import ScenarioError

MAHIMAHI_MTU = 1504
"""Bytes of one delivery opportunity: an IP packet of 1500 bytes and 4 of the TUN header."""

_LARGEST_FILE = 512 * 2**20
_LARGEST_MS = 2**63 // 10**6


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
        with path.open("rb") as stream:
            raw = stream.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise wrong(f"expected a trace file: {reason}") from None
    if len(raw) > _LARGEST_FILE:
        raise wrong("expected a trace file of at most 512 MiB")
    ms: list[int] = []
    last = 0
    for number, line in enumerate(raw.splitlines(), start=1):
        text = line.strip()
        if not text:
            continue
        if not text.isdigit() or len(text) > 15 or int(text) > _LARGEST_MS:
            raise wrong(f"line {number} of the trace: expected a whole number of milliseconds")
        if (at := int(text)) < last:
            raise wrong(f"line {number} of the trace: expected a time not before the previous one")
        ms.append(at)
        last = at
    if not ms:
        raise wrong("the trace is empty; expected one time in milliseconds a line")
    if last == 0:
        raise wrong("the last line of the trace is its period; expected more than 0")
    return Trace(ms, mtu)
