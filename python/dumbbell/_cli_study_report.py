"""Commands that analyse a study's runs: study analyse, study report."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dumbbell.analysis.report import Section
    from dumbbell.analysis.stored import StoredStudy


class FigureKind(StrEnum):
    """Formats of figures."""

    SVG = "svg"
    PNG = "png"
    PDF = "pdf"


_Directory = Annotated[Path, typer.Argument(help="Directory of a study.")]
_Algorithm = Annotated[
    str | None,
    typer.Option(
        metavar="FACTOR", help="What is compared; default: a factor called algorithm or cc."
    ),
]
_Congestion = Annotated[
    str | None,
    typer.Option(metavar="RESPONSE", help="What orders conditions; default: losses."),
]
_Responses = Annotated[
    list[str] | None,
    typer.Option("--response", metavar="NAME", help="Analyse only these; can be repeated."),
]
_Focus = Annotated[
    list[str] | None,
    typer.Option("--focus", metavar="NAME", help="Show these in detail; can be repeated."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to `dumbbell study`."""
    app.command("analyse")(analyse)
    app.command("report")(report)


def analyse(
    directory: _Directory,
    out: Annotated[
        Path | None, typer.Option("--out", help="Directory to write; default: DIR/analysis.")
    ] = None,
    kind: Annotated[
        FigureKind, typer.Option("--format", help="Format of the figures.")
    ] = FigureKind.SVG,
    algorithm: _Algorithm = None,
    congestion: _Congestion = None,
    responses: _Responses = None,
    focus: _Focus = None,
) -> None:
    """Analyse a study's runs: print what they say, write tables (CSV) and figures."""
    from dumbbell.analysis.report import write_files

    _, sections, left_out = _analysed(directory, algorithm, congestion, responses, focus)
    for section in sections:
        for sentence in section.readings:
            typer.echo(f"{section.title}: {sentence}")
    for title, reason in left_out:
        typer.echo(f"{title}: not done: {reason}")
    target = out or directory / "analysis"
    written = write_files(sections, target, kind.value)
    typer.echo(f"wrote {len(written)} files to {target}")


def report(
    directory: _Directory,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write; default: DIR/report.html.")
    ] = None,
    algorithm: _Algorithm = None,
    congestion: _Congestion = None,
    responses: _Responses = None,
    focus: _Focus = None,
) -> None:
    """Write the analysis of a study as one HTML file that needs no network."""
    from dumbbell.analysis.report import write_report

    stored, sections, left_out = _analysed(directory, algorithm, congestion, responses, focus)
    path = out or directory / "report.html"
    write_report(sections, path, title=stored.title, facts=stored.facts, left_out=left_out)
    typer.echo(f"wrote {path}")


def _analysed(
    directory: Path,
    algorithm: str | None,
    congestion: str | None,
    responses: list[str] | None,
    focus: list[str] | None,
) -> tuple[StoredStudy, list[Section], list[tuple[str, str]]]:
    from dumbbell.analysis.stored import stored_study
    from dumbbell.analysis.study import study_sections

    stored = stored_study(
        directory,
        algorithm=algorithm,
        congestion=congestion,
        responses=responses or (),
        focus=focus or (),
    )
    return stored, *study_sections(stored.frame, stored.plan)
