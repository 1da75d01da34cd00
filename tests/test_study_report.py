"""The report of a study: what is in it, that it stands alone, and the commands that write it."""

from __future__ import annotations

import base64
import io
import itertools
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from browser import opened
from dumbbell._cli import run_command
from dumbbell._errors import UsageError
from dumbbell.analysis.correlation import correlations
from dumbbell.analysis.report import Picture, Section, write_report
from dumbbell.analysis.stored import stored_study
from dumbbell.analysis.study import Plan, study_report, study_sections

FACTORS = ("rate", "rtt", "buffer", "cc")
ALGORITHMS = ("cubic", "bbr", "vegas", "reno")
EVIL = "</td><script>alert(1)</script>"


def study_frame() -> pd.DataFrame:
    """Eight conditions, four algorithms. Rate adds 6 to the delay, rtt takes 4 off; bbr loses three
    times as much as the others where the buffer is small."""
    rows: list[dict[str, Any]] = []
    levels = itertools.product((5, 20), ("20ms", "80ms"), (0.5, 2.0), ALGORITHMS)
    for i, (rate, rtt, buffer, cc) in enumerate(levels):
        small = buffer == 0.5
        loss = (0.04 if small else 0.01) / rate * (3 if cc == "bbr" and small else 1)
        rows.append(
            {
                "rate": rate,
                "rtt": rtt,
                "buffer": buffer,
                "cc": cc,
                "replicate": 0,
                "error": None,
                "loss_ratio": loss * (1 + 0.01 * ((i * 7) % 5)),
                "delay": 20 + 3 * (1 if rate == 20 else -1) - 2 * (1 if rtt == "80ms" else -1),
                "total": rate * (1 - loss),
                "constant": 1.0,
                "alternate.g1": rate / (1 + i % 3),
                "alternate.g2": rate / (2 + i % 4),
                "tcp.g1": rate / (2 + i % 5),
                "tcp.g2": rate / (3 + i % 2),
            }
        )
    rows.append({**rows[0], "error": "it failed", "loss_ratio": np.nan, "delay": np.nan})
    frame = pd.DataFrame(rows)
    return frame.assign(cc=pd.Categorical(frame["cc"], categories=ALGORITHMS))


RESPONSES = tuple(
    name for name in study_frame().columns if name not in (*FACTORS, "replicate", "error")
)
PLAN = Plan(
    FACTORS,
    RESPONSES,
    focus=("loss_ratio",),
    meanings={"delay": f"queueing {EVIL}"},
)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    return study_report(study_frame(), path, PLAN, title=EVIL, facts=[("runs", "32 of 33")])


@pytest.fixture(scope="module")
def page(report: Path) -> Page:
    return Page(report.read_text(encoding="utf-8"))


def table(page: Page, name: str) -> pd.DataFrame:
    """The CSV behind the link that saves a table."""
    link = next(a for a in page.of("a") if a.get("download") == name)
    data = str(link["href"]).removeprefix("data:text/csv;base64,")
    return pd.read_csv(io.BytesIO(base64.b64decode(data)))


def test_all_analyses_that_apply_are_there(page: Page) -> None:
    assert [a["id"] for a in page.of("h2")] == [
        "conditions",
        "responses",
        "correlation-of-responses",
        "main-effects",
        "interactions",
        "half-normal-plots",
        "analysis-of-variance",
        "ten-steps",
        "principal-components",
        "intervals",
        "algorithms-in-pairs",
        "clusters-of-algorithms",
        "algorithms-that-differ",
        "responses-by-condition",
        "principal-components-of-goodputs",
        "goodput-ranks",
        "coexistence-with-tcp",
        "left-out",
    ]
    assert "the same in all runs, or without a value: constant" in page.text
    assert "32 runs of 4 algorithms in 8 conditions that rate, rtt and buffer make." in page.text


def test_numbers_are_those_that_were_planted(page: Page) -> None:
    effects = table(page, "main-effects-main-effects.csv").set_index(["response", "factor"])
    assert effects.loc[("delay", "rate"), "effect"] == pytest.approx(6)
    assert effects.loc[("delay", "rtt"), "effect"] == pytest.approx(-4)
    assert effects.loc[("delay", "buffer"), "effect"] == pytest.approx(0, abs=1e-9)
    pairs = table(page, "algorithms-in-pairs-pairs.csv").set_index(["response", "cc"])
    assert pairs.loc[("loss_ratio", "bbr"), "pairs"] == 8
    # Three times as much in four of eight conditions, on 0.04 / 5 and 0.04 / 20.
    assert pairs.loc[("loss_ratio", "bbr"), "difference"] == pytest.approx(0.005, rel=0.05)
    flags = table(page, "algorithms-that-differ-flags-both-filters.csv").set_index("algorithm")
    # Four conditions have the small buffer; with 4 algorithms G is at most 1.5, critical 1.481.
    assert flags.loc["bbr", ["high", "low"]].tolist() == [4, 0]
    assert flags["flags"].sum() == 4
    conditions = table(page, "conditions-conditions.csv")
    assert len(conditions) == 8
    assert conditions["runs"].tolist() == [4] * 8
    worst = conditions.set_index("congestion rank").loc[[7, 8]]
    assert set(worst["rate"]) == {5}
    assert set(worst["buffer"]) == {0.5}


