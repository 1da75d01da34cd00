"""What becomes of the NIST study's findings in runs of its experiments made here.

Each finding is one statement, and a function that judges it from the frames of the experiments; the
function's docstring is the criterion. For example::

    from dumbbell.mesonet.findings import judge, summary_table
    from dumbbell.studies import frame

    print(summary_table(judge({"1b": frame("nist-1b"), "2b": frame("nist-2b")})))

Needs the extra `study`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dumbbell.mesonet import _judge_congestion as congestion
from dumbbell.mesonet import _judge_fairness as fairness
from dumbbell.mesonet import _judge_goodput as goodput
from dumbbell.mesonet import _judge_macroscopic as macroscopic
from dumbbell.mesonet._finding import Finding
from dumbbell.mesonet._measured import Experiments, Judge, finding

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

STATEMENTS: dict[str, tuple[str, Judge]] = {
    "F1": (
        "Where all use one algorithm, macroscopic responses do not depend on which, for most "
        "algorithms and conditions.",
        macroscopic.few_differences,
    ),
    "F2": (
        "By all macroscopic responses FAST is apart from the other algorithms, mainly under "
        "congestion.",
        macroscopic.fast_stands_out,
    ),
    "F3": (
        "Under heavy congestion FAST and FAST-AT have a higher retransmission rate, more "
        "connecting flows and fewer completed flows.",
        macroscopic.fast_under_congestion,
    ),
    "F4": (
        "These effects of FAST and FAST-AT vanish without congestion.",
        macroscopic.fast_without_congestion,
    ),
    "F5": (
        "With a high initial slow-start threshold and little congestion, goodput depends on speed, "
        "delay and size of files, not on the algorithm.",
        goodput.start_decides,
    ),
    "F6": (
        "With a low initial slow-start threshold and little congestion, alternate algorithms beat "
        "TCP on large files.",
        goodput.alternates_beat_tcp,
    ),
    "F7": (
        "Under heavy congestion the initial slow-start threshold matters little.",
        congestion.threshold_without_matter,
    ),
    "F9": (
        "With a high threshold, movies by Scalable, HSTCP and BIC with fast interfaces beat TCP "
        "in many conditions, more so under congestion.",
        goodput.movies_beat_tcp,
    ),
    "F10": (
        "Under extreme congestion algorithms with a window as trigger act as Reno and have no "
        "advantage; FAST does not.",
        macroscopic.reno_under_congestion,
    ),
    "F12": (
        "CTCP, H-TCP and FAST-AT are the fairest to TCP.",
        fairness.fairest,
    ),
    "F13": (
        "Scalable, BIC and FAST are the least fair to TCP; HSTCP is between, and less fair under "
        "congestion.",
        fairness.unfairest,
    ),
    "F15": (
        "CTCP ranks better on documents and Web objects than on movies.",
        fairness.better_on_small_files,
    ),
    "F16": (
        "By average rank over all flows CTCP is among the best, with either threshold.",
        fairness.among_the_best,
    ),
    "F20": (
        "Alternate algorithms matter only to large files with fast interfaces on fast paths, at "
        "low to moderate loss; most users gain nothing.",
        goodput.few_users_gain,
    ),
    "F21": (
        "Conditions are congested in the published order.",
        congestion.same_order,
    ),
    "F22": (
        "Network speed dominates congestion, then buffers and delay, then load; the share and "
        "interfaces of alternate flows do not matter.",
        congestion.same_causes,
    ),
    "F23": (
        "A network ten times as large and fast is less congested, in the same order.",
        congestion.scale_keeps_order,
    ),
    "F24": (
        "A low initial slow-start threshold lowers the least loss by orders of magnitude and "
        "leaves the greatest.",
        congestion.threshold_without_loss,
    ),
    "F25": (
        "Goodputs fall into three groups: low speed; high speed with long delay; high speed with "
        "short delay; each split by size of files.",
        goodput.three_groups,
    ),
}
"""Statements of the study and the functions that judge them. The others, about single flows, are
not to be judged from the experiments."""


def judge(frames: Mapping[str, pd.DataFrame]) -> list[Finding]:
    """Judge the findings from those of the five experiments that there are.

    `frames` has frames of studies by experiment ("1a", "1b", "2a", "2b", "2c"): one row a run, with
    the factors, `algorithm`, and the responses. They may be incomplete. Raises UsageError for an
    unknown experiment, and for a frame of another study.
    """
    experiments = Experiments.of(frames)
    return [
        finding(name, statement, judged, experiments)
        for name, (statement, judged) in STATEMENTS.items()
    ]


def criteria() -> dict[str, str]:
    """What must hold for each finding to be reproduced."""
    return {name: inspect.getdoc(judged) or "" for name, (_, judged) in STATEMENTS.items()}


def summary_table(findings: Iterable[Finding]) -> pd.DataFrame:
    """One row a finding, in the given order."""
    import pandas as pd

    columns = ("statement", "verdict", "number", "reason")
    found = list(findings)
    rows = [[getattr(each, name) for name in columns] for each in found]
    index = pd.Index([each.id for each in found], name="finding")
    return pd.DataFrame(rows, index=index, columns=list(columns))


def numbers(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Published numbers beside ours: rates, order of conditions, size of runs, reduction of the
    responses. Raises UsageError as `judge` does."""
    from dumbbell.mesonet._numbers import numbers_table

    return numbers_table(Experiments.of(frames))


def figures(frames: Mapping[str, pd.DataFrame]) -> dict[str, Figure]:
    """Figures for the documentation, by name: "congestion-order", and for each experiment such as
    1b those that apply: "clusters-1b", "outliers-1b", "ranks-2b", "ranks-tcp-2b", "coexistence-2b",
    "components-2b". Raises UsageError as `judge` does.
    """
    from dumbbell.mesonet._findings_figures import all_figures

    return all_figures(Experiments.of(frames))
