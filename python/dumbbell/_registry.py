"""Congestion controllers, queue disciplines, transports and couplings by name, with their
parameters.

The engine lists what it has; this turns the list into objects, and a user's parameters ("5ms",
"10240p") into the engine's numbers.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

from dumbbell._errors import ScenarioError, suggest
from dumbbell._units import (
    Limit,
    format_bytes,
    format_rate,
    format_time,
    parse_bytes,
    parse_dscp,
    parse_fraction,
    parse_limit,
    parse_rate,
    parse_time,
)

Kind = Literal["controller", "queue", "transport", "coupling"]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter. `unit` is time (ns), bytes, packets, segments, rate (bit/s), linkrate (the same;
    that of the link if not given), fraction, number, count, bool, choice, dscps (a list), queue (a
    table with `kind`) or classes (a list of tables); `default`, `minimum` and `maximum` are in that
    unit."""

    name: str
    unit: str
    default: Any
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def shown_default(self) -> str:
        """What a scenario gets that does not give it."""
        return "that of the link" if self.unit == "linkrate" else self.show(self.default)

    def show(self, value: Any) -> str:
        """A canonical value as a scenario would write it."""
        if isinstance(value, bool) or value is None:
            return {True: "true", False: "false", None: "-"}[value]
        if self.unit in ("queue", "classes", "dscps"):
            return _show_nested(self.unit, value)
        whole = isinstance(value, int | float) and value == int(value)
        formats: dict[str, Callable[[int], str]] = {
            "time": format_time,
            "rate": format_rate,
            "linkrate": format_rate,
            "bytes": format_bytes,
            "packets": lambda n: f"{n}p",
            "segments": str,
            "count": str,
        }
        return formats[self.unit](int(value)) if whole and self.unit in formats else str(value)


@dataclass(frozen=True, slots=True)
class Entry:
    """A controller, queue discipline, transport or coupling: its `source` is the RFC or paper it
    follows, its `signals` are what a controller steers by (loss, ecn, ce-fraction, sce, rtt,
    delivery-rate, none). The parameters of each of a queue's classes are `classes`; which
    controllers a transport takes ("window": those of TCP, "media", "none") is `controllers`; what
    the flows of a coupling share ("rate", "window", "nothing") is `shares`."""

    name: str
    summary: str
    source: str
    params: tuple[Param, ...]
    signals: tuple[str, ...] = ()
    classes: tuple[Param, ...] = ()
    controllers: str = ""
    shares: str = ""

    def param(self, name: str) -> Param | None:
        return next((p for p in self.params if p.name == name), None)


