"""The text of a Mahimahi trace: one time in milliseconds a line, never decreasing, ending above 0.

The only parser of that format; needs nothing but the standard library.
"""

from __future__ import annotations

LARGEST_MS = 10**12
"""Some 30 years; times in nanoseconds stay far from 64 bits."""


class TraceLineError(ValueError):
    """A line that cannot be: `line` counts from 1 (0: the whole text)."""

    def __init__(self, line: int, shown: str, expected: str) -> None:
        super().__init__(f"{shown}: expected {expected}")
        self.line = line
        self.shown = shown
        self.expected = expected


def parse_times(data: bytes) -> list[int]:
    """Return the delivery opportunities, in ms. Raises TraceLineError."""
    lines = data.split(b"\n")
    if lines and lines[-1] == b"":
        lines.pop()
    if not lines:
        raise TraceLineError(0, "empty file", "one time in milliseconds on each line")
    times: list[int] = []
    previous = 0
    for number, line in enumerate(lines, start=1):
        if not line.isdigit():
            raise TraceLineError(number, shown(line), "a non-negative integer (ms)")
        value = int(line) if len(line) < 20 else LARGEST_MS + 1
        if value > LARGEST_MS:
            raise TraceLineError(number, shown(line), f"at most {LARGEST_MS} ms")
        if value < previous:
            raise TraceLineError(number, f"{value} after {previous}", "times that do not decrease")
        times.append(value)
        previous = value
    if previous == 0:
        raise TraceLineError(len(lines), "0", "the last time to be above 0 ms")
    return times


def shown(line: bytes) -> str:
    """A line as an error message shows it."""
    if not line:
        return "empty line"
    text = line[:24].decode("ascii", "backslashreplace")
    return repr(text + ("..." if len(line) > 24 else ""))
