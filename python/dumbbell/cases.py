"""Public bug reports of the field, replayed as scenarios with checks.

A case is a TOML file (see docs/cases.md). Its row in the table passes if each of its checks holds
in each variant and seed it names, and each test it refers to exists.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from dumbbell._cases_model import Case, Check, TestReference, wrong
from dumbbell._errors import MissingExtraError, UsageError, suggest
from dumbbell._run import run as run_scenario

if TYPE_CHECKING:
    from dumbbell._cases_measure import Runs

_CHECKOUT = Path(__file__).parents[2]
_HOME = Path("tests") / "cases"


def directory() -> Path:
    """Where the cases are if nobody says: `tests/cases` here, or in the checkout dumbbell is in.

    Raises UsageError if there is none.
    """
    for root in (Path(), _CHECKOUT):
        if (root / _HOME).is_dir():
            return root / _HOME
    raise UsageError(f"{_HOME}: there is no such directory here; expected the path of a case")


def find(names: Sequence[str] | None = None, *, home: Path | None = None) -> list[Path]:
    """Files of the named cases (of all if None), in order. Raises UsageError.

    A name is that of a case in `home` or of a family of them (bbr for BBR-01, BBR-A01, ...), or the
    path of a case or of a directory of them.
    """
    if not names:
        return _files(directory() if home is None else home)
    found: list[Path] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            found += _files(path)
        elif path.suffix == ".toml":
            found.append(path)
        else:
            files = _files(directory() if home is None else home)
            known = {file.stem.lower(): file for file in files}
            family = [file for stem, file in known.items() if stem.startswith(f"{name.lower()}-")]
            if name.lower() in known:
                found.append(known[name.lower()])
            elif family:
                found += family
            else:
                raise UsageError(f'case "{name}": there is no such case{suggest(name, known)}')
    return found


def _files(home: Path) -> list[Path]:
    files = sorted(home.glob("*.toml"))
    if not files:
        raise UsageError(f"{home}: there is no case in this directory")
    return files


def listing(*, home: Path | None = None) -> list[dict[str, str]]:
    """Name and title of each case. Raises UsageError, ScenarioError."""
    return [
        {"name": case.name, "summary": f"{case.title} ({case.source})"}
        for case in map(Case.load, find(home=home))
    ]


def run(names: Sequence[str] | None = None, *, home: Path | None = None) -> list[dict[str, Any]]:
    """Run cases; a row for each: name, title, source, note, passed, detail, checks, tests.

    All are read before the first runs. Raises UsageError, ScenarioError.
    """
    return [run_case(case) for case in [Case.load(path) for path in find(names, home=home)]]


def run_case(case: Case) -> dict[str, Any]:
    """Run one case. Raises ScenarioError where it measures what is not there."""
    runs = []
    if case.scenarios:
        try:
            from dumbbell._cases_measure import Runs
        except ModuleNotFoundError:
            raise MissingExtraError("running cases", "plots") from None
        for offset in range(case.seeds):
            results = {
                name: run_scenario(scenario, seed=scenario.seed + offset)
                for name, scenario in case.scenarios.items()
            }
            runs.append(Runs(results))
    checks = []
    for i, check in enumerate(case.checks):
        for variant in check.variants or tuple(case.scenarios):
            try:
                checks.append(_judge(check, variant, runs))
            except ValueError as error:
                raise wrong(case, f"checks[{i}]", str(error)) from None
    tests = [_look_up(test, case.file) for test in case.tests]
    passed = all(row["passed"] for row in [*checks, *tests])
    return {
        "name": case.name,
        "title": case.title,
        "source": case.source,
        "note": " ".join(case.note.split()),
        "passed": passed,
        "detail": "; ".join(_details(checks, tests)),
        "checks": checks,
        "tests": tests,
    }


def _judge(check: Check, variant: str, runs: list[Runs]) -> dict[str, Any]:
    measured: float | str | None
    if check.reads is not None:
        assert check.summary is not None
        texts = [seed.read(check.summary, variant) for seed in runs]
        good = sum(text == check.reads for text in texts)
        measured, low, high = str(texts[0]), None, None
    else:
        values = [seed.measure(check, variant) for seed in runs]
        low, high = check.bounds()
        good = sum((low is None or v >= low) and (high is None or v <= high) for v in values)
        numbers = [v for v in values if math.isfinite(v)]
        measured = median(numbers) if numbers else None
    return {
        "name": check.name,
        "variant": variant,
        "measured": measured,
        "unit": check.unit,
        "at_least": low,
        "at_most": high,
        "reads": check.reads,
        "seeds": len(runs),
        "seeds_passed": good,
        "passed": good >= check.share * len(runs) - 1e-9,
    }


def _look_up(test: TestReference, file: Path) -> dict[str, Any]:
    # tests/cases/NAME.toml stands two directories below what test paths are relative to.
    roots = [*file.absolute().parents[2:3], _CHECKOUT]
    return {
        "kind": test.kind,
        "file": test.file,
        "name": test.name,
        "shows": test.shows,
        "passed": any(test.exists(root) for root in roots),
    }


def _details(checks: list[dict[str, Any]], tests: list[dict[str, Any]]) -> Iterator[str]:
    """What was measured, beside its bounds; what failed begins with FAIL."""
    for row in checks:
        variant = f"[{row['variant']}] " if row["variant"] else ""
        seeds = ""
        if row["seeds"] > 1:
            seeds = f", {row['seeds_passed']} of {row['seeds']} seeds"
        unit = f" {row['unit']}" if row["unit"] else ""
        yield (
            f"{'' if row['passed'] else 'FAIL '}{variant}{row['name']}: "
            f"{_written(row['measured'])}{unit} ({_bounds(row)}{seeds})"
        )
    for row in tests:
        found = "covered by test" if row["passed"] else "FAIL there is no test"
        yield f"{found} {row['name']} ({row['kind']})"


def _bounds(row: dict[str, Any]) -> str:
    low, high = row["at_least"], row["at_most"]
    if row["reads"] is not None:
        return f"= {row['reads']}"
    if low == high:
        return f"= {_written(low)}"
    parts = []
    if low is not None:
        parts.append(f"≥ {_written(low)}")
    if high is not None:
        parts.append(f"≤ {_written(high)}")
    return ", ".join(parts)


def _written(value: float | str | None) -> str:
    """A number with four digits, or all of those before the point."""
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:,.0f}".replace(",", "\u2009") if abs(value) >= 1e4 else f"{value:.4g}"
