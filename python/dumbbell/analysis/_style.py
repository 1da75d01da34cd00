"""Colours and symbols of algorithms and levels, the same in every figure of a study."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._plots_panels import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL = 8
"""Points of letters in figures of many panels."""
TITLE: dict[str, Any] = {"loc": "left", "fontsize": 9, "pad": 3}
"""How the title of a panel is set."""
_COLOURS = (*COLOURS, "#000000", "#7F7F7F")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True)
class Look:
    colour: str
    marker: str


def looks(names: Iterable[Hashable]) -> dict[Hashable, Look]:
    """A colour and a symbol for each name; after eight, symbols change before pairs repeat."""
    many = len(_COLOURS)
    return {
        name: Look(_COLOURS[i % many], _MARKERS[(i + i // many) % len(_MARKERS)])
        for i, name in enumerate(dict.fromkeys(names))
    }


def legend(made: Figure, styles: dict[Hashable, Look], title: str = "", columns: int = 8) -> None:
    """One row of names above the axes."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], linestyle="", marker=look.marker, color=look.colour, label=shown(name))
        for name, look in styles.items()
    ]
    made.legend(
        handles=handles,
        title=title or None,
        loc="outside upper left",
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
        title_fontsize=SMALL,
        handletextpad=0.2,
        columnspacing=1.2,
        alignment="left",
    )


def hide_rest(axes: NDArray[Any], used: int) -> None:
    """Hide the axes after the first `used`, and give those above them the labels below."""
    across = axes.shape[1]
    for place, ax in enumerate(axes.ravel()):
        ax.set_visible(place < used)
        ax.tick_params(labelbottom=place + across >= used)


def shown(name: object) -> str:
    """A level as people write it: 800, not 800.0."""
    return f"{name:g}" if isinstance(name, float | np.floating) else str(name)


def small_colorbar(made: Figure, image: Any, axes: Any, label: str) -> None:
    """A colour bar with letters of the size of the axes'."""
    bar = made.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
    bar.set_label(label, fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)


def listed(names: Iterable[object], most: int = 6) -> str:
    """`a, b and c`; a long list ends with how many more there are."""
    texts = [shown(name) for name in names]
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most} more"
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"
