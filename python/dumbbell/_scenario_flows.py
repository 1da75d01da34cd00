"""Flows, what they send, and probes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from dumbbell._errors import suggest
from dumbbell._scenario_laws import SizeLaw, TimeLaw
from dumbbell._scenario_links import Loss
from dumbbell._scenario_media import Audio, Content, Video
from dumbbell._scenario_types import (
    Model,
    Name,
    PacketSize,
    Payload,
    PositiveTime,
    Rate,
    Size,
    Time,
    fail,
)
from dumbbell._scenario_users import Destinations, Users
from dumbbell._units import parse_dscp


class Bulk(Model):
    """Sends as fast as the transport takes, until the flow stops."""

    kind: Literal["bulk"]


class SizeTraffic(Model):
    """One transfer; its completion time is measured."""

    kind: Literal["size"]
    bytes: Size


class OnOff(Model):
    """Bursts and silences."""

    kind: Literal["onoff"]
    on: TimeLaw
    off: TimeLaw
    rate: Rate | None = None
    """Rate while on; default: as fast as the transport takes."""


class RateTraffic(Model):
    """The application writes at a constant rate."""

    kind: Literal["rate"]
    rate: Rate
    """Payload bits a second."""
    chunk: Payload = 1448
    """Bytes of each write, and of a datagram with transport udp."""


class Poisson(Model):
    """New connections at exponential intervals."""

    kind: Literal["poisson"]
    size: SizeLaw
    interval: PositiveTime | None = None
    """Mean time between arrivals."""
    load: Rate | None = None
    """Offered load, payload bits a second: sets the mean interval from the mean size."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.interval is None) == (self.load is None):
            fail("expected either interval or load", "interval")
        return self


class RequestResponse(Model):
    """On one connection: request, response (in the direction of the flow), think time, again."""

    kind: Literal["request-response"]
    request: SizeLaw
    response: SizeLaw
    think: TimeLaw


def _traffic(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


Traffic = Annotated[
    Annotated[
        Bulk
        | SizeTraffic
        | OnOff
        | RateTraffic
        | Poisson
        | RequestResponse
        | Users
        | Video
        | Content
        | Audio,
        Field(discriminator="kind"),
    ],
    BeforeValidator(_traffic, json_schema_input_type=Any),
]


class UnlimitedWindow(Model):
    kind: Literal["unlimited"]


class FixedWindow(Model):
    kind: Literal["fixed"]
    bytes: Size


class AutoWindow(Model):
    """Receive buffer auto-tuning, after Linux' dynamic right-sizing."""

    kind: Literal["auto"]
    initial: Size = 64 * 1024
    max: Size = 6 * 1024 * 1024


def _rwnd(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value in ("unlimited", "auto"):
        return {"kind": value}
    if not value[:1].isdigit():
        fail('expected "unlimited", "auto" or a size, such as "64KiB"')
    return {"kind": "fixed", "bytes": value}


ReceiveWindow = Annotated[
    Annotated[UnlimitedWindow | FixedWindow | AutoWindow, Field(discriminator="kind")],
    BeforeValidator(_rwnd, json_schema_input_type=Any),
]

_ECN_NAMES = ("auto", "off", "classic", "ce-state", "accurate", "l4s", "sce")
_ECN_ALIASES = {"dctcp": "ce-state", "accecn": "accurate"}


def _ecn(value: Any) -> str:
    if isinstance(value, bool):
        return "auto" if value else "off"
    if not isinstance(value, str):
        raise ValueError('expected true or false, or a mode, such as "accurate"')
    name = _ECN_ALIASES.get(value, value)
    if name not in _ECN_NAMES:
        raise ValueError(f"expected true or false, or a mode{suggest(value, _ECN_NAMES)}")
    return name


Ecn = Annotated[
    Literal["auto", "off", "classic", "ce-state", "accurate", "l4s", "sce"],
    BeforeValidator(
        _ecn,
        json_schema_input_type=Literal[
            "auto", "off", "classic", "ce-state", "accurate", "l4s", "sce"
        ]
        | bool,
    ),
]
"""How a flow uses ECN."""

Dscp = Annotated[
    int,
    BeforeValidator(parse_dscp),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 63}, {"type": "string"}]}
    ),
]
"""A codepoint, or its name: "ef", "af41", "cs1", "le"."""


