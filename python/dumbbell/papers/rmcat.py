"""The test cases of RFC 8867 for congestion control of media: NADA, SCReAM and GCC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell.papers._paper import Outcome, Paper, Published, between, thread_pool, within
from dumbbell.papers._rmcat_cases import (
    CASES,
    CONTROLLERS,
    FREE_BACK,
    LIBWEBRTC_GCC,
    Measured,
    Rest,
    flow_rows,
    rest_row,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NADA = "RFC 8698: 10 ms x 1.5 Mbit/s x flows / capacity"
_CASES = "RFC 8867, expected behaviour; the threshold is ours"
_LEAST_MBIT, _MOST_MBIT = 0.15, 1.5
_BESIDE_TCP = ("5.6", "5.7")
_QUICK = ("5.1", "5.4", "5.8")
_RESTS = ((1, 1e6), (1, 0.6e6), (3, 3.5e6))
_NOISES = (0.15, 0.0)

_SEEDS = range(1, 6)

_Runs = dict[tuple[str, str], list[Measured]]
_Judged = list[tuple[Published, float]]


def _run(quick: bool) -> Outcome:
    cases = _QUICK if quick else (*CASES, FREE_BACK)
    seeds = _SEEDS[:1] if quick else _SEEDS
    pairs = [(case, cc) for case in cases for cc in CONTROLLERS]
    pairs += [(case, LIBWEBRTC_GCC) for case in _BESIDE_TCP if case in cases]
    places = [(*one, noise) for noise in (_NOISES[:1] if quick else _NOISES) for one in _RESTS]
    with thread_pool() as pool:
        futures = {
            pair: [pool.submit(Measured.run, *pair, seed) for seed in seeds] for pair in pairs
        }
        resting = [[pool.submit(Rest.run, *place, seed) for seed in seeds] for place in places]
        runs: _Runs = {pair: [one.result() for one in them] for pair, them in futures.items()}
        rested = [[one.result() for one in them] for them in resting]
    judged = [_merged([[_rests(run)] for run in them]) for them in rested]
    for cc in (*CONTROLLERS, LIBWEBRTC_GCC):
        for case, judge in _JUDGES.items():
            if (case, cc) in runs:
                judged.append(_merged([judge(cc, run) for run in runs[case, cc]]))
        if (FREE_BACK, cc) in runs:
            both = zip(runs["5.3", cc], runs[FREE_BACK, cc], strict=True)
            judged.append(_merged([[_feedback(cc, *pair)] for pair in both]))
    values = [one for some in judged for one in some]
    tables = {
        "Spread over runs": [
            {"what": published.what, "mean": _rounded(mean), "standard deviation": _rounded(spread)}
            for published, mean, spread in values
        ],
        "NADA at rest": [rest_row(them) for them in rested],
        "Flows": [row for them in runs.values() for row in flow_rows(them)],
    }
    rows = [published.judge(mean) for published, mean, _ in values]
    return Outcome(rows, lambda: _draw({pair: them[0] for pair, them in runs.items()}), tables)


def _merged(runs: Sequence[_Judged]) -> list[tuple[Published, float, float]]:
    """What each run says of the same claims, as means and standard deviations."""
    found = []
    for claims in zip(*runs, strict=True):
        values = [value for _, value in claims]
        spread = float(np.std(values)) if np.isfinite(values).all() else float("inf")
        found.append((claims[0][0], float(np.mean(values)), spread))
    return found


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _rests(rest: Rest) -> tuple[Published, float]:
    """The delay that NADA steers to."""
    flows = f"{rest.flows} flow{'s' * (rest.flows > 1)}"
    flows += "" if rest.noise else " of equal frames"
    what = f"nada at rest, {flows}, {rest.capacity_bps / 1e6:g} Mbit/s: queueing delay"
    return within(what, rest.expected, 0.2, unit="ms", source=_NADA), rest.signal


def _claim(
    cc: str, case: str, what: str, low: float, high: float = float("inf"), *, unit: str = ""
) -> Published:
    return between(f"{cc} {case}: {what}", low, high, unit=unit, source=_CASES)


def _follows(cc: str, run: Measured) -> _Judged:
    """Use of each part's capacity, 1.5 Mbit/s at most, in its second half."""
    parts = ((20, 40, 1.0), (50, 60, _MOST_MBIT), (70, 80, 0.6), (90, 100, 1.0))
    used = min(run.rate("media", start, end) / rate for start, end, rate in parts)
    return [(_claim(cc, "5.1", "least use of capacity, or of 1.5 Mbit/s", 0.7), used)]


def _shares_alike(cc: str, run: Measured) -> _Judged:
    parts = ((12, 25), (37, 50), (62, 75), (87, 100), (112, 125))
    least = min(run.jain(*part) for part in parts)
    return [(_claim(cc, "5.2", "least Jain index, second halves of parts", 0.9), least)]


def _feedback(cc: str, run: Measured, free: Measured) -> tuple[Published, float]:
    """The way back is slow from 35 to 70 s."""
    share = run.rate("forward", 35, 70) / free.rate("forward", 35, 70)
    what = "forward rate while the way back is congested, over that while it is not"
    return _claim(cc, "5.3", what, 0.8), share


def _converges(cc: str, run: Measured) -> _Judged:
    return [(_claim(cc, "5.4", "Jain index, last 20 s", 0.9), run.jain(100, 120))]


