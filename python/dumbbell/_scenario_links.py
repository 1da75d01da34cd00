"""The network of a scenario: one path with a bottleneck, or nodes and links."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from dumbbell._scenario_types import (
    Bytes,
    Fraction,
    Items,
    Model,
    PacketSize,
    PositiveTime,
    Rate,
    Time,
    fail,
)

OVERHEADS: dict[str, dict[str, Any]] = {
    # tc on a plain Ethernet device counts the 14-byte header.
    "none": {},
    "ethernet-header": {"bytes": 14},
    # Preamble 8, header 14, check sequence 4, inter-packet gap 12; shortest frame 64 + 20.
    "ethernet": {"bytes": 38, "mpu": 84},
    "docsis": {"bytes": 18, "mpu": 64},
    "pppoe-ptm": {"bytes": 30, "cells": "ptm"},
    "bridged-ptm": {"bytes": 22, "cells": "ptm"},
    "conservative": {"bytes": 48, "cells": "atm"},
}
"""Framing presets with the numbers of tc-cake(8); every number counts from the IP packet."""


class BernoulliLoss(Model):
    """Each packet is lost with probability `p`, independently."""

    kind: Literal["bernoulli"]
    p: Fraction


class GilbertElliottLoss(Model):
    """Two-state Markov chain stepped per packet (Gilbert 1960, Elliott 1963)."""

    kind: Literal["gilbert-elliott"]
    p: Fraction
    """Probability of going from the good to the bad state."""
    r: Fraction
    """Probability of going from the bad to the good state."""
    loss_bad: Fraction = 1.0
    """Loss probability in the bad state."""
    loss_good: Fraction = 0.0
    """Loss probability in the good state."""


class NthLoss(Model):
    """Exactly these packets are lost."""

    kind: Literal["nth"]
    indexes: Items[Annotated[int, Field(ge=0, lt=2**63)]]
    """0 is the first packet that enters the link."""


class PeriodicLoss(Model):
    """One packet in every `period` is lost."""

    kind: Literal["periodic"]
    period: Annotated[int, Field(ge=1, lt=2**63)]


def _loss(value: Any) -> Any:
    if isinstance(value, bool | str):
        fail("expected a fraction from 0 to 1, such as 0.01, or a table with a kind")
    return {"kind": "bernoulli", "p": value} if isinstance(value, int | float) else value


Loss = Annotated[
    Annotated[
        BernoulliLoss | GilbertElliottLoss | NthLoss | PeriodicLoss, Field(discriminator="kind")
    ],
    BeforeValidator(_loss, json_schema_input_type=Any),
]


class Jitter(Model):
    """Random delay added to each packet."""

    amount: PositiveTime
    """uniform: from 0 to this; exponential: mean; normal: standard deviation around 0, negative
    sums count as no delay."""
    distribution: Literal["uniform", "normal", "exponential"] = "uniform"
    reorder: bool = False
    """Whether packets may overtake each other."""


class Reorder(Model):
    """A packet is held back while later ones pass."""

    probability: Fraction
    delay: PositiveTime
    """How long it is held back."""


class Overhead(Model):
    """Bytes that the link counts beyond the IP packet: max(mpu, IP + bytes), then cells."""

    bytes: Bytes = 0
    mpu: Bytes = 0
    """Smallest size that the link counts for a packet."""
    cells: Literal["none", "atm", "ptm"] = "none"
    """atm: 48 payload bytes in each 53-byte cell; ptm: 64b/65b encoding."""

    @model_validator(mode="after")
    def _small(self) -> Self:
        for name in ("bytes", "mpu"):
            if getattr(self, name) > 1500:
                fail("expected at most 1500B", name, value=f"{getattr(self, name)}B")
        return self


def _overhead(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value in OVERHEADS:
        return {k: f"{v}B" if k != "cells" else v for k, v in OVERHEADS[value].items()}
    if not value[:1].isdigit():
        fail(f'expected bytes, such as "18B", or one of {", ".join(OVERHEADS)}')
    return {"bytes": value}


class Queue(Model):
    """A queue discipline; its parameters stand beside `kind` (see `dumbbell list queues`)."""

    model_config = ConfigDict(extra="allow")

    kind: Annotated[str, Field(min_length=1)]

    @property
    def params(self) -> dict[str, object]:
        """Parameters as written."""
        return dict(self.model_extra or {})


def _table(key: str) -> Any:
    """Lets a bare value stand for a table with only that key."""
    return BeforeValidator(
        lambda value: value if isinstance(value, dict | Model) else {key: value},
        json_schema_input_type=Any,
    )


QueueField = Annotated[Queue, _table("kind")]
JitterField = Annotated[Jitter, _table("amount")]
OverheadField = Annotated[Overhead, BeforeValidator(_overhead, json_schema_input_type=Any)]

DEFAULT_QUEUE = Queue.model_validate({"kind": "fifo", "limit": "1bdp"})


class LinkChange(Model):
    """A change at a set time, which takes effect at once."""

    at: Time
    rate: Rate | None = None
    delay: Time | None = None
    """One-way propagation delay of the link."""
    loss: Loss | None = None


class PathChange(Model):
    """A change of the path at a set time, which takes effect at once."""

    at: Time
    rate: Rate | None = None
    rtt: Time | None = None
    """Base round-trip time of the path; flows with an `rtt` of their own move by as much."""
    loss: Loss | None = None


class _Capacity(Model):
    """What a link, a path and a return path have in common."""

    rate: Rate | None = None
    """Bits a second, frames as the link counts them (`overhead`)."""
    shaper: PacketSize | None = None
    """Makes `rate` that of a token bucket with this burst in front of a fast line, as tc htb or
    tbf: a packet leaves whole when its turn comes. Without it the link is a serial line, and a
    packet has left when its last bit has."""
    trace: Annotated[str, Field(min_length=1)] | None = None
    """Mahimahi trace: a file with one delivery opportunity (milliseconds) a line, repeated.
    Relative to the scenario's file."""
    trace_mtu: PacketSize | None = None
    """Bytes of one delivery opportunity of `trace`; 1504 if not given, as in Mahimahi."""
    queue: QueueField = DEFAULT_QUEUE
    """Default: fifo with a limit of 1bdp."""
    overhead: OverheadField | None = None
    """Framing: "18B", a table, or a preset. Default: ethernet-header with `rate`, as tc counts,
    none with `trace`, as Mahimahi counts."""
    loss: Loss | None = None
    """Random loss after the transmitter: a fraction, or a table with a `kind`."""
    jitter: JitterField | None = None
    """Random extra delay; "2ms" is uniform from 0 to 2 ms without reordering."""
    reorder: Reorder | None = None
    duplicate: Fraction = 0.0
    """Probability that a packet is delivered twice."""
    ecn: Literal["bleach", "ect0-to-ect1", "ect1-to-ect0", "ce"] | None = None
    """A fault of the path that rewrites the ECN field behind the transmitter: everything becomes
    Not-ECT, one ECT the other, or all that is ECN-capable CE."""
    ack_aggregation: PositiveTime | None = None
    """ACKs wait for the next multiple of this time and leave together, as with Wi-Fi, cable or
    cellular networks; what is behind them keeps its place. Of a path: on the way back."""
    ack_thinning: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Of so many ACKs of a flow that wait together the newest replaces those before it, but not one
    that carries SACK or another ECN echo. Needs `ack_aggregation`."""

    @model_validator(mode="after")
    def _one_capacity(self) -> Self:
        if self.rate is not None and self.trace is not None:
            fail("expected either rate or trace, not both", "trace", value=self.trace)
        if self.trace_mtu is not None and self.trace is None:
            fail("needs a trace", "trace_mtu")
        if self.shaper is not None and self.rate is None:
            fail("needs a rate", "shaper")
        if self.ack_thinning is not None and self.ack_aggregation is None:
            fail("needs ack_aggregation: only ACKs that wait together are thinned", "ack_thinning")
        return self

    def _thinned_in_order(self) -> Self:
        if self.ack_thinning is not None and (
            self.reorder is not None or (self.jitter is not None and self.jitter.reorder)
        ):
            fail("does not go with reordering", "ack_thinning")
        return self


class Reverse(_Capacity):
    """The way back, for ACKs. Without `rate` or `trace` it has no limit."""

    delay: Time | None = None
    """One-way delay of the way back; default: half the round-trip time."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        return self._thinned_in_order()


