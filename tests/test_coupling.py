"""Couplings in scenarios: what the engine is told, what is refused, and what comes of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dumbbell._core", reason="the engine is not built")

from dumbbell import ScenarioError
from dumbbell._cli import run_command
from dumbbell._plots_data import columns
from dumbbell._registry import builtin
from dumbbell._resolve import resolve
from dumbbell._run import run
from dumbbell._scenario import Scenario


def scenario(coupling: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Three RAP flows "rap-1" to "rap-3" and one of TCP."""
    return {
        "duration": "10s",
        "path": {"rate": "10Mbit", "rtt": "50ms", "queue": {"kind": "fifo", "limit": "62p"}},
        "flows": [{"transport": "rap", "count": 3}, {"id": "bulk", "cc": "reno"}],
        "coupling": {"media": {"kind": "fse", "flows": ["rap"], **coupling}},
        **more,
    }


def resolved(coupling: dict[str, Any]) -> dict[str, Any]:
    [found] = resolve(Scenario.from_dict(scenario(coupling), file="s.toml"))["coupling"]
    return dict(found)


def test_the_engine_is_told_indexes_and_numbers() -> None:
    config = resolved(
        {
            "options": {"algorithm": "active", "timer_rtts": 3},
            "priorities": {"rap": 2, "rap-3": 0.5},
            "desired": {"rap-2": "1.5Mbit"},
            "groups": {"rap-3": 1},
            "changes": [
                {"at": "8s", "flow": "rap-1", "desired": "all", "coupled": False},
                {"at": "2s", "flow": "rap", "priority": 1},
                {"at": "4s", "flow": "rap-2", "group": 1},
            ],
        }
    )
    assert config == {
        "id": "media",
        "kind": "fse",
        "options": {"algorithm": "active", "timer_rtts": 3.0},
        "members": [
            {"flow": 0, "priority": 2},
            {"flow": 1, "priority": 2, "desired_bps": 1_500_000},
            {"flow": 2, "priority": 0.5, "group": 1},
        ],
        "changes": [
            *({"at_ns": 2 * 10**9, "priority": 1, "member": member} for member in range(3)),
            {"at_ns": 4 * 10**9, "group": 1, "member": 1},
            {"at_ns": 8 * 10**9, "desired_bps": 0, "coupled": False, "member": 0},
        ],
    }


def test_groups_that_are_found() -> None:
    detection = {"interval": "100ms", "c_s": -0.01}
    config = resolved({"groups": "sbd", "detection": detection})
    assert config["detect"] == {"interval": 100_000_000, "c_s": -0.01}
    assert "detect" not in resolved({})
    names = [param.name for param in builtin().detectors["sbd"].params]
    assert {"n", "m", "f", "c_h", "p_f", "p_mad", "p_s", "p_d", "p_v", "p_l"} < set(names)


@pytest.mark.parametrize(
    ("coupling", "message"),
    [
        ({"kind": "fze"}, 'coupling.media.kind = "fze": expected the name of a coupling; did you '
         'mean "fse"?'),
        ({"flows": ["rip"]}, 'coupling.media.flows[0] = "rip": expected the id of a flow'),
        ({"flows": ["rap", "rap-2"]}, 'coupling.media.flows[1] = "rap-2": '
         "coupling.media.flows[0] has rap-2 too"),
        ({"flows": []}, "coupling.media.flows = []: expected at least one item"),
        ({"priorities": {"bulk": 1}}, 'coupling.media.priorities.bulk = "bulk": expected the id of '
         "a flow; there are rap-1, rap-2, rap-3"),
        ({"priorities": {"rap": 0}}, "coupling.media.priorities.rap = 0: expected more than 0"),
        ({"desired": {"rap": 5}}, "coupling.media.desired.rap = 5: expected a rate"),
        ({"options": {"algorithm": "x"}}, 'coupling.media.options.algorithm = "x": expected '
         "one of active, conservative, passive"),
        ({"detection": {"n": 3}}, 'coupling.media.detection: only with groups = "sbd"'),
        ({"groups": "sbd", "detection": {"c_x": 3}}, "coupling.media.detection.c_x"),
        ({"changes": [{"at": "1s", "flow": "rap"}]}, "coupling.media.changes[0]: missing; expected "
         "priority, desired, group or coupled"),
        ({"groups": "sbd", "changes": [{"at": "1s", "flow": "rap", "group": 1}]},
         "coupling.media.changes[0].group = 1: the groups are found by detection"),
    ],
)  # fmt: skip
def test_one_line_names_file_key_and_value(coupling: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        resolved(coupling)
    line = str(caught.value)
    assert line.startswith(f"s.toml: {message}")
    assert "\n" not in line


def test_a_flow_is_in_one_coupling() -> None:
    given = scenario({})
    given["coupling"]["other"] = {"kind": "observe", "flows": ["rap-2"]}
    with pytest.raises(ScenarioError, match=r"coupling.other.flows\[0\] = .*: it is in coupling"):
        resolve(Scenario.from_dict(given))


def test_flows_that_cannot_take_part() -> None:
    with pytest.raises(ScenarioError, match="expected a transport whose rate can be set"):
        run(scenario({"flows": ["bulk"]}))


def test_rates_follow_priorities_and_hold_to_the_sum() -> None:
    """RFC 8699 section 5.3: each has its priority's part of the sum, at all times."""
    result = run(scenario({"priorities": {"rap-1": 3}}, duration="20s"))
    table = columns(result, "controller_series")
    late = (table["t"] > 5) & (table["t"] < 20)

    def values(flow: str, name: str) -> Any:
        return table["value"][late & (table["flow"] == flow) & (table["name"] == name)]

    total = values("rap-1", "fse_sum")
    assert len(total) > 100
    for flow, part in (("rap-1", 3 / 5), ("rap-2", 1 / 5), ("rap-3", 1 / 5)):
        assert values(flow, "fse_rate") == pytest.approx(part * total, rel=1e-9)
    rates = np.sum([values(f"rap-{i}", "fse_rate") for i in (1, 2, 3)], axis=0)
    assert np.all(rates <= total * (1 + 1e-9))
    assert not len(values("bulk", "fse_rate"))


def test_an_ensemble_is_as_aggressive_as_one_connection() -> None:
    """Eggert, Heidemann, Touch 2000: whatever their number, connections of an ensemble have one
    connection's goodput. Four runs of some 120 loss events each differ by 2 % (standard error)."""

    def goodput(flows: int) -> float:
        path = {"rate": "200Mbit", "rtt": "100ms", "loss": 0.001,
                "queue": {"kind": "fifo", "limit": "10000p"}}  # fmt: skip
        return sum(
            flow["goodput_bps"]
            for seed in range(4)
            for flow in run(
                {
                    "duration": "300s",
                    "warmup": "20s",
                    "seed": seed,
                    "path": path,
                    "flows": [{"id": "host", "cc": "reno", "ack_every": 1, "count": flows}],
                    "coupling": {"host": {"kind": "e-tcp", "flows": ["host"]}},
                }
            ).summary["flows"]
        )

    one = goodput(1)
    assert goodput(2) == pytest.approx(one, rel=0.06)
    assert goodput(8) == pytest.approx(one, rel=0.06)


def test_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["list", "couplings", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert {"fse", "observe", "sbd"} < set(listed)
    assert listed["fse"]["source"] == "RFC 8699"
    assert all(entry["source"] and entry["summary"] for entry in listed.values())
    assert run_command(["list", "couplings", "fse"]) == 0
    assert "cap_at_desired" in capsys.readouterr().out
