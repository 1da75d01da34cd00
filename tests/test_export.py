"""Exports: each format holds what the result holds."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow.parquet
import pytest

from dumbbell._errors import UsageError
from dumbbell._export import TABLES, export_result
from dumbbell._flent import read_flent
from synthetic_result import synthetic_result


def test_csv_holds_every_table_and_row(tmp_path: Path) -> None:
    result = synthetic_result(completions=10)
    paths = export_result(result, "csv", tmp_path / "out")
    assert {path.stem for path in paths} == {name for name in TABLES if name in result._tables}
    with (tmp_path / "out" / "flow_series.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 600
    assert rows[0]["flow"] == "cubic-1"
    expected = result.table("flow_series").column("goodput_bps").to_pylist()
    assert [float(row["goodput_bps"]) for row in rows] == pytest.approx(expected)


def test_parquet_reads_back_equal(tmp_path: Path) -> None:
    result = synthetic_result()
    for path in export_result(result, "parquet", tmp_path):
        table = pyarrow.parquet.read_table(path)
        assert table.to_pydict().keys() == result.table(path.stem).to_pydict().keys()
        assert table.num_rows == result.table(path.stem).num_rows


def test_flent_into_a_directory_or_a_file(tmp_path: Path) -> None:
    result = synthetic_result()
    assert export_result(result, "flent", tmp_path) == [tmp_path / "dumbbell.flent.gz"]
    assert export_result(result, "flent", tmp_path / "new" / "a.flent.gz")[0].exists()
    assert "TCP upload::1" in read_flent(tmp_path / "dumbbell.flent.gz").series


def test_what_cannot_be_done_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='did you mean "parquet"'):
        export_result(synthetic_result(), "parkuet", tmp_path)
    with pytest.raises(UsageError, match="recorded no packets"):
        export_result(synthetic_result(), "pcapng", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        export_result(synthetic_result(), "csv", tmp_path / "file" / "below")
