"""The metrics of RFC 5166 that a run gives.

After "Metrics for the Evaluation of Congestion Control Mechanisms" (S. Floyd, 2008); the docstrings
name the section. Where a scenario has bulk flows, the metrics of flows are about those, else about
all.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dumbbell import _fairness
from dumbbell._results import Result, require_pyarrow

DELTA = 0.1
"""How far from its fair share a flow may be at the time of :func:`delta_fair_time_s`."""
_SMOOTHING_S = 1.0
_REFILLED = 0.9


@dataclass(frozen=True, slots=True)
class Metric:
    """A named metric: its unit ("" for a ratio), the section of RFC 5166, and how to get it."""

    name: str
    unit: str
    section: str
    summary: str
    of: Callable[[Result], float]


METRICS: dict[str, Metric] = {}
"""All metrics by name."""


def _metric(unit: str, section: str) -> Callable[[Callable[[Result], float]], Any]:
    def add(of: Callable[[Result], float]) -> Callable[[Result], float]:
        summary = (of.__doc__ or "").strip().split("\n\n")[0]
        name = of.__name__
        METRICS[name] = Metric(name, unit, section, " ".join(summary.split()), of)
        return of

    return add


# 2.1.1 Throughput


@_metric("bit/s", "2.1.1")
def throughput_bps(result: Result) -> float:
    """Aggregate goodput of all flows (RFC 5166 section 2.1.1)."""
    return math.fsum(flow["goodput_bps"] for flow in result.summary["flows"])


@_metric("", "2.1.1")
def utilisation(result: Result) -> float:
    """Share of the busiest link's capacity that is used (RFC 5166 section 2.1.1)."""
    link = _busiest(result)
    return math.nan if link is None else float(link["utilisation"] or 0.0)


@_metric("bit/s", "2.1.1")
def goodput_mean_bps(result: Result) -> float:
    """Mean goodput of a flow (RFC 5166 section 2.1.1)."""
    return _mean(_goodputs(result))


@_metric("bit/s", "2.3.1")
def goodput_min_bps(result: Result) -> float:
    """Smallest goodput of a flow: what max-min fairness makes largest (RFC 5166 section 2.3.1)."""
    return min(_goodputs(result), default=math.nan)


@_metric("bit/s", "2.1.1")
def goodput_max_bps(result: Result) -> float:
    """Largest goodput of a flow (RFC 5166 section 2.1.1)."""
    return max(_goodputs(result), default=math.nan)


@_metric("s", "2.1.1")
def completion_mean_s(result: Result) -> float:
    """Mean time of the transfers that were completed (RFC 5166 section 2.1.1)."""
    return _mean(_completions(result))


@_metric("s", "2.1.1")
def completion_median_s(result: Result) -> float:
    """Median time of the transfers that were completed (RFC 5166 section 2.1.1)."""
    return _quantile(_completions(result), 0.5)


@_metric("s", "2.1.1")
def completion_p95_s(result: Result) -> float:
    """95th percentile of the times of completed transfers (RFC 5166 section 2.1.1)."""
    return _quantile(_completions(result), 0.95)


# 2.1.2 Delay


@_metric("ms", "2.1.2")
def queue_delay_mean_ms(result: Result) -> float:
    """Mean queueing delay at the busiest link (RFC 5166 section 2.1.2)."""
    return _queue_delay(result, "mean")


@_metric("ms", "2.1.2")
def queue_delay_median_ms(result: Result) -> float:
    """Median queueing delay at the busiest link (RFC 5166 section 2.1.2)."""
    return _queue_delay(result, "p50")


@_metric("ms", "2.1.2")
def queue_delay_p95_ms(result: Result) -> float:
    """95th percentile of the queueing delay at the busiest link (RFC 5166 section 2.1.2)."""
    return _queue_delay(result, "p95")


@_metric("ms", "2.1.2")
def queue_delay_p99_ms(result: Result) -> float:
    """99th percentile of the queueing delay at the busiest link (RFC 5166 section 2.1.2)."""
    return _queue_delay(result, "p99")


