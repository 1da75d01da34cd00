"""Users in scenarios with a [path] or a [topology]."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest

from dumbbell._errors import ScenarioError
from dumbbell._resolve import resolve
from dumbbell._run import run
from dumbbell._scenario import Scenario

THINK = {"kind": "exponential", "mean": "1s"}


def users(**more: Any) -> dict[str, Any]:
    return {"kind": "users", "count": 20, "think": THINK, "files": "web", **more}


def on_path(flow: dict[str, Any], **more: Any) -> dict[str, Any]:
    path = {"rate": "50Mbit", "rtt": "40ms"}
    return {"duration": "10s", "path": path, "flows": [{"cc": "reno", **flow}], **more}


def test_users_of_a_path() -> None:
    """The whole base round-trip time is on their way; 100 packets of 1448 bytes on average."""
    config = resolve(Scenario.from_dict(on_path({"traffic": users()}, warmup="2s")))
    assert config["paths"] == [{"route": [[0, 40_000_000]], "reverse_route": []}]
    assert config["users"] == {
        "groups": ["reno"],
        "files": ["web"],
        "classes": ["receiver"],
        "periods": [
            {"name": "all", "from_ns": 0, "to_ns": 10 * 10**9},
            {"name": "measured", "from_ns": 2 * 10**9, "to_ns": 10 * 10**9},
        ],
        "interval_ns": 200_000_000,
        "series": False,
    }
    traffic = config["flows"][0]["traffic"]
    assert traffic["think"] == {"kind": "exponential", "mean": 1.0}
    assert traffic["files"] == [
        {
            "file": 0,
            "weight": 1.0,
            "size": {"kind": "pareto", "mean": 144_800.0, "shape": 1.5},
        }
    ]


def test_a_way_back_with_a_link() -> None:
    scenario = on_path({"traffic": users()})
    scenario["path"]["reverse"] = {"rate": "5Mbit", "delay": "15ms"}
    config = resolve(Scenario.from_dict(scenario))
    assert config["paths"] == [{"route": [[0, 25_000_000]], "reverse_route": [[1, 15_000_000]]}]


def test_several_destinations() -> None:
    """Each has a way of its own; a flow's own RTT (10 ms here, of which links have 2 and 4) is made
    up for at the ends."""
    flow = {
        "cc": "reno",
        "from": "h1",
        "to": ["h2", {"node": "h3", "weight": 3, "class": "far"}],
        "rtt": "10ms",
        "max_rate": "96Mbit",
        "syn_timeout": "3s",
        "syn_tries": 3,
        "traffic": users(group="office", patience="30s", starts=[{"share": 0.5, "at": 0}]),
    }
    config = resolve(
        Scenario.from_dict(
            {
                "duration": "1s",
                "topology": {
                    "links": [
                        {"from": "h1", "to": "hub", "delay": "500us", "rate": "1Gbit"},
                        {"from": "hub", "to": "h2", "delay": "500us", "rate": "1Gbit"},
                        {"from": "hub", "to": "h3", "delay": "1500us", "rate": "1Gbit"},
                    ]
                },
                "flows": [flow],
                "users": {"interval": "10ms", "series": True},
            }
        )
    )
    names = [link["id"] for link in config["links"]]
    assert [
        [names[hop[0] if isinstance(hop, list) else hop] for hop in p["route"]]
        for p in config["paths"]
    ] == [["h1->hub", "hub->h2"], ["h1->hub", "hub->h3"]]
    assert [path["route"][-1][1] for path in config["paths"]] == [4_000_000, 3_000_000]
    assert config["users"]["classes"] == ["h2", "far"]
    assert config["users"]["groups"] == ["office"]
    (made,) = config["flows"]
    assert [(d["weight"], d["class"]) for d in made["traffic"]["destinations"]] == [
        (1.0, 0),
        (3.0, 1),
    ]
    assert made["transport"]["max_rate_bps"] == 96_000_000
    assert (made["transport"]["syn_timeout_ns"], made["transport"]["syn_tries"]) == (3 * 10**9, 3)


def test_response_time_law() -> None:
    """Interactive response time law (Denning and Buzen 1978): users = throughput x (think +
    response time). 200 users who think a second, files of 20 packets at no load: from the SYN to
    the last byte at least 1.5 round trips of 40 ms; within three standard errors of some 4000
    cycles, 5 %."""
    size = {"kind": "constant", "value": "28960B"}
    traffic = users(count=200, files=[{"name": "page", "size": size}])
    result = run(on_path({"traffic": traffic}, duration="25s", warmup="5s"))
    rows = pyarrow.table(result.table("user_periods")).to_pylist()
    (row,) = (row for row in rows if row["period"] == "measured")
    throughput = row["completed"] / 20
    (transfers,) = (
        t for t in pyarrow.table(result.table("transfers")).to_pylist() if t["period"] == "measured"
    )
    assert transfers["bytes"] == 28_960 * transfers["count"]
    assert transfers["duration_s"] / transfers["count"] > 0.060
    response = 200 / throughput - 1.0
    assert response > 0.060
    assert row["thinking"] == pytest.approx(throughput * 1.0, rel=0.05)


def test_the_interface_limits_a_transfer() -> None:
    """1 MB at 8 Mbit/s of IP packets (1448 of 1500 bytes payload) takes more than a second, and the
    mean goodput is below 8 x 1448/1500 Mbit/s."""
    size = {"kind": "constant", "value": "1MB"}
    traffic = users(count=1, files=[{"name": "file", "size": size}])
    result = run(on_path({"traffic": traffic, "max_rate": "8Mbit"}, duration="20s"))
    (row,) = pyarrow.table(result.table("transfers")).to_pylist()
    goodput = row["bytes"] * 8 / row["duration_s"]
    assert 0.9 * 7.72e6 < goodput < 7.723e6


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (
            {"traffic": users(files="webb")},
            'flows[0].traffic.files = "webb": expected a list of files, or a mix of them; '
            'did you mean "web"?',
        ),
        (
            {"traffic": users(count=0)},
            "flows[0].traffic.count = 0: expected at least 1",
        ),
        (
            {"to": ["a", "b"]},
            'flows[0].to: only traffic of kind "users" has more than one destination',
        ),
        (
            {"traffic": users(starts=[{"share": 0.6, "at": 0}, {"share": 0.6, "at": "1s"}])},
            "flows[0].traffic.starts: expected shares whose sum is at most 1",
        ),
    ],
)
def test_errors(flow: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        Scenario.from_dict(on_path(flow))
    assert str(raised.value) == message


def test_round_trip() -> None:
    """What a scenario says of users survives being written out and read again."""
    first = Scenario.from_dict(on_path({"traffic": users(files="web-movies")}))
    assert resolve(Scenario.from_dict(first.to_dict())) == resolve(first)
