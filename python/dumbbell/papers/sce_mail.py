"""Some Congestion Experienced: the eight experiments of the mail that proposed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell._plots_data import columns
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, Published, between, series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dumbbell._results import Result

_MAIL = "Morton, mail to tsvwg and ecn-sane, July 2019"
_SECOND_START_S = 10
_WARMUP_S = 20
_TARGET_MS = 5
_RAMP_START_MS = 2.5
FQ, SINGLE = 1024, 1
SCE = {"cc": "reno-sce", "params": {"ce_divisor": 2, "ce_divisor_recent": 2}}
"""Answers CE as Reno: in the mail both share evenly where both react mainly to CE. Later code takes
a quarter or an eighth."""
RENO = {"cc": "reno", "ecn": True}


@dataclass(frozen=True)
class _Experiment:
    """Queues for flows, where the SCE ramp lies, and the two flows."""

    title: str
    flows: int
    ramp: str
    first: dict[str, Any]
    second: dict[str, Any]


_EXPERIMENTS = {
    1: _Experiment("FQ, below: Reno-SCE and Reno", FQ, "below", SCE, RENO),
    2: _Experiment("single, below: Reno-SCE and Reno", SINGLE, "below", SCE, RENO),
    3: _Experiment("single, above: Reno-SCE and Reno", SINGLE, "above", SCE, RENO),
    4: _Experiment("single, straddling: Reno-SCE and Reno", SINGLE, "straddling", SCE, RENO),
    5: _Experiment("single, below: two Reno-SCE", SINGLE, "below", SCE, SCE),
    6: _Experiment("single, straddling: two Reno-SCE", SINGLE, "straddling", SCE, SCE),
    7: _Experiment("single, above: two Reno-SCE", SINGLE, "above", SCE, SCE),
    8: _Experiment("FQ, below: two Reno-SCE", FQ, "below", SCE, SCE),
}


def _measure(experiment: _Experiment, quick: bool) -> Result:
    return run_scenario(
        {
            "duration": "40s" if quick else "60s",
            "warmup": f"{_WARMUP_S}s",
            "interval": "200ms",
            "path": {
                "rate": "50Mbit",
                "rtt": "80ms",
                "queue": {"kind": "sce", "flows": experiment.flows, "ramp": experiment.ramp},
            },
            "flows": [
                {"id": "first", **experiment.first},
                {"id": "second", "start": f"{_SECOND_START_S}s", **experiment.second},
            ],
            "probes": [{"id": "probe", "kind": "ping", "interval": "20ms"}],
        }
    )


def _share(result: Result) -> float:
    """Of the first flow."""
    first, second = (flow["goodput_bps"] for flow in result.summary["flows"])
    return float(first / (first + second))


def _part_of_the_rest(result: Result) -> float:
    """What the first flow gets of the payload capacity that the second does not use."""
    first, second = (flow["goodput_bps"] for flow in result.summary["flows"])
    return float(first / (50e6 * 1448 / 1514 - second))


def _utilisation(result: Result) -> float:
    return float(result.summary["links"][0]["utilisation"])


def _delay_ms(result: Result, quantile: str = "p95") -> float:
    return float(result.summary["links"][0]["queue_delay_ms"][quantile])


def _probe_ms(result: Result) -> float:
    """What the probe's 95th percentile adds to the base round trip."""
    return float(result.summary["probes"][0]["rtt_ms"]["p95"]) - 80


def _jain(result: Result) -> float:
    return float(result.summary["totals"]["jain"])


