"""The couplings of a scenario as the engine reads them: flows by index, options in its units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dumbbell._errors import ScenarioError, suggest
from dumbbell._registry import Registry
from dumbbell._scenario_coupling import Coupling


def coupling_config(
    couplings: Mapping[str, Coupling], flows: Sequence[Mapping[str, Any]], registry: Registry
) -> list[dict[str, Any]]:
    """`coupling` of the engine's configuration; `flows` are those of the configuration, with the
    ids that they have there. Raises ScenarioError."""
    indexes = {str(flow["id"]): i for i, flow in enumerate(flows)}
    taken: dict[str, str] = {}
    result = []
    for name, coupling in couplings.items():
        key = f"coupling.{name}"
        members = _members(coupling, list(indexes), key)
        for member, member_key in members.items():
            if member in taken:
                raise ScenarioError(
                    key=member_key, value=member, expected=f"it is in coupling.{taken[member]}"
                )
            taken[member] = name
        result.append(_one(name, coupling, list(members), indexes, registry, key))
    return result


def _one(
    name: str,
    coupling: Coupling,
    members: list[str],
    indexes: Mapping[str, int],
    registry: Registry,
    key: str,
) -> dict[str, Any]:
    own: dict[str, dict[str, Any]] = {member: {"flow": indexes[member]} for member in members}
    groups = {} if isinstance(coupling.groups, str) else coupling.groups
    for field, given, part in (
        ("priority", coupling.priorities, "priorities"),
        ("desired_bps", coupling.desired, "desired"),
        ("group", groups, "groups"),
    ):
        for flow, value in given.items():
            for member in _matching(flow, members, f"{key}.{part}.{flow}"):
                own[member][field] = value
    config = {
        "id": name,
        **registry.canonical_coupling(coupling.kind, coupling.options, key=key),
        "members": list(own.values()),
        "changes": sorted(_changes(coupling, members, key), key=lambda change: change["at_ns"]),
    }
    if coupling.groups == "sbd":
        config["detect"] = registry.canonical_detection(coupling.detection, key=key)
    return config


def _changes(coupling: Coupling, members: Sequence[str], key: str) -> Iterator[dict[str, Any]]:
    for i, change in enumerate(coupling.changes):
        values: dict[str, Any] = {"at_ns": change.at}
        if change.priority is not None:
            values["priority"] = change.priority
        if change.desired is not None:
            values["desired_bps"] = 0 if change.desired == "all" else change.desired
        if change.group is not None:
            values["group"] = change.group
        if change.coupled is not None:
            values["coupled"] = change.coupled
        for member in _matching(change.flow, members, f"{key}.changes[{i}].flow"):
            yield {**values, "member": members.index(member)}


def _members(coupling: Coupling, flows: Sequence[str], key: str) -> dict[str, str]:
    """The ids of its flows, and the keys that name them."""
    members: dict[str, str] = {}
    for i, name in enumerate(coupling.flows):
        for flow in _matching(name, flows, f"{key}.flows[{i}]"):
            if flow in members:
                raise ScenarioError(
                    key=f"{key}.flows[{i}]", value=name, expected=f"{members[flow]} has {flow} too"
                )
            members[flow] = f"{key}.flows[{i}]"
    return members


def _matching(name: str, flows: Sequence[str], key: str) -> list[str]:
    """The flow of this id, or those whose ids are this and a number."""
    if name in flows:
        return [name]
    found = [flow for flow in flows if _is_numbered(flow, name)]
    if not found:
        raise ScenarioError(
            key=key, value=name, expected=f"expected the id of a flow{suggest(name, flows)}"
        )
    return found


def _is_numbered(flow: str, name: str) -> bool:
    prefix, _, number = flow.rpartition("-")
    return prefix == name and number.isdigit()
