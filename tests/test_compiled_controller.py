"""Controllers given as compiled functions: Numba's, and those of a C library."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from polars.testing import assert_frame_equal

import dumbbell
from dumbbell import compiled
from dumbbell._plugins import Factory
from dumbbell.compiled import CompiledControl
from test_python_controller import SCENARIOS  # type: ignore[import-not-found]

numba = pytest.importorskip("numba", reason="needs dumbbell[numba]")

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from aimd_compiled import AimdCompiled  # type: ignore[import-not-found]  # noqa: E402

Result = dumbbell.Result


def run(controller: Any, flow: dict[str, Any] | None = None, **changes: Any) -> Result:
    scenario = {
        "duration": "5s",
        "path": {"rate": "20Mbit", "rtt": "40ms"},
        "flows": [{"cc": "mine", **(flow or {})}],
        **changes,
    }
    return dumbbell.run(scenario, controllers={"mine": controller})


class Window(CompiledControl):
    segments = 10

    def on_start(self, event):  # type: ignore[no-untyped-def]
        self.cwnd = self.segments * event.mss


@pytest.mark.parametrize("name", SCENARIOS)
def test_aimd_equals_the_built_in_reno(name: str) -> None:
    def outcome(cc: str) -> tuple[dict[str, Any], Any]:
        flows = [{"id": "flow", "cc": cc, **flow} for flow in SCENARIOS[name]["flows"]]
        scenario = {**SCENARIOS[name], "flows": flows}
        result = dumbbell.run(scenario, controllers={"aimd": AimdCompiled})
        summary = json.loads(json.dumps(result.summary))
        for flow in summary["flows"]:
            assert flow.pop("cc") == cc
            del flow["effective"]
        del summary["scenario"], summary["totals"]["wall_s"], summary["totals"]["peak_rss_bytes"]
        return summary, result.to_polars("flow_series")

    reno_summary, reno_series = outcome("reno")
    summary, series = outcome("aimd")
    assert summary == reno_summary
    assert_frame_equal(series, reno_series, check_exact=True)


def test_numpy_and_c_agree_on_the_layout() -> None:
    for layout in compiled.layouts().values():
        description: Any = compiled.numpy_description(layout)
        dtype = np.dtype(description)
        # As a C compiler lays out fields of these types, in this order.
        types = {"int64": ctypes.c_int64, "float64": ctypes.c_double}
        members = [(field.name, types[field.kind]) for field in layout.fields]
        struct: Any = type("struct", (ctypes.Structure,), {"_fields_": members})
        assert dtype.itemsize == ctypes.sizeof(struct)
        for field in layout.fields:
            assert dtype.fields is not None
            assert dtype.fields[field.name][1] == getattr(struct, field.name).offset
            assert field.doc


def test_each_field_of_an_ack_arrives() -> None:
    """What a Python controller sees and what a compiled one sees are the same."""

    class Sums(CompiledControl):
        record = ("acked", "rtt", "min_rtt", "inflight", "rate", "rounds", "advances", "last")
        acked = rtt = min_rtt = inflight = rate = rounds = advances = last = 0.0

        def on_ack(self, ack):  # type: ignore[no-untyped-def]
            self.acked += ack.acked
            self.rtt += ack.rtt
            self.min_rtt += ack.min_rtt
            self.inflight += ack.inflight
            self.rate += ack.delivery_rate
            self.rounds += ack.round_start
            self.advances += ack.advances
            self.last = ack.now

    class Same(dumbbell.CongestionControl):
        record = Sums.record
        acked = rtt = min_rtt = inflight = rounds = advances = last = 0
        rate = 0.0

        def on_ack(self, ack: Any) -> None:
            self.acked += ack.acked
            self.rtt += ack.rtt or 0
            self.min_rtt += ack.min_rtt
            self.inflight += ack.inflight
            self.rate += ack.delivery_rate or 0
            self.rounds += ack.round_start
            self.advances += ack.advances
            self.last = ack.now

    ours, theirs = (run(cc).to_polars("controller_series") for cc in (Sums, Same))
    assert set(ours["name"]) == set(Sums.record)
    assert ours.height > 100
    assert_frame_equal(ours, theirs, check_exact=True)


def test_parameters_and_pacing() -> None:
    class Paced(Window):
        segments = 1000
        pacing_rate = 1e6

    result = run(Paced, path={"rate": "100Mbit", "rtt": "20ms"}, warmup="1s")
    assert result.summary["flows"][0]["goodput_bps"] == pytest.approx(8e6, rel=0.01)
    result = run(Window, flow={"params": {"segments": 4}})
    assert result.to_polars("flow_series")["cwnd"].max() == 4
    with pytest.raises(dumbbell.ScenarioError, match="Window has no parameter 'segmets'"):
        run(Window, flow={"params": {"segmets": 4}})
    with pytest.raises(dumbbell.ScenarioError, match="segments must be a number"):
        run(Window, flow={"params": {"segments": "4"}})


def test_what_reno_did_can_be_corrected() -> None:
    class Stubborn(Window):
        timeouts = 0
        record = ("timeouts",)

        def on_rto(self, event):  # type: ignore[no-untyped-def]
            self.timeouts += 1
            self.cwnd = event.cwnd
            self.ssthresh = event.ssthresh

    loss = {"kind": "gilbert-elliott", "p": 0.02, "r": 0.05}
    path = {"rate": "20Mbit", "rtt": "40ms", "loss": loss}
    result = run(Stubborn, path=path, duration="20s")
    series = result.to_polars("controller_series")
    assert series["value"].max() > 0
    windows = result.to_polars("flow_series")
    steady = windows.filter((windows["phase"] != "recovery") & windows["cwnd"].is_not_nan())
    assert set(steady["cwnd"]) == {10}


def test_an_exception_ends_the_run_with_its_traceback() -> None:
    class Failing(Window):
        halves = 0.0

        def on_ack(self, ack):  # type: ignore[no-untyped-def]
            if ack.now > 2_000_000_000:
                self.halves = 1 / (ack.mss - 1448)

    with pytest.raises(dumbbell.ControllerError) as caught:
        run(Failing)
    error = caught.value
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert 2_000_000_000 < error.now_ns < 2_100_000_000
    assert "self.halves = 1 / (ack.mss - 1448)" in error.traceback
    assert not error.partial.complete
    assert error.partial.to_polars("flow_series")["t"].max() == pytest.approx(2.0, abs=0.11)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("cwnd", 0.0, "left cwnd at 0: expected a number of bytes, 1 or more"),
        ("cwnd", float("nan"), "left cwnd at NaN"),
        ("cwnd", float("inf"), "left cwnd at inf"),
        ("ssthresh", -1.0, "left ssthresh at -1"),
        ("pacing_rate", -1.0, "left pacing_rate at -1"),
        ("pacing_rate", float("inf"), "left pacing_rate at inf"),
    ],
)
def test_a_wrong_value_ends_the_run(field: str, value: float, expected: str) -> None:
    code = f"def on_ack(self, ack):\n    self.{field} = value\n"
    names: dict[str, Any] = {"value": value}
    exec(code, names)
    wrong = type("Wrong", (CompiledControl,), {"on_ack": names["on_ack"]})
    with pytest.raises(dumbbell.ControllerError) as caught:
        run(wrong)
    assert f"on_ack of mine {expected}" in caught.value.traceback


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"on_ack": "text"}, "on_ack: expected a function to compile"),
        ({"on_ack": 0}, "on_ack: the address of its function is 0"),
        ({"record": ("alpha",)}, 'record: there is no field "alpha"'),
        ({"ecn": "both"}, "ecn must be 'off' or 'classic' or"),
        ({"recovery_style": "fast"}, "recovery_style must be 'prr' or 'own'"),
        ({"responds_to_marks": 3.5}, "responds_to_marks must be True or False"),
        ({"requested_rate": -1.0}, "requested_rate must be None or above 0"),
    ],
)
def test_what_cannot_be_built_is_one_line(attributes: dict[str, Any], expected: str) -> None:
    with pytest.raises(dumbbell.ScenarioError) as caught:
        run(type("Odd", (CompiledControl,), attributes))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_numba_cannot_compile_is_one_line() -> None:
    class Odd(CompiledControl):
        def on_ack(self, ack):  # type: ignore[no-untyped-def]
            self.unknown = open(ack)  # noqa: SIM115

    with pytest.raises(dumbbell.ScenarioError, match=r"Odd\.on_ack cannot be compiled") as caught:
        run(Odd)
    assert "\n" not in str(caught.value)


def test_other_threads_run_meanwhile() -> None:
    assert Factory(AimdCompiled).compiled
    assert not Factory(dumbbell.CongestionControl).compiled


C_AIMD = r"""
#include "dumbbell.h"
#include <math.h>

