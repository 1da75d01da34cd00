"""All analyses that apply to a study, as the sections of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import check_columns
from dumbbell.analysis._frame import response_values, varying
from dumbbell.analysis._sections import StudySections
from dumbbell.analysis._style import listed
from dumbbell.analysis.report import Section, write_report

_ALGORITHM_NAMES = ("algorithm", "cc", "controller")
_CONGESTION_NAMES = ("retransmission_rate", "loss_ratio", "loss_percent", "queue_delay_mean_ms")
_GOODPUT = ("alternate.g{group}", "tcp.g{group}")


@dataclass(frozen=True)
class Plan:
    """What a study varied and measured, and how it is to be looked at.

    `factors` and `responses` are columns of the frame of runs. `algorithm` is the factor that is
    compared over the conditions that the others make. `congestion` is the response that orders the
    conditions. `focus` are the responses that are shown in detail, by default one of each group of
    correlated ones. `goodput` and `flows` name the columns of alternate and of TCP flows, with
    `{group}` where the flow group stands; `files` gives the file type of each group; responses that
    are such goodputs are looked at apart. `levels` has the levels of factors, the low one first (by
    default the order of categories), `meanings` says what responses are. `order` has the factors'
    levels in the order that conditions are numbered in, by default that of the runs.
    """

    factors: tuple[str, ...]
    responses: tuple[str, ...]
    algorithm: str | None = None
    congestion: str | None = None
    focus: tuple[str, ...] = ()
    goodput: tuple[str, str] = _GOODPUT
    flows: tuple[str, str] | None = None
    files: Mapping[str, str] | None = None
    levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)
    order: pd.DataFrame | None = None

    def filled(self, frame: pd.DataFrame) -> Plan:
        """The plan with what it does not say: algorithm, order of congestion, levels, flows."""
        check_columns(frame, [*self.factors, *self.responses])
        algorithm = self.algorithm or _first(self.factors, _ALGORITHM_NAMES)
        if algorithm is not None and algorithm not in self.factors:
            raise UsageError(f'algorithm "{algorithm}": expected one of the factors')
        measure = self.congestion or _first(self.responses, _CONGESTION_NAMES)
        if measure is not None:
            check_columns(frame, [measure])
        levels = {name: list(given) for name, given in self.levels.items()}
        for name in self.factors:
            if isinstance(frame[name].dtype, pd.CategoricalDtype) and name not in levels:
                levels[name] = list(frame[name].dtype.categories)
        return replace(self, algorithm=algorithm, congestion=measure, levels=levels)

    def goodputs(self) -> list[str]:
        """The responses that are goodputs of flow groups."""
        starts = tuple(pattern.split("{group}")[0] for pattern in self.goodput)
        return [name for name in self.responses if name.startswith(starts)]


def study_sections(frame: pd.DataFrame, plan: Plan) -> tuple[list[Section], list[tuple[str, str]]]:
    """The sections of a study's report, and the analyses that do not apply with the reasons.

    `frame` has one row a run. Runs with an `error` are left out. Raises UsageError where no run is
    left, or for names that are no columns.
    """
    plan = plan.filled(frame)
    if "error" in frame.columns:
        frame = frame[frame["error"].isna()]
    if frame.empty:
        raise UsageError("no finished run to analyse")
    measured = varying(response_values(frame, plan.responses))
    constant = [name for name in plan.responses if name not in measured.columns]
    if measured.empty:
        raise UsageError("no response differs between runs")
    work = StudySections(_in_order(frame, plan), replace(plan, responses=tuple(measured.columns)))
    work.run()
    if constant:
        work.left_out.append(
            ("Responses", f"the same in all runs, or without a value: {listed(constant, 12)}")
        )
    return work.sections, work.left_out


def study_report(
    frame: pd.DataFrame,
    path: str | Path,
    plan: Plan,
    *,
    title: str = "Analysis of a study",
    facts: Sequence[tuple[str, str]] = (),
) -> Path:
    """Write the report of all analyses that apply to a study. Raises UsageError."""
    sections, left_out = study_sections(frame, plan)
    return write_report(sections, path, title=title, facts=facts, left_out=left_out)


def _in_order(frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """The runs by the plan's order of algorithms, whatever order they were run in; categories as
    plain values, so that groups are of what was run."""
    if plan.algorithm is not None:
        known = [*plan.levels.get(plan.algorithm, ()), *frame[plan.algorithm].unique()]
        place = {name: i for i, name in enumerate(dict.fromkeys(known))}
        frame = frame.sort_values(
            plan.algorithm, key=lambda c: c.map(place).astype(int), kind="stable"
        )
    plain = {
        name: frame[name].astype(object)
        for name in plan.factors
        if isinstance(frame[name].dtype, pd.CategoricalDtype)
    }
    return frame.assign(**plain)


def _first(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    """The first of `names` that is, or whose last part is, one of `wanted`."""
    for name in wanted:
        for given in names:
            if given == name or given.endswith(f".{name}"):
                return given
    return None
