"""One HTML file that holds a run or a comparison: text, tables, figures, scenario.

It opens from disk without a network: plotly.js is inside, once, and a content security policy
forbids loading anything. Without JavaScript the sentences and tables remain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dumbbell._errors import MissingExtraError, UsageError
from dumbbell._plots_compare import (
    CompareRow,
    Metric,
    compare_rows,
    grid,
    matrix,
    metrics_of,
)
from dumbbell._plots_data import ResultLike, flow_labels, number
from dumbbell._plots_media import media_panels
from dumbbell._plots_panels import (
    cdf_panels,
    completion_panel,
    flow_styles,
    time_panels,
    warmup_s,
)
from dumbbell._report_findings import comparison_findings, run_findings
from dumbbell._report_plotly import (
    Figure,
    panel_figure,
    share_figure,
    time_figure,
    tradeoff_figure,
)

# Columns of pixels that time series are decimated to: of one run, and of each of many.
_PIXELS_ONE, _PIXELS_MANY = 900, 300


@dataclass(frozen=True)
class Plot:
    """A figure, its title and how to read each of its parts (name, sentence)."""

    title: str
    figure: Figure
    reading: list[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """`rows` are texts; `colours` the background of each cell ("" for none)."""

    head: list[str]
    rows: list[list[str]]
    colours: list[list[str]]
    caption: str = ""


@dataclass(frozen=True)
class Run:
    """One run as the template shows it."""

    label: str
    facts: list[tuple[str, str]]
    findings: list[str]
    tables: list[Table]
    plots: list[Plot]
    scenario: str


def write_report(
    path: str | Path,
    results: Sequence[ResultLike] | ResultLike,
    *,
    title: str | None = None,
    labels: Sequence[Mapping[str, Any]] | None = None,
) -> Path:
    """Write a report of one result or of several, compared.

    `labels` names what tells the results apart, one mapping of factor to value for each; without it
    the report takes what differs in the scenarios. Raises UsageError, MissingExtraError.
    """
    path = Path(path)
    many = list(results) if isinstance(results, Sequence) else [results]
    if not many:
        raise UsageError("a report needs at least one result")
    plotly_js = _plotly_js()
    template = environment().get_template("report.html")
    context = _one(many[0]) if len(many) == 1 else _comparison(many, labels)
    if title is not None:
        context["title"] = title
    text = template.render(plotly_js=plotly_js, figure_json=_figure_json, **context)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def environment() -> Any:
    """Where the pages' templates are. Raises MissingExtraError."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingExtraError("writing a report", "report") from None
    return Environment(
        loader=PackageLoader("dumbbell", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _plotly_js() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingExtraError("writing a report", "report") from None
    text: str = get_plotlyjs()
    return text


def _figure_json(figure: Figure) -> str:
    """JSON that may stand in a script element, whatever names the user chose."""
    text = json.dumps(figure, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _one(result: ResultLike) -> dict[str, Any]:
    run = _run(result, "", _PIXELS_ONE)
    title = str((result.summary.get("scenario") or {}).get("title") or "A run of dumbbell")
    return {"title": title, "findings": run.findings, "runs": [run], "comparison": None}


def _comparison(
    results: Sequence[ResultLike], labels: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    rows = compare_rows(results, labels)
    cell_of = {index: row for row in rows for index in row.results}
    runs = []
    for index, result in enumerate(results):
        row = cell_of[index]
        label = row.label or "run"
        if len(row.results) > 1:
            label += f", seed {result.summary.get('seed')}"
        runs.append(_run(result, label, _PIXELS_MANY))
    varied = " and ".join(rows[0].factors) or "seeds"
    plots = []
    tradeoff = tradeoff_figure(rows)
    if tradeoff:
        reading = (
            "One point a cell. Up is a fuller link, left is a shorter queue: the upper left corner "
            "is where one wants to be."
        )
        plots.append(Plot("Utilisation against delay", tradeoff, [("", reading)]))
    shares = share_figure(rows)
    if shares:
        reading = "Who gets how much of the goodput. Equal flows would get equal lengths."
        plots.append(Plot("Shares of goodput", shares, [("", reading)]))
    return {
        "title": f"Comparison of {len(results)} runs: {varied}",
        "findings": comparison_findings(rows),
        "runs": runs,
        "comparison": {
            "factors": len(rows[0].factors),
            "overview": _overview(rows),
            "heat_maps": _heat_maps(rows),
            "plots": plots,
        },
    }


def _run(result: ResultLike, label: str, pixels: int) -> Run:
    summary = result.summary
    plots = []
    over_time = [*time_panels(result), *media_panels(result, flow_styles(summary))]
    if over_time:
        reading = [(panel.title, panel.reading) for panel in over_time]
        warmup = warmup_s(summary)
        if warmup:
            reading.append(("Grey", "The warm-up, which the tables leave out."))
        plots.append(Plot("Over time", time_figure(over_time, warmup, pixels), reading))
    rest = [*cdf_panels(result), completion_panel(result)]
    plots += [
        Plot(panel.title, panel_figure(panel, pixels), [("", panel.reading)])
        for panel in rest
        if panel is not None
    ]
    return Run(
        label=label,
        facts=_facts(summary),
        findings=run_findings(summary),
        tables=[table for table in _tables(summary) if table.rows],
        plots=plots,
        scenario=_scenario_toml(summary),
    )


def _facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    totals = summary.get("totals") or {}
    facts = [
        ("seed", str(summary.get("seed", "-"))),
        ("backend", str(summary.get("backend", "-"))),
        ("dumbbell", str(summary.get("version", "-"))),
    ]
    for key, name, unit in (
        ("simulated_s", "simulated", " s"),
        ("wall_s", "took", " s"),
        ("packets", "packets", ""),
        ("events", "events", ""),
    ):
        if totals.get(key) is not None:
            facts.append((name, number(totals[key]) + unit))
    return facts


def _tables(summary: Mapping[str, Any]) -> list[Table]:
    labels = flow_labels(summary)
    flows = [
        [
            labels[str(flow["id"])],
            number(flow["goodput_bps"] / 1e6),
            *_quantiles(flow.get("rtt_ms")),
            _percent(flow.get("loss_ratio")),
            _percent(flow.get("mark_ratio")),
            _count(flow.get("retransmits")),
            number(flow.get("completion_s")),
        ]
        for flow in summary.get("flows") or []
    ]
    media = [
        [
            labels[str(flow["id"])],
            _count(own["frames"]),
            _count(own["lost_frames"]),
            number(own["media_rate_bps"] / 1e6),
            *_quantiles(own["frame_delay_ms"]),
            _count(own["freezes"]),
            number(own["freeze_s"]),
        ]
        for flow in summary.get("flows") or []
        if (own := flow.get("media"))
    ]
    links = [
        [
            str(link["id"]),
            _percent(link.get("utilisation")),
            *_quantiles(link.get("queue_delay_ms")),
            number((link.get("queue_delay_ms") or {}).get("max")),
            _count(link.get("packets")),
            _count(link.get("drops")),
            _count(link.get("marks")),
        ]
        for link in summary.get("links") or []
    ]
    probes = [
        [str(probe["id"]), *_quantiles(probe.get("rtt_ms")), _count(probe.get("lost"))]
        for probe in summary.get("probes") or []
    ]
    rtt = ["RTT mean (ms)", "p50", "p95", "p99"]
    delay = ["queueing delay mean (ms)", "p50", "p95", "p99", "max"]
    return [
        _plain(
            "Flows",
            [
                "flow",
                "goodput (Mbit/s)",
                *rtt,
                "lost (%)",
                "marked (%)",
                "retransmits",
                "completion (s)",
            ],
            flows,
        ),
        _plain(
            "Media",
            [
                "flow",
                "frames",
                "lost",
                "media rate (Mbit/s)",
                "frame delay mean (ms)",
                "p50",
                "p95",
                "p99",
                "freezes",
                "frozen (s)",
            ],
            media,
        ),
        _plain("Links", ["link", "used (%)", *delay, "packets", "drops", "marks"], links),
        _plain("Probes", ["probe", "delay mean (ms)", "p50", "p95", "p99", "lost"], probes),
    ]


def _plain(caption: str, head: list[str], rows: list[list[str]]) -> Table:
    """A table without colours and without the columns that hold nothing."""
    used = [i for i in range(len(head)) if i == 0 or any(row[i] != "-" for row in rows)]
    return Table(
        head=[head[i] for i in used],
        rows=[[row[i] for i in used] for row in rows],
        colours=[["" for _ in used] for _ in rows],
        caption=caption,
    )


def _quantiles(values: Mapping[str, Any] | None) -> list[str]:
    return [number((values or {}).get(key)) for key in ("mean", "p50", "p95", "p99")]


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else number(100 * ratio)


def _count(value: int | None) -> str:
    return "-" if value is None else f"{int(value):,}".replace(",", "\u2009")


def _overview(rows: Sequence[CompareRow]) -> Table:
    metrics = metrics_of(rows)
    factors = list(rows[0].factors)
    controllers = list(dict.fromkeys(cc for row in rows for cc in row.shares))
    show_shares = any(len(row.shares) > 1 for row in rows)
    head = factors + [metric.label for metric in metrics]
    head += [f"{cc} share (%)" for cc in controllers] if show_shares else []
    several = any(len(row.results) > 1 for row in rows)
    head += ["runs"] if several else []
    texts, colours = [], []
    scales = {
        metric.key: _Scale(metric, [row.metrics.get(metric.key, np.nan) for row in rows])
        for metric in metrics
    }
    for row in rows:
        cells = [row.factors[name] for name in factors]
        cells += [number(row.metrics.get(metric.key)) for metric in metrics]
        shading = [""] * len(factors)
        shading += [
            scales[metric.key].colour(row.metrics.get(metric.key, np.nan)) for metric in metrics
        ]
        if show_shares:
            cells += [
                f"{100 * row.shares[cc]:.1f}" if cc in row.shares else "" for cc in controllers
            ]
        cells += [str(len(row.results))] if several else []
        texts.append(cells)
        colours.append(shading + [""] * (len(cells) - len(shading)))
    return Table(head, texts, colours)


def _heat_maps(rows: Sequence[CompareRow]) -> list[Table]:
    sides = grid(rows)
    if sides is None:
        return []
    down, down_values, across, across_values = sides
    tables = []
    for metric in metrics_of(rows)[:3]:
        values = matrix(rows, metric.key)
        scale = _Scale(metric, values.ravel().tolist())
        tables.append(
            Table(
                head=[f"{down} \\ {across}", *across_values],
                rows=[
                    [name, *map(number, line.tolist())]
                    for name, line in zip(down_values, values, strict=True)
                ],
                colours=[["", *map(scale.colour, line.tolist())] for line in values],
                caption=metric.label,
            )
        )
    return tables


class _Scale:
    """Background colours from white (best) to orange (worst)."""

    _WORST = (0xF0, 0x9A, 0x4A)

    def __init__(self, metric: Metric, values: Sequence[float]) -> None:
        self._low, self._high, self._log = metric.colour_range(values)
        self._flip = metric.higher_is_better

    def colour(self, value: float) -> str:
        if not np.isfinite(value):
            return ""
        ends = np.array([self._low, self._high, value])
        low, high, at = np.log(ends) if self._log else ends
        badness = (at - low) / (high - low)
        if self._flip:
            badness = 1 - badness
        red, green, blue = (round(255 + (channel - 255) * badness) for channel in self._WORST)
        return f"#{red:02x}{green:02x}{blue:02x}"


def _scenario_toml(summary: Mapping[str, Any]) -> str:
    import tomlkit

    scenario = _without_none(summary.get("scenario") or {})
    if summary.get("seed") is not None:
        scenario["seed"] = summary["seed"]
    text: str = tomlkit.dumps(scenario)
    return text


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_without_none(inner) for inner in value if inner is not None]
    return value
