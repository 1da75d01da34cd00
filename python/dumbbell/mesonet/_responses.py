"""The study's responses from what the engine records of users.

Numbers of responses are those of NIST SP 500-282: 45 for each time period and five totals in
experiment 1; 16, and the goodput of 24 groups of flows of either algorithm, in experiment 2, to
which the number of completed flows of each is added. Of the four responses that experiment 1 has
for each class of paths only the first, the goodput, is in the study's public documents; the other
three are the number of completed flows, the standard deviation of their goodputs, and their mean
size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dumbbell._plots_data import ArrowStream, columns
from dumbbell.mesonet._config import FILES, LONG_LIVED, PAYLOAD_BYTES, WHOLE, periods
from dumbbell.mesonet._parameters import Mesonet
from dumbbell.mesonet._topology import D_ROUTERS

_CLASSES = ("DD", "DF", "DN", "FF", "FN", "NN")
"""In the order of experiment 1's responses."""
_PATHS = {"very fast": ("DD",), "fast": ("DF", "FF"), "typical": ("DN", "FN", "NN")}
_FILES = ("movie", "service-pack", "document", "web")
_INTERFACES = ("fast", "normal")
_FILE_NAMES = {"web": "Web objects", "document": "documents", "service-pack": "service packs"}
_FILE_NAMES["movie"] = "movies"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Described:
    """A response: its name in a result, what it is, and its unit."""

    name: str
    meaning: str
    unit: str


def catalogue(mesonet: Mesonet) -> list[Described]:
    """All responses of a scenario, in order."""
    return [described for described, _ in _responses(mesonet)]


def responses(
    mesonet: Mesonet,
    config: Mapping[str, Any],
    table: Callable[[str], ArrowStream],
) -> dict[str, float | None]:
    """Values by name; None where nothing was to be measured, such as a goodput of a group of which
    no flow was completed. `config` is the engine's, `table` gives its tables by name (KeyError
    where there is none)."""
    measured = _Measured(mesonet, config, table)
    values = {described.name: value(measured) for described, value in _responses(mesonet)}
    return {name: float(value) if math.isfinite(value) else None for name, value in values.items()}


class _Tables:
    """What reads tables as columns."""

    summary: Mapping[str, Any] = {}

    def __init__(self, table: Callable[[str], ArrowStream]) -> None:
        self.table = table


class _Measured:
    """The engine's tables by what the study asks for."""

    def __init__(
        self,
        mesonet: Mesonet,
        config: Mapping[str, Any],
        table: Callable[[str], ArrowStream],
    ) -> None:
        tables = _Tables(table)
        self._users = _rows(columns(tables, "user_periods"))
        self._transfers = _rows(columns(tables, "transfers"))
        self._flows = columns(tables, "flow_series")
        self._links = columns(tables, "link_series")
        users = config["users"]
        self._spans = {p["name"]: (p["from_ns"], p["to_ns"]) for p in users["periods"]}
        self._interval_ns = users["interval_ns"]
        limits = {link["id"]: link["queue"]["params"]["limit"] for link in config["links"]}
        self._limits: dict[str, int] = limits

    def total(self, period: str, column: str) -> float:
        """Sum over the groups of users."""
        return float(sum(row[column] for row in self._users if row["period"] == period))

    def active(self, period: str) -> float:
        """Mean number of flows that are connected."""
        return sum(self.total(period, phase) for phase in ("slow_start", "normal", "alternate"))

    def intervals(self, period: str) -> float:
        begin, end = self._spans[period]
        return float(end - begin) / float(self._interval_ns)

    def per_interval(self, period: str, column: str) -> float:
        return self.total(period, column) / self.intervals(period)

    def mean_of_flows(self, period: str, column: str) -> float:
        """Mean over active flows of what each group has a mean of."""
        weighted = count = 0.0
        for row in self._users:
            active = row["slow_start"] + row["normal"] + row["alternate"]
            if row["period"] == period and active > 0 and math.isfinite(row[column]):
                weighted += active * row[column]
                count += active
        return _ratio(weighted, count)

    def transfers(self, period: str, **wanted: Iterable[str]) -> Iterator[Row]:
        """Rows of completed transfers of these groups, files and classes."""
        for row in self._transfers:
            if row["period"] == period and all(row[key] in of for key, of in wanted.items()):
                yield row

    def count(self, rows: Iterable[Row]) -> float:
        return float(sum(row["count"] for row in rows))

    def goodput(self, rows: Iterable[Row]) -> float:
        """Mean over transfers, packets a second."""
        found = list(rows)
        total = sum(row["goodput_bps"] for row in found)
        return _ratio(total, self.count(found)) / (8 * PAYLOAD_BYTES)

    def goodput_deviation(self, rows: Iterable[Row]) -> float:
        """Standard deviation over transfers, packets a second."""
        found = list(rows)
        count = self.count(found)
        mean = _ratio(sum(row["goodput_bps"] for row in found), count)
        square = _ratio(sum(row["goodput_bps_squared"] for row in found), count)
        return math.sqrt(max(0.0, square - mean**2)) / (8 * PAYLOAD_BYTES)

    def size(self, rows: Iterable[Row]) -> float:
        """Mean over transfers, packets."""
        found = list(rows)
        return _ratio(sum(row["bytes"] for row in found), self.count(found)) / PAYLOAD_BYTES

    def long_lived(self, period: str, label: str) -> float:
        """Goodput of a long-lived flow, packets a second."""
        mean = self._mean_in(self._flows, "flow", f"long-lived-{label}", "goodput_bps", period)
        return mean / (8 * PAYLOAD_BYTES)

    def saturation(self, period: str, router: str) -> float:
        """Mean share of a router's buffer that is taken, in its fullest queue."""
        ports = [name for name in self._limits if name.split("->")[0] == router]
        return max(
            self._mean_in(self._links, "link", name, "queue_packets", period) / self._limits[name]
            for name in ports
        )

    def _mean_in(
        self, series: Mapping[str, Any], key: str, name: str, column: str, period: str
    ) -> float:
        if not series:
            return math.nan
        begin, end = self._spans[period]
        t = series["t"]
        chosen = series[column][(series[key] == name) & (t > begin / 1e9) & (t <= end / 1e9)]
        return float(chosen.mean()) if len(chosen) else math.nan


