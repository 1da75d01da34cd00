"""Turn the results of the benchmarks into docs/performance.md.

python benches/report.py speed.json peers.json ack_cost.json queues.json mesonet.json \\
    transports.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

Document = dict[str, Any]
Row = dict[str, Any]

SCENARIOS = {
    "S1": "10 CUBIC, 100 Mbit/s, 40 ms, FIFO of 1 BDP",
    "S2": "100 CUBIC, 1 Gbit/s, 20 ms, FIFO of 1 BDP",
    "S3": "1 CUBIC, 10 Gbit/s, 100 ms, FIFO of 0.5 BDP",
    "S4": "2 Reno and a voice call, 50 Mbit/s, 80 ms, FQ-CoDel",
    "S5": "web pages (Poisson, Pareto), 100 Mbit/s, 40 ms, FQ-CoDel",
    "S6": "4 BBR, 100 Mbit/s, 20 ms, FIFO of 1 BDP",
}

DELAYED = "delayed ACKs"
EVERY = "ACK of every packet"
SERIES = "delayed ACKs, series every 100 ms"

COLUMNS = [
    ("dumbbell", DELAYED),
    ("dumbbell", EVERY),
    ("ns-2", "SACK, delayed ACKs"),
    ("ns-2", "SACK, ACK of every packet"),
    ("ns-3", DELAYED),
]


def find(rows: list[Row], simulator: str, scenario: str, variant: str) -> Row | None:
    for row in rows:
        if (row["simulator"], row["scenario"], row["variant"]) == (simulator, scenario, variant):
            return row
    return None


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    align = ["---", *["---:"] * (len(header) - 1)]
    return ["| " + " | ".join(row) + " |" for row in [header, align, *rows]] + [""]


def speed_table(rows: list[Row]) -> list[str]:
    body = []
    for scenario in SCENARIOS:
        found = [find(rows, simulator, scenario, variant) for simulator, variant in COLUMNS]
        body.append([scenario, *(number(row["kpps_best"]) if row else "" for row in found)])
    header = ["", "dumbbell", "dumbbell, every ACK", "ns-2", "ns-2, every ACK", "ns-3"]
    return table(header, body)


def ratio_table(rows: list[Row]) -> list[str]:
    def ratio(scenario: str, ours: str, simulator: str, theirs: str) -> str:
        a = find(rows, "dumbbell", scenario, ours)
        b = find(rows, simulator, scenario, theirs)
        return f"{a['kpps_best'] / b['kpps_best']:.1f}" if a and b else ""

    body = [
        [
            scenario,
            ratio(scenario, DELAYED, "ns-2", "SACK, delayed ACKs"),
            ratio(scenario, EVERY, "ns-2", "SACK, ACK of every packet"),
            ratio(scenario, DELAYED, "ns-3", DELAYED),
            ratio(scenario, SERIES, "ns-3", DELAYED),
        ]
        for scenario in SCENARIOS
    ]
    header = ["", "ns-2", "ns-2, every ACK", "ns-3", "ns-3, we with series"]
    return table(header, body)


def run_table(rows: list[Row]) -> list[str]:
    body = [
        [
            row["scenario"],
            f"{row['simulator']}, {row['variant']}",
            f"{row['simulated_s']:g}",
            f"{row['packets']:,}",
            number(row["kpps_best"]),
            number(row["kpps_median"]),
            str(len(row["cpu_s"])),
            row["note"],
        ]
        for row in sorted(rows, key=lambda row: row["scenario"])
    ]
    header = ["", "run", "simulated s", "packets", "best", "median", "runs", "note"]
    return table(header, body)


def compiled_line(controllers: dict[str, float]) -> list[str]:
    delayed = controllers.get("compiled_over_built_in_delayed_acks")
    every = controllers.get("compiled_over_built_in_every_ack")
    if delayed is None or every is None:
        return []
    return [
        f"- A run of S1 with AIMD compiled by Numba takes {delayed:.2f} times as long as with the "
        f"built-in Reno, which does the same, and {every:.2f} times where each packet is "
        "acknowledged."
    ]


def ack_section(costs: dict[str, float]) -> list[str]:
    cheapest_first = sorted(costs.items(), key=lambda item: item[1])
    return [
        "## Cost of an ACK",
        "",
        "What a controller takes for an ACK, best of five runs of a million: the ACKs of a paced "
        "flow on 100 Mbit/s and 40 ms, one for each segment, with a loss every 30 rounds "
        "(`cargo run --release -p dumbbell-cc --example ack_cost`). Making the ACK is part of it, "
        "so `fixed` tells what a controller costs that does nothing.",
        "",
        *table(["controller", "ns"], [[name, f"{cost:.1f}"] for name, cost in cheapest_first]),
        # Measured once, as a change that is past cannot be measured by `make bench`.
        "That there are so many controllers does not slow the engine much: from the commit before "
        "most of them (a06c536) to 2026-11-30, CPU time went up by 0.8 % in S1 (ten minutes "
        "simulated) and by 2.6 % in S2 (one minute), medians of 15 pairs of alternating runs.",
        "",
    ]


def queue_section(costs: dict[str, float]) -> list[str]:
    cheapest_first = sorted(costs.items(), key=lambda item: item[1])
    return [
        "## Cost of a packet in a queue",
        "",
        "What a queue with its default parameters takes for a packet, enqueue and dequeue "
        "together, best of five runs of a million: a steady backlog of 50 packets of 8 flows, "
        "below any delay that queues act on (`cargo bench -p dumbbell-queue --bench queues`). With "
        "10 and 100,000 flows one packet of each waits, and FQ-CoDel has 65,536 queues. Making the "
        "packet is part of it; what is above `fifo` is the queue's own.",
        "",
        *table(["queue", "ns"], [[name, f"{cost:.1f}"] for name, cost in cheapest_first]),
        "",
        # Measured once, as the other.
        "From the commit before most of the queues (690627f) to 2026-11-30 the CPU time of S1 and "
        "S2 went up by 0.0 % and 1.0 %, medians of 31 pairs of alternating runs.",
    ]


def transport_section(measured: Document) -> list[str]:
    transports = sorted(measured["transports"].items())
    rows = [
        [
            name,
            number(each["packets_per_cpu_s"] / 1e3),
            number(each["tcp_packets_per_cpu_s"] / 1e3),
            f"{each['ratio']:.2f}",
            f"{each['ratios'][0]:.2f} to {each['ratios'][-1]:.2f}",
            f"{100 * each['utilisation']:.1f} %",
        ]
        for name, each in transports
    ]
    pairs = len(transports[0][1]["ratios"])
    return [
        "## Transports beside TCP",
        "",
        "Ten flows of each in S1, run in turn with ten of CUBIC: medians of "
        f"{pairs} pairs of runs (`benches/transports.py`, {measured['date'][:10]}). Packets have "
        "1500 bytes, PLT's controller is Reno, and RTP carries video of up to 10 Mbit/s under "
        "NADA. The utilisation tells of the transport, not of its speed.",
        "",
        *table(["", "thousand a CPU s", "TCP", "ratio", "least to most", "utilisation"], rows),
    ]


def mesonet_section(measured: Document) -> list[str]:
    runs, largest = measured["runs"], measured["largest"]
    fifth, tenth = measured["tenth"]["5"], measured["tenth"]["25"]
    rates = [run["packets_per_cpu_s"] for run in runs]
    mean = sum(run["packets"] for run in runs) / sum(run["cpu_s"] for run in runs)
    visits = sum(run["visits_per_cpu_s"] * run["cpu_s"] for run in runs)
    visits /= sum(run["cpu_s"] for run in runs)
    study = measured["study_packets_per_processor_s"]
    scenario = measured["scenario"]
    rows = [
        [
            " ".join(f"{name}={level}" for name, level in run["factors"].items()),
            f"{run['packets']:,}",
            f"{run['cpu_s']:.1f}",
            f"{run['packets_per_cpu_s']:,.0f}",
        ]
        for run in runs
    ]
    ratios = sorted(measured["two_threads_over_one"])
    per_user = (largest["peak_mib"] - largest["before_mib"]) * 2**20 / largest["users"]
    return [
        "## The network of the NIST study",
        "",
        f"Four conditions of experiment 1b with TCP, at scale {scenario['scale']:g} and "
        f"{scenario['duration']} a run, as `dumbbell reproduce nist-1b` makes them "
        f"(`benches/mesonet.py`, {measured['date'][:10]}). A packet, data or ACK, visits about "
        "seven routers.",
        "",
        *table(["condition", "packets", "CPU s", "packets a CPU s"], rows),
        f"- In all {mean:,.0f} packets a CPU second ({min(rates):,.0f} to {max(rates):,.0f}), and "
        f"{visits:,.0f} visits of routers. The study's simulator moved {study:,.0f} packets in a "
        f"processor second of its day (20 trillion in 124,107 hours): {mean / study:,.0f} times as "
        "many.",
        f"- {measured['runs_per_hour_and_core']:,.0f} such runs an hour and core.",
        f"- Condition 21, the most congested, at a tenth of the study's scale (2,780 sources) for "
        f"its whole 25 minutes takes {tenth['cpu_s'] / 60:.1f} minutes of a core: "
        f"{tenth['packets'] / tenth['cpu_s']:,.0f} packets a CPU second. It peaks at "
        f"{tenth['peak_mib']:,.0f} MiB, a run of 5 minutes at {fifth['peak_mib']:,.0f} MiB.",
        f"- Two threads take the same runs {ratios[len(ratios) // 2]:.2f} times as fast as one "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}).",
        f"- {largest['users']:,} sources, the larger level of experiment 1a, are in memory at once "
        f"with {largest['peak_mib']:,.0f} MiB in all, or {per_user:,.0f} bytes each, open "
        "connections and the network included (two seconds of the run).",
        # Profiled once, as the tool is not everywhere.
        "- Of the engine's time on condition 21, at a tenth of the scale, 58 % goes into moving "
        "packets from router to router and keeping the time of the next event, of which the heap "
        "takes 19 %, 15 % into the routers' FIFO queues, 10 % into routes, and less than 10 % into "
        "TCP and its controllers (perf, 2026-11-30).",
        "",
    ]


def page(
    speed: Document,
    peers: Document,
    ack_costs: dict[str, float],
    queue_costs: dict[str, float],
    mesonet: Document,
    transports: Document,
) -> str:
    rows = speed["measurements"] + peers["measurements"]
    machine = speed["machine"]
    versions = sorted({f"{row['simulator']} {row['version']}" for row in rows})
    lines = [
        "# Performance",
        "",
        "Thousand packets that left the bottleneck per CPU second, best of the runs. The figures "
        "move with the machine; the ratios less. Written by `benches/report.py`.",
        "",
        f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['system']}. Versions: {', '.join(versions)}. "
        f"Measured {speed['date'][:10]} (dumbbell), {peers['date'][:10]} (the others).",
        "",
        *[f"- {scenario}: {text}" for scenario, text in SCENARIOS.items()],
        "",
        "ns-2 runs SACK TCP with Reno's window, its fastest; it has neither FQ-CoDel nor BBR, and "
        "takes too long for S3. Nobody records time series here.",
        "",
        *speed_table(rows),
        "How many times as many packets dumbbell moves in the same CPU time:",
        "",
        *ratio_table(rows),
    ]
    for simulator, reason in peers["skipped"].items():
        lines += [f"{simulator} was not run: {reason}.", ""]
    memory, controllers = speed.get("memory"), speed.get("controllers")
    if memory and controllers:
        python = controllers["python_controller_acks_per_cpu_s"]
        built_in = controllers["built_in_controller_acks_per_cpu_s"]
        lines += [
            "## Memory and Python",
            "",
            f"- An idle web source takes {memory['bytes_per_idle_source']:,.0f} bytes between two "
            f"pages, and {memory['bytes_per_connected_source']:,.0f} where its connection stays "
            "open (peak of a whole run of 10,000, configuration and summary included).",
            f"- S3, whose window reaches some hundred thousand packets, peaks at "
            f"{memory['s3_peak_rss_mib']:.0f} MiB, of which {memory['s3_rss_before_run_mib']:.0f} "
            "MiB are Python and the libraries.",
            f"- A controller written in Python takes {python:,.0f} ACKs a CPU second, against "
            f"{built_in:,.0f} for the same one in Rust.",
            *compiled_line(controllers),
            "",
        ]
    lines += [
        *ack_section(ack_costs),
        *queue_section(queue_costs),
        "",
        *transport_section(transports),
        *mesonet_section(mesonet),
        "## Every run",
        "",
        "Shorter simulated times stand where the whole scenario takes minutes. A utilisation far "
        "from 100 % tells of the simulator's TCP, not of its speed: such a row moves fewer "
        "packets.",
        "",
        *run_table(rows),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("speed", type=Path, help="what speed.py wrote")
    parser.add_argument("peers", type=Path, help="what peers.py wrote")
    parser.add_argument("ack_cost", type=Path, help="what the example ack_cost wrote")
    parser.add_argument("queues", type=Path, help="what the benchmark queues wrote")
    parser.add_argument("mesonet", type=Path, help="what mesonet.py wrote")
    parser.add_argument("transports", type=Path, help="what transports.py wrote")
    parser.add_argument("--out", type=Path, default=Path("docs/performance.md"))
    arguments = parser.parse_args()
    names = ("speed", "peers", "ack_cost", "queues", "mesonet", "transports")
    files = [getattr(arguments, name) for name in names]
    documents = [json.loads(file.read_text()) for file in files]
    arguments.out.write_text(page(*documents))
    return 0


if __name__ == "__main__":
    sys.exit(main())
