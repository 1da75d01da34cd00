"""Time dumbbell on the scenarios S1 to S6, and measure its memory.

    maturin develop --release
    python benches/speed.py --out speed.json

CPU time of `dumbbell._core.run` counts. The scenarios are those of `benches/peers.py`, as the
engine reads them; each is run without time series, as the other simulators are, and with series
every 100 ms, as users get them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from measurement import Measurement, cpu_seconds, save

from dumbbell import CongestionControl, _core
from dumbbell._plugins import Factory

MS = 1_000_000
SECOND = 1_000 * MS
IDLE_SOURCES = 10_000

Config = dict[str, Any]


def tcp(cc: str, ack_every: int) -> dict[str, Any]:
    return {"kind": "tcp", "cc": {"kind": cc}, "ack_every": ack_every}


def path(
    *, mbps: int, rtt_ms: int, queue: dict[str, Any], seconds: float, flows: list[dict[str, Any]]
) -> Config:
    """A bottleneck; flows without times of their own start in turn over 100 ms, as in the peers."""
    duration = round(seconds * SECOND)
    for i, flow in enumerate(flows):
        flow.setdefault("start_ns", MS + 100 * MS * i // len(flows))
        flow |= {
            "id": str(i),
            "route": [0],
            "reverse_route": [],
            "delay_ns": rtt_ms * MS // 2,
            "reverse_delay_ns": rtt_ms * MS // 2,
            "stop_ns": duration,
        }
    bottleneck = {
        "id": "bottleneck",
        "capacity": {"kind": "constant", "bps": mbps * 1_000_000},
        "queue": queue,
    }
    return {
        "seed": 1,
        "duration_ns": duration,
        "interval_ns": 0,
        "links": [bottleneck],
        "flows": flows,
    }


def bulk(n: int, cc: str, ack_every: int) -> list[dict[str, Any]]:
    return [{"transport": tcp(cc, ack_every)} for _ in range(n)]


def fifo(packets: int) -> dict[str, Any]:
    return {"kind": "fifo", "params": {"limit": packets}}


FQ_CODEL: dict[str, Any] = {"kind": "fq_codel"}


def s1(ack_every: int) -> Config:
    flows = bulk(10, "cubic", ack_every)
    return path(mbps=100, rtt_ms=40, queue=fifo(333), seconds=60, flows=flows)


def s2(ack_every: int) -> Config:
    flows = bulk(100, "cubic", ack_every)
    return path(mbps=1_000, rtt_ms=20, queue=fifo(1667), seconds=20, flows=flows)


def s3(ack_every: int) -> Config:
    flows = bulk(1, "cubic", ack_every)
    return path(mbps=10_000, rtt_ms=100, queue=fifo(41_667), seconds=20, flows=flows)


def s4(ack_every: int) -> Config:
    payload = 172  # 200 bytes with the IP and UDP headers
    voice = {
        "transport": {"kind": "udp", "payload_bytes": payload},
        "traffic": {"kind": "constant_rate", "bps": payload * 8 * 50, "chunk_bytes": payload},
    }
    flows = [*bulk(2, "reno", ack_every), voice]
    return path(mbps=50, rtt_ms=80, queue=FQ_CODEL, seconds=60, flows=flows)


def s5(ack_every: int) -> Config:
    web = {
        "start_ns": 0,
        "transport": tcp("cubic", ack_every),
        "traffic": {
            "kind": "poisson",
            "rate_hz": 250.0,
            "size": {"kind": "pareto", "mean": 30_000.0, "shape": 1.2},
        },
    }
    return path(mbps=100, rtt_ms=40, queue=FQ_CODEL, seconds=60, flows=[web])


def s6(ack_every: int) -> Config:
    flows = bulk(4, "bbr", ack_every)
    return path(mbps=100, rtt_ms=20, queue=fifo(167), seconds=60, flows=flows)


SCENARIOS: dict[str, Callable[[int], Config]] = {
    "S1": s1,
    "S2": s2,
    "S3": s3,
    "S4": s4,
    "S5": s5,
    "S6": s6,
}

VARIANTS: dict[str, tuple[int, int]] = {
    "delayed ACKs": (2, 0),
    "ACK of every packet": (1, 0),
    "delayed ACKs, series every 100 ms": (2, 100 * MS),
}
"""ACK every n packets, spacing of time series in ns."""


def time_scenario(scenario: str, runs: int) -> Iterator[Measurement]:
    configs = {
        variant: SCENARIOS[scenario](ack_every) | {"interval_ns": interval}
        for variant, (ack_every, interval) in VARIANTS.items()
    }
    times: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    links: dict[str, Any] = {}
    # In turn, so that what else the machine does meets all variants alike.
    for _ in range(runs):
        for variant, config in configs.items():
            text = json.dumps(config)
            before = cpu_seconds()
            result = _core.run(text)
            times[variant].append(cpu_seconds() - before)
            links[variant] = json.loads(result.summary_json())["links"][0]
    for variant, link in links.items():
        yield Measurement(
            simulator="dumbbell",
            version=_core.version(),
            scenario=scenario,
            variant=variant,
            simulated_s=configs[variant]["duration_ns"] / SECOND,
            packets=link["packets"],
            cpu_s=times[variant],
            note=f"utilisation {link['utilisation'] * 100:.2f} %",
        )


def peak_rss(config: Config) -> tuple[int, int]:
    """Bytes of resident memory of a fresh process before a run, and at its peak."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        child = subprocess.run(
            [sys.executable, __file__, "--child", file.name],
            check=True,
            capture_output=True,
            text=True,
        )
    before, peak = json.loads(child.stdout)
    return before, peak


