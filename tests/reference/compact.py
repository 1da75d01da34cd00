"""Make kernel.json.gz: what is kept of the runs inside a real Linux kernel.

    python tests/reference/compact.py REFERENCE [REPEATS ...] > tests/reference/kernel.json.gz

REFERENCE holds one JSON file per run and repeats.json (summaries only); REPEATS hold further runs
of the same specifications by the same kernel, made for this project because random or chaotic
cells need several: directories of such files, or a kernel.json.gz whose repeats are kept. Kept are
the cells whose controllers and queues exist here, the summaries, cwnd every 100 ms of one run of
each cell, and goodput and smoothed RTT every second of all. Of each spec `resolved` says that the
kernel exchanged a datagram with the receivers before the flows began.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CONTROLLERS = {
    *("reno", "cubic", "bbr", "bic", "cdg", "dctcp", "highspeed", "htcp", "hybla", "illinois"),
    *("lp", "nv", "scalable", "vegas", "veno", "westwood", "yeah"),
}
QUEUES = {
    *("pfifo", "pfifo_head_drop", "red", "codel", "pie", "dualpi2"),
    *("sfq", "fq_codel", "fq_pie", "cake", "sfb"),
}
REPEAT = re.compile(r"_(r\d+|rep\d+|s\d+)$")
SUMMARY = (
    "window_s",
    "goodput_mbit",
    "utilisation",
    "backlog_delay_mean_ms",
    "backlog_delay_p99_ms",
    "drops_window",
    "marks_window",
    "probe_mean_ms",
    "probe_p99_ms",
)
FLOW = ("cwnd_mean", "cwnd_max", "srtt_mean_ms", "retrans_window")


def runs(directory: Path, origin: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, origin and content of each run."""
    for path in sorted(directory.glob("*.json")):
        content = json.loads(path.read_text())
        if path.stem == "repeats":
            for name, run in content.items():
                yield name, origin, run
        elif path.stem != "index":
            yield path.stem, origin, content


def relevant(spec: dict[str, Any]) -> bool:
    """Whether its controllers and queue exist here."""
    return spec["qdisc"]["kind"] in QUEUES and all(f["cc"] in CONTROLLERS for f in spec["flows"])


def means(t: list[float], values: list[float], end: float) -> list[float]:
    """Mean of each second of a series."""
    seconds: list[list[float]] = [[] for _ in range(int(end))]
    for at, value in zip(t, values, strict=True):
        if at < len(seconds):
            seconds[int(at)].append(value)
    return [round(sum(v) / len(v), 2) if v else 0.0 for v in seconds]


def compact(name: str, origin: str, run: dict[str, Any], trajectory: bool) -> dict[str, Any]:
    """One run, shortened."""
    spec, flows = run["spec"], []
    for flow in run["flows"]:
        kept: dict[str, Any] = {key: flow[key] for key in FLOW}
        if series := flow.get("series"):
            kept["goodput_mbit_1s"] = means(series["t"], series["goodput_mbit"], spec["duration"])
            kept["srtt_ms_1s"] = means(series["t"], series["srtt_ms"], spec["duration"])
            if trajectory:
                kept["t"], kept["cwnd"] = series["t"], series["cwnd"]
        flows.append(kept)
    summary = {key: run["summary"][key] for key in SUMMARY if key in run["summary"]}
    return {"name": name, "origin": origin, "spec": spec, "summary": summary, "flows": flows}


def main(reference: Path, *repeats: Path) -> None:
    """Write the compressed file to standard output."""
    found = list(runs(reference, "reference"))
    cells: dict[str, list[dict[str, Any]]] = {}
    kept: list[dict[str, Any]] = []
    for source in repeats:
        if source.is_dir():
            found += runs(source, "repeat")
        else:
            document = json.loads(gzip.decompress(source.read_bytes()))
            earlier = (run for cell in document["cells"].values() for run in cell)
            kept += [run for run in earlier if run["origin"] == "repeat"]
    kernels = {run["env"]["kernel"] for *_, run in found if "env" in run}
    for name, origin, run in found:
        if relevant(run["spec"]):
            cell = cells.setdefault(REPEAT.sub("", name), [])
            cell.append(compact(name, origin, run, trajectory=not cell))
    for run in kept:
        cell = cells.setdefault(REPEAT.sub("", run["name"]), [])
        if run["name"] not in {other["name"] for other in cell}:
            cell.append(run)
    document = {"kernel": " ".join(sorted(kernels)), "cells": dict(sorted(cells.items()))}
    text = json.dumps(document, separators=(",", ":"))
    sys.stdout.buffer.write(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
