"""Write a result in the formats of other tools: CSV, Parquet, Flent, pcapng."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dumbbell._errors import UsageError, show_value, suggest
from dumbbell._plots_data import ResultLike, arrow_table

TABLES = (
    "flow_series",
    "controller_series",
    "link_series",
    "queue_series",
    "probe_samples",
    "completions",
    "frames",
    "flow_rtt_cdf",
    "queue_delay_cdf",
    "capture",
)
"""All tables that a run can record."""


def export_result(result: ResultLike, kind: str, destination: str | Path) -> list[Path]:
    """Write a result as `kind` and return the files written.

    "csv" and "parquet" write one file for each table into the directory `destination`; "flent" and
    "pcapng" write the file `destination`, or one with a name of its own if that is a directory.
    Raises UsageError for an unknown kind, for what the run did not record and for a destination
    that cannot be written.
    """
    if kind not in EXPORTERS:
        raise UsageError(f"export format {show_value(kind)}{suggest(kind, EXPORTERS)}")
    destination = Path(destination)
    try:
        return EXPORTERS[kind](result, destination)
    except OSError as error:
        place = error.filename or destination
        raise UsageError(f"{place}: cannot be written: {error.strerror or error}") from None


def _export_csv(result: ResultLike, directory: Path) -> list[Path]:
    from pyarrow import csv

    return _each_table(result, directory, ".csv", csv.write_csv)


def _export_parquet(result: ResultLike, directory: Path) -> list[Path]:
    from pyarrow import parquet

    def write(table: object, path: str) -> None:
        parquet.write_table(table, path, compression="zstd", compression_level=3)

    return _each_table(result, directory, ".parquet", write)


def _each_table(
    result: ResultLike, directory: Path, suffix: str, write: Callable[[object, str], None]
) -> list[Path]:
    found = [(name, table) for name in TABLES if (table := arrow_table(result, name)) is not None]
    if not found:
        raise UsageError("the result holds no table")
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in found:
        path = directory / f"{name}{suffix}"
        write(table, str(path))
        paths.append(path)
    return paths


def _export_flent(result: ResultLike, destination: Path) -> list[Path]:
    from dumbbell._flent import write_flent

    path = _file(destination, "dumbbell.flent.gz")
    write_flent(result, path)
    return [path]


def _export_pcapng(result: ResultLike, destination: Path) -> list[Path]:
    from dumbbell._pcapng import write_pcapng

    path = _file(destination, "dumbbell.pcapng")
    write_pcapng(result, path)
    return [path]


def _file(destination: Path, name: str) -> Path:
    path = destination / name if destination.is_dir() else destination
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


EXPORTERS: dict[str, Callable[[ResultLike, Path], list[Path]]] = {
    "csv": _export_csv,
    "parquet": _export_parquet,
    "flent": _export_flent,
    "pcapng": _export_pcapng,
}
