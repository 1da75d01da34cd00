"""The page of a published experiment: complete, offline, safe with any text; its tables as CSV."""

from __future__ import annotations

import base64
import csv
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2", reason="reports are an extra")

from dumbbell import UsageError
from dumbbell._report_paper import file_part, write_csv, write_paper
from dumbbell.papers._paper import between
from test_report import Page

EVIL = "</script><script>alert(1)</script>"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (400).to_bytes(4, "big") + (300).to_bytes(4, "big")


@pytest.fixture
def outcome() -> dict[str, Any]:
    rows = [
        between("goodput", 9, unit="Mbit/s", source="RFC 1").judge(9.5),
        between("delay", high=20, unit="ms", source=EVIL).judge(25),
    ]
    return {
        "name": "some-paper",
        "title": "A title",
        "source": "RFC 1; RFC 2",
        "setup": "One link.",
        "rows": rows,
        "tables": {"by queue": [{"queue": "fifo", "delay (ms)": 25.0, "jain": None}]},
    }


@pytest.fixture
def page(outcome: dict[str, Any], tmp_path: Path) -> Path:
    picture = tmp_path / "some-paper.png"
    picture.write_bytes(PNG)
    return write_paper(tmp_path / "some-paper.html", outcome, picture, quick=True)


def test_all_is_there(page: Path) -> None:
    text = Page(page.read_text(encoding="utf-8")).text
    for part in ("A title", "RFC 1; RFC 2", "One link.", "at least 9.00 Mbit/s", "9.50 Mbit/s"):
        assert part in text
    assert "1 of 2 statements hold; not: delay." in text
    assert "This was a quick run" in text
    assert "by queue" in text
    assert "25.0" in text
    assert "dumbbell reproduce some-paper --quick --out DIRECTORY" in text


def test_only_what_differs_is_shaded(page: Path) -> None:
    cells = [a for tag, a in Page(page.read_text(encoding="utf-8")).elements if tag == "td"]
    assert [bool(cell.get("style")) for cell in cells] == [False] * 5 + [True] * 5 + [False] * 3


def test_nothing_is_loaded_and_nothing_runs(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    elements = Page(html).elements
    assert not [tag for tag, _ in elements if tag in ("script", "link", "iframe")]
    (image,) = [a for tag, a in elements if tag == "img"]
    assert not [a for tag, a in elements if "src" in a and tag != "img"]
    assert image["width"] == "260"
    assert image["src"] == "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert EVIL not in html
    assert EVIL in Page(html).text


def test_tables_as_csv(outcome: dict[str, Any], tmp_path: Path) -> None:
    path = write_csv(tmp_path / "table.csv", outcome["tables"]["by queue"])
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [["queue", "delay (ms)", "jain"], ["fifo", "25.0", ""]]
    assert file_part("8.2.6 capacity, every 20 s") == "8.2.6-capacity-every-20-s"


def test_what_cannot_be_written_is_one_line(
    outcome: dict[str, Any], page: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        write_paper(tmp_path / "absent" / "page.html", outcome, page)
    with pytest.raises(UsageError, match="cannot be written"):
        write_csv(tmp_path / "absent" / "table.csv", [])