int32_t on_ack(double *self, const struct on_ack *ack) {
  if (ack->state == RECOVERY || ack->state == CWR) return 0;
  if (!(ack->cwnd_limited && ack->advances)) return 0;
  double *cwnd = &self[DUMBBELL_CWND], *credit = &self[DUMBBELL_CREDIT];
  double ssthresh = self[DUMBBELL_SSTHRESH], mss = ack->mss;
  *credit += ack->acked;
  if (*cwnd < ssthresh) {
    double grown = fmin(floor(*credit / mss) * mss, ssthresh - *cwnd);
    *cwnd += grown;
    *credit -= grown;
  }
  if (*cwnd >= ssthresh) {
    double steps = floor(*credit / *cwnd);
    *credit -= steps * *cwnd;
    *cwnd += steps * mss;
  }
  return 0;
}

int32_t on_congestion(double *self, const struct on_congestion *event) {
  int64_t segments = (int64_t)self[DUMBBELL_CWND] / event->mss / 2;
  self[DUMBBELL_CWND] = (segments > 2 ? segments : 2) * event->mss;
  self[DUMBBELL_SSTHRESH] = self[DUMBBELL_CWND];
  self[DUMBBELL_CREDIT] = 0;
  return 0;
}

int32_t on_rto(double *self, const struct on_rto *event) {
  self[DUMBBELL_CREDIT] = 0;
  return 0;
}

