"""Figures for files: PNG, PDF and SVG through matplotlib, without a display.

Sized for one column of a paper. Same result, same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._errors import MissingExtraError, UsageError, show_value, suggest
from dumbbell._plots_data import ResultLike, decimate
from dumbbell._plots_media import media_panels
from dumbbell._plots_panels import (
    TIME_AXIS,
    Panel,
    cdf_panels,
    completion_panel,
    flow_styles,
    time_panels,
    warmup_s,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf", "svg")
_WIDTH_IN = 4.5
_PANEL_IN = 1.25
_PIXELS = 900
_STYLE: Any = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
    "svg.hashsalt": "dumbbell",
    "path.simplify": False,
}
_MATPLOTLIB_DASHES = {"solid": "-", "dash": "--", "dashdot": "-.", "dot": ":"}


def figure(
    rows: int, columns: int, size_in: tuple[float, float], **options: Any
) -> tuple[Figure, NDArray[Any]]:
    """Return a matplotlib Figure and its (rows, columns) array of axes, in our style."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing figures", "plots") from None

    with rc_context(_STYLE):
        made = Figure(figsize=size_in, layout="constrained")
        axes = made.subplots(rows, columns, squeeze=False, **options)
    return made, axes


def save_figure(made: Figure, path: str | Path) -> Path:
    """Write a figure in the format that the name's suffix says, without dates or random ids."""
    from matplotlib import rc_context

    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise UsageError(f"figure format {show_value(kind)}{suggest(kind, FORMATS)}")
    undated: dict[str, dict[str, Any]] = {
        "svg": {"Date": None, "Creator": "dumbbell"},
        "pdf": {"CreationDate": None, "ModDate": None, "Producer": "dumbbell"},
        "png": {"Software": "dumbbell"},
    }
    try:
        with rc_context(_STYLE):
            made.savefig(path, format=kind, metadata=undated[kind])
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def time_series_figure(result: ResultLike) -> Figure:
    """Goodput, cwnd, RTT, queueing delay, probes and media, one above the other."""
    panels = [*time_panels(result), *media_panels(result, flow_styles(result.summary))]
    if not panels:
        raise UsageError("the run recorded nothing over time")
    made, axes = figure(len(panels), 1, (_WIDTH_IN, 0.9 + _PANEL_IN * len(panels)), sharex=True)
    warmup = warmup_s(result.summary)
    for ax, panel in zip(axes[:, 0], panels, strict=True):
        _draw(ax, panel)
        ax.set_ylim(0, panel.top)
        if warmup > 0:
            ax.axvspan(0, warmup, color="#EEEEEE", zorder=0, label="warm-up")
        if ax is not axes[-1, 0]:
            ax.set_xlabel("")
    axes[-1, 0].set_xlim(0, _last_x(panels))
    made.align_ylabels(axes[:, 0])
    _legend(made, axes[:, 0])
    return made


def cdf_figure(result: ResultLike) -> Figure:
    """Distributions of RTT and queueing delay, side by side."""
    panels = cdf_panels(result)
    if not panels:
        raise UsageError("the run recorded no distributions")
    made, axes = figure(1, len(panels), (_WIDTH_IN, 2.4), sharey=True)
    for ax, panel in zip(axes[0], panels, strict=True):
        _draw(ax, panel)
        ax.set_ylim(0, 1.02)
        ax.set_xlim(left=0)
    if len(panels) > 1:
        axes[0, 1].set_ylabel("")
        axes[0, 0].set_ylabel("fraction not above")
    _legend(made, axes[0])
    return made


def completion_figure(result: ResultLike) -> Figure:
    """Completion time against transfer size, both logarithmic."""
    panel = completion_panel(result)
    if panel is None:
        raise UsageError("no transfer was completed")
    made, axes = figure(1, 1, (_WIDTH_IN, 3.0))
    _draw(axes[0, 0], panel)
    _legend(made, axes[0])
    return made


def plot_result(
    result: ResultLike, directory: str | Path, *, formats: Sequence[str] = ("png",)
) -> list[Path]:
    """Write every figure that the result has data for and return the files written.

    Raises UsageError if there is none.
    """
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{directory}: cannot be written: {error.strerror or error}") from None
    written = []
    for name, draw in (
        ("time-series", time_series_figure),
        ("cdf", cdf_figure),
        ("completions", completion_figure),
    ):
        try:
            made = draw(result)
        except UsageError:
            continue
        written += [save_figure(made, directory / f"{name}.{kind}") for kind in formats]
    if not written:
        raise UsageError("nothing to draw: the run recorded no series and no transfer")
    return written


def _draw(ax: Axes, panel: Panel) -> None:
    for line in panel.lines:
        if panel.points:
            ax.plot(
                line.x, line.y, "o", color=line.colour, markersize=2.5, alpha=0.6, label=line.label
            )
            continue
        x, y = decimate(line.x, line.y, _PIXELS) if panel.x_label == TIME_AXIS else (line.x, line.y)
        ax.plot(
            x,
            y,
            color=line.colour,
            linestyle=_MATPLOTLIB_DASHES[line.dash],
            linewidth=0.6 if line.thin else 1.2,
            alpha=0.6 if line.thin else 1.0,
            label=line.label,
        )
    if panel.x_log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
    if panel.y_log:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
    ax.set_xlabel(panel.x_label)
    # "smoothed RTT (ms)" stands better on two lines beside a low panel.
    name, _, unit = panel.y_label.rpartition(" (")
    ax.set_ylabel(f"{name}\n({unit}" if name else panel.y_label)


def _last_x(panels: Iterable[Panel]) -> float:
    return max(float(np.nanmax(line.x)) for panel in panels for line in panel.lines)


def _legend(made: Figure, axes: Iterable[Axes]) -> None:
    """One legend above the axes, each label once."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    made.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper left",
        ncols=2,
        frameon=False,
        fontsize=_STYLE["legend.fontsize"],
        handlelength=2.4,
        columnspacing=1.2,
    )
