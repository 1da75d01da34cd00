"""Run the cases and the papers, and paste what they measured into docs/cases.md and docs/papers.md.

After a change that moves numbers, from the repository's root: `python docs/paste_results.py`; with
names of papers only these are run, and the rest of docs/papers.md stays.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dumbbell import cases
from dumbbell.papers import listing, reproduce

HERE = Path(__file__).parent
FIGURES = HERE / "_static"
BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"


def main(names: Sequence[str]) -> None:
    """Rewrite what stands between the markers of both pages, or of these papers."""
    if not names:
        _cases()
    known = [row["name"] for row in listing()]
    sections = _sections(HERE / "papers.md")
    with TemporaryDirectory() as directory:
        for name in names or known:
            outcome = reproduce(name, directory)
            sections[name] = _paper(outcome)
            for figure in outcome["figures"]:
                shutil.copy(figure, FIGURES)
    paste(HERE / "papers.md", "\n\n".join(sections[name] for name in known if name in sections))


def _cases() -> None:
    rows = cases.run(home=HERE.parent / "tests" / "cases")
    passed = sum(row["passed"] for row in rows)
    lines = ["| case | report | result | measured |", "| --- | --- | --- | --- |"]
    lines += [_case(row) for row in rows]
    paste(HERE / "cases.md", "\n".join([f"{passed} of {len(rows)} cases pass.", "", *lines]))


def _sections(page: Path) -> dict[str, str]:
    """What a page has of each paper."""
    old = page.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    parts = re.split("^(?=## )", old, flags=re.MULTILINE)[1:]
    return {part.splitlines()[0].removeprefix("## "): part.strip() for part in parts}


def _case(row: dict[str, Any]) -> str:
    result = "pass" if row["passed"] else "**fail**"
    what = f"{row['title']} ({row['source']})"
    note = f". Note: {row['note']}" if row["note"] else ""
    return f"| {row['name']} | {cell(what)} | {result} | {cell(row['detail'] + note)} |"


def _paper(outcome: dict[str, Any]) -> str:
    name = outcome["name"]
    table = [
        "| what | published | dumbbell | verdict | source |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in outcome["rows"]:
        verdict = row["verdict"] if row["verdict"] == "agrees" else f"**{row['verdict']}**"
        cells = [row["what"], row["paper"], row["ours"], verdict, row["source"]]
        table.append("| " + " | ".join(map(cell, cells)) + " |")
    return "\n\n".join(
        [
            f"## {name}",
            f"{outcome['title']}. Source: {outcome['source']}.",
            outcome["setup"],
            "\n".join(table),
            f"![{outcome['title']}](_static/{name}.png)",
        ]
    )


def cell(text: str) -> str:
    """Text in a table: no separator, no thin space."""
    return text.replace("|", "\\|").replace("\u2009", " ")


def paste(page: Path, text: str) -> None:
    old = page.read_text(encoding="utf-8")
    new = re.sub(
        f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{text}\n\n{END}", old, count=1, flags=re.DOTALL
    )
    page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
