"""A made-up result with the shape of the engine's: two flows that saw at one bottleneck.

Numbers are arithmetic, not physics, so that tests know them: flow `k` of `n` gets the share
`shares[k]` of 50 Mbit/s; the queue delay is a triangle between 0 and `delay_ms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

RATE_BPS = 50e6
BASE_RTT_MS = 40.0


class SyntheticResult:
    def __init__(self, summary: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self._summary = summary
        self._tables = tables

    @property
    def summary(self) -> Mapping[str, Any]:
        return self._summary

    def table(self, name: str) -> pa.Table:
        return self._tables[name]


def names(values: Sequence[str]) -> pa.Array:
    return pa.array(list(values)).dictionary_encode()


def quantiles(values: np.ndarray) -> dict[str, float]:
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {
        "mean": float(values.mean()),
        "p50": float(p50),
        "p95": float(p95),
        "p99": float(p99),
        "max": float(values.max()),
    }


def synthetic_result(
    *,
    ccs: Sequence[str] = ("cubic", "bbr"),
    shares: Sequence[float] = (0.3, 0.7),
    queue: str = "fifo",
    delay_ms: float = 60.0,
    duration_s: float = 30.0,
    interval_s: float = 0.1,
    completions: int = 0,
    seed: int = 1,
) -> SyntheticResult:
    t = np.arange(1, round(duration_s / interval_s) + 1) * interval_s
    triangle = np.abs((t / 4.0) % 2 - 1)
    queue_delay = delay_ms * triangle
    ids = [f"{cc}-{index}" for index, cc in enumerate(ccs, 1)]
    rows = [
        {
            "t": t,
            "flow": [name] * t.size,
            "goodput_bps": share * RATE_BPS * (0.8 + 0.4 * np.abs((t / 3 + index / 2) % 2 - 1)),
            "cwnd": share * RATE_BPS * (BASE_RTT_MS + queue_delay) / 1000 / 12000,
            "ssthresh": np.full(t.size, np.nan if index else 100.0),
            "rtt_ms": BASE_RTT_MS + queue_delay + index,
            "inflight": share * RATE_BPS * (BASE_RTT_MS + queue_delay) / 1000 / 12000,
            "pacing_bps": np.full(t.size, np.nan),
            "retransmits": np.floor(t).astype(np.uint64),
            "phase": ["avoidance"] * t.size,
        }
        for index, (name, share) in enumerate(zip(ids, shares, strict=True))
    ]
    flow_series = pa.table(
        {
            key: names([name for row in rows for name in row[key]])
            if key in ("flow", "phase")
            else np.concatenate([row[key] for row in rows])
            for key in rows[0]
        }
    )
    link_series = pa.table(
        {
            "t": t,
            "link": names(["bottleneck"] * t.size),
            "throughput_bps": np.full(t.size, 0.98 * RATE_BPS),
            "queue_packets": queue_delay * RATE_BPS / 1000 / 12000,
            "queue_delay_ms": queue_delay,
            "queue_delay_max_ms": queue_delay * 1.1,
            "drops": np.floor(t).astype(np.uint64),
            "marks": np.zeros(t.size, dtype=np.uint64),
            "capacity_bps": np.full(t.size, RATE_BPS),
        }
    )
    sent = np.arange(0, duration_s, 0.02)
    ping = BASE_RTT_MS + delay_ms * np.abs((sent / 4.0) % 2 - 1)
    fraction = np.linspace(0.01, 1.0, 100)
    tables = {
        "flow_series": flow_series,
        "link_series": link_series,
        "probe_samples": pa.table(
            {"t": sent, "probe": names(["ping"] * sent.size), "delay_ms": ping}
        ),
        "flow_rtt_cdf": pa.table(
            {
                "flow": names([name for name in ids for _ in fraction]),
                "rtt_ms": np.concatenate(
                    [BASE_RTT_MS + k + delay_ms * fraction for k in range(len(ids))]
                ),
                "fraction": np.tile(fraction, len(ids)),
            }
        ),
        "queue_delay_cdf": pa.table(
            {
                "link": names(["bottleneck"] * 100),
                "delay_ms": delay_ms * fraction,
                "fraction": fraction,
            }
        ),
    }
    if completions:
        size = np.geomspace(1e3, 1e7, completions)
        tables["completions"] = pa.table(
            {
                "flow": names([ids[k % len(ids)] for k in range(completions)]),
                "start_s": np.linspace(0, duration_s, completions),
                "bytes": size.astype(np.uint64),
                "duration_s": 0.08 + size * 8 / 1e7,
            }
        )
    goodput = np.array(shares) * RATE_BPS
    summary = {
        "scenario": {
            "title": f"{' against '.join(ccs)} behind {queue}",
            "duration": f"{duration_s:g}s",
            "warmup": "5s",
            "seed": seed,
            "path": {"rate": "50Mbit", "rtt": "40ms", "queue": {"kind": queue, "limit": "1bdp"}},
            "flows": [{"cc": cc} for cc in ccs],
            "probes": [{"kind": "ping", "interval": "20ms"}],
        },
        "seed": seed,
        "version": "0.1.0",
        "backend": "sim",
        "flows": [
            {
                "id": name,
                "cc": cc,
                "goodput_bps": float(rate),
                "rtt_ms": quantiles(BASE_RTT_MS + queue_delay),
                "loss_ratio": 0.001,
                "mark_ratio": 0.0,
                "retransmits": int(duration_s),
                "completion_s": None,
            }
            for name, cc, rate in zip(ids, ccs, goodput, strict=True)
        ],
        "links": [
            {
                "id": "bottleneck",
                "utilisation": 0.98,
                "queue_delay_ms": quantiles(queue_delay),
                "packets": 123456,
                "drops": int(duration_s),
                "marks": 0,
            }
        ],
        "probes": [{"id": "ping", "rtt_ms": quantiles(ping), "lost": 0}],
        "totals": {
            "jain": float(goodput.sum() ** 2 / (goodput.size * (goodput**2).sum())),
            "packets": 123456,
            "events": 1000000,
            "simulated_s": duration_s,
            "wall_s": 0.2,
            "peak_rss_bytes": 50_000_000,
        },
    }
    return SyntheticResult(summary, tables)
