"""`dumbbell reproduce nist-1a` and the others: a study, its report, and the findings."""

from __future__ import annotations

from pathlib import Path

import typer

from dumbbell._cli_study_run import do_study


def reproduce_experiment(
    name: str,
    out: Path,
    *,
    scale: float | None,
    duration: str | None,
    workers: int | None,
    json: bool,
) -> int:
    """Do what is missing of an experiment's runs, write its report below `out`, and print what has
    become of the findings on all experiments that are there."""
    from dumbbell._cli_files import needs_extra
    from dumbbell._cli_output import console, print_json, table

    with needs_extra("the NIST experiments", "study"):
        from dumbbell.analysis.report import write_report
        from dumbbell.analysis.stored import stored_study
        from dumbbell.analysis.study import study_sections
        from dumbbell.mesonet import experiments
        from dumbbell.mesonet._finding import NOT_REPRODUCED
        from dumbbell.mesonet.findings import summary_table

        opened = experiments.open_experiment(name, out, scale=scale, duration=duration)
    status = do_study(opened, workers=workers, quiet=json)
    if status != 0:
        return status
    directory = opened.store.directory
    findings = experiments.judge(out)
    stored = stored_study(directory)
    sections, left_out = study_sections(stored.frame, stored.plan)
    page = write_report(
        [experiments.section(findings), *sections],
        out / f"{name}.html",
        title=stored.title,
        facts=stored.facts,
        left_out=left_out,
    )
    if json:
        print_json(summary_table(findings).to_dict("records"))
    else:
        cells = [[f.id, f.statement, f.verdict, f.number] for f in findings]
        heads = ["<finding", "<<statement", "<verdict", "<<measured"]
        console().print(table("Findings", heads, cells))
        typer.echo(str(page))
    return int(any(finding.verdict == NOT_REPRODUCED for finding in findings))