def _run(quick: bool) -> Outcome:
    results = {number: _measure(one, quick) for number, one in _EXPERIMENTS.items()}

    def claim(number: int, what: str, low: float, high: float, unit: str = "") -> Published:
        return between(f"{number}: {what}", low, high, unit=unit, source=_MAIL)

    inf = float("inf")
    judged: list[tuple[Published, float]] = [
        (claim(1, "Reno-SCE's part of what Reno leaves", 0.9, inf), _part_of_the_rest(results[1])),
        (claim(1, "Reno-SCE's share", 0.5, inf), _share(results[1])),
        (claim(1, "delay of the probe, p95", -inf, 2, "ms"), _probe_ms(results[1])),
        (claim(2, "Reno-SCE's share", -inf, 0.25), _share(results[2])),
        (claim(3, "Jain index", 0.95, inf), _jain(results[3])),
        (claim(4, "Jain index", 0.95, inf), _jain(results[4])),
        (
            claim(4, "utilisation above that of 3", 0, inf),
            _utilisation(results[4]) - _utilisation(results[3]),
        ),
        (claim(5, "Jain index", 0.95, inf), _jain(results[5])),
        (
            claim(5, "median queueing delay", _RAMP_START_MS, _TARGET_MS, "ms"),
            _delay_ms(results[5], "p50"),
        ),
        (claim(5, "CE marks", -inf, 0), float(results[5].summary["links"][0]["marks_window"])),
        (claim(6, "Jain index", 0.95, inf), _jain(results[6])),
        (
            claim(6, "delay above that of 5", 0, inf, "ms"),
            _delay_ms(results[6]) - _delay_ms(results[5]),
        ),
        (claim(7, "Jain index", 0.95, inf), _jain(results[7])),
        (
            claim(7, "delay above that of 6", 0, inf, "ms"),
            _delay_ms(results[7]) - _delay_ms(results[6]),
        ),
        (claim(8, "Jain index", 0.999, inf), _jain(results[8])),
        (
            claim(8, "delay of the probe below that of 1", 0, inf, "ms"),
            _probe_ms(results[1]) - _probe_ms(results[8]),
        ),
    ]
    rows = [published.judge(ours) for published, ours in judged]
    return Outcome(rows, lambda: _draw(results))


def _draw(results: dict[int, Result]) -> Figure:
    """Throughput of both flows and the probe's delay, as Flent plots them."""
    from dumbbell._plots import figure
    from dumbbell._plots_panels import COLOURS

    made, axes = figure(4, 4, (9.5, 7.0), sharex=True)
    for number, result in results.items():
        down, across = 2 * ((number - 1) // 4), (number - 1) % 4
        rates, delays = axes[down, across], axes[down + 1, across]
        kinds = (_EXPERIMENTS[number].first["cc"], _EXPERIMENTS[number].second["cc"])
        for flow, cc, dashes in zip(("first", "second"), kinds, ("-", "--"), strict=True):
            t, goodput = series(result, "flow_series", flow, "t", "goodput_bps")
            colour = COLOURS[0] if cc == "reno-sce" else COLOURS[1]
            rates.plot(t, goodput / 1e6, dashes, color=colour, linewidth=0.8)
        probe = columns(result, "probe_samples")
        delays.plot(probe["t"], np.asarray(probe["delay_ms"]) - 80, color="#555555", linewidth=0.5)
        rates.set_title(f"{number}: {_EXPERIMENTS[number].title}", loc="left", fontsize=6.5)
        rates.set_ylim(0, 52)
        delays.set_ylim(0, 30)
        if across == 0:
            rates.set_ylabel("goodput\n(Mbit/s)")
            delays.set_ylabel("probe's\ndelay (ms)")
        if down == 2:
            delays.set_xlabel("time (s)")
    made.align_ylabels(axes[:, 0])
    handles = [
        axes[0, 0].plot([], [], color=colour, label=label)[0]
        for colour, label in ((COLOURS[0], "Reno-SCE"), (COLOURS[1], "Reno"))
    ]
    made.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False)
    return made


PAPER = Paper(
    name="sce-mail",
    title="Some Congestion Experienced: eight experiments with two flows",
    source="J. Morton, Some Congestion Experienced, mail to tsvwg and ecn-sane, July 2019",
    setup=(
        "50 Mbit/s, base RTT 80 ms, COBALT with the SCE ramp, target 5 ms; two flows, the second "
        "10 s after the first, 60 s of which 20 s are left out, and a ping every 20 ms. The mail "
        "does not state the start of the second flow, the knee of the straddling ramp (4 here) and "
        "how Reno-SCE answers CE (as Reno here); of 5 to 8 it gives graphs and no words, so that "
        "what is asked of them is what the ramps say. Delays are 95th percentiles."
    ),
    run=_run,
)
