"""One HTML file that holds the analysis of a study: sentences, figures, tables as CSV.

It opens from disk without a network and needs no JavaScript: figures are images inside the file,
and each table can be saved whole.
"""

from __future__ import annotations

import base64
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell._plots import save_figure
from dumbbell._plots_data import number
from dumbbell._report import Table, environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_ROWS = 12
_MOST_SVG_AXES = 16
_PIXELS_PER_INCH = 96


@dataclass(frozen=True)
class Picture:
    """A figure and what it shows, for those who do not see it and below it for those who do."""

    figure: Figure
    caption: str


@dataclass(frozen=True)
class Section:
    """One analysis: what it says, then figures and tables (by caption)."""

    title: str
    readings: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The title as a part of a file's name or an address."""
        return part(self.title)


@dataclass(frozen=True)
class _Shown:
    """A table as the page shows it, and the whole as a CSV to be saved."""

    caption: str
    gist: str
    table: Table
    words: list[int]
    """Columns that stand left; numbers stand right."""
    rest: str
    file: str
    csv: str


def write_report(
    sections: Sequence[Section],
    path: str | Path,
    *,
    title: str = "Analysis of a study",
    facts: Sequence[tuple[str, str]] = (),
    left_out: Sequence[tuple[str, str]] = (),
) -> Path:
    """Write the report to `path`.

    `facts` are names and values for the head: runs, failures, version, seed, design; `left_out` are
    analyses that do not apply and the reasons. Raises UsageError, MissingExtraError.
    """
    path = Path(path)
    text = (
        environment()
        .get_template("study.html")
        .render(
            title=title,
            facts=list(facts),
            left_out=list(left_out),
            sections=[_section(section) for section in sections],
        )
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def write_files(
    sections: Sequence[Section], directory: str | Path, kind: str = "svg"
) -> list[Path]:
    """Write the tables (CSV) and figures (`kind`: svg, png or pdf) into a directory.

    Names begin with the section's place and title. Raises UsageError.
    """
    directory = Path(directory)
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for place, section in enumerate(sections, start=1):
            start = f"{place:02d}-{section.name}"
            for caption, table in section.tables.items():
                written.append(directory / f"{start}-{part(caption)}.csv")
                written[-1].write_text(csv_of(table), encoding="utf-8")
            for number_, picture in enumerate(section.pictures, start=1):
                number_text = f"-{number_}" if len(section.pictures) > 1 else ""
                file = directory / f"{start}{number_text}.{kind}"
                written.append(save_figure(picture.figure, file))
    except OSError as error:
        raise UsageError(f"{directory}: cannot be written: {error.strerror or error}") from None
    return written


def part(title: str) -> str:
    """A title as a part of a file's name or an address."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def csv_of(table: pd.DataFrame) -> str:
    """The whole table; an index without a name, as of numbered rows, is left out."""
    named = any(name is not None for name in table.index.names)
    text: str = table.to_csv(index=named, lineterminator="\n")
    return text


def _section(section: Section) -> dict[str, Any]:
    return {
        "name": section.name,
        "title": section.title,
        "readings": list(section.readings),
        "pictures": [_image(picture) for picture in section.pictures],
        "tables": [_shown(section.name, *entry) for entry in section.tables.items()],
    }


def _shown(section: str, caption: str, table: pd.DataFrame) -> _Shown:
    named = [name for name in table.index.names if name is not None]
    flat = table.reset_index() if named else table
    rows = [[_cell(value) for value in row] for row in flat.head(SHOWN_ROWS).to_numpy(dtype=object)]
    words = [
        place
        for place in range(flat.shape[1])
        if place < len(named) or not pd.api.types.is_numeric_dtype(flat.iloc[:, place])
    ]
    head = [str(name) for name in flat.columns]
    rest = ""
    if len(flat) > SHOWN_ROWS:
        rest = f"The first {SHOWN_ROWS} of {len(flat)} rows."
    csv = base64.b64encode(csv_of(table).encode("utf-8")).decode("ascii")
    colours = [[""] * len(head) for _ in rows]
    return _Shown(
        caption,
        f"{len(flat)} row{'s' if len(flat) != 1 else ''}",
        Table(head, rows, colours),
        words,
        rest,
        f"{section}-{part(caption)}.csv",
        f"data:text/csv;base64,{csv}",
    )


def _cell(value: Any) -> str:
    if value is None or value is pd.NA:
        return "-"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if not isinstance(value, float | np.floating):
        return str(value)
    x = float(value)
    if np.isinf(x):
        return "∞" if x > 0 else "-∞"
    if x.is_integer() and abs(x) < 1e15:
        return f"{int(x):,}".replace(",", "\u2009")
    return f"{x:.2e}" if 0 < abs(x) < 1e-4 else number(x)


def _image(picture: Picture) -> dict[str, Any]:
    """The figure as an address that holds it: SVG, or PNG where there is much in it."""
    # Drawing is most of a report's time: it is done once.
    kind = "png" if len(picture.figure.axes) > _MOST_SVG_AXES else "svg"
    with tempfile.TemporaryDirectory() as directory:
        data = save_figure(picture.figure, Path(directory) / f"figure.{kind}").read_bytes()
    encoded = base64.b64encode(data).decode("ascii")
    mime = "image/png" if kind == "png" else "image/svg+xml"
    return {
        "source": f"data:{mime};base64,{encoded}",
        "caption": picture.caption,
        "width": round(picture.figure.get_size_inches()[0] * _PIXELS_PER_INCH),
    }