@_metric("ms", "2.1.2")
def queue_delay_max_ms(result: Result) -> float:
    """Longest queueing delay at the busiest link (RFC 5166 section 2.1.2)."""
    return _queue_delay(result, "max")


@_metric("ms", "2.1.2")
def rtt_mean_ms(result: Result) -> float:
    """Mean over the flows of their mean round-trip time (RFC 5166 section 2.1.2)."""
    return _mean(flow["rtt_ms"]["mean"] for flow in _chosen(result))


# 2.1.3 Packet loss rates


@_metric("", "2.1.3")
def loss_ratio(result: Result) -> float:
    """Packets lost of all that the flows sent, retransmissions too (RFC 5166 section 2.1.3)."""
    flows = result.summary["flows"]
    return _ratio(sum(f["dropped_packets"] for f in flows), sum(f["sent_packets"] for f in flows))


@_metric("", "2.1.3")
def loss_event_ratio(result: Result) -> float:
    """Loss events, each a recovery or a timeout, of all packets sent (RFC 5166 section 2.1.3)."""
    flows = result.summary["flows"]
    events = sum(flow["recoveries"] + flow["timeouts"] for flow in flows)
    return _ratio(events, sum(flow["sent_packets"] for flow in flows))


# 2.2.1 Response to changes


@_metric("s", "2.2.1")
def refill_time_s(result: Result) -> float:
    """Time from the end of the warm-up, where the scenario changes something, until the busiest
    link carries for one second 90 % of the most that it carries in any second after (RFC 5166
    section 2.2.1)."""
    link = _busiest(result)
    step = result.config["interval_ns"] / 1e9
    if link is None or not step or "link_series" not in result.tables():
        return math.nan
    table = require_pyarrow("metrics of time series").table(result.table("link_series"))
    names, times, rates = (table.column(c).to_pylist() for c in ("link", "t", "throughput_bps"))
    warmup_s = result.config["warmup_ns"] / 1e9
    carried = [
        rate
        for name, t, rate in zip(names, times, rates, strict=True)
        if name == link["id"] and t > warmup_s
    ]
    width = max(1, round(_SMOOTHING_S / step))
    seconds = [math.fsum(carried[i : i + width]) for i in range(len(carried) - width + 1)]
    enough = _REFILLED * max(seconds, default=0.0)
    return next((i * step for i, carries in enumerate(seconds) if carries >= enough), math.nan)


# 2.2.2 Minimizing oscillations


@_metric("", "2.2.2")
def rate_variation(result: Result) -> float:
    """Coefficient of variation of a flow's goodput over the scenario's intervals, mean over the
    flows (RFC 5166 section 2.2.2)."""
    return _mean(_variation(rates) for _, rates in _series(result))


@_metric("", "2.2.2")
def rate_drop_max(result: Result) -> float:
    """Largest share of its goodput that a flow loses from one interval to the next (RFC 5166
    section 2.2.2, which asks for that of one round-trip time)."""
    drops = [
        (before - after) / before
        for _, rates in _series(result)
        for before, after in pairwise(rates)
        if before > 0
    ]
    return max(0.0, *drops) if drops else math.nan


# 2.3.1 Fairness between flows


@_metric("", "2.3.1")
def jain(result: Result) -> float:
    """Jain's index of the flows' goodputs, (sum x)^2 / (n sum x^2) (RFC 5166 section 2.3.1)."""
    return _fairness.jain(_goodputs(result))


@_metric("", "2.3.1")
def max_min_ratio(result: Result) -> float:
    """Largest goodput of a flow over the smallest (RFC 5166 section 2.3.1)."""
    return _fairness.max_min_ratio(_goodputs(result))


@_metric("", "2.3.1")
def epsilon(result: Result) -> float:
    """The smallest epsilon for which the goodputs are epsilon-fair: min x / max x = 1 - epsilon
    (RFC 5166 section 2.3.1)."""
    return _fairness.epsilon(_goodputs(result))


@_metric("", "2.3.1")
def log_product(result: Result) -> float:
    """Natural logarithm of the product measure, the product of the goodputs in bit/s, which
    proportional fairness makes largest (RFC 5166 section 2.3.1). -inf where a flow has none."""
    rates = _goodputs(result)
    if not rates:
        return math.nan
    return math.fsum(math.log(x) if x > 0 else -math.inf for x in rates)


