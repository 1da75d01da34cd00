"""The engine's own tables through every figure, export and report."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import dumbbell
from dumbbell._errors import UsageError
from dumbbell._export import export_result
from dumbbell._flent import read_flent
from dumbbell._plots import plot_result
from dumbbell._plots_data import columns
from dumbbell._report import write_report

pytest.importorskip("dumbbell._core", reason="the engine is not built")
SCENARIO: dict[str, Any] = {
    "title": "CUBIC twice",
    "duration": "8s",
    "warmup": "2s",
    "seed": 1,
    "capture": True,
    "path": {"rate": "5Mbit", "rtt": "40ms", "queue": {"kind": "fifo", "limit": "1bdp"}},
    "flows": [{"cc": "cubic"}, {"cc": "cubic", "start": "1s"}, {"cc": "cubic", "size": "50kB"}],
    "probes": [{"kind": "ping", "interval": "50ms"}],
}


@pytest.fixture(scope="module")
def result() -> dumbbell.Result:
    return dumbbell.run(SCENARIO)


def test_figures(result: dumbbell.Result, tmp_path: Path) -> None:
    names = [path.stem for path in plot_result(result, tmp_path)]
    assert names == ["time-series", "cdf", "completions"]


def test_flent_sum_is_the_goodput(result: dumbbell.Result, tmp_path: Path) -> None:
    (path,) = export_result(result, "flent", tmp_path)
    flent = read_flent(path)
    total = flent.series["TCP upload sum"].values[flent.x_s > 3]
    # 5 Mbit/s less headers of 52 bytes in 1500.
    assert total.mean() == pytest.approx(5 * 1448 / 1500, rel=0.05)
    ping = flent.series["Ping (ms) ICMP"]
    assert ping.raw_values.min() == pytest.approx(40, abs=3)


def test_pcapng_holds_each_delivered_packet(result: dumbbell.Result, tmp_path: Path) -> None:
    scapy = pytest.importorskip("scapy.all", reason="scapy is not installed")
    (path,) = export_result(result, "pcapng", tmp_path)
    capture = columns(result, "capture")
    with scapy.RawPcapNgReader(str(path)) as reader:
        records = list(reader)
    assert len(records) == capture["t_ns"].size
    link = result.summary["links"][0]
    here = capture["link"] == link["id"]
    assert int((here & (capture["event"] == "depart")).sum()) == link["packets"]
    comments = [(getattr(meta, "comments", None) or [meta.comment])[0] for _, meta in records]
    assert link["drops"] > 0
    assert sum(b": drop" in comment for comment in comments) == sum(
        one["drops"] for one in result.summary["links"]
    )


def test_report_and_its_scenario(result: dumbbell.Result, tmp_path: Path) -> None:
    html = write_report(tmp_path / "report.html", result).read_text(encoding="utf-8")
    assert "CUBIC twice" in html
    text = html[html.index("<pre>") + 5 : html.index("</pre>")]
    again = dumbbell.Scenario.from_dict(tomllib.loads(text.replace("&#34;", '"')))
    first = dumbbell.run(again)
    assert first.summary["flows"] == result.summary["flows"]


def test_csv_and_parquet(result: dumbbell.Result, tmp_path: Path) -> None:
    for kind in ("csv", "parquet"):
        names = {path.stem for path in export_result(result, kind, tmp_path / kind)}
        assert {"flow_series", "link_series", "completions", "capture"} <= names


def test_without_capture_pcapng_is_refused(tmp_path: Path) -> None:
    quiet = dumbbell.run(SCENARIO | {"capture": False, "duration": "3s"})
    with pytest.raises(UsageError, match="capture"):
        export_result(quiet, "pcapng", tmp_path)
