"""Time the transports beside TCP in scenario S1: ten flows, 100 Mbit/s, 40 ms, a FIFO of one BDP.

    maturin develop --release
    python benches/transports.py --out transports.json

The ratio to TCP counts: packets that left the bottleneck a CPU second, over the same of ten CUBIC
flows with delayed ACKs, run in turn with it. Packets are 1500 bytes for all. How many packets a
receiver answers with differs: RAP's one for each, TFRC's and media's a few a round trip.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from measurement import cpu_seconds, machine
from speed import MS, Config, bulk, fifo, path

from dumbbell import _core

TRANSPORTS: dict[str, dict[str, Any]] = {
    "rap": {"options": {"packet": 1500}},
    "tfrc": {"options": {"packet": 1500}},
    "plt": {"options": {"packet": 1500}, "cc": {"kind": "reno"}},
    "rtp": {
        "options": {"packet": 1500},
        "cc": {"kind": "nada", "params": {"max_rate": 1e7, "min_rate": 1e5}},
    },
}

VIDEO = {
    "model": "video",
    "fps": 30.0,
    "min_bps": 1e5,
    "max_bps": 1e7,
    "update_ns": 200 * MS,
    "transient_change": 0.5,
    "transient_frames": 8,
    "key_frame_bytes": 13_500.0,
    "size_noise": 0.15,
    "interval_noise": 0.15,
    "largest_step": None,
}


def config(transport: str) -> Config:
    if transport == "tcp":
        flows = bulk(10, "cubic", 2)
    else:
        described = {"kind": "other", "transport": transport, "label": transport}
        flows = [{"transport": described | TRANSPORTS[transport]} for _ in range(10)]
        if transport == "rtp":
            for flow in flows:
                flow["traffic"] = {"kind": "media", "source": VIDEO, "pauses_ns": []}
    return path(mbps=100, rtt_ms=40, queue=fifo(333), seconds=60, flows=flows)


def packets_a_second(transport: str) -> tuple[float, float]:
    """Packets that left the bottleneck a CPU second, and its utilisation."""
    text = json.dumps(config(transport))
    before = cpu_seconds()
    result = _core.run(text)
    spent = cpu_seconds() - before
    link = json.loads(result.summary_json())["links"][0]
    return link["packets"] / spent, link["utilisation"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--runs", type=int, default=9, help="pairs of runs")
    arguments = parser.parse_args()
    measured: dict[str, Any] = {}
    for name in TRANSPORTS:
        pairs = [(packets_a_second(name), packets_a_second("tcp")) for _ in range(arguments.runs)]
        ratios = sorted(ours[0] / tcp[0] for ours, tcp in pairs)
        measured[name] = {
            "packets_per_cpu_s": median(ours[0] for ours, _ in pairs),
            "tcp_packets_per_cpu_s": median(tcp[0] for _, tcp in pairs),
            "ratio": median(ratios),
            "ratios": ratios,
            "utilisation": pairs[0][0][1],
        }
        print(
            f"{name}: {measured[name]['packets_per_cpu_s'] / 1e3:.0f} thousand packets "
            f"a CPU second, {median(ratios):.2f} times TCP's ({ratios[0]:.2f} to {ratios[-1]:.2f})",
            file=sys.stderr,
        )
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "transports": measured,
    }
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
