"""Write the comparison with the kernel: a table, a page and figures.

    python -m dumbbell._validation_report REFERENCE DOCS

REFERENCE holds kernel.json.gz and known-misses.toml; DOCS is where validation.md and
_static/validation go. Exit status 1 if a measure misses that is not listed as a known miss, or a
known miss is none any more.
"""

from __future__ import annotations

import datetime
import io
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import dumbbell
from dumbbell import _validation as validation
from dumbbell._plots import figure
from dumbbell._plots_data import number
from dumbbell._validation import Cell, Reference, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KERNEL_COLOUR = "#000000"
OURS_COLOUR = "#E69F00"
FLOW_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
COLUMNS = 3
PANEL_IN = (2.9, 1.75)
DPI = 110
FIGURES = {
    "single": ("^a_|^h_buffer(0.25|2)", (0, 60), "Congestion window of one flow"),
    "competing": ("^[bcfi]_(?!.*resolved)", (0, 60), "Congestion windows of two flows"),
    "loss": ("^d_", (20, 40), "Congestion window of one flow with random loss"),
    "queues": ("^e_", (20, 30), "Congestion windows of four CUBIC flows behind each queue"),
}
"""Cells, seconds that are shown, and title."""
UNITS = {"goodput": "Mbit/s", "share": "Mbit/s", "delay": "ms", "count": "packets"}
Known = Mapping[tuple[str, str], str]


def verdict(row: Row, known: Known) -> str:
    """A row's verdict in a word."""
    if row.within:
        return "within"
    return "known miss" if (row.cell, row.measure) in known else "MISS"


def deviation(row: Row) -> str:
    """How far off: percent, or milliseconds or packets where those decide."""
    difference = row.ours.mean - row.kernel.mean
    if row.criterion == "delay":
        return f"{difference:+.2f} ms"
    if row.criterion == "count" and abs(difference) < validation.FEW_PACKETS:
        return f"{difference:+.1f}"
    return f"{100 * row.error:+.1f} %"


def spread(sample: validation.Sample) -> str:
    """Mean ± standard deviation."""
    mean = number(sample.mean, 4) if abs(sample.mean) >= 0.1 else f"{sample.mean:.3f}"
    if sample.runs == 1:
        return mean
    places = len(mean.partition(".")[2])
    return f"{mean} ± {sample.deviation:.{places}f}"


def counts(cell: Cell) -> str:
    """How often both sides ran."""
    return f"{len(cell.kernel)} and {len(cell.ours)}"


def describe(spec: Mapping[str, Any]) -> str:
    """A cell's specification in words."""
    qdisc = spec["qdisc"]
    limit = f" of {qdisc['bdp']:g} BDP" if "bdp" in qdisc else ""
    flows = " + ".join(
        flow["cc"] + (f" ({flow['rtt_ms']} ms)" if "rtt_ms" in flow else "")
        for flow in spec["flows"]
    )
    extras = [f"{spec['loss']:.1%} random loss"] if "loss" in spec else []
    extras += ["ECN"] if qdisc.get("ecn") else []
    extras += ["addresses resolved"] if spec.get("resolved") else []
    starts = [flow["start"] for flow in spec["flows"]]
    if max(starts) >= 1:
        extras.append(f"last starts at {max(starts):g} s")
    return ", ".join([flows, qdisc["kind"] + limit, *extras])


