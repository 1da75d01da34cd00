"""Put what the NIST study's experiments gave here into docs/nist.md.

From the repository's root, with the directory that `dumbbell reproduce nist-1b` and the others have
filled: `python docs/nist_results.py nist`. Writes the page's tables and figures, and one small
Parquet table for each experiment.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from paste_results import cell, paste

from dumbbell._plots import save_figure
from dumbbell._units import parse_time
from dumbbell.mesonet import experiments, findings
from dumbbell.mesonet._finding import Finding
from dumbbell.mesonet.published import FLOWS_PER_RUN, PACKETS_PER_RUN
from dumbbell.studies import Study, frame
from dumbbell.studies._store import STUDY_FILE

HERE = Path(__file__).parent
FIGURES = HERE / "_static"
TABLES = HERE / "nist"
CAPTIONS = {
    "congestion-order": "Order of the conditions by retransmission rate, here and in the study",
    "clusters": "Algorithms by all macroscopic responses, a tree for each condition",
    "outliers": "Algorithms that differ, by condition and [response](mesonet.md)",
    "ranks": "Ranks by goodput of an algorithm's own flows (grey: too few flows)",
    "ranks-tcp": "Ranks by goodput of the TCP flows beside an algorithm (grey: too few flows)",
    "coexistence": "Goodput of an algorithm's flows and of the TCP flows beside them",
    "components": "Principal components of the goodputs, a point a condition",
}
"""By name of the figure, without the experiment."""
OWN_DURATION = "25min"
"""Of experiments 1a and 1b in the study."""


def main(directory: Path) -> None:
    """Rewrite what stands between the markers of the page."""
    names = [name.removeprefix("nist-") for name in experiments.EXPERIMENTS]
    frames = {name: frame(directory / name) for name in names if (directory / name).is_dir()}
    TABLES.mkdir(exist_ok=True)
    for name, runs in frames.items():
        _keep(runs, TABLES / f"{name}.parquet")
    parts = ["## What was run", _runs(directory, frames), *_sizes(directory, frames)]
    judged = experiments.judge(directory)
    verdicts = findings.summary_table(judged)[["statement", "verdict"]]
    parts += ["## Findings", *experiments.section(judged).readings, _table(verdicts)]
    parts += ["### What the verdicts rest on", *map(_details, judged)]
    parts += ["## Numbers", _table(findings.numbers(frames))]
    for name, figure in findings.figures(frames).items():
        save_figure(figure, FIGURES / f"nist-{name}.png")
        parts.append(_picture(name))
    paste(HERE / "nist.md", "\n\n".join(parts))


def _keep(runs: pd.DataFrame, path: Path) -> None:
    """All factors and responses, to seven digits."""
    kept = runs.drop(columns=["key", "error", "version"], errors="ignore")
    responses = kept.select_dtypes("float").columns
    kept[responses] = kept[responses].astype("float32")
    kept.to_parquet(path, compression="zstd", index=False)


def _runs(directory: Path, frames: dict[str, pd.DataFrame]) -> str:
    rows = []
    for name, runs in frames.items():
        study = _study(directory / name)
        planned = len(study.conditions())
        rows.append(
            {
                "experiment": name,
                "scale": study.set_["mesonet.scale"],
                "a run": study.set_["duration"],
                "runs": f"{len(runs)} of {planned}" if len(runs) < planned else planned,
                "failed": int(runs["error"].notna().sum()),
                "processor hours": round(runs["seconds"].sum() / 3600, 2),
            }
        )
    return _table(pd.DataFrame(rows).set_index("experiment"))


def _study(directory: Path) -> Study:
    return Study.load(directory / STUDY_FILE)


def _sizes(directory: Path, frames: dict[str, pd.DataFrame]) -> list[str]:
    """Flows and packets of a run beside those of the study's longer runs of a larger network."""
    rows = []
    for name in sorted(FLOWS_PER_RUN.keys() & frames.keys()):
        values = _study(directory / name).set_
        factor = parse_time(OWN_DURATION) / parse_time(values["duration"]) / values["mesonet.scale"]
        for what, column, published in (
            ("flows completed", "T.y4", FLOWS_PER_RUN[name]),
            ("data packets sent", "T.y1", PACKETS_PER_RUN[name]),
        ):
            measured = factor * frames[name][column]
            for which in ("least", "mean", "greatest"):
                here = {
                    "least": measured.min(),
                    "mean": measured.mean(),
                    "greatest": measured.max(),
                }
                rows.append(
                    {
                        "experiment": name,
                        "of a run": f"{what}, {which}",
                        "published": f"{getattr(published, which) / 1e6:,.1f} million",
                        "here, scaled up": f"{here[which] / 1e6:,.1f} million",
                        "ratio": round(here[which] / getattr(published, which), 2),
                    }
                )
    if not rows:
        return []
    text = "Scaled up by the lengths of the runs and the scale of the network, a run here is this:"
    return [text, _table(pd.DataFrame(rows).set_index("experiment"))]


def _picture(name: str) -> str:
    kind = name if name in CAPTIONS else name.rpartition("-")[0]
    experiment = name.removeprefix(kind).removeprefix("-")
    caption = f"{CAPTIONS[kind]}, experiment {experiment}" if experiment else CAPTIONS[kind]
    return f"**{caption}**\n\n![{name}](_static/nist-{name}.png)"


def _details(finding: Finding) -> str:
    """Numbers and reasons as a list."""
    lines = [f"**{finding.id}: {finding.verdict}**", ""]
    lines += [f"- {number}" for number in finding.number.split("; ") if number]
    lines += [f"- *{reason}*" for reason in finding.reason.split("; ") if reason]
    return "\n".join(lines)


def _table(table: pd.DataFrame) -> str:
    names = [*filter(None, table.index.names), *table.columns]
    lines = ["| " + " | ".join(row) + " |" for row in (map(str, names), ["---"] * len(names))]
    for row in table.reset_index(drop=table.index.names == [None]).itertuples(index=False):
        lines.append("| " + " | ".join(cell(_written(value)) for value in row) + " |")
    return "\n".join(lines)


def _written(value: object) -> str:
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:.4g}"
    return str(value)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
