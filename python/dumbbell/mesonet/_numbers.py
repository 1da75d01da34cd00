"""Published numbers of the NIST study beside ours."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis.components import components
from dumbbell.analysis.correlation import correlations
from dumbbell.mesonet._judge_congestion import order_correlation
from dumbbell.mesonet._measured import Experiments, Measured
from dumbbell.mesonet.published import (
    FLOWS_PER_RUN,
    PACKETS_PER_RUN,
    RESPONSE_COMPONENTS,
    RESPONSE_GROUPS,
    RESPONSES_MEASURED,
    RETRANSMISSION_RATES,
    RUN_TOTALS,
)

_RESPONSES = [f"tp2.y{i}" for i in (*range(1, 9), *range(9, 33, 4), 33, 34, 35, *range(42, 46))]
"""Macroscopic responses, goodputs of classes of paths and long-lived flows, of the period with
jumbo files. Which ones the study had is not in its public documents."""

Row = tuple[str, str, str, str]


def numbers_table(experiments: Experiments) -> pd.DataFrame:
    """One row an experiment and quantity: as published and as measured here."""
    rows = [row for m in experiments.measured.values() if m.conditions for row in _rows(m)]
    return pd.DataFrame(rows, columns=["experiment", "quantity", "published", "here"])


def _rows(m: Measured) -> Iterator[Row]:
    name, rates = m.experiment, m.congestion.table["value"]
    least, greatest = RETRANSMISSION_RATES[name]
    yield name, "runs", str(RUN_TOTALS[name].runs), str(len(m.runs))
    yield name, "least retransmission rate", f"{least:.2g}", f"{rates.min():.2g}"
    yield name, "greatest retransmission rate", f"{greatest:.2g}", f"{rates.max():.2g}"
    rho = f"{order_correlation(m):.3f}"
    yield name, "rank correlation of conditions with the published order", "1", rho
    for what, column, published in (
        ("flows completed in a run", "T.y4", FLOWS_PER_RUN),
        ("data packets sent in a run", "T.y1", PACKETS_PER_RUN),
    ):
        if name in published:
            theirs, ours = published[name], m.runs[column]
            yield (
                name,
                f"{what}: least, mean, greatest",
                f"{theirs.least:.3g}, {theirs.mean:.3g}, {theirs.greatest:.3g}",
                f"{ours.min():.3g}, {ours.mean():.3g}, {ours.max():.3g}",
            )
    if name[0] == "1":
        yield from _reduction(m)


def _reduction(m: Measured) -> Iterator[Row]:
    """Into how many groups and components the responses fall."""
    try:
        groups = correlations(m.runs, _RESPONSES)
        kept = components(m.runs, _RESPONSES)
    except UsageError:
        # Too few runs.
        return
    many = f"{RESPONSES_MEASURED} responses"
    yield (
        m.experiment,
        "groups of correlated responses",
        f"{RESPONSE_GROUPS} of {many}",
        f"{len(groups.clusters)} of {len(groups.matrix)} responses (|r| >= {groups.threshold:g})",
    )
    yield (
        m.experiment,
        "principal components kept",
        f"{RESPONSE_COMPONENTS} of {many}",
        f"{kept.enough(0.8)} to {kept.enough(0.9)} for 80 to 90 % of the variance",
    )
