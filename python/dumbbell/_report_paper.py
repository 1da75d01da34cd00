"""One HTML file that holds a published experiment run again, and its tables as CSV."""

from __future__ import annotations

import base64
import csv
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dumbbell
from dumbbell._errors import UsageError
from dumbbell._plots_data import number
from dumbbell._report import Table, environment

_SHOWN = 0.65
"""Pixels on the page for one of the figure, so that its letters have the size of the text."""
_DIFFERS_COLOUR = "#f7cda5"
_VERDICT_COLUMNS = {
    "what": "what", "paper": "published", "ours": "dumbbell", "verdict": "verdict",
    "source": "source",
}  # fmt: skip


def write_paper(
    path: str | Path, outcome: Mapping[str, Any], picture: Path, *, quick: bool = False
) -> Path:
    """Write what `dumbbell.papers.reproduce` returned, with the PNG `picture` inside.

    Raises UsageError, MissingExtraError.
    """
    path = Path(path)
    differing = [row["what"] for row in outcome["rows"] if row["verdict"] != "agrees"]
    png = picture.read_bytes()
    encoded = base64.b64encode(png).decode("ascii")
    text = (
        environment()
        .get_template("paper.html")
        .render(
            title=outcome["title"],
            source=outcome["source"],
            setup=outcome["setup"],
            name=outcome["name"],
            version=dumbbell.__version__,
            quick=quick,
            finding=_finding(len(outcome["rows"]), differing),
            verdicts=_verdicts(outcome["rows"]),
            # The header's first number (PNG section 11.2.2).
            width=round(struct.unpack(">I", png[16:20])[0] * _SHOWN),
            picture=f"data:image/png;base64,{encoded}",
            tables=[_table(title, rows) for title, rows in outcome["tables"].items()],
        )
    )
    _write(path, text)
    return path


def write_csv(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write a table with the keys of its first row as the head; nothing stands for None.

    Raises UsageError.
    """
    path = Path(path)
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def file_part(title: str) -> str:
    """A table's title as a part of a file's name."""
    return re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-.")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None


def _finding(rows: int, differing: Sequence[str]) -> str:
    if not differing:
        return f"All {rows} statements hold."
    return f"{rows - len(differing)} of {rows} statements hold; not: {'; '.join(differing)}."


def _verdicts(rows: Sequence[Mapping[str, Any]]) -> Table:
    shade = [_DIFFERS_COLOUR if row["verdict"] != "agrees" else "" for row in rows]
    return Table(
        head=list(_VERDICT_COLUMNS.values()),
        rows=[[str(row[key]) for key in _VERDICT_COLUMNS] for row in rows],
        colours=[[colour] * len(_VERDICT_COLUMNS) for colour in shade],
    )


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    head = list(rows[0]) if rows else []
    return Table(
        head=head,
        rows=[[_cell(row[name]) for name in head] for row in rows],
        colours=[[""] * len(head) for _ in rows],
        caption=title,
    )


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, float) or value is None else str(value)
