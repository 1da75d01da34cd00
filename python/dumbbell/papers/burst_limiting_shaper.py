"""The share of AF against its weight, with EF before it: round robin and burst limiting shaper."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, Published, between, within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from dumbbell._results import Result

_TALK = "IETF 99, ICCRG, talk on the burst limiting shaper"
_RATE = 10**7
_PAYLOAD = 1472
_FRAME = 1514
"""With its Ethernet header, which the link counts."""
_RTT_MS = 10
_FRAME_MS = _FRAME * 8 / _RATE * 1e3
_EF = (26, 49, 76)
"""EF's rate in percent of the link's."""
_EF_BOUNDS = (25, 75)
"""What it may be, for the spread of AF's share."""
_EF_FLOWS = 8
_WEIGHTS = tuple(Fraction(n, 20) for n in range(21))
_QUICK_WEIGHTS = tuple(Fraction(n, 4) for n in range(5))
_LEAST = Fraction(1, 1000)
"""Weight of a class that should have none."""
_NO_EARLY_DROP = {"green_min": "1000p", "green_max": "1001p"}
"""AF's own queue is full anyway."""


@dataclass(frozen=True)
class _Point:
    scheduler: str
    weight: Fraction
    ef: int


def _queue(scheduler: str, weight: Fraction) -> dict[str, Any]:
    if scheduler == "BLS":
        return {"kind": "bls", "weight": float(weight)}
    ratio = max(weight, _LEAST) / max(1 - weight, _LEAST)
    return {
        "kind": "diffserv",
        "df_weight": ratio.denominator,
        "classes": [{"af": 1, "weight": ratio.numerator, **_NO_EARLY_DROP}],
    }


def _measure(point: _Point, seconds: int) -> Result:
    def udp(name: str, dscp: str, rate: float, start_ms: float = 0) -> dict[str, Any]:
        traffic = {"kind": "rate", "rate": f"{rate:.0f}bit", "chunk": f"{_PAYLOAD}B"}
        start = f"{start_ms:g}ms"
        return {
            "id": name, "transport": "udp", "dscp": dscp, "start": start, "traffic": traffic,
        }  # fmt: skip

    # Rates that differ a little, so that EF's packets come in ever new patterns.
    mean = point.ef / 100 * _RATE * _PAYLOAD / _FRAME / _EF_FLOWS
    places = [n - (_EF_FLOWS - 1) / 2 for n in range(_EF_FLOWS)]
    ef = [udp(f"ef-{n}", "ef", mean * (1 + place / 100), n * 1.7) for n, place in enumerate(places)]
    return run_scenario(
        {
            "duration": f"{seconds}s",
            "warmup": "5s",
            "path": {
                "rate": f"{_RATE}bit",
                "rtt": f"{_RTT_MS}ms",
                "queue": _queue(point.scheduler, point.weight),
            },
            "flows": [*ef, udp("af", "af11", _RATE), udp("df", "df", _RATE)],
            "probes": [{"kind": "ping", "id": "ef", "dscp": "ef", "interval": "100ms"}],
        }
    )


def _af_percent(result: Result) -> float:
    """AF's share of the link."""
    [goodput] = [f["goodput_bps"] for f in result.summary["flows"] if f["id"] == "af"]
    return float(goodput * _FRAME / _PAYLOAD / _RATE * 100)


def _ef_delay_ms(result: Result) -> float:
    """The wait that 99 % of the pings stay within."""
    [probe] = result.summary["probes"]
    return float(probe["rtt_ms"]["p99"] - _RTT_MS)


def _target(scheduler: str, weight: float, ef: int) -> float:
    """AF's share in percent: of what EF leaves, or as designed for half the link for EF."""
    left = 100 - ef
    return weight * left if scheduler == "WRR" else min(weight * 50, left)


def _area(shares: Mapping[_Point, float], scheduler: str, weights: Sequence[Fraction]) -> float:
    """Integral over the weight of how far AF's share spreads, as shares of one."""
    few, many = _EF_BOUNDS
    spread = [
        (shares[_Point(scheduler, w, few)] - shares[_Point(scheduler, w, many)]) / 100
        for w in weights
    ]
    return float(np.trapezoid(spread, [float(w) for w in weights]))


