"""The command line as a person meets it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dumbbell._core", reason="the engine is not built")

import dumbbell
from dumbbell._cli import run_command
from dumbbell._cli_values import parse_over, parse_queues, parse_settings, split_list
from dumbbell._compare import _PART
from dumbbell._registry import builtin
from dumbbell._run import presets

SCENARIO = """
title = "test"
duration = "4s"
warmup = "1s"

[path]
rate = "10Mbit"
rtt = "20ms"

[[flows]]
cc = "cubic"

[[flows]]
cc = "reno"

[[probes]]
kind = "ping"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "s.toml"
    path.write_text(SCENARIO)
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = run_command([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Bad input: exit status 2, nothing on stdout, one line on stderr."""
    status, out, err = call(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("dumbbell: ")
    return err.removeprefix("dumbbell: ").rstrip("\n")


DISTRIBUTION = {"mean", "p50", "p95", "p99"}


def test_run_prints_what_the_design_promises(
    capsys: pytest.CaptureFixture[str], scenario: Path
) -> None:
    status, out, err = call(capsys, "run", scenario, "--json", "--seed", 7)
    assert (status, err) == (0, "")
    result = json.loads(out)
    assert result.keys() >= {"scenario", "seed", "version", "backend", "flows", "links", "probes"}
    assert (result["seed"], result["backend"], result["version"]) == (7, "sim", "0.1.0")
    assert result["scenario"]["path"] == {"rate": "10Mbit", "rtt": "20ms"}
    assert [f["id"] for f in result["flows"]] == ["cubic-1", "reno-1"]
    for flow in result["flows"]:
        assert flow.keys() >= {"cc", "goodput_bps", "loss_ratio", "mark_ratio", "retransmits"}
        assert "completion_s" in flow
        assert flow["rtt_ms"].keys() >= DISTRIBUTION
    (link,) = result["links"]
    assert link.keys() >= {"id", "utilisation", "packets", "drops", "marks"}
    assert link["queue_delay_ms"].keys() >= DISTRIBUTION | {"max"}
    (probe,) = result["probes"]
    assert probe.keys() >= {"id", "rtt_ms", "lost"}
    totals = result["totals"]
    assert totals.keys() >= {"jain", "packets", "events", "simulated_s", "wall_s"}
    assert totals["simulated_s"] == 4.0
    assert totals["peak_rss_bytes"] > 2**20
    # Conservation: 1448 of every 1514 bytes are payload, and no more than all of the link is used.
    assert sum(f["goodput_bps"] for f in result["flows"]) <= 10e6 * 1448 / 1514 * 1.001


def test_table_for_people(capsys: pytest.CaptureFixture[str], scenario: Path) -> None:
    status, out, _ = call(capsys, "run", scenario)
    assert status == 0
    assert "cubic-1" in out
    assert "goodput" in out
    assert "Mbit/s" in out
    assert call(capsys, "run", scenario, "--quiet") == (0, "", "")


def test_same_seed_same_result_and_a_result_runs_again(
    capsys: pytest.CaptureFixture[str], scenario: Path, tmp_path: Path
) -> None:
    lossy = ["--set", "path.loss=0.01"]
    _, first, _ = call(capsys, "run", scenario, *lossy, "--json", "--out", tmp_path / "r")
    _, again, _ = call(capsys, "run", tmp_path / "r", "--json")
    _, other, _ = call(capsys, "run", tmp_path / "r", "--json", "--seed", 2)
    _, shown, _ = call(capsys, "show", tmp_path / "r", "--json")
    documents = [json.loads(text) for text in (first, again, other, shown)]
    assert documents[3] == documents[0]
    for document in documents:
        del document["totals"]["wall_s"], document["totals"]["peak_rss_bytes"]
    assert documents[0] == documents[1]
    assert documents[0] != documents[2]


def test_saved_tables_are_those_of_the_run(scenario: Path, tmp_path: Path) -> None:
    result = dumbbell.run(scenario)
    loaded = dumbbell.Result.load(result.save(tmp_path / "r"))
    assert set(loaded.tables()) == set(result.tables())
    for name in result.tables():
        assert loaded.to_polars(name).equals(result.to_polars(name))
    assert result.to_pandas("flow_series").shape == result.to_polars("flow_series").shape
    with pytest.raises(KeyError):
        loaded.table("nothing")


def test_compare(capsys: pytest.CaptureFixture[str], scenario: Path, tmp_path: Path) -> None:
    grid = ["--cc", "cubic,cubic+bbr", "--queue", "fifo,codel:target=10ms", "--seeds", 2]
    over = ["--over", "path.rate=5Mbit,10Mbit"]
    status, out, err = call(
        capsys, "compare", scenario, *grid, *over, "--json", "--out", tmp_path / "c"
    )
    assert (status, err) == (0, "")
    document = json.loads(out)
    assert document["complete"] is True
    rows = document["rows"]
    assert len(rows) == 2 * 2 * 2 * 2 * 2  # cc, queue, rate, seeds, flows
    assert {row["queue"] for row in rows} == {"fifo", "codel target=10ms"}
    assert {row["path.rate"] for row in rows} == {"5Mbit", "10Mbit"}
    mixed = [row["flow_cc"] for row in rows if row["cc"] == "cubic+bbr"]
    assert sorted(set(mixed)) == ["bbr", "cubic"]
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert first["share"] + second["share"] == pytest.approx(1.0)
    assert (tmp_path / "c" / "0000" / "result.json").is_file()
    assert json.loads((tmp_path / "c" / "comparison.json").read_text())["rows"] == rows


def test_compare_all_without_a_scenario(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = ["--rate", "10Mbit", "--rtt", "40ms"]
    short = ["--set", "duration=2s", "--set", "warmup=0s"]
    status, out, err = call(capsys, "compare", "--cc", "all,fixed", *path, *short)
    assert status == 0
    # Those that steer by marks or by routers get none from a FIFO.
    assert all("on its way" in line for line in err.splitlines())
    steering = {n for n, e in builtin().controllers.items() if e.signals != ("none",)}
    assert {"reno", "cubic", "bbr"} <= steering
    assert not steering & {"fixed", "rate"}
    rows = {line.split()[0] for line in out.splitlines() if line.strip()}
    assert steering | {"fixed"} <= rows
    assert "rate" not in rows
    assert "figure: comparison.png" in out
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_compare_draws_where_it_is_told(
    capsys: pytest.CaptureFixture[str], scenario: Path, tmp_path: Path
) -> None:
    figure = tmp_path / "f.svg"
    status, _, _ = call(
        capsys, "compare", scenario, "--cc", "reno,reno+cubic", "--seeds", 2, "--figure", figure
    )
    assert status == 0
    assert figure.read_text().count("reno+cubic seed") == 2
    status, _, err = call(capsys, "compare", scenario, "--cc", "reno", "--figure", "f.gif")
    assert (status, err) == (2, 'dumbbell: figure format "gif"; there are pdf, png, svg\n')


def test_a_name_may_end_in_two_pluses() -> None:
    assert _PART.findall("ledbat++") == ["ledbat++"]
    assert _PART.findall("ledbat+++cubic") == ["ledbat++", "cubic"]
    assert _PART.findall("cubic+bbr+reno") == ["cubic", "bbr", "reno"]


def test_show_says_what_would_run(capsys: pytest.CaptureFixture[str], scenario: Path) -> None:
    status, out, _ = call(capsys, "show", scenario, "--json", "--set", "path.rtt=40ms")
    assert status == 0
    config = json.loads(out)["config"]
    # 10 Mbit/s and 40 ms: 50 000 bytes, 33 frames of 1514.
    assert config["links"][0]["queue"] == {"kind": "fifo", "params": {"limit": 33}}
    status, out, _ = call(capsys, "show", scenario)
    assert "fifo limit=17p" in out


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "list", "controllers", "--json")
    controllers = {entry["name"]: entry for entry in json.loads(out)}
    assert {"reno", "cubic", "bbr"} <= controllers.keys()
    assert all(entry["source"] for entry in controllers.values())
    _, out, _ = call(capsys, "list", "queues", "codel")
    assert "RFC 8289" in out
    assert "5ms" in out
    _, out, _ = call(capsys, "list", "presets")
    assert "home" in out


@pytest.mark.parametrize("preset", sorted(presets()))
def test_presets_are_right(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    if preset == "datacentre" and "dctcp" not in builtin().controllers:
        pytest.skip("needs the controller dctcp")
    status, _, err = call(capsys, "show", f"preset:{preset}")
    assert (status, err) == (0, "")


def test_new_scenario_keeps_comments(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "new.toml"
    new = ["new", "scenario", "--set", "path.rate=7Mbit", "--set", "flows[1].cc=reno"]
    assert call(capsys, *new, "--out", file)[0] == 0
    text = file.read_text()
    assert 'rate = "7Mbit"             # frames' in text
    assert dumbbell.Scenario.load(file).flows[1].cc == "reno"
    assert "--force" in refused(capsys, *new, "--out", file)


def test_new_schema(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "new", "schema")
    assert status == 0
    assert "path" in json.loads(out)["properties"]


def test_new_trace_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "t.down"
    assert call(capsys, "new", "trace", "constant", "--duration", "5s", "--out", trace)[0] == 0
    path = tmp_path / "s.toml"
    path.write_text(SCENARIO.replace('rate = "10Mbit"', 'trace = "t.down"'))
    status, out, _ = call(capsys, "run", path, "--json", "--out", tmp_path / "r")
    assert status == 0
    assert json.loads(out)["links"][0]["utilisation"] > 0.5
    trace.unlink()
    assert call(capsys, "run", tmp_path / "r", "--quiet")[0] == 0


BAD_LINES: list[tuple[list[str], str]] = [
    (["run", "absent.toml"], "absent.toml: cannot be read: no such file or directory"),
    (["run", "FILE", "--set", "path.rate=50Mb"], 'FILE: path.rate = "50Mb": expected a rate'),
    (["run", "FILE", "--set", "path.rate"], '--set "path.rate": expected key=value'),
    (["run", "FILE", "--set", "flows[9].cc=bbr"], "FILE: flows[9].cc: there is no such place"),
    (["run", "FILE", "--set", "flows[0].cc=cubik"], 'FILE: flows[0].cc = "cubik": expected the'),
    (["run", "FILE", "--set", 'path.queue.kind="x"'], 'FILE: path.queue.kind = "x": expected the'),
    (["run", "FILE", "--set", "path.queue.limit=0p"], "FILE: path.queue.kind: missing"),
    (["run", "FILE", "--set", "flows[0].count=999999"], "FILE: flows"),
    (["run", "FILE", "--seed", "-1"], "seed -1: expected a whole number"),
    (["run", "FILE", "--seed", "x"], "Invalid value for '--seed'"),
    (["run", "FILE", "--backend", "kernel"], "backend kernel (real time, Linux' own tc in"),
    (["run", "FILE", "--backend", "simm"], 'backend "simm"; did you mean "sim"?'),
    (["run", "FILE", "--out", "FILE"], "--out FILE: expected a directory"),
    (["run", "FILE", "--nothing"], "No such option"),
    (["run"], "Missing argument"),
    (["rnu"], "No such command 'rnu'"),
    (["run", "preset:hom"], 'preset "hom": there is no such preset; did you mean "home"?'),
    (["compare", "FILE", "--cc", "nope"], 'FILE: flows[0].cc = "nope": expected the name'),
    (["compare", "FILE", "--cc", "a+b+c"], 'cc "a+b+c": the scenario has only 2 tcp'),
    (["compare", "FILE", "--queue", "codel:target"], '--queue "codel:target": expected kind'),
    (["compare", "FILE", "--queue", "codel:target=5"], "FILE: path.queue.target = 5: expected"),
    (["compare", "FILE", "--over", "path.rate"], '--over "path.rate": expected key=value'),
    (["compare", "FILE", "--seeds", "0"], "seeds 0: expected at least 1"),
    (["show", "FILE", "--set", "a=1"], "FILE: a = 1: no such key"),
    (["list", "queues", "codell"], 'queues "codell": there is no such name; did you mean'),
    (["new", "scenario", "--preset", "x"], 'preset "x": there is no such preset'),
    (["new", "trace", "nothing"], "trace kind"),
    (["new", "trace", "constant", "--duration", "5"], '--duration "5": expected a time'),
    (["report", "absent"], "absent: expected a result or the directory of a comparison"),
    (["export", "absent", "csv"], "absent: cannot be read"),
    (["import", "absent"], "absent"),
]


@pytest.mark.parametrize(("arguments", "line"), BAD_LINES, ids=[" ".join(a) for a, _ in BAD_LINES])
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str],
    line: str,
    capsys: pytest.CaptureFixture[str],
    scenario: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dumbbell._resolve._available_bytes", lambda: 2**30)
    monkeypatch.chdir(scenario.parent)
    said = refused(capsys, *(str(scenario) if a == "FILE" else a for a in arguments))
    assert said.startswith(line.replace("FILE", str(scenario)))


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"scenario": 1', "[" * 5000])
def test_broken_results(content: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(content)
    assert "not a result" in refused(capsys, "show", tmp_path)


def python(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dumbbell", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def test_a_process_ends_with_the_status_and_without_traceback(tmp_path: Path) -> None:
    done = python("run", tmp_path / "absent.toml")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert python("--version").stdout == "dumbbell 0.1.0\n"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from dumbbell._cli import run_command; run_command(['--help']);"
        "print(sorted({'pydantic', 'rich', 'numpy', 'pyarrow', 'tomlkit'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "compare" in done.stdout


def interrupt(*_: object) -> bool:
    """What a progress bar is called as, while the run goes on: press Ctrl-C there."""
    signal.raise_signal(signal.SIGINT)
    return True


def test_ctrl_c_keeps_what_is_done(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    scenario: Path,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("dumbbell._cli_output.progress_bar", lambda **_: nullcontext(interrupt))
    long = ["--set", "duration=100000s", "--set", "interval=10s"]
    status, out, err = call(capsys, "run", scenario, *long, "--out", tmp_path / "r")
    assert status == 1
    assert "Flows" in out
    assert err == "dumbbell: interrupted; the result ends there\n"
    result = dumbbell.Result.load(tmp_path / "r")
    assert result.complete is False
    assert 0 < result.summary["totals"]["simulated_s"] < 100_000


def test_ctrl_c_keeps_the_runs_of_a_grid_that_are_done(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    scenario: Path,
    tmp_path: Path,
) -> None:
    def after_one(done: int, _: int) -> None:
        if done:
            interrupt()

    monkeypatch.setattr("dumbbell._cli_output.progress_count", lambda **_: nullcontext(after_one))
    grid = ["--over", "duration=4s,100000s", "--set", "interval=0", "--jobs", "2"]
    status, _, err = call(capsys, "compare", scenario, *grid, "--out", tmp_path / "c")
    assert status == 1
    assert err == "dumbbell: interrupted; kept 1 of 2 runs\n"
    assert (tmp_path / "c" / "0000" / "result.json").is_file()


def test_controller_from_a_module_beside_the_scenario(
    capsys: pytest.CaptureFixture[str], scenario: Path
) -> None:
    (scenario.parent / "steady_cc.py").write_text(
        "from dumbbell import CongestionControl\n"
        "class Steady(CongestionControl):\n"
        "    segments = 10\n"
        "    def on_start(self, event):\n"
        "        self.cwnd = self.segments * event.mss\n"
        "class Broken(CongestionControl):\n"
        "    def on_ack(self, ack):\n"
        "        raise RuntimeError('on purpose')\n"
    )
    cc = "flows[0].cc=python:steady_cc:Steady"
    status, out, _ = call(
        capsys, "run", scenario, "--json", "--set", cc, "--set", "flows[0].params={segments=4}"
    )
    assert status == 0
    assert json.loads(out)["flows"][0]["cwnd_max"] == 4.0
    status, out, err = call(capsys, "run", scenario, "--set", cc.replace("Steady", "Broken"))
    assert status == 1
    assert "on purpose" in err
    assert "Flows" in out  # the result up to there
    said = refused(capsys, "run", scenario, "--set", cc.replace("Steady", "Nobody"))
    assert "expected a subclass of CongestionControl" in said


def test_values_on_the_command_line() -> None:
    assert parse_settings(["a.b=5", "c=50Mbit", "d=true", 'e={ kind = "x" }', "f=[1, 2]"]) == {
        "a.b": 5,
        "c": "50Mbit",
        "d": True,
        "e": {"kind": "x"},
        "f": [1, 2],
    }
    assert split_list('a, {x = [1,2]},"b,c",') == ["a", "{x = [1,2]}", '"b,c"']
    assert parse_over(["path.loss=0.1,0.2"]) == {"path.loss": [0.1, 0.2]}
    assert parse_queues("fifo,codel:target=5ms:ecn=true") == [
        "fifo",
        {"kind": "codel", "target": "5ms", "ecn": True},
    ]
