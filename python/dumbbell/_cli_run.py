"""Commands that run scenarios: run, compare."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dumbbell._results import Result
    from dumbbell._scenario import Scenario

FAILED = 1

_QUICK: dict[str, Any] = {
    "title": "one flow",
    "duration": "30s",
    "warmup": "5s",
    "path": {"rate": "100Mbit", "rtt": "40ms", "queue": {"kind": "fifo", "limit": "1bdp"}},
    "flows": [{"cc": "cubic"}],
}
"""What `compare` runs where no scenario is named."""
_QUICK_FIGURE = Path("comparison.png")

_File = Annotated[
    str, typer.Argument(help="A scenario (TOML), preset:NAME, or a result to run again.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
_Out = Annotated[Path | None, typer.Option("--out", help="Directory for the result.")]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a value, such as path.rate=20Mbit."),
]
_Backend = Annotated[str, typer.Option(help="What it runs on.")]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No table and no progress.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("run")(run_scenario)
    app.command("compare")(compare_grid)


def run_scenario(
    file: _File,
    json: _Json = False,
    out: _Out = None,
    seed: Annotated[int | None, typer.Option(help="In place of the scenario's.")] = None,
    settings: _Set = None,
    backend: _Backend = "sim",
    quiet: _Quiet = False,
) -> int:
    """Run a scenario and print its summary."""
    from dumbbell import _core
    from dumbbell._cli_output import print_json, print_summary, progress_bar, warn
    from dumbbell._run import check_backend, execute, prepare

    check_backend(backend)
    _check_out(out)
    prepared = prepare(changed(file, settings), seed=seed)
    for line in prepared.warnings:
        warn(line)
    failure: Exception | None = None
    with progress_bar(quiet=quiet or json) as bar:
        try:
            result = execute(prepared, bar)
        except _core.ControllerError as error:
            failure = error
            partial: Any = error.partial
            result = partial
    if out is not None:
        result.save(out)
    if json:
        print_json(result.summary)
    elif not quiet:
        print_summary(result.summary)
        if out is not None:
            typer.echo(f"result: {out}")
    if failure is not None:
        raise failure
    if not result.complete:
        print("dumbbell: interrupted; the result ends there", file=sys.stderr)
        return FAILED
    return 0


def compare_grid(
    file: Annotated[
        str | None,
        typer.Argument(help="As of run; default: one flow through a drop-tail queue of 1 BDP."),
    ] = None,
    cc: Annotated[
        str | None,
        typer.Option(
            help='Controllers, such as cubic,bbr; "cubic+bbr" gives one to each [[flows]]; all.'
        ),
    ] = None,
    queue: Annotated[
        str | None, typer.Option(help="Queues, such as fifo,codel:target=10ms; all.")
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=A,B,..", help="Values for a key, such as path.rate=10Mbit,50Mbit."
        ),
    ] = None,
    rate: Annotated[str | None, typer.Option(help="Rate of the path, such as 100Mbit.")] = None,
    rtt: Annotated[str | None, typer.Option(help="Base RTT of the path, such as 40ms.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds for each point.")] = 1,
    jobs: Annotated[int | None, typer.Option(help="Threads; default: one a processor.")] = None,
    settings: _Set = None,
    json: _Json = False,
    out: _Out = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            help="A small panel for each run: PNG, PDF or SVG. Without FILE: comparison.png."
        ),
    ] = None,
    backend: _Backend = "sim",
    quiet: _Quiet = False,
) -> int:
    """Run a scenario over a grid of controllers, queues and other values."""
    from dumbbell._cli_output import print_comparison, print_json, progress_count, warn
    from dumbbell._cli_values import parse_over, parse_queues, split_list
    from dumbbell._compare import compare
    from dumbbell._errors import MissingExtraError, UsageError
    from dumbbell._results import Result
    from dumbbell._run import check_backend, scenario_of

    check_backend(backend)
    _check_out(out)
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}: expected at least 1")
    given = [f"path.{k}={v}" for k, v in (("rate", rate), ("rtt", rtt)) if v is not None]
    source: Scenario | Result
    if file is None:
        from dumbbell._cli_values import parse_settings
        from dumbbell._scenario import Scenario

        chosen = parse_settings([*given, *(settings or [])])
        source = Scenario.from_dict(_QUICK).replaced(chosen)
        figure = figure or (None if json else _QUICK_FIGURE)
    else:
        source = changed(file, [*given, *(settings or [])])
    with progress_count(quiet=quiet or json) as bar:
        comparison = compare(
            scenario_of(source) if isinstance(source, Result) else source,
            cc=split_list(cc) if cc else None,
            queue=parse_queues(queue) if queue else None,
            over=parse_over(over or []),
            seeds=seeds,
            jobs=jobs,
            progress=bar,
        )
    for line in comparison.warnings:
        warn(line)
    if out is not None:
        comparison.save(out)
    if json:
        print_json({"complete": comparison.complete, "rows": comparison.rows})
    elif not quiet:
        print_comparison(comparison)
        if out is not None:
            typer.echo(f"results: {out}")
    if figure is not None and comparison.results:
        try:
            from dumbbell._plots_multiples import multiples_figure, run_title

            titles = map(run_title, comparison.titles, comparison.results)
            multiples_figure(comparison.results, list(titles), figure)
        except MissingExtraError as error:
            if figure is not _QUICK_FIGURE:
                raise
            warn(f"no figure: {error}")
        else:
            if not quiet and not json:
                typer.echo(f"figure: {figure}")
    if not comparison.complete:
        done = f"{len(comparison.results)} of {comparison.planned} runs"
        print(f"dumbbell: interrupted; kept {done}", file=sys.stderr)
        return FAILED
    return 0


def changed(file: str, settings: list[str] | None) -> Scenario | Result:
    """The scenario or result at `file`; with settings always a scenario."""
    from dumbbell._cli_values import parse_settings
    from dumbbell._results import Result
    from dumbbell._run import load_source, scenario_of

    source = load_source(file)
    if not settings:
        return source
    scenario = scenario_of(source) if isinstance(source, Result) else source
    return scenario.replaced(parse_settings(settings))


def _check_out(out: Path | None) -> None:
    """Find out before a long run whether its result can be written."""
    if out is None:
        return
    from dumbbell._errors import UsageError
    from dumbbell._results import require_pyarrow

    require_pyarrow("--out")
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: expected a directory")
