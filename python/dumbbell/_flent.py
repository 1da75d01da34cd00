"""Flent result files (`.flent.gz`): read those of others, write ours so that Flent plots them.

A file is one JSON object: `version`, `metadata`, `x_values` (s), `results` (a series of values or
null for each name, on `x_values`) and `raw_values` (measured points, `t` in Unix seconds). TCP
series are in Mbits/s, ping series in ms, as `SERIES_META` says for each.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._errors import UsageError
from dumbbell._import import ImportFileError, read_bytes
from dumbbell._plots_data import ResultLike, by_name, columns

FORMAT_VERSION = 4
"""What we write; 1 to 4 are read."""

# Simulated time has no date. A fixed one keeps the bytes the same from run to run.
_ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
_ORIGIN_S = _ORIGIN.timestamp()
_ORIGIN_TEXT = "2000-01-01T00:00:00.000000Z"
# Flent leaves a gap rather than join points further apart than this many steps.
_LONGEST_GAP_STEPS = 5

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FlentSeries:
    """`values` is (n,) on the file's x axis, NaN where nothing was measured.

    `raw_t_s` (Unix time) and `raw_values` are the measured points as the file states them; before
    format 4 those of netperf's UDP_RR are transactions per second, not ms.
    """

    unit: str
    values: Floats
    raw_t_s: Floats
    raw_values: Floats


@dataclass(frozen=True)
class FlentFile:
    version: int
    x_s: Floats
    series: dict[str, FlentSeries]
    metadata: dict[str, Any] = field(repr=False)

    def summary(self) -> dict[str, Any]:
        """Name, host, length and, for each series, its unit, count, mean, median and 95th
        percentile.
        """
        described = {}
        for name, series in self.series.items():
            values = series.values[np.isfinite(series.values)]
            described[name] = {
                "unit": series.unit,
                "count": int(values.size),
                "mean": float(values.mean()) if values.size else None,
                "p50": float(np.percentile(values, 50)) if values.size else None,
                "p95": float(np.percentile(values, 95)) if values.size else None,
            }
        keys = ("NAME", "TITLE", "HOST", "TIME", "FLENT_VERSION")
        return {
            "version": self.version,
            "duration_s": float(self.x_s[-1]) if self.x_s.size else 0.0,
            "metadata": {key: self.metadata.get(key) for key in keys},
            "series": described,
        }


def read_flent(path: str | Path) -> FlentFile:
    """Read a Flent file of format 1 to 4. Raises ImportFileError with one line."""
    return parse_flent(read_bytes(path), str(path))


def parse_flent(data: bytes, name: str) -> FlentFile:
    """Parse the JSON of a Flent file; `name` stands in messages. Raises ImportFileError."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise ImportFileError(f"{name}: not a Flent file: no valid JSON ({reason})") from None
    if not isinstance(document, dict):
        raise ImportFileError(f"{name}: not a Flent file: expected a JSON object")
    version = document.get("version", 1)
    if (
        not isinstance(version, int)
        or isinstance(version, bool)
        or not 1 <= version <= FORMAT_VERSION
    ):
        raise ImportFileError(f"{name}: version {version!r:.40}: expected 1 to {FORMAT_VERSION}")
    metadata = _table(document, "metadata", name)
    results = _table(document, "results", name)
    raw = _table(document, "raw_values", name) if version > 1 else {}
    if not isinstance(document.get("x_values"), list):
        raise ImportFileError(f"{name}: x_values: expected a list of numbers")
    x_s = _floats(document["x_values"], f"{name}: x_values")
    if not np.isfinite(x_s).all():
        raise ImportFileError(f"{name}: x_values: expected numbers, found null")
    series_meta = metadata.get("SERIES_META")
    units = series_meta if isinstance(series_meta, dict) else {}
    series = {}
    for key, values in results.items():
        where = f"{name}: results, {key!r:.80}"
        if not isinstance(values, list) or len(values) != x_s.size:
            raise ImportFileError(
                f"{where}: expected a list of {x_s.size} values, as many as x_values"
            )
        points = raw.get(key, [])
        if not isinstance(points, list):
            raise ImportFileError(f"{name}: raw_values, {key!r:.80}: expected a list of points")
        measured = [
            p for p in points if isinstance(p, dict) and p.get("val") is not None and "t" in p
        ]
        series[key] = FlentSeries(
            unit=_unit(key, units.get(key)),
            values=_floats(values, where),
            raw_t_s=_floats([p["t"] for p in measured], f"{name}: raw_values, {key!r:.80}, t"),
            raw_values=_floats(
                [p["val"] for p in measured], f"{name}: raw_values, {key!r:.80}, val"
            ),
        )
    return FlentFile(version=version, x_s=x_s, series=series, metadata=metadata)


