"""Comparisons: which settings differ between results, one cell for each combination, and a figure.

Cells come from the results' scenarios: a factor is a key whose value differs and that does not just
follow another key. Runs that differ in nothing but the seed share a cell and are averaged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from dumbbell._errors import UsageError
from dumbbell._plots import figure, save_figure
from dumbbell._plots_data import ResultLike, number
from dumbbell._plots_panels import COLOURS

_FLOW_CC = re.compile(r"flows\[\d+\]\.cc")
_NOT_FACTORS = ("title", "description", "seed", "name")
_MOST_CELLS_PER_SIDE = 16


@dataclass(frozen=True)
class Metric:
    """`span` is the least difference that colours run over, so that trifles do not look grave; that
    of goodput is a fraction of the highest.
    """

    key: str
    label: str
    higher_is_better: bool
    span: float

    def colour_range(self, values: Sequence[float]) -> tuple[float, float, bool]:
        """Lowest and highest value of the colour scale, and whether it is logarithmic.

        It is where one bad cell would make all others look alike.
        """
        known = [value for value in values if np.isfinite(value)]
        low, high = min(known), max(known)
        if low > 0 and high > 10 * low:
            return low, high, True
        span = self.span * high if self.key == "goodput_mbps" else self.span
        if self.higher_is_better:
            return min(low, high - span), high, False
        return low, max(high, low + span), False


METRICS = (
    Metric("frame_delay_p95_ms", "p95 frame delay (ms)", False, 20.0),
    Metric("queue_delay_p95_ms", "p95 queueing delay (ms)", False, 5.0),
    Metric("utilisation_percent", "utilisation (%)", True, 20.0),
    Metric("jain", "Jain fairness index (1 = equal)", True, 0.2),
    Metric("goodput_mbps", "total goodput (Mbit/s)", True, 0.2),
    Metric("loss_percent", "packets dropped (%)", False, 1.0),
)


@dataclass(frozen=True)
class CompareRow:
    """One cell: `factors` (name to value as text), `metrics` (mean over `runs`), `shares` of
    goodput by controller (sum 1), and the indexes of its results.
    """

    factors: dict[str, str]
    metrics: dict[str, float]
    shares: dict[str, float]
    results: tuple[int, ...]

    @property
    def label(self) -> str:
        return ", ".join(self.factors.values())


def compare_rows(
    results: Sequence[ResultLike], labels: Sequence[Mapping[str, Any]] | None = None
) -> list[CompareRow]:
    """Group results into cells, in the order they come.

    Cells are told apart by `labels` (for each result its factors and their values), or by what
    differs in the scenarios. Raises UsageError if there are not as many labels as results.
    """
    if labels is not None and len(labels) != len(results):
        raise UsageError(f"{len(labels)} labels for {len(results)} results: expected as many")
    if labels is not None:
        names = list(dict.fromkeys(name for label in labels for name in label))
        factors = {name: [str(label.get(name, "-")) for label in labels] for name in names}
    else:
        factors = _factors([_settings(result.summary) for result in results])
    cells: dict[tuple[str, ...], list[int]] = {}
    for index in range(len(results)):
        cells.setdefault(tuple(values[index] for values in factors.values()), []).append(index)
    return [
        CompareRow(
            factors=dict(zip(factors, values, strict=True)),
            metrics=_mean([_metrics(results[index].summary) for index in members]),
            shares=_mean([_shares(results[index].summary) for index in members]),
            results=tuple(members),
        )
        for values, members in cells.items()
    ]


def _settings(summary: Mapping[str, Any]) -> dict[str, str]:
    """Leaves of a scenario by dotted key, the controllers of all flows as the one setting `cc`."""
    leaves = dict(_leaves(summary.get("scenario") or {}))
    controllers = [leaves.pop(key) for key in list(leaves) if _FLOW_CC.fullmatch(key)]
    if not controllers:
        return leaves
    runs = [(cc, len(list(same))) for cc, same in groupby(controllers)]
    cc = runs[0][0] if len(runs) == 1 else "+".join(f"{n}x{cc}" if n > 1 else cc for cc, n in runs)
    return {"cc": cc} | leaves


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            # `queue = "fifo"` and `queue = { kind = "fifo" }` are one setting.
            yield from _leaves(inner, key if name == "kind" else f"{key}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{key}[{index}]")
    elif value is not None:
        yield key, str(value)


def _factors(settings: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    keys = list(dict.fromkeys(key for setting in settings for key in setting))
    differing = {}
    for key in keys:
        values = [setting.get(key, "-") for setting in settings]
        if key.split(".")[0] not in _NOT_FACTORS and len(set(values)) > 1:
            differing[key] = values
    # Those with most values first, so that keys that merely follow another are dropped; among
    # equals the controller and the queue, which people name their runs by.
    order = sorted(
        differing,
        key=lambda key: (-len(set(differing[key])), not _names_mechanism(key), keys.index(key)),
    )
    chosen: list[str] = []
    for key in order:
        if not any(_follows(differing[key], differing[other]) for other in chosen):
            chosen.append(key)
    chosen.sort(key=keys.index)
    names = [_short(key) for key in chosen]
    return {
        short if names.count(short) == 1 else key: differing[key]
        for key, short in zip(chosen, names, strict=True)
    }


def _names_mechanism(key: str) -> bool:
    return key.endswith(("cc", "queue"))


def _follows(values: Sequence[str], other: Sequence[str]) -> bool:
    return len(set(zip(values, other, strict=True))) == len(set(other))


def _short(key: str) -> str:
    return key.removeprefix("path.")


def _metrics(summary: Mapping[str, Any]) -> dict[str, float]:
    links, flows = summary.get("links") or [], summary.get("flows") or []
    found: dict[str, Any] = {}
    if links:
        link = links[0]
        found["queue_delay_p95_ms"] = (link.get("queue_delay_ms") or {}).get("p95")
        found["utilisation_percent"] = 100 * link["utilisation"]
        offered = link.get("packets", 0) + link.get("drops", 0)
        if offered:
            found["loss_percent"] = 100 * link.get("drops", 0) / offered
    if flows:
        found["goodput_mbps"] = sum(flow["goodput_bps"] for flow in flows) / 1e6
    delays = [(flow.get("media") or {}).get("frame_delay_ms", {}).get("p95") for flow in flows]
    found["frame_delay_p95_ms"] = max(
        (delay for delay in delays if delay is not None), default=None
    )
    if len(flows) > 1:
        found["jain"] = summary.get("totals", {}).get("jain")
    return {key: float(value) for key, value in found.items() if value is not None}


def _shares(summary: Mapping[str, Any]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for flow in summary.get("flows") or []:
        cc = str(flow.get("cc") or flow["id"])
        shares[cc] = shares.get(cc, 0.0) + float(flow["goodput_bps"])
    total = sum(shares.values())
    return {cc: rate / total for cc, rate in shares.items()} if total > 0 else {}


def _mean(dicts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    keys = dict.fromkeys(key for one in dicts for key in one)
    return {key: float(np.mean([one[key] for one in dicts if key in one])) for key in keys}


def grid(rows: Sequence[CompareRow]) -> tuple[str, list[str], str, list[str]] | None:
    """Names and values of the two factors that rows and columns of a heat map stand for.

    None unless there are just two factors with at least two values each, and few enough to read.
    """
    if not rows or len(rows[0].factors) != 2:
        return None
    down, across = rows[0].factors
    values = [list(dict.fromkeys(row.factors[name] for row in rows)) for name in (down, across)]
    if not all(2 <= len(side) <= _MOST_CELLS_PER_SIDE for side in values):
        return None
    return down, values[0], across, values[1]


def metrics_of(rows: Sequence[CompareRow]) -> list[Metric]:
    """The metrics that some row has, without those that are the same everywhere."""
    return [
        metric
        for metric in METRICS
        if len({row.metrics[metric.key] for row in rows if metric.key in row.metrics}) > 1
    ]


def matrix(rows: Sequence[CompareRow], key: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Values of a metric on the grid, (rows, columns), NaN where no run was."""
    sides = grid(rows)
    if sides is None:
        raise UsageError("a heat map needs two factors that differ")
    down, down_values, across, across_values = sides
    values = np.full((len(down_values), len(across_values)), np.nan)
    for row in rows:
        place = down_values.index(row.factors[down]), across_values.index(row.factors[across])
        values[place] = row.metrics.get(key, np.nan)
    return values