def test_the_page_stands_alone(page: Page, report: Path) -> None:
    for tag, attributes in page.elements:
        for key in ("src", "href", "srcset", "action"):
            value = attributes.get(key)
            assert value is None or value.startswith(("#", "data:")), (tag, value)
    assert page.of("link") == []
    assert page.of("script") == []
    targets = {a["id"] for _, a in page.elements if "id" in a}
    links = [str(a["href"]) for a in page.of("a")]
    assert {link[1:] for link in links if link.startswith("#")} <= targets
    images = page.of("img")
    assert len(images) >= 15
    assert all(image["alt"] for image in images)
    assert "default-src 'none'" in report.read_text(encoding="utf-8")


def test_names_cannot_break_out_of_the_page(page: Page, report: Path) -> None:
    assert EVIL not in report.read_text(encoding="utf-8")
    assert f"queueing {EVIL}" in page.text


def test_a_long_table_is_cut_on_the_page_and_whole_in_its_file(tmp_path: Path) -> None:
    long = pd.DataFrame({"n": range(40), "x": [1e-9, np.inf, np.nan, True] * 10})
    section = Section("A: b/c", ["One."], tables={"All of it": long})
    text = write_report([section], tmp_path / "long.html").read_text(encoding="utf-8")
    cut = Page(text)
    assert len(cut.of("tr")) == 1 + 12
    assert "The first 12 of 40 rows." in cut.text
    assert "1.00e-09" in cut.text
    assert "∞" in cut.text
    assert table(cut, "a-b-c-all-of-it.csv")["n"].tolist() == list(range(40))


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    def write(name: str) -> bytes:
        found = correlations(study_frame(), ["loss_ratio", "delay", "total"])
        picture = Picture(found.figure(), "Correlations")
        sections = [Section("Correlation", [found.reading()], [picture], {"r": found.table})]
        return write_report(sections, tmp_path / name).read_bytes()

    assert write("a") == write("b")


def test_what_does_not_apply_is_said(tmp_path: Path) -> None:
    frame = study_frame()
    one = frame[frame["rtt"] == "20ms"]
    sections, left_out = study_sections(one, Plan(("rate", "cc"), ("delay", "loss_ratio")))
    assert ("Interactions", "needs 2 factors with two levels") in left_out
    assert "Clusters of algorithms" in [section.title for section in sections]
    with pytest.raises(UsageError, match="no response differs"):
        study_sections(frame, Plan(FACTORS, ("constant",)))
    with pytest.raises(UsageError, match="no finished run"):
        study_sections(frame[frame["error"].notna()], PLAN)
    with pytest.raises(UsageError, match="algorithm"):
        study_sections(frame, Plan(FACTORS, RESPONSES, algorithm="delay"))
    with pytest.raises(UsageError, match="cannot be written"):
        write_report([], tmp_path / "absent" / "report.html")


def test_factors_with_many_levels_are_looked_at_for_sensitivity() -> None:
    """y = 4 a + b over a Latin square of 64 points: a has 16/17 of the variance, c none."""
    a = np.arange(64) / 64
    frame = pd.DataFrame({"a": a, "b": (37 * np.arange(64) % 64) / 64})
    frame["c"] = (29 * np.arange(64) % 64) / 64
    frame = frame.assign(y=4 * frame["a"] + frame["b"], z=frame["b"])
    sections, left_out = study_sections(frame, Plan(("a", "b", "c"), ("y", "z")))
    found = next(section for section in sections if section.title == "Sensitivity")
    assert found.readings[0].startswith("y is most sensitive to a")
    assert found.readings[1].startswith("z is most sensitive to b")
    assert ("Main effects", "needs a factor with two levels") in left_out


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of eight short runs."""
    directory = tmp_path_factory.mktemp("study")
    (directory / "study.toml").write_text(
        """
