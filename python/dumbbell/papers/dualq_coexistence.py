"""Classic and scalable flows under the coupled dual queue: who gets how much, and who waits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell._plots_data import columns
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, between, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dumbbell._results import Result

_RFC = "RFC 9332"
_ABSTRACT = "De Schepper et al., arXiv 2209.01078, abstract"
_RATES_MBPS = (4, 12, 40, 120, 200)
_RTTS_MS = (5, 10, 20, 50, 100)
_QUICK = ((12, 120), (10, 50))
_TARGET_MS = 15
_VIRTUAL_RTT_MS = 25
"""Of Prague: what it counts as its RTT where the real one is less."""
_COUPLING = 2
_NO_NATIVE_MARKS = {"step_thresh": "1s"}
"""A threshold that is never reached: the L queue is marked by the coupling alone."""
_OF_THE_RFC = {"l_aqm": "ramp", "min_qlen_step": "1p"}
"""Appendix A.2: marks of the L queue's own by a ramp, and none while one packet is in it."""


def _pair(rate_mbps: float, rtt_ms: float, seconds: int) -> Result:
    """One CUBIC and one Prague flow."""
    return _run_flows(
        rate_mbps,
        rtt_ms,
        seconds,
        [{"id": "prague", "cc": "prague"}, {"id": "cubic", "cc": "cubic", "start": "100ms"}],
        _OF_THE_RFC,
    )


def _run_flows(
    rate_mbps: float,
    rtt_ms: float,
    seconds: int,
    flows: Sequence[dict[str, Any]],
    queue: dict[str, Any],
) -> Result:
    return run_scenario(
        {
            "duration": f"{seconds}s",
            "warmup": f"{seconds // 3}s",
            "interval": "10ms",
            "path": {
                "rate": f"{rate_mbps}Mbit",
                "rtt": f"{rtt_ms}ms",
                "queue": {"kind": "dualpi2", **queue},
            },
            "flows": [{"ack_every": 1, **flow} for flow in flows],
        }
    )


def _ratio(result: Result) -> float:
    """Of the scalable flow's goodput to the Classic flow's."""
    scalable, classic = (flow["goodput_bps"] for flow in result.summary["flows"])
    return float(scalable / classic)


def _predicted(rtt_ms: float) -> float:
    """RFC 9332 appendix C.2 with the rates of CReno and Prague at the same signal: CReno halves for
    the root of the probability at its own RTT, queue included; Prague's RTT is the virtual one."""
    return (rtt_ms + _TARGET_MS) / (1.4 * max(rtt_ms, _VIRTUAL_RTT_MS))


def _l_delay_ms(result: Result, percent: float) -> float:
    """Percentile of the delay of the packet that the L queue let go last, every 10 ms."""
    table = columns(result, "queue_series")
    warmup_s = result.config["warmup_ns"] / 1e9
    rows = (table["name"] == "l_delay_ms") & (table["t"] >= warmup_s)
    return float(np.percentile(table["value"][rows], percent))


def _coupling(seconds: int) -> float:
    """k from the signals of many flows of both kinds: the mark ratio of L over the root of the drop
    ratio of C."""
    flows = [
        {"id": "prague", "cc": "prague", "count": 5, "stagger": "50ms"},
        {"id": "cubic", "cc": "cubic", "count": 5, "stagger": "50ms", "start": "20ms"},
    ]
    result = _run_flows(40, 20, seconds, flows, _NO_NATIVE_MARKS)
    scalable, classic = result.summary["flows"][:5], result.summary["flows"][5:]
    arrived = sum(f["sent_packets"] - f["dropped_packets"] for f in scalable)
    marked = sum(f["mark_ratio"] * (f["sent_packets"] - f["dropped_packets"]) for f in scalable)
    drops = sum(f["dropped_packets"] for f in classic)
    sent = sum(f["sent_packets"] for f in classic)
    return float(marked / arrived / math.sqrt(drops / sent))


