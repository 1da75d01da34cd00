"""Media and a window-based flow that share by the flow state exchange (RFC 8699)."""

from __future__ import annotations

from typing import Any

import pytest

import dumbbell

# With the draft's gains GCC's threshold, once high, falls too slowly to keep a queue short.
PARAMS = {"gcc": {"overuse": "libwebrtc"}}


def run(cc: str, priority: float | None) -> dict[str, Any]:
    """Video and Reno over 4 Mbit/s and 100 ms; coupled if there is a priority of the video."""
    scenario: dict[str, Any] = {
        "duration": "90s",
        "warmup": "30s",
        "path": {"rate": "4Mbit", "rtt": "100ms", "queue": {"kind": "fifo", "limit": "150kB"}},
        "flows": [
            {
                "id": "media",
                "transport": "rtp",
                "cc": cc,
                "params": {"max_rate": "4Mbit"} | PARAMS.get(cc, {}),
                "traffic": {"kind": "video", "max_rate": "4Mbit"},
            },
            {"id": "data", "cc": "reno"},
        ],
    }
    if priority is not None:
        scenario["coupling"] = {
            "host": {
                "kind": "fse-window",
                "flows": ["media", "data"],
                "priorities": {"media": priority},
                "options": {"rtt": "smoothed"},
            }
        }
    summary = dumbbell.run(scenario).summary
    media, data = (flow["goodput_bps"] for flow in summary["flows"])
    return {"ratio": media / data, "link": summary["links"][0]}


@pytest.mark.parametrize("cc", ["nada", "gcc"])
@pytest.mark.parametrize("priority", [0.5, 1.0, 2.0])
def test_rates_are_in_proportion_to_priorities(cc: str, priority: float) -> None:
    """RFC 8699 section 5.3: FSE_R(i) = S_CR P(i) / S_P. Goodput differs from rates by headers (1240
    bytes for 1200 of media, 1500 for 1448 of data), and by the encoder's frames."""
    assert run(cc, priority)["ratio"] == pytest.approx(priority, rel=0.2)


@pytest.mark.parametrize("cc", ["nada", "gcc"])
def test_the_queue_is_the_delay_based_flows(cc: str) -> None:
    """Alone, the loss-based flow fills the buffer until it loses, and delay-based media give way.
    Coupled, what the media's control takes back is taken from both."""
    apart, coupled = run(cc, None), run(cc, 1.0)
    assert apart["ratio"] < 0.25
    assert apart["link"]["drops_window"] > 0
    assert coupled["link"]["drops_window"] == 0
    delay = [one["link"]["queue_delay_ms"]["mean"] for one in (apart, coupled)]
    assert delay[1] < delay[0] / 2
