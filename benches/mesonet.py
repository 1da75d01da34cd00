"""Time the network of the NIST study (MesoNet, SP 500-282), alone and two runs at a time.

    maturin develop --release
    python benches/mesonet.py --out mesonet.json

The runs are four conditions of experiment 1b as `dumbbell reproduce nist-1b` makes them, with TCP.
One condition is run at a tenth of the study's scale for all of its 25 minutes. Last, all 278,000
sources of experiment 1a's larger level are held in memory at once.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measurement import cpu_seconds, machine

from dumbbell._run import execute, prepare
from dumbbell.studies import Run, Study, Threads

CONDITIONS = (1, 12, 21, 30)
"""Of the design's 32, from 1: two with much and two with little congestion."""
TIMES = 3
STUDY_RATE = 20e12 / (124_107.4 * 3600)
"""Packets that the study's simulator moved in a processor second: 20 trillion in 124,107 hours."""

PEAK = """
def peak_mib():
    # Not ru_maxrss, which begins with what the parent had.
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
"""

TENTH = """
import json, resource, sys
from dumbbell._run import execute, prepare
from dumbbell.studies import Study
scenario, *_ = Study.load("ready:nist-1b").base()
scenario["duration"] = sys.argv[1]
scenario["mesonet"] |= {
    "scale": 0.1, "speed": 600, "source_distribution": "uniform", "think": "2.5s",
    "web_object": 100, "buffers": "rtt-c/sqrt-n", "algorithm": "tcp",
}
prepared = prepare(scenario)
start = resource.getrusage(resource.RUSAGE_SELF).ru_utime
summary = execute(prepared, None).summary
seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - start
packets = sum(f["sent_packets"] + f["delivered_packets"] for f in summary["flows"])
print(json.dumps({"packets": packets, "cpu_s": seconds, "peak_mib": peak_mib()}))
"""
"""Condition 21, the most congested."""

LARGEST = """
import json
from dumbbell._run import execute, prepare
from dumbbell.studies import Study
study = Study.load("ready:nist-1a")
scenario, *_ = study.base()
scenario["duration"] = "2s"
scenario["mesonet"] |= {
    "scale": 1, "speed": 8000, "source_distribution": "uniform", "think": "2.5s", "algorithm": "tcp"
}
prepared = prepare(scenario)
before = peak_mib()
traffic = [flow["traffic"] for flow in prepared.config["flows"]]
users = sum(each["count"] for each in traffic if each["kind"] == "users")
result = execute(prepared, None)
sent = sum(flow["sent_packets"] for flow in result.summary["flows"])
memory = {"before_mib": before, "peak_mib": peak_mib()}
print(json.dumps({"users": users, "sent": sent, **memory}))
"""


def runs_of(study: Study) -> list[Run]:
    """The runs with TCP of the conditions, in their order."""
    conditions = [c.labels for c in study.conditions() if c.labels["algorithm"] == "tcp"]
    wanted = [conditions[number - 1] for number in CONDITIONS]
    runs = {json.dumps(run.factors): run for run in study.runs()}
    return [runs[json.dumps(factors)] for factors in wanted]


def packets_a_second(run: Run) -> dict[str, Any]:
    """Data packets and ACKs sent, and visits of routers, in a CPU second."""
    prepared = prepare(run.scenario, seed=run.seed)
    start = cpu_seconds()
    summary = execute(prepared, None).summary
    seconds = cpu_seconds() - start
    data = sum(flow["sent_packets"] for flow in summary["flows"])
    acks = sum(flow["delivered_packets"] for flow in summary["flows"])
    return {
        "factors": run.factors,
        "cpu_s": seconds,
        "packets": data + acks,
        "packets_per_cpu_s": (data + acks) / seconds,
        "visits_per_cpu_s": summary["totals"]["packets"] / seconds,
    }


def wall_seconds(study: Study, runs: list[Run], workers: int) -> float:
    start = time.perf_counter()
    outcomes = list(Threads(workers).outcomes(study.measure, runs))
    assert all(outcome.error is None for outcome in outcomes)
    return time.perf_counter() - start


def in_process(program: str, *arguments: str) -> Any:
    """What a program of its own prints, for its memory."""
    command = [sys.executable, "-c", PEAK + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    study = Study.load("ready:nist-1b")
    runs = runs_of(study)
    speeds = [packets_a_second(run) for run in runs]
    # The same run again and again: what differs is only how many go on at a time.
    same = [runs[1]] * 4
    ratios = [wall_seconds(study, same, 1) / wall_seconds(study, same, 2) for _ in range(TIMES)]
    mean = sum(speed["cpu_s"] for speed in speeds) / len(speeds)
    tenth = {minutes: in_process(TENTH, f"{minutes}min") for minutes in (5, 25)}
    document = {
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "scenario": {"scale": study.set_["mesonet.scale"], "duration": study.set_["duration"]},
        "runs": speeds,
        "runs_per_hour_and_core": 3600 / mean,
        "two_threads_over_one": ratios,
        "study_packets_per_processor_s": STUDY_RATE,
        "tenth": tenth,
        "largest": in_process(LARGEST),
    }
    arguments.out.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
