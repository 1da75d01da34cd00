"""The latencies of the NIST study's final table, and what single flows tell of its findings.

For example::

    from dumbbell.mesonet import latency

    for row in latency.table():
        print(row["algorithm"], row["goodput latency (s)"], row["recovery latency (s)"])

*Goodput latency* is the time from a flow's start, with an initial slow-start threshold of 100
packets, to 90 % of its highest rate on an idle path. *Recovery latency* is the time from the end of
sustained losses, 1 % of packets at random over 60 s, to 90 % of the highest rate again. Rates are
those of intervals of 200 ms, as the study measures, or the next multiple of the round trip; time
ends with the last interval below 90 %. Both are means over the paths of experiment 1's three
long-lived flows, with fast interfaces (80 packets a millisecond) and both levels of propagation:
round trips of 20, 30, 40, 60, 70 and 140 ms. The study does not say how it measured;
`losses_table` has other losses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import mean
from typing import TYPE_CHECKING, Any

from dumbbell._errors import MissingExtraError
from dumbbell.mesonet._finding import Finding
from dumbbell.mesonet._parameters import ALGORITHMS
from dumbbell.mesonet._single_flows import (
    Condition,
    Controller,
    Rise,
    conditions,
    goodput_rise,
    recovery_rise,
    same_as_reno,
    single_loss,
    single_loss_rise,
    trigger,
)
from dumbbell.mesonet.published import FINAL_TABLE
from dumbbell.papers._paper import thread_pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSS, LASTING_S = 0.01, 60
LOSSES = (1e-5, 1e-4, 1e-3, LOSS, 0.1)
"""Of `losses_table`."""
BIC_OF_LINUX: Controller = ("bic", {"low_window": 14})
"""For comparison: before the first loss it grows by at least 5 % a round trip, and its search for
the last maximum ends with a segment in five round trips."""


@dataclass(frozen=True)
class Latencies:
    """What was measured of each of the seven algorithms, in each condition."""

    quick: bool
    conditions: tuple[Condition, ...]
    goodput: Mapping[str, Sequence[Rise]]
    recovery: Mapping[str, Sequence[Rise]]
    single: Mapping[str, Sequence[Rise]]
    """After one loss."""

    def mean_goodput(self) -> dict[str, float]:
        """Seconds by algorithm."""
        return _means(self.goodput)

    def mean_recovery(self) -> dict[str, float]:
        """Seconds by algorithm."""
        return _means(self.recovery)

    def mean_single(self) -> dict[str, float]:
        """Seconds by algorithm."""
        return _means(self.single)


def _means(rises: Mapping[str, Sequence[Rise]]) -> dict[str, float]:
    return {name: mean(rise.latency for rise in found) for name, found in rises.items()}


def _conditions(quick: bool) -> tuple[Condition, ...]:
    return conditions()[:1] if quick else conditions()


def _everywhere(
    measure: Callable[[Controller, Condition], Rise],
    controller: Controller,
    places: Sequence[Condition],
) -> list[Rise]:
    """In the order of `places`."""
    # The longest path first, so that no thread ends with it.
    longest_first = sorted(places, key=lambda c: -c.rtt_ms)
    with thread_pool() as pool:
        rises = pool.map(lambda c: measure(controller, c), longest_first)
        found = dict(zip(longest_first, rises, strict=True))
    return [found[condition] for condition in places]


def _recovery(controller: Controller, condition: Condition, loss: float = LOSS) -> Rise:
    return recovery_rise(controller, condition, loss=loss, lasting_s=LASTING_S)


def latencies(quick: bool = False) -> Latencies:
    """Measure, once: 40 s of one processor, or 6 s if `quick`, on the path of 70 ms alone."""
    return _measured(quick)


@cache
def _measured(quick: bool) -> Latencies:
    places = _conditions(quick)
    goodput, recovery, single = (
        {name: _everywhere(measure, ALGORITHMS[name], places) for name in FINAL_TABLE}
        for measure in (goodput_rise, _recovery, single_loss_rise)
    )
    return Latencies(quick, places, goodput, recovery, single)


def rises_of_linux(quick: bool) -> list[Rise]:
    """Goodput latency of Linux's BIC."""
    return _everywhere(goodput_rise, BIC_OF_LINUX, _conditions(quick))


