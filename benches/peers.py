"""Time other simulators on the scenarios S1 to S6.

    python benches/peers.py --peers-dir DIR --out peers.json

DIR holds `ns2_bulk.tcl` and `ns3/` (`bench.cc`, `make_workload.py`); the environment variable
DUMBBELL_PEERS_DIR names it too. A simulator that is not installed is reported and left out.
CPU time counts, so that a busy machine matters little; take the best of the runs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measurement import Measurement, output_of, save

NS2_SCENARIOS = {
    "S1": ("flows=10", "rate=100", "rtt=40", "buf=333", "dur=60"),
    "S2": ("flows=100", "rate=1000", "rtt=20", "buf=1667", "dur=20"),
}
"""ns-2 has neither FQ-CoDel nor BBR nor this workload. S3 takes it many minutes: its loss recovery
is slow with a window of a hundred thousand packets."""

NS2_VARIANTS = {
    "SACK, ACK of every packet": ("cc=sack", "ack=every"),
    "SACK, delayed ACKs": ("cc=sack", "ack=delayed"),
    "CUBIC, ACK of every packet": ("cc=cubic", "ack=every"),
}

NS3_DURATIONS = {
    "S1": 20,
    "S2": 3,
    "S3": 1.2,
    "S4": 30,
    "S5": 20,
    "S6": 30,
}
"""Simulated seconds: the whole scenarios take minutes."""

NS3_MODULES = (
    "core",
    "network",
    "internet",
    "point-to-point",
    "applications",
    "traffic-control",
    "nix-vector-routing",
    "stats",
)


class SkippedError(Exception):
    """A simulator that cannot be run here, and why."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def debian_version(package: str) -> str:
    text = output_of(["dpkg-query", "-W", "-f=${Version}", package], timeout_s=30)
    return text or "unknown"


def ns2(peers: Path, runs: int, timeout_s: float) -> Iterator[Measurement]:
    """ns-2: the driver prints key=value pairs, with the event loop's own CPU time."""
    program, script = shutil.which("ns"), peers / "ns2_bulk.tcl"
    if program is None:
        raise SkippedError("ns is not installed (Debian package ns2)")
    if not script.is_file():
        raise SkippedError(f"no {script}")
    version = debian_version("ns2")
    for scenario, settings in NS2_SCENARIOS.items():
        for variant, options in NS2_VARIANTS.items():
            times, values = [], dict[str, str]()
            for _ in range(runs):
                text = output_of(
                    [program, script, "sched=Splay", *settings, *options], timeout_s=timeout_s
                )
                if text is None:
                    say(f"ns-2 {scenario} ({variant}): failed or above {timeout_s:g} s")
                    break
                values = dict(re.findall(r"(\w+)=(\S+)", text))
                times.append(float(values["run_cpu_s"]))
            if times:
                yield Measurement(
                    simulator="ns-2",
                    version=version,
                    scenario=scenario,
                    variant=variant,
                    simulated_s=float(values["dur"]),
                    packets=int(values["dep"]),
                    cpu_s=times,
                    note=f"utilisation {values['util_pct']} %",
                )


def build_ns3(peers: Path, directory: Path) -> Path:
    compiler, source = shutil.which("g++"), peers / "ns3" / "bench.cc"
    if not source.is_file():
        raise SkippedError(f"no {source}")
    if compiler is None or not any(Path("/usr/include").glob("ns3*")):
        raise SkippedError("no g++ or no headers of ns-3 (Debian package libns3-dev)")
    binary = directory / "ns3-bench"
    command = [compiler, "-std=c++17", "-O3", "-march=native", "-o", str(binary), str(source)]
    built = subprocess.run(
        [*command, *(f"-lns3-{module}" for module in NS3_MODULES)], capture_output=True, text=True
    )
    if built.returncode:
        raise SkippedError(f"the driver does not compile: {built.stderr.strip()[-200:]}")
    return binary


def ns3(peers: Path, runs: int, timeout_s: float) -> Iterator[Measurement]:
    """ns-3: the driver prints one JSON object. Delays are not traced, as that costs time."""
    version = debian_version("libns3-dev")
    with tempfile.TemporaryDirectory() as name:
        binary = build_ns3(peers, Path(name))
        workload = Path(name) / "workload.csv"
        subprocess.run(
            [sys.executable, str(peers / "ns3" / "make_workload.py"), str(workload)], check=True
        )
        for scenario, duration in NS3_DURATIONS.items():
            options = [
                f"--scenario={scenario}",
                f"--dur={duration}",
                "--trace=0",
                f"--ver={version}",
            ]
            if scenario == "S5":
                options += [f"--web={workload}", "--msl=0.5"]
            times, packets, simulated, utilisation = [], 0, 0.0, 0.0
            for _ in range(runs):
                text = output_of([binary, *options], timeout_s=timeout_s)
                if text is None:
                    say(f"ns-3 {scenario}: failed or above {timeout_s:g} s")
                    break
                values = json.loads(text)
                times.append(float(values["cpu_s"]))
                packets, simulated = values["pkts_fwd"], values["sim_s"]
                utilisation = values["utilisation"]
            if times:
                yield Measurement(
                    simulator="ns-3",
                    version=version,
                    scenario=scenario,
                    variant="delayed ACKs",
                    simulated_s=simulated,
                    packets=packets,
                    cpu_s=times,
                    note=f"utilisation {utilisation * 100:.1f} %",
                )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--peers-dir", type=Path, default=os.environ.get("DUMBBELL_PEERS_DIR"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=300, help="wall seconds for one run")
    parser.add_argument("--only", choices=["ns-2", "ns-3"], help="just this simulator")
    arguments = parser.parse_args()
    measurements: list[Measurement] = []
    skipped: dict[str, str] = {}
    for simulator, run in {"ns-2": ns2, "ns-3": ns3}.items():
        if arguments.only not in (None, simulator):
            continue
        try:
            if arguments.peers_dir is None or not Path(arguments.peers_dir).is_dir():
                raise SkippedError(f"no drivers: --peers-dir is {arguments.peers_dir}")
            for result in run(Path(arguments.peers_dir), arguments.runs, arguments.timeout):
                measurements.append(result)
                say(
                    f"{simulator} {result.scenario} ({result.variant}): {result.kpps_best:.1f} "
                    f"thousand packets per CPU second, {result.note}"
                )
                save(arguments.out, measurements, skipped=skipped)
        except SkippedError as reason:
            skipped[simulator] = str(reason)
            say(f"{simulator}: skipped: {reason}")
    save(arguments.out, measurements, skipped=skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
