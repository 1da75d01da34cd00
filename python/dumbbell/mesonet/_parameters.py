"""`[mesonet]` of a scenario: the study's twenty parameters, and what had to be assumed beside them.

Each parameter has a name and the number that NIST SP 500-282 gives it (`propagation` is `x2`).
Defaults are those of experiment 2b with the lower level of each factor. What the study's public
documents do not say is under :class:`Assumptions`.
"""

from __future__ import annotations

from fractions import Fraction as Exact
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from dumbbell._errors import suggest
from dumbbell._scenario_types import Fraction, Items, Model, Name, PositiveTime, Time, fail
from dumbbell.mesonet._topology import LINKS, Class, access_routers, routers

Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
_Multiple = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
_Segments = Annotated[int, Field(ge=1, lt=2**31)]

LARGE_SSTHRESH = 2**30
"""The study's "arbitrary large" slow-start threshold, 2^31/2 packets."""
NORMAL_TCP = "tcp"
ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    "bic": ("bic", {"low_window": 14, "linux": False, "max_increment": 16, "beta": 0.8}),
    "ctcp": ("ctcp", {"low_window": 41}),
    "fast": ("fast", {"alpha": 200.0}),
    "fast-at": ("fast-at", {}),
    "hstcp": ("highspeed", {"low_window": 31, "linux": False}),
    "htcp": ("htcp", {"delta_low": "1s"}),
    "scalable": ("scalable", {"low_window": 16, "linux": False}),
    NORMAL_TCP: ("reno", {}),
}
"""The study's algorithms: our controller, and the parameters that give the study's activation
trigger (a window of 14, 41, 31 or 16 packets, or a second without loss). BIC has Linux's constants
and the paper's rules: Linux's BIC grows by at least 5 % a round trip before its first loss, and
cannot take the 18.8 s to the highest rate that the study published for single flows. Only this
choice looked at a published result."""
_TCP = (NORMAL_TCP, "reno")


def exact(value: float) -> Exact:
    """The decimal fraction that was written."""
    return Exact(repr(value))


def _also(*names: str) -> AliasChoices:
    return AliasChoices(*names)


