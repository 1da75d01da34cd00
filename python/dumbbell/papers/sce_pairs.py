"""Some Congestion Experienced: how fast two flows become equal, and who wins with CE alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, between, series, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dumbbell._results import Result

_REPORT = "SCE-L4S bake-off, November 2019"
_SECOND_START_S = 10
_OVERLAP_S = 50
_QUICK_OVERLAP_S = 40
_EQUAL = 0.7
"""Two flows are equal from when the smaller has this share of the larger, over two seconds.
Reno-SCE cuts by the root of the window rounded down: 25 and 35 segments are the same to it."""
_SCE_BOX = {"kind": "sce", "flows": 1, "ramp": "below"}
_CE_BOX = {"kind": "fq_codel", "flows": 1}
SCE = {"cc": "reno-sce"}
CUBIC = {"cc": "cubic", "ecn": True}


def _pair(
    first: dict[str, Any],
    second: dict[str, Any],
    queue: dict[str, Any],
    rtt_ms: int,
    overlap_s: int,
) -> Result:
    """The second flow starts 10 s after the first."""
    return run_scenario(
        {
            "duration": f"{_SECOND_START_S + overlap_s}s",
            "warmup": f"{_SECOND_START_S}s",
            "interval": "200ms",
            "path": {"rate": "50Mbit", "rtt": f"{rtt_ms}ms", "queue": queue},
            "flows": [
                {"id": "first", **first},
                {"id": "second", "start": f"{_SECOND_START_S}s", **second},
            ],
        }
    )


def _forced(flow: dict[str, Any], queue: dict[str, Any]) -> Result:
    """A flow whose packets all come to the queue as ECT(1)."""
    return run_scenario(
        {
            "duration": "60s",
            "warmup": "20s",
            "interval": "200ms",
            "topology": {
                "links": [
                    {"from": "sender", "to": "edge", "ecn": "ect0-to-ect1", "duplex": False},
                    {"from": "edge", "to": "receiver", "rate": "50Mbit", "delay": "5ms",
                     "queue": queue, "duplex": False},
                    {"from": "receiver", "to": "sender", "delay": "5ms", "duplex": False},
                ]
            },
            "flows": [{"id": "first", "from": "sender", "to": "receiver", **flow}],
        }
    )  # fmt: skip


def convergence_s(result: Result) -> float:
    """Seconds from the second flow's start until both are equal; infinite if they never are."""
    t, first = series(result, "flow_series", "first", "t", "goodput_bps")
    (second,) = series(result, "flow_series", "second", "goodput_bps")
    width = 10
    kernel = np.ones(width) / width
    means = [np.convolve(rate, kernel, mode="valid") for rate in (first, second)]
    share = np.minimum(*means) / np.maximum(np.maximum(*means), 1.0)
    ends = t[width - 1 :]
    equal = np.flatnonzero((share >= _EQUAL) & (ends > _SECOND_START_S))
    return float(ends[equal[0]] - _SECOND_START_S) if equal.size else float("inf")


def _ratio(result: Result) -> float:
    """Of the second flow's goodput to the first's, while both run."""
    first, second = (flow["goodput_bps"] for flow in result.summary["flows"])
    return float(second / first)


def _goodput(result: Result) -> float:
    return float(result.summary["flows"][0]["goodput_bps"])


def _run(quick: bool) -> Outcome:
    overlap_s = _QUICK_OVERLAP_S if quick else _OVERLAP_S
    equal_80 = _pair(SCE, SCE, _SCE_BOX, 80, overlap_s)
    equal_10 = _pair(SCE, SCE, _SCE_BOX, 10, overlap_s)
    dominated = _pair(CUBIC, SCE, _SCE_BOX, 10, overlap_s)
    ce_equal = _pair(SCE, SCE, _CE_BOX, 10, overlap_s)
    ce_mixed = _pair(CUBIC, SCE, _CE_BOX, 10, overlap_s)
    prague = _pair(CUBIC, {"cc": "prague"}, _CE_BOX, 10, overlap_s)
    plain = _forced(CUBIC, {"kind": "codel", "ecn": True})
    cubic_forced = _forced(CUBIC, _SCE_BOX)
    sce_forced = _forced(SCE, _SCE_BOX)
    # Two segments each round trip of 10 ms.
    collapsed_bps = 2 * 1448 * 8 / 0.01
    judged = [
        (
            between("SCE box, two Reno-SCE, 80 ms: equal after", 10, 30, unit="s", source=_REPORT),
            convergence_s(equal_80),
        ),
        (
            between("SCE box, two Reno-SCE, 10 ms: equal after", high=5, unit="s", source=_REPORT),
            convergence_s(equal_10),
        ),
        (
            between("SCE box, CUBIC and Reno-SCE, 10 ms: Reno-SCE's share", high=0.3,
                    source=_REPORT),
            _ratio(dominated) / (1 + _ratio(dominated)),
        ),
        (
            between("CE only, two Reno-SCE, 10 ms: equal after", high=3, unit="s", source=_REPORT),
            convergence_s(ce_equal),
        ),
        (
            between("CE only, CUBIC and Reno-SCE, 10 ms: Reno-SCE over CUBIC", 1.2, 1.8,
                    source=_REPORT),
            _ratio(ce_mixed),
        ),
        (
            within("CE only, CUBIC and Prague, 10 ms: Prague over CUBIC", 7.7, 0.25,
                   source=_REPORT),
            _ratio(prague),
        ),
        (
            within("ECT(1) forced: CUBIC in the SCE box over CUBIC in CoDel", 1.0, 0.05,
                   source=_REPORT),
            _goodput(cubic_forced) / _goodput(plain),
        ),
        (
            between("ECT(1) forced: Reno-SCE, of two segments a round trip", high=1,
                    source=_REPORT),
            _goodput(sce_forced) / collapsed_bps,
        ),
    ]  # fmt: skip
    shown = {
        "SCE box, 80 ms: two Reno-SCE": equal_80,
        "SCE box, 10 ms: CUBIC, then Reno-SCE": dominated,
        "CE only, 10 ms: CUBIC, then Reno-SCE": ce_mixed,
        "CE only, 10 ms: CUBIC, then Prague": prague,
    }
    return Outcome([published.judge(ours) for published, ours in judged], lambda: _draw(shown))


def _draw(shown: dict[str, Result]) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import COLOURS

    made, axes = figure(2, 2, (6.5, 4.0), sharex=True, sharey=True)
    for ax, (title, result) in zip(axes.ravel(), shown.items(), strict=True):
        for index, (flow, label) in enumerate((("first", "first"), ("second", "second"))):
            t, goodput = series(result, "flow_series", flow, "t", "goodput_bps")
            ax.plot(t, goodput / 1e6, color=COLOURS[index], linewidth=0.9, label=label)
        ax.set_title(title, loc="left", fontsize=8)
        ax.set_ylim(0, 52)
    for ax in axes[:, 0]:
        ax.set_ylabel("goodput (Mbit/s)")
    for ax in axes[1]:
        ax.set_xlabel("time (s)")
    made.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=2,
                frameon=False)  # fmt: skip
    return made


PAPER = Paper(
    name="sce-pairs",
    title="Some Congestion Experienced: pairs of flows behind one queue",
    source="SCE and L4S bake-off, report of November 2019",
    setup=(
        "50 Mbit/s, two flows in one queue, the second 10 s after the first, both for 50 s; the "
        "SCE box is COBALT with the ramp from 2.5 to 5 ms, the box with CE only FQ-CoDel with a "
        "single queue. ECT(1) is forced on the way to the bottleneck for the last rows, at 10 ms."
    ),
    run=_run,
)