def table(quick: bool = False) -> list[dict[str, Any]]:
    """One row an algorithm: activation trigger, goodput and recovery latency, published and here;
    time to the highest rate after one loss; whether it is TCP below its trigger, bit for bit; of
    one loss in a window of 1000 packets the factor of the cut and the round trips to regain it.

    H-TCP is not TCP below its trigger, which is about growth: its cuts are its own always."""
    measured = latencies(quick)
    goodput, recovery = measured.mean_goodput(), measured.mean_recovery()
    single = measured.mean_single()
    rows = []
    for name, published in FINAL_TABLE.items():
        controller = ALGORITHMS[name]
        loss = single_loss(controller)
        rows.append(
            {
                "algorithm": name,
                "trigger, published": published.trigger,
                "trigger": str(trigger(controller)),
                "TCP below it": _below(name),
                "goodput latency, published (s)": published.goodput_s,
                "goodput latency (s)": round(goodput[name], 1),
                "recovery latency, published (s)": published.recovery_s,
                "recovery latency (s)": round(recovery[name], 1),
                "after one loss (s)": round(single[name], 1),
                "factor of one cut": round(loss.factor, 3),
                "round trips to regain 1000 packets": round(loss.rounds, 1),
            }
        )
    return rows


def _below(name: str) -> str:
    if FINAL_TABLE[name].trigger == "none":
        return "no trigger"
    return "yes" if same_as_reno(ALGORITHMS[name]) else "no"


def paths_table(quick: bool = False) -> list[dict[str, Any]]:
    """One row an algorithm and path: latencies in seconds."""
    measured = latencies(quick)
    return [
        {
            "algorithm": name,
            "path": condition.path,
            "round trip (ms)": condition.rtt_ms,
            "goodput latency (s)": round(measured.goodput[name][i].latency, 1),
            "recovery latency (s)": round(measured.recovery[name][i].latency, 1),
            "after one loss (s)": round(measured.single[name][i].latency, 1),
        }
        for name in measured.goodput
        for i, condition in enumerate(measured.conditions)
    ]


def losses_table(quick: bool = False) -> list[dict[str, Any]]:
    """How recovery latency depends on what went before: one row an algorithm, seconds after 60 s
    of 0.001 to 10 % loss, means over the paths with the lower propagation."""
    places = [c for c in _conditions(quick) if c.propagation == 1]
    rows = []
    for name in FINAL_TABLE:
        row: dict[str, Any] = {"algorithm": name}
        for loss in LOSSES:
            rises = _everywhere(partial(_recovery, loss=loss), ALGORITHMS[name], places)
            row[f"after {100 * loss:g} % (s)"] = round(mean(r.latency for r in rises), 1)
        rows.append(row)
    return rows


def findings(quick: bool = False) -> list[Finding]:
    """Findings F8, F10, F11, F14, F17, F18 and F19. Raises MissingExtraError without the extra
    `study`."""
    try:
        from dumbbell.mesonet._judge_single_flows import judge

        return list(judge(quick))
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("dumbbell"):
            raise
        raise MissingExtraError("judging findings of the NIST study", "study") from None


def criteria() -> dict[str, str]:
    """What must hold for each of these findings to be reproduced."""
    import inspect

    from dumbbell.mesonet._judge_single_flows import STATEMENTS

    return {name: inspect.getdoc(judged) or "" for name, (_, judged) in STATEMENTS.items()}


def figures(quick: bool = False) -> dict[str, Figure]:
    """By name: "goodput" and "recovery", rates over time, a panel an algorithm; "latencies", ours
    against the published ones."""
    from dumbbell.mesonet._latency_figures import latencies_figure, rises_figure

    measured = latencies(quick)
    return {
        "goodput": rises_figure(measured, measured.goodput, "time since the start (s)"),
        "recovery": rises_figure(
            measured, measured.recovery, f"time since the end of {LASTING_S} s of 1 % loss (s)"
        ),
        "latencies": latencies_figure(measured),
    }