@_metric("s", "2.3")
def delta_fair_time_s(result: Result) -> float:
    """Time from the start of the last bulk flow until each flow has at least 1 - delta of its fair
    share, delta = 0.1, over one second (RFC 5166 section 2.3: delta-fair convergence).

    The RFC's two flows begin with 1/101 and 100/101 of a link; here, with what the scenario makes
    of them. NaN if there are not two flows, or if it never happens.
    """
    series = _series(result, whole=True)
    if len(series) < 2:
        return math.nan
    ids = {name for name, _ in series}
    start = max(flow["start_ns"] for flow in result.config["flows"] if flow["id"] in ids) / 1e9
    step = result.config["interval_ns"] / 1e9
    width = max(1, round(_SMOOTHING_S / step))
    length = min(len(rates) for _, rates in series)
    for end in range(math.ceil(start / step) + width, length + 1):
        shares = [math.fsum(rates[end - width : end]) for _, rates in series]
        total = math.fsum(shares)
        if total > 0 and min(shares) >= (1 - DELTA) * total / len(shares):
            return float(end * step - start)
    return math.nan


def _chosen(result: Result) -> list[Mapping[str, Any]]:
    """The flows that metrics of flows are about."""
    bulk = {
        flow["id"]
        for flow in result.config.get("flows", ())
        if flow.get("traffic", {}).get("kind") == "bulk"
    }
    flows: list[Mapping[str, Any]] = result.summary["flows"]
    return [flow for flow in flows if flow["id"] in bulk] or flows


def _goodputs(result: Result) -> list[float]:
    return [flow["goodput_bps"] for flow in _chosen(result)]


def _busiest(result: Result) -> Mapping[str, Any] | None:
    """The link whose capacity is used most."""
    links: list[Mapping[str, Any]] = result.summary["links"]
    return max(links, key=lambda link: link["utilisation"] or 0.0, default=None)


def _queue_delay(result: Result, what: str) -> float:
    link = _busiest(result)
    value = None if link is None else link["queue_delay_ms"][what]
    return math.nan if value is None else float(value)


def _completions(result: Result) -> list[float]:
    if "completions" not in result.tables():
        return []
    warmup_s = result.config["warmup_ns"] / 1e9
    table = require_pyarrow("completion times").table(result.table("completions"))
    starts, durations = (table.column(name).to_pylist() for name in ("start_s", "duration_s"))
    return [d for s, d in zip(starts, durations, strict=True) if s >= warmup_s]


def _series(result: Result, *, whole: bool = False) -> list[tuple[str, list[float]]]:
    """Goodput of each interval of the chosen flows, from the warm-up or their start to their stop,
    or over the `whole` run. None where the run has no series."""
    if not result.config["interval_ns"] or "flow_series" not in result.tables():
        return []
    table = require_pyarrow("metrics of time series").table(result.table("flow_series"))
    names, times, rates = (table.column(c).to_pylist() for c in ("flow", "t", "goodput_bps"))
    found: dict[str, list[float]] = {flow["id"]: [] for flow in _chosen(result)}
    window = dict.fromkeys(found, (0.0, math.inf))
    for flow in () if whole else result.config["flows"]:
        begin = max(result.config["warmup_ns"], flow["start_ns"])
        window[flow["id"]] = (begin / 1e9, flow["stop_ns"] / 1e9)
    for name, t, rate in zip(names, times, rates, strict=True):
        if name in found and window[name][0] < t <= window[name][1]:
            found[name].append(rate)
    return list(found.items())


def _variation(rates: Sequence[float]) -> float:
    return _ratio(statistics.pstdev(rates), statistics.fmean(rates)) if rates else math.nan


def _mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return statistics.fmean(known) if known else math.nan


def _quantile(values: Sequence[float], q: float) -> float:
    """Linear between the two values around it."""
    if not values:
        return math.nan
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _ratio(a: float, b: float) -> float:
    return a / b if b else math.nan
