"""The flow state exchange over RAP and TFRC: its authors' experiments with ns-2."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dumbbell.papers._fse_loads import flows, queues, simple
from dumbbell.papers._fse_runs import FULL, HALF_BDP, QUICK, Plan, Rows
from dumbbell.papers._fse_shares import background, limited, priority, round_trips
from dumbbell.papers._paper import Outcome, Paper, thread_pool

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PARTS = (priority, round_trips, flows, queues, limited, background, simple)


def _run(quick: bool) -> Outcome:
    return experiment(QUICK if quick else FULL)


def experiment(plan: Plan) -> Outcome:
    """All experiments by a plan."""
    with thread_pool() as pool:
        parts = [part(pool, plan) for part in _PARTS]
        tables: dict[str, Rows] = {}
        judged = []
        for finish in parts:
            rows, own = finish()
            judged += rows
            tables |= own
    return Outcome(
        [published.judge(ours) for published, ours in judged], partial(_draw, tables), tables
    )


def _draw(tables: dict[str, Rows]) -> Figure:
    from dumbbell.papers._fse_figure import draw

    return draw(tables)


PAPER = Paper(
    name="fse-slides",
    title="Flow state exchange: flows that share the sum of their rates",
    source="Islam, Welzl, Gjessing and Hayes, slides on coupled congestion control; RFC 8699",
    setup=(
        f"10 Mbit/s, a drop-tail queue of {HALF_BDP} packets, packets of 1000 bytes, 100 ms; RAP "
        "and TFRC; 300 s, ten runs with starts in the first second. The exchange is the "
        "conservative one in which an increase counts for 1/N. Where round-trip times differ, one "
        "unit is 10 ms. The application-limited flow needs a constant 4 Mbit/s where the authors "
        "played a trace of a video conference, and the background is TCP transfers of Pareto size "
        "where they had a trace of such; the simple algorithm runs at 10 ms, for which 13 packets "
        "are one bandwidth-delay product. Gaps between packets, with and without the exchange, "
        "vary at random by a quarter each way: flows of exactly equal rates would keep step, and "
        "the same ones would lose nearly all. TFRC damps oscillations, as ns-2 does by default, "
        "which the slides' curves are from. Coupled flows are one flow, so the background is "
        "judged by what one RAP flow gets beside it: about half of the 5 Mbit/s that are left, "
        "since bursts make it back off. After an overflow the application-limited flow has a "
        "quarter of the peak of the sum, 0.66 of its need, so that it never falls to half; "
        "without the exchange it backs off more often. With the simple algorithm an overflow that "
        "reaches all N flows leaves (1 - 1/2N)^N of the sum, 0.56 to 0.61, where half is left "
        "without: overflows are more frequent, but have less excess. In a fluid of few flows, two "
        "or five, less is lost then, and with ten or more more, so the slides' claim of more loss "
        "is judged for these; that the queue is longer is judged below 15, from where on it is "
        "full in any case."
    ),
    run=_run,
)
