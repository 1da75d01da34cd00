"""Networks by name: counts and distances that graph theory or a paper gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import networkx
import pytest

from dumbbell._errors import ScenarioError
from dumbbell._resolve import resolve
from dumbbell._run import prepare, run
from dumbbell._scenario import Scenario
from dumbbell._topologies import distance_m, expand

FLOW = {"cc": "reno", "from": "a", "to": "b"}


def scenario(topology: dict[str, Any], *ends: tuple[str, str]) -> Scenario:
    flows = [{"cc": "reno", "from": one, "to": other} for one, other in ends or [("a", "b")]]
    return Scenario.from_dict({"duration": "1s", "topology": topology, "flows": flows})


def graph(topology: dict[str, Any]) -> networkx.Graph[str]:
    made = scenario(topology)
    assert made.topology is not None
    found = networkx.Graph()
    for link in expand(made.topology, made.directory).links:
        found.add_edge(link.from_, link.to, rate=link.rate, delay=link.delay)
    return found


def routes(topology: dict[str, Any], *ends: tuple[str, str]) -> list[list[str]]:
    """Ids of the links that flows between these nodes take."""
    config = resolve(scenario(topology, *ends))
    names = [link["id"] for link in config["links"]]
    return [[names[i] for i in flow["route"]] for flow in config["flows"]]


@pytest.mark.parametrize("k", [2, 4, 6])
def test_fat_tree(k: int) -> None:
    """Al-Fares et al. 2008 section 3: k^3/4 hosts, k^2/4 core switches and k pods with k/2
    aggregation and k/2 edge switches; all switches have k ports. For k = 4: 16 hosts, 20 switches,
    48 links. Hosts are 2, 4 or 6 links apart: at one edge switch, in one pod, in two pods."""
    tree = graph({"kind": "fat-tree", "k": k, "rate": "1Gbit"})
    kinds = Counter(name[0] for name in tree)
    assert kinds == {"h": k**3 // 4, "e": k**2 // 2, "a": k**2 // 2, "c": k**2 // 4}
    assert all(tree.degree[name] == k for name in tree if name[0] != "h")
    assert tree.number_of_edges() == 3 * k**3 // 4
    if k == 4:
        assert (kinds["h"], kinds.total() - kinds["h"], tree.number_of_edges()) == (16, 20, 48)
        far = networkx.single_source_shortest_path_length(tree, "h1.1.1")
        assert [far[host] for host in ("h1.1.2", "h1.2.1", "h4.2.2")] == [2, 4, 6]


def test_fat_tree_spreads_its_routes() -> None:
    """Between two pods of k = 4 there are four equally short ways, one over each core switch; the
    16 pairs of hosts of two pods use all, and each is one of the shortest."""
    pods = [[f"h{pod}.{i}.{j}" for i in (1, 2) for j in (1, 2)] for pod in (1, 2)]
    pairs = [(one, other) for one in pods[0] for other in pods[1]]
    found = routes({"kind": "fat-tree", "k": 4, "rate": "1Gbit", "delay": "1us"}, *pairs)
    assert {len(route) for route in found} == {6}
    cores = Counter(route[2].split("->")[1] for route in found)
    assert set(cores) == {"c1", "c2", "c3", "c4"}
    # Flows of the same pair keep to one way.
    again = routes({"kind": "fat-tree", "k": 4, "rate": "1Gbit", "delay": "1us"}, *pairs)
    assert again == found


def test_parking_lot() -> None:
    """n hops: n + 1 routers with a host each, so 2n + 1 links; end to end n + 2."""
    lot = graph({"kind": "parking-lot", "hops": 3, "rate": "20Mbit", "delay": "10ms"})
    assert (lot.number_of_nodes(), lot.number_of_edges()) == (8, 7)
    assert networkx.shortest_path_length(lot, "h0", "h3") == 5
    assert networkx.shortest_path_length(lot, "h0", "h3", weight="delay") == 30_000_000


def test_dumbbell() -> None:
    """Nichols' figure: any host is three links from one on the other side."""
    found = graph({"kind": "dumbbell", "hosts": 3, "rate": "20Mbit", "access_rate": "1Gbit"})
    assert (found.number_of_nodes(), found.number_of_edges()) == (8, 7)
    assert networkx.shortest_path_length(found, "l1", "r3") == 3
    assert found.edges["left", "right"]["rate"] == 20_000_000
    assert found.edges["l2", "left"]["rate"] == 1_000_000_000


def test_star() -> None:
    """A star of n leaves: n links, diameter 2."""
    star = graph({"kind": "star", "hosts": 5, "rate": "20Mbit"})
    assert (star.number_of_edges(), networkx.diameter(star), star.degree["hub"]) == (5, 2, 5)


@pytest.mark.parametrize(("backbone", "links"), [("ring", 4), ("mesh", 6), ("line", 3)])
def test_tiers(backbone: str, links: int) -> None:
    """4 backbone routers, 2 routers below each, 3 hosts below those: 4 + 8 + 24 nodes. A ring of
    four has 4 links, the complete graph 6, a line 3; each tree adds a link for each node below."""
    found = graph(
        {
            "kind": "tiers",
            "fanout": [4, 2, 3],
            "rates": ["10Gbit", "1Gbit", "100Mbit"],
            "delays": ["10ms", "1ms", 0],
            "backbone": backbone,
        }
    )
    assert found.number_of_nodes() == 4 + 8 + 24
    assert found.number_of_edges() == links + 8 + 24
    assert found.edges["b1.2", "b1.2.3"]["rate"] == 100_000_000
    hops = networkx.shortest_path_length(found, "b1.1.1", "b3.1.1")
    assert hops == 4 + {"ring": 2, "mesh": 1, "line": 2}[backbone]


