"""Mahimahi traces: delivery opportunities of a link, one millisecond time stamp a line.

Format as the Mahimahi tools define it: non-negative integers, non-decreasing, no empty line, the
last above zero. Each line lets one MTU pass. After the last line the clock advances by the last
time stamp and the file starts again.
"""

from __future__ import annotations

import gzip
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dumbbell._errors import UsageError
from dumbbell._import import ImportFileError, read_bytes
from dumbbell._trace_times import TraceLineError, parse_times, shown

PACKET_BYTES = 1500
"""Bytes that one opportunity stands for when rates are computed (12 Mbit/s is one line a
millisecond).
"""

OPPORTUNITY_BYTES = 1504
"""What Mahimahi's link shell really lets pass: the largest payload of its TUN device."""

_PACKET_BITS = PACKET_BYTES * 8
# Some 600 s at 1 Gbit/s.
_MOST_PACKETS = 50_000_000


@dataclass(frozen=True)
class Trace:
    """Delivery opportunities: `opportunities_ms` is (n,) int64, non-decreasing, last above zero."""

    opportunities_ms: NDArray[np.int64]

    def __post_init__(self) -> None:
        ms = self.opportunities_ms
        if (
            ms.ndim != 1
            or ms.size == 0
            or ms[0] < 0
            or ms[-1] <= 0
            or bool(np.any(np.diff(ms) < 0))
        ):
            raise UsageError(
                "a trace is a non-empty, non-negative, non-decreasing list that ends above 0 ms"
            )

    @property
    def period_ms(self) -> int:
        """Milliseconds after which the trace repeats."""
        return int(self.opportunities_ms[-1])

    @property
    def mean_bps(self) -> float:
        """Mean rate in bit/s, with 1500 bytes an opportunity."""
        return self.opportunities_ms.size * _PACKET_BITS * 1000 / self.period_ms


@dataclass(frozen=True)
class TraceStatistics:
    """Rates in bit/s; sd and percentiles are of the rate over complete bins of one second."""

    duration_s: float
    opportunities: int
    mean_bps: float
    sd_bps: float
    p5_bps: float
    p50_bps: float
    p95_bps: float
    longest_gap_ms: int

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def read_trace(path: str | Path) -> Trace:
    """Read a trace, plain or gzipped. Raises ImportFileError naming file and line."""
    return parse_trace(read_bytes(path), str(path))