@dataclass(frozen=True, slots=True)
class Registry:
    """What the engine can build. `custom` names controllers written in Python."""

    controllers: Mapping[str, Entry]
    queues: Mapping[str, Entry]
    transports: Mapping[str, Entry] = field(default_factory=dict)
    couplings: Mapping[str, Entry] = field(default_factory=dict)
    detectors: Mapping[str, Entry] = field(default_factory=dict)
    """What finds the groups of coupled flows."""
    media: Mapping[str, Entry] = field(default_factory=dict)
    """Controllers of transports for media."""
    custom: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def from_json(
        cls,
        controllers: str,
        queues: str,
        transports: str = "[]",
        couplings: str = "[]",
        detectors: str = "[]",
        media: str = "[]",
    ) -> Registry:
        return cls(
            _entries(controllers),
            _entries(queues),
            _entries(transports),
            _entries(couplings),
            _entries(detectors),
            _entries(media),
        )

    def with_custom(self, names: frozenset[str]) -> Registry:
        return replace(self, custom=names)

    @property
    def all_controllers(self) -> dict[str, Entry]:
        """Those of TCP and those for media."""
        return {**self.controllers, **self.media}

    def canonical_controller(
        self,
        kind: str,
        params: Mapping[str, object],
        *,
        key: str,
        params_key: str,
        transport: str = "tcp",
    ) -> dict[str, Any]:
        """`{"kind", "params"}` of a transport's controller as the engine reads it. Raises
        ScenarioError."""
        if kind in self.custom:
            return {"kind": kind, "params": dict(params)}
        media = transport != "tcp" and self.transports[transport].controllers == "media"
        entries = self.media if media else self.controllers
        entry = _find(entries, "controller", kind, key, self.custom)
        return {"kind": kind, "params": self._canonical(entry, params, f"{params_key}.", None)}

    def canonical_queue(
        self,
        kind: str,
        params: Mapping[str, object],
        *,
        key: str,
        site: Site | None = None,
    ) -> dict[str, Any]:
        """`{"kind", "params"}` as the engine reads it; `site` is the link whose queue it is. Raises
        ScenarioError."""
        entry = _find(self.queues, "queue", kind, f"{key}.kind", frozenset())
        found = self._canonical(entry, params, f"{key}.", site)
        if site is not None:
            rates = [p.name for p in entry.params if p.unit == "linkrate" and p.name not in found]
            found |= dict.fromkeys(rates, site.bps)
        return {"kind": kind, "params": found}

    def canonical_options(
        self, transport: str, options: Mapping[str, object], *, key: str
    ) -> dict[str, Any]:
        """The options of a transport as the engine reads them. Raises ScenarioError."""
        entry = _find(self.transports, "transport", transport, f"{key}.transport", frozenset())
        return self._canonical(entry, options, f"{key}.options.", None)

    def canonical_coupling(
        self, kind: str, options: Mapping[str, object], *, key: str
    ) -> dict[str, Any]:
        """`{"kind", "options"}` of a coupling as the engine reads it. Raises ScenarioError."""
        entry = _find(self.couplings, "coupling", kind, f"{key}.kind", frozenset())
        return {"kind": kind, "options": self._canonical(entry, options, f"{key}.options.", None)}

    def canonical_detection(self, options: Mapping[str, object], *, key: str) -> dict[str, Any]:
        """Options of the detection of shared bottlenecks. Raises ScenarioError."""
        return self._canonical(self.detectors["sbd"], options, f"{key}.detection.", None)

    def _canonical(
        self,
        entry: Entry,
        params: Mapping[str, object],
        prefix: str,
        site: Site | None,
    ) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, value in params.items():
            key = prefix + name
            param = entry.param(name)
            if param is not None and param.unit == "queue":
                result[name] = self._nested_queue(value, key, site)
                continue
            if param is not None and param.unit == "classes":
                result[name] = self._classes(entry, value, key, site)
                continue
            try:
                param, number = _convert(entry, name, value, key, site)
            except ValueError as error:
                if isinstance(error, ScenarioError):
                    raise
                raise ScenarioError(key=key, value=value, expected=str(error)) from None
            _check_range(param, number, key, value)
            result[param.name] = number
        return result

    def _nested_queue(self, value: object, key: str, site: Site | None) -> dict[str, Any]:
        table = {"kind": value} if isinstance(value, str) else value
        if not isinstance(table, Mapping) or not isinstance(table.get("kind"), str):
            raise ScenarioError(
                key=key, value=value, expected='expected a queue, such as { kind = "codel" }'
            )
        params = {name: inner for name, inner in table.items() if name != "kind"}
        return self.canonical_queue(table["kind"], params, key=key, site=site)

    def _classes(
        self, entry: Entry, value: object, key: str, site: Site | None
    ) -> list[dict[str, Any]]:
        if not isinstance(value, Sequence) or not all(isinstance(c, Mapping) for c in value):
            raise ScenarioError(key=key, value=value, expected="expected a list of classes")
        one = Entry(f"a class of {entry.name}", "", "", entry.classes)
        return [
            self._canonical(one, given, f"{key}[{index}].", site)
            for index, given in enumerate(value)
        ]


@dataclass(frozen=True, slots=True)
class Bdp:
    """Bandwidth-delay product: payload-independent `bytes`, and full-sized frames."""

    bytes: Fraction
    frame_bytes: int

    def packets(self, multiple: Fraction) -> int:
        """Nearest whole number of full-sized frames, at least 2."""
        return max(2, _nearest(multiple * self.bytes / self.frame_bytes))

    def whole_bytes(self, multiple: Fraction) -> int:
        """Nearest whole number of bytes, at least two full-sized frames."""
        return max(2 * self.frame_bytes, _nearest(multiple * self.bytes))


@dataclass(frozen=True, slots=True)
class Site:
    """What a queue's parameters may refer to of its link: its bandwidth-delay product and its rate
    (bit/s; the mean rate of a trace)."""

    bdp: Bdp
    bps: int


