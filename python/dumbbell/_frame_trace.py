"""Frames of recorded encodings: a file with one line a frame."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from dumbbell._errors import ScenarioError, show_value
from dumbbell._import import ImportFileError, read_bytes

_COLUMNS = ("rate", "interval", "bytes")
_MOST_FRAMES = 10_000_000


def read_frames(path: Path, *, key: str, written: str) -> list[dict[str, Any]]:
    """Levels by ascending rate as the engine reads them: bps, bytes, interval_ns.

    Lines are rate (bit/s), interval until the next frame (s), bytes, parted by commas; a line of
    names may come first, and # begins a comment. Raises ScenarioError, which names `key`.
    """

    def wrong(expected: str) -> ScenarioError:
        return ScenarioError(key=key, value=written, expected=expected)

    try:
        text = read_bytes(path).decode("utf-8", "replace")
    except ImportFileError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise wrong(f"expected a file of frames: {reason}") from None
    levels: dict[float, dict[str, Any]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        cells = [cell.strip() for cell in line.partition("#")[0].split(",")]
        if cells == [""] or (not levels and tuple(cells) == _COLUMNS):
            continue
        try:
            rate, interval, size = map(float, cells)
        except ValueError:
            rate = interval = size = math.nan
        if not (rate >= 0 and 1e-9 <= interval <= 1e6 and 1 <= size < 2**24):
            expected = "rate (bit/s), interval (s) and bytes of a frame"
            raise wrong(f"line {number}: {show_value(line.strip())}: expected {expected}")
        level = levels.setdefault(rate, {"bps": rate, "bytes": [], "interval_ns": []})
        level["bytes"].append(round(size))
        level["interval_ns"].append(round(interval * 1e9))
    lengths = {len(level["bytes"]) for level in levels.values()}
    if not levels:
        raise wrong("expected at least one frame")
    if len(lengths) > 1:
        raise wrong("expected as many frames of each rate")
    if sum(lengths) * len(levels) > _MOST_FRAMES:
        raise wrong(f"expected at most {_MOST_FRAMES} frames")
    return [levels[rate] for rate in sorted(levels)]