int32_t give_up(double *self, const struct on_ack *ack) {
  return ack->now > 1000000000;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")

    class Fields(CompiledControl):
        credit = 0.0

    directory = tmp_path_factory.mktemp("c")
    (directory / "dumbbell.h").write_text(compiled.c_header(Fields))
    (directory / "aimd.c").write_text(C_AIMD)
    command = [compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", "aimd.so", "aimd.c"]
    subprocess.run([*command, "-lm"], cwd=directory, check=True)
    return ctypes.CDLL(str(directory / "aimd.so"))


@pytest.mark.parametrize("get", [lambda f: f, lambda f: ctypes.cast(f, ctypes.c_void_p).value])
def test_functions_of_a_c_library(library: ctypes.CDLL, get: Callable[[Any], Any]) -> None:
    class InC(CompiledControl):
        credit = 0.0
        on_ack = get(library.on_ack)
        on_congestion = get(library.on_congestion)
        on_rto = get(library.on_rto)

    ours = run(InC, duration="20s").to_polars("flow_series")
    assert_frame_equal(ours, run(AimdCompiled, duration="20s").to_polars("flow_series"))


def test_a_c_function_may_end_the_run(library: ctypes.CDLL) -> None:
    class GivesUp(Window):
        on_ack = library.give_up

    with pytest.raises(dumbbell.ControllerError, match="on_ack of GivesUp asked to end the run"):
        run(GivesUp)
