"""What RFC 7928 and RFC 7567 ask of an AQM, as statements that can be checked.

They give no numbers but the levels of congestion: what is asked is to be better than tail drop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dumbbell.papers._paper import Published, between, factor
from dumbbell.papers._rfc7928_cases import CASES, CONTENDERS, RTTS_MS, TAIL_DROP

Measures = dict[str, float | None]
"""Of one queue in one case."""
Grid = Mapping[str, Mapping[str, Measures]]
"""By case and queue."""

GOODPUT, USED = "goodput (Mbit/s)", "used (%)"
MEAN, P95, P99 = "delay mean (ms)", "delay p95 (ms)", "delay p99 (ms)"
LOST, BURSTS_LOST = "lost (%)", "bursts lost (%)"
COMPLETION, VOICE = "completion mean (s)", "voice p99 (ms)"
TOGETHER = "losing together (%)"

_LEVELS = ("mild congestion", "medium congestion", "heavy congestion")
_ECN = "medium congestion, ECN"
_UDP = ("UDP above capacity", "UDP beside Reno")
_CAPACITY = ("capacity changing every 20 s", "capacity changing every 100 ms")
_MIXED = ("bursts beside bulk", "traffic mix")
_RTT_CASES = tuple(f"RTTs of 100 and {rtt} ms" for rtt in RTTS_MS)
_LONG_FLOWS = (
    "one Reno flow", "CUBIC beside Reno", *_RTT_CASES, *_LEVELS, "both directions",
    "two bottlenecks",
)  # fmt: skip
_RENO_ALONE_USES = 75
"""Percent that one Reno flow uses of a link without any buffer: it goes from a half to the whole
and back."""

_TO_BE_TUNED = {"red", "sfb"}
"""RFC 7567 section 4.3: an AQM should do without; their thresholds in bytes and packets depend on
link and load."""
AQMS = frozenset(
    kind for kind, one in CONTENDERS.items() if one.law not in ("no law", "marks only")
) - frozenset(_TO_BE_TUNED)
FAIR = frozenset(kind for kind, one in CONTENDERS.items() if one.fair)
_MARKING = AQMS | {kind for kind, one in CONTENDERS.items() if one.law == "marks only"}
_ALL_CASES = tuple(case.name for case in CASES)


@dataclass(frozen=True)
class Statement:
    """A statement about `kinds` of queues in `cases`; the worst value is judged."""

    published: Published
    kinds: Collection[str]
    cases: Collection[str]
    value: Callable[[Grid, str, str], float | None]

    def values(self, grid: Grid, kinds: Collection[str]) -> dict[tuple[str, str], float]:
        """By queue and case."""
        return {
            (kind, case): value
            for case in self.cases
            for kind in kinds
            if kind in grid[case] and (value := self.value(grid, kind, case)) is not None
        }

    def worst(self, values: Mapping[tuple[str, str], float]) -> tuple[str, str]:
        """Where the value is that is farthest from what is asked."""
        low, high = self.published.low, self.published.high
        return max(values, key=lambda place: max(low - values[place], values[place] - high))


def judge(grid: Grid) -> list[dict[str, Any]]:
    """A row of the verdict for each statement."""
    rows = []
    for statement in STATEMENTS:
        if values := statement.values(grid, statement.kinds):
            place = statement.worst(values)
            row = statement.published.judge(values[place])
            rows.append(row | {"ours": f"{row['ours']} ({', '.join(place)})"})
    return rows


def by_queue(grid: Grid) -> list[dict[str, Any]]:
    """The worst value of each statement, a row a statement and a column a queue, also of queues
    that it is not about."""
    rows = []
    for statement in STATEMENTS:
        row: dict[str, Any] = {"statement": statement.published.what}
        for kind in next(iter(grid.values())):
            values = statement.values(grid, [kind])
            row[kind] = values[statement.worst(values)] if values else None
        rows.append(row)
    return rows


def _own(metric: str) -> Callable[[Grid, str, str], float | None]:
    return lambda grid, kind, case: grid[case][kind].get(metric)


def _to_tail_drop(metric: str) -> Callable[[Grid, str, str], float | None]:
    """The metric over that of tail drop in the same case."""
    return lambda grid, kind, case: _over(grid[case][kind][metric], grid[case][TAIL_DROP][metric])


def _ratio_of_groups(grid: Grid, kind: str, case: str) -> float | None:
    name = next(one.ratio_name for one in CASES if one.name == case)
    return grid[case][kind][name]


def _ratio_to_tail_drop(grid: Grid, kind: str, case: str) -> float | None:
    return _over(_ratio_of_groups(grid, kind, case), _ratio_of_groups(grid, TAIL_DROP, case))


def _unfairness_to_tail_drop(grid: Grid, kind: str, case: str) -> float | None:
    """How far the ratio is from one, on a logarithmic scale, over the same under tail drop."""
    ratio, other = (_ratio_of_groups(grid, one, case) for one in (kind, TAIL_DROP))
    return abs(math.log(ratio) / math.log(other)) if ratio and other else None


def _ecn_loss(grid: Grid, kind: str, case: str) -> float | None:
    return _over(grid[case][kind][LOST], grid["medium congestion"][kind][LOST])


def _over(value: float | None, other: float | None) -> float | None:
    return value / other if value is not None and other else None


STATEMENTS: tuple[Statement, ...] = (
    *(
        Statement(
            factor(f"tail drop, {name}: loss", percent, 2, unit="%",
                   source="RFC 7928 section 8.2.1"),
            {TAIL_DROP}, [name], _own(LOST),
        )
        for name, percent in zip(_LEVELS, (0.1, 0.5, 1.0), strict=True)
    ),
    Statement(
        between("mean queueing delay over tail drop's, all scenarios", high=1,
                source="RFC 7567 section 2, full queues; RFC 7928 section 2.6"),
        AQMS, _ALL_CASES, _to_tail_drop(MEAN),
    ),
    Statement(
        between("p95 of the delay over tail drop's, without unresponsive flows", high=1,
                source="RFC 7567 section 2, full queues; RFC 7928 section 2.6"),
        AQMS, [name for name in _ALL_CASES if name not in _UDP], _to_tail_drop(P95),
    ),
    Statement(
        between("p99 of the delay over tail drop's, capacity changes", high=1,
                source="RFC 7928 section 8.2.6"),
        AQMS, _CAPACITY, _to_tail_drop(P99),
    ),
    Statement(
        between("use of the link by long flows", _RENO_ALONE_USES, unit="%",
                source="RFC 7928 section 2.7; a Reno flow without buffer"),
        AQMS, _LONG_FLOWS, _own(USED),
    ),
    Statement(
        between("goodput over tail drop's, medium and heavy congestion", 0.9,
                source="RFC 7928 sections 2.5, 2.7 and 8.2; nine tenths are our choice"),
        AQMS, _LEVELS[1:], _to_tail_drop(GOODPUT),
    ),
    Statement(
        between("one queue: losing in the same round trip, over tail drop's", high=1,
                source="RFC 7567 section 2, synchronization; RFC 7928 section 2.4"),
        AQMS - FAIR, _LEVELS[1:], _to_tail_drop(TOGETHER),
    ),
    Statement(
        between("loss of bursts over tail drop's", high=1,
                source="RFC 7567 section 2, packet bursts; RFC 7928 section 7"),
        AQMS, _MIXED, _to_tail_drop(BURSTS_LOST),
    ),
    Statement(
        between("mean completion time over tail drop's", high=1,
                source="RFC 7567 section 2, interactive service; RFC 7928 section 2.1"),
        AQMS, ["initial windows of 3 and 10", *_MIXED], _to_tail_drop(COMPLETION),
    ),
    Statement(
        between("p99 of voice's delay over tail drop's", high=1,
                source="RFC 7567 section 2, interactive service; RFC 7928 section 9.1"),
        AQMS, ["traffic mix"], _to_tail_drop(VOICE),
    ),
    Statement(
        between("flow queueing: p99 of voice's delay", high=10, unit="ms",
                source="RFC 8290 section 4.2: eight quanta of other flows"),
        FAIR, ["traffic mix"], _own(VOICE),
    ),
    Statement(
        between("flow queueing: Reno's part beside UDP of 70 %, over that under tail drop", 1,
                source="RFC 7567 section 2, lock-out; RFC 7928 section 5.3"),
        FAIR, ["UDP beside Reno"], _ratio_to_tail_drop,
    ),
    Statement(
        between("flow queueing: unfairness to RTTs over tail drop's", high=1,
                source="RFC 7928 section 6; logarithms of the goodput ratios"),
        FAIR, _RTT_CASES, _unfairness_to_tail_drop,
    ),
    Statement(
        between("LEDBAT's share beside Reno over that under tail drop", 1,
                source="RFC 7928 section 5.4; Gong et al., Computer Networks 2014"),
        AQMS, ["LEDBAT beside Reno"], _ratio_to_tail_drop,
    ),
    Statement(
        between("with ECN: loss over that without", high=0.1,
                source="RFC 7567 section 4.2.1; RFC 7928 section 4.5"),
        AQMS, [_ECN], _ecn_loss,
    ),
    Statement(
        between("with ECN: p95 of the delay over tail drop's", high=1,
                source="RFC 7928 section 4.5"),
        _MARKING, [_ECN], _to_tail_drop(P95),
    ),
)  # fmt: skip