def test_distance() -> None:
    """A quarter of the equator on a sphere; London to Paris, 343.6 km in any table of distances."""
    assert distance_m(0, 0, 0, 90) == pytest.approx(6_371_009 * 3.141592653589793 / 2)
    paris = distance_m(51.5074, -0.1278, 48.8566, 2.3522)
    assert paris == pytest.approx(343_600, rel=0.001)


def write(path: Path, made: networkx.Graph[int]) -> str:
    networkx.write_graphml(made, path / "net.graphml")
    return str(path / "net.graphml")


def test_graphml(tmp_path: Path) -> None:
    """As in the Internet Topology Zoo: labels, places, LinkSpeedRaw in bits a second. 343.6 km at
    two thirds of 299 792 458 m/s are 1.719 ms. The faster of two parallel edges counts."""
    made = networkx.MultiGraph()
    made.add_node(0, label="London", Latitude=51.5074, Longitude=-0.1278)
    made.add_node(1, label="Paris", Latitude=48.8566, Longitude=2.3522)
    made.add_node(2, label="Rome")
    made.add_edge(0, 1, LinkSpeedRaw=1e9)
    made.add_edge(0, 1, LinkSpeedRaw=1e10)
    made.add_edge(1, 2, rate="100Mbit", delay="5ms")
    file = write(tmp_path, made)
    found = graph({"kind": "graphml", "file": file})
    assert set(found) == {"London", "Paris", "Rome"}
    assert found.edges["London", "Paris"]["rate"] == 10_000_000_000
    assert found.edges["London", "Paris"]["delay"] == pytest.approx(1_719_000, rel=0.001)
    assert found.edges["Paris", "Rome"] == {"rate": 100_000_000, "delay": 5_000_000}
    assert routes({"kind": "graphml", "file": file}, ("London", "Rome")) == [
        ["London->Paris", "Paris->Rome"]
    ]


def test_petersen_graph(tmp_path: Path) -> None:
    """10 nodes, 15 edges, diameter 2 (Petersen 1898); rate and delay for all from the scenario."""
    file = write(tmp_path, networkx.petersen_graph())
    found = graph({"kind": "graphml", "file": file, "rate": "1Gbit", "delay": "1ms"})
    assert (found.number_of_nodes(), found.number_of_edges()) == (10, 15)
    assert networkx.diameter(found) == 2


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        (
            {"kind": "fat-tre", "k": 4},
            'topology.kind = "fat-tre": expected a kind; did you mean "fat-tree"?',
        ),
        (
            {"kind": "fat-tree", "k": 3, "rate": "1Gbit"},
            "topology.k = 3: expected a multiple of 2",
        ),
        (
            {"kind": "tiers", "fanout": [2, 2], "rates": ["1Gbit"], "delays": [0, 0]},
            "topology.rates: expected 2 of them, as many as in fanout",
        ),
        (
            {"kind": "graphml", "file": "missing.graphml"},
            'topology.file = "missing.graphml": cannot be read: no such file or directory',
        ),
        (
            {"links": [{"from": "a", "to": "a"}]},
            'topology.links[0].to = "a": expected another node than from',
        ),
    ],
)
def test_errors(topology: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        prepare({"duration": "1s", "topology": topology, "flows": [FLOW]})
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("edge", "expected"),
    [
        ({}, "the edge from 0 to 1 has no rate; give one with topology.rate"),
        ({"rate": "fast"}, "the edge from 0 to 1: rate is 'fast', not a rate"),
        (
            {"rate": "1Gbit"},
            "the edge from 0 to 1 has no delay and no places; give one with topology.delay",
        ),
    ],
)
def test_graphml_errors(tmp_path: Path, edge: dict[str, str], expected: str) -> None:
    made = networkx.Graph()
    made.add_edge(0, 1, **edge)
    with pytest.raises(ScenarioError) as raised:
        graph({"kind": "graphml", "file": write(tmp_path, made)})
    assert str(raised.value).endswith(expected)
    (tmp_path / "net.graphml").write_text("<graphml><node></graphml>")
    with pytest.raises(ScenarioError, match="not valid GraphML: mismatched tag"):
        graph({"kind": "graphml", "file": str(tmp_path / "net.graphml")})


def test_a_run_over_a_fat_tree() -> None:
    """Two flows from one host share its link: together they get what it carries of payload, 1448
    bytes in frames of 1514."""
    result = run(
        {
            "duration": "2s",
            "warmup": "1s",
            "topology": {"kind": "fat-tree", "k": 4, "rate": "100Mbit", "delay": "100us"},
            "flows": [
                {"cc": "cubic", "from": "h1.1.1", "to": "h3.1.1"},
                {"cc": "cubic", "from": "h1.1.1", "to": "h4.2.2"},
            ],
        }
    )
    total = sum(flow["goodput_bps"] for flow in result.summary["flows"])
    assert total == pytest.approx(100e6 * 1448 / 1514, rel=0.01)
