"""Queues that shape, on a fast link, against the shaped link that agrees with Linux's htb."""

from __future__ import annotations

from typing import Any

import pytest

import dumbbell

FIFO = {"kind": "fifo", "limit": "165p"}


def run(cc: str, path: dict[str, Any]) -> dict[str, Any]:
    scenario = {
        "duration": "60s",
        "warmup": "10s",
        "path": {"rtt": "40ms", **path},
        "flows": [{"cc": cc, "idle_restart": False}],
    }
    return dumbbell.run(scenario).summary


@pytest.mark.parametrize("cc", ["cubic", "reno"])
def test_htb_is_the_shaper_of_the_kernel_reference(cc: str) -> None:
    """All cells of docs/validation.md ran through htb, and here through `path.shaper`."""
    leaf = {"rate": "50Mbit", "burst": "1600B", "cburst": "1600B", "queue": FIFO}
    htb = {"kind": "htb", "rate": "50Mbit", "burst": "1600B", "classes": [leaf]}
    shaped = run(cc, {"rate": "50Mbit", "shaper": "1600B", "queue": FIFO})
    queue = run(cc, {"rate": "100Gbit", "queue": htb})
    assert queue["links"][0]["drops"] == shaped["links"][0]["drops"] > 0
    assert queue["flows"][0]["goodput_bps"] == shaped["flows"][0]["goodput_bps"]
    assert queue["links"][0]["queue_delay_ms"]["mean"] == pytest.approx(
        shaped["links"][0]["queue_delay_ms"]["mean"], rel=1e-3
    )


def test_tbf_lets_no_more_through_than_its_rate() -> None:
    """tc-tbf(8): a packet waits until there are tokens for all of it. 50 Mbit/s of frames of 1514
    bytes carry 47.82 Mbit/s of payload."""
    tbf = {"kind": "tbf", "rate": "50Mbit", "burst": "1600B", "queue": FIFO}
    summary = run("cubic", {"rate": "100Gbit", "queue": tbf})
    assert summary["flows"][0]["goodput_bps"] == pytest.approx(50e6 * 1448 / 1514, rel=1e-4)


def test_a_policer_drops_what_a_shaper_holds_back() -> None:
    """15 Mbit/s of datagrams at 10: a third is dropped, and none waits."""
    police = {"kind": "tbf", "rate": "10Mbit", "burst": "15kB", "mode": "police"}
    scenario = {
        "duration": "10s",
        "path": {"rate": "1Gbit", "rtt": "10ms", "queue": police},
        "flows": [{"transport": "udp", "traffic": {"kind": "rate", "rate": "15Mbit"}}],
    }
    link = dumbbell.run(scenario).summary["links"][0]
    offered = link["packets"] + link["drops"]
    # Datagrams of 1448 bytes carry 28 of IP and UDP and 14 of Ethernet.
    expected = 1 - 10e6 / (15e6 * 1490 / 1448)
    assert link["drops_by_reason"]["policed"] / offered == pytest.approx(expected, abs=0.002)
    assert link["queue_delay_ms"]["max"] < 0.1
