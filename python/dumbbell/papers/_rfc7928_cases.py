"""What RFC 7928 has an AQM go through, and the queues that go through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dumbbell._registry import builtin

RATE = "10Mbit"
RTT = "100ms"
BUFFER_PACKETS = 83
"""One bandwidth-delay product of 10 Mbit/s and 100 ms in full-sized frames (section 3.2)."""
FAST_RATE = "100Mbit"
FAST_BUFFER_PACKETS = 826
ONE_WAY_MS = 50
_FRAME_BYTES = 1514

Law = Literal["no law", "RED, BLUE", "CoDel", "PI", "marks only"]


@dataclass(frozen=True)
class Contender:
    """A queue of the registry that is compared: what it drops or marks by, and whether it holds
    flows apart."""

    law: Law
    fair: bool = False


TAIL_DROP = "fifo"
CONTENDERS: dict[str, Contender] = {
    TAIL_DROP: Contender("no law"),
    "red": Contender("RED, BLUE"),
    "sfb": Contender("RED, BLUE"),
    "codel": Contender("CoDel"),
    "cobalt": Contender("CoDel"),
    "sce": Contender("CoDel"),
    "cnq": Contender("CoDel"),
    "pie": Contender("PI"),
    "pi2": Contender("PI"),
    "dualpi2": Contender("PI"),
    "step": Contender("marks only"),
    "sfq": Contender("no law", fair=True),
    "fq_codel": Contender("CoDel", fair=True),
    "fq_cobalt": Contender("CoDel", fair=True),
    "lfq": Contender("CoDel", fair=True),
    "cake": Contender("CoDel", fair=True),
    "fq_pie": Contender("PI", fair=True),
}
QUICK = (TAIL_DROP, "codel", "pie", "fq_codel")
"""Those of a quick run."""
NOT_COMPARED = {
    "prio": "serves classes",
    "drr": "serves classes",
    "wrr": "serves classes",
    "wfq": "serves classes",
    "bls": "serves classes",
    "diffserv": "serves classes",
    "tbf": "shapes",
    "htb": "shapes",
    "xcp": "needs XCP senders",
    "abc": "needs users with activities",
    "csfq": "needs labels from an edge",
}
"""The registry's other queues, and why this traffic says nothing of them."""


@dataclass(frozen=True)
class Case:
    """A scenario. `flows`, `probes` and `extra` are a scenario's; the flow groups `over` and
    `under` (beginnings of ids) give the ratio of mean goodputs that the RFC asks for."""

    name: str
    section: str
    flows: Sequence[Mapping[str, Any]]
    seconds: int = 100
    probes: Sequence[Mapping[str, Any]] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    over: str = ""
    under: str = ""
    bulk: str = ""
    """Beginning of the ids of equal long flows."""
    bursts: Sequence[str] = ()
    """Ids of what comes in bursts."""
    ecn: bool = False
    both_ways: bool = False
    two_queues: bool = False
    fast: bool = False

    @property
    def ratio_name(self) -> str:
        return f"{self.over} over {self.under}" if self.over else "ratio"

    @property
    def warmup_s(self) -> int:
        return self.seconds // 5

    def scenario(self, kind: str, *, seed: int, quick: bool) -> dict[str, Any]:
        """With a queue, all starts moved a little by the seed."""
        seconds = self.seconds * 2 // 5 if quick else self.seconds
        table = queue(kind, FAST_BUFFER_PACKETS if self.fast else BUFFER_PACKETS, ecn=self.ecn)
        moved = [self._flow(flow, place, seed) for place, flow in enumerate(self.flows)]
        made: dict[str, Any] = {
            "duration": f"{seconds}s",
            "warmup": f"{self.warmup_s}s",
            "interval": "100ms",
            "seed": seed,
            "flows": [cut for flow in moved if (cut := _cut(flow, seconds)) is not None],
            "probes": list(self.probes),
        }
        if self.both_ways or self.two_queues:
            made["topology"] = {"links": self._links(table)}
        else:
            made["path"] = {"rate": FAST_RATE if self.fast else RATE, "rtt": RTT, "queue": table}
            made["path"] |= self.extra
        return made

    def _flow(self, flow: Mapping[str, Any], place: int, seed: int) -> dict[str, Any]:
        start_ms = _milliseconds(flow.get("start", "0ms")) + 7 * place * seed
        ecn = {"ecn": True} if self.ecn else {}
        return {**flow, "start": f"{start_ms}ms", **ecn}

    def _links(self, table: Mapping[str, Any]) -> list[dict[str, Any]]:
        link = {"rate": RATE, "queue": table}
        if self.both_ways:
            return [{"from": "left", "to": "right", "delay": "50ms", **link}]
        return [
            {"from": "left", "to": "middle", "delay": "25ms", **link},
            {"from": "middle", "to": "right", "delay": "25ms", **link},
        ]


def queue(kind: str, packets: int, *, ecn: bool) -> dict[str, Any]:
    """A queue with its defaults and so much buffer, as a scenario has it."""
    names = {param.name: param.unit for param in builtin().queues[kind].params}
    table: dict[str, Any] = {"kind": kind}
    if names.get("limit") == "packets":
        table["limit"] = f"{packets}p"
    elif names.get("limit") == "bytes":
        table["limit"] = f"{packets * _FRAME_BYTES}B"
    if "ecn" in names:
        table["ecn"] = ecn
    return table


def _cut(flow: dict[str, Any], seconds: int) -> dict[str, Any] | None:
    """A flow in a run of so many seconds; none if it would begin later."""
    end_ms = 1000 * seconds
    if _milliseconds(flow["start"]) >= end_ms:
        return None
    late = "stop" in flow and _milliseconds(flow["stop"]) > end_ms
    return {key: value for key, value in flow.items() if not (late and key == "stop")}


