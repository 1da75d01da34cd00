"""An experiment of the NIST study as it was run here, and how a verdict follows from its parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import check_columns
from dumbbell.analysis._frame import cell_means
from dumbbell.analysis._style import listed
from dumbbell.analysis.congestion import Congestion, congestion
from dumbbell.analysis.goodputs import LEAST_FLOWS, goodputs
from dumbbell.mesonet._finding import IN_PART, NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED, Finding
from dumbbell.mesonet._parameters import ALGORITHMS
from dumbbell.mesonet._responses import groups
from dumbbell.mesonet.published import (
    CALM,
    CONDITIONS,
    EXPERIMENTS,
    RETRANSMISSION_RATES,
    design,
    factor_levels,
)

CONDITION, ALGORITHM = "condition", "algorithm"
LEAST_CONDITIONS = 16
"""Conditions, half of the design's, without which nothing is said."""
LEAST_COMPARED = 8
"""Conditions, or cells, in which goodputs must be there to say something of them."""
PRACTICAL = 0.1
"""The study's second filter: a difference of a tenth of the mean matters."""
FACTOR_OF_SAME = 1.25
"""Rates within this factor count as unchanged."""
FAST, FAST_AT, TCP = "fast", "fast-at", "tcp"
RATES = {"1": "tp2.y6", "2": "y10"}
"""Retransmission rate, which orders conditions: with jumbo files in experiment 1."""
HIGH_THRESHOLD = ("1a", "2a", "2c")
"""Experiments without a bound of the initial slow start."""
UNLIKE = 3.0
"""Factor from which greatest and least retransmission rates, and the number of calm conditions, are
unlike the study's."""
NO_LOSS = 1e-4
"""A rate that counts as none."""