def _table(document: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    value = document.get(key)
    if not isinstance(value, dict):
        raise ImportFileError(f"{name}: {key}: expected a JSON object")
    return value


def _floats(values: Iterable[Any], where: str) -> Floats:
    numbers = []
    for index, value in enumerate(values):
        if value is None:
            numbers.append(math.nan)
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ImportFileError(f"{where}[{index}]: {value!r:.40}: expected a number or null")
        try:
            numbers.append(float(value))
        except OverflowError:
            raise ImportFileError(f"{where}[{index}]: expected a number below 1e308") from None
    return np.array(numbers, dtype=np.float64)


def _unit(name: str, meta: Any) -> str:
    if isinstance(meta, dict) and isinstance(meta.get("UNITS"), str):
        return str(meta["UNITS"])
    if name.endswith("::tcp_cwnd"):
        return "segments"
    if name.startswith("Ping (ms)") or name.endswith(("::tcp_rtt", "::tcp_rtt_var")):
        return "ms"
    return "Mbits/s" if name.startswith("TCP") else ""


def write_flent(result: ResultLike, path: str | Path) -> None:
    """Write a result as Flent's test `tcp_nup` would: the same bytes for the same result.

    Raises UsageError if the run recorded no TCP flow over time.
    """
    path = Path(path)
    text = json.dumps(
        flent_document(result, path.name),
        indent=2,
        sort_keys=True,
        allow_nan=False,
        ensure_ascii=True,
    )
    data = text.encode("ascii")
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def flent_document(result: ResultLike, filename: str = "dumbbell.flent.gz") -> dict[str, Any]:
    """Return the JSON object of a Flent file of format 4, named as its test `tcp_nup` does."""
    summary = result.summary
    order = [str(flow["id"]) for flow in summary["flows"]]
    datagrams = {
        str(flow["id"])
        for flow in summary["flows"]
        if str(flow.get("cc") or "udp") in ("udp", "none")
    }
    flows = [
        (name, table)
        for name, table in by_name(columns(result, "flow_series"), "flow", order)
        if name not in datagrams
    ]
    if not flows:
        raise UsageError("no TCP flow was recorded over time: a Flent file would be empty")
    x_s = np.unique(np.concatenate([table["t"] for _, table in flows]))
    writer = _Writer(x_s)
    goodput = []
    for index, (name, table) in enumerate(flows, 1):
        series = f"TCP upload::{index}"
        flow = next(flow for flow in summary["flows"] if str(flow["id"]) == name)
        mbits = table["goodput_bps"] / 1e6
        goodput.append(writer.on_axis(table["t"], mbits))
        writer.measured(
            series,
            table["t"],
            mbits,
            "Mbits/s",
            mean=flow["goodput_bps"] / 1e6,
            name=name,
            cc=flow["cc"],
        )
        writer.measured(f"{series}::tcp_cwnd", table["t"], table["cwnd"], None)
        writer.measured(f"{series}::tcp_rtt", table["t"], table["rtt_ms"], None)
    rates = np.vstack(goodput)
    counts = np.isfinite(rates).sum(axis=0)
    total = np.where(counts > 0, np.nansum(rates, axis=0), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        writer.computed("TCP upload sum", total, "Mbits/s", "SumRunner")
        writer.computed("TCP upload avg", total / counts, "Mbits/s", "AverageRunner")
        fairness = total**2 / (counts * np.nansum(rates**2, axis=0))
    writer.computed("TCP upload fairness", fairness, "Idx", "FairnessRunner")
    one_way = {
        str(probe.get("id", index))
        for index, probe in enumerate(summary.get("scenario", {}).get("probes") or [])
        if probe.get("kind") == "one_way"
    }
    pings = [p for p in by_name(columns(result, "probe_samples"), "probe") if p[0] not in one_way]
    for index, (name, table) in enumerate(pings, 1):
        series = "Ping (ms) ICMP" if index == 1 else f"Ping (ms) ICMP{index}"
        writer.measured(series, table["t"], table["delay_ms"], "ms", name=name)
    return {
        "version": FORMAT_VERSION,
        "metadata": _metadata(summary, x_s, len(flows), filename, writer.meta),
        "x_values": x_s.tolist(),
        "results": writer.results,
        "raw_values": writer.raw,
    }


class _Writer:
    """Collects series on one x axis."""

    def __init__(self, x_s: Floats) -> None:
        self.x_s = x_s
        self.step_s = float(np.median(np.diff(x_s))) if x_s.size > 1 else 1.0
        self.results: dict[str, list[float | None]] = {}
        self.raw: dict[str, list[dict[str, float]]] = {}
        self.meta: dict[str, dict[str, Any]] = {}

    def on_axis(self, t: Floats, values: Floats) -> Floats:
        finite = np.isfinite(values)
        t, values = t[finite], values[finite]
        if not t.size:
            return np.full(self.x_s.size, np.nan)
        after = np.clip(np.searchsorted(t, self.x_s), 1, max(t.size - 1, 1))
        gap = t[np.minimum(after, t.size - 1)] - t[after - 1]
        result: Floats = np.interp(self.x_s, t, values, left=np.nan, right=np.nan)
        exact = np.isin(self.x_s, t)
        result[(gap > _LONGEST_GAP_STEPS * self.step_s) & ~exact] = np.nan
        return result

    def measured(
        self,
        series: str,
        t: Floats,
        values: Floats,
        unit: str | None,
        *,
        mean: float | None = None,
        name: str | None = None,
        cc: str | None = None,
    ) -> None:
        finite = np.isfinite(values)
        self._add(series, self.on_axis(t, values))
        self.raw[series] = [
            {"t": round(_ORIGIN_S + time, 9), "val": value}
            for time, value in zip(t[finite].tolist(), values[finite].tolist(), strict=True)
        ]
        meta: dict[str, Any] = {"IDX": len(self.meta), "RUNNER": "dumbbell"}
        if unit:
            found = values[finite]
            meta["UNITS"] = unit
            meta["MEAN_VALUE"] = (
                mean if mean is not None else float(found.mean()) if found.size else None
            )
        if unit == "ms" and finite.any():
            meta |= {
                "MIN_VALUE": float(values[finite].min()),
                "MAX_VALUE": float(values[finite].max()),
            }
        if name:
            meta["NAME"] = name
        if cc:
            meta["CONG_CONTROL"] = cc
        self.meta[series] = meta

    def computed(self, series: str, values: Floats, unit: str, runner: str) -> None:
        self._add(series, values)
        self.raw[series] = []
        found = values[np.isfinite(values)]
        self.meta[series] = {
            "COMPUTED_LATE": False,
            "IDX": len(self.meta),
            "MEAN_VALUE": float(found.mean()) if found.size else None,
            "RUNNER": runner,
            "UNITS": unit,
        }

    def _add(self, series: str, values: Floats) -> None:
        self.results[series] = [
            value if math.isfinite(value) else None for value in values.tolist()
        ]


def _metadata(
    summary: Mapping[str, Any], x_s: Floats, streams: int, filename: str, series: dict[str, Any]
) -> dict[str, Any]:
    scenario = summary.get("scenario", {})
    length = float(summary.get("totals", {}).get("simulated_s") or x_s[-1])
    controllers = sorted({str(flow["cc"]) for flow in summary["flows"]})
    return {
        "BATCH_NAME": None,
        "BATCH_TIME": None,
        "BATCH_TITLE": None,
        "BATCH_UUID": None,
        "DATA_FILENAME": filename,
        "EGRESS_INFO": None,
        "FAILED_RUNNERS": 0,
        "FLENT_VERSION": f"dumbbell-{summary.get('version', 'unknown')}",
        "GATEWAYS": [],
        "HOST": "receiver",
        "HOSTS": ["receiver"],
        "HTTP_GETTER_DNS": None,
        "HTTP_GETTER_URLLIST": None,
        "HTTP_GETTER_WORKERS": None,
        "IP_ADDRS": {},
        "IP_VERSION": 4,
        "KERNEL_NAME": "dumbbell",
        "KERNEL_RELEASE": str(summary.get("version", "unknown")),
        "LENGTH": length,
        "LOCAL_HOST": "sender",
        "MODULE_VERSIONS": {},
        "NAME": "tcp_nup",
        "NOTE": f"dumbbell, backend {summary.get('backend', 'sim')}, seed {summary.get('seed')}",
        "REMOTE_METADATA": {},
        "SERIES_META": series,
        "STEP_SIZE": round(float(np.median(np.diff(x_s))), 9) if x_s.size > 1 else length,
        "SYSCTLS": {"net.ipv4.tcp_congestion_control": ",".join(controllers)},
        "T0": _ORIGIN_TEXT,
        "TEST_PARAMETERS": {"upload_streams": str(streams)},
        "TIME": _ORIGIN_TEXT,
        "TITLE": str(scenario.get("title") or ""),
        "TOTAL_LENGTH": length,
    }