def print_table(cells: Sequence[Cell], known: Known, console: Console) -> None:
    """All rows."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("cell, measure", "Linux", "dumbbell", "difference", ""):
        justify: Literal["right", "left"] = "right" if heading == "difference" else "left"
        table.add_column(heading, justify=justify, no_wrap=True)
    for cell in cells:
        table.add_row(cell.name, style="bold")
        for row in cell.rows:
            judged = verdict(row, known)
            style = None if row.within else "yellow" if judged == "known miss" else "red"
            values = (spread(row.kernel), spread(row.ours), deviation(row), judged)
            table.add_row(f"  {row.measure}", *values, style=style)
    console.print(table)


def draw(cells: Sequence[Cell], span_s: tuple[int, int], title: str) -> Figure:
    """Small multiples of congestion windows; one cell a panel."""
    rows = -(-len(cells) // COLUMNS)
    made, axes = figure(rows, COLUMNS, (COLUMNS * PANEL_IN[0], rows * PANEL_IN[1] + 0.6))
    for panel, axis in enumerate(axes.flat):
        if panel < len(cells):
            _windows(axis, cells[panel])
            axis.set_xlim(*span_s)
            axis.set_ylabel("cwnd (segments)" if panel % COLUMNS == 0 else "", fontsize=8.5)
            axis.set_xlabel("time (s)" if panel + COLUMNS >= len(cells) else "", fontsize=8.5)
        else:
            axis.set_visible(False)
    _legend(made, max(len(cell.ours[0].cwnd) for cell in cells))
    made.suptitle(title, fontsize=10)
    return made


def _windows(axis: Axes, cell: Cell) -> None:
    kernel, ours = cell.kernel[0], cell.ours[0]
    alone = len(ours.cwnd) == 1
    for i, (theirs, mine) in enumerate(zip(kernel.flows, ours.cwnd, strict=True)):
        colour = OURS_COLOUR if alone else FLOW_COLOURS[i]
        axis.plot(ours.t, mine, color=colour, linewidth=1.6, alpha=0.8)
        axis.plot(
            theirs["t"],
            theirs["cwnd"],
            color=KERNEL_COLOUR if alone else colour,
            linewidth=0.8,
            linestyle=(0, (3, 1.5)),
        )
    # The overshoot of the first slow start would flatten the rest.
    begin = kernel.summary["window_s"][0] - 5
    late = [
        np.nanmax(np.asarray(values)[np.asarray(t) > begin], initial=0)
        for run_t, flows in (
            (ours.t, ours.cwnd),
            (kernel.flows[0]["t"], [flow["cwnd"] for flow in kernel.flows]),
        )
        for t, values in ((run_t[: len(v)], v[: len(run_t)]) for v in flows)
    ]
    axis.set_ylim(0, 1.15 * float(max(late)))
    axis.set_title(cell.name[2:].replace("_", " "), fontsize=9)


def _legend(made: Figure, flows: int) -> None:
    from matplotlib.lines import Line2D

    alone = flows == 1
    colour = OURS_COLOUR if alone else "#555555"
    handles = [
        Line2D([], [], color=colour, linewidth=1.6, label="dumbbell"),
        Line2D(
            [],
            [],
            color=KERNEL_COLOUR if alone else colour,
            linewidth=0.8,
            linestyle=(0, (3, 1.5)),
            label="Linux",
        ),
    ]
    if not alone:
        handles += [
            Line2D([], [], color=FLOW_COLOURS[i], linewidth=1.6, label=f"flow {i + 1}")
            for i in range(flows)
        ]
    made.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8
    )


def draw_shares(cells: Sequence[Cell]) -> Figure:
    """Share of the first of two flows over time: mean and range over the runs."""
    rows = -(-len(cells) // COLUMNS)
    made, axes = figure(rows, COLUMNS, (COLUMNS * PANEL_IN[0], rows * PANEL_IN[1] + 0.6))
    for panel, axis in enumerate(axes.flat):
        if panel >= len(cells):
            axis.set_visible(False)
            continue
        cell = cells[panel]
        theirs = [[f["goodput_mbit_1s"] for f in one.flows] for one in cell.kernel
                  if "goodput_mbit_1s" in one.flows[0]]  # fmt: skip
        ours = [one.goodput_mbit_1s for one in cell.ours]
        for label, runs, colour in (("Linux", theirs, "#000000"), ("dumbbell", ours, "#E69F00")):
            share = np.asarray([_share(run) for run in runs])
            t = np.arange(share.shape[1]) + _SMOOTH_S / 2
            axis.fill_between(
                t, share.min(axis=0), share.max(axis=0), color=colour, alpha=0.18, linewidth=0
            )
            axis.plot(t, share.mean(axis=0), color=colour, linewidth=1.4, label=label)
        axis.set_ylim(0, 1)
        axis.set_xlim(0, 60)
        axis.set_title(cell.name[2:].replace("_", " "), fontsize=9)
        axis.set_ylabel("share of flow 1" if panel % COLUMNS == 0 else "", fontsize=8.5)
        axis.set_xlabel("time (s)" if panel + COLUMNS >= len(cells) else "", fontsize=8.5)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    made.suptitle("Share of the first flow (5 s means): mean and range over runs", fontsize=10)
    return made


_SMOOTH_S = 5


def _share(flows: Sequence[Sequence[float]]) -> np.ndarray[Any, Any]:
    length = 59
    kernel = np.ones(_SMOOTH_S) / _SMOOTH_S
    first, second = (np.convolve(np.asarray(f[:length]), kernel, "valid") for f in flows)
    return np.asarray(first / np.maximum(first + second, 1e-9))


def page(cells: Sequence[Cell], reference: Reference, known: Known) -> str:
    """docs/validation.md."""
    rows = [row for cell in cells for row in cell.rows]
    missing = [row for row in rows if not row.within]
    clean = sum(all(row.within for row in cell.rows) for cell in cells)
    runs = [one for cell in cells for one in cell.kernel]
    repeats = sum(one.origin == "repeat" for one in runs)
    day = datetime.datetime.now(datetime.UTC).date()
    lines = [
        "# Validation against Linux",
        "",
        f"Made by `make validate` on {day} with dumbbell {dumbbell.__version__}; Linux "
        f"{reference.kernel}, the real kernel in virtual time.",
        "",
        f"**{clean} of {len(cells)} cells are within all tolerances; {len(rows) - len(missing)} of "
        f"{len(rows)} measures are.** Linux ran {len(runs)} times ({repeats} of them repeats made "
        f"for this comparison), dumbbell {sum(len(cell.ours) for cell in cells)} times.",
        "",
        _goodput_errors(cells),
        "",
        "## How it is compared",
        "",
        _METHOD.format(v=validation),
        "## Misses",
        "",
        *_misses(missing, known),
        "## Congestion windows",
        "",
        "The first run of each cell. Where flows compete, trajectories cannot coincide for long; "
        "nor do those of two runs of the kernel that start a few milliseconds apart.",
        "",
    ]
    for name, (*_, title) in FIGURES.items():
        lines += [f"![{title}](_static/validation/{name}.png)", ""]
    lines += [
        "## Fairness over time",
        "",
        "![Share of the first flow](_static/validation/shares.png)",
        "",
        "## All cells",
        "",
        "Mean ± standard deviation. The last column is the difference in standard errors of "
        "the two means, where both sides have several runs.",
        "",
    ]
    for cell in cells:
        lines += [
            f"### {cell.name}",
            "",
            f"{describe(cell.kernel[0].spec)}. Linux and dumbbell ran {counts(cell)} times.",
            "",
            "| measure | unit | Linux | dumbbell | difference | verdict | s.e. |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in cell.rows:
            errors = row.standard_errors
            lines.append(
                f"| {row.measure} | {UNITS[row.criterion]} | {spread(row.kernel)} | "
                f"{spread(row.ours)} | {deviation(row)} | {verdict(row, known)} | "
                f"{'' if errors is None else f'{errors:.1f}'} |"
            )
        lines.append("")
    return "\n".join(lines)


_METHOD = """\
A cell is one specification: 50 Mbit/s (frames of 1514 bytes, through an htb shaper or CAKE's own),
40 ms, 60 s unless its line says otherwise. Both sides run it over the same window and with the same
measures.

| measure | within if |
|---|---|
| goodput, of all flows together | it differs by at most {v.GOODPUT_LIMIT:.0%} |
| goodput 1, 2, ..., of each flow where several compete | it differs by at most \
{v.SHARE_LIMIT:.0%} |
| queue delay: mean backlog / rate, sampled every 50 ms | it differs by at most \
{v.DELAY_LIMIT_MS:g} ms or {v.DELAY_LIMIT:.0%} |
| probe delay: mean queueing of a packet every 20 ms | the same |
| drops, marks, retransmissions, in the window | the larger is at most {v.RATIO_LIMIT:g} times the \
smaller, or they differ by fewer than {v.FEW_PACKETS} packets |

One loss-based flow is deterministic: one run each. Random loss, BBR's phase and flows that share a
queue are random or chaotic: a start that moves by 37 ms moves shares by several Mbit/s. There the
kernel ran several times, starts moved by multiples of 37 ms, and we run each of its runs equally
often, at least {v.RUNS} times in all, with other seeds and starts moved by {v.MOVE_S:g} s more each
time; means are compared.

In the reference the first packet of a flow waits for address resolution, for one round-trip time.
Our flows start that much later; the RTT that the kernel measures of its SYN is twice too large all
the same, which BBR's first pacing rate depends on. In cells named `resolved` the kernel had
exchanged a datagram with the receivers before.
"""


def _misses(missing: Sequence[Row], known: Known) -> list[str]:
    if not missing:
        return ["None.", ""]
    lines = ["| cell | measure | Linux | dumbbell | difference | s.e. | cause |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in missing:
        errors = "" if row.standard_errors is None else f"{row.standard_errors:.1f}"
        cause = known.get((row.cell, row.measure), "not known")
        lines.append(
            f"| {row.cell} | {row.measure} | {spread(row.kernel)} | {spread(row.ours)} | "
            f"{deviation(row)} | {errors} | {cause} |"
        )
    return [*lines, ""]


def _save(made: Figure, path: Path) -> None:
    """As a PNG with a palette: a third of the size."""
    from PIL import Image

    content = io.BytesIO()
    made.savefig(content, format="png", dpi=DPI)
    image = Image.open(content).convert("RGB").quantize(64, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


def _goodput_errors(cells: Sequence[Cell]) -> str:
    """The errors of goodput, of each flow where several compete, in a sentence."""
    largest, errors = [], []
    for cell in cells:
        rows = [row for row in cell.rows if row.measure.startswith("goodput")]
        flows = [abs(row.error) for row in rows if row.measure != "goodput"]
        of_cell = flows or [abs(row.error) for row in rows]
        errors += of_cell
        largest.append(max(of_cell))
    near = sum(error <= validation.SHARE_LIMIT for error in largest)
    return (
        f"Goodput of each flow: median absolute error {statistics.median(errors):.1%}; in {near} "
        f"of {len(cells)} cells no flow is off by more than {validation.SHARE_LIMIT:.0%}."
    )


def write(cells: Sequence[Cell], reference: Reference, known: Known, docs: Path) -> None:
    """The page and its figures."""
    directory = docs / "_static" / "validation"
    directory.mkdir(parents=True, exist_ok=True)
    drawn = {
        name: draw([cell for cell in cells if re.search(pattern, cell.name)], span_s, title)
        for name, (pattern, span_s, title) in FIGURES.items()
    }
    pairs = [cell for cell in cells if len(cell.kernel[0].flows) == 2]
    drawn["shares"] = draw_shares(pairs)
    for name, made in drawn.items():
        _save(made, directory / f"{name}.png")
    (docs / "validation.md").write_text(page(cells, reference, known), encoding="utf-8")


def main(reference_directory: Path, docs: Path) -> int:
    """Compare, print and write. Returns the exit status."""
    reference = validation.load_reference(reference_directory / "kernel.json.gz")
    known = validation.load_known_misses(reference_directory / "known-misses.toml")
    console = Console()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("runs", total=None)

        def progress(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        cells = list(validation.compare(reference, progress))
    print_table(cells, known, console)
    write(cells, reference, known, docs)
    missing = {(row.cell, row.measure) for cell in cells for row in cell.rows if not row.within}
    within = sum(all(row.within for row in cell.rows) for cell in cells)
    console.print(f"{within} of {len(cells)} cells within all tolerances; {docs / 'validation.md'}")
    unknown, stale = missing - known.keys(), known.keys() - missing
    for cell, measure in sorted(unknown):
        console.print(f"new miss: {cell}, {measure}")
    for cell, measure in sorted(stale):
        console.print(f"listed as a miss, but within now: {cell}, {measure}")
    return 1 if unknown or stale else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