class Path(_Capacity):
    """One bottleneck. Its link stands at the senders and has no delay; behind it each flow has half
    its round-trip time as delay, and the other half on the way back."""

    rtt: Time
    """Base round-trip time, without queueing and transmission."""
    reverse: Reverse | None = None
    """Default: the way back has no limit and half the round-trip time as delay."""
    changes: Items[PathChange] = ()
    """Changes of rate, rtt or loss, in the order of `at`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.rate is None and self.trace is None:
            fail('missing; expected a rate with unit, such as "50Mbit", or a trace', "rate")
        if self.trace is not None:
            for i, change in enumerate(self.changes):
                if change.rate is not None:
                    fail("a trace sets the rate already", f"changes[{i}].rate")
        if self.ack_aggregation is not None and self.reverse is not None:
            for key in ("ack_aggregation", "ack_thinning"):
                if getattr(self.reverse, key) is not None:
                    fail("the path has it already, for the way back", f"reverse.{key}")
        _ascending(self.changes)
        return self

    @property
    def way_back(self) -> Reverse | None:
        """`reverse`, with what the path itself says of ACKs."""
        if self.ack_aggregation is None:
            return self.reverse
        given = {"ack_aggregation": self.ack_aggregation, "ack_thinning": self.ack_thinning}
        return (self.reverse or Reverse()).model_copy(update=given)


class TopologyLink(_Capacity):
    """A link from one node to another."""

    from_: Annotated[str, Field(alias="from", min_length=1)]
    to: Annotated[str, Field(min_length=1)]
    id: Annotated[str, Field(min_length=1)] | None = None
    """Default: "from->to"."""
    delay: Time = 0
    """One-way propagation delay."""
    duplex: bool = True
    """Whether a second link, with the same properties, leads back."""
    changes: Items[LinkChange] = ()
    """Changes of rate, delay or loss (of the direction from -> to), in the order of `at`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.from_ == self.to:
            fail("expected another node than from", "to", value=self.to)
        _ascending(self.changes)
        if self.rate is None:
            for i, change in enumerate(self.changes):
                if change.rate is not None:
                    fail("the link has no rate to change", f"changes[{i}].rate")
        return self._thinned_in_order()


