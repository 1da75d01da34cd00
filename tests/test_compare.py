"""Which flows of a grid get which controller, and what is told of media."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import dumbbell
from dumbbell._plots_multiples import multiples_figure


def scenario(*flows: dict[str, Any]) -> dict[str, Any]:
    return {
        "duration": "10s",
        "path": {"rate": "2Mbit", "rtt": "50ms"},
        "flows": [{"id": f"f{n}", **flow} for n, flow in enumerate(flows)],
    }


VIDEO = {"transport": "rtp"}
DATA: dict[str, Any] = {}
LAYERS = {"transport": "plt"}
RATE = {"transport": "rap"}


@pytest.mark.parametrize(
    ("flows", "cc", "expected"),
    [
        ([VIDEO], "gcc", ["gcc"]),
        ([DATA, VIDEO, DATA], "nada+bbr", ["bbr", "nada", "bbr"]),
        ([DATA, VIDEO, DATA], "bbr+nada+vegas", ["bbr", "nada", "vegas"]),
        ([DATA, VIDEO], "scream", ["cubic", "scream"]),
        ([VIDEO, LAYERS, RATE], "cubic", ["nada", "plt-cubic", "rap"]),
        ([VIDEO, LAYERS, DATA], "bbr", ["nada", "plt", "bbr"]),
    ],
)
def test_controllers_go_to_the_flows_that_take_them(
    flows: list[dict[str, Any]], cc: str, expected: list[str]
) -> None:
    rows = dumbbell.compare(scenario(*flows), cc=[cc]).rows
    assert [row["flow_cc"] for row in rows] == expected


@pytest.mark.parametrize(
    ("flows", "cc", "message"),
    [
        ([VIDEO], "cubic", 'cc "cubic": the scenario has no tcp or plt flow'),
        ([DATA, RATE], "nada", 'cc "nada": the scenario has no rtp flow'),
        ([DATA, VIDEO], "nada+gcc", r'cc "nada\+gcc": the scenario has only 1 rtp \[\[flows\]\]'),
    ],
)
def test_controllers_that_no_flow_takes(flows: list[dict[str, Any]], cc: str, message: str) -> None:
    with pytest.raises(dumbbell.UsageError, match=message):
        dumbbell.compare(scenario(*flows), cc=[cc])


def test_all_of_them_for_media(tmp_path: Path) -> None:
    comparison = dumbbell.compare(scenario(VIDEO), cc=["all"])
    rows = {row["flow_cc"]: row for row in comparison.rows}
    assert list(rows) == ["gcc", "nada", "scream"]
    for result, row in zip(comparison.results, comparison.rows, strict=True):
        media = result.summary["flows"][0]["media"]
        assert row["frame_delay_p95_ms"] == media["frame_delay_ms"]["p95"] > 25
        assert row["lost_frames"] == media["lost_frames"]
    assert [group["frame_delay_p95_ms"] for group in comparison.groups()] == [
        row["frame_delay_p95_ms"] for row in comparison.rows
    ]
    drawn = multiples_figure(comparison.results, comparison.titles, tmp_path / "page.svg")
    assert "goodput (Mbit/s)" in drawn.read_text()


def test_bounds_of_the_rate_are_kept() -> None:
    """Video of up to 4 Mbit/s stays that under another controller; gains of the first do not."""
    params = {"max_rate": "4Mbit", "min_rate": "200kbit", "kappa": 0.4}
    flow = {**VIDEO, "cc": "nada", "params": params}
    comparison = dumbbell.compare(scenario(flow, {"cc": "bbr", "params": {}}), cc=["gcc", "nada"])
    gcc, nada = (result.config["flows"][0]["transport"]["cc"] for result in comparison.results)
    assert gcc == {"kind": "gcc", "params": {"max_rate": 4_000_000, "min_rate": 200_000}}
    assert nada["params"]["kappa"] == 0.4


def test_a_class_of_the_scenarios_own(tmp_path: Path) -> None:
    """A class says itself whether it is for media."""
    (tmp_path / "both_kinds.py").write_text(
        "from dumbbell import CongestionControl, MediaControl\n\n\n"
        "class Slow(MediaControl):\n    target_rate = 2e5\n\n\n"
        "class Still(CongestionControl):\n    pass\n"
    )
    file = tmp_path / "call.toml"
    file.write_text(
        'duration = "5s"\n[path]\nrate = "2Mbit"\nrtt = "50ms"\n'
        '[[flows]]\n[[flows]]\ntransport = "rtp"\n'
    )
    slow, still = "python:both_kinds:Slow", "python:both_kinds:Still"
    comparison = dumbbell.compare(file, cc=[slow, f"{slow}+{still}"])
    assert [row["flow_cc"] for row in comparison.rows] == ["cubic", slow, still, slow]
    sys.modules.pop("both_kinds")
