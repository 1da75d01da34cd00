"""Compare with runs inside a real Linux kernel: same specification, same window, same measures.

A cell is one specification; random or chaotic cells have several runs on both sides, which differ
in start times or in random numbers, and then means over the runs are compared.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import statistics
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dumbbell._plots_data import by_name, columns
from dumbbell._results import Result
from dumbbell._run import run

FRAME_BITS = 1514 * 8
"""A full frame as the kernel's queue counts it."""
SHAPER = "1600B"
"""Burst of the kernel's htb class."""
_ANY_ECT = 3
"""The mask of dualpi2 with which all ECN-capable traffic goes to the L queue."""
QDISC_TIMES = ("target", "interval", "ce_threshold")
FAST = "100Gbit"
"""A link that takes no time, behind a queue that shapes."""
SAMPLE = "50ms"
RUNS = 40
"""Fewest runs of ours in a cell with more than one flow or with a random element."""
MOVE_S = 0.001
"""By which starts move when a run of the kernel is the model for another of ours."""

GOODPUT_LIMIT = 0.05
SHARE_LIMIT = 0.10
DELAY_LIMIT_MS = 2.0
DELAY_LIMIT = 0.15
RATIO_LIMIT = 1.5
FEW_PACKETS = 10
"""Counts in a window that differ by fewer packets are taken as equal."""

Criterion = Literal["goodput", "share", "delay", "count"]


@dataclass(frozen=True, slots=True)
class KernelRun:
    """One run inside the kernel, as tests/reference/compact.py wrote it."""

    name: str
    origin: str
    spec: Mapping[str, Any]
    summary: Mapping[str, Any]
    flows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Reference:
    """All runs, by cell."""

    kernel: str
    cells: Mapping[str, Sequence[KernelRun]]


@dataclass(frozen=True, slots=True)
class OurRun:
    """One run of ours: the measures, and series for figures."""

    measures: Mapping[str, float]
    t: Sequence[float]
    cwnd: Sequence[Sequence[float]]
    goodput_mbit_1s: Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """Mean and standard deviation over runs."""

    mean: float
    deviation: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Sample:
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        return cls(statistics.fmean(values), deviation, len(values))

    @property
    def standard_error(self) -> float:
        return self.deviation / math.sqrt(self.runs)


@dataclass(frozen=True, slots=True)
class Row:
    """One measure of one cell."""

    cell: str
    measure: str
    criterion: Criterion
    kernel: Sample
    ours: Sample

    @property
    def error(self) -> float:
        """Difference relative to the kernel."""
        difference = self.ours.mean - self.kernel.mean
        return difference / self.kernel.mean if self.kernel.mean else 0.0

    @property
    def within(self) -> bool:
        kernel, ours = self.kernel.mean, self.ours.mean
        match self.criterion:
            case "goodput":
                return abs(self.error) <= GOODPUT_LIMIT
            case "share":
                return abs(self.error) <= SHARE_LIMIT
            case "delay":
                return abs(ours - kernel) <= max(DELAY_LIMIT_MS, DELAY_LIMIT * kernel)
            case "count":
                smaller, larger = sorted((kernel, ours))
                return larger - smaller < FEW_PACKETS or larger <= RATIO_LIMIT * smaller

    @property
    def standard_errors(self) -> float | None:
        """The difference in standard errors of the two means; None without repeats of both."""
        scale = math.hypot(self.kernel.standard_error, self.ours.standard_error)
        if min(self.kernel.runs, self.ours.runs) < 2 or not scale:
            return None
        return abs(self.ours.mean - self.kernel.mean) / scale


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell compared."""

    name: str
    kernel: Sequence[KernelRun]
    ours: Sequence[OurRun]
    rows: Sequence[Row]


def load_reference(path: Path) -> Reference:
    """Read what tests/reference/compact.py wrote."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    cells = {name: [KernelRun(**one) for one in runs] for name, runs in document["cells"].items()}
    return Reference(document["kernel"], cells)


