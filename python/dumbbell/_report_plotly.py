"""Panels as plotly figures: plain dictionaries, decimated and rounded, the same every time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._plots_compare import CompareRow
from dumbbell._plots_data import decimate
from dumbbell._plots_panels import COLOURS, TIME_AXIS, Line, Panel

Figure = dict[str, Any]

_PANEL_PX = 165
_GAP = 0.035
_FONT = {
    "family": "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif",
    "size": 13,
    "color": "#1a1a1a",
}
_AXIS = {
    "gridcolor": "#e4e4e4",
    "linecolor": "#555555",
    "zeroline": False,
    "ticks": "outside",
    "tickcolor": "#555555",
    "automargin": True,
}


def time_figure(panels: Sequence[Panel], warmup_s: float, pixels: int) -> Figure:
    """Panels one above the other on one time axis that zooms all of them."""
    traces = []
    layout = _layout(height=80 + _PANEL_PX * len(panels))
    seen: set[str] = set()
    share = (1 + _GAP) / len(panels)
    for index, panel in enumerate(panels):
        name = "" if index == 0 else str(index + 1)
        top = 1 - index * share
        layout[f"yaxis{name}"] = _axis(panel.y_label) | {
            "domain": [max(0.0, round(top - share + _GAP, 4)), round(top, 4)],
            "rangemode": "tozero",
        }
        if panel.top is not None:
            layout[f"yaxis{name}"]["range"] = [0, panel.top]
        for line in panel.lines:
            traces.append(
                _trace(line, panel, pixels)
                | {"yaxis": f"y{name}", "showlegend": line.label not in seen}
            )
            seen.add(line.label)
    last = "" if len(panels) == 1 else str(len(panels))
    layout["xaxis"] = _axis(TIME_AXIS) | {"anchor": f"y{last}", "hoverformat": ".3f"}
    layout["hovermode"] = "x"
    if warmup_s > 0:
        layout["shapes"] = [
            {
                "type": "rect",
                "xref": "x",
                "yref": "paper",
                "x0": 0,
                "x1": warmup_s,
                "y0": 0,
                "y1": 1,
                "fillcolor": "#eeeeee",
                "line": {"width": 0},
                "layer": "below",
            }
        ]
    return {"data": traces, "layout": layout}


def panel_figure(panel: Panel, pixels: int) -> Figure:
    """One panel."""
    layout = _layout(height=360)
    layout["xaxis"] = _axis(panel.x_label, log=panel.x_log)
    layout["yaxis"] = _axis(panel.y_label, log=panel.y_log)
    if not panel.x_log:
        layout["xaxis"]["rangemode"] = "tozero"
    return {"data": [_trace(line, panel, pixels) for line in panel.lines], "layout": layout}


def tradeoff_figure(rows: Sequence[CompareRow]) -> Figure | None:
    """Utilisation against p95 queueing delay, one point a cell, coloured by the last factor."""
    x_key, y_key = "queue_delay_p95_ms", "utilisation_percent"
    known = [row for row in rows if x_key in row.metrics and y_key in row.metrics]
    if len(known) < 2:
        return None
    groups: dict[str, list[CompareRow]] = {}
    for row in known:
        groups.setdefault(list(row.factors.values())[-1] if row.factors else "", []).append(row)
    symbols = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": _rounded([row.metrics[x_key] for row in members], 4),
            "y": _rounded([row.metrics[y_key] for row in members], 5),
            "text": [row.label for row in members],
            "hovertemplate": "%{text}<br>p95 delay %{x} ms<br>utilisation %{y} %<extra></extra>",
            "marker": {
                "color": COLOURS[index % len(COLOURS)],
                "symbol": symbols[index % len(symbols)],
                "size": 11,
                "line": {"width": 1, "color": "#ffffff"},
            },
        }
        for index, (name, members) in enumerate(groups.items())
    ]
    layout = _layout(height=380)
    delays = [row.metrics[x_key] for row in known]
    log = min(delays) > 0 and max(delays) > 10 * min(delays)
    layout["xaxis"] = _axis("p95 queueing delay (ms)", log=log)
    if log and max(delays) < 100 * min(delays):
        # Powers of ten alone would leave one label or none.
        layout["xaxis"] |= {
            "tickmode": "array",
            "tickvals": [m * 10.0**e for e in range(-4, 7) for m in (1, 2, 5)],
            "tickformat": "~g",
        }
    layout["yaxis"] = _axis("utilisation (%)")
    return {"data": traces, "layout": layout}


def share_figure(rows: Sequence[CompareRow]) -> Figure | None:
    """Shares of goodput by controller, one stacked bar a cell with several controllers."""
    mixed = [row for row in rows if len(row.shares) > 1]
    if not mixed:
        return None
    controllers = list(dict.fromkeys(cc for row in mixed for cc in row.shares))
    patterns = ("", "/", ".", "x", "-", "\\")
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": cc,
            "y": [row.label for row in mixed],
            "x": _rounded([100 * row.shares.get(cc, 0.0) for row in mixed], 4),
            "hovertemplate": f"%{{y}}<br>{cc} %{{x}} %<extra></extra>",
            "marker": {
                "color": COLOURS[index % len(COLOURS)],
                "pattern": {
                    "shape": patterns[index % len(patterns)],
                    "fillmode": "overlay",
                    "fgcolor": "#ffffff",
                    "fgopacity": 0.5,
                    "size": 6,
                },
            },
        }
        for index, cc in enumerate(controllers)
    ]
    layout = _layout(height=110 + 26 * len(mixed))
    layout["barmode"] = "stack"
    layout["xaxis"] = _axis("share of goodput (%)") | {"range": [0, 100]}
    layout["yaxis"] = _axis("") | {"autorange": "reversed", "ticks": ""}
    return {"data": traces, "layout": layout}


def _trace(line: Line, panel: Panel, pixels: int) -> Figure:
    ordered = panel.x_label == TIME_AXIS
    x, y = decimate(line.x, line.y, pixels) if ordered else (line.x, line.y)
    if ordered:
        x, y = _without_repeats(x, y)
    trace: Figure = {
        "type": "scatter",
        "name": line.label,
        "legendgroup": line.label,
        "x": _rounded(x, 6),
        "y": _rounded(y, 4),
        "mode": "markers" if panel.points else "lines",
    }
    if panel.points:
        trace["marker"] = {"color": line.colour, "size": 5, "opacity": 0.6}
    else:
        width = 0.8 if line.thin else 1.6
        trace["line"] = {"color": line.colour, "dash": line.dash, "width": width}
    return trace


def _without_repeats(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Drop points inside a level stretch: a constant line needs two."""
    if y.size < 3:
        return x, y
    inside = (y[1:-1] == y[:-2]) & (y[1:-1] == y[2:])
    keep = np.concatenate(([True], ~inside, [True]))
    return x[keep], y[keep]


def _rounded(values: Any, digits: int) -> list[float | None]:
    """Numbers to `digits` significant digits; null for none, which plotly leaves out."""
    return [
        float(f"{value:.{digits}g}") if np.isfinite(value) else None
        for value in np.asarray(values, dtype=np.float64).tolist()
    ]


def _axis(title: str, *, log: bool = False) -> Figure:
    axis: Figure = {**_AXIS, "title": {"text": title, "font": {"size": 13}, "standoff": 8}}
    return axis | {"type": "log", "dtick": 1} if log else axis


def _layout(*, height: int) -> Figure:
    return {
        "height": height,
        "margin": {"l": 70, "r": 20, "t": 50, "b": 50},
        "font": _FONT,
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "legend": {"orientation": "h", "yref": "container", "y": 1, "yanchor": "top", "x": 0},
        "hoverlabel": {"font": {"size": 12}},
    }
