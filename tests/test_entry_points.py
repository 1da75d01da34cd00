"""Controllers that other packages register."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dumbbell
from dumbbell._cli import run_command
from dumbbell._plugins import GROUP, plugins

MODULE = '''
from dumbbell import CongestionControl, MediaControl


class Slow(MediaControl):
    """Video at a constant rate."""

    target_rate = 2e5


class Quarter(CongestionControl):
    """Constant window of a few segments.

    More about it.
    """

    signals = ("none",)
    segments = 4

    def on_start(self, event):
        self.cwnd = self.segments * event.mss


class Plain:
    pass
'''

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a distribution on the path: its entry points by name."""

    def put(package: str, **points: str) -> None:
        info = tmp_path / f"{package}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        lines = [f"{name} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))
        plugins.cache_clear()

    (tmp_path / "quarter_cc.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.cache_clear()
    yield put
    plugins.cache_clear()
    sys.modules.pop("quarter_cc", None)


def run(cc: str, **flow: object) -> dumbbell.Result:
    return dumbbell.run(
        {
            "duration": "2s",
            "path": {"rate": "20Mbit", "rtt": "40ms"},
            "flows": [{"cc": cc, **flow}],
        }
    )


def test_it_runs_by_name(install: Install) -> None:
    install("quarter", quarter="quarter_cc:Quarter")
    assert run("quarter").to_polars("flow_series")["cwnd"].max() == 4
    assert run("quarter", params={"segments": 7}).to_polars("flow_series")["cwnd"].max() == 7
    with pytest.raises(dumbbell.ScenarioError, match="Quarter has no parameter 'segmets'"):
        run("quarter", params={"segmets": 7})


def test_it_is_compared_by_name(install: Install) -> None:
    install("quarter", quarter="quarter_cc:Quarter")
    scenario = {
        "duration": "2s",
        "path": {"rate": "20Mbit", "rtt": "40ms"},
        "flows": [{"cc": "reno"}],
    }
    comparison = dumbbell.compare(scenario, cc=["reno", "quarter"])
    assert [row["flow_cc"] for row in comparison.rows] == ["reno", "quarter"]


def test_it_is_listed(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("quarter", quarter="quarter_cc:Quarter")
    assert run_command(["list", "controllers", "--json"]) == 0
    entries = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    ours = entries["quarter"]
    assert ours["summary"] == "Constant window of a few segments"
    assert ours["source"] == "package quarter 1.2"
    assert ours["signals"] == ["none"]
    assert [(p["name"], p["default"]) for p in ours["params"]] == [("segments", 4)]
    assert "cubic" in entries
    assert run_command(["list", "controllers", "quarter"]) == 0
    assert "package quarter 1.2" in capsys.readouterr().out
    assert run_command(["show", "cc", "quarter"]) == 0
    assert "Constant window of a few segments" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("gone", "no_such_module:Thing", "cannot be loaded: No module named 'no_such_module'"),
        ("odd", "quarter_cc:Missing", "cannot be loaded: module 'quarter_cc' has no attribute"),
        ("plain", "quarter_cc:Plain", "expected a subclass of CongestionControl"),
        ("cubic", "quarter_cc:Quarter", "refused: a built-in controller has that name"),
    ],
)
def test_a_broken_one_is_one_line_and_spares_the_rest(
    install: Install, capsys: pytest.CaptureFixture[str], name: str, value: str, expected: str
) -> None:
    install("bad", **{name: value, "quarter": "quarter_cc:Quarter"})
    assert run_command(["list", "controllers", "--json"]) == 0
    captured = capsys.readouterr()
    assert f'controller "{name}" of package bad 1.2: {expected}' in captured.err
    assert captured.err.count("\n") == 1
    sources = {entry["name"]: entry["source"] for entry in json.loads(captured.out)}
    assert sources["quarter"] == "package bad 1.2"
    assert "package" not in sources.get("cubic", "package")
    if name == "cubic":
        assert run(name).to_polars("flow_series")["cwnd"].max() > 4
        return
    with pytest.raises(dumbbell.ScenarioError, match=r"flows\[0\]\.cc") as caught:
        run(name)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_name_of_two_packages_is_refused(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("one", quarter="quarter_cc:Quarter")
    install("two", quarter="quarter_cc:Plain")
    assert run_command(["list", "controllers", "--json"]) == 0
    captured = capsys.readouterr()
    assert "one 1.2 and two 1.2: refused: the name is registered more than once" in captured.err
    assert '"quarter"' not in captured.out


def test_a_misspelt_name_gets_the_nearest(install: Install) -> None:
    install("quarter", quarter="quarter_cc:Quarter")
    with pytest.raises(dumbbell.ScenarioError, match='did you mean "quarter"'):
        run("quartr")


def test_transports_beside_tcp_run_beside_it(install: Install) -> None:
    """Flows without a controller, and those with one for media, are none of its business."""
    install("quarter", quarter="quarter_cc:Quarter", slow="quarter_cc:Slow")
    for transport, cc in (("rap", None), ("rtp", None), ("rtp", "gcc"), ("rtp", "slow")):
        flow = {"transport": transport} | ({"cc": cc} if cc else {})
        result = dumbbell.run(
            {"duration": "2s", "path": {"rate": "20Mbit", "rtt": "40ms"}, "flows": [flow]}
        )
        assert result.summary["flows"][0]["goodput_bps"] > 0
    assert result.to_polars("controller_series").filter(name="target_bps")["value"].max() == 2e5