_CONTROLLERS = {"tcp": "cubic", "plt": "reno", "rtp": "nada"}
"""What a transport has by default."""
_OF_TCP = frozenset(
    [
        "ecn",
        "mss",
        "initial_window",
        "rwnd",
        "ack_every",
        "delack",
        "min_rto",
        "idle_restart",
        "pacing",
        "timestamps",
        "prr",
        "tlp",
        "handshake",
        "syn_timeout",
        "syn_tries",
        "max_rate",
    ]
)
"""Keys of a flow that only TCP has."""


class Flow(Model):
    """One flow, or `count` equal ones."""

    id: Name | None = None
    """Default: the controller's name and a number, "cubic-1"; with `count`, this and a number."""
    transport: Literal["tcp", "udp", "rap", "tfrc", "plt", "rtp"] = "tcp"
    """See `dumbbell list transports`; udp is datagrams at a constant rate."""
    options: Annotated[dict[str, Any], Field(default_factory=dict)]
    """Options of a transport other than tcp and udp."""
    cc: Name | None = None
    """Congestion controller (see `dumbbell list controllers`); default: cubic, with plt reno, with
    rtp nada. rap and tfrc have none."""
    params: Annotated[dict[str, Any], Field(default_factory=dict)]
    """Parameters of the controller."""
    start: Time = 0
    stop: PositiveTime | None = None
    """Default: the end of the run."""
    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    stagger: Time = 0
    """Each of `count` flows starts so much after the one before."""
    size: Size | None = None
    """Short for traffic = { kind = "size", bytes = ... }."""
    traffic: Traffic | None = None
    """What it sends; default: bulk."""
    rtt: Time | None = None
    """Its own base round-trip time; default: the path's, or that of its links."""
    loss: Loss | None = None
    """Loss on its own way between the last link and the receiver."""
    dscp: Dscp = 0
    """Codepoint of its packets, a number or a name such as "ef" or "af41"."""
    host: Name | None = None
    """The user or computer that sends; flows that name the same are of one. Queues that are fair to
    hosts tell by it. Default: each flow has a host of its own."""
    peer: Name | None = None
    """The host that receives. Default of both, in a topology: the nodes `from` and `to`."""
    from_: Annotated[Name | None, Field(alias="from")] = None
    """Node of a topology that sends."""
    to: Name | Destinations | None = None
    """Node of a topology that receives; of users a list of nodes, which may have weights."""
    ecn: Ecn | None = None
    """true ("auto"): as the controller asks, mostly "classic" (RFC 3168); false ("off"): none;
    "ce-state" ("dctcp"): ECE tells the CE state of what it acknowledges (RFC 8257); "accurate":
    counters of marked packets and bytes (RFC 9768); "l4s": the same with ECT(1) (RFC 9331);
    "sce": RFC 3168 and ESCE. Default: off, but "auto" for a controller that asks for another mode
    than "classic", such as dctcp."""
    mss: Payload = 1448
    """Payload bytes of a full segment: 1500 less 20 IP, 20 TCP and 12 of timestamps."""
    initial_window: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    """Segments (RFC 6928)."""
    rwnd: ReceiveWindow | None = None
    """Receive window: "unlimited" (default), "auto" or a size."""
    ack_every: Annotated[int, Field(ge=1, le=1000)] = 2
    """An ACK for every so many segments (1: no delayed ACK)."""
    delack: Time = 40_000_000
    """Longest delay of an ACK."""
    min_rto: PositiveTime = 200_000_000
    """Smallest retransmission timeout."""
    idle_restart: bool = True
    """Restart from the initial window after idling for one RTO (RFC 5681 section 4.1)."""
    pacing: bool = False
    """Pace also a controller that sets no rate: 200 % of cwnd/srtt in slow start, then 120 %."""
    timestamps: bool = True
    prr: bool = True
    """Proportional Rate Reduction (RFC 9937)."""
    tlp: bool = True
    """Tail loss probe (RFC 8985)."""
    handshake: bool = True
    """Begin with a SYN exchange."""
    syn_timeout: PositiveTime = 1_000_000_000
    """First timeout of a SYN; each further one is twice as long."""
    syn_tries: Annotated[int, Field(ge=1, le=100)] | None = None
    """SYNs after which a connection is given up; default: never."""
    max_rate: Rate | None = None
    """IP bits a second above which it never sends: that of the host's interface."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.size is not None and self.traffic is not None:
            fail("expected either size or traffic", "size")
        if self.transport == "udp":
            if self.cc is not None:
                fail("udp has no congestion controller", "cc", value=self.cc)
            if self.params:
                fail("udp has no congestion controller", "params")
            if not isinstance(self.traffic, RateTraffic):
                fail('udp needs traffic = { kind = "rate", rate = ... }', "traffic")
        elif self.transport != "tcp":
            self._check_other()
        elif self.options:
            fail("tcp takes its options as keys of the flow", "options")
        if self.stop is not None and self.stop <= self.start:
            fail("expected a time after start", "stop")
        if isinstance(self.traffic, Video | Content | Audio) and self.transport != "rtp":
            fail(f'traffic of kind "{self.traffic.kind}" needs transport = "rtp"', "traffic")
        if isinstance(self.to, tuple) and not isinstance(self.traffic, Users):
            fail('only traffic of kind "users" has more than one destination', "to")
        return self

    def _check_other(self) -> None:
        if self.transport not in _CONTROLLERS and (self.cc or self.params):
            key = "cc" if self.cc else "params"
            fail(f"{self.transport} has no congestion controller", key, value=getattr(self, key))
        if isinstance(self.traffic, Users | RequestResponse):
            fail(f'traffic of kind "{self.traffic.kind}" needs transport = "tcp"', "traffic")
        media = self.traffic is None or isinstance(self.traffic, Bulk | Video | Content | Audio)
        if self.transport == "rtp" and (self.size is not None or not media):
            key = "traffic" if self.size is None else "size"
            fail('rtp carries traffic of kind "video", "content" or "audio"', key)
        for key in sorted(self.model_fields_set & _OF_TCP):
            fail("only tcp has it", key, value=getattr(self, key))

    @property
    def label(self) -> str:
        """What its ids begin with: the controller, or the transport, or both."""
        if self.transport in ("tcp", "rtp"):
            return self.controller
        return f"{self.transport}-{self.cc}" if self.cc else self.transport

    @property
    def controller(self) -> str:
        """Empty for a transport that has none."""
        return self.cc or _CONTROLLERS.get(self.transport, "")


class Probe(Model):
    """Small packets at regular intervals that measure delay."""

    id: Name | None = None
    """Default: the kind and a number, "ping-1"."""
    kind: Literal["ping", "udp"]
    """ping: echoed, measures the round trip; udp: one way, measures the delay to the receiver."""
    interval: PositiveTime = 100_000_000
    size: PacketSize = 84
    """Bytes of the IP packet; 84 as ping(8) sends."""
    start: Time = 0
    stop: PositiveTime | None = None
    """Default: the end of the run."""
    rtt: Time | None = None
    """Default: the path's, or that of its links."""
    dscp: Dscp = 0
    from_: Annotated[Name | None, Field(alias="from")] = None
    to: Name | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.stop is not None and self.stop <= self.start:
            fail("expected a time after start", "stop")
        return self