def parse_trace(data: bytes, name: str) -> Trace:
    """Parse the text of a trace; `name` stands in error messages. Raises ImportFileError."""
    try:
        return Trace(np.asarray(parse_times(data), dtype=np.int64))
    except TraceLineError as error:
        at = f"{name}:{error.line}" if error.line else name
        raise ImportFileError(f"{at}: {error}") from None


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace; gzipped, with the same bytes every time, if the name ends in .gz."""
    path = Path(path)
    text = "\n".join(map(str, trace.opportunities_ms.tolist())) + "\n"
    data = text.encode("ascii")
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def rate_series(trace: Trace, bin_ms: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return bin starts (s) and mean rates (bit/s) over complete bins of `bin_ms`.

    A trace shorter than one bin gives one bin as long as the trace. Times are counted as the file
    states them, so that the line "0" belongs to the first bin.
    """
    if bin_ms <= 0:
        raise UsageError(f"bin of {bin_ms} ms: expected a positive length")
    bins = trace.period_ms // bin_ms
    if bins == 0:
        return np.zeros(1), np.array([trace.mean_bps])
    counts = np.bincount(trace.opportunities_ms // bin_ms, minlength=bins)[:bins]
    rates = counts.astype(np.float64) * (_PACKET_BITS * 1000 / bin_ms)
    return np.arange(bins) * bin_ms / 1000, rates


def statistics(trace: Trace) -> TraceStatistics:
    """Describe a trace: mean, population sd and percentiles of the 1-s rate, longest gap between
    lines.

    The q-quantile of n sorted rates is the one with index floor(q n). The silence before the first
    line counts as a gap, since a repeated trace waits there too.
    """
    _, rates = rate_series(trace, 1000)
    ordered = np.sort(rates)
    p5, p50, p95 = (float(ordered[int(q * ordered.size)]) for q in (0.05, 0.5, 0.95))
    return TraceStatistics(
        duration_s=trace.period_ms / 1000,
        opportunities=int(trace.opportunities_ms.size),
        mean_bps=trace.mean_bps,
        sd_bps=float(rates.std()),
        p5_bps=p5,
        p50_bps=p50,
        p95_bps=p95,
        longest_gap_ms=int(np.diff(trace.opportunities_ms, prepend=0).max()),
    )


def trace_from_rate(starts_s: ArrayLike, rates_bps: ArrayLike, duration_s: float) -> Trace:
    """Turn a piecewise constant capacity into a trace.

    `starts_s` is (n,), ascending from 0; `rates_bps` is (n,), the rate from each start to the next,
    the last one to `duration_s`. Bytes accumulate millisecond by millisecond and an opportunity is
    written whenever 1500 of them are there. The period is `duration_s` rounded to milliseconds; as
    the format can end only with an opportunity, the last one is put at the end. Raises UsageError
    if no packet fits.
    """
    starts = np.asarray(starts_s, dtype=np.float64)
    rates = np.asarray(rates_bps, dtype=np.float64)
    _check_steps(starts, rates, duration_s)
    edges = np.append(starts, duration_s)
    bits = np.concatenate(([0.0], np.cumsum(rates * np.diff(edges))))
    # The tolerance keeps whole packets whole.
    packets = math.floor(bits[-1] / _PACKET_BITS + 1e-9)
    if packets < 1:
        raise UsageError(f"no packet of {PACKET_BYTES} bytes passes in {duration_s:g} s")
    if packets > _MOST_PACKETS:
        raise UsageError(f"a trace of {packets} packets: expected at most {_MOST_PACKETS}")
    wanted = np.arange(1, packets + 1) * float(_PACKET_BITS)
    wanted[-1] = min(wanted[-1], bits[-1])
    step = np.searchsorted(bits, wanted) - 1
    complete_s = edges[step] + (wanted - bits[step]) / rates[step]
    opportunities = np.ceil(complete_s * 1000 - 1e-6).astype(np.int64)
    opportunities[-1] = round(duration_s * 1000)
    return Trace(np.minimum(opportunities, opportunities[-1]))


def _check_steps(
    starts: NDArray[np.float64], rates: NDArray[np.float64], duration_s: float
) -> None:
    if starts.ndim != 1 or starts.shape != rates.shape or starts.size == 0:
        raise UsageError("expected as many rates as start times, and at least one")
    if starts[0] != 0 or bool(np.any(np.diff(starts) <= 0)) or not np.isfinite(starts).all():
        raise UsageError("expected start times that ascend from 0")
    if not np.isfinite(rates).all() or bool(np.any(rates < 0)):
        raise UsageError("expected rates that are finite and not negative")
    if not np.isfinite(duration_s) or not duration_s > starts[-1]:
        raise UsageError(f"duration of {duration_s} s: expected more than the last start time")
    if round(duration_s * 1000) < 1:
        raise UsageError(f"duration of {duration_s} s: expected at least 1 ms")


def read_rate_pairs(path: str | Path, *, duration_s: float | None = None) -> Trace:
    """Read lines "time_s Mbit/s" (the form that Pensieve uses) as a trace, plain or gzipped.

    Each rate holds until the next time; the last one as long as the one before, or to `duration_s`.
    The first time counts as zero. Raises ImportFileError naming file and line.
    """
    name = str(path)
    text = read_bytes(path).decode("utf-8", "replace")
    starts: list[float] = []
    rates: list[float] = []
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.split()
        try:
            start, rate = (float(part) for part in parts)
        except ValueError:
            text = shown(line.encode())
            raise ImportFileError(f'{name}:{number}: {text}: expected "time_s Mbit/s"') from None
        if not (0 <= start < float("inf") and 0 <= rate < float("inf")):
            raise ImportFileError(f"{name}:{number}: expected finite numbers that are not negative")
        if starts and start <= starts[-1]:
            raise ImportFileError(
                f"{name}:{number}: time {start:g} s after {starts[-1]:g} s: expected ascending"
            )
        starts.append(start)
        rates.append(rate * 1e6)
    if len(starts) < 2 and (duration_s is None or not starts):
        raise ImportFileError(f'{name}: expected at least two lines "time_s Mbit/s"')
    offsets = np.array(starts) - starts[0]
    end = duration_s if duration_s is not None else float(2 * offsets[-1] - offsets[-2])
    try:
        return trace_from_rate(offsets, rates, end)
    except (UsageError, MemoryError) as error:
        raise ImportFileError(f"{name}: {error}") from None


def is_rate_pairs(data: bytes) -> bool:
    """Whether the first line of a file has two columns, as rate pairs do and Mahimahi traces do
    not.
    """
    return len(data.split(b"\n", 1)[0].split()) == 2
