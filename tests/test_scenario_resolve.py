"""From a scenario to the engine's numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dumbbell._errors import ScenarioError
from dumbbell._registry import Registry
from dumbbell._resolve import resolve
from dumbbell._scenario import Scenario

HOME = """
duration = "60s"
warmup = "10s"

[path]
rate = "50Mbit"
rtt = "40ms"
queue = { kind = "fifo", limit = "1bdp" }

[[flows]]
cc = "cubic"

[[flows]]
cc = "bbr"
start = "10s"

[[probes]]
kind = "ping"
interval = "20ms"
"""


def config(text: str, registry: Registry, directory: Path | None = None) -> dict[str, Any]:
    scenario = Scenario.loads(text)
    if directory is not None:
        scenario = Scenario.from_dict(scenario.to_dict(), directory=directory)
    resolved = resolve(scenario, registry)
    return json.loads(json.dumps(resolved))  # type: ignore[no-any-return]


def test_home_link(registry: Registry) -> None:
    result = config(HOME, registry)
    assert result["duration_ns"] == 60 * 10**9
    assert result["warmup_ns"] == 10 * 10**9
    (link,) = result["links"]
    assert link["id"] == "bottleneck"
    assert link["capacity"] == {"kind": "constant", "bps": 50_000_000}
    assert link["delay_ns"] == 0
    # The kernel's own reference runs at 50 Mbit/s and 40 ms use 165 packets for one BDP.
    assert link["queue"] == {"kind": "fifo", "params": {"limit": 165}}
    assert link["framing"] == {"overhead": 14}
    cubic, bbr = result["flows"]
    assert (cubic["id"], bbr["id"]) == ("cubic-1", "bbr-1")
    assert (cubic["route"], cubic["reverse_route"]) == ([0], [])
    assert cubic["delay_ns"] == cubic["reverse_delay_ns"] == 20_000_000
    assert (bbr["start_ns"], bbr["stop_ns"]) == (10 * 10**9, 60 * 10**9)
    (probe,) = result["probes"]
    assert (probe["id"], probe["kind"], probe["interval_ns"]) == ("ping-1", "ping", 20_000_000)


@pytest.mark.parametrize(
    ("limit", "params"),
    [
        ("0.25bdp", {"limit": 41}),  # 165.13 / 4 = 41.28
        ("4bdp", {"limit": 661}),  # 660.5 rounds up
        ("0.001bdp", {"limit": 2}),
        ("333p", {"limit": 333}),
        ("64KiB", {"limit_bytes": 65536}),
    ],
)
def test_limits(limit: str, params: dict[str, int], registry: Registry) -> None:
    result = config(HOME.replace("1bdp", limit), registry)
    assert result["links"][0]["queue"]["params"] == params


def test_count_expands_to_numbered_flows(registry: Registry) -> None:
    text = HOME.replace('cc = "cubic"', 'cc = "cubic"\ncount = 3\nstagger = "100ms"')
    text = text.replace('cc = "bbr"', 'cc = "cubic"\nid = "cubic-2"')
    flows = config(text, registry)["flows"]
    assert [f["id"] for f in flows] == ["cubic-1", "cubic-3", "cubic-4", "cubic-2"]
    assert [f["start_ns"] for f in flows[:3]] == [0, 100_000_000, 200_000_000]


def test_flows_have_their_own_rtt(registry: Registry) -> None:
    text = HOME.replace('start = "10s"', 'rtt = "100ms"')
    _, flow = config(text, registry)["flows"]
    assert flow["delay_ns"] + flow["reverse_delay_ns"] == 100_000_000


def test_reverse_link(registry: Registry) -> None:
    text = HOME + '\n[path.reverse]\nrate = "5Mbit"\ndelay = "30ms"\nloss = 0.01\n'
    result = config(text, registry)
    back = result["links"][1]
    assert back["id"] == "reverse"
    assert back["capacity"] == {"kind": "constant", "bps": 5_000_000}
    assert back["impairments"]["loss"] == {"kind": "bernoulli", "p": 0.01}
    flow = result["flows"][0]
    assert flow["reverse_route"] == [1]
    assert (flow["delay_ns"], flow["reverse_delay_ns"]) == (10_000_000, 30_000_000)


def test_rtt_changes_move_the_links_delay(registry: Registry) -> None:
    text = HOME.replace(
        'rtt = "40ms"',
        'rtt = "40ms"\nchanges = [{ at = "5s", rtt = "10ms" }, { at = "9s", rtt = "100ms" }]',
    )
    result = config(text, registry)
    (link,) = result["links"]
    flow = result["flows"][0]
    beyond = flow["delay_ns"] + flow["reverse_delay_ns"]
    rtts = [link["delay_ns"] + beyond, *(c["delay_ns"] + beyond for c in link["changes"])]
    assert rtts == [40_000_000, 10_000_000, 100_000_000]


def test_trace(tmp_path: Path, registry: Registry) -> None:
    # 1000 opportunities of 1504 bytes a second: 12.032 Mbit/s; at 100 ms 99.3 frames of 1514.
    (tmp_path / "a.down").write_text("".join(f"{ms}\n" for ms in range(1, 1001)))
    text = HOME.replace('rate = "50Mbit"\nrtt = "40ms"', 'trace = "a.down"\nrtt = "100ms"')
    (link,) = config(text, registry, tmp_path)["links"]
    assert link["capacity"]["kind"] == "trace"
    assert link["capacity"]["mtu"] == 1504
    assert len(link["capacity"]["ms"]) == 1000
    assert link["framing"] == {"overhead": 0}
    assert link["queue"]["params"]["limit"] == 99


@pytest.mark.parametrize(
    ("preset", "overhead", "mpu", "cells"),
    [
        ("none", 0, 0, "none"),
        ("ethernet", 38, 84, "none"),
        ("docsis", 18, 64, "none"),
        ("pppoe-ptm", 30, 0, "ptm"),
        ("bridged-ptm", 22, 0, "ptm"),
        ("conservative", 48, 0, "atm"),
    ],
)
def test_overhead_presets_are_those_of_cake(
    preset: str, overhead: int, mpu: int, cells: str, registry: Registry
) -> None:
    text = HOME.replace("[path]", f'[path]\noverhead = "{preset}"')
    assert config(text, registry)["links"][0]["framing"] == {
        "overhead": overhead,
        "mpu": mpu,
        "cells": cells,
    }


def test_parameters_become_canonical(registry: Registry) -> None:
    text = HOME.replace(
        'cc = "bbr"', 'cc = "ledbat"\nparams = { target = "60ms", cap = 8 }'
    ).replace('kind = "fifo", limit = "1bdp"', 'kind = "codel", target = "10ms", ecn = true')
    result = config(text, registry)
    assert result["links"][0]["queue"]["params"] == {"target": 10_000_000, "ecn": True}
    assert result["flows"][1]["transport"]["cc"] == {
        "kind": "ledbat",
        "params": {"target": 60_000_000, "cap": 8},
    }


def test_traffic_laws_in_seconds_and_bytes(registry: Registry) -> None:
    traffic = """
