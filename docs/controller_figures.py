"""Draw the typical window of each built-in controller for its page, into docs/_static/controllers.

    python docs/controller_figures.py [NAME...]

Two flows, the second 10 s after the first, at 20 Mbit/s and 40 ms behind a drop-tail queue of one
bandwidth-delay product.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dumbbell
from dumbbell._plots_multiples import multiples_figure, run_title
from dumbbell._registry import builtin

FIGURES = Path(__file__).parent / "_static" / "controllers"


def scenario(name: str) -> dict[str, Any]:
    """What is run for the figure of a controller."""
    return {
        "duration": "40s",
        "path": {
            "rate": "20Mbit",
            "rtt": "40ms",
            "queue": {"kind": "fifo", "limit": "1bdp"},
        },
        "flows": [{"cc": name, "count": 2, "stagger": "10s"}],
    }


def main(names: list[str]) -> None:
    """Draw the figures of these controllers, or of all."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name in names or list(builtin().controllers):
        result = dumbbell.run(scenario(name))
        multiples_figure([result], [run_title(name, result)], FIGURES / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
