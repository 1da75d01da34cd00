"""Read files that others wrote: Mahimahi traces and Flent results, plain or gzipped.

Everything wrong with such a file is an `ImportFileError`, whose text is one line that names the
file.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dumbbell._errors import DumbbellError, MissingExtraError, printable

if TYPE_CHECKING:
    import pyarrow as pa

LIMIT_BYTES = 512 * 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 20


class ImportFileError(DumbbellError, ValueError):
    """A file from outside cannot be used; the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def read_bytes(path: str | Path, *, limit: int = LIMIT_BYTES) -> bytes:
    """Return the content of `path`, decompressed if it is gzip (told by its first bytes, not its
    name).

    Raises ImportFileError if the file cannot be read, is damaged or truncated gzip, or holds more
    than `limit` bytes.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == _GZIP_MAGIC
            file.seek(0)
            if not compressed:
                return _bounded(file, path, limit)
            with gzip.GzipFile(fileobj=file) as stream:
                return _bounded(stream, path, limit)
    except EOFError:
        raise ImportFileError(f"{path}: gzip data end early: the file is truncated") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ImportFileError(f"{path}: damaged gzip data: {error}") from None
    except OSError as error:
        raise ImportFileError(f"{path}: cannot be read: {error.strerror or error}") from None


def _bounded(stream: Any, path: Path, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := stream.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > limit:
            raise ImportFileError(f"{path}: holds more than {limit} bytes: too large to import")
        chunks.append(chunk)
    return b"".join(chunks)


@dataclass(frozen=True)
class Imported:
    """What an imported file holds.

    `kind` is "flent" or "mahimahi"; `summary` is ready for JSON; `tables` are Arrow tables:
    `series` (t in seconds, one column per Flent series, in the unit that the file states) or `rate`
    (t in seconds, capacity_bps over bins of 1 s).
    """

    kind: str
    summary: dict[str, Any]
    tables: dict[str, pa.Table] = field(repr=False)


def import_file(path: str | Path) -> Imported:
    """Import a Flent result (JSON, told by its first character) or else a Mahimahi trace.

    Raises ImportFileError with one line when the file is neither.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("importing a file", "plots") from None

    from dumbbell._flent import parse_flent
    from dumbbell._mahimahi import parse_trace, rate_series, statistics

    data = read_bytes(path)
    if data.lstrip()[:1] == b"{":
        flent = parse_flent(data, str(path))
        columns: dict[str, Any] = {"t": flent.x_s}
        columns |= {name: series.values for name, series in flent.series.items()}
        return Imported("flent", flent.summary(), {"series": pa.table(columns)})
    trace = parse_trace(data, str(path))
    starts, rates = rate_series(trace, 1000)
    return Imported(
        "mahimahi",
        {"source": str(path), "statistics": statistics(trace).as_dict()},
        {"rate": pa.table({"t": starts, "capacity_bps": rates})},
    )
