"""Draw the typical behaviour of each transport for its page, into docs/_static/transports.

    python docs/transport_figures.py [NAME...]        (all: `make figures`)

Goodput of each flow, queueing delay, and a variable of the transport.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller_figures import shrink
from queue_figures import PIXELS, SIZE_IN, draw_flows_and_queue

import dumbbell
from dumbbell._plots import figure, save_figure
from dumbbell._plots_data import by_name, columns, decimate
from dumbbell._plots_panels import COLOURS

FIGURES = Path(__file__).parent / "_static" / "transports"


@dataclass(frozen=True)
class Load:
    """What a transport is drawn in. `text` is what the page says of it; `shown` names recorded
    variables of the first flow, `axis` their axis."""

    flows: list[dict[str, Any]]
    path: dict[str, Any]
    text: str
    shown: tuple[str, ...]
    axis: str
    duration_s: int = 60
    log: bool = False
    labels: dict[str, str] = field(default_factory=dict)


TEN_MEGABIT = {"rate": "10Mbit", "rtt": "100ms", "queue": {"kind": "fifo", "limit": "62p"}}
TEN_TEXT = "the second 20 s after the first, at 10 Mbit/s, 100 ms and 62 packets of tail drop"
LOADS = {
    "rap": Load(
        [{"transport": "rap", "count": 2, "stagger": "20s"}],
        TEN_MEGABIT,
        f"Two RAP flows, {TEN_TEXT}",
        ("ipg_ms",),
        "inter-packet\ngap (ms)",
        log=True,
    ),
    "tfrc": Load(
        [{"transport": "tfrc", "count": 2, "stagger": "20s"}],
        TEN_MEGABIT,
        f"Two TFRC flows, {TEN_TEXT}",
        ("loss_event_rate",),
        "loss event\nrate",
        log=True,
    ),
    "plt": Load(
        [
            {"id": "plt", "transport": "plt"},
            {"id": "udp", "transport": "udp", "start": "20s", "stop": "40s",
             "traffic": {"kind": "rate", "rate": "100Mbit", "chunk": "972B"}},
        ],
        {
            "rate": "250Mbit",
            "rtt": "80ms",
            "loss": 1e-4,
            "queue": {
                "kind": "prio",
                "classes": [
                    {"dscp": ["cs0"], "queue": {"kind": "fifo", "limit": "2500p"}},
                    {"queue": {"kind": "fifo", "limit": "2500p"}},
                ],
            },
        },
        "A PLT flow at 250 Mbit/s, 80 ms and a random loss of 1e-4, and from 20 to 40 s "
        "100 Mbit/s of UDP in the high class",
        ("hcm_cwnd", "lcm_cwnd"),
        "window\n(packets)",
        labels={"hcm_cwnd": "high class", "lcm_cwnd": "low class"},
    ),
    "rtp": Load(
        [
            {"id": "nada", "transport": "rtp"},
            {"id": "reno", "cc": "reno", "start": "20s", "stop": "40s"},
        ],
        {"rate": "2Mbit", "rtt": "100ms", "queue": {"kind": "fifo", "limit": "75kB"}},
        "Video under NADA and, from 20 to 40 s, a Reno flow, at 2 Mbit/s, 100 ms and 300 ms of "
        "tail drop",
        ("frame_delay_ms",),
        "frame delay\n(ms)",
    ),
}  # fmt: skip


def draw(name: str) -> None:
    """Run and draw one transport."""
    chosen = LOADS[name]
    result = dumbbell.run(
        {"duration": f"{chosen.duration_s}s", "path": chosen.path, "flows": chosen.flows}
    )
    made, axes = figure(3, 1, SIZE_IN, sharex=True)
    goodput, delay, own = axes[:, 0]
    draw_flows_and_queue(result, goodput, delay)
    variables = columns(result, "controller_series")
    first = dict(by_name(variables, "flow"))[result.summary["flows"][0]["id"]]
    series = dict(by_name(first, "name"))
    for index, variable in enumerate(chosen.shown):
        x, y = decimate(series[variable]["t"], series[variable]["value"], PIXELS)
        colour = COLOURS[(index + 3) % len(COLOURS)] if len(chosen.shown) > 1 else "#555555"
        own.plot(x, y, color=colour, linewidth=0.9, label=chosen.labels.get(variable, variable))
    if len(chosen.shown) > 1:
        own.legend(loc="upper right", frameon=False, ncols=2)
        own.set_ylim(top=1.35 * own.get_ylim()[1])
    own.set_ylabel(chosen.axis)
    own.set_xlabel("time (s)")
    if chosen.log:
        own.set_yscale("log")
    for ax in axes[:, 0]:
        if ax.get_yscale() != "log":
            ax.set_ylim(bottom=0)
        ax.set_xlim(0, chosen.duration_s)
    made.align_ylabels(axes[:, 0])
    made.legend(*goodput.get_legend_handles_labels(), loc="outside upper left", ncols=6,
                frameon=False)  # fmt: skip
    path = FIGURES / f"{name}.png"
    save_figure(made, path)
    shrink(path)


def main(names: list[str]) -> None:
    """Draw the figures of these transports, or of all."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name in names or list(LOADS):
        draw(name)


if __name__ == "__main__":
    main(sys.argv[1:])