class Topology(Model):
    """Nodes and links. Routes are static: shortest by delay, then by hops, then by name."""

    kind: Literal["explicit"] = "explicit"
    nodes: Items[Annotated[str, Field(min_length=1)]] | None = None
    """If given, links may only name these."""
    links: Annotated[Items[TopologyLink], Field(min_length=1)]
    spread: bool = False
    """Of equally short routes each pair of nodes takes one by a hash of their names, as with
    equal-cost multipath, and not the first by name."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        ends: set[tuple[str, str]] = set()
        for i, link in enumerate(self.links):
            for key, node in (("from", link.from_), ("to", link.to)):
                if self.nodes is not None and node not in self.nodes:
                    fail("expected one of topology.nodes", f"links[{i}].{key}", value=node)
            both = [(link.from_, link.to), (link.to, link.from_)]
            for pair in both if link.duplex else both[:1]:
                if pair in ends:
                    fail(
                        f"there is a link {pair[0]}->{pair[1]} already "
                        "(a link leads both ways unless duplex = false)",
                        f"links[{i}]",
                    )
                ends.add(pair)
        return self


def _ascending(changes: tuple[PathChange, ...] | tuple[LinkChange, ...]) -> None:
    for i in range(1, len(changes)):
        if changes[i].at < changes[i - 1].at:
            fail("expected a time not before the previous change", f"changes[{i}].at")
