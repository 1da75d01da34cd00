"""The examples in the documentation run, and print what the page says.

In each page, in order: a `toml` or `python` block whose first line is a comment with a file name
becomes that file (a scenario or study is also validated); other `python` blocks run in the page's
namespace; in a `console` block, what follows `$ ` runs in a shell, and its output must match what
follows, `...` standing for anything. Blocks of other languages are not run.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sybil import Example, Sybil
from sybil.parsers.myst import CodeBlockParser

from dumbbell import Scenario
from dumbbell.studies import Study

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FILE_NAME = re.compile(r"# ([\w-]+\.(?:toml|py))\n")


def write_file(example: Example) -> str | None:
    """Write a block that names a file, and return the name."""
    match = FILE_NAME.match(example.parsed)
    if match is None:
        return None
    Path(match[1]).write_text(example.parsed, encoding="utf-8")
    return match[1]


def run_toml(example: Example) -> None:
    if name := write_file(example):
        if "[factors" in example.parsed:
            Study.load(name).runs()
        else:
            Scenario.load(name)


def run_python(example: Example) -> None:
    if write_file(example) is None:
        code = "\n" * (example.line + example.parsed.line_offset) + example.parsed
        exec(compile(code, example.path, "exec"), example.namespace)


def run_console(example: Example) -> None:
    for part in re.split(r"^\$ ", example.parsed, flags=re.M)[1:]:
        command, _, wanted = part.partition("\n")
        bin_directory = str(Path(sys.executable).parent)
        path = os.pathsep.join([bin_directory, os.environ["PATH"]])
        done = subprocess.run(
            command,
            shell=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": path, "COLUMNS": "140"},
            timeout=300,
            check=False,
        )
        got = done.stdout + done.stderr
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if wanted.strip() and not doctest.OutputChecker().check_output(wanted, got, flags):
            pytest.fail(f"{example.path}:{example.line}: {command}\nwanted:\n{wanted}\ngot:\n{got}")
        if not wanted.strip():
            assert done.returncode == 0, f"{command}: {got}"


PARSERS = [
    CodeBlockParser(language="toml", evaluator=run_toml),
    CodeBlockParser(language="python", evaluator=run_python),
    CodeBlockParser(language="console", evaluator=run_console),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for example in Sybil(parsers=PARSERS).parse(page).examples():
        example.evaluate()
