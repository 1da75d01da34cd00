"""Transports that send at a rate, beside TCP and alone, in runs of the engine."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("dumbbell._core", reason="the engine is not built")

from dumbbell._run import run


def goodputs(transports: dict[str, dict[str, Any]], queue: dict[str, Any], **more: Any) -> Any:
    """Of four flows of each kind that share 10 Mbit/s at round-trip times of 80 to 110 ms."""
    flows = [
        {"id": f"{name}-{i}", "start": f"{137 * i + 50}ms", "rtt": f"{80 + 10 * i}ms", **options}
        for i in range(4)
        for name, options in transports.items()
    ]
    path = {"rate": "10Mbit", "rtt": "110ms", "queue": queue}
    result = run({"duration": "100s", "warmup": "20s", "path": path, "flows": flows, **more})
    return {
        name: sum(f["goodput_bps"] for f in result.summary["flows"] if f["id"].startswith(name))
        for name in transports
    }


@pytest.mark.parametrize("queue", [{"kind": "fifo", "limit": "1bdp"}, {"kind": "red"}])
def test_tfrc_is_within_a_factor_of_two_of_tcp(queue: dict[str, Any]) -> None:
    """RFC 5348 section 1: "reasonably fair" is a rate within a factor of two of TCP's under the
    same conditions; Floyd et al., SIGCOMM 2000, find it with drop-tail queues and RED."""
    tfrc = {"transport": "tfrc", "options": {"packet": "1514B"}}
    found = goodputs({"tfrc": tfrc, "reno": {"cc": "reno"}}, queue)
    assert 0.5 < found["tfrc"] / found["reno"] < 2


def test_rap_shares_a_red_queue_with_tcp() -> None:
    """Rejaie et al., INFOCOM 1999: with RED, RAP and TCP share nearly evenly while windows are
    large enough for TCP to avoid timeouts."""
    rap = {"transport": "rap", "options": {"packet": "1514B"}}
    found = goodputs({"rap": rap, "reno": {"cc": "reno"}}, {"kind": "red"})
    assert 0.5 < found["rap"] / found["reno"] < 2
