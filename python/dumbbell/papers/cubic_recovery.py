"""How long CUBIC takes to regain its window after one loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, series, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RFC = "RFC 9438 section 4.2"
_TALK = "talk on L4S in the IETF: 250 and then 500 round trips"
_RTT_S = 0.02
_FRAME_BITS = 1514 * 8
# Rate in Mbit/s, and seconds to regain the window.
_POINTS = ((100, 5.0), (800, 10.0))


def time_to_regain(window: float) -> float:
    """K of RFC 9438 section 4.2 after a reduction of `window` segments, seconds."""
    return float(np.cbrt(window * 0.3 / 0.4))


def reno_rounds(window: float) -> float:
    """Round trips in which W_est of RFC 9438 section 4.3 regains 0.3 of a window."""
    return 0.3 * window / (3 * 0.3 / 1.7)


@dataclass(frozen=True)
class _Recovery:
    """One flow after its loss: `t` in seconds since the reduction, cwnd in segments."""

    label: str
    t: NDArray[Any]
    cwnd: NDArray[Any]
    w_max: float

    @property
    def rounds(self) -> float:
        """Round trips until cwnd is W_max again."""
        back = np.flatnonzero((self.t > 0.5) & (self.cwnd >= self.w_max))
        return float(self.t[back[0]] / _RTT_S) if len(back) else float("nan")


def _recover(rate_mbit: int, *, reno_friendly: bool = True) -> _Recovery:
    window = round(rate_mbit * 1e6 * _RTT_S / _FRAME_BITS)
    result = run_scenario(
        {
            "duration": "14s",
            "interval": "20ms",
            "path": {
                "rate": f"{rate_mbit}Mbit",
                "rtt": "20ms",
                "queue": {"kind": "fifo", "limit": "1bdp"},
                # The second data packet: the SYN is packet 0.
                "loss": {"kind": "nth", "indexes": [2]},
            },
            "flows": [
                {
                    "id": "f",
                    "cc": "cubic",
                    "initial_window": window,
                    "params": {
                        "linux": False,
                        "hystart": "classic",
                        "reno_friendly": reno_friendly,
                    },
                }
            ],
        }
    )
    t, cwnd, phase = series(result, "flow_series", "f", "t", "cwnd", "phase")
    cut = t[np.flatnonzero(phase == "recovery")[0]]
    name, value, when = series(result, "controller_series", "f", "name", "value", "t")
    w_max = float(value[(name == "w_max") & (when > cut + 0.5)][0])
    alone = "" if reno_friendly else ", cubic function alone"
    return _Recovery(f"{rate_mbit} Mbit/s{alone}", t - cut, cwnd, w_max)


def _run(quick: bool) -> Outcome:
    del quick  # It takes a second.
    rows = []
    for rate_mbit, seconds in _POINTS:
        k = within(f"{rate_mbit} Mbit/s: K, formula", seconds, 0.01, unit="s", source=_RFC)
        rows.append(k.judge(time_to_regain(rate_mbit * 1e6 * _RTT_S / 12000)))
    alone = _recover(100, reno_friendly=False)
    whole = _recover(100)
    fast = _recover(800)
    expected = (
        (alone, 250, _TALK),
        (fast, 500, _TALK),
        (whole, round(reno_rounds(whole.w_max)), "RFC 9438 section 4.3"),
    )
    for recovery, rounds, source in expected:
        what = f"{recovery.label}: from the loss to the window before it, simulated"
        published = within(what, rounds, 0.1, unit="round trips", source=source)
        rows.append(published.judge(recovery.rounds))
    return Outcome(rows, lambda: _draw([alone, fast, whole]))


def _draw(recoveries: list[_Recovery]) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

    made, axes = figure(1, 1, (4.5, 3.0))
    ax = axes[0, 0]
    for seconds in (5.0, 10.0):
        ax.axvline(seconds / _RTT_S, color=CAPACITY_COLOUR, linewidth=0.8)
        curve = np.linspace(0, 1.2 * seconds, 200)
        ax.plot(
            curve / _RTT_S,
            1 + 0.3 * ((curve - seconds) / seconds) ** 3,
            color=CAPACITY_COLOUR,
            linestyle=":",
            label="W_cubic(t), K = 5 s and 10 s" if seconds == 5 else None,
        )
    ax.axhline(
        1, color=CAPACITY_COLOUR, linewidth=0.8, label="window before; 250 and 500 round trips"
    )
    for index, recovery in enumerate(recoveries):
        shown = (recovery.t > -0.1) & np.isfinite(recovery.cwnd)
        ax.plot(
            recovery.t[shown] / _RTT_S,
            recovery.cwnd[shown] / recovery.w_max,
            color=COLOURS[index],
            linestyle=("-", "--", "-.")[index],
            label=recovery.label,
        )
    ax.set_xlim(-10, 600)
    ax.set_ylim(0.65, 1.1)
    ax.set_xlabel("time since the loss (round trips of 20 ms)")
    ax.set_ylabel("cwnd over cwnd before the loss")
    ax.legend(frameon=False, fontsize=7, loc="lower right")
    return made


PAPER = Paper(
    name="cubic-recovery",
    title="CUBIC needs 250 round trips after a loss at 100 Mbit/s, 500 at 800 Mbit/s",
    source="talk on L4S in the IETF; RFC 9438 section 4.2",
    setup=(
        "One CUBIC flow (as in RFC 9438) of 100 and of 800 Mbit/s at 20 ms whose window is the BDP "
        "from the start loses one packet; time from the reduction until cwnd is W_max again, in "
        "round trips of 20 ms. A queue of one BDP takes the first window, which leaves in one "
        "burst. The talk's 250 round trips are those of the cubic function: at 100 Mbit/s and "
        "20 ms the Reno-friendly region of RFC 9438 section 4.3 regains the window sooner, and "
        "both are shown. (Linux computes in whole segments and is at W_max 1.36 s before K: "
        "431 round trips at 800 Mbit/s.)"
    ),
    run=_run,
)
