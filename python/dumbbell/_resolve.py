"""From a scenario to the engine's configuration.

Every quantity becomes nanoseconds, bits per second or bytes, every default is filled in, every
name becomes an index. The result is the JSON that `dumbbell-sim` reads
(crates/dumbbell-sim/src/config.rs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path as FilePath
from typing import Any

from dumbbell._errors import ScenarioError, suggest
from dumbbell._registry import Bdp, Registry, Site, builtin
from dumbbell._resolve_coupling import coupling_config
from dumbbell._resolve_traffic import UsersBuilder, traffic_config
from dumbbell._scenario import Scenario
from dumbbell._scenario_flows import AutoWindow, FixedWindow, Flow, Probe, RateTraffic
from dumbbell._scenario_links import (
    OVERHEADS,
    GilbertElliottLoss,
    Loss,
    NthLoss,
    Path,
    PeriodicLoss,
    Reverse,
    Topology,
    TopologyLink,
)
from dumbbell._scenario_routes import Edge, shortest
from dumbbell._scenario_trace import MAHIMAHI_MTU, Trace, read_trace
from dumbbell._scenario_users import Users
from dumbbell._topologies import expand
from dumbbell._units import format_time
from dumbbell.mesonet._config import series_interval, users_config
from dumbbell.mesonet._network import Hop, Network, link_of
from dumbbell.mesonet._parameters import Mesonet
from dumbbell.mesonet._topology import access_routers

FRAME_BYTES = 1514
"""A full frame, in which a limit in BDPs counts: MSS 1448, 52 of IP, TCP and timestamps, 14 of
Ethernet."""

_FLOW_BYTES = 8 * 1024
_PACKET_BYTES = 100
_ROW_BYTES = 120
_OPPORTUNITY_BYTES = 64


@dataclass(frozen=True, slots=True)
class _Way:
    """How a flow's packets travel: link indexes, and propagation beyond the links."""

    route: Sequence[Hop]
    reverse_route: Sequence[Hop]
    delay_ns: int
    reverse_delay_ns: int
    rtt_ns: int

    @classmethod
    def over(
        cls, route: Sequence[Hop], reverse: Sequence[Hop], propagation: int, item: _Item, key: str
    ) -> _Way:
        """The way over links that take so long there and back; what an item's own RTT has above
        that is at its ends. Raises ScenarioError."""
        rtt = propagation if item.rtt is None else item.rtt
        if rtt < propagation:
            raise ScenarioError(
                key=f"{key}.rtt",
                value=format_time(rtt),
                expected=f"the links alone have a round-trip time of {format_time(propagation)}",
            )
        extra = rtt - propagation
        return cls(list(route), list(reverse), extra // 2, extra - extra // 2, rtt)

    def fields(self) -> dict[str, Any]:
        return {
            "route": self.route,
            "reverse_route": self.reverse_route,
            "delay_ns": self.delay_ns,
            "reverse_delay_ns": self.reverse_delay_ns,
        }

    def hops(self) -> tuple[list[Hop], list[Hop]]:
        """There and back, with the propagation beyond the links behind the last one; where there is
        no link on the way back, all of it on the way there."""
        there, back = list(self.route), list(self.reverse_route)
        if not back:
            return _delayed(there, self.delay_ns + self.reverse_delay_ns), []
        return _delayed(there, self.delay_ns), _delayed(back, self.reverse_delay_ns)


def _delayed(route: list[Hop], delay_ns: int) -> list[Hop]:
    """The route with more propagation at its end."""
    if delay_ns == 0:
        return route
    last = route[-1]
    index, own = last if isinstance(last, list) else (last, 0)
    return [*route[:-1], [index, own + delay_ns]]


_Item = Flow | Probe
_Capacity = Path | Reverse | TopologyLink


def resolve(
    scenario: Scenario, registry: Registry | None = None, *, available_bytes: int | None = None
) -> dict[str, Any]:
    """The engine's configuration of a scenario.

    `registry` is that of the engine if not given; `available_bytes` what memory there is (asked of
    the system if not given). Raises ScenarioError.
    """
    try:
        return _resolve(scenario, registry or builtin(), available_bytes)
    except ScenarioError as error:
        raise error.in_file(scenario.file) from None


def _resolve(scenario: Scenario, registry: Registry, available_bytes: int | None) -> dict[str, Any]:
    network: _PathNetwork | _TopologyNetwork | _MesonetNetwork
    if scenario.path is not None:
        network = _PathNetwork(scenario.path, scenario.directory, registry)
    elif scenario.topology is not None:
        topology = expand(scenario.topology, scenario.directory)
        network = _TopologyNetwork(topology, scenario.directory, registry)
    else:
        assert scenario.mesonet is not None
        network = _MesonetNetwork(scenario.mesonet)
    flow_ways = [_ways(network, flow, f"flows[{i}]") for i, flow in enumerate(scenario.flows)]
    ways = [way for several in flow_ways for way in several]
    probe_ways = [network.way(probe, f"probes[{i}]") for i, probe in enumerate(scenario.probes)]
    links = network.links(ways, probe_ways)
    available = _available_bytes() if available_bytes is None else available_bytes
    users = sum(f.count * f.traffic.count for f in scenario.flows if isinstance(f.traffic, Users))
    if isinstance(network, _MesonetNetwork):
        users += network.users()
    _check_memory(scenario, links, ways, users, available)
    builder = UsersBuilder()
    config: dict[str, Any] = {
        "seed": scenario.seed,
        "duration_ns": scenario.duration,
        "warmup_ns": scenario.warmup,
        "interval_ns": scenario.interval,
        "links": links,
        "flows": _flows(scenario, flow_ways, registry, builder),
        "probes": _probes(scenario, probe_ways),
        "hop_by_hop": scenario.hop_by_hop,
        "capture": scenario.capture,
    }
    if isinstance(network, _MesonetNetwork):
        network.add_users(config, scenario, registry)
    if scenario.coupling:
        config["coupling"] = coupling_config(scenario.coupling, config["flows"], registry)
    return config | builder.config(scenario)


def _ways(
    network: _PathNetwork | _TopologyNetwork | _MesonetNetwork, flow: Flow, key: str
) -> list[_Way]:
    """The way of a flow, or those of its users."""
    if not isinstance(flow.to, tuple):
        return [network.way(flow, key)]
    single = [flow.model_copy(update={"to": target.node}) for target in flow.to]
    return [network.way(one, key) for one in single]


class _PathNetwork:
    """The bottleneck at the senders, without delay of its own; behind it each flow has its own
    propagation, so that flows may differ in base RTT."""

    def __init__(self, path: Path, directory: FilePath, registry: Registry) -> None:
        self._path = path
        self._back = path.way_back
        self._directory = directory
        self._registry = registry
        rtts = [path.rtt, *(c.rtt for c in path.changes if c.rtt is not None)]
        # Only a link's delay can change during a run: what an RTT has above the smallest one.
        self._smallest_rtt = min(rtts)

    def way(self, item: _Item, key: str) -> _Way:
        path = self._path
        rtt = path.rtt if item.rtt is None else item.rtt
        own = rtt - (path.rtt - self._smallest_rtt)
        back = self._back.delay if self._back else None
        if own < (back or 0):
            smallest = (back or 0) + path.rtt - self._smallest_rtt
            raise ScenarioError(
                key=f"{key}.rtt" if item.rtt is not None else "path.reverse.delay",
                value=format_time(rtt if item.rtt is not None else back or 0),
                expected=f"a base round-trip time below {format_time(smallest)} "
                "does not fit the path's delays",
            )
        back = min((rtt + 1) // 2, own) if back is None else back
        return _Way([0], [1] if self._has_reverse() else [], own - back, back, rtt)

    def _has_reverse(self) -> bool:
        return bool(self._back and self._back.model_fields_set - {"delay"})

    def links(self, ways: Sequence[_Way], probe_ways: Sequence[_Way]) -> list[dict[str, Any]]:
        path = self._path
        forward = _Link(path, "path", self._directory, self._registry)
        changes = [
            _change(c.at, c.rate, None if c.rtt is None else c.rtt - self._smallest_rtt, c.loss)
            for c in path.changes
        ]
        extra = path.rtt - self._smallest_rtt
        links = [forward.config("bottleneck", extra, path.rtt, changes)]
        if self._has_reverse():
            assert self._back is not None
            back = _Link(self._back, "path.reverse", self._directory, self._registry)
            links.append(back.config("reverse", 0, path.rtt, []))
        return links


class _TopologyNetwork:
    """Links between nodes, and static shortest routes."""

    def __init__(self, topology: Topology, directory: FilePath, registry: Registry) -> None:
        self._spread = topology.spread
        self._directed: list[tuple[TopologyLink, str, str]] = []
        self._edges: list[Edge] = []
        self._links: list[tuple[_Link, bool]] = []
        for i, link in enumerate(topology.links):
            built = _Link(link, f"topology.links[{i}]", directory, registry)
            ends = [(link.from_, link.to, link.id or f"{link.from_}->{link.to}")]
            if link.duplex:
                back = f"{link.id}-back" if link.id else f"{link.to}->{link.from_}"
                ends.append((link.to, link.from_, back))
            for back_link, (source, target, name) in enumerate(ends):
                if any(name == other for _, other, _ in self._directed):
                    raise ScenarioError(
                        key=f"topology.links[{i}].id", value=name, expected="there is such a link"
                    )
                self._directed.append((link, name, target))
                self._edges.append(Edge(source, target, link.delay))
                self._links.append((built, bool(back_link)))

    def way(self, item: _Item, key: str) -> _Way:
        assert item.from_ is not None
        assert isinstance(item.to, str)
        route = shortest(self._edges, item.from_, item.to, key=key, spread=self._spread)
        reverse = shortest(self._edges, item.to, item.from_, key=key, spread=self._spread)
        propagation = sum(self._edges[i].delay_ns for i in [*route, *reverse])
        return _Way.over(route, reverse, propagation, item, key)

    def links(self, ways: Sequence[_Way], probe_ways: Sequence[_Way]) -> list[dict[str, Any]]:
        longest = [0] * len(self._links)
        for way in [*ways, *probe_ways]:
            for hop in [*way.route, *way.reverse_route]:
                longest[link_of(hop)] = max(longest[link_of(hop)], way.rtt_ns)
        return [
            built.config(
                name,
                link.delay,
                longest[i],
                [] if back else [_change(c.at, c.rate, c.delay, c.loss) for c in link.changes],
            )
            for i, ((link, name, _), (built, back)) in enumerate(
                zip(self._directed, self._links, strict=True)
            )
        ]


class _MesonetNetwork:
    """The study's routers; a flow's own ends are access routers."""

    def __init__(self, mesonet: Mesonet) -> None:
        self._network = Network(mesonet)

    def way(self, item: _Item, key: str) -> _Way:
        known = {router.name: router for router in access_routers()}
        for end, node in (("from", item.from_), ("to", item.to)):
            if node not in known:
                raise ScenarioError(
                    key=f"{key}.{end}",
                    value=node,
                    expected=f"expected an access router{suggest(str(node), known)}",
                )
        source, target = known[str(item.from_)], known[str(item.to)]
        if source.backbone == target.backbone:
            raise ScenarioError(
                key=f"{key}.to", value=item.to, expected="expected another backbone router's"
            )
        there, back = self._network.route(source, target), self._network.route(target, source)
        propagation = 2 * self._network.propagation_ns(source, target)
        return _Way.over(there, back, propagation, item, key)

    def links(self, ways: Sequence[_Way], probe_ways: Sequence[_Way]) -> list[dict[str, Any]]:
        return self._network.links

    def users(self) -> int:
        """How many there are."""
        return sum(crowd.count for crowd in self._network.crowds())

    def add_users(self, config: dict[str, Any], scenario: Scenario, registry: Registry) -> None:
        """The users beside the scenario's own flows."""
        users = users_config(self._network, registry, duration_ns=scenario.duration)
        users["flows"] += config["flows"]
        config.update(users)
        if "interval" not in scenario.model_fields_set:
            config["interval_ns"] = series_interval(scenario.duration)


class _Link:
    """Capacity, framing, queue and impairments of one link."""

    def __init__(self, model: _Capacity, key: str, directory: FilePath, registry: Registry) -> None:
        self._model = model
        self._key = key
        self._registry = registry
        self._trace: Trace | None = None
        if model.trace is not None:
            self._trace = read_trace(
                directory / model.trace,
                mtu=model.trace_mtu or MAHIMAHI_MTU,
                key=f"{key}.trace",
                written=model.trace,
            )

    def config(
        self, name: str, delay_ns: int, rtt_ns: int, changes: list[dict[str, Any]]
    ) -> dict[str, Any]:
        return {
            "id": name,
            "capacity": self._capacity(),
            "delay_ns": delay_ns,
            "queue": self._queue(rtt_ns),
            "framing": self._framing(),
            "impairments": self._impairments(),
            "changes": changes,
        }

    def _mean_bps(self) -> Fraction | None:
        if self._trace is not None:
            return self._trace.mean_bps
        return None if self._model.rate is None else Fraction(self._model.rate)

    def _capacity(self) -> dict[str, Any]:
        if self._trace is not None:
            return {"kind": "trace", "ms": self._trace.ms, "mtu": self._trace.mtu}
        if self._model.rate is not None:
            capacity = {"kind": "constant", "bps": self._model.rate}
            if self._model.shaper is not None:
                capacity["shaper_burst_bytes"] = self._model.shaper
            return capacity
        return {"kind": "unlimited"}

    def _queue(self, rtt_ns: int) -> dict[str, Any]:
        bps = self._mean_bps()
        key = f"{self._key}.queue"
        queue = self._model.queue
        if bps is None:
            if "queue" in self._model.model_fields_set:
                raise ScenarioError(key=key, expected="a link without rate or trace has no queue")
            return {"kind": "fifo", "params": {}}
        bdp = Bdp(bps * rtt_ns / (8 * 10**9), FRAME_BYTES)
        site = Site(bdp, round(bps))
        return self._registry.canonical_queue(queue.kind, queue.params, key=key, site=site)

    def _framing(self) -> dict[str, Any]:
        overhead = self._model.overhead
        if overhead is not None:
            return {"overhead": overhead.bytes, "mpu": overhead.mpu, "cells": overhead.cells}
        rate = self._model.rate is not None
        return {"overhead": OVERHEADS["ethernet-header"]["bytes"] if rate else 0}

    def _impairments(self) -> dict[str, Any]:
        model = self._model
        result: dict[str, Any] = {"duplicate": model.duplicate}
        if model.loss is not None:
            result["loss"] = _loss(model.loss)
        if model.jitter is not None:
            result["jitter"] = {
                "distribution": model.jitter.distribution,
                "amount_ns": model.jitter.amount,
                "reorder": model.jitter.reorder,
            }
        if model.ecn is not None:
            result["ecn"] = model.ecn.replace("-", "_")
        if model.ack_aggregation is not None and not isinstance(model, Path):
            result["ack_aggregation_ns"] = model.ack_aggregation
            result["ack_thinning"] = model.ack_thinning or 0
        if model.reorder is not None:
            result["reorder"] = {
                "probability": model.reorder.probability,
                "delay_ns": model.reorder.delay,
            }
        return result


def _loss(loss: Loss) -> dict[str, Any]:
    match loss:
        case GilbertElliottLoss():
            return {
                "kind": "gilbert_elliott",
                "p": loss.p,
                "r": loss.r,
                "loss_bad": loss.loss_bad,
                "loss_good": loss.loss_good,
            }
        case NthLoss():
            return {"kind": "nth", "indexes": list(loss.indexes)}
        case PeriodicLoss():
            return {"kind": "periodic", "period": loss.period}
        case _:
            return {"kind": "bernoulli", "p": loss.p}


def _change(at: int, rate: int | None, delay: int | None, loss: Loss | None) -> dict[str, Any]:
    change: dict[str, Any] = {"at_ns": at}
    if rate is not None:
        change["bps"] = rate
    if delay is not None:
        change["delay_ns"] = delay
    if loss is not None:
        change["loss"] = _loss(loss)
    return change


class _Names:
    """Unique names: what is given must be, what is not is numbered."""

    def __init__(self, given: Sequence[tuple[str, str]]) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}
        for name, key in given:
            if name in self._taken:
                raise ScenarioError(key=key, value=name, expected="there is such an id already")
            self._taken.add(name)

    def number(self, label: str) -> str:
        while True:
            number = self._next.get(label, 0) + 1
            self._next[label] = number
            name = f"{label}-{number}"
            if name not in self._taken:
                self._taken.add(name)
                return name


def _given(items: Sequence[_Item], key: str) -> list[tuple[str, str]]:
    return [
        (item.id, f"{key}[{i}].id")
        for i, item in enumerate(items)
        if item.id is not None and getattr(item, "count", 1) == 1
    ]


class _Hosts:
    """Numbers of hosts, 16 bits: first those with a name, then one for each flow without."""

    def __init__(self, flows: Sequence[Flow]) -> None:
        names = {name: None for flow in flows for name in _host_names(flow) if name is not None}
        self._numbers = {name: number for number, name in enumerate(names)}
        self._unnamed = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def fields(self, flow: Flow) -> dict[str, int]:
        """For the next flow of the scenario."""
        own = len(self._numbers) + self._unnamed % (2**16 - len(self._numbers))
        source, destination = (
            own if name is None else self._numbers[name] for name in _host_names(flow)
        )
        self._unnamed += 1
        return {"source_host": source, "destination_host": destination}


def _host_names(flow: Flow) -> tuple[str | None, str | None]:
    to = None if isinstance(flow.to, tuple) else flow.to
    return flow.host or flow.from_, flow.peer or to


def _flows(
    scenario: Scenario, ways: Sequence[Sequence[_Way]], registry: Registry, users: UsersBuilder
) -> list[dict[str, Any]]:
    names = _Names(_given(scenario.flows, "flows"))
    hosts = _Hosts(scenario.flows)
    if len(hosts) >= 2**16:
        raise ScenarioError(key="flows", expected="expected at most 65535 different hosts")
    result = []
    for i, (flow, several) in enumerate(zip(scenario.flows, ways, strict=True)):
        common = {
            "stop_ns": scenario.duration if flow.stop is None else flow.stop,
            "dscp": flow.dscp,
            "transport": _transport(flow, registry, f"flows[{i}]"),
        }
        if isinstance(flow.traffic, Users):
            traffic = users.traffic(flow, [way.hops() for way in several])
            common |= {"route": [], "reverse_route": [], "traffic": traffic}
        else:
            traffic = traffic_config(flow, scenario.directory, f"flows[{i}]")
            common |= {**several[0].fields(), "traffic": traffic}
        if flow.loss is not None:
            common["loss"] = _loss(flow.loss)
        for n in range(flow.count):
            single = flow.id if flow.count == 1 else None
            name = single or names.number(flow.id or flow.label)
            start = flow.start + n * flow.stagger
            result.append({"id": name, "start_ns": start, **common, **hosts.fields(flow)})
    return result


def _transport(flow: Flow, registry: Registry, key: str) -> dict[str, Any]:
    if flow.transport == "udp":
        assert isinstance(flow.traffic, RateTraffic)
        return {"kind": "udp", "payload_bytes": flow.traffic.chunk}
    if flow.transport != "tcp":
        return _other_transport(flow, registry, key)
    match flow.rwnd:
        case FixedWindow(bytes=size):
            rwnd: dict[str, Any] = {"kind": "fixed", "bytes": size}
        case AutoWindow(initial=initial, max=largest):
            rwnd = {"kind": "auto", "initial_bytes": initial, "max_bytes": largest}
        case _:
            rwnd = {"kind": "unlimited"}
    return {
        "kind": "tcp",
        "cc": registry.canonical_controller(
            flow.controller, flow.params, key=f"{key}.cc", params_key=f"{key}.params"
        ),
        "ecn": None if flow.ecn is None else flow.ecn.replace("-", "_"),
        "mss": flow.mss,
        "initial_window": flow.initial_window,
        "rwnd": rwnd,
        "ack_every": flow.ack_every,
        "delack_ns": flow.delack,
        "min_rto_ns": flow.min_rto,
        "idle_restart": flow.idle_restart,
        "pacing": flow.pacing,
        "timestamps": flow.timestamps,
        "prr": flow.prr,
        "tlp": flow.tlp,
        "handshake": flow.handshake,
        "syn_timeout_ns": flow.syn_timeout,
        "syn_tries": flow.syn_tries,
        "max_rate_bps": flow.max_rate,
    }


def _other_transport(flow: Flow, registry: Registry, key: str) -> dict[str, Any]:
    transport: dict[str, Any] = {
        "kind": "other",
        "transport": flow.transport,
        "label": flow.label,
        "options": registry.canonical_options(flow.transport, flow.options, key=key),
    }
    if flow.controller:
        transport["cc"] = registry.canonical_controller(
            flow.controller,
            flow.params,
            key=f"{key}.cc",
            params_key=f"{key}.params",
            transport=flow.transport,
        )
    return transport


def _probes(scenario: Scenario, ways: Sequence[_Way]) -> list[dict[str, Any]]:
    names = _Names(_given(scenario.probes, "probes"))
    return [
        {
            "id": probe.id or names.number(probe.kind),
            "kind": "ping" if probe.kind == "ping" else "one_way",
            **way.fields(),
            "interval_ns": probe.interval,
            "size_bytes": probe.size,
            "start_ns": probe.start,
            "stop_ns": scenario.duration if probe.stop is None else probe.stop,
            "dscp": probe.dscp,
        }
        for probe, way in zip(scenario.probes, ways, strict=True)
    ]


def _check_memory(
    scenario: Scenario,
    links: Sequence[dict[str, Any]],
    ways: Sequence[_Way],
    users: int,
    available: int,
) -> None:
    """Refuse what cannot fit: state per flow or user, packets in flight, recorded rows, traces."""
    count = sum(flow.count for flow in scenario.flows)
    rows = scenario.duration // scenario.interval if scenario.interval else 0
    of_flows = count * (_FLOW_BYTES + rows * _ROW_BYTES) + users * _FLOW_BYTES
    # What the narrowest link does not carry cannot be in flight behind it.
    rates = [link["capacity"]["bps"] for link in links if link["capacity"]["kind"] == "constant"]
    longest_ns = max((way.rtt_ns for way in ways), default=0)
    in_flight = min(rates, default=0) * longest_ns // (8 * 10**9 * FRAME_BYTES)
    samples = sum(scenario.duration // probe.interval for probe in scenario.probes)
    opportunities = sum(len(link["capacity"].get("ms", ())) for link in links)
    needed = (
        of_flows
        + in_flight * _PACKET_BYTES
        + (rows * len(links) + samples) * _ROW_BYTES
        + opportunities * _OPPORTUNITY_BYTES
    )
    if needed > available:
        raise ScenarioError(
            key="flows" if of_flows * 2 > needed else "",
            expected=f"needs about {needed / 2**30:.1f} GiB of memory, "
            f"of which {available / 2**30:.1f} GiB are available",
        )


def _available_bytes() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            for line in stream:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 2**63
