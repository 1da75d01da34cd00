"""Commands that say what there is and that write files to begin with: list, new."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dumbbell._registry import Entry

_Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
_Out = Annotated[Path | None, typer.Option("--out", help="File to write; default: stdout.")]
_Force = Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")]


class Listed(StrEnum):
    """What `list` lists."""

    CONTROLLERS = "controllers"
    QUEUES = "queues"
    TRANSPORTS = "transports"
    COUPLINGS = "couplings"
    PRESETS = "presets"
    PAPERS = "papers"
    CASES = "cases"
    TRACES = "traces"
    STUDIES = "studies"
    METRICS = "metrics"


_OF_THE_ENGINE = (Listed.CONTROLLERS, Listed.QUEUES, Listed.TRANSPORTS, Listed.COUPLINGS)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("list")(list_things)
    new = typer.Typer(
        help="Write a scenario or a trace to begin with, or the JSON Schema.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    new.command("scenario")(new_scenario)
    new.command("trace")(new_trace)
    new.command("schema")(new_schema)
    app.add_typer(new, name="new")


def list_things(
    what: Annotated[Listed | None, typer.Argument(help="Default: controllers and queues.")] = None,
    name: Annotated[str | None, typer.Argument(help="Only this one, with its parameters.")] = None,
    json: _Json = False,
) -> None:
    """List controllers, queues, transports, couplings, presets, traces, papers, cases, studies or
    metrics."""
    from dumbbell._cli_output import console, print_json, table, warn

    kinds = [what] if what else [Listed.CONTROLLERS, Listed.QUEUES]
    documents: dict[str, Any] = {}
    for kind in kinds:
        if kind in _OF_THE_ENGINE:
            entries, problems = _entries(kind, name)
            for problem in problems:
                warn(problem)
            documents[kind] = [_document(entry) for entry in entries]
            if not json:
                _print_entries(kind, entries, parameters=name is not None)
            continue
        rows = [row for row in _rows(kind) if name in (None, row["name"])]
        _require(name, rows, kind, [row["name"] for row in _rows(kind)])
        documents[kind] = rows
        if not json:
            cells = [[row["name"], row["summary"]] for row in rows]
            console().print(table(kind.capitalize(), ["<name", "<<what"], cells))
    if json:
        print_json(documents[what] if what else documents)


def _entries(kind: Listed, name: str | None) -> tuple[list[Entry], list[str]]:
    """What there is, or what is called `name`, and what other packages bring that is of no use."""
    from dumbbell._plugins import listing
    from dumbbell._registry import builtin

    registry = builtin()
    kinds: dict[str, Mapping[str, Entry]] = {
        Listed.CONTROLLERS: registry.all_controllers,
        Listed.QUEUES: registry.queues,
        Listed.TRANSPORTS: registry.transports,
        Listed.COUPLINGS: {**registry.couplings, **registry.detectors},
    }
    known = [*kinds[kind].values()]
    problems: list[str] = []
    if kind == Listed.CONTROLLERS:
        registered, problems = listing()
        known += registered
    entries = [entry for entry in known if name in (None, entry.name)]
    _require(name, entries, kind, [entry.name for entry in known])
    return entries, problems


def _require(name: str | None, found: list[Any], kind: str, known: list[str]) -> None:
    from dumbbell._errors import UsageError, suggest

    if name is not None and not found:
        raise UsageError(f'{kind} "{name}": there is no such name{suggest(name, known)}')


def _document(entry: Entry) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(entry)


def _print_entries(kind: Listed, entries: list[Entry], *, parameters: bool) -> None:
    from dumbbell._cli_output import console, table

    out = console()
    signals = any(entry.signals for entry in entries)
    rows = [
        [
            entry.name,
            entry.summary,
            entry.source,
            *([", ".join(entry.signals)] if signals else []),
            ", ".join(f"{p.name}={_with_unit(p)}" for p in entry.params),
        ]
        for entry in entries
    ]
    if not parameters:
        columns = [
            "<name",
            "<<what",
            "<<source",
            *(["<<signals"] if signals else []),
            "<<parameters",
        ]
        out.print(table(kind.capitalize(), columns, rows))
        return
    for entry in entries:
        out.print(f"{entry.name}: {entry.summary} ({entry.source})", markup=False)
        if entry.signals:
            out.print(f"signals: {', '.join(entry.signals)}", markup=False)
        cells = [[p.name, p.unit, p.shown_default, _range(p), p.doc] for p in entry.params]
        if cells:
            columns = ["<parameter", "<unit", "default", "<<allowed", "<<meaning"]
            out.print(table("", columns, cells))


def _with_unit(param: Any) -> str:
    """The default, with its unit where the value does not say it."""
    text = str(param.shown_default)
    return f"{text} segments" if param.unit == "segments" else text


def _range(param: Any) -> str:
    if param.choices:
        return ", ".join(param.choices)
    low = "" if param.minimum is None else f"from {param.show(param.minimum)}"
    high = "" if param.maximum is None else f"to {param.show(param.maximum)}"
    return f"{low} {high}".strip()


def _rows(kind: Listed) -> list[dict[str, str]]:
    """Name and summary of what is not in the engine."""
    from dumbbell._cli_files import optional_module

    match kind:
        case Listed.PRESETS:
            from dumbbell._run import presets

            return _titles(presets())
        case Listed.STUDIES:
            from dumbbell.studies._study import ready_studies

            return _titles(ready_studies())
        case Listed.TRACES:
            from dumbbell._traces import GENERATORS

            return [
                {"name": name, "summary": (make.__doc__ or "").strip().split("\n")[0]}
                for name, make in GENERATORS.items()
            ]
        case Listed.METRICS:
            from dumbbell.studies.metrics import METRICS

            return [
                {"name": name, "unit": metric.unit, "summary": metric.summary}
                for name, metric in METRICS.items()
            ]
        case Listed.PAPERS:
            from dumbbell.mesonet import experiments

            papers = optional_module("papers", "listing them")
            return [*papers.listing(), *experiments.listing()]
        case _:
            module = optional_module(kind, "listing them")
            return [dict(row) for row in module.listing()]


def _titles(files: Mapping[str, Path]) -> list[dict[str, str]]:
    from dumbbell._scenario import read_toml

    return [
        {"name": name, "summary": str(read_toml(path).get("title", ""))}
        for name, path in files.items()
    ]


def new_scenario(
    preset: Annotated[str, typer.Option(help="Preset to begin with (dumbbell list presets).")] = (
        "home"
    ),
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a value."),
    ] = None,
    out: _Out = None,
    force: _Force = False,
) -> None:
    """Write a commented scenario."""
    import tomlkit

    from dumbbell._cli_values import parse_settings
    from dumbbell._run import preset_file
    from dumbbell._scenario import Scenario, set_key

    text = preset_file(preset).read_text(encoding="utf-8")
    changes: Mapping[str, Any] = parse_settings(settings or [])
    if changes:
        # Edited in place, so that the comments stay.
        document = tomlkit.parse(text)
        for key, value in changes.items():
            set_key(document, key, value)
        text = tomlkit.dumps(document)
        Scenario.loads(text)
    _write(text, out, force=force)


def new_trace(
    kind: Annotated[str, typer.Argument(help="Generator (dumbbell list traces).")],
    duration: Annotated[str, typer.Option(help="Length.")] = "60s",
    seed: Annotated[int, typer.Option(help="The same seed makes the same trace.")] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=NUMBER", help="A parameter of the generator."),
    ] = None,
    out: _Out = None,
    force: _Force = False,
) -> None:
    """Write a synthetic trace in Mahimahi's format."""
    from dumbbell._cli_files import needs_extra
    from dumbbell._cli_values import parse_settings
    from dumbbell._errors import UsageError
    from dumbbell._units import parse_time

    with needs_extra("making traces", "plots"):
        from dumbbell._mahimahi import write_trace
        from dumbbell._traces import generate
    try:
        duration_s = parse_time(duration) / 10**9
    except ValueError as error:
        raise UsageError(f'--duration "{duration}": {error}') from None
    trace = generate(kind, seed=seed, duration_s=duration_s, **parse_settings(settings or []))
    if out is None:
        _write("".join(f"{ms}\n" for ms in trace.opportunities_ms.tolist()), None, force=force)
        return
    _check_new(out, force=force)
    try:
        write_trace(trace, out)
    except OSError as error:
        raise _unwritable(out, error) from None


def new_schema(out: _Out = None, force: _Force = False) -> None:
    """Write the JSON Schema of scenarios, for editors."""
    import json

    from dumbbell._scenario import Scenario

    _write(json.dumps(Scenario.model_json_schema(), indent=2) + "\n", out, force=force)


def _write(text: str, out: Path | None, *, force: bool) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    _check_new(out, force=force)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(out, error) from None


def _unwritable(out: Path, error: OSError) -> Exception:
    from dumbbell._errors import UsageError

    return UsageError(f"{out}: cannot be written: {(error.strerror or str(error)).lower()}")


def _check_new(out: Path, *, force: bool) -> None:
    from dumbbell._errors import UsageError

    if out.exists() and not force:
        raise UsageError(f"{out}: there is such a file already; --force overwrites it")
