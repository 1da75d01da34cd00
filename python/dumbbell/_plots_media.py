"""Panels of flows that carry media: rates of controller and encoder, delay of frames."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dumbbell._plots_data import ResultLike, by_name, columns
from dumbbell._plots_panels import TIME_AXIS, Line, Panel, Style

_BIN_S = 1.0
"""Frames are summed over so long: a key frame is as long as many others."""
_MOST_WITH_ENCODER = 2
"""With more flows than this only targets are shown."""


def media_panels(result: ResultLike, styles: Mapping[str, Style]) -> list[Panel]:
    """Target and encoder rate, and delay of frames; none where no flow carries media."""
    frames = dict(by_name(columns(result, "frames"), "flow", list(styles)))
    if not frames:
        return []
    variables = dict(by_name(columns(result, "controller_series"), "flow", list(styles)))
    rates, delays = [], []
    for name, table in frames.items():
        style = styles.get(name) or Style(name, "#999999", "solid", True)
        own = dict(by_name(variables.get(name, {}), "name"))
        if target := own.get("target_bps"):
            values = target["value"] / 1e6
            rates.append(Line(f"{style.label}: target", target["t"], values, style.colour))
        if len(frames) <= _MOST_WITH_ENCODER:
            edges = np.arange(0.0, float(table["t"].max()) + _BIN_S, _BIN_S)
            megabits, _ = np.histogram(table["t"], edges, weights=table["bytes"] * 8e-6 / _BIN_S)
            middles = edges[:-1] + _BIN_S / 2
            rates.append(Line(f"{style.label}: encoder", middles, megabits, style.colour, "dot"))
        delays.append(
            Line(style.label, table["t"], table["delay_ms"], style.colour, style.dash, style.thin)
        )
    found = [
        Panel(
            "media_rate",
            "Media rate",
            TIME_AXIS,
            "media rate (Mbit/s)",
            "What the controller asks the encoder for (IP packets), and the frames that it makes, "
            "without headers, second by second.",
            tuple(rates),
        ),
        Panel(
            "frame_delay",
            "Frame delay",
            TIME_AXIS,
            "frame delay (ms)",
            "From capture to the arrival of a frame's last packet, by time of capture; a gap is a "
            "frame that never arrived whole.",
            tuple(delays),
        ),
    ]
    return [panel for panel in found if panel.lines]
