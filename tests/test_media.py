"""Flows that carry media: sources, frames, presets."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dumbbell._core", reason="the engine is not built")
pytest.importorskip("pyarrow", reason="tables are an extra")

from dumbbell import ScenarioError, run
from dumbbell._frame_trace import read_frames
from dumbbell._plots_data import columns
from dumbbell._plots_media import media_panels
from dumbbell._plots_panels import flow_styles
from dumbbell._run import presets
from dumbbell._scenario import Scenario

PATH = {
    "rate": "1Mbit",
    "rtt": "100ms",
    "overhead": "none",
    "queue": {"kind": "fifo", "limit": "37500B"},
}


def media(traffic: Any, **flow: Any) -> dict[str, Any]:
    flows = [{"id": "media", "transport": "rtp", "traffic": traffic, **flow}]
    return {"duration": "20s", "path": PATH, "flows": flows}


def test_audio_arrives_as_it_is_sent() -> None:
    # 20 kbit/s every 20 ms: 50 bytes, 90 with RTP, UDP and IP. 0.72 ms at 1 Mbit/s, 50 ms of way.
    result = run(media("audio"))
    frames = columns(result, "frames")
    assert np.allclose(np.diff(frames["t"]), 0.02)
    assert set(frames["bytes"]) == {50}
    assert frames["delay_ms"] == pytest.approx(50.72)
    [flow] = result.summary["flows"]
    own = flow["media"]
    # Captured by 20 s less 50.72 ms: at 0, 20, ..., 19940 ms.
    assert own["frames"] == 998
    assert own["lost_frames"] == own["freezes"] == 0
    assert own["media_rate_bps"] == pytest.approx(20e3, rel=0.004)
    # Reports of 26 packets (28 + 20 + 52 bytes) every 50 ms.
    assert flow["sent_answers"] == 398


def test_what_is_delivered_is_whole_frames_and_parts_of_lost_ones() -> None:
    result = run(media("video") | {"flows": [
        {"id": "media", "transport": "rtp", "traffic": "video", "loss": 0.02}
    ]})  # fmt: skip
    frames = columns(result, "frames")
    whole = frames["bytes"][np.isfinite(frames["delay_ms"])].sum()
    [flow] = result.summary["flows"]
    assert whole <= flow["delivered_bytes"] <= frames["bytes"].sum() + 20_000
    lost = int(np.isnan(frames["delay_ms"]).sum())
    assert lost == flow["media"]["lost_frames"] > 0
    # A frame is lost if one of its packets is: fewer frames than packets.
    assert lost <= flow["dropped_packets"]
    assert flow["media"]["frames"] == len(frames["t"])


def test_no_frames_in_a_pause() -> None:
    result = run(media({"kind": "video", "pauses": [{"from": "5s", "to": "15s"}]}))
    t = columns(result, "frames")["t"]
    assert not ((t > 5) & (t < 15)).any()
    assert (t >= 15).sum() == pytest.approx(150, abs=20)
    # The pause is no freeze.
    assert result.summary["flows"][0]["media"]["freeze_s"] < 5


def test_frames_of_a_file_are_played(tmp_path: Path) -> None:
    # Two frames of 100, of 140 and of 800 kbit/s, 25 a second. 150 kbit/s of IP packets leave 142
    # kbit/s without headers of 40 bytes: 2/660 of the way from 140 to 800 kbit/s.
    (tmp_path / "frames.csv").write_text(
        "rate,interval,bytes\n# a comment\n100e3,0.04,400\n100e3,0.04,600\n"
        "140e3, 0.04, 600\n140e3, 0.04, 800\n800e3,0.04,4000\n800e3,0.04,4000\n"
    )
    scenario = media(
        {"kind": "video", "trace": "frames.csv"}, cc="nada", params={"max_rate": "150kbit"}
    )
    result = run(Scenario.from_dict(scenario, directory=tmp_path))
    frames = columns(result, "frames")
    # 600 + 3400/330 and 800 + 3200/330.
    assert frames["bytes"][:2].tolist() == [610, 810]
    assert set(frames["bytes"]) == {610, 810}
    assert np.allclose(np.diff(frames["t"]), 0.04)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one frame"),
        ("1,2\n", "line 1"),
        ("100,0.04,500\n100,0,500\n", "line 2"),
        ("100,0.04,500\n200,0.04,500\n200,0.04,500\n", "as many frames"),
        ("100,0.04,nan\n", "line 1"),
    ],
)
def test_a_malformed_file_of_frames_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "frames.csv"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=message):
        read_frames(path, key="traffic.trace", written="frames.csv")


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ({"traffic": "video"}, 'needs transport = "rtp"'),
        ({"transport": "rtp", "size": "1MB"}, "rtp carries traffic"),
        ({"transport": "rtp", "traffic": {"kind": "rate", "rate": "1Mbit"}}, "rtp carries traffic"),
        ({"transport": "rtp", "traffic": {"kind": "video", "max_rate": "1kbit"}}, "min_rate"),
        ({"transport": "rtp", "traffic": {"kind": "video", "trace": "x", "fps": 5.0}}, "fps"),
        ({"transport": "rtp", "traffic": {"kind": "content", "factor": [9.0, 2.0]}}, "ascending"),
        (
            {"transport": "rtp", "traffic": {"kind": "audio", "pauses": [
                {"from": "5s", "to": "6s"}, {"from": "5s", "to": "7s"}]}},
            "one after the other",
        ),
        ({"transport": "rtp", "cc": "cubic"}, "cubic"),
    ],
)  # fmt: skip
def test_wrong_sources_are_refused(flow: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        run({"duration": "1s", "path": PATH, "flows": [flow]})


@pytest.mark.parametrize("name", [name for name in presets() if name.startswith("rmcat")])
def test_presets_of_rfc_8867(name: str) -> None:
    scenario = Scenario.load(presets()[name])
    # RFC 8867: ends of the sections' tables.
    ends = {"5.1": 100, "5.2": 125, "5.3": 100, "5.5": 300, "5.7": 300}
    assert scenario.duration == ends.get(name.removeprefix("rmcat-"), 120) * 10**9


@pytest.mark.parametrize("name", ["rmcat-5.6", "rmcat-5.7"])
def test_media_of_rfc_8867_begin_beside_tcp(name: str) -> None:
    # TCP is there from the start, media come 5 s later; both by libwebrtc's and the authors' runs.
    flows = tomllib.loads(presets()[name].read_text(encoding="utf-8"))["flows"]
    *media_flows, tcp = flows
    assert {flow["start"] for flow in media_flows} == {"5s"}
    assert "start" not in tcp
    if name == "rmcat-5.6":
        return
    # Ten sources of files of 30 to 50 kB (RFC 8868), two of which begin with one; idle for 10 s.
    result = run(presets()[name])
    transfers = result.summary["flows"][-1]
    link = columns(result, "link_series")
    assert link["throughput_bps"][link["t"] <= 1].sum() > 0
    # A source's cycle is 10 s and a transfer's second or so: 25 to 30 in 300 s, with the standard
    # deviation of exponential times, sqrt(30 * 10).
    assert 10 * 25 - 3 * 17 < transfers["completed"] < 10 * 30 + 3 * 17
    assert 30e3 < transfers["delivered_bytes"] / transfers["completed"] < 50e3


def test_nada_without_ramp_up_keeps_its_balance() -> None:
    # RFC 8698 section 4.3: gradual updates come to rest where x r_ref = XREF RMAX, with the uneven
    # frames of RFC 8593 too. Ramp-ups (QEPS = 10 ms, near the balance of 12.9 ms) lie on top of it.
    def product(**params: Any) -> float:
        flow = {"transport": "rtp", "cc": "nada", "count": 3, "stagger": "7s", "params": params}
        path = PATH | {"rate": "3500kbit", "queue": {"kind": "fifo", "limit": "131250B"}}
        table = columns(
            run({"duration": "240s", "path": path, "flows": [flow]}), "controller_series"
        )
        signal, rate = (
            table["value"][(table["name"] == name) & (table["t"] > 100)].mean()
            for name in ("x_curr_ms", "r_ref")
        )
        return float(signal * rate / 15e6)

    assert product(qeps="0ms") == pytest.approx(1, abs=0.05)
    assert product() > 1.2


@pytest.mark.parametrize("cc", ["nada", "gcc"])
def test_coupled_media_share_by_priority(cc: str) -> None:
    # RFC 8699 section 5.3.1: rates in the proportion of priorities, 2 to 1.
    result = run({
        "duration": "100s", "warmup": "40s", "interval": "0s",
        "path": PATH | {"rate": "2Mbit", "queue": {"kind": "fifo", "limit": "75kB"}},
        "flows": [{"id": "m", "transport": "rtp", "cc": cc, "count": 2}],
        "coupling": {"media": {"kind": "fse", "flows": ["m"], "priorities": {"m-1": 2.0},
                               "options": {"algorithm": "active"}}},
    })  # fmt: skip
    first, second = (flow["goodput_bps"] for flow in result.summary["flows"])
    assert first / second == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("probing", "after_half_a_second"),
    # Growth by 8 % a second (draft-ietf-rmcat-gcc-02 section 5.5): 300 (1.08^0.5) = 312 kbit.
    # The probe at 1.5 Mbit/s arrives at the link's 1 Mbit/s, of which 0.95 are taken.
    [(False, 312e3), (True, 950e3)],
)
def test_probes_find_the_capacity_at_the_start(probing: bool, after_half_a_second: float) -> None:
    result = run(media("video", cc="gcc", params={"probing": probing}))
    table = columns(result, "controller_series")
    rate = table["value"][(table["name"] == "target_bps") & (table["t"] > 0.45)]
    assert rate[0] == pytest.approx(after_half_a_second, rel=0.02)
    [flow] = result.summary["flows"]
    assert flow["media"]["lost_frames"] == 0


def test_panels_show_target_encoder_and_frames() -> None:
    result = run(media("video"))
    rate, delay = media_panels(result, flow_styles(result.summary))
    target, encoder = rate.lines
    assert target.label.endswith("target")
    # 1 Mbit/s of IP packets at most, and less without headers.
    assert 0.15 <= np.median(encoder.y) < np.median(target.y) <= 1.5
    assert np.nanmin(delay.lines[0].y) >= 50