title = "A small study"
responses = ["jain", "loss_ratio", "queue_delay_mean_ms"]
[scenario]
duration = "1s"
path = { rate = "10Mbit", rtt = "20ms" }
flows = [{ cc = "cubic", count = 2 }]
[factors]
rate = { key = "path.rate", levels = ["5Mbit", "20Mbit"] }
rtt = { key = "path.rtt", levels = ["20ms", "60ms"] }
cc = { key = "flows[0].cc", levels = ["cubic", "reno"] }
""",
        encoding="utf-8",
    )
    out = directory / "runs"
    assert (
        run_command(["study", "run", str(directory / "study.toml"), "--out", str(out), "-q"]) == 0
    )
    return out


def test_study_report_and_analyse(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["study", "report", str(study), "--focus", "jain"]) == 0
    page = Page((study / "report.html").read_text(encoding="utf-8"))
    assert "A small study" in page.text
    assert "8 of 8" in page.text
    assert "Jain's index" in page.text
    # cc has two levels: a factor like the others, and nothing that needs three algorithms.
    assert "Algorithms that differ" not in page.text
    arguments = ["study", "analyse", str(study), "--format", "png", "--response", "jain"]
    assert run_command([*arguments, "--response", "loss_ratio", "--focus", "jain"]) == 0
    printed = capsys.readouterr().out
    assert "moves jain most" in printed
    assert "queue_delay" not in printed
    written = sorted(path.name for path in (study / "analysis").iterdir())
    assert f"wrote {len(written)} files" in printed
    assert "01-conditions.png" in written
    effects = pd.read_csv(study / "analysis" / "04-main-effects-main-effects.csv")
    assert set(effects["response"]) == {"jain", "loss_ratio"}


def test_a_wrong_name_or_directory_is_one_line(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, wanted in (
        ([str(tmp_path)], "expected the directory of a study"),
        ([str(study), "--congestion", "jane"], 'did you mean "jain"?'),
        ([str(study), "--algorithm", "rt"], 'did you mean "rtt"?'),
        ([str(study), "--focus", "jains"], 'did you mean "jain"?'),
    ):
        assert run_command(["study", "report", *arguments]) == 2
        error = capsys.readouterr().err
        assert wanted in error
        assert error.count("\n") == 1


def test_a_browser_shows_every_figure(report: Path, page: Page, tmp_path: Path) -> None:
    count = "document.title = [...document.images].filter(i => i.naturalWidth > 100).length"
    script = f"<script>window.onload = () => {{ {count} }}</script></body>"
    text = report.read_text(encoding="utf-8").replace("</body>", script)
    assert f"<title>{len(page.of('img'))}</title>" in opened(text, tmp_path)


def test_conditions_are_numbered_in_the_order_of_the_design(study: Path, tmp_path: Path) -> None:
    """In Yates' order, rate alternates fastest: 5 and 20 Mbit/s at 20 ms, then at 60 ms; whatever
    the order of the runs."""
    text = (study.parent / "study.toml").read_text(encoding="utf-8")
    random = tmp_path / "random.toml"
    random.write_text('order = "random"\nseed = 3\n' + text, encoding="utf-8")
    out = tmp_path / "runs"
    assert run_command(["study", "run", str(random), "--out", str(out), "-q"]) == 0
    stored = stored_study(out, algorithm="cc")
    assert stored.plan.levels["cc"] == ["cubic", "reno"]
    assert stored.frame["rate"].tolist() != ["5Mbit", "20Mbit"] * 4
    sections, _ = study_sections(stored.frame, stored.plan)
    conditions = sections[0].tables["Conditions"]
    assert conditions["rate"].to_dict() == {1: "5Mbit", 2: "20Mbit", 3: "5Mbit", 4: "20Mbit"}
    assert conditions["rtt"].to_dict() == {1: "20ms", 2: "20ms", 3: "60ms", 4: "60ms"}
    assert ("design", "full") in stored.facts


def test_algorithms_keep_the_order_of_the_plan() -> None:
    """Not that of the runs; the first is the baseline of pairs. Without one run, that is said."""
    mixed = study_frame().dropna(subset="loss_ratio").sample(frac=1, random_state=4).iloc[1:]
    sections, _ = study_sections(mixed, replace(PLAN, responses=("loss_ratio", "total")))
    by_title = {section.title: section for section in sections}
    counts = by_title["Clusters of algorithms"].tables["Who stands out"]
    assert list(counts.index) == list(ALGORITHMS)
    pairs = by_title["Algorithms in pairs"].tables["Pairs"]
    assert set(pairs["baseline"]) == {"cubic"}
    assert (
        "1 of 32 pairs of condition and algorithm have no run" in by_title["Conditions"].readings[1]
    )


def test_a_factor_may_be_called_condition_and_algorithms_need_no_other() -> None:
    rng = np.random.default_rng(2)
    levels = itertools.product((1, 2), ("x", "y"), ("reno", "cubic", "bbr"), range(2))
    frame = pd.DataFrame(levels, columns=["condition", "b", "cc", "replicate"])
    frame = frame.assign(y=rng.normal(size=24))
    sections, _ = study_sections(frame, Plan(("condition", "b", "cc"), ("y",)))
    table = sections[0].tables["Conditions"]
    assert table["condition"].to_dict() == {1: 1, 2: 1, 3: 2, 4: 2}
    alone = frame[(frame["condition"] == 1) & (frame["b"] == "x")]
    sections, _ = study_sections(alone, Plan(("cc",), ("y",)))
    found = {section.title: section for section in sections}
    assert found["Algorithms in pairs"].tables["Pairs"]["pairs"].tolist() == [2, 2]
    assert len(found["Algorithms that differ"].tables["Tests"]) == 1
