"""The characterization of AQMs: which queues, what is measured, what is judged."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("dumbbell._core", reason="the engine is not built")
pytest.importorskip("matplotlib", reason="figures are an extra")

from dumbbell import run
from dumbbell._registry import builtin
from dumbbell.papers._rfc7928_cases import CASES, CONTENDERS, NOT_COMPARED
from dumbbell.papers._rfc7928_claims import GOODPUT, STATEMENTS, TOGETHER, USED, by_queue, judge
from dumbbell.papers.rfc7928 import measure

ALL = {case.name: case for case in CASES}


def test_every_queue_is_compared_or_is_no_aqm() -> None:
    assert not CONTENDERS.keys() & NOT_COMPARED.keys()
    assert set(builtin().queues) == CONTENDERS.keys() | NOT_COMPARED.keys()


def test_scenarios_are_the_rfcs() -> None:
    sections = {case.section for case in CASES}
    assert sections >= {"5.1.1", "5.1.2", "5.2", "5.3", "5.4", "6", "7", "9.1", "9.2", "4.5", "10"}
    assert sections >= {f"8.2.{n}" for n in range(2, 7)}
    # Section 6.2: the other round-trip times are from 5 to 560 ms.
    names = [case.name for case in CASES if case.section == "6"]
    assert {names[0], names[-1]} == {"RTTs of 100 and 5 ms", "RTTs of 100 and 560 ms"}
    assert len(ALL) == len(CASES)


def test_statements_are_about_scenarios_and_queues_that_exist() -> None:
    for statement in STATEMENTS:
        assert statement.kinds
        assert set(statement.cases) <= ALL.keys()
        assert set(statement.kinds) <= CONTENDERS.keys()


def test_measures_are_those_of_the_run() -> None:
    case = ALL["UDP beside Reno"]
    result = run(case.scenario("fifo", seed=1, quick=True))
    found = measure(case, result)
    # Constant bit rate of 7 Mbit/s passes tail drop nearly whole; Reno gets what is left of 9.56
    # Mbit/s of payload.
    assert found[GOODPUT] == pytest.approx(9.6, rel=0.03)
    assert found["reno over udp"] == pytest.approx(2.6 / 7, rel=0.15)
    assert found[USED] == pytest.approx(100, abs=2)
    assert found[TOGETHER] is None


def grid(aqm_delay: float) -> dict[str, dict[str, Any]]:
    """Every metric 1, but the AQM's delay."""
    measures = dict.fromkeys(measure_names(), 1.0)
    return {
        case.name: {
            "fifo": measures | {case.ratio_name: 0.5},
            "codel": measures | {"delay mean (ms)": aqm_delay, case.ratio_name: 0.5},
        }
        for case in CASES
    }


def measure_names() -> list[str]:
    case = ALL["one Reno flow"]
    return list(measure(case, run(case.scenario("fifo", seed=1, quick=True) | {"duration": "25s"})))


def test_the_worst_is_judged_and_named() -> None:
    values = grid(0.5)
    values["heavy congestion"]["codel"]["delay mean (ms)"] = 1.5
    row = next(row for row in judge(values) if row["what"].startswith("mean queueing delay"))
    assert row["verdict"] == "differs"
    assert row["ours"] == "1.50 (codel, heavy congestion)"
    matrix = next(
        row for row in by_queue(values) if row["statement"].startswith("mean queueing delay")
    )
    assert matrix["codel"] == 1.5
    assert matrix["fifo"] == 1.0