def _round_trips(cc: str, run: Measured) -> _Judged:
    return [(_claim(cc, "5.5", "Jain index, last 100 s", 0.9), run.jain(200, 300))]


def _long_tcp(cc: str, run: Measured) -> _Judged:
    rate = run.rate("media", 60, 120)
    what = "rate beside TCP, above twice the least"
    return [(_claim(cc, "5.6", what, 2 * _LEAST_MBIT, unit="Mbit/s"), rate)]


def _short_tcp(cc: str, run: Measured) -> _Judged:
    rate = min(run.rate(flow, 100, 300) for flow in run.media)
    what = "lesser rate beside TCP, above twice the least"
    return [(_claim(cc, "5.7", what, 2 * _LEAST_MBIT, unit="Mbit/s"), rate)]


def _pause(cc: str, run: Measured) -> _Judged:
    others = run.rate("media-2", 50, 60) + run.rate("media-3", 50, 60)
    fair = 3.5 / 3
    what = "time from the pause's end to 80 % of a fair share"
    return [
        (_claim(cc, "5.8", "others' use of 3 Mbit/s in the pause", 0.8), others / (2 * _MOST_MBIT)),
        (_claim(cc, "5.8", what, 0, 10, unit="s"), run.reached("media-1", 0.8 * fair, 60)),
    ]


_JUDGES = {
    "5.1": _follows,
    "5.2": _shares_alike,
    "5.4": _converges,
    "5.5": _round_trips,
    "5.6": _long_tcp,
    "5.7": _short_tcp,
    "5.8": _pause,
}


def _draw(runs: dict[tuple[str, str], Measured]) -> Figure:
    """Rates above, delay of frames below, for each case a pair of rows, a column a controller."""
    from dumbbell._plots import figure
    from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

    cases = [case for case in CASES if (case, CONTROLLERS[0]) in runs]
    made, axes = figure(
        2 * len(cases),
        len(CONTROLLERS),
        (10.0, 2.6 * len(cases)),
        sharey="row",
        height_ratios=[1.4, 0.9] * len(cases),
    )
    for place, case in enumerate(cases):
        for column, cc in enumerate(CONTROLLERS):
            run = runs[case, cc]
            rate, delay = axes[2 * place, column], axes[2 * place + 1, column]
            t, _ = run.queue
            rate.plot(t, run.capacity, color=CAPACITY_COLOUR, linewidth=1.0)
            if case in _BESIDE_TCP:
                rest = run.throughput - np.sum([run.flows[flow][1] for flow in run.media], axis=0)
                rate.plot(t, _smooth(t, rest, 3.0), color="#000000", linewidth=0.7)
            for index, flow in enumerate(run.media):
                colour = COLOURS[index % len(COLOURS)]
                at, values = run.flows[flow]
                rate.plot(at, _smooth(at, values, 1.0), color=colour, linewidth=0.9)
                captured, late = run.frames[flow]
                pauses = np.flatnonzero(np.diff(captured) > 1) + 1
                captured, late = (np.insert(a, pauses, np.nan) for a in (captured, late))
                delay.plot(captured, late, color=colour, linewidth=0.5, rasterized=True)
            rate.set_xlim(0, float(t[-1]))
            delay.set_xlim(0, float(t[-1]))
            rate.tick_params(labelbottom=False)
        axes[2 * place, 0].set_ylim(bottom=0)
        axes[2 * place, 0].set_ylabel(f"{CASES[case]}\nMbit/s", fontsize=8)
        axes[2 * place + 1, 0].set_yscale("log")
        axes[2 * place + 1, 0].set_ylim(30, 30_000)
        axes[2 * place + 1, 0].set_ylabel("frame\ndelay (ms)", fontsize=8)
    for column, cc in enumerate(CONTROLLERS):
        axes[0, column].set_title(cc)
        axes[-1, column].set_xlabel("time (s)")
    made.align_ylabels(axes[:, 0])
    return made


def _smooth(t: Any, values: Any, span_s: float) -> Any:
    """Mean over so many seconds."""
    n = max(1, round(span_s / float(t[1] - t[0])))
    return np.convolve(values, np.full(n, 1 / n), mode="same")


PAPER = Paper(
    name="rmcat",
    title="Test cases for congestion control of real-time media: NADA, SCReAM and GCC",
    source="RFC 8867, RFC 8698, RFC 8298, draft-ietf-rmcat-gcc",
    setup=(
        "The presets rmcat-5.1 to rmcat-5.8: drop-tail queues of 300 ms, one way 50 ms and a "
        "jitter of 15 ms at most (normal, 5 ms, in order), synthetic video (RFC 8593) from 150 "
        "kbit/s to 1.5 Mbit/s and no audio, reports every 50 ms (RFC 8888), means of five runs, "
        "whose frames differ; GCC beside TCP also with libwebrtc's gains of the threshold. Media "
        "begin 5 s after TCP, as in libwebrtc's and ns3-rmcat's runs; short transfers have 30 to "
        "50 kB (RFC 8868). Queues keep the bytes that are 300 ms at the first capacity. At rest: "
        "the same video at a constant capacity without jitter for 240 s, the last 100 s counted. "
        "In the figure, of the first run, grey is capacity, black what the link carries beside "
        "media (TCP, and headers), rates are means of a second; below are delays of frames."
    ),
    run=_run,
)