def _run(quick: bool) -> Outcome:
    rates, rtts = _QUICK if quick else (_RATES_MBPS, _RTTS_MS)
    seconds = 30 if quick else 90
    results = {(rate, rtt): _pair(rate, rtt, seconds) for rate in rates for rtt in rtts}
    ratios = {key: _ratio(result) for key, result in results.items()}
    against = [ratios[key] / _predicted(key[1]) for key in results]
    fast = {key: result for key, result in results.items() if key[0] >= 12}
    medians = [_l_delay_ms(result, 50) for result in fast.values()]
    tails = [_l_delay_ms(result, 99) for result in fast.values()]
    used = [result.summary["links"][0]["utilisation"] for result in results.values()]
    judged = [
        (
            within("k from signals: marks of L over the root of drops of C", _COUPLING, 0.05,
                   source=f"{_RFC} section 2.1"),
            _coupling(60 if quick else 300),
        ),
        (
            between("Prague's rate over CUBIC's: least", low=0.5,
                    source="De Schepper et al., CoNEXT 2016"),
            min(ratios.values()),
        ),
        (
            between("Prague's rate over CUBIC's: greatest", high=2.0,
                    source="De Schepper et al., CoNEXT 2016"),
            max(ratios.values()),
        ),
        (
            between("that ratio over the predicted one: median", 0.6, 1.6,
                    source=f"{_RFC} appendix C"),
            float(np.median(against)),
        ),
        (
            between("L queue at 12 Mbit/s and above: median of median delays", 0.1, 0.3, unit="ms",
                    source=_ABSTRACT),
            float(np.median(medians)),
        ),
        (
            between("L queue at 12 Mbit/s and above: worst 99th percentile", high=2.0, unit="ms",
                    source=_ABSTRACT),
            max(tails),
        ),
        (
            between("L packets dropped at 12 Mbit/s and above", high=0, source=_ABSTRACT),
            float(sum(r.summary["flows"][0]["dropped_packets"] for r in fast.values())),
        ),
        (
            between("utilisation: median over the grid", low=0.95, source=_ABSTRACT),
            float(np.median(used)),
        ),
    ]  # fmt: skip
    rows = [published.judge(ours) for published, ours in judged]
    return Outcome(rows, lambda: _draw(results, ratios))


def _draw(results: dict[tuple[int, int], Result], ratios: dict[tuple[int, int], float]) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import COLOURS

    made, axes = figure(1, 2, (6.5, 2.8))
    left, right = axes[0]
    rates = sorted({rate for rate, _ in results})
    rtts = sorted({rtt for _, rtt in results})
    left.plot(rtts, [_predicted(rtt) for rtt in rtts], color="black", linestyle=":",
              label="predicted")  # fmt: skip
    for index, rate in enumerate(rates):
        colour = COLOURS[index % len(COLOURS)]
        left.plot(rtts, [ratios[rate, rtt] for rtt in rtts], "o-", markersize=3, color=colour,
                  label=f"{rate} Mbit/s")  # fmt: skip
        for percent, style in ((50, "o-"), (99, "^--")):
            delays = [_l_delay_ms(results[rate, rtt], percent) for rtt in rtts]
            right.plot(rtts, delays, style, markersize=3, color=colour)
    left.axhspan(0.5, 2, color="#EEEEEE", zorder=0)
    left.set_yscale("log", base=2)
    left.set_yticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
    right.set_yscale("symlog", linthresh=0.1)
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_xticks(rtts, [f"{rtt:g}" for rtt in rtts])
        ax.minorticks_off()
        ax.set_xlabel("base RTT (ms)")
    left.set_ylabel("Prague's rate over CUBIC's")
    right.set_ylabel("delay of the L queue (ms)\nsolid: median, dashed: p99")
    made.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=3,
                frameon=False)  # fmt: skip
    return made


PAPER = Paper(
    name="dualq-coexistence",
    title="CUBIC and Prague under the coupled dual queue",
    source="RFC 9332; De Schepper, Albisser, Tilmans and Briscoe, arXiv 2209.01078",
    setup=(
        "One CUBIC and one Prague flow through DualPI2 (target 15 ms, k = 2, the ramp of RFC "
        "9332) at 4 to 200 Mbit/s and base RTTs of 5 to 100 ms, 90 s, the first third left out, an "
        "ACK for every segment. At 4 Mbit/s windows are a few segments, and overload drops L "
        "packets too. The coupling is measured with five flows of each kind at 40 Mbit/s and 20 "
        "ms, with the L queue's own threshold out of reach."
    ),
    run=_run,
)