def load_known_misses(path: Path) -> dict[tuple[str, str], str]:
    """Cause of each known miss, by cell and measure."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        (cell, measure): miss["cause"]
        for miss in document.get("miss", [])
        for cell in miss["cells"]
        for measure in miss["measures"]
    }


def scenario(spec: Mapping[str, Any], window_s: Sequence[float], seed: int) -> dict[str, Any]:
    """The kernel's specification as a scenario of ours.

    The kernel's bottleneck is an htb class, its sysctl tcp_slow_start_after_idle is 0, and its
    random loss is between the bottleneck and the receivers. Its SYN waits for address resolution,
    which the delays on both sides make take one round-trip time, unless the specification says that
    addresses are resolved.
    """
    ecn = bool(spec["qdisc"].get("ecn", False))
    flows = []
    for i, given in enumerate(spec["flows"]):
        rtt_ms = given.get("rtt_ms", spec["rtt_ms"])
        resolution_s = 0.0 if spec.get("resolved") else rtt_ms / 1e3
        flow = {
            "id": f"{i + 1}",
            "cc": given["cc"],
            "start": f"{given['start'] + resolution_s:.6f}s",
            "rtt": f"{rtt_ms}ms",
            "ecn": given.get("ecn", ecn),
            "idle_restart": False,
        }
        if loss := spec.get("loss"):
            flow["loss"] = loss
        flows.append(flow)
    probe = {"id": "probe", "kind": "udp", "interval": "20ms", "size": "88B"}
    rate = f"{spec['rate_mbit']}Mbit"
    queue = _queue(spec["qdisc"], ecn)
    path: dict[str, Any] = {"rtt": f"{spec['rtt_ms']}ms", "queue": queue}
    if queue["kind"] == "cake":
        # It shapes itself, and the device behind it is fast.
        path |= {"rate": FAST, "queue": {**queue, "bandwidth": rate}}
    else:
        path |= {"rate": rate, "shaper": SHAPER}
    return {
        "duration": f"{window_s[1]}s",
        "warmup": f"{window_s[0]:.6f}s",
        "interval": SAMPLE,
        "seed": seed,
        "path": path,
        "flows": flows,
        "probes": [probe] if spec.get("probe") else [],
    }


def _queue(qdisc: Mapping[str, Any], ecn: bool) -> dict[str, Any]:
    """The kernel's queue with our names, which are those of tc where it has them."""
    kind = qdisc["kind"]
    limit = {"limit": f"{qdisc['limit']}p"} if "limit" in qdisc else {}
    match kind:
        case "pfifo":
            return {"kind": "fifo", **limit}
        case "pfifo_head_drop":
            return {"kind": "fifo", "drop": "head", **limit}
        case "cake":
            flowblind = {"isolation": "flowblind"} if qdisc.get("flowblind") else {}
            besteffort = {"diffserv": "besteffort"} if qdisc.get("besteffort") else {}
            return {"kind": kind, **flowblind, **besteffort}
        case "sfq" | "sfb":
            return {"kind": kind, **limit}
        case "dualpi2":
            mask = "any_ect" if qdisc.get("ecn_mask") == _ANY_ECT else "l4s_ect"
            return {"kind": kind, "ecn_mask": mask, **limit}
        case "red":
            sizes = {key: f"{qdisc[key]}B" for key in ("min", "max", "avpkt")}
            return {
                "kind": kind,
                "ecn": ecn,
                # Linux has no gentle RED, and counts its limit in bytes.
                "gentle": False,
                "adaptive": bool(qdisc.get("adaptive")),
                "limit": f"{qdisc['limit'] * 8 // FRAME_BITS}p",
                "probability": qdisc["probability"],
                "weight": _red_weight(qdisc["burst"], qdisc["min"] / qdisc["avpkt"]),
                **sizes,
            }
        case _:
            times = {key: qdisc[key] for key in QDISC_TIMES if key in qdisc}
            linux = {"linux": True} if kind in ("pie", "fq_pie") else {}
            return {"kind": kind, "ecn": ecn, **times, **linux, **limit}


def _red_weight(burst: float, min_packets: float) -> float:
    """The weight that tc chooses for RED: the largest power of two with which a burst of so many
    packets into an empty queue stays below min (tc-red(8); Floyd and Jacobson 1993, section 6)."""
    weight = 0.5
    while (1 - (1 - weight) ** burst) / weight < burst + 1 - min_packets:
        weight /= 2
    return weight