def compare_figure(rows: Sequence[CompareRow], path: str | Path) -> Path:
    """Draw heat maps where two factors differ, bars otherwise, and write them to `path`."""
    metrics = metrics_of(rows)[:3]
    if not metrics:
        raise UsageError("nothing to compare: expected at least two runs whose results differ")
    made = _heat_maps(rows, metrics) if grid(rows) else _bars(rows, metrics)
    return save_figure(made, path)


def _heat_maps(rows: Sequence[CompareRow], metrics: Sequence[Metric]) -> Any:
    sides = grid(rows)
    if sides is None:
        raise UsageError("a heat map needs two factors that differ")
    from matplotlib.colors import LogNorm, Normalize

    down, down_values, across, across_values = sides
    height = 0.9 + 0.28 * len(down_values)
    made, axes = figure(len(metrics), 1, (4.5, height * len(metrics)), sharex=True)
    for ax, metric in zip(axes[:, 0], metrics, strict=True):
        values = matrix(rows, metric.key)
        # Dark is always bad, so that the eye needs no second look at the scale.
        colours = "cividis" if metric.higher_is_better else "cividis_r"
        low, high, log = metric.colour_range(values.ravel().tolist())
        scale = LogNorm(low, high) if log else Normalize(low, high)
        image = ax.imshow(values, cmap=colours, norm=scale, aspect="auto")
        ax.grid(False)
        ax.set_xticks(range(len(across_values)), across_values)
        ax.set_yticks(range(len(down_values)), down_values)
        ax.set_title(metric.label, loc="left", fontsize=9)
        ax.set_ylabel(down)
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                red, green, blue, _ = image.cmap(image.norm(value))
                dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
                colour = "white" if dark else "black"
                ax.text(j, i, number(value), ha="center", va="center", color=colour, fontsize=8)
    axes[-1, 0].set_xlabel(across)
    if max(map(len, across_values)) * len(across_values) > 48:
        axes[-1, 0].tick_params(axis="x", rotation=30)
    return made


def _bars(rows: Sequence[CompareRow], metrics: Sequence[Metric]) -> Any:
    height = 0.7 + 0.2 * len(rows)
    made, axes = figure(len(metrics), 1, (4.5, height * len(metrics)))
    labels = [row.label or "run" for row in rows]
    for index, (ax, metric) in enumerate(zip(axes[:, 0], metrics, strict=True)):
        values = [row.metrics.get(metric.key, np.nan) for row in rows]
        ax.barh(range(len(rows)), values, color=COLOURS[index], height=0.65)
        ax.set_yticks(range(len(rows)), labels)
        ax.invert_yaxis()
        ax.grid(False, axis="y")
        ax.set_xlabel(metric.label)
        ax.margins(x=0.14)
        for place, value in enumerate(values):
            if np.isfinite(value):
                ax.text(value, place, f" {number(value)}", va="center", ha="left", fontsize=8)
    return made
