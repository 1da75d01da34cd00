"""The loss rates that Reno and CUBIC can live with: formulas, RFC 9438's tables, simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, between, factor, mean_cwnd, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RFC = "RFC 9438 section 5.1"
_TALK = "BBR talk, ICCRG"
_PACKET_BITS = 1500 * 8

# Average window in segments by loss rate: Reno (any RTT), CUBIC at 0.1 s, CUBIC at 0.01 s.
_TABLE = {
    1e-2: (12, 12, 12),
    1e-3: (38, 38, 38),
    1e-4: (120, 187, 120),
    1e-5: (379, 1054, 379),
}
# Loss rate needed for a rate at 0.1 s: Reno, CUBIC.
_NEEDED = {
    1e7: (2.0e-4, 2.9e-4),
    1e8: (2.0e-6, 1.4e-5),
    1e9: (2.0e-8, 6.3e-7),
    1e10: (2.0e-10, 2.9e-8),
}


def reno_window(p: float) -> float:
    """Average window of Reno, segments (RFC 9438 figure 3 with alpha 1 and beta 0.5)."""
    return float((1.5 / p) ** 0.5)


def cubic_window(p: float, rtt_s: float) -> float:
    """Average window of CUBIC, segments (RFC 9438 figure 8), not below Reno's."""
    return max(float(1.054 * (rtt_s / p) ** 0.75), reno_window(p))


def reno_loss(bps: float, rtt_s: float) -> float:
    """Loss rate at which Reno reaches a rate."""
    return float(1.5 / (bps * rtt_s / _PACKET_BITS) ** 2)


def cubic_loss(bps: float, rtt_s: float) -> float:
    """Loss rate at which CUBIC reaches a rate, outside its Reno-friendly region."""
    cubic = rtt_s * (1.054 / (bps * rtt_s / _PACKET_BITS)) ** (4 / 3)
    return max(float(cubic), reno_loss(bps, rtt_s))


def _simulated(cc: str, p: float, rtt_ms: int) -> float:
    """Average window under exactly one loss in 1/p packets on a link that is never full."""
    window = cubic_window(p, rtt_ms / 1000) if cc == "cubic" else reno_window(p)
    # A cycle lasts 1/p packets; twelve are enough, after four to settle in.
    cycle_s = 1 / p / window * rtt_ms / 1000
    warmup, duration = max(5.0, 4 * cycle_s), max(30.0, 16 * cycle_s)
    result = run_scenario(
        {
            "duration": f"{duration:.3f}s",
            "interval": f"{rtt_ms}ms",
            "path": {
                "rate": "10Gbit",
                "rtt": f"{rtt_ms}ms",
                "loss": {"kind": "periodic", "period": round(1 / p)},
            },
            "flows": [
                {
                    "id": "f",
                    "cc": cc,
                    "ack_every": 1,
                    "params": {"linux": False} if cc == "cubic" else {},
                }
            ],
        }
    )
    return mean_cwnd(result, "f", after_s=warmup)


def _goodput(cc: str, rate: str, quick: bool) -> float:
    """Mbit/s at 1 % random loss and 100 ms."""
    result = run_scenario(
        {
            "duration": "15s" if quick else "60s",
            "warmup": "5s",
            "path": {
                "rate": rate,
                "rtt": "100ms",
                "loss": 0.01,
                "queue": {"kind": "fifo", "limit": "1bdp"},
            },
            "flows": [{"cc": cc}],
        }
    )
    return float(result.summary["flows"][0]["goodput_bps"]) / 1e6


