"""Static routes through a topology."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from dumbbell._errors import ScenarioError, suggest


@dataclass(frozen=True, slots=True)
class Edge:
    """A directed link."""

    source: str
    target: str
    delay_ns: int


def nodes(edges: Sequence[Edge]) -> set[str]:
    """Names of all ends."""
    return {end for edge in edges for end in (edge.source, edge.target)}


def shortest(
    edges: Sequence[Edge], source: str, target: str, *, key: str, spread: bool = False
) -> list[int]:
    """Indexes of the links from source to target: least delay, then fewest hops, then the names
    of the nodes in order, or with `spread` a hash of those and the ends. `key` is named in the
    ScenarioError if there is no way."""
    known = nodes(edges)
    for end, node in (("from", source), ("to", target)):
        if node not in known:
            raise ScenarioError(
                key=f"{key}.{end}",
                value=node,
                expected=f"expected a node that a link names{suggest(node, known)}",
            )
    if source == target:
        raise ScenarioError(
            key=f"{key}.to", value=target, expected="expected another node than from"
        )
    leaving: dict[str, list[int]] = {}
    for index, edge in enumerate(edges):
        leaving.setdefault(edge.source, []).append(index)

    def rank(node: str) -> tuple[int, str]:
        return (crc32(f"{source} {target} {node}".encode()) if spread else 0, node)

    heap: list[tuple[int, int, tuple[tuple[int, str], ...], tuple[int, ...]]]
    heap = [(0, 0, ((0, source),), ())]
    done: set[str] = set()
    while heap:
        delay, hops, names, route = heapq.heappop(heap)
        node = names[-1][1]
        if node == target:
            return list(route)
        if node in done:
            continue
        done.add(node)
        for index in leaving.get(node, ()):
            edge = edges[index]
            if edge.target not in done:
                further = (*names, rank(edge.target))
                entry = (delay + edge.delay_ns, hops + 1, further, (*route, index))
                heapq.heappush(heap, entry)
    raise ScenarioError(
        key=f"{key}.to", value=target, expected=f'there is no route from "{source}" to this node'
    )