@dataclass(frozen=True)
class Measured:
    """Runs of one experiment, sorted; `condition` is the number in the study's design."""

    experiment: str
    runs: pd.DataFrame
    algorithms: tuple[str, ...]

    @classmethod
    def of(cls, experiment: str, frame: pd.DataFrame) -> Measured:
        """The frame of a study's runs. Raises UsageError for one that is of another study."""
        table = design(experiment)
        check_columns(frame, [*table.columns, ALGORITHM])
        if "error" in frame.columns:
            frame = frame[frame["error"].isna()]
        number_of = {tuple(row): c for c, *row in table.itertuples()}
        rows = frame[list(table.columns)].itertuples(index=False, name=None)
        numbers = [number_of.get(row) for row in rows]
        if None in numbers:
            wrong = frame[list(table.columns)].iloc[numbers.index(None)].to_dict()
            raise UsageError(f"experiment {experiment}: {wrong} is no condition of its design")
        names = frame[ALGORITHM].astype(str)
        algorithms = tuple(n for n in dict.fromkeys([*ALGORITHMS, *sorted(names)]) if n in {*names})
        place = {name: i for i, name in enumerate(algorithms)}
        plain = {name: frame[name].astype(object) for name in table.columns}
        frame = frame.assign(**plain, condition=numbers, algorithm=names, place=names.map(place))
        keys = [CONDITION, "place", *(["replicate"] if "replicate" in frame.columns else [])]
        frame = frame.sort_values(keys, kind="stable").drop(columns="place")
        return cls(experiment, frame.reset_index(drop=True), algorithms)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The runs of conditions in which half of the algorithms, or more, can be compared."""
        there = self.runs.groupby(CONDITION)[ALGORITHM].transform("nunique")
        return self.runs[2 * there >= len(self.algorithms)].reset_index(drop=True)

    @property
    def compared(self) -> int:
        """Number of conditions in which algorithms can be compared."""
        return int(self.frame[CONDITION].nunique())

    @property
    def conditions(self) -> int:
        return int(self.runs[CONDITION].nunique())

    @property
    def rate(self) -> str:
        """The response that is the retransmission rate."""
        return RATES[self.experiment[0]]

    @property
    def factors(self) -> list[str]:
        return list(factor_levels(self.experiment))

    @cached_property
    def congestion(self) -> Congestion:
        return congestion(self.runs, self.rate)

    @property
    def extent(self) -> str:
        """How much of the experiment there is; empty where that is all."""
        cells = len(self.runs[[CONDITION, ALGORITHM]].drop_duplicates())
        wanted = CONDITIONS * len(self.algorithms)
        if cells == wanted:
            return ""
        return (
            f"{cells} of {wanted} pairs of condition and algorithm, {self.conditions} of "
            f"{CONDITIONS} conditions, {self.compared} with half of the algorithms"
        )

    def least_congested(self, share: int = 3) -> list[int]:
        """The least congested third, or other part, of the conditions that can be compared."""
        order = self._order()
        return order[: math.ceil(len(order) / share)]

    def most_congested(self, share: int = 3) -> list[int]:
        order = self._order()
        return order[-math.ceil(len(order) / share) :]

    def within(self, conditions: Sequence[int]) -> pd.DataFrame:
        """The runs of these conditions."""
        return self.frame[self.frame[CONDITION].isin(conditions)]

    def wide(self, response: str) -> pd.DataFrame:
        """A response, conditions by algorithms."""
        cells = cell_means(self.frame, [response], condition=CONDITION, algorithm=ALGORITHM)
        return cells[response].unstack(sort=False).reindex(columns=list(self.algorithms))

    def by_condition(self, responses: Sequence[str]) -> pd.DataFrame:
        """Means over algorithms, one row a condition with its factors."""
        means = self.runs.groupby(CONDITION)[list(responses)].mean()
        return design(self.experiment).join(means, how="inner").reset_index()

    def goodputs(self) -> pd.DataFrame:
        """Goodputs of the flow groups of experiment 2, those of few flows left out."""
        counted = "alternate.n1" in self.frame.columns
        return goodputs(
            self.frame,
            alternate="alternate.g{group}",
            tcp="tcp.g{group}",
            alternate_flows="alternate.n{group}" if counted else None,
            tcp_flows="tcp.n{group}" if counted else None,
            files={str(i): file for i, (file, _, _) in enumerate(groups(), start=1)},
        )

    def class_goodputs(self) -> pd.DataFrame:
        """The runs with the goodputs that are means of few flows left out: of classes of paths in
        experiment 1, of flow groups in experiment 2."""
        counts = self._goodput_columns()
        frame = self.frame.copy()
        for goodput, count in counts.items():
            if count in frame.columns:
                frame[goodput] = frame[goodput].where(frame[count] >= LEAST_FLOWS)
        return frame

    @property
    def goodput_names(self) -> list[str]:
        return list(self._goodput_columns())

    def _goodput_columns(self) -> dict[str, str]:
        """Goodputs, and the responses that say of how many flows."""
        if self.experiment[0] == "1":
            places = [(p, i) for p in ("tp1", "tp2", "tp3") for i in range(9, 33, 4)]
            return {f"{p}.y{i}": f"{p}.y{i + 1}" for p, i in places}
        both = [(r, i) for r in ("alternate", "tcp") for i in range(1, len(groups()) + 1)]
        return {f"{role}.g{i}": f"{role}.n{i}" for role, i in both}

    def require(self, *algorithms: str) -> None:
        """Raise UsageError for algorithms that were not run."""
        for name in algorithms:
            if name not in self.algorithms:
                raise UsageError(f"{self.experiment}: {name} was not run")

    def movies(self) -> str:
        """How many movies were completed, and how far they go."""
        names = [f"{role}.n{i}" for role in ("alternate", "tcp") for i in group_numbers("movie")]
        if not set(names) <= set(self.frame.columns):
            return f"{self.experiment}: completed movies were not counted"
        counts = self.frame[names]
        enough = int((counts >= LEAST_FLOWS).sum().sum())
        return (
            f"{self.experiment}: {counts.sum().sum():.0f} movies were completed in "
            f"{len(self.frame)} runs, and {enough} of {counts.size} cells have "
            f"{LEAST_FLOWS} or more"
        )

    def why(self, error: UsageError) -> str:
        """An error as one of this experiment."""
        text = str(error)
        return text if text.startswith(self.experiment) else f"{self.experiment}: {text}"

    def unlike(self) -> str:
        """In what the congestion of conditions is not that of the study, if in anything."""
        rates = self.congestion.table["value"]
        least, greatest = RETRANSMISSION_RATES[self.experiment]
        texts = []
        if rates.max() * UNLIKE < greatest:
            texts.append(
                f"no condition of {self.experiment} is as congested as in the study: the greatest "
                f"retransmission rate is {rates.max():.2g}, there {greatest:.2g}"
            )
        if self.experiment in CALM:
            many, bound = CALM[self.experiment]
            calm = int((rates <= bound).sum())
            if calm * UNLIKE < many:
                texts.append(
                    f"fewer conditions of {self.experiment} are calm than in the study: {calm} "
                    f"have a retransmission rate of {bound:.2g} or less, there {many}"
                )
        elif rates.min() > UNLIKE * max(least, NO_LOSS):
            start = ", since a slow start without a threshold overflows the smaller buffers"
            texts.append(
                f"no condition of {self.experiment} is as calm as in the study: the least "
                f"retransmission rate is {rates.min():.2g}, there {least:.2g}"
                f"{start if self.experiment in HIGH_THRESHOLD else ''}"
            )
        return "; ".join(texts)

    def windows(self, conditions: Sequence[int]) -> tuple[float, float]:
        """Least and greatest mean over algorithms of an active flow's window in these conditions of
        experiment 2, packets."""
        means = self.within(conditions).groupby(CONDITION)["y8"].mean()
        return float(means.min()), float(means.max())

    def _order(self) -> list[int]:
        there = set(self.frame[CONDITION])
        return [int(str(c)) for c in self.congestion.order if c in there]


def group_numbers(*files: str, paths: Iterable[str] = (), interface: str = "") -> list[str]:
    """Numbers of flow groups of these files, on these paths (default: all)."""
    return [
        str(i)
        for i, (file, path, fast) in enumerate(groups(), start=1)
        if file in files and (not paths or path in paths) and interface in ("", fast)
    ]


def rank_correlation(one: pd.Series, other: pd.Series) -> tuple[float, float]:
    """Spearman's correlation of two responses of conditions and its p; NaN where one of them is the
    same everywhere."""
    from scipy.stats import spearmanr

    both = pd.concat([one, other], axis=1).dropna()
    if len(both) < 3 or (both.nunique() < 2).any():
        return math.nan, math.nan
    found = spearmanr(both.iloc[:, 0], both.iloc[:, 1])
    return float(found.statistic), float(found.pvalue)


@dataclass(frozen=True)
class Part:
    """A part of a statement: whether it holds, and the numbers."""

    name: str
    holds: bool
    number: str = ""


@dataclass(frozen=True)
class Experiments:
    """The experiments that there are."""

    measured: Mapping[str, Measured]

    @classmethod
    def of(cls, frames: Mapping[str, pd.DataFrame]) -> Experiments:
        """Raises UsageError for an unknown experiment or a frame of another study."""
        for name in frames:
            if name not in EXPERIMENTS:
                known = ", ".join(EXPERIMENTS)
                raise UsageError(f'experiment "{name}": expected one of {known}')
        return cls({n: Measured.of(n, frames[n]) for n in EXPERIMENTS if n in frames})

    def lacking(self, name: str, *, compare: bool = True) -> str:
        """Why an experiment says nothing; empty if it does. `compare`: about algorithms."""
        if name not in self.measured:
            return f"{name} was not run"
        m = self.measured[name]
        enough = (m.compared if compare else m.conditions) >= LEAST_CONDITIONS
        return "" if enough else f"{name} has only {m.extent}"

    def those(self, *names: str, compare: bool = True) -> list[Measured]:
        """Those of the experiments that say something. Raises UsageError if there is none."""
        why = {name: self.lacking(name, compare=compare) for name in names}
        if all(why.values()):
            raise UsageError("; ".join(why.values()))
        return [self.measured[name] for name, reason in why.items() if not reason]

    def both(self, one: str, other: str, *, compare: bool = True) -> tuple[Measured, Measured]:
        """Raises UsageError unless both experiments say something."""
        why = [self.lacking(name, compare=compare) for name in (one, other)]
        if any(why):
            raise UsageError("; ".join(filter(None, why)))
        return self.measured[one], self.measured[other]


@dataclass(frozen=True)
class Judged:
    """What a statement comes to in these experiments; `reasons` explain what does not hold."""

    parts: Sequence[Part]
    of: Sequence[Measured]
    reasons: Sequence[str] = ()


Judge = Callable[[Experiments], Judged]


def finding(name: str, statement: str, judge: Judge, experiments: Experiments) -> Finding:
    """Reproduced if all parts hold, in part if some do; not testable if the judge says why."""
    try:
        found = judge(experiments)
    except UsageError as error:
        return Finding(name, statement, NOT_TESTABLE, reason=str(error))
    texts = [part.number for part in found.parts if part.number]
    texts += [f"{m.experiment} has {m.extent}" for m in found.of if m.extent]
    numbers = "; ".join(dict.fromkeys(texts))
    held = [part.name for part in found.parts if part.holds]
    failed = [part.name for part in found.parts if not part.holds]
    if not failed:
        return Finding(name, statement, REPRODUCED, numbers)
    why = [f"does not hold: {listed(failed, 12)}", *filter(None, found.reasons)]
    verdict = IN_PART if held else NOT_REPRODUCED
    return Finding(name, statement, verdict, numbers, "; ".join(dict.fromkeys(why)))
