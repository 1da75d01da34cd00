"""Response functions: the mean window of every loss-based controller against the loss rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell._registry import builtin
from dumbbell._run import run as run_scenario
from dumbbell.papers._paper import Outcome, Paper, series, within
from dumbbell.papers.loss_arithmetic import cubic_window, reno_window

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RTT_S = 0.1
_SEGMENT = 1448
# Of 10 Gbit/s at 100 ms, segments.
_FULL = 0.9 * 10e9 * _RTT_S / (1514 * 8)
_LOSSES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
_QUICK = (1e-2, 1e-3, 1e-4)
# Losses after which it has settled, and over which the window is averaged.
_SETTLE, _CYCLES = 28, 12
# Controllers whose windows differ by less than this share a line of the figure.
_ALIKE = 0.03


def highspeed_window(p: float) -> float:
    """HighSpeed TCP (RFC 3649 equation 2), Reno up to its threshold."""
    return float(0.12 / p**0.835) if p < 1e-3 else reno_window(p)


def scalable_window(p: float) -> float:
    """Scalable TCP (Kelly 2003: 0.08/p), Reno in small windows."""
    return max(0.08 / p, reno_window(p))


FORMULAS: dict[str, tuple[str, str, Callable[[float], float]]] = {
    "reno": ("1.22/sqrt(p)", "RFC 9438 section 5.1", reno_window),
    "cubic": (
        "1.054 (R/p)^0.75",
        "RFC 9438 section 5.1",
        lambda p: cubic_window(p, _RTT_S),
    ),
    "highspeed": ("0.12/p^0.835", "RFC 3649 section 5", highspeed_window),
    "scalable": ("0.08/p", "Kelly 2003", scalable_window),
}
# Largest loss rate at which a formula is judged: beyond it the controller is Reno in part.
_HOLDS = {"highspeed": 1e-4, "scalable": 1e-3}
_PARAMS: dict[str, dict[str, Any]] = {
    # The formula is that of the RFC's own growth.
    "cubic": {"linux": False, "fast_convergence": False}
}


def controllers() -> list[str]:
    """Those in the registry that steer by loss and not by delivery rates."""
    return [
        name
        for name, entry in builtin().controllers.items()
        if "loss" in entry.signals and "delivery-rate" not in entry.signals
    ]


def mean_window(cc: str, p: float) -> float:
    """Average window in segments, one packet lost in every 1/p; NaN if that fills the link."""
    packets = round((_SETTLE + _CYCLES) / p)
    # Nothing is slower than a third of Reno; what is faster is done earlier.
    longest_s = 60 + 3 * packets / reno_window(p) * _RTT_S
    params = dict(_PARAMS.get(cc, {}))
    if builtin().controllers[cc].param("initial_ssthresh"):
        # Slow start until the first loss would leave a window that takes long to come down from.
        start = FORMULAS[cc][2](p) if cc in FORMULAS else reno_window(p)
        params["initial_ssthresh"] = round(start)
    result = run_scenario(
        {
            "duration": f"{longest_s:.0f}s",
            "interval": "100ms",
            "path": {
                "rate": "10Gbit",
                "rtt": "100ms",
                "loss": {"kind": "periodic", "period": round(1 / p)},
            },
            "flows": [
                {
                    "id": "f",
                    "cc": cc,
                    "ack_every": 1,
                    "size": f"{packets * _SEGMENT}B",
                    "params": params,
                }
            ],
        }
    )
    t, cwnd = series(result, "flow_series", "f", "t", "cwnd")
    done_s = result.summary["flows"][0]["completion_s"] or longest_s
    counted = (t > done_s * _SETTLE / (_SETTLE + _CYCLES)) & (t < done_s)
    window = float(np.nanmean(cwnd[counted]))
    return window if window < _FULL else float("nan")


def _run(quick: bool) -> Outcome:
    rows = []
    losses = _QUICK if quick else _LOSSES
    names = [n for n in controllers() if not quick or n in FORMULAS]
    windows = {name: [mean_window(name, p) for p in losses] for name in names}
    for name, (_, source, formula) in FORMULAS.items():
        for p, ours in zip(losses, windows.get(name, ()), strict=False):
            if p > _HOLDS.get(name, 1.0):
                continue
            what = f"average window at p = {p:g}, {name}"
            expected = float(f"{formula(p):.3g}")
            rows.append(within(what, expected, 0.15, unit="segments", source=source).judge(ours))
    return Outcome(rows, lambda: _draw(losses, windows))


def _alike(windows: dict[str, list[float]]) -> list[tuple[str, list[float]]]:
    """Lines of the figure, highest at the smallest loss first; those that coincide as one."""
    groups: list[tuple[list[str], list[float]]] = []
    for name, values in windows.items():
        for names, others in groups:
            if np.allclose(values, others, rtol=_ALIKE, equal_nan=True):
                names.append(name)
                break
        else:
            groups.append(([name], values))
    groups.sort(key=lambda group: -np.nan_to_num(group[1], nan=_FULL)[-1])
    return [(", ".join(names), values) for names, values in groups]


def _draw(losses: tuple[float, ...], windows: dict[str, list[float]]) -> Figure:
    from dumbbell._plots import figure
    from dumbbell._plots_panels import CAPACITY_COLOUR, COLOURS

    made, axes = figure(1, 1, (6.5, 4.4))
    ax = axes[0, 0]
    fine = np.geomspace(min(losses), max(losses), 200)
    for index, (label, _, formula) in enumerate(FORMULAS.values()):
        ax.plot(
            fine,
            [formula(p) for p in fine],
            color=CAPACITY_COLOUR,
            linestyle=("-", "--", "-.", ":")[index],
            linewidth=2.0,
            label=f"formula {label}",
        )
    for index, (label, values) in enumerate(_alike(windows)):
        ax.plot(
            losses,
            values,
            color=COLOURS[index % len(COLOURS)],
            marker="osD^v*"[index // len(COLOURS) % 6],
            markersize=4,
            mfc="white",
            linewidth=0.8,
            label=label.replace(", ", ",\n") if len(label) > 40 else label,
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("loss rate, one packet in every 1/p")
    ax.set_ylabel("average window (segments)")
    made.legend(loc="outside right upper", frameon=False, fontsize=7)
    return made


PAPER = Paper(
    name="response-functions",
    title="Mean window of every loss-based controller against the loss rate",
    source="RFC 9438 section 5.1, RFC 3649, Kelly 2003",
    setup=(
        "One flow at 100 ms on a link that is never full, with exactly one packet lost in every "
        "1/p, after 28 such losses the average of cwnd over twelve; slow start ends near the "
        "formula's window, or Reno's, where the controller has such a parameter. Every controller "
        "of the registry that steers by loss and not by delivery rates, with its defaults; CUBIC "
        "grows as RFC 9438 says and without fast convergence, as its formula assumes. No queue "
        "stands, so delay-based ones show what they do about loss alone. HighSpeed TCP is judged "
        "from p = 1e-4 and Scalable from 1e-3 down: above, they are Reno in part."
    ),
    run=_run,
)
