"""Do a synthetic study on a Ray cluster of two nodes and kill one of them in the middle."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_TMPDIR": os.environ.get("TMPDIR", "/tmp"),
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
}

from ray.cluster_utils import Cluster

from dumbbell.studies._executors import Ray
from dumbbell.studies._running import do_runs
from synthetic_study import Synthetic, make_runs, make_store, rows_of


def main(directory: str) -> None:
    # A node that does not answer twice in a second is dead; Ray waits for half a minute.
    quick = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_failure_threshold": 2,
    }
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": quick}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(num_cpus=1, wait=True) for _ in range(2)]
    runs = make_runs(2)
    store = make_store(Path(directory), runs)
    measure = Synthetic(f"{directory}.log", 0.2)
    killed = False

    def kill_one(done: int, planned: int) -> None:
        nonlocal killed
        if done >= planned // 3 and not killed:
            cluster.remove_node(nodes[0], allow_graceful=False)
            killed = True

    do_runs(store, runs, measure, Ray(address=cluster.address), progress=kill_one)
    told = {
        "killed": killed,
        "rows": rows_of(store),
        "executions": measure.executions(),
        "processes": len(measure.processes()),
    }
    print(json.dumps(told))
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
