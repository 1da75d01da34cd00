"""The network of the study: three tiers of routers on the Abilene backbone.

Eleven backbone routers A to K and 14 links between them, two points of presence (PoPs) at each, and
139 access routers: 105 normal (N) and 28 fast (F) ones below PoPs, 6 directly connected (D) ones at
backbone routers. Names, classes and numbers are those of NIST SP 500-282. The delays of the single
links are not printed there: these are whole milliseconds that give the printed least (6 ms), mean
(2238/55 ms) and greatest (100 ms) round-trip time over the pairs of backbone routers and that are
close to proportional to distance.

Speeds are in packets a millisecond (p/ms), times in milliseconds, buffers in packets of 1500 bytes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Literal

from dumbbell._scenario_routes import Edge, shortest

Tier = Literal["backbone", "pop", "N", "F", "D"]
Class = Literal["N", "F", "D"]

CITIES = {
    "A": "Seattle",
    "B": "Sunnyvale",
    "C": "Denver",
    "D": "Los Angeles",
    "E": "Kansas City",
    "F": "Houston",
    "G": "Indianapolis",
    "H": "Atlanta",
    "I": "Chicago",
    "J": "Washington DC",
    "K": "New York",
}
"""Backbone routers, and where they stand (read from a map's layout, so not certain)."""
LINKS: Mapping[str, int] = {
    "A-B": 12,
    "A-C": 23,
    "B-C": 11,
    "B-D": 3,
    "D-F": 19,
    "C-E": 7,
    "E-F": 10,
    "E-G": 5,
    "F-H": 11,
    "G-H": 6,
    "G-I": 3,
    "I-K": 9,
    "H-J": 10,
    "J-K": 3,
}
"""Backbone links, and their one-way propagation delays in ms."""
_F_POPS = ("A2", "B1", "D1", "E1", "H1", "K1", "K2")
D_ROUTERS = ("B0a", "C0a", "E0a", "F0a", "I0a", "K0a")
_BELOW_POP: Mapping[str, tuple[Tier, str]] = {"F": ("F", "abcd"), "N": ("N", "abcdefg")}

PATH_CLASSES = ("DD", "DF", "FF", "DN", "FN", "NN")
"""Kinds of paths by the classes of the access routers at their two ends."""


@dataclass(frozen=True, slots=True)
class Router:
    """A router, the backbone router that it is or is below, and the PoP that it is below if any."""

    name: str
    tier: Tier
    backbone: str
    pop: str | None = None


@functools.cache
def routers() -> dict[str, Router]:
    """All by name: backbone, PoPs, access routers by name."""
    backbone = [Router(name, "backbone", name) for name in CITIES]
    pops = [Router(f"{name}{i}", "pop", name) for name in CITIES for i in (1, 2)]
    access = [Router(name, "D", name[0]) for name in D_ROUTERS]
    for pop in pops:
        tier, letters = _BELOW_POP["F" if pop.name in _F_POPS else "N"]
        access += [Router(pop.name + x, tier, pop.backbone, pop.name) for x in letters]
    found = backbone + pops + sorted(access, key=lambda router: router.name)
    return {router.name: router for router in found}


def access_routers() -> list[Router]:
    """Those with hosts."""
    return [router for router in routers().values() if router.tier in ("N", "F", "D")]


def path_class(one: Router, other: Router) -> str:
    """Which of PATH_CLASSES a path between two access routers is of."""
    return "".join(sorted(one.tier + other.tier))


@dataclass(frozen=True, slots=True)
class Backbone:
    """Static shortest ways over backbone links with these delays (ns), by link name."""

    delays: Mapping[str, int]

    def _edges(self) -> list[Edge]:
        there = [Edge(name[0], name[-1], delay) for name, delay in self.delays.items()]
        return there + [Edge(edge.target, edge.source, edge.delay_ns) for edge in there]

    def ways(self) -> dict[tuple[str, str], list[tuple[str, int]]]:
        """For each pair of backbone routers those on the way, each with the delay (ns) of the link
        behind it; the last has none."""
        edges = self._edges()
        found = {(name, name): [(name, 0)] for name in CITIES}
        for source in CITIES:
            for target in CITIES:
                if source != target:
                    way = [edges[i] for i in shortest(edges, source, target, key="mesonet")]
                    found[source, target] = [(e.source, e.delay_ns) for e in way] + [(target, 0)]
        return found

    def round_trips(self) -> list[int]:
        """Round-trip times (ns) of the 55 pairs of backbone routers."""
        ways = self.ways()
        return [2 * sum(d for _, d in ways[pair]) for pair in combinations(CITIES, 2)]

    def mean_round_trip_ms(self) -> Fraction:
        """What buffers are sized by."""
        times = self.round_trips()
        return Fraction(sum(times), len(times) * 10**6)


@dataclass(frozen=True, slots=True)
class Ratios:
    """How the speeds of the tiers follow from the base speed s1: backbone s1 times `backbone`, PoP
    s1/s2, N s1/s2/s3, F and D so many times N."""

    s2: Fraction = Fraction(4)
    s3: Fraction = Fraction(10)
    backbone: Fraction = Fraction(2)
    fast: Fraction = Fraction(2)
    direct: Fraction = Fraction(10)

    def speed(self, tier: Tier, s1: Fraction) -> Fraction:
        """p/ms of a router."""
        normal = s1 / self.s2 / self.s3
        return {
            "backbone": s1 * self.backbone,
            "pop": s1 / self.s2,
            "N": normal,
            "F": normal * self.fast,
            "D": normal * self.direct,
        }[tier]


def sources(base: Fraction, multiplier: Fraction, share: Fraction) -> Fraction:
    """Sources below an access router of a class with this share: a third of the classes' shares is
    one, so that the base number is that of uniform shares."""
    return 3 * base * multiplier * share


def receivers(base: Fraction, share: Fraction) -> Fraction:
    """Receivers below an access router: four times the base number of sources, whatever the
    multiplier of the sources is."""
    return 12 * base * share


def crowds(per_class: Mapping[Class, Fraction]) -> dict[str, Fraction]:
    """The n of RTT C/sqrt(n) for each router: what `per_class` says of an access router, and the
    sum over those below for the others."""
    found = dict.fromkeys(routers(), Fraction(0))
    for router in access_routers():
        assert router.tier in ("N", "F", "D")
        for name in {router.name, router.backbone, router.pop} - {None}:
            assert name is not None
            found[name] += per_class[router.tier]
    return found


def buffer(rtt_ms: Fraction, speed: Fraction, *, qfactor: Fraction, crowd: Fraction | None) -> int:
    """Packets of RTT x C, divided by the root of `crowd` if that is given, times Qfactor; at least
    1. Rounded up before Qfactor and down after it: so most of the sizes that the study prints
    come out exactly."""
    size = rtt_ms * speed
    whole = math.ceil(size if crowd is None else float(size) / math.sqrt(crowd))
    return max(1, math.floor(whole * qfactor))
