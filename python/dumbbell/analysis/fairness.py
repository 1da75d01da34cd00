"""Measures of fairness among flows, and of the harm that one algorithm does to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dumbbell import _fairness
from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import check_columns
from dumbbell.analysis._frame import response_values
from dumbbell.analysis._style import SMALL, TITLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def jain(rates: ArrayLike) -> float:
    """Jain's index, (sum x)^2 / (n sum x^2): 1 where all are equal, 1/n where one has everything.

    Source: R. Jain, D. Chiu, W. Hawe, DEC-TR-301 (1984). NaN where all rates are 0. Raises
    UsageError, as the others do, of rates that are not finite, or below 0.
    """
    return _fairness.jain(_rates(rates).tolist())


def max_min_ratio(rates: ArrayLike) -> float:
    """The highest rate over the lowest: 1 where all are equal, infinite where one starves."""
    return _fairness.max_min_ratio(_rates(rates).tolist())


def epsilon(rates: ArrayLike) -> float:
    """The least epsilon with which rates are epsilon-fair: 1 - min/max (RFC 5166 section 2.3)."""
    return _fairness.epsilon(_rates(rates).tolist())


def geometric_mean(rates: ArrayLike) -> float:
    """The geometric mean: the product measure of RFC 5166 section 2.3 for any number of flows."""
    x = _rates(rates)
    return float(np.exp(np.mean(np.log(x)))) if x.min() > 0 else 0.0


def harm(solo: ArrayLike, beside: ArrayLike, *, more_is_better: bool = True) -> NDArray[np.float64]:
    """Harm done to a flow: 0 none, 1 all; negative where it fares better than alone.

    `solo` is its performance alone, `beside` that with competition. Throughput is more-is-better,
    (solo - beside)/solo; delay or loss less-is-better, (beside - solo)/beside. Source: R. Ware,
    M. K. Mukerjee, S. Seshan, J. Sherry, "Beyond Jain's Fairness Index", HotNets 2019.
    """
    alone, with_others = np.broadcast_arrays(
        np.asarray(solo, dtype=float), np.asarray(beside, dtype=float)
    )
    for name, values in (("solo", alone), ("beside", with_others)):
        if not np.all(np.isfinite(values)) or np.any(values < 0):
            raise UsageError(f"{name}: expected finite numbers not below 0")
    better, base = (alone, alone) if more_is_better else (with_others, with_others)
    lost = alone - with_others if more_is_better else with_others - alone
    out = np.full(base.shape, np.nan)
    np.divide(lost, better, out=out, where=base > 0)
    # Nothing lost of nothing.
    out[(base == 0) & (lost == 0)] = 0.0
    return out


@dataclass(frozen=True)
class Harm:
    """`table` has one row for each algorithm and response: `harm` to the incumbent, `own harm` (the
    incumbent's to itself), and `excess`, their difference; above 0 the algorithm is not acceptable
    by harm."""

    table: pd.DataFrame
    incumbent: str

    def reading(self) -> str:
        worst = self.table.loc[self.table["excess"].idxmax()]
        above = int((self.table["excess"] > 0).sum())
        return (
            f"{above} of {len(self.table)} pairs of algorithm and response do more harm to "
            f"{self.incumbent} than it does to itself; the most is {worst['algorithm']} in "
            f"{worst['response']}: {worst['harm']:.2f} against {worst['own harm']:.2f}."
        )

    def figure(self) -> Figure:
        """A bar for each algorithm, the line is what the incumbent does to itself."""
        from dumbbell._plots import figure

        responses = list(self.table["response"].unique())
        rows = max((self.table["response"] == name).sum() for name in responses)
        size = (3.4 * len(responses) + 1.0, 1.2 + 0.28 * rows)
        made, axes = figure(1, len(responses), size, sharey=True)
        for ax, name in zip(axes[0], responses, strict=True):
            here = self.table[self.table["response"] == name]
            y = np.arange(len(here))
            worse = (here["excess"] > 0).to_numpy()
            ax.barh(y, here["harm"], height=0.6, color=np.where(worse, "#D55E00", "#0072B2"))
            own = float(here["own harm"].iloc[0])
            ax.axvline(own, color="#000000", linestyle="--", linewidth=1)
            ax.set_yticks(y, here["algorithm"].astype(str), fontsize=SMALL)
            ax.invert_yaxis()
            ax.set_xlabel(f"harm to {self.incumbent} in {name}")
            ax.set_title(f"dashes: {self.incumbent} to itself, {own:.2f}", **TITLE)
        return made


def harms(
    frame: pd.DataFrame,
    *,
    solo: dict[str, float],
    incumbent: str,
    algorithm: str = "algorithm",
    less_is_better: tuple[str, ...] = (),
) -> Harm:
    """Harm of each algorithm to the incumbent, compared with that of the incumbent to itself.

    `frame` has the incumbent's performance beside each `algorithm`, the incumbent among them, a
    column for each key of `solo`; `solo` is its performance alone. Runs are averaged. A response
    named in `less_is_better` is delay-like. Raises UsageError.
    """
    check_columns(frame, [algorithm, *solo])
    if incumbent not in set(frame[algorithm]):
        raise UsageError(f'no run has "{incumbent}" beside itself')
    means = response_values(frame, list(solo)).groupby(frame[algorithm], sort=False).mean()
    rows = []
    for response, alone in solo.items():
        done = harm(alone, means[response], more_is_better=response not in less_is_better)
        by_name = dict(zip(means.index, done.tolist(), strict=True))
        rows += [
            {
                "algorithm": name,
                "response": response,
                "harm": value,
                "own harm": by_name[incumbent],
                "excess": value - by_name[incumbent],
            }
            for name, value in by_name.items()
            if name != incumbent
        ]
    if not rows:
        raise UsageError(f'no run has another algorithm beside "{incumbent}"')
    return Harm(pd.DataFrame(rows), incumbent)


def fairness(frame: pd.DataFrame, rate: str, *, by: list[str]) -> pd.DataFrame:
    """Jain's index, max-min ratio, epsilon and geometric mean of the rates of each group.

    `frame` has one row a flow with its `rate`, and is grouped by the columns `by`. Raises
    UsageError.
    """
    check_columns(frame, [*by, rate])
    rates = response_values(frame, [rate])[rate]
    measures = {
        "jain": jain,
        "max-min ratio": max_min_ratio,
        "epsilon": epsilon,
        "geometric mean": geometric_mean,
    }
    groups = rates.groupby([frame[name] for name in by], sort=False)
    table = {name: groups.apply(measure) for name, measure in measures.items()}
    return pd.DataFrame({"flows": groups.size(), **table})


def _rates(rates: ArrayLike) -> NDArray[np.float64]:
    x = np.asarray(rates, dtype=float).ravel()
    if not x.size or not np.all(np.isfinite(x)) or np.any(x < 0):
        raise UsageError("rates: expected at least one, all finite and not below 0")
    return x
