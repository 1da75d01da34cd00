"""What a real Linux kernel measured, against what we measure: docs/validation.md as tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumbbell import _validation as validation
from dumbbell._validation import Cell, Criterion, Row, Sample

DIRECTORY = Path(__file__).parent / "reference"
REFERENCE = validation.load_reference(DIRECTORY / "kernel.json.gz")
KNOWN = validation.load_known_misses(DIRECTORY / "known-misses.toml")
JUDGED = [
    (cell, measure)
    for cell, runs in REFERENCE.cells.items()
    for measure, _ in validation.judged(runs[0].spec)
]

# All runs together take about three minutes of processor time, at the first test that needs them,
# and other tests may want the same cores.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="session")
def cells() -> dict[str, Cell]:
    return {cell.name: cell for cell in validation.compare(REFERENCE)}


def _marks(case: tuple[str, str]) -> list[pytest.MarkDecorator]:
    return [pytest.mark.xfail(reason=KNOWN[case], strict=True)] if case in KNOWN else []


@pytest.mark.parametrize(
    ("cell", "measure"),
    [pytest.param(*case, id="-".join(case), marks=_marks(case)) for case in JUDGED],
)
def test_agrees_with_linux(cells: dict[str, Cell], cell: str, measure: str) -> None:
    (row,) = (row for row in cells[cell].rows if row.measure == measure)
    assert row.within, (
        f"Linux {row.kernel.mean:.4g} ± {row.kernel.deviation:.2g}, "
        f"dumbbell {row.ours.mean:.4g} ± {row.ours.deviation:.2g} ({row.error:+.1%})"
    )


def test_known_misses_are_judged() -> None:
    assert set(JUDGED) >= KNOWN.keys()


@pytest.mark.parametrize(
    ("criterion", "linux", "ours", "within"),
    [
        ("goodput", 40.0, 38.0, True),
        ("goodput", 40.0, 37.9, False),
        ("share", 10.0, 11.0, True),
        ("share", 10.0, 11.1, False),
        ("delay", 1.0, 3.0, True),
        ("delay", 1.0, 3.1, False),
        ("delay", 40.0, 46.0, True),
        ("delay", 40.0, 47.0, False),
        ("count", 0.0, 9.0, True),
        ("count", 0.0, 10.0, False),
        ("count", 100.0, 150.0, True),
        ("count", 151.0, 100.0, False),
    ],
)
def test_tolerances(criterion: Criterion, linux: float, ours: float, within: bool) -> None:
    row = Row("cell", "measure", criterion, Sample.of([linux]), Sample.of([ours]))
    assert row.within is within
