"""From the study's parameters to paths, users and long-lived flows of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dumbbell._registry import Registry
from dumbbell.mesonet._network import Crowd, Network, bits_per_second
from dumbbell.mesonet._parameters import ALGORITHMS, LARGE_SSTHRESH, Mesonet, exact
from dumbbell.mesonet._topology import PATH_CLASSES, Router, access_routers, path_class, routers

PAYLOAD_BYTES = 1448
"""A packet of 1500 bytes less 20 of IP, 20 of TCP and 12 of timestamps."""
GROUPS = ("alternate-fast", "alternate-normal", "tcp-fast", "tcp-normal")
FILES = ("web", "document", "service-pack", "movie")
LONG_LIVED = ("long", "medium", "short")
_PERIODS = {
    1: (("tp1", 0.4, 0.6), ("tp2", 0.6, 0.8), ("tp3", 0.8, 1.0)),
    2: (("half", 0.5, 1.0),),
}
WHOLE = "all"
"""The period that totals are over."""
_INTERVALS = 1500


def periods(mesonet: Mesonet) -> list[tuple[str, float, float]]:
    """Names, begins and ends, as fractions of the duration; the last is the whole run."""
    if mesonet.periods is None:
        found = list(_PERIODS[mesonet.experiment])
    else:
        found = [(p.name, p.from_, p.to) for p in mesonet.periods]
    return [*found, (WHOLE, 0.0, 1.0)]


def users_config(network: Network, registry: Registry, *, duration_ns: int) -> dict[str, Any]:
    """paths, flows and users of the engine's configuration: all but the links. Raises ScenarioError
    for an algorithm or parameter that there is not."""
    mesonet = network.mesonet
    paths, destinations = _paths(mesonet)
    users = _Users(mesonet, registry, duration_ns)
    flows = [users.flow(crowd, destinations[crowd.router.name]) for crowd in network.crowds()]
    pairs = mesonet.assumptions.long_lived_pairs[: mesonet.long_lived]
    flows += [
        users.long_lived(i, network, routers()[one], routers()[other])
        for i, (one, other) in enumerate(pairs)
    ]
    return {"paths": paths, "flows": flows, "users": users.record()}


def series_interval(duration_ns: int) -> int:
    """Spacing of time series where the scenario does not say: there are 172 links."""
    return max(10**6, duration_ns // _INTERVALS)


_Paths = tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]
_OF_PATHS = {"propagation", "base_sources", "scale", "receiver_distribution", "assumptions"}
"""What paths and destinations depend on."""


def _paths(mesonet: Mesonet) -> _Paths:
    """All paths, and the destinations of each access router by its name, each as likely as it has
    receivers. Not to be changed: many runs of a study share them."""
    return _paths_of(mesonet.model_dump_json(include=_OF_PATHS, by_alias=False))


@lru_cache(maxsize=4)
def _paths_of(parameters: str) -> _Paths:
    network = Network(Mesonet.model_validate_json(parameters))
    weights = {router.name: network.receivers(router) for router in access_routers()}
    routes = {
        (source, target): network.route(source, target)
        for source in access_routers()
        for target in network.reachable(source)
    }
    paths: list[dict[str, Any]] = []
    destinations: dict[str, list[dict[str, Any]]] = {name: [] for name in weights}
    for (source, target), route in routes.items():
        if weights[target.name]:
            kind = PATH_CLASSES.index(path_class(source, target))
            destinations[source.name].append(
                {"path": len(paths), "weight": weights[target.name], "class": kind}
            )
            paths.append({"route": route, "reverse_route": routes[target, source]})
    return paths, destinations


@dataclass(slots=True)
class _Users:
    """What users do and what is recorded of them."""

    mesonet: Mesonet
    registry: Registry
    duration_ns: int

    def _at(self, fraction: float) -> int:
        return round(exact(fraction) * self.duration_ns)

    def record(self) -> dict[str, Any]:
        return {
            "groups": list(GROUPS),
            "files": list(FILES),
            "classes": list(PATH_CLASSES),
            "periods": [
                {"name": name, "from_ns": self._at(begin), "to_ns": self._at(end)}
                for name, begin, end in periods(self.mesonet)
            ],
            "interval_ns": self.mesonet.measurement_interval,
            "series": self.mesonet.series,
        }

    def flow(self, crowd: Crowd, destinations: list[dict[str, Any]]) -> dict[str, Any]:
        mesonet = self.mesonet
        think_s = mesonet.think / 1e9
        law = {"kind": "exponential", "mean": think_s}
        if mesonet.assumptions.think_law == "constant":
            law = {"kind": "constant", "value": think_s}
        patience = {"kind": "constant", "value": mesonet.patience / 1e9}
        return {
            "id": crowd.id,
            "route": [],
            "reverse_route": [],
            "start_ns": 0,
            "stop_ns": self.duration_ns,
            "transport": self.transport(crowd.role, crowd.interface),
            "traffic": {
                "kind": "users",
                "count": crowd.count,
                "group": GROUPS.index(crowd.group),
                "destinations": destinations,
                "think": law,
                "patience": patience if mesonet.patience else None,
                "files": self._files(),
                "surges": self._surges(),
                "starts": self._starts(),
            },
        }

    def _files(self) -> list[dict[str, Any]]:
        mean = self.mesonet.web_object * PAYLOAD_BYTES
        shape = self.mesonet.assumptions.pareto_shape
        return [
            {
                "file": FILES.index(kind),
                "weight": weight,
                "size": {
                    "kind": "pareto",
                    "mean": mean * factor,
                    "shape": shape,
                },
            }
            for kind, (weight, factor) in self.mesonet.larger_files.kinds.items()
            if weight > 0
        ]

    def _surges(self) -> list[dict[str, Any]]:
        jumbo = self.mesonet.jumbo
        if jumbo is None:
            return []
        return [
            {
                "from_ns": self._at(jumbo.on),
                "to_ns": self._at(jumbo.off),
                "class": PATH_CLASSES.index(name),
                "factor": jumbo.factor,
            }
            for name in jumbo.classes
        ]

    def _starts(self) -> list[dict[str, Any]]:
        spacing = exact(self.mesonet.assumptions.startup_spacing) * self.mesonet.think
        return [
            {"share": share, "at_ns": round(group * spacing)}
            for group, share in enumerate(self.mesonet.startup)
        ]

    def transport(self, role: str, interface: str) -> dict[str, Any]:
        """The study's TCP: an ACK for each packet, no limit by the receiver, no HyStart."""
        mesonet, assumed = self.mesonet, self.mesonet.assumptions
        speed = exact(assumed.fast_interface if interface == "fast" else assumed.normal_interface)
        if assumed.scale_interfaces:
            speed *= exact(mesonet.scale)
        return {
            "kind": "tcp",
            "cc": self._controller(role),
            "mss": PAYLOAD_BYTES,
            "initial_window": mesonet.initial_window,
            "ack_every": 1,
            "min_rto_ns": assumed.min_rto,
            "tlp": assumed.tail_loss_probe,
            "syn_timeout_ns": assumed.syn_timeout,
            "syn_tries": assumed.syn_tries,
            "max_rate_bps": bits_per_second(speed),
        }

    def _controller(self, role: str) -> dict[str, Any]:
        mesonet = self.mesonet
        own = role == "alternate" or mesonet.only_tcp
        algorithm = mesonet.algorithm if own else mesonet.with_
        kind, params = ALGORITHMS.get(algorithm.lower(), (algorithm, {}))
        given = {**params, **(mesonet.params if own else {})}
        entry = self.registry.controllers.get(kind)
        # Alternates of the study change congestion avoidance only.
        if entry is not None and entry.param("hystart") is not None:
            given.setdefault("hystart", "classic")
        if mesonet.initial_ssthresh < LARGE_SSTHRESH:
            given.setdefault("initial_ssthresh", mesonet.initial_ssthresh)
        return self.registry.canonical_controller(
            kind,
            given,
            key="mesonet.algorithm" if own else "mesonet.with",
            params_key="mesonet.params",
        )

    def long_lived(
        self, index: int, network: Network, source: Router, target: Router
    ) -> dict[str, Any]:
        """A flow without end, of a fast host."""
        label = LONG_LIVED[index] if index < len(LONG_LIVED) else str(index + 1)
        return {
            "id": f"long-lived-{label}",
            "route": network.route(source, target),
            "reverse_route": network.route(target, source),
            "start_ns": self._at(self.mesonet.assumptions.long_lived_start),
            "stop_ns": self.duration_ns,
            "transport": self.transport("alternate", "fast"),
            "traffic": {"kind": "bulk"},
        }
