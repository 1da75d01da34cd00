"""What reaches a controller beyond ACKs and losses: ECN in all its modes, and what the way back
does to ACKs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dumbbell import _core
from dumbbell._errors import ScenarioError
from dumbbell._resolve import resolve
from dumbbell._scenario import Scenario

QUEUE = {"kind": "codel", "ecn": True, "target": "1ms"}


def scenario(flow: dict[str, Any], **path: Any) -> Scenario:
    return Scenario.from_dict(
        {
            "duration": "10s",
            "path": {"rate": "20Mbit", "rtt": "20ms", "queue": QUEUE, **path},
            "flows": [flow],
        }
    )


def summary(flow: dict[str, Any], **path: Any) -> dict[str, Any]:
    result = _core.run(json.dumps(resolve(scenario(flow, **path))))
    return dict(json.loads(result.summary_json()))


@pytest.mark.parametrize(
    ("flow", "mode"),
    [
        ({"cc": "cubic"}, "off"),
        ({"cc": "cubic", "ecn": False}, "off"),
        ({"cc": "cubic", "ecn": True}, "classic"),
        ({"cc": "cubic", "ecn": "auto"}, "classic"),
        ({"cc": "cubic", "ecn": "accurate"}, "accurate"),
        ({"cc": "cubic", "ecn": "accecn"}, "accurate"),
        ({"cc": "reno", "ecn": "dctcp"}, "ce-state"),
        ({"cc": "reno", "ecn": "l4s"}, "l4s"),
        ({"cc": "dctcp"}, "ce-state"),
        ({"cc": "dctcp", "ecn": "off"}, "off"),
        ({"cc": "dctcp", "ecn": "classic"}, "classic"),
        ({"cc": "prague"}, "l4s"),
        ({"cc": "reno-sce"}, "sce"),
    ],
)
def test_mode_is_what_the_flow_or_its_controller_asks_for(flow: dict[str, Any], mode: str) -> None:
    flows = summary(flow)["flows"]
    assert flows[0]["effective"]["ecn"] == mode
    assert (flows[0]["mark_ratio"] > 0) == (mode != "off")
    assert flows[0]["ecn_failed"] == 0


@pytest.mark.parametrize(
    ("fault", "cc", "failed"),
    [
        ("bleach", "prague", 1),
        ("ect1-to-ect0", "prague", 1),
        ("ect0-to-ect1", "prague", 0),
        ("ce", "prague", 1),
        ("bleach", "dctcp", 0),
    ],
)
def test_broken_paths_are_found_out_with_counters(fault: str, cc: str, failed: int) -> None:
    flow = summary({"cc": cc}, ecn=fault)["flows"][0]
    assert flow["ecn_failed"] == failed
    if failed:
        # Data is Not-ECT after the first round trips: the queue drops.
        assert flow["dropped_packets"] > 0


def test_aggregated_acks_come_in_batches() -> None:
    flow = {"cc": "cubic", "ack_every": 1, "traffic": {"kind": "rate", "rate": "2.1Mbit"}}
    plain = summary(flow)
    batched = summary(flow, ack_aggregation="30ms")
    # An ACK waits from 0 to 30 ms.
    more = batched["flows"][0]["rtt_ms"]["mean"] - plain["flows"][0]["rtt_ms"]["mean"]
    assert more == pytest.approx(15, abs=1)
    assert batched["links"][1]["acks_thinned"] == 0


def test_thinning_leaves_one_ack_of_each_batch() -> None:
    flow = {"cc": "cubic", "ack_every": 1}
    # Of the ACKs of 10 ms one stays, but for those with SACK and those beside them.
    thinned = summary(flow, ack_aggregation="10ms", ack_thinning=1000, queue="fifo")
    links = {link["id"]: link for link in thinned["links"]}
    offered = links["reverse"]["packets"]
    left = offered - links["reverse"]["acks_thinned"]
    assert 1000 <= left < 0.2 * offered
    assert thinned["flows"][0]["timeouts"] == 0
    by_four = summary(flow, ack_aggregation="10ms", ack_thinning=4, queue="fifo")
    links = {link["id"]: link for link in by_four["links"]}
    assert 0.6 < links["reverse"]["acks_thinned"] / links["reverse"]["packets"] < 0.75


def test_thinning_keeps_marks_exact() -> None:
    """Prague settles at the same marking whether or not most ACKs are left out."""
    plain = summary({"cc": "prague"}, ack_aggregation="2ms")["flows"][0]
    thinned = summary({"cc": "prague"}, ack_aggregation="2ms", ack_thinning=100)["flows"][0]
    assert plain["mark_ratio"] > 0.005
    assert thinned["mark_ratio"] == pytest.approx(plain["mark_ratio"], rel=0.3)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ({"ack_thinning": 4}, "path.ack_thinning = 4: needs ack_aggregation"),
        ({"ecn": "blech"}, 'path.ecn = "blech": expected "bleach"'),
        (
            {"ack_aggregation": "1ms", "reverse": {"ack_aggregation": "1ms"}},
            "path.reverse.ack_aggregation = ",
        ),
        (
            {
                "reverse": {
                    "ack_aggregation": "1ms",
                    "ack_thinning": 2,
                    "jitter": {"amount": "1ms", "reorder": True},
                }
            },
            "path.reverse.ack_thinning = 2: does not go with reordering",
        ),
    ],
)
def test_impossible_ways_back_are_refused(path: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        resolve(scenario({}, **path))
    assert str(caught.value).startswith(message)


def test_misspelt_modes_are_refused_with_the_nearest() -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario({"ecn": "acurate"})
    expected = 'expected true or false, or a mode; did you mean "accurate"?'
    assert str(caught.value) == f'flows[0].ecn = "acurate": {expected}'