def scenarios(runs: Sequence[KernelRun]) -> list[dict[str, Any]]:
    """What we run for a cell: the kernel's runs, each once, or where chance or chaos decides each
    equally often, with other seeds and slightly moved starts."""
    spec = runs[0].spec
    random = "loss" in spec or any(flow["cc"] == "bbr" for flow in spec["flows"])
    rounds = -(-RUNS // len(runs)) if random or len(spec["flows"]) > 1 else 1
    result: list[dict[str, Any]] = []
    for turn in range(rounds):
        for one in runs:
            first, *others = one.spec["flows"]
            moved = [{**flow, "start": flow["start"] + turn * MOVE_S} for flow in others]
            spec = {**one.spec, "flows": [first, *moved]}
            result.append(scenario(spec, one.summary["window_s"], len(result) + 1))
    return result


def measure_kernel(one: KernelRun) -> dict[str, float]:
    """The measures of a run inside the kernel."""
    summary = one.summary
    measures = {
        f"goodput {i}": float(value) for i, value in enumerate(summary["goodput_mbit"], start=1)
    }
    measures["goodput"] = sum(summary["goodput_mbit"])
    measures["queue delay"] = summary["backlog_delay_mean_ms"]
    if "probe_mean_ms" in summary:
        measures["probe delay"] = summary["probe_mean_ms"]
    measures["drops"] = summary["drops_window"]
    measures["marks"] = summary["marks_window"]
    measures["retransmissions"] = sum(flow["retrans_window"] for flow in one.flows)
    return measures


def measure(result: Result) -> OurRun:
    """The same measures of a run of ours, taken as the kernel's were."""
    summary, link = result.summary, result.summary["links"][0]
    warmup_s = result.config["warmup_ns"] / 1e9
    bottleneck = result.config["links"][0]
    bps = bottleneck["queue"]["params"].get("bandwidth", bottleneck["capacity"]["bps"])
    goodput = [flow["goodput_bps"] / 1e6 for flow in summary["flows"]]
    measures = {f"goodput {i}": value for i, value in enumerate(goodput, start=1)}
    measures["goodput"] = sum(goodput)
    series = columns(result, "link_series")
    backlog = series["queue_packets"][series["t"] >= warmup_s]
    measures["queue delay"] = float(backlog.mean()) * FRAME_BITS / bps * 1e3
    for probe in result.config["probes"]:
        samples = columns(result, "probe_samples")
        delays = samples["delay_ms"][samples["t"] >= warmup_s]
        measures["probe delay"] = float(delays.mean()) - probe["delay_ns"] / 1e6
    measures["drops"] = float(link["drops_window"])
    measures["marks"] = float(link["marks_window"])
    measures["retransmissions"] = 0.0
    cwnd, per_second, times = [], [], []
    ids = [flow["id"] for flow in summary["flows"]]
    for _, flow in by_name(columns(result, "flow_series"), "flow", ids):
        t, retransmits = flow["t"], flow["retransmits"]
        before = retransmits[t <= warmup_s]
        measures["retransmissions"] += float(retransmits[-1] - (before[-1] if before.size else 0))
        times = t.tolist()
        cwnd.append(flow["cwnd"].tolist())
        seconds = [flow["goodput_bps"][(t > s) & (t <= s + 1)] for s in range(int(t[-1]))]
        per_second.append([float(s.mean()) / 1e6 if s.size else 0.0 for s in seconds])
    return OurRun(measures, times, cwnd, per_second)


def judge(name: str, kernel: Sequence[KernelRun], ours: Sequence[OurRun]) -> list[Row]:
    """The rows of a cell."""
    theirs = [measure_kernel(one) for one in kernel]
    return [
        Row(
            name,
            key,
            criterion,
            Sample.of([one[key] for one in theirs]),
            Sample.of([one.measures[key] for one in ours]),
        )
        for key, criterion in judged(kernel[0].spec)
    ]


def judged(spec: Mapping[str, Any]) -> Iterator[tuple[str, Criterion]]:
    """What is judged in a cell, and how."""
    yield "goodput", "goodput"
    if len(spec["flows"]) > 1:
        for i in range(1, len(spec["flows"]) + 1):
            yield f"goodput {i}", "share"
    yield "queue delay", "delay"
    if spec.get("probe"):
        yield "probe delay", "delay"
    if "loss" in spec:
        # It is lost behind the bottleneck.
        yield "retransmissions", "count"
    else:
        yield "drops", "count"
    if spec["qdisc"].get("ecn"):
        yield "marks", "count"


def compare(
    reference: Reference, progress: Callable[[str, int, int], None] | None = None
) -> Iterator[Cell]:
    """Run and judge every cell; in order, on all processors.

    `progress` is told the cell that is done, and how many of how many runs are.
    """
    plans = {name: scenarios(runs) for name, runs in reference.cells.items()}
    total = sum(map(len, plans.values()))
    done = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pending = {
            name: [pool.submit(lambda plan: measure(run(plan)), plan) for plan in plan_of_cell]
            for name, plan_of_cell in plans.items()
        }
        for name, futures in pending.items():
            ours = [future.result() for future in futures]
            done += len(ours)
            if progress:
                progress(name, done, total)
            kernel = reference.cells[name]
            yield Cell(name, kernel, ours, judge(name, kernel, ours))
