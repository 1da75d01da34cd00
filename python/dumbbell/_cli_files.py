"""Commands around results and files: import, export, plot, report, cases, reproduce."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

_Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
_Result = Annotated[Path, typer.Argument(help="Directory of a result.")]
_FAILED = 1


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("import")(import_foreign)
    app.command("export")(export)
    app.command("plot")(plot)
    app.command("report")(report)
    cases = typer.Typer(
        help="Public bug reports of the field, as scenarios with checks.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    cases.command("run")(run_cases)
    cases.callback()(_cases)
    app.add_typer(cases, name="cases")
    app.command("reproduce")(reproduce)


@contextmanager
def needs_extra(feature: str, extra: str) -> Iterator[None]:
    """Says which extra is missing where an import fails for that. Raises MissingExtraError."""
    try:
        yield
    except ModuleNotFoundError as error:
        from dumbbell._errors import MissingExtraError

        if (error.name or "").startswith("dumbbell"):
            raise
        raise MissingExtraError(feature, extra) from None


def optional_module(name: str, feature: str) -> Any:
    """A module that this version may lack. Raises UsageError."""
    from dumbbell._errors import UsageError

    try:
        return import_module(f"dumbbell.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"dumbbell.{name}":
            raise
        raise UsageError(f"{name}: {feature} is not available in this version") from None


def import_foreign(
    file: Annotated[Path, typer.Argument(help="A Flent result or a Mahimahi trace.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Directory for its tables, as Parquet.")
    ] = None,
    json: _Json = False,
) -> None:
    """Read a file of another tool and say what is in it."""
    from dumbbell._cli_output import print_json

    with needs_extra("import", "plots"):
        from dumbbell._import import import_file
    found = import_file(file)
    if out is not None:
        _save_tables(found.tables, out)
    if json:
        print_json({"kind": found.kind, **found.summary})
        return
    typer.echo(f"{file}: {found.kind}")
    for key, value in found.summary.items():
        if not isinstance(value, dict | list):
            typer.echo(f"  {key}: {value}")
        elif isinstance(value, dict):
            for name, inner in value.items():
                typer.echo(f"  {key}.{name}: {inner}")


def _save_tables(tables: dict[str, Any], directory: Path) -> None:
    from dumbbell._errors import UsageError

    with needs_extra("--out", "frames"):
        from pyarrow import parquet
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            parquet.write_table(table, directory / f"{name}.parquet")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{directory}: cannot be written: {reason}") from None


def export(
    result: _Result,
    kind: Annotated[str, typer.Argument(help="csv, parquet, flent or pcapng.")],
    out: Annotated[Path, typer.Option("--out", help="File or directory.")] = Path(),
) -> None:
    """Write a result in the format of another tool."""
    from dumbbell._results import Result

    with needs_extra("export", "plots"):
        from dumbbell._export import export_result
    for path in export_result(Result.load(result), kind, out):
        typer.echo(str(path))


def plot(
    result: _Result,
    out: Annotated[Path, typer.Option("--out", help="Directory for the figures.")] = Path(),
    formats: Annotated[str, typer.Option("--format", help="png, pdf, svg; several: png,pdf.")] = (
        "png"
    ),
) -> None:
    """Draw a result's figures."""
    from dumbbell._cli_values import split_list
    from dumbbell._results import Result

    with needs_extra("figures", "plots"):
        from dumbbell._plots import plot_result
    for path in plot_result(Result.load(result), out, formats=split_list(formats)):
        typer.echo(str(path))


def report(
    results: Annotated[list[Path], typer.Argument(help="Results, or a comparison's directory.")],
    out: Annotated[Path, typer.Option("--out", help="HTML file.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Default: the first scenario's.")] = None,
) -> None:
    """Write a report that works offline, as one HTML file."""
    from dumbbell._results import Result

    with needs_extra("the report", "report"):
        from dumbbell._report import write_report
    runs = [run for root in results for run in _runs(root, several=len(results) > 1)]
    loaded = [Result.load(path) for path, _ in runs]
    labels = [label for _, label in runs] if len(runs) > 1 else None
    typer.echo(str(write_report(out, loaded, title=title, labels=labels)))


def _runs(root: Path, *, several: bool) -> list[tuple[Path, dict[str, str]]]:
    """A result, or those of a comparison in their order, each with what tells it from others."""
    import json

    from dumbbell._errors import UsageError
    from dumbbell._results import is_result

    head = {"set": root.name} if several else {}
    if is_result(root):
        return [(root, head or {"run": root.name})]
    try:
        document = json.loads((root / "comparison.json").read_text(encoding="utf-8"))
        runs = document["runs"]
        seeds = {run["seed"] for run in runs}
        return [
            (
                root / run["directory"],
                head
                | {name: str(value) for name, value in run["labels"].items()}
                | ({"seed": str(run["seed"])} if len(seeds) > 1 else {}),
            )
            for run in runs
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        expected = "expected a result or the directory of a comparison"
        raise UsageError(f"{root}: {expected}") from None


def _cases() -> None:
    """Keeps `cases run` a command of its own although it is the only one."""


def run_cases(
    names: Annotated[
        list[str] | None, typer.Argument(help="Cases, their files or directories; default: all.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where the cases are; default: tests/cases.")
    ] = None,
    json: _Json = False,
) -> int:
    """Run the cases and print what passes."""
    from dumbbell._cli_output import console, print_json, table

    rows = optional_module("cases", "running them").run(names or None, home=directory)
    if json:
        print_json(rows)
    else:
        cells = [[row["name"], "pass" if row["passed"] else "FAIL", row["detail"]] for row in rows]
        console().print(table("Cases", ["<case", "<result", "<<measured"], cells))
    return 0 if all(row["passed"] for row in rows) else _FAILED


def reproduce(
    name: Annotated[str, typer.Argument(help="A paper (dumbbell list papers).")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Directory for its figure, page and tables (and runs: nist)."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter runs, fewer points.")] = False,
    scale: Annotated[
        float | None, typer.Option(help="Of nist-1a to nist-2c: size of the network; 1 is theirs.")
    ] = None,
    duration: Annotated[
        str | None, typer.Option(help="Of nist-1a to nist-2c: length of a run, such as 25min.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Of nist-1a to nist-2c: runs at a time.")
    ] = None,
    json: _Json = False,
) -> int:
    """Run a paper's experiment and print its numbers beside ours."""
    from dumbbell._cli_nist import reproduce_experiment
    from dumbbell._cli_output import console, print_json, table
    from dumbbell._errors import UsageError
    from dumbbell.mesonet.experiments import EXPERIMENTS

    if name in EXPERIMENTS:
        if quick:
            raise UsageError("--quick: expected --scale and --duration instead")
        return reproduce_experiment(
            name, out or Path("nist"), scale=scale, duration=duration, workers=workers, json=json
        )
    if scale is not None or duration is not None or workers is not None:
        raise UsageError("--scale, --duration, --workers: only nist-1a to nist-2c have them")
    outcome = optional_module("papers", "reproducing them").reproduce(name, out, quick=quick)
    if json:
        print_json(outcome)
    else:
        rows = outcome["rows"]
        cells = [[str(row[key]) for key in ("what", "paper", "ours", "verdict")] for row in rows]
        console().print(table(outcome["title"], ["<<what", "<<paper", "<<ours", "<verdict"], cells))
        for path in outcome["files"]:
            typer.echo(path)
    return 0 if outcome["passed"] else _FAILED
