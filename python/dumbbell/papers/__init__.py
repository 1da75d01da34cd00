"""Published experiments, run again: `dumbbell reproduce NAME`.

One file each; see `_paper` for what an entry holds, and docs/papers.md for what was measured.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dumbbell._errors import MissingExtraError, UsageError, suggest
from dumbbell.mesonet import experiments

if TYPE_CHECKING:
    from dumbbell.papers._paper import Paper

_MODULES = {
    "abc-fairness": "activity_fairness",
    "bbr-cubic-crossing": "buffer_crossing",
    "bbr-over-pie": "delay_target",
    "bbr-talk-loss": "loss_arithmetic",
    "bbr-random-loss": "random_loss",
    "bbr-small-buffer": "small_buffer",
    "burst-limiting-shaper": "burst_limiting_shaper",
    "cubic-recovery": "cubic_recovery",
    "dualq-coexistence": "dualq_coexistence",
    "fse-slides": "fse_slides",
    "nist-latency": "nist_latency",
    "pi2-control": "pi2_control",
    "plt": "priority_layers",
    "plt-shutdown": "priority_detection",
    "response-functions": "response_functions",
    "rfc7928": "rfc7928",
    "rmcat": "rmcat",
    "l4s-tests": "l4s_tests",
    "rtt-unfairness": "rtt_unfairness",
    "sbd": "sbd",
    "sce-mail": "sce_mail",
    "sce-pairs": "sce_pairs",
    "window-sharing": "window_sharing",
}


def load(name: str) -> Paper:
    """An entry by its name. Raises UsageError, MissingExtraError."""
    if name not in _MODULES:
        known = [*_MODULES, *experiments.EXPERIMENTS]
        raise UsageError(f'paper "{name}": there is no such paper{suggest(name, known)}')
    try:
        module = import_module(f"dumbbell.papers.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("dumbbell"):
            raise
        raise MissingExtraError("reproducing papers", "plots") from None
    paper: Paper = module.PAPER
    return paper


def listing() -> list[dict[str, str]]:
    """Name and title of each paper. Raises MissingExtraError."""
    papers = map(load, _MODULES)
    return [{"name": paper.name, "summary": f"{paper.title} ({paper.source})"} for paper in papers]


def reproduce(name: str, out: str | Path | None = None, *, quick: bool = False) -> dict[str, Any]:
    """Run a paper's experiment and judge its numbers.

    Returns name, title, source, setup, passed, rows (what, paper, ours, verdict, source and the
    numbers themselves), tables (title to rows), figures and files: what was written to the
    directory `out`, none without it: the figure (which `figures` names), a page that holds
    everything, and the tables as CSV.
    Raises UsageError, MissingExtraError.
    """
    paper = load(name)
    if out is not None:
        from dumbbell._report import environment

        environment()
        out = _directory(Path(out))
    outcome = paper.run(quick)
    result: dict[str, Any] = {
        "name": paper.name,
        "title": paper.title,
        "source": paper.source,
        "setup": paper.setup,
        "passed": all(row["verdict"] == "agrees" for row in outcome.rows),
        "rows": outcome.rows,
        "tables": outcome.tables,
        "figures": [],
        "files": [],
    }
    if out is not None:
        from dumbbell._plots import save_figure
        from dumbbell._report_paper import file_part, write_csv, write_paper

        picture = save_figure(outcome.draw(), out / f"{name}.png")
        page = write_paper(out / f"{name}.html", result, picture, quick=quick)
        sheets = [
            write_csv(out / f"{name}-{file_part(title)}.csv", rows)
            for title, rows in outcome.tables.items()
        ]
        result["figures"] = [str(picture)]
        result["files"] = [str(path) for path in (picture, page, *sheets)]
    return result


def _directory(path: Path) -> Path:
    """Made before the run, so that a long run is not for nothing. Raises UsageError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{path}: cannot be written: {reason}") from None
    return path
