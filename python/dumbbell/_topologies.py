"""Networks by name: what a `[topology]` with a `kind` other than "explicit" expands to.

| kind | routers | hosts |
| --- | --- | --- |
| dumbbell | `left`, `right` | `l1`, `l2`, ... and `r1`, `r2`, ... |
| parking-lot | `r0` to `rN` in a line | `h0` to `hN`, one at each |
| star | `hub` | `h1`, `h2`, ... |
| fat-tree | core `c1`, ...; in pod p aggregation `ap.i` and edge `ep.i` | `hp.i.j` at edge `ep.i` |
| tiers | `b1`, `b2`, ...; below `b1` `b1.1`, `b1.2`, ... and so on | the last tier |
| graphml | the graph's nodes, by label | none: flows begin and end at its nodes |
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, Self
from xml.etree.ElementTree import ParseError

from pydantic import Discriminator, Field, Tag, model_validator

from dumbbell._errors import MissingExtraError, ScenarioError
from dumbbell._scenario_links import DEFAULT_QUEUE, OverheadField, QueueField, Topology
from dumbbell._scenario_types import Items, Model, Rate, Time, fail
from dumbbell._units import format_rate, format_time, parse_rate, parse_time

LIGHT_IN_FIBRE_M_S = 299_792_458 * 2 / 3
"""Speed of light in glass, about two thirds of that in a vacuum."""
EARTH_RADIUS_M = 6_371_009
"""Mean radius (IUGG)."""
_LARGEST_FILE = 16 * 2**20
_MOST_LINKS = 100_000

_Count = Annotated[int, Field(ge=1, le=10_000)]
Link = dict[str, Any]


class _Generated(Model):
    queue: QueueField = DEFAULT_QUEUE
    """Of every link that has a rate."""
    overhead: OverheadField | None = None
    """Framing of every link that has a rate."""

    def expand(self, directory: FilePath) -> Topology:
        """Nodes and links; files are relative to `directory`. Raises ScenarioError."""
        given = self.model_dump(mode="json", include={"queue", "overhead"}, exclude_unset=True)
        links: list[Link] = []
        for link in self.generate(directory):
            if len(links) >= _MOST_LINKS:
                raise ScenarioError(key="topology", expected=f"more than {_MOST_LINKS} links")
            links.append(link | (given if "rate" in link else {}))
        topology = Topology.model_validate({"links": links})
        return topology.model_copy(update={"spread": self.spreads})

    @property
    def spreads(self) -> bool:
        """Whether equally short routes share the pairs of nodes."""
        return False

    def generate(self, directory: FilePath) -> Iterator[Link]:
        """As in `[[topology.links]]`."""
        raise NotImplementedError


class _WithHosts(_Generated):
    rate: Rate
    """Of the links between routers."""
    delay: Time = 0
    """One-way delay of the links between routers."""
    access_rate: Rate | None = None
    """Of the links to hosts; default: unlimited."""
    access_delay: Time = 0
    """One-way delay of the links to hosts."""

    def between(self, one: str, other: str) -> Link:
        return _link(one, other, self.rate, self.delay)

    def access(self, host: str, router: str) -> Link:
        return _link(host, router, self.access_rate, self.access_delay)


class Dumbbell(_WithHosts):
    """Hosts on either side of one link between two routers: l1 to left, right to r1."""

    kind: Literal["dumbbell"]
    hosts: _Count = 1
    """On each side."""

    def generate(self, directory: FilePath) -> Iterator[Link]:
        yield self.between("left", "right")
        for i in range(1, self.hosts + 1):
            yield self.access(f"l{i}", "left")
            yield self.access(f"r{i}", "right")


class ParkingLot(_WithHosts):
    """Routers r0, r1, ... in a line, with a host at each: h0, h1, ..."""

    kind: Literal["parking-lot"]
    hops: _Count
    """Links between routers, one fewer than there are of these."""

    def generate(self, directory: FilePath) -> Iterator[Link]:
        for i in range(self.hops):
            yield self.between(f"r{i}", f"r{i + 1}")
        for i in range(self.hops + 1):
            yield self.access(f"h{i}", f"r{i}")


class Star(_Generated):
    """Hosts h1, h2, ... around one hub."""

    kind: Literal["star"]
    hosts: _Count
    rate: Rate
    """Of each host's link."""
    delay: Time = 0
    """One-way delay of each host's link."""

    def generate(self, directory: FilePath) -> Iterator[Link]:
        for i in range(1, self.hosts + 1):
            yield _link(f"h{i}", "hub", self.rate, self.delay)


