"""Same scenario, same seed, same version: the same bytes, whatever runs beside it."""

from __future__ import annotations

import hashlib
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import dumbbell
from dumbbell import _core
from dumbbell._registry import builtin
from dumbbell._resolve import resolve

RATES = ("2Mbit", "40Mbit")
QUEUES: tuple[dict[str, Any], ...] = (
    {"kind": "fifo", "limit": "1bdp"},
    {"kind": "codel", "ecn": True},
    {"kind": "fq_codel"},
)
EXTRAS: tuple[dict[str, Any], ...] = (
    {},
    {"loss": 0.005, "jitter": "3ms", "duplicate": 0.001},
    {"reorder": {"probability": 0.01, "delay": "5ms"}, "reverse": {"rate": "1Mbit"}},
)


def _scenario(rate: str, queue: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    return {
        "duration": "8s",
        "seed": 7,
        "path": {"rate": rate, "rtt": "30ms", "queue": queue, **extra},
        "flows": [
            {"cc": "cubic"},
            {"cc": "bbr", "start": "1s"},
            {
                "cc": "reno",
                "traffic": {
                    "kind": "poisson",
                    "interval": "200ms",
                    "size": {"kind": "pareto", "mean": "30kB", "shape": 1.3},
                },
            },
        ],
        "probes": [{"kind": "ping", "interval": "50ms"}],
    }


GRID = [_scenario(*cell) for cell in itertools.product(RATES, QUEUES, EXTRAS)]


def _config(data: dict[str, Any], **changes: Any) -> str:
    config = resolve(dumbbell.Scenario.from_dict(data), builtin())
    return json.dumps(config | changes)


def _digest(config: str) -> str:
    result = _core.run(config)
    digest = hashlib.sha256(result.summary_json().encode())
    for name in result.tables():
        table = pa.table(result.table(name))
        for column in table.column_names:
            digest.update(column.encode())
            digest.update(repr(table[column].to_pylist()).encode())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def configs() -> list[str]:
    return [_config(data) for data in GRID]


def test_runs_repeat_bit_for_bit_across_thread_counts(configs: list[str]) -> None:
    alone = [_digest(config) for config in configs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(_digest, configs))
    with ThreadPoolExecutor(2) as pool:
        backwards = list(pool.map(_digest, reversed(configs)))[::-1]
    assert alone == together == backwards
    assert len(set(alone)) == len(alone)


def test_another_seed_gives_another_run(configs: list[str]) -> None:
    config = json.loads(configs[1]) | {"seed": 8}
    assert _digest(json.dumps(config)) != _digest(configs[1])


def test_a_flow_more_does_not_change_what_others_draw() -> None:
    """Streams belong to components: the arrivals of a source stay where they are."""
    data = _scenario("40Mbit", {"kind": "fq_codel"}, {})
    more = data | {"flows": [*data["flows"], {"cc": "cubic", "start": "2s"}]}

    def arrivals(scenario: dict[str, Any]) -> list[tuple[float, int]]:
        table = pa.table(_core.run(_config(scenario)).table("completions")).to_pylist()
        return sorted((row["start_s"], row["bytes"]) for row in table if "reno" in row["flow"])

    before, after = arrivals(data), arrivals(more)
    assert set(before) & set(after)
    starts = {start for start, _ in before} ^ {start for start, _ in after}
    # Only transfers still under way at the end may be missing from either.
    assert all(start > 6 for start in starts)