def _share(scheduler: str, ef: int, value: float) -> Published:
    return Published(
        f"AF's share at w = 0.5, EF {ef} %, {scheduler}", "%", _TALK, value, value - 1, value + 1,
        "±1 point",
    )  # fmt: skip


def _run(quick: bool) -> Outcome:
    weights = _QUICK_WEIGHTS if quick else _WEIGHTS
    seconds = 25 if quick else 65
    points = [
        _Point(scheduler, weight, ef)
        for scheduler in ("WRR", "BLS")
        for weight in weights
        for ef in sorted({*_EF, *_EF_BOUNDS})
    ]
    shares, delays = {}, {}
    for point in points:
        result = _measure(point, seconds)
        shares[point] = _af_percent(result)
        delays[point] = _ef_delay_ms(result)
    half = Fraction(1, 2)
    judged = [
        *(
            (_share(scheduler, ef, value), shares[_Point(scheduler, half, ef)])
            for scheduler, ef, value in (
                ("WRR", 26, 37.0), ("WRR", 49, 25.5), ("WRR", 76, 12.0),
                ("BLS", 26, 25.0), ("BLS", 49, 25.0),
            )
        ),
        (
            between("AF's share, EF 76 %, BLS: farthest from w/2 or what EF leaves", high=1.5,
                    unit="points", source=_TALK),
            max(abs(shares[_Point("BLS", w, 76)] - _target("BLS", float(w), 76)) for w in weights),
        ),
        (
            within("uncertainty area, WRR", 0.25, 0.1, source="follows from the shares"),
            _area(shares, "WRR", weights),
        ),
        (
            within("uncertainty area, BLS", 1 / 16, 0.1, source="follows from the shares"),
            _area(shares, "BLS", weights),
        ),
        (
            between("p99 delay of EF: most that BLS adds to WRR's", high=_FRAME_MS, unit="ms",
                    source=_TALK),
            max(delays[p] - delays[_Point("WRR", p.weight, p.ef)]
                for p in points if p.scheduler == "BLS"),
        ),
    ]  # fmt: skip
    rows = [published.judge(ours) for published, ours in judged]
    table = [
        {"scheduler": p.scheduler, "weight": float(p.weight), "EF (%)": p.ef,
         "AF (%)": round(shares[p], 2), "EF p99 delay (ms)": round(delays[p], 2)}
        for p in points
    ]  # fmt: skip
    return Outcome(rows, lambda: _draw(shares, weights), {"shares": table})


def _draw(shares: Mapping[_Point, float], weights: Sequence[Fraction]) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import COLOURS

    made, axes = figure(1, 2, (6.5, 2.8))
    x = [float(w) for w in weights]
    for ax, scheduler in zip(axes[0], ("WRR", "BLS"), strict=True):
        bounds = [[shares[_Point(scheduler, w, ef)] for w in weights] for ef in _EF_BOUNDS]
        ax.fill_between(x, *bounds, color="#EEEEEE", zorder=0)
        for index, ef in enumerate(_EF):
            colour = COLOURS[index]
            ax.plot(x, [_target(scheduler, w, ef) for w in x], ":", color=colour)
            ax.plot(x, [shares[_Point(scheduler, w, ef)] for w in weights], "o", markersize=3,
                    color=colour, label=f"EF {ef} %")  # fmt: skip
        ax.set_title(scheduler)
        ax.set_xlabel("weight of AF")
        ax.set_ylim(0, 80)
    axes[0][0].set_ylabel("AF's share of the link (%)")
    made.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper left", ncols=3,
                frameon=False)  # fmt: skip
    return made


PAPER = Paper(
    name="burst-limiting-shaper",
    title="AF's share of a link under round robin and under a burst limiting shaper",
    source="Finzi, Lochin, Mifdaoui and Frances, GLOBECOM 2017; talk at IETF 99",
    setup=(
        "AF and DF send UDP at the rate of a 10 Mbit/s link, EF eight UDP flows at slightly "
        "different rates that add up to 25 to 76 % of it. EF goes first; AF and DF share the "
        "rest by weighted round robin, or by a burst limiting shaper designed for 50 % of EF, "
        "with bursts of 100 frames. The link and packet sizes of the paper are not known to us. "
        "The talk gives the shares for w = 0.5; the uncertainty area is the integral over w of "
        "the spread of AF's share for EF from 25 to 75 %. EF's delay is that of a ping each 100 "
        "ms."
    ),
    run=_run,
)
