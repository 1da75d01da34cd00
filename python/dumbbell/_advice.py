"""Warnings about scenarios that run and probably do not show what they are meant to show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dumbbell._registry import Registry
from dumbbell._resolve import FRAME_BYTES
from dumbbell._units import format_rate, format_time
from dumbbell.mesonet._network import link_of

_ALWAYS_MARK = frozenset({"step", "pi2", "dualpi2", "sfb", "cake"})
"""Queues that mark whatever is ECN-capable and have no switch for it."""
_SCE = frozenset({"sce", "cnq", "lfq", "cake"})
_ECN_SIGNALS = frozenset({"ecn", "ce-fraction", "sce"})
_ROUTERS = frozenset({"xcp"})
_DIFFSERV = frozenset({"prio", "htb", "wrr", "wfq", "drr", "diffserv", "cake"})
"""Queues that may serve lower effort (RFC 8622) after the rest."""
_DELAY_TARGETS = ("codel", "cobalt", "sce", "cnq", "lfq")
"""Parts of the names of queues whose target is compared with the time of a single packet."""


def warnings(config: Mapping[str, Any], registry: Registry) -> list[str]:
    """One line for each, from the engine's configuration (:func:`dumbbell._resolve.resolve`)."""
    found = [line for link in config["links"] for line in _of_link(link, registry)]
    kinds: set[tuple[Any, ...]] = set()
    alike: set[str] = set()
    for flow in config["flows"]:
        transport = flow["transport"]
        # There may be hundreds of thousands, of which few differ in what is looked at.
        route = map(link_of, flow["route"])
        cc = transport.get("cc", {}).get("kind")
        kind = (transport.get("transport"), cc, transport.get("ecn"), *route)
        if kind in kinds:
            continue
        kinds.add(kind)
        for subject, line in _of_flow(flow, config["links"], registry):
            if subject not in alike:
                alike.add(subject)
                found.append(f"flow {flow['id']}: {line}")
    return found


def _of_link(link: Mapping[str, Any], registry: Registry) -> Iterator[str]:
    """A target below the time of one packet counts each packet as a standing queue (RFC 8289
    section 4.4)."""
    bps = link["capacity"].get("bps")
    if not bps:
        return
    packet_ns = round(FRAME_BYTES * 8e9 / bps)
    for kind, params in _queues(link["queue"], registry):
        target = params.get("target")
        if target and target < packet_ns and any(part in kind for part in _DELAY_TARGETS):
            yield (
                f"link {link['id']}: target = {format_time(target)} of {kind} is less than the "
                f"{packet_ns / 1e6:.3g}ms of one full packet at {format_rate(bps)}: it sees a "
                "queue where there is none"
            )


def _of_flow(
    flow: Mapping[str, Any], links: list[Mapping[str, Any]], registry: Registry
) -> Iterator[tuple[str, str]]:
    """What it is about (once for all flows of a kind), and the line."""
    transport = flow["transport"]
    way = [links[link_of(hop)] for hop in flow["route"]]
    route = [link["queue"] for link in way if link["capacity"]["kind"] != "unlimited"]
    kinds = ", ".join(queue["kind"] for queue in route)
    detects = transport.get("options", {}).get("shutdown") == "auto"
    served_last = not route or _has(route, _DIFFSERV, registry)
    if transport.get("transport") == "plt" and not detects and not served_last:
        yield (
            "plt",
            f"no queue on its way serves its low class after the rest ({kinds}); "
            'options = { shutdown = "auto" } finds out and does without',
        )
    entry = registry.controllers.get(transport.get("cc", {}).get("kind", ""))
    if entry is None:
        return
    if route and "feedback" in entry.signals and not _has(route, _ROUTERS, registry):
        yield (
            f"{entry.name} alone",
            f"{entry.name} obeys routers and there is none on its way ({kinds})",
        )
    mode = transport.get("ecn")
    steers_by = set(entry.signals) & {"ce-fraction", "sce"}
    if mode == "off" or (mode is None and not steers_by):
        return
    marking = [queue for queue in route if marks(queue, registry)]
    if route and not marking:
        yield (
            f"{entry.name} unmarked",
            f"{entry.name} uses ECN and no queue on its way marks ({kinds})",
        )
    elif "sce" in steers_by and not any(_sends_sce(queue, registry) for queue in marking):
        yield (
            f"{entry.name} sce",
            f"{entry.name} steers by SCE and no queue on its way sets it ({kinds})",
        )
    if mode is not None and not _ECN_SIGNALS & set(entry.signals):
        yield (
            f"{entry.name} deaf",
            f"{entry.name} does not answer marks; with ecn = {mode!r} queues mark its packets in "
            "place of dropping them, to no effect",
        )


def marks(queue: Mapping[str, Any], registry: Registry) -> bool:
    """Whether a queue, or one inside it, sets CE on ECN-capable packets."""
    return any(
        kind in _ALWAYS_MARK or params.get("ecn") is True or params.get("ce_threshold") is not None
        for kind, params in _queues(queue, registry)
    )


def _has(route: Iterable[Mapping[str, Any]], kinds: frozenset[str], registry: Registry) -> bool:
    return any(kind in kinds for queue in route for kind, _ in _queues(queue, registry))


def _sends_sce(queue: Mapping[str, Any], registry: Registry) -> bool:
    return any(
        kind in _SCE and params.get("sce") not in (False, "off")
        for kind, params in _queues(queue, registry)
    )


def _queues(
    queue: Mapping[str, Any], registry: Registry
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A queue and those inside it, with their parameters, defaults filled in."""
    entry = registry.queues[queue["kind"]]
    params = {p.name: p.default for p in entry.params} | queue["params"]
    yield queue["kind"], params
    for param in entry.params:
        if param.unit == "queue":
            yield from _queues(params[param.name], registry)
        elif param.unit == "classes":
            inner = [p for p in entry.classes if p.unit == "queue"]
            for one in params[param.name]:
                for p in inner:
                    yield from _queues(one.get(p.name, p.default), registry)
