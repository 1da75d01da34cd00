"""The figure of the flow state exchange's experiments: one panel for each slide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell._plots import figure
from dumbbell._plots_panels import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = list[dict[str, Any]]
_WITH, _WITHOUT, _SIMPLE = COLOURS[0], COLOURS[1], COLOURS[2]
_STYLES: dict[Any, tuple[str, str, str]] = {
    True: ("with FSE", _WITH, "o"),
    False: ("without", _WITHOUT, "s"),
    "updated": ("updated FSE", _WITH, "o"),
    "none": ("without", _WITHOUT, "s"),
    "simple": ("simple FSE", _SIMPLE, "^"),
    "protected": ("FSE, priority 1 : 0.2", _WITH, "o"),
    "equal": ("FSE, equal", _SIMPLE, "^"),
    "uncoupled": ("without", _WITHOUT, "s"),
}


def draw(tables: Mapping[str, Rows]) -> Figure:
    made, axes = figure(4, 3, (9.5, 10.5))
    panels: Sequence[Callable[[Axes, Mapping[str, Rows]], None]] = (
        _priorities, _fairness, _background,
        lambda ax, t: _by_flows(ax, t, "rap", "queue (packets)", "spread of queue"),
        lambda ax, t: _by_flows(ax, t, "rap", "loss (%)", "spread of loss"),
        lambda ax, t: _by_flows(ax, t, "rap", "used (%)", "spread of use"),
        lambda ax, t: _by_flows(ax, t, "tfrc", "queue (packets)", "spread of queue"),
        lambda ax, t: _by_flows(ax, t, "tfrc", "loss (%)", "spread of loss"),
        _lengths,
        _protection,
        lambda ax, t: _simple(ax, t, "queue (packets)"),
        lambda ax, t: _simple(ax, t, "loss (%)"),
    )  # fmt: skip
    for ax, panel in zip(axes.ravel(), panels, strict=True):
        panel(ax, tables)
    return made


def _line(ax: Axes, rows: Rows, x: str, y: str, style: tuple[str, str, str], **more: Any) -> None:
    label, colour, marker = style
    spread = more.pop("spread", None)
    ax.errorbar(
        [row[x] for row in rows], [row[y] for row in rows],
        yerr=[row[spread] for row in rows] if spread else None,
        color=colour, marker=marker, markersize=3.5, capsize=2, label=label, **more,
    )  # fmt: skip


def _finish(ax: Axes, title: str, x: str, y: str, *, legend: bool = True) -> None:
    ax.set_title(title, loc="left")
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_ylim(bottom=0)
    if legend:
        ax.legend(frameon=False, fontsize=7)


def _priorities(ax: Axes, tables: Mapping[str, Rows]) -> None:
    rows = tables["priority over time"]
    x = "priority of flow 1"
    total = np.array([row["total (Mbit/s)"] for row in rows])
    share = np.array([_share(row) for row in rows])
    for name, rates, colour, marker in (
        ("flow 1", total * share, COLOURS[0], "o"),
        ("flow 2", total * (1 - share), COLOURS[1], "s"),
        ("both", total, "#000000", "^"),
    ):
        ax.plot([r[x] for r in rows], rates, color=colour, marker=marker, markersize=3.5,
                label=name)  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_xticks([r[x] for r in rows], [f"{r[x]:g}" for r in rows])
    _finish(ax, "RAP, two flows", "priority of flow 1 (of flow 2: 1)", "goodput (Mbit/s)")


def _share(row: Mapping[str, Any]) -> float:
    ratio = float(row["rate of flow 1 over flow 2"])
    return ratio / (1 + ratio)


def _fairness(ax: Axes, tables: Mapping[str, Rows]) -> None:
    rows = tables["fairness"]
    for flows, dash in (("2", "-"), ("5", "--")):
        for coupled in (True, False):
            label, colour, marker = _STYLES[coupled]
            own = [r for r in rows if (r["flows"], r["FSE"]) == (flows, coupled)]
            key = "round-trip times (10 ms)"
            ratios = [{**r, "longest": int(r[key].split(":")[0])} for r in own]
            style = (f"{flows} flows, {label}", colour, marker)
            _line(ax, ratios, "longest", "Jain", style, spread="spread", linestyle=dash)
    ax.set_ylim(0, 1.05)
    _finish(ax, "RAP, unequal round-trip times", "longest round-trip time (10 ms)", "Jain's index")


def _background(ax: Axes, tables: Mapping[str, Rows]) -> None:
    rows = tables["background traffic"]
    for name, colour, marker in (
        ("flow 1", COLOURS[0], "o"), ("flow 2", COLOURS[1], "s"), ("transfers", "#7F7F7F", "^")
    ):  # fmt: skip
        _line(ax, rows, "priority of flow 2", f"{name} (Mbit/s)", (name, colour, marker))
    _finish(ax, "RAP beside TCP transfers", "priority of flow 2 (of flow 1: 1)",
            "goodput (Mbit/s)")  # fmt: skip


def _by_flows(ax: Axes, tables: Mapping[str, Rows], transport: str, y: str, spread: str) -> None:
    rows = [r for r in tables["number of flows"] if r["transport"] == transport]
    for coupled in (True, False):
        own = [r for r in rows if r["FSE"] is coupled]
        _line(ax, own, "flows", y, _STYLES[coupled], spread=spread)
    what = {"queue (packets)": "average queue (packets)", "used (%)": "use of the link (%)"}
    _finish(ax, transport.upper(), "flows", what.get(y, y))
    if y == "used (%)":
        ax.set_ylim(50, 101)


def _lengths(ax: Axes, tables: Mapping[str, Rows]) -> None:
    rows = tables["length of the queue"]
    flows = min(r["flows"] for r in rows)
    for transport, dash in (("rap", "-"), ("tfrc", "--")):
        for coupled in (True, False):
            label, colour, marker = _STYLES[coupled]
            own = [
                r
                for r in rows
                if (r["transport"], r["flows"], r["FSE"]) == (transport, flows, coupled)
            ]
            style = (f"{transport.upper()}, {label}", colour, marker)
            _line(ax, own, "length (packets)", "queue (packets)", style, linestyle=dash)
    _finish(ax, f"{flows} flows", "length of the queue (packets)", "average queue (packets)")


def _protection(ax: Axes, tables: Mapping[str, Rows]) -> None:
    rows = tables["application-limited and greedy"]
    for name in ("protected", "equal", "uncoupled"):
        own = [r for r in rows if r["FSE"] == name]
        _line(ax, own, "capacity (Mbit/s)", "flow 1 (Mbit/s)", _STYLES[name], spread="spread")
    ax.axhline(4, color="#999999", linewidth=0.8, linestyle=":")
    _finish(ax, "RAP, flow 1 needs 4 Mbit/s", "capacity (Mbit/s)", "goodput of flow 1 (Mbit/s)")


def _simple(ax: Axes, tables: Mapping[str, Rows], y: str) -> None:
    for transport, dash in (("rap", "-"), ("tfrc", "--")):
        for name in ("simple", "updated", "none"):
            label, colour, marker = _STYLES[name]
            own = [
                r
                for r in tables["simple algorithm"]
                if (r["transport"], r["FSE"]) == (transport, name)
            ]
            style = (f"{transport.upper()}, {label}", colour, marker)
            _line(ax, own, "flows", y, style, linestyle=dash)
    what = "average queue (packets)" if y == "queue (packets)" else y
    _finish(ax, "13 packets, 10 ms", "flows", what)
    # The legend stands above the lines.
    ax.set_ylim(0, 1.6 * ax.get_ylim()[1])
    ax.legend(frameon=False, fontsize=6, ncols=2, loc="upper center")
