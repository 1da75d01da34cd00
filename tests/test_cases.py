"""Every case passes, and the assertion language measures and refuses what it should."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dumbbell._core", reason="the engine is not built")

from dumbbell import MissingExtraError, ScenarioError, UsageError, cases
from dumbbell._cases_model import Case, TestReference
from dumbbell._cli import run_command

ROOT = Path(__file__).parent.parent
HOME = ROOT / "tests" / "cases"
FILES = sorted(HOME.glob("*.toml"))

CASE = """
title = "t"
source = "RFC 1"
why = "w"

[scenario]
duration = "2s"
interval = "100ms"
path = { rate = "10Mbit", rtt = "20ms" }
flows = [{ id = "f", cc = "fixed", params = { window = "10p" } }]
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_case_passes(path: Path) -> None:
    row = cases.run_case(Case.load(path))
    json.dumps(row, allow_nan=False)
    assert row["passed"], row["detail"]


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "T-01.toml"
    path.write_text(CASE + text)
    return path


def measured(tmp_path: Path, text: str) -> Any:
    """What a check that is always true measures."""
    [row] = cases.run([str(write(tmp_path, '[[checks]]\nname = "n"\n' + text))])
    [check] = row["checks"]
    return check["measured"]


def series(column: str, statistic: str, more: str = "") -> str:
    bounds = 'at_least = "0s"\n' if column == "t" else "at_least = -1e9\n"
    return (
        f'table = "flow_series"\ncolumn = "{column}"\nstatistic = "{statistic}"\n{bounds}{more}\n'
    )


def test_statistics_of_a_constant_window(tmp_path: Path) -> None:
    assert measured(tmp_path, series("cwnd", "max")) == 10
    assert measured(tmp_path, series("cwnd", "mean", 'from = "1s"')) == 10
    assert measured(tmp_path, series("cwnd", "max_step")) == 0
    assert measured(tmp_path, series("cwnd", "min_ratio")) == 1
    assert measured(tmp_path, series("cwnd", "count", 'where = { flow = "g" }')) == 0
    assert measured(tmp_path, series("cwnd", "max", "over = { value = 4 }")) == 2.5
    assert measured(tmp_path, series("cwnd", "max", "minus = { value = 4 }")) == 6


def test_rows_are_from_the_start_up_to_the_end(tmp_path: Path) -> None:
    window = 'from = "0.5s"\nto = "1.5s"'
    assert measured(tmp_path, series("t", "count", window).replace('"0s"', "0")) == 10
    assert measured(tmp_path, series("t", "first", window)) == pytest.approx(0.5)
    assert measured(tmp_path, series("t", "last", window)) == pytest.approx(1.4)


def test_the_summary_is_read_by_index_id_and_sum(tmp_path: Path) -> None:
    # 10 segments of 1448 bytes in each round: 20 ms and, for the ACK, 2 frames at 10 Mbit/s.
    for key in ("flows[0]", "flows[f]", "flows[*]"):
        text = f'summary = "{key}.goodput_bps"\nat_least = "1Mbit"'
        assert measured(tmp_path, text) == pytest.approx(5.17e6, rel=0.03)
    text = 'summary = "flows[0].cc"\nreads = "fixed"'
    assert measured(tmp_path, text) == "fixed"


def test_nothing_to_measure_fails(tmp_path: Path) -> None:
    path = write(tmp_path, '[[checks]]\nname = "n"\n' + series("ssthresh", "max"))
    [row] = cases.run([str(path)])
    assert not row["passed"]
    assert row["checks"][0]["measured"] is None


def test_a_check_out_of_bounds_is_exit_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = '[[checks]]\nname = "n"\nsummary = "flows[0].cwnd_max"\nequals = 11\n'
    path = write(tmp_path, check)
    assert run_command(["cases", "run", str(path), "--json"]) == 1
    [row] = json.loads(capsys.readouterr().out)
    assert (row["name"], row["passed"], row["checks"][0]["measured"]) == ("T-01", False, 10)
    path.write_text(path.read_text().replace("equals = 11", "equals = 10"))
    assert run_command(["cases", "run", str(path)]) == 0
    assert "T-01  pass" in capsys.readouterr().out


def test_without_numpy_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, '[[checks]]\nname = "n"\nsummary = "x"\nat_most = 5')
    monkeypatch.delitem(sys.modules, "dumbbell._cases_measure", raising=False)
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(MissingExtraError, match=r"dumbbell\[plots\]"):
        cases.run([str(path)])


