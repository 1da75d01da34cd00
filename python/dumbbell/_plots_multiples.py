"""A page of small panels, one for each run: windows and queueing delay over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dumbbell._errors import UsageError
from dumbbell._plots import figure, save_figure
from dumbbell._plots_data import ResultLike, by_name, columns, decimate, number
from dumbbell._plots_panels import COLOURS

_MOST_COLUMNS = 5
_PANEL_IN = (2.5, 1.45)
_PIXELS = 300
_QUEUE_COLOUR = "#D9D9D9"
_QUEUE_TEXT = "#7F7F7F"
# Column, its unit in that of the axis, label of the axis.
_WINDOW = ("cwnd", 1.0, "congestion window (segments)")
_RATE = ("goodput_bps", 1e6, "goodput (Mbit/s)")
# A few samples of an overshoot must not flatten all other panels.
_SCALE_QUANTILE = 0.995


def multiples_figure(
    results: Sequence[ResultLike],
    titles: Sequence[str],
    path: str | Path,
    *,
    panel_in: tuple[float, float] = _PANEL_IN,
) -> Path:
    """Draw a panel for each result, `panel_in` inches wide and high; write the page to `path`.

    Lines are congestion windows in segments, or rates where some flow has no window (left), one
    colour a flow; the grey area is the first link's queueing delay in ms (right). All panels have
    the same scales, which leave out the highest 0.5 % of the samples. Raises UsageError if nothing
    was recorded over time.
    """
    if not results:
        raise UsageError("no run to draw")
    across = min(_MOST_COLUMNS, max(1, math.ceil(math.sqrt(len(results)))))
    down = math.ceil(len(results) / across)
    windows = [list(by_name(columns(result, "flow_series"), "flow")) for result in results]
    queues = [list(by_name(columns(result, "link_series"), "link"))[:1] for result in results]
    flows = [table for run in windows for _, table in run]
    has_windows = all(np.isfinite(table["cwnd"]).any() for table in flows)
    column, unit, label = _WINDOW if has_windows else _RATE
    most = _scale([table[column] / unit for table in flows])
    most_delay = _scale([table["queue_delay_ms"] for run in queues for _, table in run])
    size = (panel_in[0] * across + 0.5, panel_in[1] * down + 0.5)
    made, axes = figure(down, across, size, sharex=True, sharey=True)
    for place, ax in enumerate(axes.ravel()):
        row = place // across
        if place >= len(results):
            ax.set_visible(False)
            continue
        right = ax.twinx()
        # The grey area belongs behind the lines.
        ax.set_zorder(right.get_zorder() + 1)
        ax.patch.set_visible(False)
        for _, table in queues[place]:
            x, y = decimate(table["t"], table["queue_delay_ms"], _PIXELS)
            right.fill_between(x, 0, np.nan_to_num(y), color=_QUEUE_COLOUR, linewidth=0)
        for index, (_, table) in enumerate(windows[place]):
            x, y = decimate(table["t"], table[column] / unit, _PIXELS)
            ax.plot(x, y, color=COLOURS[index % len(COLOURS)], linewidth=0.9)
        ax.set_ylim(0, most)
        right.set_ylim(0, most_delay)
        ax.grid(False)
        right.spines["top"].set_visible(False)
        labelled = _is_last(place, across, results)
        right.tick_params(axis="y", colors=_QUEUE_TEXT, labelsize=8, labelright=labelled)
        # The lowest panel of a column that the last row does not reach shows the times too.
        ax.tick_params(labelbottom=place + across >= len(results))
        ax.tick_params(labelleft=place % across == 0)
        ax.set_title(titles[place], loc="left", fontsize=8, pad=2)
        if row == down - 1 or place + across >= len(results):
            ax.set_xlabel("time (s)", fontsize=8)
    made.supylabel(label, fontsize=9)
    name = label.partition(" (")[0]
    made.suptitle(f"lines: {name};  grey: queueing delay (ms), right", fontsize=9)
    return save_figure(made, path)


def run_title(name: str, result: ResultLike) -> str:
    """Name, goodput of all flows and mean queueing delay of the first link."""
    flows, links = result.summary["flows"], result.summary["links"]
    goodput = sum(flow["goodput_bps"] for flow in flows) / 1e6
    delay = links[0]["queue_delay_ms"]["mean"] if links else None
    return f"{name}: {number(goodput)} Mbit/s, {number(delay, 2)} ms"


def _is_last(place: int, across: int, results: Sequence[ResultLike]) -> bool:
    return place % across == across - 1 or place == len(results) - 1


def _scale(series: Sequence[np.ndarray[tuple[int], np.dtype[np.float64]]]) -> float:
    values = np.concatenate(series) if series else np.empty(0)
    values = values[np.isfinite(values)]
    if not values.size:
        raise UsageError("the runs recorded nothing over time")
    return float(max(1.05 * np.quantile(values, _SCALE_QUANTILE), 1e-3))
