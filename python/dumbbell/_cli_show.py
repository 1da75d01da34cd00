"""The command that shows what would run, what ran, or what a controller does: show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dumbbell._cli_run import changed

if TYPE_CHECKING:
    from dumbbell._registry import Entry

_CC = "cc"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("show")(show)


def show(
    what: Annotated[str, typer.Argument(help='A scenario (TOML), preset:NAME, a result, or "cc".')],
    name: Annotated[
        str | None, typer.Argument(help='After "cc": the controller whose page to print.')
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Replace a value, such as path.rate=20Mbit."
        ),
    ] = None,
) -> None:
    """Show a scenario as it would run, the summary of a result, or a controller's page."""
    from dumbbell._cli_output import print_config, print_json, print_summary
    from dumbbell._errors import UsageError
    from dumbbell._results import Result
    from dumbbell._run import prepare

    if what == _CC:
        _show_controller(name, json=json)
        return
    if name is not None:
        raise UsageError(f'show: expected nothing after "{what}", not "{name}"')
    source = changed(what, settings)
    if isinstance(source, Result):
        if json:
            print_json(source.summary)
        else:
            print_summary(source.summary)
        return
    prepared = prepare(source)
    if json:
        print_json({"scenario": prepared.scenario, "config": prepared.config})
    else:
        print_config(prepared.scenario, prepared.config)


def _show_controller(name: str | None, *, json: bool) -> None:
    from dataclasses import asdict

    from dumbbell import _pages
    from dumbbell._cli_output import console, print_json
    from dumbbell._errors import UsageError, suggest
    from dumbbell._plugins import listing
    from dumbbell._registry import builtin

    known = dict(builtin().controllers)
    if name not in known:
        known |= {entry.name: entry for entry in listing()[0]}
    if name is None:
        raise UsageError(f"show cc: expected the name of a controller{suggest('', known)}")
    if name not in known:
        raise UsageError(f'show cc "{name}": there is no such controller{suggest(name, known)}')
    if json:
        rules = [asdict(rule) for rule in _pages.read_rules(name)]
        print_json({**asdict(known[name]), "sections": _pages.read_sections(name), "rules": rules})
        return
    from rich.markdown import Markdown

    console().print(Markdown(_terminal_page(known[name])))


def _terminal_page(entry: Entry) -> str:
    """The page without the columns that name code and tests."""
    from dumbbell import _pages

    return _pages.full_page(entry, rules=_pages.short_rules(entry.name))