_Value = Callable[[_Measured], float]


def _responses(mesonet: Mesonet) -> list[tuple[Described, _Value]]:
    return _experiment_1(mesonet) if mesonet.experiment == 1 else _experiment_2(mesonet)


def _macroscopic(p: str) -> dict[str, tuple[str, str, _Value]]:
    """What both experiments measure, in the words of the catalogue; periods are bound to `p`."""
    return {
        "active": ("active flows", "flows", lambda m: m.active(p)),
        "connecting": ("flows that connect", "flows", lambda m: m.total(p, "connecting")),
        "slow start": (
            "active flows in initial slow start",
            "flows",
            lambda m: m.total(p, "slow_start"),
        ),
        "normal": (
            "active flows in normal congestion avoidance",
            "flows",
            lambda m: m.total(p, "normal"),
        ),
        "alternate": (
            "active flows in the alternate algorithm's congestion avoidance",
            "flows",
            lambda m: m.total(p, "alternate"),
        ),
        "output": (
            "data packets, and SYNs, that arrive",
            "packets/interval",
            lambda m: m.per_interval(p, "arrived"),
        ),
        "completed": (
            "flows completed",
            "flows/interval",
            lambda m: m.per_interval(p, "completed"),
        ),
        "cwnd": (
            "congestion window of an active flow",
            "packets",
            lambda m: _ratio(m.total(p, "cwnd"), m.active(p)),
        ),
        "increases": (
            "increases of the congestion window of an active flow",
            "1/interval",
            lambda m: _ratio(m.per_interval(p, "cwnd_increases"), m.active(p)),
        ),
        "retransmissions": (
            "data packets that are retransmissions",
            "fraction",
            lambda m: _ratio(m.total(p, "retransmits"), m.total(p, "sent")),
        ),
        "srtt": (
            "smoothed round-trip time of an active flow",
            "ms",
            lambda m: m.mean_of_flows(p, "srtt_ms"),
        ),
        "queueing": (
            "smoothed round-trip time less propagation, of an active flow",
            "ms",
            lambda m: m.mean_of_flows(p, "queueing_ms"),
        ),
    }


def _experiment_1(mesonet: Mesonet) -> list[tuple[Described, _Value]]:
    found = []
    for period, _, _ in periods(mesonet):
        if period == WHOLE:
            continue
        numbered = dict(_numbered_1(period))
        for y in sorted(numbered):
            meaning, unit, value = numbered[y]
            found.append((Described(f"{period}.y{y}", meaning, unit), value))
    totals: list[tuple[str, str, _Value]] = [
        ("data packets sent", "packets", lambda m: m.total(WHOLE, "sent")),
        ("data packets, and SYNs, arrived", "packets", lambda m: m.total(WHOLE, "arrived")),
        ("flows connected", "flows", lambda m: m.total(WHOLE, "connected")),
        ("flows completed", "flows", lambda m: m.total(WHOLE, "completed")),
        (
            "SYNs of a flow",
            "SYNs",
            lambda m: _ratio(m.total(WHOLE, "syns"), m.total(WHOLE, "started")),
        ),
    ]
    for y, (meaning, unit, value) in enumerate(totals, start=1):
        found.append((Described(f"T.y{y}", f"{meaning}, whole run", unit), value))
    return found


