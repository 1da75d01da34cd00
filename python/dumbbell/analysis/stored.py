"""A study's directory as the analyses take it: the frame of runs, what was varied, and facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from dumbbell._errors import DumbbellError, UsageError, suggest
from dumbbell.analysis._style import listed
from dumbbell.analysis.study import Plan

if TYPE_CHECKING:
    from dumbbell.mesonet._parameters import Mesonet
    from dumbbell.studies._store import Store
    from dumbbell.studies._study import Study

_MOST_SEEDS = 4


@dataclass(frozen=True)
class StoredStudy:
    """What a study's directory holds. `facts` are names and values for the head of a report."""

    frame: pd.DataFrame
    plan: Plan
    title: str
    facts: tuple[tuple[str, str], ...]


def stored_study(
    directory: str | Path,
    *,
    algorithm: str | None = None,
    congestion: str | None = None,
    responses: Sequence[str] = (),
    focus: Sequence[str] = (),
) -> StoredStudy:
    """Read a study's directory.

    `algorithm` is the factor to be compared, `congestion` the response that orders conditions,
    `responses` those to analyse (default: all) and `focus` those to show in detail. Raises
    UsageError.
    """
    from dumbbell.studies._rows import RESERVED
    from dumbbell.studies._status import status_of
    from dumbbell.studies._store import Store

    store = Store.open(directory)
    frame = store.frame()
    factors = tuple(column.name for column in store.columns)
    measured = [name for name in frame.columns if name not in (*RESERVED, *factors)]
    if not measured:
        raise UsageError(f"{directory}: no finished run to analyse")
    for name in (*responses, *focus, *([congestion] if congestion else [])):
        if name not in measured:
            raise UsageError(f'response "{name}"{suggest(name, measured)}')
    if algorithm is not None and algorithm not in factors:
        raise UsageError(f'algorithm "{algorithm}": expected a factor{suggest(algorithm, factors)}')
    status = status_of(store)
    study = _study(store.study_file())
    facts = [
        ("runs", f"{status['done']} of {status['runs']}"),
        ("failed", str(status["failed"])),
        ("dumbbell", store.version),
        ("seeds", _seeds(frame)),
        ("factors", listed(factors, 12)),
    ]
    if study is not None:
        facts.insert(4, ("design", str(study.design.kind)))
    plan = Plan(
        factors=factors,
        responses=tuple(responses or measured),
        algorithm=algorithm,
        congestion=congestion,
        focus=tuple(focus),
    )
    if study is not None:
        plan = replace(plan, levels=_levels(study, store), order=_order(study, store))
    title = (study.title if study is not None else "") or Path(directory).resolve().name
    return StoredStudy(frame, _explained(plan, study), title, tuple(facts))


def _study(path: Path) -> Study | None:
    """The study's file; None where it can no longer be read, which analyses can do without."""
    from dumbbell.studies._study import Study

    try:
        return Study.load(path)
    except DumbbellError:
        return None


def _order(study: Study, store: Store) -> pd.DataFrame:
    """Levels of the factors in the standard order of the design, however runs are ordered."""
    return pd.DataFrame(
        [
            {column.name: column.stored(condition.labels[column.name]) for column in store.columns}
            for condition in study.conditions()
        ]
    )


def _levels(study: Study, store: Store) -> dict[str, list[Any]]:
    """The levels of each factor in the order that the study's file gives them in."""
    return {
        column.name: [column.stored(factor.label(place)) for place in range(factor.count())]
        for column in store.columns
        for factor in [study.factors[column.name]]
    }


def _seeds(frame: pd.DataFrame) -> str:
    seeds = sorted(frame["seed"].unique())
    if len(seeds) <= _MOST_SEEDS:
        return listed(seeds)
    return f"{len(seeds)}, from {seeds[0]} to {seeds[-1]}"


def _explained(plan: Plan, study: Study | None) -> Plan:
    """The plan with the meanings of its responses and, for a [mesonet], its own order and flow
    groups."""
    from dumbbell.studies.metrics import METRICS

    mesonet = _mesonet(study)
    if mesonet is None:
        known = {
            name: f"{metric.summary}{f' In {metric.unit}.' if metric.unit else ''}"
            for name, metric in METRICS.items()
        }
        return replace(plan, meanings={n: known[n] for n in plan.responses if n in known})
    from dumbbell.mesonet._responses import catalogue, groups

    described = {each.name: f"{each.meaning} ({each.unit})" for each in catalogue(mesonet)}
    # Retransmissions, in the second period of experiment 1 and the second half of experiment 2.
    order = "tp2.y6" if mesonet.experiment == 1 else "y10"
    if plan.congestion is None and order in plan.responses:
        plan = replace(plan, congestion=order)
    return replace(
        plan,
        meanings={name: described[name] for name in plan.responses if name in described},
        files={str(i): file for i, (file, _, _) in enumerate(groups(), start=1)},
    )


def _mesonet(study: Study | None) -> Mesonet | None:
    from dumbbell._scenario import Scenario

    if study is None:
        return None
    try:
        tables, file, directory = study.base()
        return Scenario.from_dict(tables, file=file, directory=directory).mesonet
    except DumbbellError:
        return None
