"""The report: complete, offline, true to the numbers, safe with any name, drawn by a browser."""

from __future__ import annotations

import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest

from browser import opened
from dumbbell._errors import UsageError
from dumbbell._plots_compare import compare_rows
from dumbbell._report import write_report
from dumbbell._report_findings import comparison_findings, run_findings
from synthetic_result import synthetic_result
from test_plots_compare import grid_results


class Page(HTMLParser):
    """Elements, the text outside scripts and styles, and the JSON of each figure."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.figures: list[dict[str, object]] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = "figure" if ("type", "application/json") in attrs else tag

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "figure":
            self.figures.append(json.loads(data))
        elif not self._inside:
            self.text += data


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "one.html"
    return write_report(path, synthetic_result(completions=50))


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(tmp_path_factory.mktemp("report") / "many.html", grid_results())


@pytest.mark.parametrize("which", ["single", "comparison"])
def test_nothing_is_loaded_from_outside(which: str, request: pytest.FixtureRequest) -> None:
    page = Page(request.getfixturevalue(which).read_text(encoding="utf-8"))
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        for name in ("src", "href", "srcset", "action", "poster", "data"):
            assert name not in attributes, (tag, attributes)
        assert "url(" not in (attributes.get("style") or "")
    (policy,) = [
        attributes["content"]
        for tag, attributes in page.elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "http" not in policy
    plotly = [1 for tag, attributes in page.elements if tag == "script" and not attributes]
    assert len(plotly) == 2


def test_the_12_run_demo_stays_below_8_mb(comparison: Path, single: Path) -> None:
    assert comparison.stat().st_size < 8e6
    assert single.stat().st_size < 6e6


def test_numbers_title_seed_version_and_scenario_are_there(single: Path) -> None:
    page = Page(single.read_text(encoding="utf-8"))
    for text in ("cubic against bbr behind fifo", "cubic-1", "bottleneck", "57.0", "98.0"):
        assert text in page.text
    assert re.search(r"seed\s*1\b", page.text)
    assert re.search(r"dumbbell\s*0\.1\.0", page.text)
    assert "dumbbell run scenario.toml" in page.text
    assert "bbr-2 70 % and cubic-1 30 % (Jain index 0.862)" in page.text
    toml = page.text[page.text.index("the same version gives the same numbers.") :]
    scenario = tomllib.loads(toml.split("numbers.", 1)[1].strip())
    assert scenario == synthetic_result().summary["scenario"]


def test_every_figure_has_units_and_says_how_to_read_it(single: Path) -> None:
    page = Page(single.read_text(encoding="utf-8"))
    assert len(page.figures) == 4
    assert page.text.count("How to read this.") == 4
    for figure in page.figures:
        layout = figure["layout"]
        assert isinstance(layout, dict)
        axes = [value["title"]["text"] for key, value in layout.items() if "axis" in key]
        assert len(axes) >= 2
        for label in axes:
            assert label.endswith(")") or label.startswith("fraction of")


def test_figures_hold_the_tables_numbers(single: Path) -> None:
    page = Page(single.read_text(encoding="utf-8"))
    traces = page.figures[0]["data"]
    assert isinstance(traces, list)
    bbr = next(t for t in traces if t["name"] == "bbr-2" and t["yaxis"] == "y")
    table = synthetic_result().table("flow_series").to_pydict()
    rows = zip(table["goodput_bps"], table["flow"], strict=True)
    expected = [rate / 1e6 for rate, flow in rows if flow == "bbr-2"]
    assert bbr["y"] == pytest.approx(expected, rel=1e-3)
    capacity = next(t for t in traces if t["name"] == "capacity")
    assert capacity["y"] == [50.0, 50.0]


def test_comparison_has_a_section_for_each_cell(comparison: Path) -> None:
    page = Page(comparison.read_text(encoding="utf-8"))
    assert sum(tag == "details" for tag, _ in page.elements) == 12
    assert len(page.figures) == 2 + 12 * 3
    for text in ("Comparison of 12 runs: cc and queue", "Heat maps", "cubic+bbr, fq_codel"):
        assert text in page.text
    shaded = [a["style"] for tag, a in page.elements if tag == "td" and a.get("style")]
    assert any("#f09a4a" in (style or "") for style in shaded)


def test_findings_come_from_the_numbers() -> None:
    found = " ".join(comparison_findings(compare_rows(grid_results())))
    # p95 of a triangle from 0 to d is 0.95 d: 4.75 ms of 5 ms, 85.5 ms of 90 ms.
    assert (
        "depends most on queue: fq_codel keeps it at 4.75 ms, fifo lets it reach 85.5 ms" in found
    )
    assert "18 times as much" in found
    assert "Utilisation is 98.0 % everywhere." in found
    assert "least equally with cubic+bbr, fifo: bbr 80 % and cubic 20 %" in found
    assert "most equally with cubic+reno, fq_codel" in found


def test_findings_of_one_run() -> None:
    first, second = run_findings(synthetic_result().summary)
    assert first == "Of 50.0 Mbit/s goodput, bbr-2 70 % and cubic-1 30 % (Jain index 0.862)."
    assert "bottleneck was used to 98.0 %" in second
    assert "one in twenty more than 57.0 ms" in second
    interrupted = synthetic_result()
    interrupted._summary["totals"]["complete"] = False
    assert "interrupted" in run_findings(interrupted.summary)[-1]
    assert run_findings({"flows": [], "links": []}) == []


def test_names_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    result = synthetic_result(ccs=("cubic", evil))
    result._summary["scenario"]["title"] = evil
    html = write_report(tmp_path / "evil.html", result).read_text(encoding="utf-8")
    page = Page(html)
    assert "alert(1)</script>" not in html
    assert evil in page.text
    assert len([1 for tag, a in page.elements if tag == "script" and not a]) == 2


def test_the_same_result_gives_the_same_bytes(single: Path, tmp_path: Path) -> None:
    again = write_report(tmp_path / "again.html", synthetic_result(completions=50))
    assert again.read_bytes() == single.read_bytes()


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one result"):
        write_report(tmp_path / "none.html", [])
    with pytest.raises(UsageError, match="cannot be written"):
        write_report(tmp_path / "absent" / "report.html", synthetic_result())


def test_a_summary_without_tables_still_makes_a_report(tmp_path: Path) -> None:
    result = synthetic_result()
    result._tables.clear()
    page = Page(write_report(tmp_path / "bare.html", result).read_text(encoding="utf-8"))
    assert page.figures == []
    assert "cubic-1" in page.text


@pytest.mark.parametrize("which", ["single", "comparison"])
def test_a_browser_draws_every_figure(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    html = request.getfixturevalue(which).read_text(encoding="utf-8")
    document = opened(html.replace("<details>", "<details open>"), tmp_path)
    page = Page(html)
    drawn = document.count('data-drawn="yes"')
    assert drawn == len(page.figures)
    # Plotly puts three layers of SVG into each figure that it has really drawn.
    assert document.count('class="main-svg"') >= 2 * drawn
    assert "(Mbit/s)" in document
