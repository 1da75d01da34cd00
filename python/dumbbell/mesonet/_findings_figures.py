"""Figures of the NIST study's findings in our runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from dumbbell._errors import UsageError
from dumbbell.analysis._style import TITLE, hide_rest
from dumbbell.analysis.coexistence import coexistence
from dumbbell.analysis.ranks import ranks
from dumbbell.mesonet._judge_congestion import order_correlation
from dumbbell.mesonet._judge_goodput import goodput_components
from dumbbell.mesonet._judge_macroscopic import macroscopic_clusters, macroscopic_outliers
from dumbbell.mesonet._measured import Experiments, Measured
from dumbbell.mesonet.published import CONDITIONS, congestion_ranks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACROSS = 3


def all_figures(experiments: Experiments) -> dict[str, Figure]:
    """Those for which there are enough runs."""
    made = {}
    for name, make in _figures(experiments):
        try:
            made[name] = make()
        except UsageError:
            # As the findings say, there is nothing to show.
            continue
    return made


def _figures(experiments: Experiments) -> Iterator[tuple[str, Callable[[], Figure]]]:
    there = list(experiments.measured.values())
    if any(m.conditions for m in there):
        yield "congestion-order", partial(congestion_order, [m for m in there if m.conditions])
    for m in there:
        kinds = _HOMOGENEOUS if m.experiment[0] == "1" else _MIXED
        for name, make in kinds.items():
            yield f"{name}-{m.experiment}", partial(make, m)


_HOMOGENEOUS: dict[str, Callable[[Measured], Figure]] = {
    "clusters": lambda m: macroscopic_clusters(m).figure(),
    "outliers": lambda m: macroscopic_outliers(m).figure(),
}
_MIXED: dict[str, Callable[[Measured], Figure]] = {
    "ranks": lambda m: ranks(m.goodputs(), congestion=m.congestion).figure("alternate"),
    "ranks-tcp": lambda m: ranks(m.goodputs(), congestion=m.congestion).figure("tcp"),
    "coexistence": lambda m: coexistence(m.goodputs(), congestion=m.congestion).figure(),
    "components": lambda m: goodput_components(m).figure(),
}


def congestion_order(measured: list[Measured]) -> Figure:
    """Rank of each condition by retransmission rate here against that in the study, a panel for
    each experiment; on the line they agree."""
    from dumbbell._plots import figure

    across = min(_ACROSS, len(measured))
    down = math.ceil(len(measured) / across)
    made, axes = figure(
        down, across, (max(4.0, 3.1 * across + 0.5), 3.15 * down + 0.4), sharex=True
    )
    ends = [0, CONDITIONS + 1]
    for ax, m in zip(axes.ravel(), measured, strict=False):
        ours = m.congestion.rank
        published = congestion_ranks(m.experiment).reindex(ours.index).rank()
        ax.plot(ends, ends, color="#999999", linewidth=0.8)
        for condition, x in published.items():
            place = (x, ours[condition])
            ax.annotate(str(condition), place, ha="center", va="center", fontsize=7.5)
        ax.set(xlim=ends, ylim=ends)
        ax.set_box_aspect(1)
        ax.set_title(f"{m.experiment}: rho = {order_correlation(m):.3f}", **TITLE)
    hide_rest(axes, len(measured))
    made.supxlabel("rank of a condition in the study (1 = least congested)", fontsize=9)
    made.supylabel("rank here", fontsize=9)
    return made
