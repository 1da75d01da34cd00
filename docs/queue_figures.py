"""Draw the typical behaviour of each queue for its page, into docs/_static/queues.

    python docs/queue_figures.py [NAME...]        (all: `make figures`)

Goodput of each flow, queueing delay, and a variable of the queue or what it drops and marks.
Most are drawn under two CUBIC flows, the second 10 s after the first, at 20 Mbit/s and 40 ms; those
that are made for another kind of traffic get that.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from controller_figures import shrink
from matplotlib.axes import Axes

import dumbbell
from dumbbell._plots import figure, save_figure
from dumbbell._plots_data import by_name, columns, decimate
from dumbbell._plots_panels import COLOURS
from dumbbell._registry import builtin

FIGURES = Path(__file__).parent / "_static" / "queues"
SIZE_IN = (6.5, 4.2)
PIXELS = 500

TWO_CUBIC: list[dict[str, Any]] = [{"cc": "cubic", "count": 2, "stagger": "10s"}]


@dataclass(frozen=True)
class Load:
    """What a queue is drawn under. `text` is what the page says of it; `shown` a recorded variable
    and its name on the axis, in place of drops and marks."""

    flows: list[dict[str, Any]] = field(default_factory=lambda: TWO_CUBIC)
    text: str = "Two CUBIC flows, the second 10 s after the first, at 20 Mbit/s and 40 ms"
    params: dict[str, Any] = field(default_factory=dict)
    shown: tuple[str, str] | None = None


SHORT = {"kind": "fifo", "limit": "1bdp"}
UDP_BURSTS = {
    "id": "udp",
    "transport": "udp",
    "start": "10s",
    "stop": "30s",
}


def udp(rate: str, **more: Any) -> dict[str, Any]:
    """Datagrams from 10 to 30 s."""
    return {**UDP_BURSTS, "traffic": {"kind": "rate", "rate": rate}, **more}


def hosts(heavy: int) -> list[dict[str, Any]]:
    """One host with many flows, and another with one from 10 s on."""
    return [
        {"id": "heavy", "cc": "cubic", "host": "heavy", "count": heavy},
        {"id": "light", "cc": "cubic", "host": "light", "start": "10s"},
    ]


EF_AND_CUBIC = [
    {"id": "best-effort", "cc": "cubic"},
    udp("8Mbit", id="ef", dscp="ef"),
]
AF_AND_CUBIC = [
    {"id": "df", "cc": "cubic"},
    {"id": "af", "cc": "cubic", "dscp": "af11"},
    udp("8Mbit", id="ef", dscp="ef"),
]
ECN_TEXT = "Two DCTCP flows, the second 10 s after the first, at 20 Mbit/s and 40 ms"
TWO_DCTCP: list[dict[str, Any]] = [{"cc": "dctcp", "count": 2, "stagger": "10s"}]
SCE_AND_RENO = [
    {"cc": "reno-sce"},
    {"cc": "reno", "ecn": True, "start": "10s"},
]
SCE_TEXT = "A Reno-SCE flow and, from 10 s on, a Reno flow with ECN, at 20 Mbit/s and 40 ms"
EF_TEXT = "A CUBIC flow and, from 10 to 30 s, 8 Mbit/s of EF, at 20 Mbit/s and 40 ms"
AF_TEXT = "Two CUBIC flows, DF and AF11, and from 10 to 30 s 8 Mbit/s of EF, at 20 Mbit/s and 40 ms"


def classes(key: str, first: Any, second: Any) -> dict[str, Any]:
    """AF11 and all else, with their shares."""
    return {
        "classes": [
            {"dscp": "af11", key: first, "queue": SHORT},
            {key: second, "queue": SHORT},
        ]
    }


WEIGHT_TEXT = (
    "An AF11 flow with weight 3 and, from 10 s on, a flow with weight 1, at 20 Mbit/s and 40 ms"
)
WEIGHTED: list[dict[str, Any]] = [
    {"id": "af11", "cc": "cubic", "dscp": "af11"},
    {"id": "other", "cc": "cubic", "start": "10s"},
]
HOST_TEXT = (
    "A host with four CUBIC flows and, from 10 s on, one with a single flow, at 20 Mbit/s and 40 ms"
)
LOADS: dict[str, Load] = {
    "fifo": Load(params={"limit": "1bdp"}),
    "pie": Load(shown=("drop_probability", "drop\nprobability")),
    "pi2": Load(shown=("classic_probability", "drop\nprobability")),
    "red": Load(shown=("average_bytes", "average queue\n(bytes)")),
    "dualpi2": Load(
        [{"cc": "prague"}, {"cc": "cubic", "start": "10s"}],
        "A Prague flow and, from 10 s on, a CUBIC flow, at 20 Mbit/s and 40 ms",
    ),
    "step": Load(TWO_DCTCP, ECN_TEXT),
    "sce": Load(SCE_AND_RENO, f"{SCE_TEXT}, with queues for flows", {"flows": 1024}),
    "cnq": Load(SCE_AND_RENO, SCE_TEXT, {"sce_thresh": 4}),
    "lfq": Load(SCE_AND_RENO, SCE_TEXT),
    "prio": Load(
        EF_AND_CUBIC, EF_TEXT, {"classes": [{"dscp": "ef", "queue": SHORT}, {"queue": SHORT}]}
    ),
    "diffserv": Load(AF_AND_CUBIC, AF_TEXT),
    "bls": Load(
        AF_AND_CUBIC,
        AF_TEXT,
        {
            "classes": [
                {"dscp": "ef", "queue": SHORT},
                {"dscp": "af11", "queue": SHORT},
                {"queue": SHORT},
            ]
        },
    ),
    "drr": Load(params={"limit": "100p"}),
    "wfq": Load(WEIGHTED, WEIGHT_TEXT, classes("weight", 3, 1)),
    "wrr": Load(WEIGHTED, WEIGHT_TEXT, classes("weight", "3p", "1p")),
    "htb": Load(WEIGHTED, WEIGHT_TEXT, classes("rate", "15Mbit", "5Mbit")),
    "tbf": Load(
        params={"rate": "10Mbit", "burst": "50kB", "limit": "200p"},
        text="Two CUBIC flows, the second 10 s after the first, at 10 of 20 Mbit/s and 40 ms",
    ),
    "cake": Load(hosts(4), HOST_TEXT),
    "abc": Load(hosts(4), HOST_TEXT, {"meter": True}),
    "csfq": Load(hosts(4), HOST_TEXT, {"edge": True}),
    "sfb": Load(
        [{"cc": "cubic"}, udp("15Mbit")],
        "A CUBIC flow and, from 10 to 30 s, 15 Mbit/s of UDP, at 20 Mbit/s and 40 ms",
    ),
    "xcp": Load(
        [{"cc": "xcp", "count": 2, "stagger": "10s"}],
        "Two XCP flows, the second 10 s after the first, at 20 Mbit/s and 40 ms",
    ),
}
"""Those that are not drawn under two CUBIC flows."""


def of(name: str) -> Load:
    """What a queue is drawn under."""
    return LOADS.get(name, Load())


def load(name: str) -> str:
    """What its page says of the figure."""
    return of(name).text


def draw_flows_and_queue(result: dumbbell.Result, goodput: Axes, delay: Axes) -> None:
    """Goodput of each flow, and below it how long the queue is."""
    for index, (flow, table) in enumerate(by_name(columns(result, "flow_series"), "flow")):
        x, y = decimate(table["t"], table["goodput_bps"] / 1e6, PIXELS)
        goodput.plot(x, y, color=COLOURS[index % len(COLOURS)], linewidth=0.9, label=flow)
    link = columns(result, "link_series")
    x, y = decimate(link["t"], link["queue_delay_ms"], PIXELS)
    delay.plot(x, y, color="#555555", linewidth=0.9)
    goodput.set_ylabel("goodput\n(Mbit/s)")
    delay.set_ylabel("queueing\ndelay (ms)")


def draw(name: str) -> None:
    """Run and draw one queue."""
    chosen = of(name)
    result = dumbbell.run(
        {
            "duration": "40s",
            "path": {"rate": "20Mbit", "rtt": "40ms", "queue": {"kind": name, **chosen.params}},
            "flows": chosen.flows,
        }
    )
    made, axes = figure(3, 1, SIZE_IN, sharex=True)
    goodput, delay, own = axes[:, 0]
    draw_flows_and_queue(result, goodput, delay)
    link = columns(result, "link_series")
    if chosen.shown is not None:
        variable, label = chosen.shown
        series = dict(by_name(columns(result, "queue_series"), "name"))[variable]
        own.plot(series["t"], series["value"], color="#555555", linewidth=0.9)
        own.set_ylabel(label)
    else:
        for column, label, colour in (
            ("drops", "drops", COLOURS[3]),
            ("marks", "CE marks", COLOURS[2]),
            ("sce_marks", "SCE marks", COLOURS[4]),
        ):
            a_second = np.diff(link[column].astype(float), prepend=0.0) / np.diff(
                link["t"], prepend=0.0
            )
            if a_second.any() or column == "drops":
                own.plot(link["t"], a_second, color=colour, linewidth=0.9, label=label)
        own.set_ylabel("packets\nper second")
        own.legend(loc="upper right", frameon=False, ncols=3)
    own.set_xlabel("time (s)")
    for ax in axes[:, 0]:
        ax.set_ylim(bottom=0)
        ax.set_xlim(0, 40)
    # What waited for a retransmission arrives in order at once, faster than the link.
    goodput.set_ylim(top=26)
    made.align_ylabels(axes[:, 0])
    made.legend(*goodput.get_legend_handles_labels(), loc="outside upper left", ncols=6,
                frameon=False)  # fmt: skip
    path = FIGURES / f"{name}.png"
    save_figure(made, path)
    shrink(path)


def main(names: list[str]) -> None:
    """Draw the figures of these queues, or of all."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name in names or list(builtin().queues):
        draw(name)


if __name__ == "__main__":
    main(sys.argv[1:])
