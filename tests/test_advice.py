"""Warnings about scenarios that run and mislead."""

from __future__ import annotations

from typing import Any

import pytest

import dumbbell
from dumbbell._advice import marks
from dumbbell._cli import run_command
from dumbbell._registry import builtin
from dumbbell._run import prepare


def scenario(queue: Any, rate: str = "10Mbit", **flow: Any) -> dict[str, Any]:
    return {
        "duration": "4s",
        "path": {"rate": rate, "rtt": "20ms", "queue": queue},
        "flows": [{"cc": "cubic", **flow}],
    }


def test_a_sound_scenario_has_none() -> None:
    for queue, flow in (
        ("fifo", {}),
        ("codel", {}),
        ({"kind": "codel", "ecn": True}, {"ecn": True}),
        ("fq_codel", {"cc": "dctcp"}),
        ("fifo", {"cc": "dctcp", "ecn": False}),
    ):
        assert prepare(scenario(queue, **flow)).warnings == []


def test_target_below_the_time_of_a_packet() -> None:
    """1514 bytes take 12.1 ms at 1 Mbit/s; RFC 8289 section 4.4 wants the target above that."""
    (line,) = prepare(scenario("codel", rate="1Mbit")).warnings
    assert "target = 5ms of codel is less than the 12.1ms of one full packet at 1Mbit" in line
    assert prepare(scenario({"kind": "codel", "target": "13ms"}, rate="1Mbit")).warnings == []
    assert prepare(scenario("fq_codel", rate="1Mbit")).warnings != []


def test_priority_layers_without_priority() -> None:
    """PLT's low class is an aggressive flow wherever the queue does not serve it last."""
    (line,) = prepare(scenario("fifo", cc="reno", transport="plt")).warnings
    assert "plt-reno-1: no queue on its way serves its low class after the rest (fifo)" in line
    for queue, options in (("prio", {}), ("fifo", {"shutdown": "auto"})):
        flow: dict[str, Any] = {"cc": "reno", "transport": "plt", "options": options}
        assert prepare(scenario(queue, **flow)).warnings == []


def test_ecn_that_no_queue_answers() -> None:
    (line,) = prepare(scenario("fifo", cc="dctcp", count=3)).warnings
    assert line == "flow dctcp-1: dctcp uses ECN and no queue on its way marks (fifo)"
    (line,) = prepare(scenario("codel", ecn=True)).warnings
    assert "cubic uses ECN and no queue on its way marks (codel)" in line
    (line,) = prepare(scenario("fq_codel", cc="reno-sce")).warnings
    assert "reno-sce steers by SCE and no queue on its way sets it (fq_codel)" in line


def test_marks_that_the_controller_ignores() -> None:
    (line,) = prepare(scenario("fq_codel", cc="bbr", ecn=True)).warnings
    assert "bbr does not answer marks" in line


@pytest.mark.parametrize("name", list(builtin().queues))
def test_what_is_said_of_marking_is_true(name: str) -> None:
    """An ECN flow is marked in the run if and only if the queue is said to mark."""
    result = dumbbell.run(scenario(name, ecn=True, count=4))
    said = marks({"kind": name, "params": {}}, builtin())
    assert (result.summary["links"][0]["marks"] > 0) == said


def test_xcp_without_a_router() -> None:
    (line,) = prepare(scenario("fifo", cc="xcp")).warnings
    assert line == "flow xcp-1: xcp obeys routers and there is none on its way (fifo)"
    assert prepare(scenario("xcp", cc="xcp")).warnings == []


def test_warnings_are_printed_and_kept(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        'duration = "1s"\n[path]\nrate = "10Mbit"\nrtt = "20ms"\n[[flows]]\ncc = "dctcp"\n'
    )
    assert run_command(["run", str(file), "--quiet"]) == 0
    assert capsys.readouterr().err.count("dctcp uses ECN") == 1
    result = dumbbell.run(file)
    assert "dctcp uses ECN" in result.summary["warnings"][0]