def test_share_of_seeds(tmp_path: Path) -> None:
    text = CASE.replace("[scenario]", "seeds = 20\n[scenario]")
    text = text.replace('rtt = "20ms"', 'rtt = "20ms", loss = 0.001')
    check = '[[checks]]\nname = "n"\nsummary = "links[0].random_losses"\nequals = {}\nshare = {}\n'
    path = tmp_path / "T-02.toml"
    path.write_text(text + check.format(0, 0.01) + check.format(0, 0.99))
    [row] = cases.run([str(path)])
    some, nearly_all = row["checks"]
    # About 900 packets: a run loses none with probability 0.999 ** 900 = 0.4.
    assert 1 <= some["seeds_passed"] < 20
    assert some["passed"]
    assert not nearly_all["passed"]


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("", "scenario", "a scenario needs at least one of [[checks]]"),
        ('[[checks]]\nname = "n"\nsummary = "x"', "checks[0].at_least", "expected equals"),
        (
            '[[checks]]\nname = "n"\nsummary = "flows[0].goodput_bps"\nat_least = 5',
            "checks[0].at_least = 5",
            "expected a rate with unit",
        ),
        (
            '[[checks]]\nname = "n"\nsummary = "flows[0].rtt_ms.p95"\nat_most = 5',
            "checks[0].at_most = 5",
            "expected a time with unit",
        ),
        (
            '[[checks]]\nname = "n"\nsummary = "flows[0].loss_ratio"\nat_most = "5ms"',
            'checks[0].at_most = "5ms"',
            "expected a number",
        ),
        (
            '[[checks]]\nname = "n"\ntable = "flow_series"\nstatistic = "max"\nat_most = 5',
            "checks[0].column",
            "a table needs it",
        ),
        (
            '[[checks]]\nname = "n"\nsummary = "x"\ntable = "flow_series"\nat_most = 5',
            "checks[0].table",
            "one of summary, table or value",
        ),
        (
            '[[checks]]\nname = "n"\nsummary = "x"\nvariants = ["v"]\nat_most = 5',
            "checks[0]",
            'there is no variant "v"',
        ),
        (
            '[[checks]]\nname = "n"\nsumary = "x"\nat_most = 5',
            "checks[0].sumary",
            'did you mean "summary"',
        ),
        (
            '[[variants]]\nname = "v"\nset = { "path.rate" = "5ms" }\n'
            '[[checks]]\nname = "n"\nsummary = "x"\nat_most = 5',
            "path.rate",
            "expected a rate",
        ),
        (
            '[[tests]]\nkind = "rust"\nfile = "f"\nname = "n"\nshows = "s"',
            "tests[0].kind",
            "expected",
        ),
    ],
)
def test_wrong_cases_are_refused_before_anything_runs(
    tmp_path: Path, text: str, key: str, expected: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ScenarioError) as caught:
        cases.run([str(path)])
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert key in line
    assert expected in line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('summary = "flows[0].god"\nat_most = 1', 'the summary has no "flows[0].god"'),
        ('summary = "flows[0].cc"\nat_most = 1', "is no number"),
        (
            'table = "flow_series"\ncolumn = "cwn"\nstatistic = "max"\nat_most = 1',
            'table flow_series has no column "cwn"',
        ),
    ],
)
def test_measuring_what_is_not_there_is_one_line(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ScenarioError, match=r"T-01\.toml: checks\[0\]: ") as caught:
        measured(tmp_path, text)
    assert expected in str(caught.value)


def test_names_paths_and_directories(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    assert cases.find(["LD-07"], home=HOME) == [HOME / "LD-07.toml"]
    assert cases.find([str(path)]) == [path]
    assert cases.find([str(tmp_path)]) == [path]
    assert cases.find(home=HOME) == FILES
    with pytest.raises(UsageError, match='did you mean "ld-07"'):
        cases.find(["LD-7"], home=HOME)


def test_listing_names_the_reports(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["list", "cases", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == [path.stem for path in FILES]
    # An issue, a merge request, a change of the kernel, or a case of a draft.
    assert all(re.search(r"#|!\d|Linux|draft-", row["summary"]) for row in rows)


def test_references_must_name_a_test_that_runs(tmp_path: Path) -> None:
    (tmp_path / "t.rs").write_text(
        "#[test]\nfn runs() {}\n\n#[test]\n#[ignore]\nfn ignored() {}\n\nfn helper() {}\n\n"
        "    /// Doc.\n    #[test]\n    fn documented(x in 0..1) {}\n"
    )
    (tmp_path / "t.py").write_text("def test_here():\n    pass\n")

    def exists(kind: Any, file: str, name: str) -> bool:
        return TestReference(kind=kind, file=file, name=name, shows="s").exists(tmp_path)

    assert exists("cargo-test", "t.rs", "runs")
    assert exists("cargo-test", "t.rs", "documented")
    assert exists("pytest", "t.py", "test_here")
    assert not exists("cargo-test", "t.rs", "ignored")
    assert not exists("cargo-test", "t.rs", "helper")
    assert not exists("cargo-test", "t.rs", "run")
    assert not exists("pytest", "t.py", "test_there")
    assert not exists("pytest", "missing.py", "test_here")
