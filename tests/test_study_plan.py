"""Commands around study files, and the ready studies."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

pytest.importorskip("dumbbell._core", reason="the engine is not built")

from dumbbell._cli import run_command
from dumbbell._errors import UsageError
from dumbbell._scenario import read_toml
from dumbbell.studies import Study
from dumbbell.studies._study import ready_studies
from dumbbell.studies.metrics import METRICS


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = run_command([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_each_new_study_can_be_planned(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    kinds = ("full", "fractional", "plackett-burman", "latin-hypercube", "sobol", "table")
    for kind in (*kinds, "one-at-a-time"):
        file = tmp_path / f"{kind}.toml"
        assert call(capsys, "study", "new", "--design", kind, "--out", file) == (0, "", "")
        status, out, err = call(capsys, "study", "plan", file, "--no-pilot", "--json")
        assert (status, err) == (0, "")
        assert json.loads(out)["design"]["kind"] == kind


def test_a_new_study_of_a_scenario_names_it_relative_to_itself(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "studies").mkdir()
    scenario = tmp_path / "base.toml"
    scenario.write_text(
        'duration = "2s"\n[path]\nrate = "4Mbit"\nrtt = "20ms"\n[[flows]]\ncc = "reno"\n'
    )
    file = tmp_path / "studies" / "s.toml"
    assert call(capsys, "study", "new", "--from", scenario, "--out", file)[0] == 0
    made = Study.load(file)
    assert made.scenario == "../base.toml"
    assert made.levels()["rate"] == ["4Mbit", "16Mbit"]
    assert len(made.runs()) == 8
    status, _, err = call(capsys, "study", "new", "--from", scenario, "--out", file)
    assert status == 2
    assert "there is such a file already" in err


def test_plan_says_what_the_design_can_tell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "s.toml"
    call(capsys, "study", "new", "--design", "fractional", "--out", file)
    status, out, err = call(capsys, "study", "plan", file, "--no-pilot")
    assert (status, err) == (0, "")
    assert "4 rows x 1 replicate = 4 runs" in out
    assert "fractional, 3 factors in 4 rows, resolution III, balanced, orthogonal" in out
    assert "defining words: rate*rtt*cc" in out
    assert "aliased: rate = rtt*cc, rtt = rate*cc, cc = rate*rtt" in out
    assert "time:" not in out


def test_the_pilot_finds_what_cannot_be_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        '[scenario]\nduration = "2s"\npath = { rate = "4Mbit", rtt = "20ms" }\n'
        'flows = [{ cc = "reno" }]\n'
        '[factors]\n"path.rtt" = ["10ms", "20ms", "30ms"]\n'
        '[responses]\nx = "flows[1].goodput_bps"\n'
    )
    status, _, err = call(capsys, "study", "plan", file)
    assert status == 0
    assert err.splitlines() == [
        f"dumbbell: run {i}: flows[1].goodput_bps: there are only 1 in the list" for i in range(3)
    ]
    file.write_text(file.read_text().replace("[1].good", "[0].good"))
    status, out, err = call(capsys, "study", "plan", file, "--json")
    document = json.loads(out)
    assert (status, err, document["runs"]) == (0, "", 3)
    assert len(document["pilot"]["run_s"]) == 3
    assert document["pilot"]["all_s"] > 0


def test_metrics_are_listed_with_their_sections(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "list", "metrics", "--json")
    rows = json.loads(out)
    assert status == 0
    assert [row["name"] for row in rows] == list(METRICS)
    assert all("RFC 5166 section 2." in row["summary"] for row in rows)


# Long runs are cut, so that testing takes seconds.
_CUT: dict[str, tuple[str, str]] = {
    "tcpeval-access": ("3s", "1s"),
    "tcpeval-data-centre": ("300ms", "100ms"),
    "tcpeval-geostationary": ("15s", "5s"),
    "tcpeval-multiple-bottlenecks": ("3s", "1s"),
    "tcpeval-tradeoff": ("3s", "1s"),
    "tcpeval-trans-oceanic": ("2s", "1s"),
}


# Laying out the network of NIST SP 500-282 takes too long here.
@pytest.mark.parametrize("name", [n for n in ready_studies() if not n.startswith("nist-")])
def test_ready_studies_run(name: str) -> None:
    """Each gives all its responses in its first run, and shares are between 0 and 1."""
    path = ready_studies()[name]
    data = read_toml(path)
    if name in _CUT:
        duration, warmup = _CUT[name]
        data["set"] = {**data.get("set", {}), "duration": duration, "warmup": warmup}
    made = Study.from_dict(data, file=str(path), directory=path.parent)
    assert made.title
    outcome = made.measure(made.runs()[0])
    assert outcome.error is None
    unknown = {key for key, value in outcome.responses.items() if math.isnan(value)}
    # Flows that meet too late to be fair within the run have no such time.
    assert unknown <= {"delta_fair_time_s"}
    for key in ("loss_ratio", "jain", "utilisation", "utilisation_east"):
        assert 0 <= outcome.responses.get(key, 0) <= 1.0001


def test_ready_studies_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = json.loads(call(capsys, "list", "studies", "--json")[1])
    assert [row["name"] for row in rows] == list(ready_studies())
    file = tmp_path / "s.toml"
    assert call(capsys, "study", "new", "--from", "ready:tcpeval-access", "--out", file)[0] == 0
    assert Study.load(file).runs() == Study.load("ready:tcpeval-access").runs()
    with pytest.raises(UsageError, match="there is no such study"):
        Study.load("ready:nothing")


def test_the_pilot_says_when_replicates_are_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two bulk flows meet in the same way each time; one with random loss does not."""
    file = tmp_path / "s.toml"
    text = (
        "replicates = 2\n"
        '[scenario]\nduration = "2s"\npath = { rate = "4Mbit", rtt = "20ms" }\n'
        'flows = [{ cc = "reno" }]\n'
        '[factors]\n"path.rtt" = ["10ms", "20ms"]\n'
        '[responses]\nx = "flows[0].goodput_bps"\n'
    )
    file.write_text(text)
    _, _, err = call(capsys, "study", "plan", file)
    assert err == "dumbbell: replicates do not differ: nothing in the scenario is random\n"
    file.write_text(text.replace('"20ms" }', '"20ms", loss = 0.05 }'))
    assert call(capsys, "study", "plan", file)[2] == ""
