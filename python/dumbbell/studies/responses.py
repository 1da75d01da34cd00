"""What a study measures of each run: values of the summary, and the metrics of RFC 5166.

A response is the name of a metric (`dumbbell list metrics`), or an expression: a path into the
summary, such as `links.bottleneck.utilisation` or `flows[0].rtt_ms.p95`. Items of a list are chosen
by index, by id, or by a pattern of ids (`flows.cubic-*.goodput_bps`) after one of `sum`, `mean`,
`median`, `min`, `max` and `count`. What is null, or what a pattern finds nowhere, is NaN.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from dumbbell._errors import UsageError, show_value, suggest
from dumbbell._results import Result
from dumbbell._scenario import split_key
from dumbbell.studies.metrics import METRICS

ALL = "all"
"""The scenario's own responses if it has any, else all metrics."""
_OWN = (ALL, "*")

_AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum,
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
    "count": len,
}


@dataclass(frozen=True, slots=True)
class Response:
    """A response by name: an expression, a metric, or ("all", "*") whatever there is."""

    name: str
    expression: str


def parse_responses(spec: str | Sequence[str] | Mapping[str, str]) -> tuple[Response, ...]:
    """Responses of a study file: a text, a list, or a table of names. Raises UsageError."""
    if isinstance(spec, Mapping):
        pairs = list(spec.items())
    else:
        pairs = [(text, text) for text in ([spec] if isinstance(spec, str) else spec)]
    found = []
    for name, text in pairs:
        words = text.split()
        single = len(words) == 1
        if single and text not in _OWN and text not in METRICS and not _is_path(text):
            raise UsageError(
                f"{show_value(text)}: expected a metric or a path into the summary"
                f"{suggest(text, METRICS)}"
            )
        if not single and (len(words) != 2 or words[0] not in _AGGREGATES):
            raise UsageError(
                f"{show_value(text)}: expected one of {', '.join(_AGGREGATES)} and a path"
            )
        found.append(Response(name, text))
    if not found:
        raise UsageError("expected at least one response")
    return tuple(found)


def extract(result: Result, responses: Sequence[Response]) -> dict[str, float]:
    """The responses of a run by name. Raises UsageError where a path leads nowhere."""
    values: dict[str, float] = {}
    for response in responses:
        if response.expression in _OWN:
            values |= _own(result)
        elif response.expression in METRICS:
            values[response.name] = float(METRICS[response.expression].of(result))
        else:
            values[response.name] = evaluate(result.summary, response.expression)
    return values


def evaluate(summary: Mapping[str, Any], expression: str) -> float:
    """The value of an expression. Raises UsageError."""
    *aggregate, path = expression.split()
    found = list(_values(summary, split_key(path), path))
    if aggregate:
        numbers = [value for value in found if not math.isnan(value)]
        if not numbers and aggregate[0] not in ("sum", "count"):
            return math.nan
        return float(_AGGREGATES[aggregate[0]](numbers))
    if len(found) > 1:
        raise UsageError(
            f"{path}: {len(found)} values; expected one of {', '.join(_AGGREGATES)} before it"
        )
    return found[0] if found else math.nan


def _is_path(text: str) -> bool:
    return "." in text or "[" in text


def _own(result: Result) -> dict[str, float]:
    own = result.summary.get("responses")
    if own is not None:
        return {name: math.nan if v is None else float(v) for name, v in own.items()}
    return {name: float(metric.of(result)) for name, metric in METRICS.items()}


def _values(node: Any, parts: Sequence[str | int], path: str) -> Iterator[float]:
    if not parts:
        if node is not None and not isinstance(node, int | float):
            raise UsageError(f"{path}: expected a number there")
        yield math.nan if node is None else float(node)
        return
    part, *rest = parts
    if isinstance(node, list):
        names = [str(item.get("id")) if isinstance(item, dict) else "" for item in node]
        if isinstance(part, int):
            if part >= len(node):
                raise UsageError(f"{path}: there are only {len(node)} in the list")
            chosen = [node[part]]
        else:
            chosen = [
                item for item, name in zip(node, names, strict=True) if fnmatchcase(name, part)
            ]
            if not chosen and not any(c in part for c in "*?["):
                raise UsageError(f'{path}: there is no "{part}"{suggest(part, names)}')
        for item in chosen:
            yield from _values(item, rest, path)
    elif isinstance(node, dict):
        if str(part) not in node:
            raise UsageError(f'{path}: there is no "{part}"{suggest(str(part), map(str, node))}')
        yield from _values(node[str(part)], rest, path)
    elif node is None:
        yield math.nan
    else:
        raise UsageError(f'{path}: there is no "{part}"')