def _numbered_1(p: str) -> Iterator[tuple[int, tuple[str, str, _Value]]]:
    of = _macroscopic(p)
    order = ("active", "increases", "output", "cwnd", "completed", "retransmissions", "srtt")
    for y, name in enumerate((*order, "queueing"), start=1):
        yield y, of[name]
    for y, name in enumerate(("connecting", "slow start", "normal", "alternate"), start=42):
        yield y, of[name]
    for i, kind in enumerate(_CLASSES):
        yield from enumerate(_of_class(p, kind), start=9 + 4 * i)
    for y, label in enumerate(LONG_LIVED, start=33):
        yield y, (f"goodput of the {label} long-lived flow", "packets/s", _long_lived(p, label))
    for y, router in enumerate(D_ROUTERS, start=36):
        yield y, (f"taken share of the buffer of {router}", "fraction", _saturation(p, router))


def _of_class(p: str, kind: str) -> list[tuple[str, str, _Value]]:
    def rows(m: _Measured) -> Iterator[Row]:
        return m.transfers(p, **{"class": (kind,)})

    return [
        (f"goodput of completed {kind} flows", "packets/s", lambda m: m.goodput(rows(m))),
        (f"completed {kind} flows", "flows", lambda m: m.count(rows(m))),
        (
            f"standard deviation of the goodput of completed {kind} flows",
            "packets/s",
            lambda m: m.goodput_deviation(rows(m)),
        ),
        (f"size of completed {kind} flows", "packets", lambda m: m.size(rows(m))),
    ]


def _long_lived(p: str, label: str) -> _Value:
    return lambda m: m.long_lived(p, label)


def _saturation(p: str, router: str) -> _Value:
    return lambda m: m.saturation(p, router)


def _experiment_2(mesonet: Mesonet) -> list[tuple[Described, _Value]]:
    p = next(name for name, _, _ in periods(mesonet))
    of = _macroscopic(p)
    numbered = [
        of[name]
        for name in (
            *("active", "slow start", "normal", "alternate", "connecting", "output"),
            *("completed", "cwnd", "increases", "retransmissions", "srtt"),
        )
    ]
    numbered.append(("flows completed", "flows", lambda m: m.total(p, "completed")))
    numbered += [_proportion(p, file) for file in FILES]
    found = [
        (Described(f"y{y}", meaning, unit), value)
        for y, (meaning, unit, value) in enumerate(numbered, start=1)
    ]
    for role in ("alternate", "tcp"):
        for number, group in enumerate(groups(), start=1):
            found += _of_group(p, role, number, *group)
    return found


def _of_group(
    p: str, role: str, number: int, file: str, path: str, interface: str
) -> list[tuple[Described, _Value]]:
    def rows(m: _Measured) -> Iterator[Row]:
        wanted = {"group": (f"{role}-{interface}",), "file": (file,), "class": _PATHS[path]}
        return m.transfers(p, **wanted)

    flows = f"{_FILE_NAMES[file]}, {path} path, {interface} interface, {role}"
    goodput = Described(f"{role}.g{number}", f"goodput of {flows}", "packets/s")
    count = Described(f"{role}.n{number}", f"completed flows: {flows}", "flows")
    return [(goodput, lambda m: m.goodput(rows(m))), (count, lambda m: m.count(rows(m)))]


def groups() -> list[tuple[str, str, str]]:
    """Experiment 2's 24 groups of flows in their order: file, path, interface."""
    return [(f, path, i) for f in _FILES for path in _PATHS for i in _INTERFACES]


def _proportion(p: str, file: str) -> tuple[str, str, _Value]:
    def value(m: _Measured) -> float:
        return _ratio(m.count(m.transfers(p, file=(file,))), m.count(m.transfers(p)))

    return f"completed flows that are {_FILE_NAMES[file]}", "fraction", value


def _rows(table: Mapping[str, Any]) -> list[Row]:
    names = list(table)
    return [dict(zip(names, row, strict=True)) for row in zip(*table.values(), strict=True)]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
