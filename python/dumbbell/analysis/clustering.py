"""Which algorithm behaves unlike the others: a cluster tree of the algorithms in each condition."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import p_text
from dumbbell.analysis._frame import cell_means, varying
from dumbbell.analysis._style import TITLE
from dumbbell.analysis.congestion import Congestion

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINKAGES = ("average", "single", "complete", "weighted", "centroid", "median", "ward")
SCALES = ("mean", "zscore")
_ACROSS = 8


@dataclass(frozen=True)
class Tree:
    """The cluster tree of one condition, in the form of `scipy.cluster.hierarchy.linkage`.

    `alone` is the algorithm that stands out, or None.
    """

    names: tuple[Hashable, ...]
    links: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    alone: Hashable | None

    @property
    def height(self) -> float:
        """Distance at which the last two clusters merge."""
        return float(self.links[-1, 2])

    @property
    def rest(self) -> float:
        """Height of the next merge below."""
        return float(self.links[-2, 2]) if len(self.links) > 1 else 0.0


@dataclass(frozen=True)
class Clusters:
    trees: dict[Hashable, Tree]
    algorithms: tuple[Hashable, ...]
    linkage: str
    ratio: float
    congestion: Congestion | None

    @property
    def table(self) -> pd.DataFrame:
        """One row a condition: who stands out ("" for nobody), and the heights."""
        rows = {
            condition: {
                "stands out": "" if tree.alone is None else tree.alone,
                "merge height": tree.height,
                "height of the rest": tree.rest,
            }
            for condition, tree in self.trees.items()
        }
        table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("condition")
        if self.congestion is not None:
            table["congestion rank"] = self.congestion.rank.reindex(table.index)
        return table

    def counts(self) -> pd.DataFrame:
        """One row an algorithm: in how many conditions it stands out and, with `congestion`,
        whether these are the congested ones: the point-biserial correlation of standing out with
        the congestion rank, and the two-sided p of the rank-sum (Mann-Whitney) test."""
        from scipy.stats import mannwhitneyu, pointbiserialr

        table = self.table
        rows = {}
        for name in self.algorithms:
            out = (table["stands out"] == name).to_numpy()
            row: dict[str, float] = {"conditions": int(out.sum()), "share": float(out.mean())}
            if self.congestion is not None:
                row |= {"correlation with congestion": math.nan, "p": math.nan}
                if 0 < out.sum() < len(out):
                    rank = table["congestion rank"].to_numpy(dtype=float)
                    row["correlation with congestion"] = float(pointbiserialr(out, rank)[0])
                    row["p"] = float(mannwhitneyu(rank[out], rank[~out]).pvalue)
            rows[name] = row
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("algorithm")

    def reading(self) -> str:
        counts = self.counts().sort_values("conditions", ascending=False, kind="stable")
        most = counts.iloc[0]
        many = len(self.trees)
        if most["conditions"] == 0:
            return f"No algorithm stands out in any of {many} conditions."
        text = f"{counts.index[0]} stands out in {most['conditions']:.0f} of {many} conditions"
        second = counts["conditions"].iloc[1]
        text += f", then {counts.index[1]} in {second:.0f}" if second else ", no other in any"
        if self.congestion is not None and not math.isnan(most["p"]):
            r = most["correlation with congestion"]
            where = "the more" if r > 0 else "the less"
            where = f"mainly in {where} congested" if most["p"] < 0.05 else "not tied to congestion"
            text += f"; {where} (r = {r:.2f}, {p_text(most['p'])})"
        return f"{text}."

    def figure(self) -> Figure:
        """A tree for each condition on one vertical scale; who stands out is orange."""
        from dumbbell._plots import figure

        order = list(self.trees)
        across = min(_ACROSS, len(order))
        down = math.ceil(len(order) / across)
        made, axes = figure(down, across, (1.3 * across + 0.6, 1.75 * down + 0.5), sharey=True)
        for ax, condition in zip(axes.ravel(), order, strict=False):
            _draw_tree(ax, self.trees[condition])
            ax.set_title(f"{condition}", **TITLE)
        for ax in axes.ravel()[len(order) :]:
            ax.set_visible(False)
        top = max(tree.height for tree in self.trees.values())
        axes[0, 0].set_ylim(0, 1.05 * top if top > 0 else 1)
        ordered = "" if self.congestion is None else ", from least to most congested"
        made.suptitle(f"conditions{ordered}; orange stands out", fontsize=9, ha="left", x=0.01)
        made.supylabel(f"distance ({self.linkage} linkage)", fontsize=9)
        return made


def clusters(
    frame: pd.DataFrame,
    responses: Sequence[str],
    *,
    condition: str = "condition",
    algorithm: str = "algorithm",
    linkage: str = "average",
    scale: str = "mean",
    ratio: float = 2.0,
    congestion: Congestion | None = None,
) -> Clusters:
    """Cluster the algorithms of each condition by their responses (Euclidean distance).

    Each response is divided by the mean over algorithms of its absolute value ("mean"), or
    standardised ("zscore"); responses that are the same for all algorithms, or missing for one, are
    left out of a condition. An algorithm *stands out* if it is alone when the tree is cut in two,
    and the merge that takes it in is at least `ratio` times as high as the rest of the tree.
    Replicates are averaged. Raises UsageError.
    """
    if linkage not in LINKAGES:
        raise UsageError(f'linkage = "{linkage}": expected one of {", ".join(LINKAGES)}')
    if scale not in SCALES:
        raise UsageError(f'scale = "{scale}": expected {" or ".join(SCALES)}')
    means = cell_means(frame, responses, condition=condition, algorithm=algorithm)
    names = tuple(means.index.get_level_values(1).unique())
    if len(names) < 3:
        raise UsageError(f"clustering needs at least 3 algorithms, there are {len(names)}")
    present = means.index.get_level_values(0).unique()
    order = [c for c in congestion.order if c in present] if congestion else list(present)
    trees = {}
    for name in order:
        here = means.loc[name]
        if len(here) >= 3:
            trees[name] = _tree(here, linkage, scale, ratio)
    if not trees:
        raise UsageError("no condition has runs of 3 algorithms")
    return Clusters(trees, names, linkage, ratio, congestion)


def stands_out(links: Any, names: Sequence[Hashable], ratio: float = 2.0) -> Hashable | None:
    """The algorithm that is alone at the top of a tree of `scipy`'s `linkage`, or None.

    It must be one side of the last merge, at least `ratio` times as high as the one below.
    """
    links = np.asarray(links, dtype=float)
    one, other, height = links[-1, :3]
    leaves = [int(side) for side in (one, other) if side < len(names)]
    rest = links[-2, 2] if len(links) > 1 else 0.0
    if len(leaves) != 1 or height <= 0 or height < ratio * rest:
        return None
    return names[leaves[0]]


def _tree(here: pd.DataFrame, method: str, scale: str, ratio: float) -> Tree:
    from scipy.cluster.hierarchy import linkage

    names = tuple(here.index)
    values = varying(here.dropna(axis=1))
    values = values / values.abs().mean() if scale == "mean" else _standard(values)
    if values.shape[1] == 0:
        values = pd.DataFrame(np.zeros((len(names), 1)))
    links = linkage(values.to_numpy(), method=method, metric="euclidean")
    return Tree(names, links, stands_out(links, names, ratio))


def _standard(values: pd.DataFrame) -> pd.DataFrame:
    return (values - values.mean()) / values.std()


def _draw_tree(ax: Axes, tree: Tree) -> None:
    from scipy.cluster.hierarchy import dendrogram

    drawn = dendrogram(tree.links, labels=list(tree.names), no_plot=True)
    for x, y in zip(drawn["icoord"], drawn["dcoord"], strict=True):
        ax.plot(x, y, color="#0072B2", linewidth=1.0)
    places = 10 * np.arange(len(tree.names)) + 5
    ax.set_xticks(places, drawn["ivl"], rotation=90, fontsize=7)
    for label in ax.get_xticklabels():
        if tree.alone is not None and label.get_text() == str(tree.alone):
            label.set(color="#D55E00", weight="bold")
    if tree.alone is not None:
        at = places[drawn["ivl"].index(tree.alone)]
        ax.plot([at, at], [0, tree.height], color="#D55E00", linewidth=1.6)
    ax.grid(False, axis="x")
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(0, 10 * len(tree.names))