[[flows]]
traffic.kind = "poisson"
traffic.load = "8Mbit"
traffic.size = { kind = "pareto", mean = "100kB", shape = 1.3, max = "10MB" }
[[flows]]
traffic = { kind = "onoff", on = { kind = "exponential", mean = "400ms" }, off = "0.6s" }
[[flows]]
transport = "udp"
traffic = { kind = "rate", rate = "1Mbit", chunk = "1200B" }
[[flows]]
size = "1MB"
rwnd = "64KiB"
"""
    poisson, onoff, udp, size = config(HOME + traffic, registry)["flows"][2:]
    # 8 Mbit/s in transfers of 100 kB: 10 a second.
    assert poisson["traffic"]["rate_hz"] == pytest.approx(10.0)
    assert poisson["traffic"]["size"] == {
        "kind": "pareto",
        "mean": 100_000.0,
        "shape": 1.3,
        "max": 10_000_000.0,
    }
    assert onoff["traffic"]["on"] == {"kind": "exponential", "mean": 0.4}
    assert onoff["traffic"]["off"] == {"kind": "constant", "value": 0.6}
    assert udp["id"] == "udp-1"
    assert udp["transport"] == {"kind": "udp", "payload_bytes": 1200}
    assert udp["traffic"] == {"kind": "constant_rate", "bps": 1_000_000, "chunk_bytes": 1200}
    assert size["traffic"] == {"kind": "size", "bytes": 1_000_000}
    assert size["transport"]["rwnd"] == {"kind": "fixed", "bytes": 65536}


DUMBBELL = """
duration = "10s"
[[topology.links]]
from = "s"
to = "r1"
rate = "1Gbit"
delay = "1ms"
[[topology.links]]
from = "r1"
to = "r2"
rate = "50Mbit"
delay = "18ms"
queue = { kind = "fifo", limit = "1bdp" }
[[topology.links]]
from = "r2"
to = "d"
rate = "1Gbit"
delay = "1ms"
[[topology.links]]
from = "r1"
to = "d"
rate = "1Mbit"
delay = "50ms"
[[flows]]
from = "s"
to = "d"
"""


def test_topology_routes_and_bdp(registry: Registry) -> None:
    result = config(DUMBBELL, registry)
    names = [link["id"] for link in result["links"]]
    (flow,) = result["flows"]
    assert [names[i] for i in flow["route"]] == ["s->r1", "r1->r2", "r2->d"]
    assert [names[i] for i in flow["reverse_route"]] == ["d->r2", "r2->r1", "r1->s"]
    assert flow["delay_ns"] == flow["reverse_delay_ns"] == 0
    # 50 Mbit/s and 2 x 20 ms, as on the path.
    assert result["links"][names.index("r1->r2")]["queue"]["params"] == {"limit": 165}


def test_topology_flow_with_its_own_rtt(registry: Registry) -> None:
    (flow,) = config(DUMBBELL + 'rtt = "100ms"\n', registry)["flows"]
    assert flow["delay_ns"] + flow["reverse_delay_ns"] == 60_000_000


def test_memory_is_checked_before_the_run(registry: Registry) -> None:
    scenario = Scenario.loads(HOME.replace('cc = "cubic"', 'cc = "cubic"\ncount = 100000'))
    with pytest.raises(ScenarioError, match=r"flows: needs about [\d.]+ GiB of memory"):
        resolve(scenario, registry, available_bytes=2**28)
    resolve(Scenario.loads(HOME), registry, available_bytes=2**28)


def test_what_was_given_reads_back(registry: Registry) -> None:
    for text in (HOME, DUMBBELL):
        scenario = Scenario.loads(text)
        again = Scenario.from_dict(scenario.to_dict())
        assert again.to_dict() == scenario.to_dict()
        assert resolve(again, registry) == resolve(scenario, registry)


def test_json_schema_names_every_table() -> None:
    schema = Scenario.model_json_schema()
    assert {"duration", "path", "topology", "flows", "probes"} <= schema["properties"].keys()
    assert schema["$defs"]["Flow"]["properties"]["mss"]["description"].startswith("Payload bytes")


def param(name: str, unit: str, default: Any = None) -> dict[str, Any]:
    return {"name": name, "unit": unit, "default": default, "doc": ""}


CODEL = {"name": "codel", "params": [param("target", "time", 5_000_000)]}
CLASSFUL = {
    "name": "drr",
    "params": [param("queue", "queue"), param("classes", "classes", [])],
    "classes": [
        param("dscp", "dscps", []),
        param("quantum", "bytes", 1514),
        param("queue", "queue", {"kind": "codel", "params": {}}),
    ],
}


@pytest.fixture
def nesting() -> Registry:
    queues = [{"summary": "", "source": "", **queue} for queue in (CODEL, CLASSFUL)]
    return Registry.from_json("[]", json.dumps(queues))


def test_queues_nest(nesting: Registry) -> None:
    classes = [
        {"dscp": ["ef", 44], "quantum": "3000B", "queue": {"kind": "codel", "target": "1ms"}},
        {"dscp": "af41", "queue": "codel"},
        {},
    ]
    queue = nesting.canonical_queue("drr", {"queue": "codel", "classes": classes}, key="q")
    assert queue == {
        "kind": "drr",
        "params": {
            "queue": {"kind": "codel", "params": {}},
            "classes": [
                {
                    "dscp": [46, 44],
                    "quantum": 3000,
                    "queue": {"kind": "codel", "params": {"target": 1_000_000}},
                },
                {"dscp": [34], "queue": {"kind": "codel", "params": {}}},
                {},
            ],
        },
    }


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"queue": {"target": "1ms"}}, 'q.queue: expected a queue, such as { kind = "codel" }'),
        ({"queue": {"kind": "codle"}}, "q.queue.kind"),
        ({"classes": "codel"}, "q.classes"),
        ({"classes": [{}, {"quantum": "3"}]}, "q.classes[1].quantum"),
        ({"classes": [{"dscp": ["ef", "eff"]}]}, "q.classes[0].dscp"),
        ({"classes": [{"queue": {"kind": "codel", "target": 3}}]}, "q.classes[0].queue.target"),
        ({"classes": [{"weight": 3}]}, "q.classes[0].weight"),
    ],
)
def test_wrong_nested_queues_name_their_key(
    params: dict[str, Any], message: str, nesting: Registry
) -> None:
    with pytest.raises(ScenarioError) as error:
        nesting.canonical_queue("drr", params, key="q")
    key, _, expected = message.partition(": ")
    assert error.value.key == key
    assert expected in str(error.value)


def test_hosts_are_numbered_by_name(registry: Registry) -> None:
    text = """
    duration = "1s"
    path = { rate = "10Mbit", rtt = "10ms" }
    flows = [
      { cc = "cubic", host = "heavy", count = 2 },
      { cc = "cubic" },
      { cc = "cubic", host = "light", peer = "heavy" },
      { cc = "cubic", count = 2 },
    ]
    """
    flows = config(text, registry)["flows"]
    sources = [flow["source_host"] for flow in flows]
    assert sources[0] == sources[1]
    assert len(set(sources)) == 5
    assert flows[3]["destination_host"] == sources[0]


def test_names_of_dscps(registry: Registry) -> None:
    """RFC 2597 section 6, RFC 3246, RFC 2474 section 4.2.2.2, RFC 5865, RFC 8622."""
    expected = {"af11": 10, "af43": 38, "ef": 46, "cs6": 48, "va": 44, "le": 1, "EF": 46}
    for name, number in expected.items():
        text = HOME.replace('cc = "bbr"', f'cc = "bbr"\ndscp = "{name}"')
        assert config(text, registry)["flows"][1]["dscp"] == number
    with pytest.raises(ScenarioError, match="expected a DSCP from 0 to 63 or its name"):
        config(HOME.replace('cc = "bbr"', 'cc = "bbr"\ndscp = "ef1"'), registry)
