"""Flent files: real ones are read whole, ours have their names and units, broken ones give one
line.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dumbbell._errors import UsageError
from dumbbell._flent import flent_document, parse_flent, read_flent, write_flent
from dumbbell._import import ImportFileError, import_file
from synthetic_result import RATE_BPS, synthetic_result

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "flent"
# File: points on the x axis, series, and the mean that the file itself states for one of them.
REAL = {
    "test-http.flent.gz": (700, 1, None),
    "test-rrul.flent.gz": (760, 62, ("TCP download BE", 2.14)),
    "test-rtt-fair.flent.gz": (3050, 12, ("Ping (ms) ICMP1 testserv-01", 9.742)),
    "test-tcp_nup.flent.gz": (112, 203, ("Ping (ms) ICMP", None)),
    "test-voip-1up.flent.gz": (749, 6, ("TCP upload", 87.94)),
}


def real(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not at {DATA}")
    return DATA / name


@pytest.mark.parametrize("name", sorted(REAL))
def test_real_files_are_read_whole(name: str) -> None:
    points, series, stated = REAL[name]
    flent = read_flent(real(name))
    assert flent.x_s.size == points
    assert len(flent.series) == series
    for key, one in flent.series.items():
        assert one.values.shape == (points,)
        if key.startswith("Ping (ms)") or key.endswith("::tcp_rtt"):
            assert one.unit == "ms"
        elif key.startswith("TCP upload BE") and "::" not in key:
            assert one.unit == "Mbits/s"
    if stated and stated[1]:
        # Flent's mean covers the whole test; that of the interpolated series is near it.
        assert flent.summary()["series"][stated[0]]["mean"] == pytest.approx(stated[1], rel=0.05)
    assert import_file(real(name)).tables["series"].num_rows == points


def test_our_file_has_the_keys_names_and_units_of_a_real_tcp_nup() -> None:
    theirs = json.loads(gzip.decompress(real("test-tcp_nup.flent.gz").read_bytes()))
    ours = flent_document(synthetic_result())
    assert set(ours) == set(theirs)
    assert set(ours["metadata"]) == set(theirs["metadata"])
    assert ours["metadata"]["NAME"] == theirs["metadata"]["NAME"]
    for name in (
        "TCP upload::1",
        "TCP upload::2",
        "TCP upload sum",
        "TCP upload avg",
        "Ping (ms) ICMP",
    ):
        assert name in theirs["results"]
        assert len(ours["results"][name]) == len(ours["x_values"])
        theirs_meta, ours_meta = (
            theirs["metadata"]["SERIES_META"][name],
            ours["metadata"]["SERIES_META"][name],
        )
        assert ours_meta["UNITS"] == theirs_meta["UNITS"]
        assert {"IDX", "RUNNER", "UNITS"} <= set(ours_meta)
    assert set(theirs["raw_values"]["Ping (ms) ICMP"][0]) >= set(
        ours["raw_values"]["Ping (ms) ICMP"][0]
    )
    assert "TCP upload::1::tcp_cwnd" in theirs["results"]
    assert "TCP upload::1::tcp_cwnd" in ours["results"]


def test_values_and_units_survive_the_round_trip(tmp_path: Path) -> None:
    result = synthetic_result(shares=(0.3, 0.7))
    write_flent(result, tmp_path / "run.flent.gz")
    flent = read_flent(tmp_path / "run.flent.gz")
    first = flent.series["TCP upload::1"]
    assert first.unit == "Mbits/s"
    table = result.table("flow_series").to_pydict()
    expected = [
        g / 1e6
        for g, flow in zip(table["goodput_bps"], table["flow"], strict=True)
        if flow == "cubic-1"
    ]
    assert first.values == pytest.approx(expected)
    total = flent.series["TCP upload::1"].values + flent.series["TCP upload::2"].values
    assert flent.series["TCP upload sum"].values == pytest.approx(total)
    assert flent.series["TCP upload avg"].values == pytest.approx(total / 2)
    assert flent.metadata["SERIES_META"]["TCP upload::2"]["MEAN_VALUE"] == pytest.approx(
        0.7 * RATE_BPS / 1e6
    )
    ping = flent.series["Ping (ms) ICMP"]
    assert ping.unit == "ms"
    assert np.nanmax(ping.values) <= 100.0
    assert ping.raw_values.size == 1500
    assert ping.raw_t_s[1] - ping.raw_t_s[0] == pytest.approx(0.02)


def test_bytes_are_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_flent(synthetic_result(), tmp_path / name / "run.flent.gz")
    assert (tmp_path / "a/run.flent.gz").read_bytes() == (tmp_path / "b/run.flent.gz").read_bytes()


def test_long_silence_stays_a_gap() -> None:
    result = synthetic_result(duration_s=10.0)
    probes = result.table("probe_samples")
    t = probes.column("t").to_numpy()
    result._tables["probe_samples"] = probes.filter((t < 3) | (t > 7))
    values = flent_document(result)["results"]["Ping (ms) ICMP"]
    x = flent_document(result)["x_values"]
    assert all(value is None for at, value in zip(x, values, strict=True) if 3.1 < at < 6.9)
    assert values[0] is not None


def test_a_result_without_tcp_flows_is_refused() -> None:
    result = synthetic_result()
    del result._tables["flow_series"]
    with pytest.raises(UsageError, match="no TCP flow"):
        flent_document(result)


def test_flent_itself_reads_and_plots_our_file(tmp_path: Path) -> None:
    flent = shutil.which("flent") or shutil.which("flent", path=str(Path(sys.executable).parent))
    if not flent:
        pytest.skip("flent is not installed")
    write_flent(synthetic_result(), tmp_path / "run.flent.gz")

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [flent, "-i", "run.flent.gz", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert "ERROR" not in done.stderr
        return done.stdout

    summary = run("-f", "summary")
    assert "Mbits/s" in summary
    mean = next(line for line in summary.splitlines() if "TCP upload sum" in line)
    assert "50.0" in mean
    rows = [line for line in run("-f", "csv").splitlines() if "," in line]
    assert "TCP upload::2" in rows[0]
    assert len(rows) == 301
    run("-f", "plot", "-p", "totals", "-o", "totals.png")
    assert (tmp_path / "totals.png").read_bytes()[:4] == b"\x89PNG"


GOOD: dict[str, Any] = {
    "version": 4,
    "metadata": {"SERIES_META": {"a": {"UNITS": "ms"}}},
    "x_values": [0.0, 0.2],
    "results": {"a": [1.0, None]},
    "raw_values": {"a": [{"t": 0.0, "val": 1.0}]},
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"version": 5}, "version 5: expected 1 to 4"),
        ({"version": "4"}, "version '4'"),
        ({"results": []}, "results: expected a JSON object"),
        ({"raw_values": None}, "raw_values: expected a JSON object"),
        ({"metadata": 1}, "metadata: expected a JSON object"),
        ({"x_values": {}}, "x_values: expected a list"),
        ({"x_values": [0.0, None]}, "x_values: expected numbers"),
        ({"x_values": [0.0, "1"]}, "x_values[1]: '1': expected a number"),
        ({"results": {"a": [1.0]}}, "results, 'a': expected a list of 2 values"),
        ({"results": {"a": [1.0, True]}}, "results, 'a'[1]: True: expected a number or null"),
        ({"results": {"a": [1.0, 10**400]}}, "below 1e308"),
        ({"raw_values": {"a": 3}}, "raw_values, 'a': expected a list of points"),
        ({"raw_values": {"a": [{"t": "x", "val": 1}]}}, "raw_values, 'a', t[0]: 'x'"),
    ],
)
def test_malformed_documents_give_one_line(change: dict[str, Any], expected: str) -> None:
    assert parse_flent(json.dumps(GOOD).encode(), "f").series["a"].unit == "ms"
    with pytest.raises(ImportFileError) as caught:
        parse_flent(json.dumps(GOOD | change).encode(), "f.flent.gz")
    assert str(caught.value).startswith("f.flent.gz: ")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def _parses_or_fails_in_one_line(data: bytes) -> None:
    error = None
    try:
        parse_flent(data, "fuzz").summary()
    except ImportFileError as caught:
        error = str(caught)
    assert error is None or (error.startswith("fuzz: ") and error.isprintable())


@given(st.binary(max_size=300))
def test_arbitrary_bytes(data: bytes) -> None:
    _parses_or_fails_in_one_line(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(sorted(GOOD)), JSON))
def test_arbitrary_values_under_the_known_keys(change: dict[str, Any]) -> None:
    _parses_or_fails_in_one_line(json.dumps(GOOD | change).encode())


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    position=st.floats(0, 1, exclude_max=True),
    replacement=st.binary(max_size=4),
    removed=st.integers(0, 2000),
    compressed=st.booleans(),
)
def test_mutated_real_file(
    tmp_path: Path, position: float, replacement: bytes, removed: int, compressed: bool
) -> None:
    data = real("test-http.flent.gz").read_bytes()
    if not compressed:
        data = gzip.decompress(data)
    at = int(position * len(data))
    path = tmp_path / "mutated"
    path.write_bytes(data[:at] + replacement + data[at + removed :])
    error = None
    try:
        read_flent(path).summary()
    except ImportFileError as caught:
        error = str(caught)
    assert error is None or (error.startswith(f"{path}: ") and error.isprintable())


def test_truncated_gzip(tmp_path: Path) -> None:
    (tmp_path / "t.flent.gz").write_bytes(real("test-http.flent.gz").read_bytes()[:5000])
    with pytest.raises(ImportFileError, match="the file is truncated"):
        read_flent(tmp_path / "t.flent.gz")
