"""What the NIST study published: numbers to hold our own against.

K. Mills, J. J. Filliben, D. Y. Cho, E. Schwartz, D. Genin: Study of Proposed Internet Congestion
Control Mechanisms, NIST SP 500-282, 2010, as summarised in the authors' slides of March 2010, where
all numbers below are printed unless it says that they were computed from printed ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from dumbbell._errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from dumbbell.studies._study import Study

SOURCE = "NIST SP 500-282 (2010), slides of March 2010"
CONDITIONS = 32


def _order(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


CONGESTION_ORDERS: dict[str, tuple[int, ...]] = {
    "1a": _order(
        "12 8 20 2 32 26 3 14 4 15 27 9 16 10 28 11 18 24 22 19 17 6 1 29 7 30 5 25 23 13 31 21"
    ),
    "1b": _order(
        "8 12 2 20 26 32 14 3 15 27 9 4 10 16 28 11 22 17 29 23 5 18 24 6 1 19 7 30 25 13 31 21"
    ),
    "2a": _order(
        "16 8 24 32 28 12 4 20 14 6 30 22 15 2 10 31 23 26 11 3 7 13 5 18 27 9 29 25 17 1 19 21"
    ),
    "2b": _order(
        "16 8 24 12 32 28 4 14 30 20 6 22 15 2 10 31 23 11 3 26 7 13 5 18 27 9 29 25 17 1 19 21"
    ),
    "2c": _order(
        "16 28 4 24 8 30 10 2 22 6 32 20 14 12 15 23 31 3 5 11 26 18 7 13 9 27 17 29 25 1 19 21"
    ),
}
"""Conditions of each experiment from the lowest to the highest retransmission rate."""

EXPERIMENTS = tuple(CONGESTION_ORDERS)

RETRANSMISSION_RATES: dict[str, tuple[float, float]] = {
    "1a": (0.0, 0.55),
    "1b": (0.0, 0.325),
    "2a": (2e-4, 2.5e-2),
    "2b": (4e-7, 2.2e-2),
    "2c": (3.8e-9, 1.9e-2),
}
"""Least and greatest over conditions. Those of 1a and 1b are read off a figure: the greatest is 0.5
to 0.6 and 0.3 to 0.35."""

CALM: dict[str, tuple[int, float]] = {"1a": (16, 0.002), "1b": (11, 3.56e-5)}
"""How many conditions have at most what retransmission rate."""

ORDER_CORRELATIONS: dict[tuple[str, str], float] = {
    ("1a", "1b"): 0.949,
    ("2a", "2b"): 0.996,
    ("2a", "2c"): 0.932,
}
"""Spearman's rank correlations of the orders, computed from them."""

ORDER_EFFECTS: dict[str, dict[str, float]] = {
    "2a": {"x3": -14.4, "x2": -8.3, "x4": -5.1, "x9": -2.4, "x11": 3.3, "x5": 2.8},
    "2c": {"x3": -14.5, "x2": -5.8, "x5": 5.5, "x12": 4.4, "x4": -3.9, "x11": 3.6}
    | {"x8": 1.6, "x9": -0.6, "x15": -0.5},
}
"""Main effects of factors on the rank of a condition, computed from the orders; those of 2a that
are not here are at most 1."""


@dataclass(frozen=True)
class Totals:
    """What an experiment ran. `flows` were completed, and `packets` are data and ACKs."""

    runs: int
    processor_hours: float
    flows: float
    packets: float


RUN_TOTALS: dict[str, Totals] = {
    "1a": Totals(224, 16_598.4, 16.5e9, 3e12),
    "1b": Totals(256, 1_658.0, 2e9, 460e9),
    "2a": Totals(224, 5_857.2, 2.5e9, 1.5e12),
    "2b": Totals(224, 5_638.5, 2.5e9, 1.4e12),
    "2c": Totals(224, 94_355.3, 26e9, 14e12),
}


@dataclass(frozen=True)
class PerRun:
    """Least, mean and greatest over the runs of an experiment."""

    least: int
    mean: int
    greatest: int


FLOWS_PER_RUN: dict[str, PerRun] = {
    "1a": PerRun(40_966_013, 74_033_116, 154_914_953),
    "1b": PerRun(4_329_268, 8_329_266, 16_729_532),
}
"""Flows completed in a run."""
PACKETS_PER_RUN: dict[str, PerRun] = {
    "1a": PerRun(3_146_870_571, 6_912_373_746, 11_917_420_154),
    "1b": PerRun(380_349_161, 897_379_391, 1_749_461_097),
}
"""Data packets sent in a run."""


@dataclass(frozen=True)
class Characteristics:
    """The study's final table. Latencies are averages in seconds: `goodput_s` until a flow is at
    its highest rate, `recovery_s` until it is there again after sustained losses."""

    complexity: str
    trigger: str
    goodput_s: float
    recovery_s: float


FINAL_TABLE: dict[str, Characteristics] = {
    "bic": Characteristics("high", "14 packets", 18.8, 71.3),
    "ctcp": Characteristics("moderate", "41 packets", 7.9, 2.9),
    "fast": Characteristics("low", "none", 3.7, 6.6),
    "fast-at": Characteristics("moderate", "none", 3.7, 26.0),
    "hstcp": Characteristics("low", "31 packets", 22.4, 10.0),
    "htcp": Characteristics("moderate", "1 s without loss", 16.6, 10.0),
    "scalable": Characteristics("low", "16 packets", 17.8, 22.5),
}

RESPONSES_MEASURED = 22
RESPONSE_GROUPS = 7
"""Groups that the measured responses fell into, by correlation and knowledge of the subject."""
RESPONSE_COMPONENTS = 4
"""Principal components that were kept of them."""


@cache
def _study(experiment: str) -> Study:
    from dumbbell.studies._study import Study

    if experiment not in EXPERIMENTS:
        raise UsageError(f'experiment "{experiment}": expected one of {", ".join(EXPERIMENTS)}')
    return Study.load(f"ready:nist-{experiment}")


def factor_levels(experiment: str) -> dict[str, tuple[Any, Any]]:
    """Low and high level of each factor of an experiment, in the order of the design's columns.

    Raises UsageError for an unknown experiment.
    """
    study = _study(experiment)
    levels = study.levels()
    return {name: (levels[name][0], levels[name][1]) for name in study.columns}


def design(experiment: str) -> pd.DataFrame:
    """Levels of an experiment's conditions, whose numbers, 1 to 32, are the index.

    Raises UsageError for an unknown experiment.
    """
    import pandas as pd

    built = _study(experiment).build_design()
    signs = pd.DataFrame(built.matrix, columns=list(built.columns))
    signs.index = pd.RangeIndex(1, len(signs) + 1, name="condition")
    levels = factor_levels(experiment)
    return pd.DataFrame(
        {name: signs[name].map({-1.0: low, 1.0: high}) for name, (low, high) in levels.items()}
    )


def congestion_ranks(experiment: str) -> pd.Series:
    """Published rank of each condition by retransmission rate, 1 = lowest.

    Raises UsageError for an unknown experiment.
    """
    import pandas as pd

    if experiment not in EXPERIMENTS:
        raise UsageError(f'experiment "{experiment}": expected one of {", ".join(EXPERIMENTS)}')
    order = CONGESTION_ORDERS[experiment]
    index = pd.Index(order, name="condition")
    return pd.Series(range(1, len(order) + 1), index=index, name="rank", dtype=float).sort_index()
