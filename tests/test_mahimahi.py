"""Mahimahi traces: the format's rules, known vectors, and the statistics of published traces."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumbbell._import import ImportFileError, import_file, read_bytes
from dumbbell._mahimahi import (
    Trace,
    is_rate_pairs,
    parse_trace,
    rate_series,
    read_rate_pairs,
    read_trace,
    statistics,
    trace_from_rate,
    write_trace,
)

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "mahimahi"


@pytest.mark.parametrize(
    ("text", "mbits"), [(b"1", 12.0), (b"1\n", 12.0), (b"1\n1\n2\n", 18.0), (b"0\n2\n", 12.0)]
)
def test_known_vectors(text: bytes, mbits: float) -> None:
    assert parse_trace(text, "vector").mean_bps == pytest.approx(mbits * 1e6)


@pytest.mark.parametrize(
    ("text", "where", "expected"),
    [
        (b"", "t", "empty file"),
        (b"\n", "t:1", "empty line: expected a non-negative integer"),
        (b"1\n\n2\n", "t:2", "empty line"),
        (b"1\n2\n\n", "t:3", "empty line"),
        (b"1\n-2\n", "t:2", "'-2': expected a non-negative integer"),
        (b"1\n2.5\n", "t:2", "'2.5'"),
        (b"1\r\n2\r\n", "t:1", "expected a non-negative integer"),
        (b"5\n4\n", "t:2", "4 after 5: expected times that do not decrease"),
        (b"0\n0\n", "t:2", "expected the last time to be above 0 ms"),
        (b"1\n99999999999999999999999\n", "t:2", "expected at most"),
        (b"1\n\xff\xfe\n", "t:2", "expected a non-negative integer"),
    ],
)
def test_each_broken_rule_is_named_with_its_line(text: bytes, where: str, expected: str) -> None:
    with pytest.raises(ImportFileError) as caught:
        parse_trace(text, "t")
    message = str(caught.value)
    assert message.startswith(f"{where}: ")
    assert expected in message
    assert "\n" not in message


@given(
    st.lists(st.integers(0, 10**6), min_size=1).map(sorted).filter(lambda ms: ms[-1] > 0),
    st.booleans(),
)
def test_write_and_read_round_trip(
    tmp_path_factory: pytest.TempPathFactory, ms: list[int], compressed: bool
) -> None:
    path = tmp_path_factory.mktemp("trace") / ("t.gz" if compressed else "t")
    write_trace(Trace(np.array(ms)), path)
    assert read_trace(path).opportunities_ms.tolist() == ms


@given(st.binary(max_size=200))
def test_arbitrary_bytes_parse_or_fail_in_one_line(data: bytes) -> None:
    error = None
    try:
        assert parse_trace(data, "fuzz").period_ms > 0
    except ImportFileError as caught:
        error = str(caught)
    assert error is None or (error.startswith("fuzz") and error.isprintable())


@pytest.mark.parametrize("keep", [3, 12, 25])
def test_truncated_gzip_is_one_line(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "short.gz"
    path.write_bytes(gzip.compress(b"1\n2\n3\n" * 1000, mtime=0)[:keep])
    with pytest.raises(ImportFileError, match=r"short\.gz: .*truncated"):
        read_trace(path)


def test_damaged_gzip_missing_file_and_oversize_are_one_line(tmp_path: Path) -> None:
    damaged = bytearray(gzip.compress(b"1\n2\n3\n" * 1000, mtime=0))
    damaged[-6] ^= 0xFF
    (tmp_path / "bad.gz").write_bytes(damaged)
    with pytest.raises(ImportFileError, match=r"bad\.gz: damaged gzip data: CRC"):
        read_trace(tmp_path / "bad.gz")
    with pytest.raises(ImportFileError, match="No such file"):
        read_trace(tmp_path / "absent")
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"1\n" * 100_000))
    with pytest.raises(ImportFileError, match="more than 1000 bytes"):
        read_bytes(tmp_path / "bomb.gz", limit=1000)


@given(
    st.lists(st.floats(1e5, 1e9), min_size=1, max_size=10),
    st.floats(0.05, 2.0),
)
def test_rate_to_trace_keeps_the_bits(rates: list[float], step_s: float) -> None:
    starts = np.arange(len(rates)) * step_s
    duration = len(rates) * step_s
    bits = sum(rates) * step_s
    if bits < 24_000:
        return
    trace = trace_from_rate(starts, rates, duration)
    # Less than one packet is left over, and the last millisecond is cut or filled by rounding.
    assert abs(trace.opportunities_ms.size * 12_000 - bits) <= 12_000 + max(rates) * 0.001


def test_trace_to_rate_counts_complete_bins() -> None:
    starts, rates = rate_series(parse_trace(b"0\n1\n1000\n1999\n2500\n", "t"), 1000)
    assert starts.tolist() == [0.0, 1.0]
    assert rates.tolist() == [24_000.0, 24_000.0]


def test_rate_pairs(tmp_path: Path) -> None:
    path = tmp_path / "pensieve"
    path.write_text("10.0\t6\n11.0\t12\n12.0\t24\n")
    assert is_rate_pairs(path.read_bytes())
    trace = read_rate_pairs(path)
    assert trace.period_ms == 3000
    assert trace.opportunities_ms.size == 500 + 1000 + 2000
    assert read_rate_pairs(path, duration_s=4.0).opportunities_ms.size == 500 + 1000 + 4000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 1\nx 2\n", "p:2: 'x 2': expected \"time_s Mbit/s\""),
        ("0 1\n1\n", "p:2: '1'"),
        ("0 1\n0 2\n", "p:2: time 0 s after 0 s: expected ascending"),
        ("0 1\n1 -2\n", "p:2: expected finite numbers"),
        ("0 1\n1 nan\n", "p:2: expected finite numbers"),
        ("0 1\n", "expected at least two lines"),
        ("0 0\n1 0\n", "no packet of 1500 bytes"),
    ],
)
def test_wrong_rate_pairs_give_one_line(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "p").write_text(text)
    with pytest.raises(ImportFileError) as caught:
        read_rate_pairs(tmp_path / "p")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


# Computed from the Saturator traces that Mahimahi ships: length s, mean Mbit/s, sd, p5/p50/p95 of
# the 1-s rate, longest gap ms.
PUBLISHED = {
    "ATT-LTE-driving-2016.down": (120, 4.56, 3.88, 0.59, 3.74, 11.2, 1123),
    "ATT-LTE-driving-2016.up": (120, 1.91, 1.69, 0.04, 1.57, 4.99, 4061),
    "TMobile-UMTS-driving.up": (931, 0.94, 0.44, 0.06, 1.08, 1.44, 5830),
    "Verizon-EVDO-driving.down": (1062, 0.52, 0.46, 0.01, 0.41, 1.45, 11567),
    "Verizon-LTE-short.down": (140, 5.03, 3.19, 1.08, 4.34, 11.1, 1447),
    "Verizon-LTE-short.up": (140, 5.95, 3.10, 1.18, 5.74, 11.5, 1718),
}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_statistics_of_published_traces(name: str) -> None:
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not at {DATA}")
    found = statistics(read_trace(DATA / name))
    length, mean, sd, p5, p50, p95, gap = PUBLISHED[name]
    assert int(found.duration_s) == length
    assert found.mean_bps / 1e6 == pytest.approx(mean, abs=0.005)
    assert found.sd_bps / 1e6 == pytest.approx(sd, abs=0.005)
    assert found.p5_bps / 1e6 == pytest.approx(p5, abs=0.006)
    assert found.p50_bps / 1e6 == pytest.approx(p50, abs=0.006)
    assert found.p95_bps / 1e6 == pytest.approx(p95, abs=0.06)
    assert found.longest_gap_ms == gap
    imported = import_file(DATA / name)
    assert imported.kind == "mahimahi"
    assert imported.tables["rate"].num_rows == length
