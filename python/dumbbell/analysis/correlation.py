"""Which responses say the same: correlations, and groups of responses that go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import Floats
from dumbbell.analysis._frame import response_values, varying
from dumbbell.analysis._style import SMALL, TITLE, listed, small_colorbar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("pearson", "spearman", "kendall")


@dataclass(frozen=True)
class Correlations:
    """`matrix` has responses in the order of their clusters; `dropped` are constant responses,
    which have no correlation."""

    matrix: pd.DataFrame
    threshold: float
    clusters: tuple[tuple[str, ...], ...]
    representatives: tuple[str, ...]
    dropped: tuple[str, ...]
    runs: int

    @property
    def table(self) -> pd.DataFrame:
        """One row a response: its cluster, whether it represents it, and its mean and highest |r|
        with the others of the cluster."""
        rows = []
        for place, cluster in enumerate(self.clusters, start=1):
            for name in cluster:
                others = self.matrix.loc[name, [o for o in cluster if o != name]].abs()
                rows.append(
                    {
                        "response": name,
                        "cluster": place,
                        "representative": name in self.representatives,
                        "mean |r| in cluster": others.mean(),
                        "highest |r| in cluster": others.max(),
                    }
                )
        return pd.DataFrame(rows).set_index("response")

    def strengths(self) -> Floats:
        """|r| of each pair of responses."""
        n = len(self.matrix)
        return np.asarray(self.matrix.abs().to_numpy()[np.triu_indices(n, k=1)])

    def reading(self) -> str:
        sizes = [len(cluster) for cluster in self.clusters]
        strong = int(np.sum(self.strengths() >= self.threshold))
        text = (
            f"At |r| of {self.threshold:g} or more, {len(self.matrix)} responses over {self.runs} "
            f"runs form {len(sizes)} groups; {strong} of {self.strengths().size} pairs are that "
            f"close. "
        )
        if max(sizes) > 1:
            text += f"The largest group has {max(sizes)}: {listed(self.clusters[0])}."
        else:
            text += "No two responses say the same."
        if self.dropped:
            text += f" Constant and left out: {listed(self.dropped)}."
        return text

    def figure(self) -> Figure:
        """The ordered matrix, its groups framed, and the histogram of |r|."""
        from matplotlib.patches import Rectangle

        from dumbbell._plots import figure

        n = len(self.matrix)
        side = min(9.0, max(2.0, 0.19 * n))
        # Beside and below the matrix are the names.
        size = (side + 5.4, side + 1.6)
        made, axes = figure(1, 2, size, width_ratios=[side + 1.2, 2.6])
        ax, bars = axes[0]
        image = ax.imshow(self.matrix, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
        ax.grid(False)
        ax.set_xticks(range(n), self.matrix.columns, rotation=90, fontsize=SMALL)
        ax.set_yticks(range(n), self.matrix.index, fontsize=SMALL)
        start = 0
        for cluster in self.clusters:
            if len(cluster) > 1:
                corner, many = (start - 0.5, start - 0.5), len(cluster)
                ax.add_patch(Rectangle(corner, many, many, fill=False, linewidth=1.6))
            start += len(cluster)
        small_colorbar(made, image, ax, "correlation r")
        ax.set_title("frames: groups of responses", **TITLE)
        bars.hist(self.strengths(), bins=np.linspace(0, 1, 21), color="#0072B2", edgecolor="white")
        bars.axvline(self.threshold, color="#D55E00", linestyle="--")
        bars.set_title(f"dashes: |r| = {self.threshold:g}", **TITLE)
        bars.set_xlabel("|r|")
        bars.set_ylabel("pairs of responses", labelpad=8)
        return made


def correlations(
    frame: pd.DataFrame,
    responses: Sequence[str],
    *,
    threshold: float = 0.65,
    method: str = "pearson",
    prefer: Sequence[str] = (),
) -> Correlations:
    """Correlate responses over all runs, and join those with |r| >= `threshold` into groups.

    A group is a connected set: each member is that close to at least one other. It is represented
    by the first of `prefer` in it, or by the response with the highest mean |r| to the rest.
    Missing values are left out pair by pair. Raises UsageError.
    """
    from scipy.sparse.csgraph import connected_components

    if not 0 < threshold <= 1:
        raise UsageError(f"threshold = {threshold}: expected a number above 0 and up to 1")
    if method not in METHODS:
        raise UsageError(f'method = "{method}": expected one of {", ".join(METHODS)}')
    values = response_values(frame, responses)
    kept = varying(values)
    if kept.shape[1] < 2:
        raise UsageError("correlations need at least two responses that are not constant")
    matrix = kept.corr(method=method)
    strength = matrix.abs().fillna(0.0)
    _, labels = connected_components(strength.to_numpy() >= threshold, directed=False)
    groups = [list(kept.columns[labels == label]) for label in np.unique(labels)]
    # The largest first; within a group, from the centre outwards.
    groups.sort(key=len, reverse=True)
    groups = [sorted(group, key=lambda name: -strength.loc[name, group].sum()) for group in groups]
    representatives = [next((p for p in prefer if p in group), group[0]) for group in groups]
    order = [name for group in groups for name in group]
    return Correlations(
        matrix=matrix.loc[order, order].rename_axis("response"),
        threshold=threshold,
        clusters=tuple(tuple(group) for group in groups),
        representatives=tuple(representatives),
        dropped=tuple(name for name in values.columns if name not in kept.columns),
        runs=len(values),
    )
