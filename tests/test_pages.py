"""The pages of controllers, queues and transports: all there, and what they name exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dumbbell import _pages
from dumbbell._cli import run_command
from dumbbell._registry import builtin

ROOT = Path(__file__).parent.parent
KNOWN = [
    *((_pages.CONTROLLERS, name) for name in {**builtin().controllers, **builtin().media}),
    *((_pages.QUEUES, name) for name in builtin().queues),
    *((_pages.TRANSPORTS, name) for name in builtin().transports),
]
KINDS = (_pages.CONTROLLERS, _pages.QUEUES, _pages.TRANSPORTS)
WRITTEN = [(pages, name) for pages in KINDS for name in pages.names()]


def label(value: object) -> str:
    return value.kind if isinstance(value, _pages.Pages) else str(value)


@pytest.mark.parametrize(("pages", "name"), KNOWN, ids=label)
def test_each_has_a_page(pages: _pages.Pages, name: str) -> None:
    sections = pages.sections(name)
    assert tuple(sections) == _pages.HEADINGS
    assert all(sections.values())
    # Three sentences: none of them a list.
    assert not re.search(r"^[|-]", sections["Idea"], flags=re.M)


def test_each_page_belongs_to_one() -> None:
    assert set(WRITTEN) <= set(KNOWN)


@pytest.mark.parametrize(("pages", "name"), WRITTEN, ids=label)
def test_rules_name_code_and_tests_that_exist(pages: _pages.Pages, name: str) -> None:
    rules = pages.rules(name)
    assert rules
    for rule in rules:
        assert rule.rule
        assert rule.source
        for cell in (rule.code, rule.test):
            assert re.fullmatch(r"`[^`]+`(, `[^`]+`)*", cell), f"{rule.rule}: {cell}"
        assert len(rule.references()) == rule.code.count("::") + rule.test.count("::")
        for file, symbol in rule.references():
            path = ROOT / file
            assert path.is_file(), f"{rule.rule}: {file}"
            text = path.read_text(encoding="utf-8")
            defined = rf"\b(fn|def|const|struct|enum|type|trait|static|class)\s+{symbol}\b"
            assert re.search(defined, text), f"{rule.rule}: {file}::{symbol}"


def test_a_table_of_other_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "odd.md").write_text("## Rules\n\n| rule | code |\n| --- | --- |\n| a | b |\n")
    with pytest.raises(ValueError, match="odd: expected a table of rule, source, code, test"):
        _pages.Pages("controller", tmp_path).rules("odd")


def test_show_cc_prints_the_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert run_command(["show", "cc", "cubic"]) == 0
    text = capsys.readouterr().out
    for heading in (*_pages.HEADINGS, "Parameters"):
        assert heading in text
    assert "RFC 9438 section 4.7" in text
    assert "fast_convergence" in text
    assert max(map(len, text.splitlines())) <= 100


def test_show_queue_prints_the_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert run_command(["show", "queue", "codel"]) == 0
    text = capsys.readouterr().out
    for heading in (*_pages.HEADINGS, "Parameters"):
        assert heading in text
    assert "RFC 8289" in text
    assert "ce_threshold" in text


def test_show_cc_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["show", "cc", "reno", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["name"] == "reno"
    assert document["signals"] == ["loss", "ecn"]
    assert set(document["sections"]) == set(_pages.HEADINGS)
    assert {rule["test"].partition("::")[0] for rule in document["rules"]}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["show", "cc"], "show cc: expected the name of a controller"),
        (["show", "cc", "cubik"], 'did you mean "cubic"?'),
        (["show", "queue"], "show queue: expected the name of a queue"),
        (["show", "queue", "fq_cobel"], 'did you mean "fq_codel"?'),
        (["show", "preset:home", "cubic"], 'expected nothing after "preset:home"'),
    ],
)
def test_wrong_names_are_one_line(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(arguments) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