def _nearest(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


@functools.cache
def builtin() -> Registry:
    """The registry of the compiled engine."""
    from dumbbell import _core

    return Registry.from_json(
        _core.controllers_json(),
        _core.queues_json(),
        _core.transports_json(),
        _core.couplings_json(),
        _core.detectors_json(),
        media=_core.media_controllers_json(),
    )


def _entries(text: str) -> dict[str, Entry]:
    return {
        item["name"]: Entry(
            name=item["name"],
            summary=item["summary"],
            source=item["source"],
            signals=tuple(item.get("signals", ())),
            params=_params(item["params"] if "params" in item else item["options"]),
            classes=_params(item.get("classes", ())),
            controllers=item.get("controllers", ""),
            shares=item.get("shares", ""),
        )
        for item in json.loads(text)
    }


def _params(items: Iterable[Mapping[str, Any]]) -> tuple[Param, ...]:
    return tuple(Param(**{**item, "choices": tuple(item.get("choices") or ())}) for item in items)


def _show_nested(unit: str, value: Any) -> str:
    match unit:
        case "queue":
            return str(value["kind"])
        case "dscps":
            return ", ".join(map(str, value)) or "none"
        case _:
            return f"{len(value)} classes" if value else "none"


def _find(
    entries: Mapping[str, Entry], what: Kind, name: str, key: str, more: frozenset[str]
) -> Entry:
    if name not in entries:
        names = [*entries, *more]
        raise ScenarioError(
            key=key, value=name, expected=f"expected the name of a {what}{suggest(name, names)}"
        )
    return entries[name]


def _convert(
    entry: Entry, name: str, value: object, key: str, site: Site | None
) -> tuple[Param, Any]:
    """The parameter meant by `name` and the value in its unit."""
    param = entry.param(name)
    sizes = {p.unit: p for p in entry.params if p.name in (name, f"{name}_{p.unit}")}
    if site is not None and (sizes.keys() & {"packets", "bytes"}):
        return _convert_limit(sizes, parse_limit(value), site)
    if param is None:
        raise ScenarioError(
            key=key,
            expected=f"{entry.name} has no such parameter"
            f"{suggest(name, [p.name for p in entry.params])}",
        )
    return param, _number(param, value)


def _convert_limit(sizes: Mapping[str, Param], limit: Limit, site: Site) -> tuple[Param, int]:
    """A size of a queue goes to the parameter that counts in its unit."""
    if limit.unit == "bdp":
        product = site.bdp
        if "packets" in sizes:
            return sizes["packets"], product.packets(limit.amount)
        return sizes["bytes"], product.whole_bytes(limit.amount)
    if limit.unit not in sizes:
        example = "333p" if "packets" in sizes else "64KiB"
        raise ValueError(f'expected {next(iter(sizes))}, such as "{example}"')
    return sizes[limit.unit], int(limit.amount)


def _number(param: Param, value: object) -> Any:
    match param.unit:
        case "time":
            return parse_time(value)
        case "rate" | "linkrate":
            return parse_rate(value)
        case "bytes":
            return parse_bytes(value)
        case "bool":
            if not isinstance(value, bool):
                raise ValueError("expected true or false")
            return value
        case "choice":
            if value not in param.choices:
                hint = suggest(str(value), param.choices)
                raise ValueError(f"expected one of {', '.join(param.choices)}{hint}")
            return value
        case "packets" | "segments":
            if isinstance(value, str) or param.unit == "packets":
                return _packets(value, param.unit)
            return _integer(value)
        case "count":
            return _integer(value)
        case "dscps":
            return [parse_dscp(dscp) for dscp in (value if isinstance(value, list) else [value])]
        case "fraction":
            return parse_fraction(value)
        case _:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError("expected a number")
            if not math.isfinite(value):
                raise ValueError("expected a finite number")
            return float(value)


def _packets(value: object, name: str) -> int:
    expected = f'expected {name}, such as "10p"'
    try:
        limit = parse_limit(value)
    except ValueError:
        raise ValueError(expected) from None
    if limit.unit != "packets":
        raise ValueError(expected)
    return int(limit.amount)


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError("expected a whole number, not negative")
    return value


def _check_range(param: Param, number: Any, key: str, value: object) -> None:
    if isinstance(number, bool | str | list):
        return
    low, high = param.minimum, param.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        if low is not None and high is not None:
            expected = f"expected from {param.show(low)} to {param.show(high)}"
        elif low is not None:
            expected = f"expected at least {param.show(low)}"
        else:
            expected = f"expected at most {param.show(high)}"
        raise ScenarioError(key=key, value=value, expected=expected)
