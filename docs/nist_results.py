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
from dumbbell.mesonet.published import FLOWS_PER_RUN, PACKETS_PER_RUN
from dumbbell.studies import Study, frame

HERE = Path(__file__).parent
FIGURES = HERE / "_static"
TABLES = HERE / "nist"
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
    parts += ["## Findings", _table(findings.summary_table(experiments.judge(directory)))]
    parts += ["## Numbers", _table(findings.numbers(frames))]
    for name, figure in findings.figures(frames).items():
        save_figure(figure, FIGURES / f"nist-{name}.png")
        parts.append(f"![{name.replace('-', ' ')}](_static/nist-{name}.png)")
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
        values = Study.load(directory / f"{name}.toml").set_
        rows.append(
            {
                "experiment": name,
                "scale": values["mesonet.scale"],
                "a run": values["duration"],
                "runs": len(runs),
                "failed": int(runs["error"].notna().sum()),
                "processor hours": round(runs["seconds"].sum() / 3600, 2),
            }
        )
    return _table(pd.DataFrame(rows).set_index("experiment"))


def _sizes(directory: Path, frames: dict[str, pd.DataFrame]) -> list[str]:
    """Flows and packets of a run beside those of the study's longer runs of a larger network."""
    rows = []
    for name in sorted(FLOWS_PER_RUN.keys() & frames.keys()):
        values = Study.load(directory / f"{name}.toml").set_
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
