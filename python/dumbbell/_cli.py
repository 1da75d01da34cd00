"""The command line: commands, and how they end.

Exit status: 0, 1 (it ran and something failed, or it was interrupted), 2 (bad input). An error is
one line on stderr, without a traceback. Commands import what they need when they are called, so
that `--help` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from dumbbell import _cli_files, _cli_list, _cli_run, _cli_show, _cli_study
from dumbbell._errors import DumbbellError, printable

OK, FAILED, BAD_INPUT = 0, 1, 2

# Typer brings its own copy of click or uses click itself, depending on its version.
_ClickError: type[typer.BadParameter] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)

app = typer.Typer(
    name="dumbbell",
    help="A congestion-control laboratory: controllers, queues and paths, packet by packet.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_cli_run.register(app)
_cli_show.register(app)
_cli_list.register(app)
_cli_files.register(app)
_cli_study.register(app)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        from dumbbell import __version__

        typer.echo(f"dumbbell {__version__}")
        raise typer.Exit


def run_command(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status."""
    try:
        status = app(list(arguments), prog_name="dumbbell", standalone_mode=False)
        sys.stdout.flush()
    except _ClickError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
            return BAD_INPUT
        return _complain(
            error.format_message() or "what is to be done? see dumbbell --help", BAD_INPUT
        )
    except DumbbellError as error:
        return _complain(str(error), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", FAILED)
    except BrokenPipeError:
        # The reader has had enough; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except RuntimeError as error:
        from dumbbell import _core

        if not isinstance(error, _core.ControllerError | _core.InvariantError):
            raise
        return _complain(str(error), FAILED, lines=True)
    return status if isinstance(status, int) else OK


def _complain(message: str, status: int, *, lines: bool = False) -> int:
    """One line on stderr; `lines` keeps those of a controller's own traceback."""
    text = message if lines else printable(" ".join(message.split("\n")))
    print(f"dumbbell: {text}", file=sys.stderr)
    return status
