"""Run the cases and the papers, and paste what they measured into docs/cases.md and docs/papers.md.

After a change that moves numbers, from the repository's root: `python docs/paste_results.py`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dumbbell import cases
from dumbbell.papers import listing, reproduce

HERE = Path(__file__).parent
FIGURES = HERE / "_static"


def main() -> None:
    """Rewrite what stands between the markers of both pages."""
    rows = cases.run(home=HERE.parent / "tests" / "cases")
    passed = sum(row["passed"] for row in rows)
    lines = ["| case | report | result | measured |", "| --- | --- | --- | --- |"]
    lines += [_case(row) for row in rows]
    paste(HERE / "cases.md", "\n".join([f"{passed} of {len(rows)} cases pass.", "", *lines]))
    with TemporaryDirectory() as directory:
        outcomes = [reproduce(row["name"], directory) for row in listing()]
        for outcome in outcomes:
            for figure in outcome["figures"]:
                shutil.copy(figure, FIGURES)
    paste(HERE / "papers.md", "\n\n".join(map(_paper, outcomes)))


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
    begin, end = "<!-- measured -->\n", "<!-- end -->\n"
    old = page.read_text(encoding="utf-8")
    new = re.sub(
        f"{begin}.*{end}", lambda _: f"{begin}\n{text}\n\n{end}", old, count=1, flags=re.DOTALL
    )
    page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
