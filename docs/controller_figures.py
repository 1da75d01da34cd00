"""Draw the typical window of each built-in controller for its page, into docs/_static/controllers.

    python docs/controller_figures.py [NAME...]        (all: `make figures`, half a minute)

Two flows, the second 10 s after the first, at 20 Mbit/s and 40 ms behind a drop-tail queue of one
bandwidth-delay product. Those that steer by the fraction of marks get a queue that marks all that
has waited too long, those that steer by SCE one that sets it, XCP its router. The rate controller
has no window worth drawing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from PIL import Image

import dumbbell
from dumbbell._plots_multiples import multiples_figure, run_title
from dumbbell._registry import builtin

FIGURES = Path(__file__).parent / "_static" / "controllers"
PANEL_IN = (6.5, 2.6)
COLOURS = 48
UNDRAWN = {"rate"}

DROP_TAIL = {"kind": "fifo", "limit": "1bdp"}
STEP = {"kind": "step", "limit": "1bdp"}
QUEUES: dict[str, tuple[dict[str, Any], str]] = {
    # RFC 8257 section 3.1 asks for at least a seventh of the bandwidth-delay product.
    "dctcp": (STEP | {"threshold_time": "6ms"}, "a queue that marks with CE what waits 6 ms"),
    "prague": (STEP | {"threshold_time": "1ms"}, "a queue that marks with CE what waits 1 ms"),
    "xcp": ({"kind": "xcp", "limit": "1bdp"}, "XCP's router"),
    **dict.fromkeys(
        ("reno-sce", "dctcp-sce", "cubic-sce"),
        ({"kind": "sce"}, "a queue that sets SCE from 2.5 ms on and CE from 5 ms on"),
    ),
}


def queue(name: str) -> tuple[dict[str, Any], str]:
    """The queue in the figure of a controller, and what to say of it."""
    return QUEUES.get(name, (DROP_TAIL, "a drop-tail queue of one bandwidth-delay product"))


def scenario(name: str) -> dict[str, Any]:
    """What is run for the figure of a controller."""
    return {
        "duration": "40s",
        "path": {"rate": "20Mbit", "rtt": "40ms", "queue": queue(name)[0]},
        "flows": [{"cc": name, "count": 2, "stagger": "10s"}],
    }


def main(names: list[str]) -> None:
    """Draw the figures of these controllers, or of all."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name in names or [name for name in builtin().controllers if name not in UNDRAWN]:
        result = dumbbell.run(scenario(name))
        path = FIGURES / f"{name}.png"
        multiples_figure([result], [run_title(name, result)], path, panel_in=PANEL_IN)
        shrink(path)


def shrink(path: Path) -> None:
    """Keep a figure's file small: few colours are in it."""
    with Image.open(path) as drawn:
        drawn.convert("RGB").quantize(COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