class LargerFiles(Model):
    """What is not a Web object: with these probabilities a file of another kind, whose size is that
    of a Web object times a factor."""

    documents: Annotated[Fraction, Field(validation_alias=_also("documents", "Fp"))] = 0.02
    document_factor: Annotated[
        _Multiple, Field(validation_alias=_also("document_factor", "Fx"))
    ] = 10.0
    service_packs: Annotated[Fraction, Field(validation_alias=_also("service_packs", "Sp"))] = 0.002
    service_pack_factor: Annotated[
        _Multiple, Field(validation_alias=_also("service_pack_factor", "Sx"))
    ] = 1000.0
    movies: Annotated[Fraction, Field(validation_alias=_also("movies", "Mp"))] = 0.0002
    movie_factor: Annotated[_Multiple, Field(validation_alias=_also("movie_factor", "Mx"))] = (
        10_000.0
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.documents + self.service_packs + self.movies > 1:
            fail("expected probabilities whose sum is at most 1", "movies")
        return self

    @property
    def kinds(self) -> dict[str, tuple[float, float]]:
        """Probability and factor by kind."""
        others = self.documents + self.service_packs + self.movies
        return {
            "web": (1 - others, 1.0),
            "document": (self.documents, self.document_factor),
            "service-pack": (self.service_packs, self.service_pack_factor),
            "movie": (self.movies, self.movie_factor),
        }


class Jumbo(Model):
    """A time in which files between designated sites are larger, as fractions of the duration."""

    on: Annotated[Fraction, Field(validation_alias=_also("on", "Jon"))] = 0.6
    off: Annotated[Fraction, Field(validation_alias=_also("off", "Joff"))] = 0.8
    """The study's Joff is 0.9, its third period without jumbos begins at 0.8."""
    factor: Annotated[_Multiple, Field(validation_alias=_also("factor", "Jx"))] = 100.0
    classes: Annotated[Items[Literal["DD", "DF", "FF", "DN", "FN", "NN"]], Field(min_length=1)] = (
        "DD",
    )
    """Kinds of paths that are between designated sites. An assumption."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.off <= self.on:
            fail("expected a fraction above on", "off")
        return self


class Shares(Model):
    """Shares of the three classes of access routers; equal numbers are a third each."""

    N: Fraction
    F: Fraction
    D: Fraction

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.N == self.F == self.D and exact(self.N) + exact(self.F) + exact(self.D) != 1:
            fail("expected shares whose sum is 1")
        if self.N + self.F + self.D == 0:
            fail("expected a share above 0")
        return self

    @property
    def exact(self) -> dict[Class, Exact]:
        given: dict[Class, Exact] = {"N": exact(self.N), "F": exact(self.F), "D": exact(self.D)}
        return {name: share / sum(given.values()) for name, share in given.items()}


SHARES = {"uniform": (1.0, 1.0, 1.0), "skewed": (0.1, 0.6, 0.3)}


def _shares(value: Any) -> Any:
    if isinstance(value, dict | Shares):
        return value
    given = SHARES.get(value) if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or len(given) != 3:
        fail('expected "uniform", "skewed", or the shares of N, F and D, such as [0.1, 0.6, 0.3]')
    return dict(zip("NFD", given, strict=True))


Distribution = Annotated[Shares, BeforeValidator(_shares, json_schema_input_type=Any)]


class Speeds(Model):
    """How the routers' speeds follow from `speed`: backbone `speed` x `backbone`, PoP `speed`/s2,
    N access routers `speed`/s2/s3, F and D access routers `fast` and `direct` times that."""

    s2: _Multiple = 4.0
    s3: _Multiple = 10.0
    backbone: _Multiple = 2.0
    """The study's BBspeedup."""
    fast: _Multiple = 2.0
    """Bfast."""
    direct: _Multiple = 10.0
    """Bdirect."""


class PeriodOfRun(Model):
    """A part of the run, as fractions of the duration."""

    name: Name
    from_: Annotated[Fraction, Field(alias="from")]
    to: Fraction

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.to <= self.from_:
            fail("expected a fraction above from", "to")
        return self


class Assumptions(Model):
    """What the study's public documents leave open, and how it is filled in here."""

    link_delays: Annotated[dict[str, PositiveTime], Field(default_factory=dict)]
    """One-way delays of backbone links that differ from the calibrated ones, such as
    { "A-B" = "12ms" }."""
    pareto_shape: Annotated[float, Field(gt=1, le=1000, allow_inf_nan=False)] = 1.5
    """Shape of the Pareto law of Web objects."""
    think_law: Literal["exponential", "constant"] = "exponential"
    startup_spacing: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)] = 1.0
    """Mean think times between the groups of `startup`."""
    syn_timeout: PositiveTime = 3_000_000_000
    """First timeout of a SYN; each further one is twice as long."""
    syn_tries: Annotated[int, Field(ge=1, le=100)] = 3
    """SYNs after which a user thinks again."""
    min_rto: PositiveTime = 1_000_000_000
    """Smallest retransmission timeout (RFC 6298)."""
    fast_interface: Positive = 80.0
    """p/ms of a source's fast interface: 960 Mbit/s."""
    normal_interface: Positive = 8.0
    """p/ms of a source's normal interface: 96 Mbit/s. Receivers are never the limit."""
    scale_interfaces: bool = False
    """Whether `scale` multiplies the interfaces' speeds too."""
    ack_cost: Literal["packet", "bytes"] = "packet"
    """What an ACK costs a router: as much as a data packet, or its bytes."""
    queue_per: Literal["router", "link"] = "router"
    """router: one buffer and one speed for all that a router forwards; link: for each link out."""
    same_backbone: Literal["redraw", "turn"] = "redraw"
    """Receivers below the source's own backbone router: drawn again, or the way turns there."""
    long_lived_pairs: Items[Annotated[Items[str], Field(min_length=2, max_length=2)]] = (
        ("B0a", "K0a"),
        ("C0a", "I0a"),
        ("E0a", "F0a"),
    )
    """Access routers of the long-lived flows: long, medium, short."""
    long_lived_start: Fraction = 0.4
    """When they start, as a fraction of the duration."""
    tail_loss_probe: bool = False
    """TLP (RFC 8985), which is younger than the study."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in self.link_delays:
            if name not in LINKS:
                fail(f"there is no such link{suggest(name, LINKS)}", f"link_delays.{name}")
        for i, (one, other) in enumerate(self.long_lived_pairs):
            for end in (one, other):
                if end not in {router.name for router in access_routers()}:
                    fail("expected access routers, such as B0a", f"long_lived_pairs[{i}]")
            if routers()[one].backbone == routers()[other].backbone:
                fail("expected different backbone routers", f"long_lived_pairs[{i}]")
        return self


class Mesonet(Model):
    """The network, users and protocols of NIST SP 500-282, by its twenty parameters (x19 is the
    scenario's duration). Speeds are in packets of 1500 bytes a millisecond (p/ms)."""

    topology: Annotated[Literal["abilene"], Field(validation_alias=_also("topology", "x1"))] = (
        "abilene"
    )
    """x1: 11 backbone routers, 22 PoPs, 139 access routers."""
    propagation: Annotated[Positive, Field(validation_alias=_also("propagation", "x2"))] = 1.0
    """x2: multiplier of all propagation delays."""
    speed: Annotated[Positive, Field(validation_alias=_also("speed", "x3"))] = 800.0
    """x3: base speed s1, p/ms."""
    buffers: Annotated[
        Literal["rtt-c", "rtt-c/sqrt-n"] | Positive,
        Field(validation_alias=_also("buffers", "x4")),
    ] = "rtt-c"
    """x4: mean RTT of the backbone times the router's speed, or that divided by the root of the
    number of hosts; a number is rtt-c times it (Qfactor)."""
    qfactor: Positive = 1.0
    """Multiplies either rule."""
    sources: Annotated[Positive, Field(validation_alias=_also("sources", "x5"))] = 2.0
    """x5: multiplier of the base number of sources; receivers do not follow it."""
    base_sources: Positive = 100.0
    """Base number of sources of an access router; receivers are four times as many."""
    source_distribution: Annotated[
        Distribution, Field(validation_alias=_also("source_distribution", "x6"))
    ] = Shares(N=0.1, F=0.6, D=0.3)
    """x6: "uniform", "skewed" (0.1, 0.6, 0.3), or shares of N, F and D."""
    receiver_distribution: Annotated[
        Distribution, Field(validation_alias=_also("receiver_distribution", "x7"))
    ] = Shares(N=0.6, F=0.2, D=0.2)
    """x7: the same of receivers; default 0.6, 0.2, 0.2."""
    fast_hosts: Annotated[Fraction, Field(validation_alias=_also("fast_hosts", "x8"))] = 0.3
    """x8: share of sources with a fast interface."""
    think: Annotated[PositiveTime, Field(validation_alias=_also("think", "x9"))] = 5_000_000_000
    """x9: mean think time."""
    patience: Annotated[Time, Field(validation_alias=_also("patience", "x10"))] = 0
    """x10: after this time a user gives a transfer up; 0: never."""
    web_object: Annotated[Positive, Field(validation_alias=_also("web_object", "x11"))] = 100.0
    """x11: mean size of a Web object, packets."""
    larger_files: Annotated[LargerFiles, Field(validation_alias=_also("larger_files", "x12"))] = (
        LargerFiles()
    )
    """x12: probabilities and factors of documents, service packs and movies."""
    jumbo: Annotated[Jumbo | None, Field(validation_alias=_also("jumbo", "x13"))] = None
    """x13: a time of much larger files between designated sites; default: none."""
    long_lived: Annotated[int, Field(ge=0, le=100, validation_alias=_also("long_lived", "x14"))] = 0
    """x14: number of long-lived flows: the first of assumptions.long_lived_pairs."""
    algorithm: Name = NORMAL_TCP
    """x15: bic, ctcp, fast, fast-at, hstcp, htcp, scalable, tcp, or any controller. The study's
    have its activation triggers; all have standard slow start."""
    params: Annotated[dict[str, Any], Field(default_factory=dict)]
    """Parameters of `algorithm`, over those of the study."""
    with_: Annotated[Name, Field(alias="with")] = NORMAL_TCP
    """What sources use that do not use `algorithm`."""
    alternate_share: Annotated[
        Fraction, Field(validation_alias=_also("alternate_share", "x15"))
    ] = 1.0
    """x15: share of sources that use `algorithm`."""
    initial_window: Annotated[_Segments, Field(validation_alias=_also("initial_window", "x16"))] = 2
    """x16: initial window, packets."""
    initial_ssthresh: Annotated[
        _Segments, Field(validation_alias=_also("initial_ssthresh", "x17"))
    ] = LARGE_SSTHRESH
    """x17: initial slow-start threshold, packets; default 2^31/2, arbitrarily large."""
    measurement_interval: Annotated[
        PositiveTime, Field(validation_alias=_also("measurement_interval", "x18"))
    ] = 200_000_000
    """x18: spacing of the samples that means are made of."""
    startup: Annotated[Items[Fraction], Field(validation_alias=_also("startup", "x20"))] = (
        0.25,
        0.08,
        0.17,
    )
    """x20: shares of sources that begin in a first, second, third group; the others think first."""
    scale: Positive = 1.0
    """Multiplies both `speed` and `base_sources`, which keeps the ratios of load to capacity."""
    experiment: Literal[1, 2] = 2
    """Whose responses are computed, over whose periods: 1: tp1 (0.4 to 0.6 of the duration), tp2
    (to 0.8), tp3 (to 1) and all; 2: half (the second half) and all. Changes nothing in the
    network."""
    periods: Annotated[Items[PeriodOfRun], Field(min_length=1)] | None = None
    """Other periods, none of them "all". Those of experiment 2's responses are over the first."""
    series: bool = False
    """Record the samples themselves, not only their means."""
    speeds: Speeds = Speeds()
    """Ratios of the tiers' speeds."""
    assumptions: Annotated[Assumptions, Field(default_factory=Assumptions)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(exact(share) for share in self.startup) > 1:
            fail("expected shares whose sum is at most 1", "startup")
        names = [period.name for period in self.periods or ()]
        if len({*names, "all"}) <= len(names):
            fail('expected different names, none of them "all"', "periods")
        if self.only_tcp and self.with_.lower() not in _TCP:
            fail("expected tcp, or another algorithm than tcp", "with", value=self.with_)
        if self.long_lived > len(self.assumptions.long_lived_pairs):
            pairs = len(self.assumptions.long_lived_pairs)
            fail(f"there are {pairs} pairs in assumptions.long_lived_pairs", "long_lived")
        if self.base_sources * self.scale * self.sources > 1e6:
            fail("expected at most a million sources at a router", "base_sources")
        return self

    @property
    def only_tcp(self) -> bool:
        """Whether the algorithm under test is TCP itself, so that there is no alternate."""
        return self.algorithm.lower() in _TCP

    @property
    def controllers(self) -> list[tuple[str, str]]:
        """Keys of the algorithms, and the controllers that they are."""
        named = [("mesonet.algorithm", self.algorithm), ("mesonet.with", self.with_)]
        return [(key, ALGORITHMS.get(name.lower(), (name,))[0]) for key, name in named]
