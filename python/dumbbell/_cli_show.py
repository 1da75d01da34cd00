"""The command that shows what would run, what ran, or what a controller or queue does: show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dumbbell._cli_run import changed

if TYPE_CHECKING:
    from dumbbell._registry import Entry

_CC = "cc"
_QUEUE = "queue"
_TRANSPORT = "transport"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("show")(show)


def show(
    what: Annotated[
        str,
        typer.Argument(
            help='A scenario (TOML), preset:NAME, a result, "cc", "queue" or "transport".'
        ),
    ],
    name: Annotated[
        str | None, typer.Argument(help="After one of these words: whose page to print.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Replace a value, such as path.rate=20Mbit."
        ),
    ] = None,
) -> None:
    """Show a scenario as it would run, the summary of a result, or a mechanism's page."""
    from dumbbell._cli_output import print_config, print_json, print_summary
    from dumbbell._errors import UsageError
    from dumbbell._results import Result
    from dumbbell._run import prepare

    if what in (_CC, _QUEUE, _TRANSPORT):
        _show_page(what, name, json=json)
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


def _show_page(kind: str, name: str | None, *, json: bool) -> None:
    from dataclasses import asdict

    from dumbbell import _pages
    from dumbbell._cli_output import console, print_json
    from dumbbell._errors import UsageError, suggest
    from dumbbell._plugins import listing
    from dumbbell._registry import builtin

    known: dict[str, Entry]
    if kind == _QUEUE:
        pages, known = _pages.QUEUES, dict(builtin().queues)
    elif kind == _TRANSPORT:
        pages, known = _pages.TRANSPORTS, dict(builtin().transports)
    else:
        pages, known = _pages.CONTROLLERS, builtin().all_controllers
        if name not in known:
            known |= {entry.name: entry for entry in listing()[0]}
    if name is None:
        raise UsageError(f"show {kind}: expected the name of a {pages.kind}{suggest('', known)}")
    if name not in known:
        raise UsageError(
            f'show {kind} "{name}": there is no such {pages.kind}{suggest(name, known)}'
        )
    if json:
        rules = [asdict(rule) for rule in pages.rules(name)]
        print_json({**asdict(known[name]), "sections": pages.sections(name), "rules": rules})
        return
    from rich.markdown import Markdown

    # Without the columns that name code and tests.
    console().print(Markdown(pages.full_page(known[name], rules=pages.short_rules(name))))