class FatTree(_Generated):
    """A fat-tree of k-port switches for k^3/4 hosts (Al-Fares, Loukissas, Vahdat 2008). Pairs of
    nodes are spread over the equally short routes by a hash of their names."""

    kind: Literal["fat-tree"]
    k: Annotated[int, Field(ge=2, le=48, multiple_of=2)]
    """Ports of a switch, even."""
    rate: Rate
    """Of all links."""
    delay: Time = 0
    """One-way delay of all links."""

    @property
    def spreads(self) -> bool:
        return True

    def generate(self, directory: FilePath) -> Iterator[Link]:
        half = range(1, self.k // 2 + 1)
        for pod in range(1, self.k + 1):
            for i in half:
                for j in half:
                    core = f"c{(i - 1) * len(half) + j}"
                    for one, other in (
                        (f"h{pod}.{i}.{j}", f"e{pod}.{i}"),
                        (f"e{pod}.{i}", f"a{pod}.{j}"),
                        (f"a{pod}.{i}", core),
                    ):
                        yield _link(one, other, self.rate, self.delay)


class Tiers(_Generated):
    """Trees below a backbone: b1, b2, ... are joined to each other, b1.1, b1.2, ... to b1, and so
    on down to the hosts, the last tier."""

    kind: Literal["tiers"]
    fanout: Annotated[Items[_Count], Field(min_length=1)]
    """Backbone routers, and what is below each node of a tier: [4, 2, 10] has 4 backbone routers, 8
    others and 80 hosts."""
    rates: Annotated[Items[Rate], Field(min_length=1)]
    """Of the links in the backbone, then of those to each further tier."""
    delays: Annotated[Items[Time], Field(min_length=1)]
    """One-way delays of the same."""
    backbone: Literal["ring", "mesh", "line"] = "ring"
    """How the backbone routers are joined: each to its neighbours, or to all others."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for key in ("rates", "delays"):
            if len(getattr(self, key)) != len(self.fanout):
                fail(f"expected {len(self.fanout)} of them, as many as in fanout", key)
        return self

    def generate(self, directory: FilePath) -> Iterator[Link]:
        tier = [f"b{i}" for i in range(1, self.fanout[0] + 1)]
        pairs = list(combinations(tier, 2)) if self.backbone == "mesh" else list(pairwise(tier))
        if self.backbone == "ring" and len(tier) > 2:
            pairs.append((tier[-1], tier[0]))
        for one, other in pairs:
            yield _link(one, other, self.rates[0], self.delays[0])
        for depth, count in enumerate(self.fanout[1:], start=1):
            below = []
            for above in tier:
                for i in range(1, count + 1):
                    below.append(f"{above}.{i}")
                    yield _link(below[-1], above, self.rates[depth], self.delays[depth])
            tier = below


class GraphMl(_Generated):
    """A graph from a file, such as those of the Internet Topology Zoo (Knight et al. 2011). Of
    parallel edges the fastest counts."""

    kind: Literal["graphml"]
    file: Annotated[str, Field(min_length=1)]
    """Relative to the scenario's file."""
    rate: Rate | None = None
    """Of edges that say nothing of it in `rate`, `bandwidth` or `LinkSpeedRaw` (text with a unit,
    or bits a second)."""
    delay: Time | None = None
    """One-way delay of edges without a `delay` (text with a unit, or milliseconds) whose nodes have
    no `Latitude` and `Longitude`; with these it is that of their distance at two thirds of the
    speed of light."""
    names: Literal["label", "id"] = "label"
    """What nodes are called: their label (with the id, if several have the same), or their id."""

    def generate(self, directory: FilePath) -> Iterator[Link]:
        graph = self._read(directory / self.file)
        names = self._names(graph)
        fastest: dict[tuple[str, str], Link] = {}
        for one, other, edge in graph.edges(data=True):
            if one == other:
                continue
            source, target = names[one], names[other]
            place = f"the edge from {source} to {target}"
            back = not graph.is_directed() and (target, source) in fastest
            ends = (target, source) if back else (source, target)
            rate = self._rate(edge, place)
            if ends in fastest and parse_rate(fastest[ends]["rate"]) >= rate:
                continue
            delay = self._delay(edge, graph.nodes[one], graph.nodes[other], place)
            fastest[ends] = _link(*ends, rate, delay)
            if graph.is_directed():
                fastest[ends]["duplex"] = False
        if not fastest:
            raise self._error("a graph without edges")
        yield from fastest.values()

    def _error(self, expected: str) -> ScenarioError:
        return ScenarioError(key="topology.file", value=self.file, expected=expected)

    def _read(self, path: FilePath) -> Any:
        try:
            import networkx
        except ImportError:
            raise MissingExtraError('topology kind "graphml"', "networks") from None
        try:
            if path.stat().st_size > _LARGEST_FILE:
                raise self._error("too large for a graph (over 16 MiB)")
            return networkx.read_graphml(path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise self._error(f"cannot be read: {reason}") from None
        except (ParseError, networkx.NetworkXError, KeyError, ValueError, TypeError) as error:
            if isinstance(error, ScenarioError):
                raise
            lines = str(error).splitlines() or [type(error).__name__]
            raise self._error(f"not valid GraphML: {lines[0]}") from None

    def _names(self, graph: Any) -> dict[Any, str]:
        labels = {
            node: str(data.get("label") or node) if self.names == "label" else str(node)
            for node, data in graph.nodes(data=True)
        }
        times = Counter(labels.values())
        return {
            node: f"{name} ({node})" if times[name] > 1 else name for node, name in labels.items()
        }

    def _rate(self, edge: dict[str, Any], place: str) -> int:
        for key in ("rate", "bandwidth", "LinkSpeedRaw"):
            if key in edge:
                given = edge[key]
                try:
                    rate = parse_rate(given) if _has_unit(given) else round(float(given))
                except (TypeError, ValueError, OverflowError):
                    rate = 0
                if rate <= 0:
                    raise self._error(f"{place}: {key} is {given!r}, not a rate")
                return rate
        if self.rate is None:
            raise self._error(f"{place} has no rate; give one with topology.rate")
        return self.rate

    def _delay(
        self, edge: dict[str, Any], one: dict[str, Any], other: dict[str, Any], place: str
    ) -> int:
        if "delay" in edge:
            given = edge["delay"]
            try:
                delay = parse_time(given) if _has_unit(given) else round(float(given) * 1e6)
            except (TypeError, ValueError, OverflowError):
                delay = -1
            if delay < 0:
                raise self._error(f"{place}: delay is {given!r}, not a time")
            return delay
        try:
            places = [(float(n["Latitude"]), float(n["Longitude"])) for n in (one, other)]
        except (KeyError, TypeError, ValueError):
            if self.delay is None:
                raise self._error(
                    f"{place} has no delay and no places; give one with topology.delay"
                ) from None
            return self.delay
        return round(distance_m(*places[0], *places[1]) / LIGHT_IN_FIBRE_M_S * 1e9)


def distance_m(latitude: float, longitude: float, latitude_2: float, longitude_2: float) -> float:
    """Great-circle distance of two places in degrees (haversine formula)."""
    phi, phi_2 = math.radians(latitude), math.radians(latitude_2)
    across = math.radians(longitude_2 - longitude)
    h = (
        math.sin((phi_2 - phi) / 2) ** 2
        + math.cos(phi) * math.cos(phi_2) * math.sin(across / 2) ** 2
    )
    return 2 * EARTH_RADIUS_M * math.asin(math.sqrt(min(1.0, h)))


def _has_unit(value: object) -> bool:
    return isinstance(value, str) and not value.strip().replace(".", "", 1).isdigit()


def _link(one: str, other: str, rate: int | None, delay: int) -> Link:
    link: Link = {"from": one, "to": other, "delay": format_time(delay)}
    return link if rate is None else {**link, "rate": format_rate(rate)}


def _kind(value: Any) -> str:
    kind = value.get("kind", "explicit") if isinstance(value, dict) else None
    return str(kind if kind is not None else getattr(value, "kind", "explicit"))


AnyTopology = Annotated[
    Annotated[Topology, Tag("explicit")]
    | Annotated[Dumbbell, Tag("dumbbell")]
    | Annotated[ParkingLot, Tag("parking-lot")]
    | Annotated[Star, Tag("star")]
    | Annotated[FatTree, Tag("fat-tree")]
    | Annotated[Tiers, Tag("tiers")]
    | Annotated[GraphMl, Tag("graphml")],
    Discriminator(_kind),
]
"""Nodes and links, or a network by name."""


def expand(topology: AnyTopology, directory: FilePath) -> Topology:
    """Nodes and links. Raises ScenarioError, and MissingExtraError without networkx."""
    return topology if isinstance(topology, Topology) else topology.expand(directory)
