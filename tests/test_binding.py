"""The binding `dumbbell._core`: configuration in, Arrow tables out, signals and threads between."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from typing import Any

import polars
import pyarrow
import pytest
from polars.testing import assert_frame_equal

from dumbbell import _core
from dumbbell._resolve import resolve
from dumbbell._scenario import Scenario


def config(duration: str = "2s", **changes: Any) -> str:
    scenario = {
        "duration": duration,
        "path": {"rate": "10Mbit", "rtt": "20ms"},
        "flows": [{"cc": "reno"}],
        **changes,
    }
    return json.dumps(resolve(Scenario.from_dict(scenario)))


LONG = "10h"  # hours of wall-clock time, too: such a run only ends because the test ends it


def test_lists_what_the_engine_has() -> None:
    controllers = json.loads(_core.controllers_json())
    queues = json.loads(_core.queues_json())
    assert {"reno", "cubic", "bbr"} <= {entry["name"] for entry in controllers}
    assert {"fifo", "codel", "fq_codel"} <= {entry["name"] for entry in queues}
    for entry in (*controllers, *queues):
        assert {"name", "summary", "source", "params"} <= entry.keys()


def test_version_is_that_of_the_package() -> None:
    import dumbbell

    assert _core.version() == dumbbell.__version__


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"seed": -1}'])
def test_malformed_configuration_is_a_config_error(text: str) -> None:
    with pytest.raises(_core.ConfigError) as caught:
        _core.run(text)
    assert caught.value.key == "config"
    assert str(caught.value) == f"config: {caught.value.message}"
    assert isinstance(caught.value, ValueError)


def test_unknown_controller_is_a_config_error() -> None:
    data = json.loads(config())
    data["flows"][0]["transport"]["cc"]["kind"] = "renno"
    with pytest.raises(_core.ConfigError) as caught:
        _core.run(json.dumps(data))
    assert "renno" in caught.value.message
    assert "\n" not in str(caught.value)


def test_summary_and_tables() -> None:
    result = _core.run(config())
    summary = json.loads(result.summary_json())
    # 10 Mbit/s carry at most 1448 payload bytes in each frame of 1514.
    limit = 10e6 * 1448 / 1514
    assert 0.8 * limit < summary["flows"][0]["goodput_bps"] <= limit
    assert summary["totals"]["complete"] is True
    assert {"flow_series", "link_series"} <= set(result.tables())
    with pytest.raises(KeyError, match="no_such_table"):
        result.table("no_such_table")


def test_a_table_reads_the_same_in_pyarrow_and_polars() -> None:
    table = _core.run(config()).table("flow_series")
    arrow = pyarrow.table(table)
    frame = polars.DataFrame(table)
    assert arrow.column_names == table.column_names == frame.columns
    assert arrow.num_rows == table.num_rows == len(table) == frame.height > 0
    assert arrow.schema.field("t").type == pyarrow.float64()
    names = arrow.schema.field("flow").type
    assert (names.index_type, names.value_type) == (pyarrow.int32(), pyarrow.string())
    assert_frame_equal(polars.DataFrame(arrow), frame, check_exact=True)
    assert set(arrow["flow"].to_pylist()) == {"reno-1"}
    assert arrow.to_pandas()["flow"].iloc[0] == "reno-1"


def test_handing_a_table_over_copies_nothing() -> None:
    result = _core.run(config())
    addresses = {
        pyarrow.table(result.table("flow_series"))[name].chunk(0).buffers()[1].address
        for name in ["t", "t"]
    }
    assert len(addresses) == 1


def test_a_table_outlives_its_result() -> None:
    table = pyarrow.table(_core.run(config()).table("link_series"))
    assert table["t"].to_pylist() == sorted(table["t"].to_pylist())


def test_progress_rises_and_is_not_called_often() -> None:
    calls: list[tuple[float, float, int]] = []

    def progress(fraction: float, events: int) -> bool:
        calls.append((time.perf_counter(), fraction, events))
        return len(calls) < 5

    _core.run(config(LONG), None, progress)
    times, fractions, events = zip(*calls, strict=True)
    assert all(0 <= f <= 1 for f in fractions)
    assert list(fractions) == sorted(fractions)
    assert list(events) == sorted(set(events))
    assert all(later - earlier > 0.15 for earlier, later in itertools.pairwise(times))


def test_false_from_progress_ends_the_run_and_keeps_what_was_recorded() -> None:
    result = _core.run(config(LONG), None, lambda _fraction, _events: False)
    totals = json.loads(result.summary_json())["totals"]
    assert totals["complete"] is False
    assert 0 < totals["simulated_s"] < 36000
    last = polars.DataFrame(result.table("flow_series"))["t"].max()
    assert last == pytest.approx(totals["simulated_s"], abs=0.11)


def test_what_progress_raises_comes_out() -> None:
    def progress(_fraction: float, _events: int) -> bool:
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        _core.run(config(LONG), None, progress)


def test_interrupt_ends_the_run_and_keeps_what_was_recorded() -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    result = _core.run(config(LONG))
    timer.join()
    totals = json.loads(result.summary_json())["totals"]
    assert totals["complete"] is False
    assert result.table("flow_series").num_rows > 0


def test_other_threads_run_during_a_run() -> None:
    stop = threading.Event()
    runner = threading.Thread(
        target=_core.run, args=(config(LONG), None, lambda _fraction, _events: not stop.is_set())
    )
    runner.start()
    for _ in range(20):  # none of these would end before the run, were the lock held
        time.sleep(0.001)
        assert runner.is_alive()
    stop.set()
    runner.join()
