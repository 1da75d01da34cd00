"""Commands around study files: study new, study plan."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumbbell import _cli_study_report, _cli_study_run

if TYPE_CHECKING:
    from dumbbell.studies._plan import Pilot, Plan

study = typer.Typer(
    help="Many runs of a scenario after a design of experiments.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_HEAD_ROWS = 8
_CHAINS = 20

StudyFile = Annotated[str, typer.Argument(help="A study file (TOML), or ready:NAME.")]


class DesignKind(StrEnum):
    """Designs of a new study."""

    FULL = "full"
    FRACTIONAL = "fractional"
    PLACKETT_BURMAN = "plackett-burman"
    LATIN_HYPERCUBE = "latin-hypercube"
    SOBOL = "sobol"
    ONE_AT_A_TIME = "one-at-a-time"
    TABLE = "table"


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    study.command("new")(new)
    study.command("plan")(show_plan)
    _cli_study_run.register(study)
    _cli_study_report.register(study)
    app.add_typer(study, name="study")


def new(
    source: Annotated[
        str,
        typer.Option("--from", help="A scenario (TOML), preset:NAME, or a study ready:NAME."),
    ] = "preset:home",
    design: Annotated[DesignKind, typer.Option(help="How levels are combined.")] = DesignKind.FULL,
    out: Annotated[Path | None, typer.Option("--out", help="File to write; default: stdout.")] = (
        None
    ),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a commented study file."""
    from dumbbell._cli_files import needs_extra
    from dumbbell._cli_list import _write
    from dumbbell._run import load_scenario

    with needs_extra("study", "study"):
        from dumbbell.studies._study import Study, ready_file
        from dumbbell.studies._templates import template
    if source.startswith("ready:"):
        text = ready_file(source.removeprefix("ready:")).read_text(encoding="utf-8")
    else:
        name = source
        if not source.startswith("preset:") and out is not None:
            # The scenario is named relative to the study's file.
            name = os.path.relpath(source, out.parent)
        text = template(load_scenario(source), name, design)
    _write(text, out, force=force)
    if out is not None:
        Study.load(out)


def show_plan(
    file: StudyFile,
    pilot: Annotated[
        bool, typer.Option("--pilot/--no-pilot", help="Estimate the time from three runs.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Check a study and say what it will run."""
    from dumbbell._cli_files import needs_extra
    from dumbbell._cli_output import print_json

    with needs_extra("study plan", "study"):
        from dumbbell.studies._plan import plan
        from dumbbell.studies._study import Study

        planned = plan(Study.load(file), with_pilot=pilot)
    if json:
        print_json(planned.document())
    else:
        _print_plan(planned)


def _print_plan(plan: Plan) -> None:
    from dumbbell._cli_output import console, table

    study, out = plan.study, console()
    crossed = "".join(f" x {study.factors[n].count()} {n}" for n in study.design.cross)
    out.print(
        f"{study.title or 'study'}: {plan.design.runs} rows{crossed} x {study.replicates} "
        f"{'replicate' if study.replicates == 1 else 'replicates'} = {len(plan.runs)} runs"
        + (f", {plan.distinct} of them distinct" if plan.distinct < len(plan.runs) else ""),
        markup=False,
    )
    out.print(_design_line(plan), markup=False)
    for problem in plan.verification.problems:
        out.print(f"  {problem}", markup=False)
    if plan.words:
        out.print(f"defining words: {_some(plan.words)}", markup=False)
    if plan.aliases:
        chains = [" = ".join(chain) for chain in plan.aliases]
        out.print(f"aliased: {_some(chains)}", markup=False)
    names = list(study.factors)
    blocks = any(run.block for run in plan.runs)
    rows = [
        [
            str(run.index),
            *([str(run.block)] if blocks else []),
            str(run.seed),
            *(str(run.factors[name]) for name in names),
        ]
        for run in plan.runs[:_HEAD_ROWS]
    ]
    columns = ["run", *(["block"] if blocks else []), "seed", *names]
    more = len(plan.runs) - len(rows)
    title = "Runs" if more <= 0 else f"Runs (the first {len(rows)} of {len(plan.runs)})"
    out.print(table(title, columns, rows))
    if plan.pilot is not None:
        _print_pilot(plan, plan.pilot)


def _design_line(plan: Plan) -> str:
    design, checks = plan.design, plan.verification
    roman = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
    parts = [f"{len(design.columns)} factors in {design.runs} rows"]
    if plan.resolution is not None:
        size = plan.resolution
        parts.append(f"resolution {roman[size] if size < len(roman) else size}")
    elif design.coding == "signs":
        parts.append("no effects aliased")
    if design.coding == "unit":
        parts.append("one point in each stratum" if checks.balanced else "strata not filled evenly")
    else:
        parts += [name for name in ("balanced", "orthogonal") if getattr(checks, name)]
    return f"design: {design.kind}, {', '.join(parts)}"


def _some(items: list[str]) -> str:
    shown = ", ".join(items[:_CHAINS])
    return shown if len(items) <= _CHAINS else f"{shown}, and {len(items) - _CHAINS} more"


def _print_pilot(plan: Plan, pilot: Pilot) -> None:
    from dumbbell._cli_output import warn

    for problem in pilot.problems:
        warn(problem)
    if not pilot.seconds:
        return
    cores = os.cpu_count() or 1
    whole = sum(share == 1 for share in pilot.shares)
    total = pilot.mean_s * plan.distinct
    typer.echo(
        f"time: {_duration(pilot.mean_s)} a run (pilot of {len(pilot.seconds)}, {whole} of them "
        f"whole), {_duration(total)} of one processor, {_duration(total / cores)} on {cores}"
    )


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1000:.3g} ms"
