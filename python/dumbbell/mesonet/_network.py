"""The engine's links for the study's routers, the ways through them, and who is below them.

A router is one link of the engine: its buffer, its speed. A route is the routers that forward a
packet, and the propagation behind a backbone router is that of the link that follows. Where each
link out has a buffer of its own (`queue_per = "link"`), it is one for each of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dumbbell.mesonet._parameters import Mesonet, exact
from dumbbell.mesonet._topology import (
    LINKS,
    Backbone,
    Class,
    Ratios,
    Router,
    access_routers,
    buffer,
    crowds,
    receivers,
    routers,
    sources,
)

PACKET_BYTES = 1500

Hop = int | list[int]
"""A link, or a link and the propagation (ns) behind it on this way alone."""


def link_of(hop: Hop) -> int:
    """Index of the link."""
    return hop if isinstance(hop, int) else hop[0]


def bits_per_second(packets_per_ms: Fraction) -> int:
    """Nearest to a speed of packets of 1500 bytes; at least 1."""
    return max(1, round(packets_per_ms * PACKET_BYTES * 8 * 1000))


def apportion(totals: Sequence[int], share: Fraction) -> list[int]:
    """How many of each are in the share, so that every running sum is the nearest whole number:
    the total is right and the parts are spread evenly."""
    taken, seen, result = 0, Fraction(0), []
    for total in totals:
        seen += total * share
        result.append(round(seen) - taken)
        taken = round(seen)
    return result


@dataclass(frozen=True, slots=True)
class Crowd:
    """Users below one router who have the same algorithm (`role` alternate or tcp) and interface
    (fast or normal)."""

    router: Router
    role: str
    interface: str
    count: int
    alone: bool = False
    """Whether all users of the network have this role."""

    @property
    def group(self) -> str:
        return f"{self.role}-{self.interface}"

    @property
    def id(self) -> str:
        """Names the users' random streams too: what they ask for is then the same whichever
        algorithm all of them use."""
        return f"{self.router.name}-{self.interface if self.alone else self.group}"


@dataclass(slots=True)
class Network:
    """The engine's links and the ways through them."""

    mesonet: Mesonet
    links: list[dict[str, Any]] = field(default_factory=list)
    _index: dict[tuple[str, ...], int] = field(default_factory=dict)
    _ways: dict[tuple[str, str], list[tuple[str, int]]] = field(default_factory=dict)
    _buffers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        backbone = Backbone(self._delays())
        self._ways = backbone.ways()
        self._buffers = self._sizes(backbone.mean_round_trip_ms())
        for name in routers():
            if self.mesonet.assumptions.queue_per == "router":
                self._add((name,), 0)
        if self.mesonet.assumptions.queue_per == "link":
            self._add_ports(backbone)

    def _delays(self) -> dict[str, int]:
        given = {name: ms * 10**6 for name, ms in LINKS.items()}
        given |= self.mesonet.assumptions.link_delays
        return {name: round(ns * exact(self.mesonet.propagation)) for name, ns in given.items()}

    def speed(self, router: Router) -> Fraction:
        """p/ms."""
        speeds = self.mesonet.speeds
        ratios = Ratios(**{name: exact(getattr(speeds, name)) for name in Ratios.__slots__})
        return ratios.speed(router.tier, exact(self.mesonet.speed) * exact(self.mesonet.scale))

    @property
    def base_sources(self) -> Fraction:
        return exact(self.mesonet.base_sources) * exact(self.mesonet.scale)

    def receivers(self, router: Router) -> int:
        """Hosts below a router that files go to."""
        share = self.mesonet.receiver_distribution.exact[_class(router)]
        return round(receivers(self.base_sources, share))

    def sources(self, router: Router) -> int:
        """Users below a router."""
        share = self.mesonet.source_distribution.exact[_class(router)]
        return round(sources(self.base_sources, exact(self.mesonet.sources), share))

    def buffer(self, name: str) -> int:
        """Packets of a router's buffer."""
        return self._buffers[name]

    def _sizes(self, rtt_ms: Fraction) -> dict[str, int]:
        mesonet = self.mesonet
        from_sources = mesonet.source_distribution.exact
        to_receivers = mesonet.receiver_distribution.exact
        base = self.base_sources
        # The study leaves the multiplier of sources out of n.
        hosts = {
            name: sources(base, Fraction(1), from_sources[name])
            + receivers(base, to_receivers[name])
            for name in from_sources
        }
        rooted = mesonet.buffers == "rtt-c/sqrt-n"
        crowd = crowds(hosts)
        qfactor = exact(mesonet.qfactor)
        if not isinstance(mesonet.buffers, str):
            qfactor *= exact(mesonet.buffers)
        return {
            name: buffer(
                rtt_ms,
                self.speed(router),
                qfactor=qfactor,
                crowd=max(crowd[name], Fraction(1)) if rooted else None,
            )
            for name, router in routers().items()
        }

    def _add(self, port: tuple[str, ...], delay_ns: int) -> None:
        name = port[0]
        full = self.mesonet.assumptions.ack_cost == "packet"
        self._index[port] = len(self.links)
        self.links.append(
            {
                "id": "->".join(port),
                "capacity": {
                    "kind": "constant",
                    "bps": bits_per_second(self.speed(routers()[name])),
                },
                "delay_ns": delay_ns,
                "queue": {"kind": "fifo", "params": {"limit": self._buffers[name]}},
                "framing": {"overhead": 0, "mpu": PACKET_BYTES if full else 0},
            }
        )

    def _add_ports(self, backbone: Backbone) -> None:
        for link, delay in backbone.delays.items():
            one, other = link.split("-")
            self._add((one, other), delay)
            self._add((other, one), delay)
        for router in routers().values():
            if router.tier != "backbone":
                above = router.pop or router.backbone
                self._add((router.name, above), 0)
                self._add((above, router.name), 0)
            if router.tier in ("N", "F", "D"):
                self._add((router.name, "hosts"), 0)

    def route(self, source: Router, target: Router) -> list[Hop]:
        """The links from the hosts of one access router to those of another."""
        up = [name for name in (source.name, source.pop) if name]
        down = [name for name in (target.pop, target.name) if name]
        over = self._ways[source.backbone, target.backbone]
        names = [*up, *(name for name, _ in over), *down]
        if self.mesonet.assumptions.queue_per == "link":
            return [self._index[port] for port in zip(names, [*names[1:], "hosts"], strict=True)]
        delays = dict(over)
        hops: list[Hop] = []
        for name in names:
            index = self._index[name,]
            hops.append([index, delays[name]] if delays.get(name) else index)
        return hops

    def propagation_ns(self, source: Router, target: Router) -> int:
        """One way."""
        return sum(delay for _, delay in self._ways[source.backbone, target.backbone])

    def reachable(self, source: Router) -> Iterator[Router]:
        """Access routers that files go to from this one."""
        turn = self.mesonet.assumptions.same_backbone == "turn"
        for target in access_routers():
            if target.backbone != source.backbone or (turn and target is not source):
                yield target

    def crowds(self) -> list[Crowd]:
        """All users, by router, role and interface; none where there would be nobody."""
        mesonet = self.mesonet
        found: list[Crowd] = []
        alone = self._alternate_share in (0, 1)
        for tier in ("N", "F", "D"):
            below = [router for router in access_routers() if router.tier == tier]
            totals = [self.sources(router) for router in below]
            fast = apportion(totals, exact(mesonet.fast_hosts))
            normal = [total - f for total, f in zip(totals, fast, strict=True)]
            for interface, counts in (("fast", fast), ("normal", normal)):
                alternate = apportion(counts, self._alternate_share)
                for router, count, own in zip(below, counts, alternate, strict=True):
                    found.append(Crowd(router, "alternate", interface, own, alone))
                    found.append(Crowd(router, "tcp", interface, count - own, alone))
        return sorted((crowd for crowd in found if crowd.count), key=lambda crowd: crowd.id)

    @property
    def _alternate_share(self) -> Fraction:
        mesonet = self.mesonet
        return Fraction(0) if mesonet.only_tcp else exact(mesonet.alternate_share)


def _class(router: Router) -> Class:
    assert router.tier in ("N", "F", "D")
    return router.tier