def _milliseconds(time: str) -> int:
    return int(time.removesuffix("ms"))


def _reno(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "cc": "reno", **more}


def _many(count: int, start_ms: int = 0, **more: Any) -> dict[str, Any]:
    """Reno flows that start a little apart."""
    return _reno(f"reno{start_ms}", count=count, start=f"{start_ms}ms", stagger="137ms", **more)


def _level(count: int, section: str, name: str, **more: Any) -> Case:
    """One level of congestion."""
    return Case(name, section, [_many(count)], seconds=150, bulk="reno", **more)


def _pages(name: str, interval: str, start: str = "2000ms") -> dict[str, Any]:
    """Web pages: new connections that send ten segments at once."""
    size = {"kind": "pareto", "mean": "40kB", "shape": 1.2, "max": "1MB"}
    return {
        "id": name, "cc": "cubic", "initial_window": 10, "start": start,
        "traffic": {"kind": "poisson", "interval": interval, "size": size},
    }  # fmt: skip


def _constant(name: str, rate: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name, "transport": "udp", "traffic": {"kind": "rate", "rate": rate}, **more,
    }  # fmt: skip


_VIDEO = {
    "id": "video", "cc": "cubic", "start": "1000ms",
    "traffic": {"kind": "request-response", "request": "200B", "response": "400kB", "think": "1s"},
}  # fmt: skip
_LEDBAT = {"id": "ledbat", "cc": "ledbat", "params": {"target": "25ms"}}
"""With its usual target of 100 ms a buffer of 100 ms would give it nothing to yield to."""
_VOICE = {"id": "voice", "kind": "udp", "interval": "20ms", "size": "200B"}
MILD, MEDIUM, HEAVY = 3, 7, 10
"""Flows with which tail drop loses about 0.1, 0.5 and 1 % of the packets (section 8.2.1)."""
_LEVELS = (
    _many(MILD),
    *(_many(MEDIUM - MILD, start, stop=f"{start + 40_000}ms") for start in (20_000, 80_000)),
    *(_many(HEAVY - MEDIUM, start, stop=f"{start + 20_000}ms") for start in (40_000, 100_000)),
)
RTTS_MS = (5, 25, 200, 560)

CASES: tuple[Case, ...] = (
    Case("one Reno flow", "5.1.1", [_reno("reno", initial_window=3)]),
    Case(
        "initial windows of 3 and 10", "5.1.2",
        [
            _reno("long"),
            *(
                _reno(
                    f"iw{window}", initial_window=window, start="5000ms",
                    traffic={"kind": "poisson", "interval": "2s",
                             "size": {"kind": "uniform", "low": "15kB", "high": "140kB"}},
                )
                for window in (3, 10)
            ),
        ],
    ),
    Case("CUBIC beside Reno", "5.2", [{"id": "cubic", "cc": "cubic"}, _reno("reno")],
         over="cubic", under="reno"),
    Case("UDP above capacity", "5.3", [_constant("udp", "12Mbit")], seconds=50),
    Case("UDP beside Reno", "5.3", [_constant("udp", "7Mbit"), _reno("reno")],
         over="reno", under="udp"),
    Case("LEDBAT beside Reno", "5.4", [_LEDBAT, _reno("reno")],
         over="ledbat", under="reno"),
    *(
        Case(f"RTTs of 100 and {rtt} ms", "6",
             [_reno("near", count=2, rtt=RTT, stagger="137ms"),
              _reno("other", count=2, rtt=f"{rtt}ms", stagger="137ms")],
             over="other", under="near")
        for rtt in RTTS_MS
    ),
    Case("bursts beside bulk", "7",
         [_reno("bulk"), _pages("web", "700ms"), _constant("cbr", "500kbit"), _VIDEO],
         bursts=("web", "video")),
    _level(MILD, "8.2.2", "mild congestion"),
    _level(MEDIUM, "8.2.3", "medium congestion"),
    _level(HEAVY, "8.2.4", "heavy congestion"),
    Case("varying congestion", "8.2.5", _LEVELS, seconds=120),
    Case("capacity changing every 20 s", "8.2.6", [_many(MILD)], fast=True,
         extra={"changes": [{"at": f"{20 * n}s", "rate": (FAST_RATE, RATE)[n % 2]}
                            for n in range(1, 5)]}),
    Case("capacity changing every 100 ms", "8.2.6", [_many(MILD)], fast=True, seconds=50,
         extra={"changes": [{"at": f"{100 * n}ms", "rate": (FAST_RATE, RATE)[n % 2]}
                            for n in range(1, 500)]}),
    Case("traffic mix", "9.1",
         [_reno("bulk", count=2, stagger="137ms"), _pages("web", "500ms"),
          _constant("cbr", "500kbit"), _VIDEO],
         probes=[_VOICE], bursts=("web", "video")),
    Case("both directions", "9.2",
         [_reno("there", count=3, stagger="137ms", **{"from": "left", "to": "right"}),
          _reno("back", count=3, stagger="137ms", **{"from": "right", "to": "left"})],
         both_ways=True),
    _level(MEDIUM, "4.5", "medium congestion, ECN", ecn=True),
    Case("two bottlenecks", "10",
         [_reno("through", count=2, stagger="137ms", **{"from": "left", "to": "right"}),
          _reno("first", count=2, stagger="137ms", **{"from": "left", "to": "middle"}),
          _reno("second", count=2, stagger="137ms", **{"from": "middle", "to": "right"})],
         two_queues=True, over="through", under="second"),
)  # fmt: skip
