"""Which factors a response is sensitive to over their whole ranges: Sobol', Morris, given data.

Samples and analyses by SALib. Those of Sobol' and Morris need their own samples, run in the order
in which they come; `given_data` takes any runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import Floats, check_confidence, numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Ranges = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Sensitivity:
    """Sensitivity indices of one response.

    `table` is indexed by factor. Sobol': `S1` (share of the variance that the factor explains
    alone), `ST` (with all its interactions), and their confidence half-widths `S1_conf`, `ST_conf`;
    `second` has the shares `S2` of pairs if they were sampled. Morris: `mu` and `mu_star` (mean
    elementary effect and mean size of it over the factor's whole range, in the response's unit),
    `mu_star_conf`, `sigma` (spread: interactions or curvature). Given data: `S1`, `S1_conf`,
    `pawn` (median Kolmogorov-Smirnov distance between the response's distributions with and without
    the factor known), with `delta` and `delta_conf` on request.
    """

    method: str
    response: str
    table: pd.DataFrame
    main: str
    """The column by which factors are ranked."""
    second: pd.DataFrame | None = None

    def figure(self) -> Figure:
        """Bars of the indices with their intervals; for Morris, sigma against mu*."""
        from dumbbell._plots import figure
        from dumbbell._plots_panels import COLOURS

        ranked = self.table.sort_values(self.main, kind="stable")
        if self.method == "Morris":
            made, axes = figure(1, 1, (4.5, 3.2))
            ax = axes[0, 0]
            ax.plot(ranked["mu_star"], ranked["sigma"], "o", color=COLOURS[0], markersize=5)
            for factor, row in ranked.iterrows():
                ax.annotate(
                    str(factor),
                    (row.mu_star, row.sigma),
                    xytext=(5, 3),
                    textcoords="offset points",
                    fontsize=8,
                )
            ax.set_xlabel(f"mean size of elementary effects on {self.response}")
            ax.set_ylabel("their standard deviation")
            ax.margins(0.12)
            ax.set_xlim(left=0)
            ax.set_ylim(bottom=0)
            return made
        columns = [name for name in _LABELS if name in ranked.columns]
        made, axes = figure(1, 1, (4.5, 1.2 + 0.25 * len(ranked) * len(columns)))
        ax = axes[0, 0]
        thick = 0.8 / len(columns)
        place = np.arange(len(ranked))
        for row, (name, colour) in enumerate(zip(columns, COLOURS, strict=False)):
            ax.barh(
                place + (len(columns) / 2 - row - 0.5) * thick,
                ranked[name],
                thick,
                xerr=ranked.get(f"{name}_conf"),
                color=colour,
                ecolor="black",
                error_kw={"linewidth": 0.8, "capsize": 2},
                label=_LABELS[name],
            )
        ax.axvline(0, color="black", linewidth=0.6)
        ax.set_yticks(place, ranked.index)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel(f"sensitivity of {self.response} ({self.method})")
        made.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=7.5)
        return made

    def reading(self) -> str:
        ranked = self.table[self.main].sort_values(ascending=False)
        listed = ", ".join(f"{name} ({value:.2g})" for name, value in ranked.head(3).items())
        least = f"; least to {ranked.index[-1]} ({ranked.iloc[-1]:.2g})" if len(ranked) > 3 else ""
        return f"{self.response} is most sensitive to {listed}, by {_MAIN_TEXT[self.main]}{least}."


_LABELS = {
    "S1": "alone (S1)",
    "ST": "with interactions (ST)",
    "pawn": "PAWN",
    "delta": "delta",
}
_MAIN_TEXT = {
    "ST": "the share of variance with all interactions",
    "mu_star": "the mean size of elementary effects",
    "pawn": "the PAWN distance between distributions",
}


def sobol_sample(
    ranges: Ranges, base: int, *, second_order: bool = False, seed: int = 0
) -> pd.DataFrame:
    """Saltelli's sample for `sobol`: a row per run, (base * (k + 2), k) for k factors, or
    (base * (2 k + 2), k) with the indices of pairs. `base` is a power of two."""
    from SALib.sample import sobol as sampler

    if base < 2 or base & (base - 1):
        raise UsageError(f"base = {base}: expected a power of two")
    problem = _problem(ranges)
    sample = sampler.sample(problem, base, calc_second_order=second_order, seed=seed)
    return pd.DataFrame(sample, columns=problem["names"])


def sobol(
    frame: pd.DataFrame,
    response: str,
    ranges: Ranges,
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> Sensitivity:
    """Sobol' indices of first order and of all orders from the runs of a `sobol_sample`, in order.

    `ranges` has the low and the high end of each factor. Whether pairs were sampled is read off the
    frame. Raises UsageError for runs that are no such sample and for missing responses, without
    which the rest is worth nothing. Source: A. Saltelli et al., "Variance based sensitivity
    analysis of model output", Computer Physics Communications 181, 2010.
    """
    from SALib.analyze import sobol as analyser

    check_confidence(confidence)
    problem = _problem(ranges)
    points, values = _points(frame, problem["names"]), _complete(frame, response)
    pairs = _pairs_sampled(points)
    found = analyser.analyze(
        problem, values, calc_second_order=pairs, conf_level=confidence, seed=_seed(seed)
    )
    factors = problem["names"]
    columns = ("S1", "S1_conf", "ST", "ST_conf")
    second = None
    if pairs:
        second = pd.DataFrame(
            [
                {
                    "pair": f"{factors[i]}:{factors[j]}",
                    "S2": found["S2"][i, j],
                    "S2_conf": found["S2_conf"][i, j],
                }
                for i in range(len(factors))
                for j in range(i + 1, len(factors))
            ]
        )
    table = _table(factors, {name: found[name] for name in columns})
    return Sensitivity("Sobol'", response, table, "ST", second)


def morris_sample(
    ranges: Ranges, trajectories: int, *, levels: int = 4, seed: int = 0
) -> pd.DataFrame:
    """Morris's sample for `morris`: (trajectories * (k + 1), k) runs for k factors, each run
    changing one factor of the run before. `levels` is even."""
    from SALib.sample import morris as sampler

    if trajectories < 2 or levels < 2 or levels % 2:
        raise UsageError("Morris: expected two trajectories or more, and an even number of levels")
    problem = _problem(ranges)
    sample = sampler.sample(problem, trajectories, num_levels=levels, seed=seed)
    return pd.DataFrame(sample, columns=problem["names"])


def morris(
    frame: pd.DataFrame,
    response: str,
    ranges: Ranges,
    *,
    levels: int = 4,
    confidence: float = 0.95,
    seed: int = 0,
) -> Sensitivity:
    """Elementary effects from the runs of a `morris_sample`, in order.

    Raises UsageError for runs that are no such sample and for missing responses. Source: M. D.
    Morris, "Factorial sampling plans for preliminary computational experiments", Technometrics
    33(2), 1991; mu* of F. Campolongo et al., 2007.
    """
    from SALib.analyze import morris as analyser

    check_confidence(confidence)
    problem = _problem(ranges)
    points, values = _points(frame, problem["names"]), _complete(frame, response)
    _check_trajectories(points)
    found = analyser.analyze(
        problem, points, values, num_levels=levels, conf_level=confidence, seed=_seed(seed)
    )
    columns = ("mu", "mu_star", "mu_star_conf", "sigma")
    table = _table(problem["names"], {name: found[name] for name in columns})
    return Sensitivity("Morris", response, table, "mu_star")


def given_data(
    frame: pd.DataFrame,
    response: str,
    factors: Sequence[str],
    *,
    slices: int = 8,
    delta_resamples: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Sensitivity:
    """PAWN indices and shares of variance from any runs, best from a space-filling design.

    `slices` is into how many parts each factor's range is cut. `delta_resamples`, if not 0, adds
    Borgonovo's moment-independent measure with an interval from so many resamples (20 take seconds
    per factor). Factors are numbers; runs whose response is missing are left out. Raises UsageError
    for fewer than 64 runs. Sources: F. Pianosi and T. Wagener, Environmental Modelling & Software
    67, 2015 (PAWN); S. Tarantola, D. Gatelli and T. A. Mara, Reliability Engineering & System
    Safety 91(6), 2006 (S1 by random balance designs); E. Plischke et al., European Journal of
    Operational Research 226(3), 2013 (delta).
    """
    from SALib.analyze import pawn, rbd_fast

    check_confidence(confidence)
    values = numbers(frame, response)
    present = np.isfinite(values)
    points, values = _points(frame, list(factors))[present], values[present]
    if len(values) < 64:
        raise UsageError(
            f"sensitivity from given data: expected 64 runs or more, there are {len(values)}"
        )
    if np.ptp(values) == 0:
        raise UsageError(f"sensitivity: {response} is the same in all runs")
    low, high = points.min(axis=0), points.max(axis=0)
    problem = _problem({name: (float(low[i]), float(high[i])) for i, name in enumerate(factors)})
    columns = {"pawn": pawn.analyze(problem, points, values, S=slices)["median"]}
    found = rbd_fast.analyze(problem, points, values, conf_level=confidence, seed=_seed(seed))
    columns |= {"S1": found["S1"], "S1_conf": found["S1_conf"]}
    if delta_resamples:
        columns |= _delta(problem, points, values, delta_resamples, confidence, seed)
    return Sensitivity("given data", response, _table(list(factors), columns), "pawn")


def _delta(
    problem: dict[str, Any],
    points: Floats,
    values: Floats,
    resamples: int,
    confidence: float,
    seed: int,
) -> dict[str, Any]:
    from SALib.analyze import delta

    # SALib tells in warnings how it cuts the ranges, changes how all warnings are shown, and seeds
    # numpy's global generator.
    shown, state = warnings.formatwarning, np.random.get_state()
    try:
        with warnings.catch_warnings(record=True):
            found = delta.analyze(
                problem,
                points,
                values,
                num_resamples=resamples,
                conf_level=confidence,
                seed=_seed(seed),
                method="delta",
            )
    finally:
        warnings.formatwarning = shown
        np.random.set_state(state)
    # Of SALib's three estimates since 1.6, the one that takes the runs as they are.
    name = "delta" if "delta" in found else "delta_raw"
    return {"delta": found[name], "delta_conf": found[f"{name}_conf"]}


def _seed(seed: int) -> int:
    """SALib takes a seed of 0 for none."""
    return seed + 1


def _problem(ranges: Ranges) -> dict[str, Any]:
    if len(ranges) < 2:
        raise UsageError("sensitivity: expected two factors or more")
    for name, (low, high) in ranges.items():
        if not low < high:
            raise UsageError(f"range of {name}: expected a low end below the high end")
    return {
        "num_vars": len(ranges),
        "names": list(ranges),
        "bounds": [[float(low), float(high)] for low, high in ranges.values()],
    }


def _points(frame: pd.DataFrame, factors: list[str]) -> Floats:
    points = np.column_stack([numbers(frame, factor) for factor in factors])
    if not np.isfinite(points).all():
        raise UsageError("sensitivity: expected a number for each factor of each run")
    return points


def _complete(frame: pd.DataFrame, response: str) -> Floats:
    values = numbers(frame, response)
    missing = int((~np.isfinite(values)).sum())
    if missing:
        raise UsageError(f"{response}: {missing} runs have no value; this analysis needs them all")
    return values


def _pairs_sampled(points: Floats) -> bool:
    """Whether these points in this order are Saltelli's sample with pairs (True), without (False),
    or neither, which is a UsageError.

    A group of runs is A, then A with each column from B in turn, (with pairs: B with each column
    from A,) and B.
    """
    count = points.shape[1]
    for pairs in (False, True):
        size = count * (2 if pairs else 1) + 2
        if len(points) % size:
            continue
        groups = points.reshape(-1, size, count)
        a, b = groups[:, 0], groups[:, -1]
        expected = np.repeat(a[:, None, :], count, axis=1)
        place = np.arange(count)
        expected[:, place, place] = b
        if np.allclose(groups[:, 1 : count + 1], expected):
            return pairs
    raise UsageError(
        "Sobol' indices: the runs are not those of sobol_sample in its order; "
        "expected all of them, sorted by run"
    )


def _check_trajectories(points: Floats) -> None:
    count = points.shape[1]
    good = len(points) % (count + 1) == 0
    if good:
        steps = np.diff(points.reshape(-1, count + 1, count), axis=1) != 0
        good = bool((steps.sum(axis=2) == 1).all() and (steps.sum(axis=1) == 1).all())
    if not good:
        raise UsageError(
            "Morris: the runs are not those of morris_sample in its order; expected all of them, "
            "sorted by run"
        )


def _table(factors: list[str], columns: Mapping[str, Any]) -> pd.DataFrame:
    index = pd.Index(factors, name="factor")
    return pd.DataFrame(
        {name: np.asarray(values, dtype=float) for name, values in columns.items()}, index=index
    )