def high_water() -> int:
    """Peak of this process's resident memory; `ru_maxrss` would start at the parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def child(file: Path) -> None:
    """Run a configuration; print the peak of resident memory before and after."""
    text = file.read_text()
    before = high_water()
    _core.run(text)
    print(json.dumps([before, high_water()]))


def sources(n: int, traffic: Config) -> Config:
    flows = [
        {"start_ns": 10 * SECOND * i // n, "transport": tcp("cubic", 2), "traffic": traffic}
        for i in range(n)
    ]
    return path(mbps=10_000, rtt_ms=40, queue=fifo(10_000), seconds=20, flows=flows)


THINKING: Config = {
    "kind": "poisson",
    "rate_hz": 1 / 3600,
    "size": {"kind": "pareto", "mean": 12_000.0, "shape": 1.2},
}
"""A source of web pages, each over a connection of its own, an hour apart."""

CONNECTED: Config = {
    "kind": "request_response",
    "request": {"kind": "constant", "value": 300.0},
    "response": {"kind": "constant", "value": 12_000.0},
    "think": {"kind": "constant", "value": 3600.0},
}
"""One that keeps its connection open after a first page."""


def memory() -> dict[str, float]:
    def growth(config: Config) -> int:
        before, peak = peak_rss(config)
        return peak - before

    def each(traffic: Config) -> float:
        many, one = growth(sources(IDLE_SOURCES, traffic)), growth(sources(1, traffic))
        return (many - one) / IDLE_SOURCES

    s3_before, s3_peak = peak_rss(s3(2))
    return {
        "bytes_per_idle_source": each(THINKING),
        "bytes_per_connected_source": each(CONNECTED),
        "s3_peak_rss_mib": s3_peak / 2**20,
        "s3_rss_before_run_mib": s3_before / 2**20,
    }


class FixedWindow(CongestionControl):
    """The least that a controller in Python can do."""

    segments = 500
    acks = 0

    def on_ack(self, ack: _core.Ack) -> None:
        FixedWindow.acks += 1
        self.cwnd = self.segments * ack.mss


def python_controller(runs: int) -> dict[str, float]:
    """ACKs a CPU second through a controller in Python, and the same with a built-in one."""
    best: dict[str, float] = {}
    for name, cc in {
        "python": {"kind": "mine"},
        "built_in": {"kind": "fixed", "params": {"window": FixedWindow.segments}},
    }.items():
        flow = {"transport": {"kind": "tcp", "cc": cc}}
        config = path(mbps=1_000, rtt_ms=20, queue=fifo(2_000), seconds=60, flows=[flow])
        for _ in range(runs):
            FixedWindow.acks = 0
            before = cpu_seconds()
            result = _core.run(json.dumps(config), {"mine": lambda params: FixedWindow(**params)})
            spent = cpu_seconds() - before
            packets = json.loads(result.summary_json())["links"][0]["packets"]
            # Both have the same window, so as many packets; ACKs are counted where they can be.
            acks = FixedWindow.acks or packets / 2
            best[name] = max(best.get(name, 0.0), acks / spent)
    return {f"{name}_controller_acks_per_cpu_s": rate for name, rate in best.items()}


def compiled_controller(runs: int) -> dict[str, float]:
    """Run time with AIMD compiled by Numba, over that with the built-in Reno, which does the same.

    The median of as many pairs, so that what else the machine does meets both alike.
    """
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    from aimd_compiled import AimdCompiled

    def spent(cc: str, ack_every: int) -> tuple[float, int]:
        flows = bulk(10, cc, ack_every)
        config = path(mbps=100, rtt_ms=40, queue=fifo(333), seconds=60, flows=flows)
        before = cpu_seconds()
        result = _core.run(json.dumps(config), {"aimd": Factory(AimdCompiled)})
        seconds = cpu_seconds() - before
        return seconds, json.loads(result.summary_json())["links"][0]["packets"]

    ratios = {}
    spent("aimd", 1)  # compiles it
    for name, ack_every in {"delayed_acks": 2, "every_ack": 1}.items():
        pairs = [(spent("aimd", ack_every), spent("reno", ack_every)) for _ in range(5 * runs)]
        assert all(ours[1] == theirs[1] for ours, theirs in pairs)
        ratios[name] = median(ours[0] / theirs[0] for ours, theirs in pairs)
    return {f"compiled_over_built_in_{name}": ratio for name, ratio in ratios.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=sorted(SCENARIOS), help="time just this scenario")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return 0
    measurements = []
    for scenario in [arguments.only] if arguments.only else SCENARIOS:
        for result in time_scenario(scenario, arguments.runs):
            measurements.append(result)
            print(
                f"{scenario} ({result.variant}): {result.kpps_best:.0f} thousand packets per CPU "
                f"second (median {result.kpps_median:.0f}), {result.note}",
                file=sys.stderr,
            )
    extra: dict[str, Any] = {}
    if not arguments.only:
        controllers = python_controller(arguments.runs) | compiled_controller(arguments.runs)
        extra = {"memory": memory(), "controllers": controllers}
        print(json.dumps(extra, indent=1), file=sys.stderr)
    if arguments.out:
        save(arguments.out, measurements, **extra)
    return 0


if __name__ == "__main__":
    sys.exit(main())
