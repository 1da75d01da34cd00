"""What each figure shows, apart from the library that draws it.

A `Panel` is one pair of axes with units in its labels and a sentence on how to read it. matplotlib
(files) and plotly (the report) draw the same panels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._plots_data import Columns, ResultLike, by_name, columns, flow_labels
from dumbbell._units import parse_time

# Okabe and Ito's palette (told apart with any colour vision), without the yellow that is too light
# for lines; black is for links.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", "dash", "dashdot", "dot")
LINK_COLOURS = ("#000000", "#7F7F7F", "#8C510A", "#5E3C99")
CAPACITY_COLOUR = "#999999"
TIME_AXIS = "time (s)"
# More flows than this are told apart by controller only.
_MANY_FLOWS = 8
_MOST_LINKS = 4
_SMALL_FLOW = 5.0
# Of the highest capacity: more is data that a repair releases at once, and would flatten the rest.
_BURST = 2.0
_TOP = 1.25


@dataclass(frozen=True)
class Line:
    """One line or, in a panel of points, one set of points."""

    label: str
    x: NDArray[Any]
    y: NDArray[Any]
    colour: str
    dash: str = "solid"
    thin: bool = False


@dataclass(frozen=True)
class Panel:
    key: str
    title: str
    x_label: str
    y_label: str
    reading: str
    lines: tuple[Line, ...]
    points: bool = False
    x_log: bool = False
    y_log: bool = False
    top: float | None = None
    """Where the y axis ends, if not above the highest point."""


@dataclass(frozen=True)
class Style:
    label: str
    colour: str
    dash: str
    thin: bool


def flow_styles(summary: Mapping[str, Any]) -> dict[str, Style]:
    """Colour and line style of each flow; of each controller where there are many flows."""
    flows = summary.get("flows", [])
    labels = flow_labels(summary)
    if len(flows) <= _MANY_FLOWS:
        return {
            str(flow["id"]): Style(
                labels[str(flow["id"])],
                COLOURS[index % len(COLOURS)],
                # A second cue beside colour; the first two stay solid and dashed.
                DASHES[index % len(DASHES)],
                False,
            )
            for index, flow in enumerate(flows)
        }
    controllers = list(dict.fromkeys(str(flow.get("cc") or "other") for flow in flows))
    counts = {cc: sum(str(flow.get("cc") or "other") == cc for flow in flows) for cc in controllers}
    styles = {}
    for flow in flows:
        cc = str(flow.get("cc") or "other")
        index = controllers.index(cc)
        styles[str(flow["id"])] = Style(
            f"{cc} ({counts[cc]} flows)",
            COLOURS[index % len(COLOURS)],
            DASHES[index // len(COLOURS) % len(DASHES)],
            True,
        )
    return styles


def warmup_s(summary: Mapping[str, Any]) -> float:
    """Seconds left out of the summary; 0 if the scenario does not say."""
    try:
        return parse_time((summary.get("scenario") or {}).get("warmup", 0)) / 1e9
    except ValueError:
        return 0.0


def time_panels(result: ResultLike) -> list[Panel]:
    """Goodput, cwnd, RTT, queueing delay and probes over time; those that the run recorded."""
    summary = result.summary
    styles = flow_styles(summary)
    flow_series = list(by_name(columns(result, "flow_series"), "flow", list(styles)))
    links = columns(result, "link_series")
    link_series = list(by_name(links, "link", _link_ids(summary)))[:_MOST_LINKS]
    panels = [
        _goodput(flow_series, links, link_series, styles),
        _panel(
            "cwnd",
            "Congestion window",
            TIME_AXIS,
            "cwnd (segments)",
            "What each sender allows itself in flight. A drop is a reaction to loss or a mark; a "
            "window that ends above rate x base RTT fills the queue.",
            [_flow_line(name, table, "cwnd", styles) for name, table in flow_series],
        ),
        _panel(
            "rtt",
            "Round-trip time",
            TIME_AXIS,
            "smoothed RTT (ms)",
            "The floor is the path's base RTT; everything above it is waiting in queues.",
            [_flow_line(name, table, "rtt_ms", styles) for name, table in flow_series],
        ),
        _panel(
            "queue_delay",
            "Queueing delay",
            TIME_AXIS,
            "queueing delay (ms)",
            "Mean wait of the packets that left each link's queue in the interval: what a newcomer "
            "behind this queue would suffer.",
            [
                Line(f"queue {name}", table["t"], table["queue_delay_ms"], *_link_style(index))
                for index, (name, table) in enumerate(link_series)
                if index == 0 or np.nanmax(table["queue_delay_ms"], initial=0.0) > 0
            ],
        ),
        _panel(
            "probes",
            "Probes",
            TIME_AXIS,
            "probe delay (ms)",
            "Each probe packet's delay: the round trip of a ping, one way otherwise.",
            [
                Line(
                    f"probe {name}",
                    table["t"],
                    table["delay_ms"],
                    COLOURS[-1 - index % len(COLOURS)],
                    DASHES[index % len(DASHES)],
                )
                for index, (name, table) in enumerate(
                    by_name(columns(result, "probe_samples"), "probe")
                )
            ],
        ),
    ]
    return [panel for panel in panels if panel is not None]


def cdf_panels(result: ResultLike) -> list[Panel]:
    """Distributions of RTT by flow and of queueing delay by link."""
    summary = result.summary
    styles = flow_styles(summary)
    rtts = [
        Line(style.label, table["rtt_ms"], table["fraction"], style.colour, style.dash, style.thin)
        for name, table in by_name(columns(result, "flow_rtt_cdf"), "flow", list(styles))
        if (style := styles.get(name))
    ]
    links = by_name(columns(result, "queue_delay_cdf"), "link", _link_ids(summary))
    delays = [
        Line(f"queue {name}", table["delay_ms"], table["fraction"], *_link_style(index))
        for index, (name, table) in enumerate(links)
        if index == 0 or (index < _MOST_LINKS and np.nanmax(table["delay_ms"], initial=0.0) > 0)
    ]
    reading = (
        "The height of a line is the fraction of samples no larger than x: further left is better, "
        "and where a line reaches 0.95 stands the 95th percentile."
    )
    found = [
        _panel("rtt_cdf", "RTT distribution", "RTT (ms)", "fraction of samples", reading, rtts),
        _panel(
            "delay_cdf",
            "Queueing delay distribution",
            "queueing delay (ms)",
            "fraction of packets",
            reading,
            delays,
        ),
    ]
    return [panel for panel in found if panel is not None]


def completion_panel(result: ResultLike) -> Panel | None:
    """Completion time against size of the transfers that ended."""
    styles = flow_styles(result.summary)
    table = columns(result, "completions")
    lines = []
    for name, rows in by_name(table, "flow", list(styles)):
        style = styles.get(name) or Style(name, CAPACITY_COLOUR, "solid", False)
        positive = (rows["bytes"] > 0) & (rows["duration_s"] > 0)
        if positive.any():
            kilobytes = rows["bytes"][positive] / 1000
            lines.append(Line(style.label, kilobytes, rows["duration_s"][positive], style.colour))
    return _panel(
        "completions",
        "Completion times",
        "transfer size (kB)",
        "completion time (s)",
        "Each point is one transfer, both axes logarithmic. Small ones lie on a floor of a few "
        "round trips, large ones on a slope that is the rate they got.",
        lines,
        points=True,
        x_log=True,
        y_log=True,
    )


def _panel(
    key: str, title: str, x_label: str, y_label: str, reading: str, lines: list[Line], **flags: Any
) -> Panel | None:
    shown = tuple(line for line in lines if line.x.size and np.isfinite(line.y).any())
    return Panel(key, title, x_label, y_label, reading, shown, **flags) if shown else None


def _goodput(
    flow_series: list[tuple[str, Columns]],
    links: Columns,
    link_series: list[tuple[str, Columns]],
    styles: dict[str, Style],
) -> Panel | None:
    lines = [_flow_line(name, table, "goodput_bps", styles) for name, table in flow_series]
    reading = "Payload delivered in order, each byte once, per recording interval."
    most = max((float(np.nanmax(line.y, initial=0.0)) for line in lines), default=0.0)
    capacity = link_series[0][1]["capacity_bps"] if link_series else np.array([np.nan])
    # Beside flows much smaller than the link its capacity would only flatten them.
    if np.isfinite(capacity).any() and np.nanmax(capacity) <= _SMALL_FLOW * most:
        lines.append(Line("capacity", link_series[0][1]["t"], capacity, CAPACITY_COLOUR, "dot"))
        reading += " The dotted line is the first link's capacity: what lies below it is unused."
    highest = max((float(np.nanmax(line.y, initial=0.0)) for line in lines), default=0.0)
    fastest = float(np.nanmax(links.get("capacity_bps", capacity), initial=0.0))
    top = None
    if 0 < _BURST * fastest < highest:
        top = highest = _TOP * fastest
        reading += (
            " What goes beyond the axis came earlier and is handed over at once when a gap before "
            "it is filled."
        )
    scale, unit = _rate_unit(highest)
    scaled = [
        Line(line.label, line.x, line.y / scale, line.colour, line.dash, line.thin)
        for line in lines
    ]
    return _panel(
        "goodput",
        "Goodput",
        TIME_AXIS,
        f"goodput ({unit})",
        reading,
        scaled,
        top=top and top / scale,
    )


def _rate_unit(highest_bps: float) -> tuple[float, str]:
    if highest_bps >= 2e9:
        return 1e9, "Gbit/s"
    return (1e6, "Mbit/s") if highest_bps >= 2e6 else (1e3, "kbit/s")


def _flow_line(name: str, table: Columns, column: str, styles: dict[str, Style]) -> Line:
    style = styles.get(name) or Style(name, CAPACITY_COLOUR, "solid", True)
    return Line(style.label, table["t"], table[column], style.colour, style.dash, style.thin)


def _link_style(index: int) -> tuple[str, str]:
    return LINK_COLOURS[index % len(LINK_COLOURS)], DASHES[index % len(DASHES)]


def _link_ids(summary: Mapping[str, Any]) -> list[str]:
    return [str(link["id"]) for link in summary.get("links", [])]