def _run(quick: bool) -> Outcome:
    rows = []
    for bps, (reno, cubic) in _NEEDED.items():
        rate = f"{bps / 1e6:,.0f} Mbit/s".replace(",", "\u2009")
        rows.append(
            within(f"loss rate for {rate} at 100 ms, Reno, formula", reno, 0.1, source=_RFC).judge(
                reno_loss(bps, 0.1)
            )
        )
        rows.append(
            within(f"loss rate for {rate} at 100 ms, CUBIC, formula", cubic, 0.1, source=_RFC)
            .judge(cubic_loss(bps, 0.1))
        )  # fmt: skip
    rows.append(
        within("packets for one loss, 10 Gbit/s at 100 ms, CUBIC, formula", 30e6, 0.2, source=_TALK)
        .judge(1 / cubic_loss(1e10, 0.1))
    )  # fmt: skip
    points = []
    for p, windows in _TABLE.items():
        if quick and p < 1e-4:
            continue
        for cc, rtt_ms, window in zip(
            ("reno", "cubic", "cubic"), (100, 100, 10), windows, strict=True
        ):
            if cc == "reno" and p < 1e-4:
                # A cycle of 26 s: the same formula is covered by the points above it.
                continue
            ours = _simulated(cc, p, rtt_ms)
            points.append((cc, rtt_ms, p, window, ours))
            name = "Reno" if cc == "reno" else "CUBIC"
            rows.append(
                within(
                    f"average window at p = {p:g}, {rtt_ms} ms, {name}, simulated",
                    window,
                    0.1 if cc == "reno" else 0.15,
                    unit="segments",
                    source=_RFC,
                ).judge(ours)
            )
    formula = reno_window(0.01) * _PACKET_BITS / 0.1 / 1e6
    rows.append(
        between(
            "1 % loss at 100 ms, square-root model", 1.4, 1.5, unit="Mbit/s", source="RFC 5348"
        ).judge(formula)
    )
    rows.append(
        factor("1 % loss at 100 ms, CUBIC, simulated", 3.0, 2, unit="Mbit/s", source=_TALK).judge(
            _goodput("cubic", "1Gbit", quick)
        )
    )
    link = 100 if quick else 1000
    rows.append(
        between(
            f"the same, BBR on {link} Mbit/s, simulated",
            0.9 * link * 1448 / 1514,
            unit="Mbit/s",
            source="Linux patch of BBR: 9150 of 10 000 Mbit/s",
        ).judge(_goodput("bbr", f"{link}Mbit", quick))
    )
    return Outcome(rows, lambda: _draw(points))


def _draw(points: list[tuple[str, int, float, int, float]]) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import COLOURS

    made, axes = figure(1, 1, (4.5, 3.2))
    ax = axes[0, 0]
    p = np.geomspace(1e-5, 1e-2, 200)
    curves: list[tuple[str, int, str, Any]] = [
        ("reno", 100, "Reno", [reno_window(x) for x in p]),
        ("cubic", 100, "CUBIC, 100 ms", [cubic_window(x, 0.1) for x in p]),
        ("cubic", 10, "CUBIC, 10 ms", [cubic_window(x, 0.01) for x in p]),
    ]
    for index, (cc, rtt_ms, label, window) in enumerate(curves):
        colour, marker = COLOURS[index], "osD"[index]
        style = ("-", "-", "--")[index]
        ax.plot(p, window, color=colour, linestyle=style, label=f"{label}: RFC 9438")
        ours = [(x, w) for c, r, x, _, w in points if (c, r) == (cc, rtt_ms)]
        ax.plot(
            *zip(*ours, strict=True),
            marker,
            color=colour,
            mfc="white",
            # Reno's points lie under CUBIC's.
            markersize=9 if cc == "reno" else 5,
            label=f"{label}: simulated",
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("loss rate, one packet in every 1/p")
    ax.set_ylabel("average window (segments)")
    ax.legend(frameon=False, fontsize=7.5)
    return made


PAPER = Paper(
    name="bbr-talk-loss",
    title="Loss rates that Reno and CUBIC need, and what 1 % leaves of them",
    source="talk on BBR in the IRTF's ICCRG; RFC 9438 section 5.1",
    setup=(
        "Closed forms of RFC 9438 against its tables and the talk's round numbers. Simulated: one "
        "flow on a link that is never full, with exactly one packet lost in every 1/p, CUBIC as in "
        "RFC 9438; average of cwnd over at least 12 cycles. The talk's 10 Gbit/s at 100 ms needs "
        "30 million packets for one loss and is not simulated: p goes down to 1e-5. At 1 % the "
        "loss is random, the link has 1 Gbit/s, and a segment 1448 bytes."
    ),
    run=_run,
)
