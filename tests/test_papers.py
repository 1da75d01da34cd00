"""Papers run, judge their numbers, and draw."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("dumbbell._core", reason="the engine is not built")
pytest.importorskip("matplotlib", reason="figures are an extra")

from dumbbell import UsageError
from dumbbell._cli import run_command
from dumbbell.papers import _paper, listing, loss_arithmetic, reproduce
from dumbbell.papers._fse_runs import QUICK, Setup
from dumbbell.papers.cubic_recovery import reno_rounds, time_to_regain

NAMES = [row["name"] for row in listing()]
# docs/papers.md says why.
DIFFERS = {
    "CUBIC, PI2: share dropped",
    "DCTCP, step: use of the link, slightly less",
    "1 % loss at 100 ms, CUBIC, simulated",
    "CE only, CUBIC and Prague, 10 ms: Prague over CUBIC",
    "D: PLT and bursts of 50 Mbit/s, use",
    "L queue at 12 Mbit/s and above: median of median delays",
    "CoDel, one queue: prague 20 ms and reno 20 ms: ratio",
    "pie: prague 20 ms and reno 20 ms: ratio",
    "fall of capacity: PI2's highest delay over PIE's",
    "simple algorithm, tfrc, 13 packets, 2 to 10 flows: queue over that without FSE, least",
    "goodput latency, bic",
    "nada at rest, 3 flows, 3.5 Mbit/s: queueing delay",
    # Nine in ten over ten runs; the quick mode's two are few.
    "rap, before the bottleneck moves: right decisions",
    "recovery latency, bic",
    "recovery latency, ctcp",
    "recovery latency, fast-at",
    "recovery latency, hstcp",
}


@pytest.mark.parametrize("name", NAMES)
def test_quick_run_agrees_and_draws(name: str, tmp_path: Path) -> None:
    outcome = reproduce(name, tmp_path / "figures", quick=True)
    json.dumps(outcome, allow_nan=False)
    rows = outcome["rows"]
    wrong = [row for row in rows if row["verdict"] != "agrees" and row["what"] not in DIFFERS]
    assert not wrong
    assert outcome["passed"] == all(row["verdict"] == "agrees" for row in rows)
    assert all(row["source"] for row in rows)
    [figure] = outcome["figures"]
    assert Path(figure).read_bytes().startswith(b"\x89PNG")
    assert outcome["files"][0] == figure
    page = Path(outcome["files"][1]).read_text(encoding="utf-8")
    assert outcome["title"] in html.unescape(page)
    assert len(outcome["files"]) == 2 + len(outcome["tables"])
    assert all(Path(file).stat().st_size for file in outcome["files"])


def test_formulas_are_those_of_rfc_9438() -> None:
    # Its tables: average window, and the loss rate that 10 Gbit/s at 0.1 s needs.
    assert loss_arithmetic.reno_window(1e-8) == pytest.approx(12000, rel=0.03)
    assert loss_arithmetic.cubic_window(1e-8, 0.1) == pytest.approx(187400, rel=0.01)
    assert loss_arithmetic.cubic_window(1e-8, 0.01) == pytest.approx(33325, rel=0.01)
    assert loss_arithmetic.cubic_window(1e-3, 0.1) == pytest.approx(38, rel=0.03)
    assert loss_arithmetic.cubic_loss(1e10, 0.1) == pytest.approx(2.9e-8, rel=0.02)
    assert loss_arithmetic.reno_loss(1e10, 0.1) == pytest.approx(2.0e-10, rel=0.1)
    # K of section 4.2: 166.7 segments lose 50.
    assert time_to_regain(166.7) == pytest.approx(5.0, rel=0.001)
    assert reno_rounds(100) == pytest.approx(30 / 0.529, rel=0.01)


@pytest.mark.parametrize(
    ("published", "good", "bad"),
    [
        (_paper.within("w", 10, 0.1, source="s"), 10.9, 11.1),
        (_paper.factor("w", 10, 2, source="s"), 5.1, 4.9),
        (_paper.between("w", 3, source="s"), 3.0, 2.9),
        (_paper.between("w", high=3, source="s"), 3.0, 3.1),
        (_paper.between("w", 3, source="s"), 3.0, float("nan")),
    ],
)
def test_verdicts(published: _paper.Published, good: float, bad: float) -> None:
    assert published.judge(good)["verdict"] == "agrees"
    assert published.judge(bad)["verdict"] == "differs"


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run_command(["reproduce", "cubic-recovery", "--quick", "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["passed"]
    assert outcome["figures"] == []
    assert run_command(["reproduce", "cubic-recovery", "--quick", "--out", str(tmp_path)]) == 0
    assert str(tmp_path / "cubic-recovery.png") in capsys.readouterr().out
    assert run_command(["list", "papers"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in NAMES)


def test_wrong_names_and_places(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='did you mean "cubic-recovery"'):
        reproduce("cubic-recovry")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        reproduce("cubic-recovery", tmp_path / "file")


@pytest.mark.parametrize(("transport", "damped"), [("tfrc", True), ("rap", None)])
def test_fse_slides_run_tfrc_as_ns2_does(transport: str, damped: bool | None) -> None:
    """`Agent/TFRC set ca_ 1` is ns-2's default; RAP knows no such thing."""
    plan = replace(QUICK, seconds=1)
    result = Setup(transport, (10,), None).run(plan, 1)
    assert result.config["flows"][0]["transport"]["options"].get("damping") is damped
