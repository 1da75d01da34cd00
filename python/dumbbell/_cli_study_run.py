"""Commands that do a study's runs and look at them: study run, resume, status, sql, slurm."""

from __future__ import annotations

import csv
import math
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dumbbell.studies._contract import Executor, Run
    from dumbbell.studies._running import OpenStudy
    from dumbbell.studies._store import Store

FAILED = 1
_ANY_WIDTH = 100_000
EXECUTORS = ("threads", "processes", "ray")

_Directory = Annotated[Path, typer.Argument(help="Directory of a study.")]
_StudyFile = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study (TOML), ready:NAME, or its directory.")
]
_Out = Annotated[
    Path | None, typer.Option("--out", help="Directory for the runs; default: STUDY.study.")
]
_Executor = Annotated[
    str | None,
    typer.Option(
        help="threads, processes or ray; default: threads, and processes for controllers that are "
        "written in Python."
    ),
]
_Workers = Annotated[int | None, typer.Option(help="Runs at a time; default: one a processor.")]
_Shard = Annotated[
    str | None, typer.Option(metavar="I/N", help="Only every N-th run, from the I-th: 2/8.")
]
_Address = Annotated[str | None, typer.Option(help="Of a Ray cluster.")]
_Retry = Annotated[bool, typer.Option("--retry-failed", help="Do failed runs again.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No summary and no progress.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `dumbbell study`."""
    app.command("run")(run_study)
    app.command("resume")(resume_study)
    app.command("status")(study_status)
    app.command("sql")(study_sql)
    app.command("slurm")(study_slurm)


def run_study(
    study: _StudyFile,
    out: _Out = None,
    executor: _Executor = None,
    workers: _Workers = None,
    shard: _Shard = None,
    retry_failed: _Retry = False,
    address: _Address = None,
    quiet: _Quiet = False,
) -> int:
    """Do the runs of a study that are not done yet; several processes may share them."""
    return do_study(
        _open(study, out),
        executor=executor,
        workers=workers,
        shard=shard,
        retry_failed=retry_failed,
        address=address,
        quiet=quiet,
    )


def resume_study(
    directory: _Directory,
    executor: _Executor = None,
    workers: _Workers = None,
    shard: _Shard = None,
    retry_failed: _Retry = False,
    address: _Address = None,
    quiet: _Quiet = False,
) -> int:
    """Go on with a study from its directory."""
    _store(directory)
    study = str(directory)
    return run_study(study, None, executor, workers, shard, retry_failed, address, quiet)


def study_status(directory: _Directory, json: _Json = False) -> None:
    """What is done, what failed and why, and what is left."""
    from dumbbell._cli_output import console, print_json, table
    from dumbbell.studies._status import status_of

    status = status_of(_store(directory))
    if json:
        print_json(status)
        return
    out = console()
    out.print(
        f"{status['runs']} runs: {status['done']} done, {status['failed']} failed, "
        f"{status['missing']} missing, of which {status['running']} are being done"
    )
    if status["rate_per_s"] is not None and status["running"]:
        out.print(f"{_pace(status['rate_per_s'], status['left_s'])}")
    if status["errors"]:
        rows = [[str(e["runs"]), str(e["first"]), e["error"]] for e in status["errors"]]
        out.print(table("Errors", ["runs", "first", "<<error"], rows))


def study_sql(
    directory: _Directory,
    query: Annotated[
        str, typer.Argument(help='Such as "select cc, avg(y) from runs group by cc".')
    ],
    json: _Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Answer SQL about the finished runs: the table `runs`."""
    from dumbbell._cli_output import print_json

    columns, rows = _store(directory).rows(query)
    if json:
        print_json([dict(zip(columns, map(_plain, row), strict=True)) for row in rows])
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    else:
        _print_rows(columns, rows)


def study_slurm(
    study: _StudyFile,
    shards: Annotated[int, typer.Option(help="Jobs of the array.")],
    out: _Out = None,
    workers: Annotated[int, typer.Option(help="Processors of each job.")] = 1,
    sbatch: Annotated[
        list[str] | None, typer.Option(help="Further option of sbatch, such as --time=02:00:00.")
    ] = None,
) -> None:
    """Write a job array for a batch system, of which each job does a part of the runs."""
    from dumbbell.studies._batch import write_job_array

    path = write_job_array(
        _open(study, out).store, shards, workers=workers, directives=sbatch or ()
    )
    typer.echo(f"submit it with: sbatch {shlex.quote(str(path))}")


def _open(study: str | Path, out: Path | None) -> OpenStudy:
    from dumbbell._cli_files import needs_extra

    with needs_extra("study", "study"):
        from dumbbell.studies._running import OpenStudy

        return OpenStudy.at(study, out)


def _store(directory: Path) -> Store:
    from dumbbell.studies._store import Store

    return Store.open(directory)


def do_study(
    opened: OpenStudy,
    *,
    executor: str | None = None,
    workers: int | None = None,
    shard: str | None = None,
    retry_failed: bool = False,
    address: str | None = None,
    quiet: bool = False,
) -> int:
    """Do what is missing of a study's runs and say how it ended; the exit status."""
    from dumbbell.studies._running import Shard

    store = opened.store
    place = shlex.quote(str(store.directory))
    part = Shard.parse(shard) if shard is not None else None
    where = _executor(opened.runs, executor, workers, address)
    try:
        with _progress(quiet=quiet) as progress:
            opened.do(where, shard=part, retry_failed=retry_failed, progress=progress)
    except KeyboardInterrupt:
        print(
            f"dumbbell: interrupted; {len(store.finished())} of {len(set(store.keys))} runs are "
            f"kept, go on with: dumbbell study resume {place}",
            file=sys.stderr,
        )
        return FAILED
    failed = len(store.failed())
    if not quiet:
        typer.echo(f"runs: {store.directory}")
    if failed:
        print(
            f"dumbbell: {failed} runs failed, see: dumbbell study status {place}", file=sys.stderr
        )
        return FAILED
    return 0


def _executor(
    runs: list[Run], name: str | None, workers: int | None, address: str | None
) -> Executor:
    """Where runs are done. Raises UsageError."""
    from dumbbell._errors import UsageError, suggest
    from dumbbell.studies._executors import Processes, Ray, Threads, default_executor

    if workers is not None and workers < 1:
        raise UsageError(f"--workers {workers}: expected at least 1")
    if address is not None and name != "ray":
        raise UsageError("--address: expected --executor ray")
    match name:
        case None:
            return default_executor(runs, workers)
        case "threads":
            return Threads(workers)
        case "processes":
            return Processes(workers)
        case "ray":
            return Ray(workers, address=address)
    raise UsageError(f'--executor "{name}"{suggest(name, EXECUTORS)}')


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Runs that are finished, rate and time left, on stderr and only if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.completed} of {task.total} runs{task.fields[pace]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("runs", total=1, pace="")
        began: list[tuple[float, int]] = []

        def report(done: int, planned: int) -> None:
            # What had been finished before says nothing of the rate.
            began.append((time.monotonic(), done)) if not began else None
            seconds, more = time.monotonic() - began[0][0], done - began[0][1]
            pace = f", {_pace(more / seconds, (planned - done) * seconds / more)}" if more else ""
            bar.update(task, completed=done, total=planned, pace=pace)

        yield report


def _pace(rate_per_s: float, left_s: float) -> str:
    rate = f"{rate_per_s:.1f} a second" if rate_per_s >= 1 else f"{60 * rate_per_s:.1f} a minute"
    return f"{rate}, {timedelta(seconds=round(left_s))} left"


def _print_rows(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    """A table; each row by itself where they are too wide for one."""
    from dumbbell._cli_output import console, table

    out = console()
    numbers = [
        all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(columns))
    ]
    heads = [name if number else f"<{name}" for name, number in zip(columns, numbers, strict=True)]
    cells = [[_cell(value) for value in row] for row in rows]
    whole = table("", heads, cells)
    if out.measure(whole, options=out.options.update(width=_ANY_WIDTH)).maximum <= out.width:
        out.print(whole)
        return
    for number, row in enumerate(cells, 1):
        pairs = [list(pair) for pair in zip(columns, row, strict=True)]
        out.print(table(f"{number} of {len(rows)}", ["<column", "<<value"], pairs))


def _plain(value: Any) -> Any:
    """A value of DuckDB as JSON has it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int | str | None) else str(value)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
