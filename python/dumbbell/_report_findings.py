"""Sentences that say what a run, or a comparison of runs, came to. Every number is from the
results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dumbbell._plots_compare import CompareRow
from dumbbell._plots_data import flow_labels, number

# Below this ratio between the highest and the lowest mean a setting is said to make no difference.
_NOTABLE_RATIO = 1.1
_MOST_NAMED_FLOWS = 4


def run_findings(summary: Mapping[str, Any]) -> list[str]:
    """Say of one run who got what, how full the first link was and how long its packets waited."""
    sentences = []
    flows = summary.get("flows") or []
    total = sum(flow["goodput_bps"] for flow in flows)
    labels = flow_labels(summary)
    if flows and total > 0:
        if len(flows) == 1:
            name = labels[str(flows[0]["id"])]
            sentences.append(f"{name} carried {_rate(total)}.")
        elif len(flows) <= _MOST_NAMED_FLOWS:
            shares = _listed(
                [
                    f"{labels[str(flow['id'])]} {100 * flow['goodput_bps'] / total:.0f} %"
                    for flow in sorted(flows, key=lambda flow: -flow["goodput_bps"])
                ]
            )
            sentences.append(f"Of {_rate(total)} goodput, {shares}{_jain(summary)}.")
        else:
            sentences.append(f"{len(flows)} flows shared {_rate(total)}{_jain(summary)}.")
    links = summary.get("links") or []
    if links:
        link = links[0]
        delay = link.get("queue_delay_ms") or {}
        sentence = f"The link {link['id']} was used to {100 * link['utilisation']:.1f} %"
        if delay.get("p95") is not None:
            sentence += (
                f"; half of its packets waited more than {number(delay.get('p50'))} ms, "
                f"one in twenty more than {number(delay['p95'])} ms"
            )
        sentences.append(sentence + ".")
    if not (summary.get("totals") or {}).get("complete", True):
        sentences.append("The run was interrupted: the numbers cover what was simulated.")
    return sentences


def comparison_findings(rows: Sequence[CompareRow]) -> list[str]:
    """Say what keeps the delay, what fills the link and who gets which share."""
    runs = sum(len(row.results) for row in rows)
    sentences = [f"{runs} runs in {len(rows)} cells."] if runs != len(rows) else []
    sentences += _strongest_factor(rows, "queue_delay_p95_ms", "The p95 queueing delay", "ms")
    sentences += _range(rows, "utilisation_percent", "Utilisation", " %", 0.5)
    sentences += _range(rows, "jain", "The Jain index", "", 0.01)
    sentences += _shares(rows)
    return sentences


def _strongest_factor(rows: Sequence[CompareRow], key: str, name: str, unit: str) -> list[str]:
    best: tuple[float, str, dict[str, float]] | None = None
    for factor in rows[0].factors if rows else []:
        levels: dict[str, list[float]] = {}
        for row in rows:
            if key in row.metrics:
                levels.setdefault(row.factors[factor], []).append(row.metrics[key])
        means = {level: float(np.mean(values)) for level, values in levels.items()}
        if len(means) < 2:
            continue
        lowest, highest = min(means.values()), max(means.values())
        ratio = highest / lowest if lowest > 0 else np.inf if highest > 0 else 1.0
        if best is None or ratio > best[0]:
            best = ratio, factor, means
    if best is None:
        return []
    ratio, factor, means = best
    low, high = (
        min(means, key=lambda level: means[level]),
        max(means, key=lambda level: means[level]),
    )
    if ratio < _NOTABLE_RATIO:
        return [f"{name} hardly depends on what was varied (about {number(means[low])} {unit})."]
    averaged = ", averaged over the rest" if len(rows) > len(means) else ""
    times = f", {number(ratio, 2)} times as much" if np.isfinite(ratio) else ""
    return [
        f"{name} depends most on {factor}: {low} keeps it at {number(means[low])} {unit}, {high} "
        f"lets it reach {number(means[high])} {unit}{times}{averaged}."
    ]


def _range(rows: Sequence[CompareRow], key: str, name: str, unit: str, notable: float) -> list[str]:
    known = [row for row in rows if key in row.metrics]
    if len(known) < 2:
        return []
    low, high = (choose(known, key=lambda row: row.metrics[key]) for choose in (min, max))
    a, b = low.metrics[key], high.metrics[key]
    if b - a < notable:
        about = "" if a == b else "about "
        return [f"{name} is {about}{number(b)}{unit} everywhere."]
    return [
        f"{name} lies between {number(a)}{unit} ({low.label}) and {number(b)}{unit} ({high.label})."
    ]


def _shares(rows: Sequence[CompareRow]) -> list[str]:
    mixed = [row for row in rows if len(row.shares) > 1]
    if not mixed:
        return []

    def imbalance(row: CompareRow) -> float:
        return max(row.shares.values()) - min(row.shares.values())

    worst, best = max(mixed, key=imbalance), min(mixed, key=imbalance)
    if imbalance(worst) - imbalance(best) < 0.02:
        return [
            f"Goodput is shared alike in all cells with several controllers: {_share_list(best)}."
        ]
    return [
        f"Goodput is shared least equally with {worst.label}: {_share_list(worst)}; most equally "
        f"with {best.label}: {_share_list(best)}."
    ]


def _share_list(row: CompareRow) -> str:
    ordered = sorted(row.shares.items(), key=lambda item: -item[1])
    return _listed([f"{cc} {100 * share:.0f} %" for cc, share in ordered])


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _rate(bps: float) -> str:
    for scale, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s")):
        if bps >= scale:
            return f"{number(bps / scale)} {unit}"
    return f"{number(bps / 1e3)} kbit/s"


def _jain(summary: Mapping[str, Any]) -> str:
    jain = (summary.get("totals") or {}).get("jain")
    return f" (Jain index {number(jain)})" if jain is not None else ""
