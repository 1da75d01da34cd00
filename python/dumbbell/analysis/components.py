"""Principal components of the responses: how many things vary, and what separates the runs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import check_columns
from dumbbell.analysis._frame import response_values, varying
from dumbbell.analysis._style import SMALL, legend, listed, looks, small_colorbar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_ARROWS = 12
_MOST_LABELS = 80
_LEAST_SHARE = 0.01
_MOST_MISSING = 0.1


@dataclass(frozen=True)
class Components:
    """`shares` of the variance by component ("PC1", ...); `loadings` (response, component) and
    `scores` (run, component); `explained` (factor, component) is the share of a component's
    variance that lies between the levels of a factor. `left_out` counts runs with missing values,
    `dropped` names responses that are constant or often missing."""

    shares: pd.Series
    loadings: pd.DataFrame
    scores: pd.DataFrame
    explained: pd.DataFrame
    levels: pd.DataFrame
    labels: tuple[str, ...]
    left_out: int
    dropped: tuple[str, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row a component: its share, those up to it, its three heaviest responses and, with
        factors, the one that explains most of it and how much."""
        table = pd.DataFrame({"share": self.shares, "cumulative": self.shares.cumsum()})
        table["mostly"] = [
            ", ".join(self.loadings[name].abs().nlargest(3).index) for name in table.index
        ]
        if not self.explained.empty:
            table["factor"] = [self.strongest(name) for name in table.index]
            table["explained"] = self.explained.max()
        return table.rename_axis("component")

    def enough(self, share: float = 0.8) -> int:
        """The least number of components that hold `share` of the variance."""
        return int(np.searchsorted(self.shares.cumsum().to_numpy(), share - 1e-12) + 1)

    def strongest(self, component: str = "PC1") -> str | None:
        """The factor whose levels explain most of a component; None without factors."""
        if self.explained.empty:
            return None
        return str(self.explained[component].idxmax())

    def reading(self) -> str:
        low, high = self.enough(0.8), self.enough(0.9)
        many = f"{low}" if low == high else f"{low} (80 %) to {high} (90 %)"
        text = (
            f"{many} of {len(self.shares)} components hold most of the variance; the first holds "
            f"{100 * self.shares.iloc[0]:.1f} %"
        )
        if len(self.shares) > 1:
            text += f", the second {100 * self.shares.iloc[1]:.1f} %"
        for component in self.shares.index[:2]:
            heaviest = self.loadings[component].abs().nlargest(3).index
            text += f". {component} is mostly {listed(heaviest)}"
            factor = self.strongest(component)
            if factor is not None:
                part = self.explained.loc[factor, component]
                text += f", and {factor} explains {100 * part:.0f} % of it"
        if self.left_out:
            text += f". {self.left_out} runs with missing values are left out"
        if self.dropped:
            text += f". Constant or often missing, and left out: {listed(self.dropped)}"
        return f"{text}."

    def figure(self, *, colour: str | None = None) -> Figure:
        """Variance shares, and the biplot of the first two components.

        `colour` is the factor that points are coloured by, otherwise the one that explains most of
        the first component.
        """
        from dumbbell._plots import figure

        if colour is None:
            colour = self.strongest()
        elif colour not in self.levels:
            raise UsageError(f'colour = "{colour}": not among the factors')
        made, axes = figure(1, 2, (9.6, 5.2), width_ratios=[1, 2.4])
        self._draw_shares(axes[0, 0])
        if len(self.shares) < 2:
            axes[0, 1].set_visible(False)
        else:
            self._draw_biplot(axes[0, 1], colour)
        if colour is not None:
            legend(made, looks(sorted(self.levels[colour].unique(), key=in_order)), colour)
        return made

    def loadings_figure(self, *, most: int = 6) -> Figure:
        """The loadings of the first components as a matrix, readable with many responses."""
        from dumbbell._plots import figure

        shown = self.loadings.loc[:, self.shares >= _LEAST_SHARE].iloc[:, :most]
        reach = float(shown.abs().to_numpy().max())
        made, axes = figure(1, 1, (2.6 + 0.55 * shown.shape[1], 1.2 + 0.19 * len(shown)))
        ax = axes[0, 0]
        image = ax.imshow(shown, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto")
        ax.grid(False)
        heads = [f"{name}\n{100 * self.shares[name]:.0f} %" for name in shown.columns]
        ax.set_xticks(range(shown.shape[1]), heads, fontsize=SMALL)
        ax.xaxis.tick_top()
        ax.set_yticks(range(len(shown)), shown.index, fontsize=SMALL)
        small_colorbar(made, image, ax, "loading")
        return made

    def _draw_shares(self, ax: Axes) -> None:
        shown = self.shares.iloc[:10]
        x = np.arange(1, len(shown) + 1)
        ax.bar(x, 100 * shown, color="#0072B2", label="each")
        ax.plot(x, 100 * shown.cumsum(), "o-", color="#D55E00", markersize=4, label="together")
        ax.axhspan(80, 90, color="#EEEEEE", zorder=0, label="80-90 %")
        ax.set_ylim(0, 103)
        ax.set_xticks(x)
        ax.set_xlabel("component")
        ax.set_ylabel("share of the variance (%)")
        ax.legend(loc="center right", fontsize=SMALL, frameon=True, framealpha=0.9)

    def _draw_biplot(self, ax: Axes, colour: str | None) -> None:
        xy = self.scores[["PC1", "PC2"]].to_numpy()
        if colour is None:
            ax.scatter(xy[:, 0], xy[:, 1], s=26, color="#0072B2", zorder=3)
        else:
            levels = self.levels[colour]
            for level, look in looks(sorted(levels.unique(), key=in_order)).items():
                at = xy[(levels == level).to_numpy()]
                ax.scatter(
                    at[:, 0], at[:, 1], s=26, color=look.colour, marker=look.marker, zorder=3
                )
        if len(xy) <= _MOST_LABELS:
            for place, label in zip(xy, self.labels, strict=True):
                ax.annotate(
                    label, place, xytext=(3, 3), textcoords="offset points", fontsize=7, zorder=4
                )
        arrows = self.loadings[["PC1", "PC2"]].to_numpy()
        length = np.hypot(*arrows.T)
        # The arrows reach as far as the points do, on the axis where they come to that first.
        room, reach = np.abs(xy).max(axis=0), np.abs(arrows).max(axis=0)
        arrows = arrows * min(r / a for r, a in zip(room, reach, strict=True) if a > 0)
        named = set(np.argsort(-length)[:_MOST_ARROWS].tolist())
        texts = []
        for i, (dx, dy) in enumerate(arrows):
            shade = "#444444" if i in named else "#BBBBBB"
            ax.annotate(
                "",
                (dx, dy),
                (0, 0),
                arrowprops={"arrowstyle": "->", "color": shade, "linewidth": 0.8},
            )
            if i in named:
                texts.append((dx, dy, str(self.loadings.index[i])))
        ax.update_datalim(arrows)
        ax.margins(0.18, 0.12)
        _place_names(ax, texts)
        ax.axhline(0, color="#999999", linewidth=0.6)
        ax.axvline(0, color="#999999", linewidth=0.6)
        ax.set_xlabel(f"PC1 ({100 * self.shares['PC1']:.1f} % of the variance)")
        ax.set_ylabel(f"PC2 ({100 * self.shares['PC2']:.1f} %)")


def components(
    frame: pd.DataFrame,
    responses: Sequence[str],
    *,
    label: str | None = None,
    factors: Sequence[str] = (),
) -> Components:
    """Principal components of the standardised responses (mean 0, standard deviation 1).

    Responses that are constant or missing in more than a tenth of the runs, then runs with missing
    values, and components without variance are left out. The sign of a component is such that its
    largest loading is positive. `label` is the column that names points, `factors` those that may
    explain components. Raises UsageError.
    """
    check_columns(frame, [*([label] if label else []), *factors])
    values = response_values(frame, responses)
    sparse = values.columns[values.isna().mean() > _MOST_MISSING]
    values = values.drop(columns=sparse)
    complete = values.notna().all(axis=1)
    kept = varying(values[complete])
    if kept.shape[0] < 2 or kept.shape[1] < 1:
        raise UsageError("components need two complete runs and a response that varies")
    standard = (kept - kept.mean()) / kept.std()
    left, singular, right = np.linalg.svd(standard.to_numpy(), full_matrices=False)
    # Components without variance are rounding.
    real = singular**2 > 1e-20 * np.sum(singular**2)
    left, singular, right = left[:, real], singular[real], right[real]
    sign = np.sign(right[np.arange(len(right)), np.argmax(np.abs(right), axis=1)])
    names = [f"PC{i + 1}" for i in range(len(singular))]
    scores = pd.DataFrame(left * singular * sign, index=kept.index, columns=names)
    levels = frame.loc[complete, list(factors)]
    explained = {factor: _between(scores, levels[factor]) for factor in factors}
    return Components(
        shares=pd.Series(singular**2 / np.sum(singular**2), index=names, name="share"),
        loadings=pd.DataFrame((right * sign[:, None]).T, index=kept.columns, columns=names),
        scores=scores,
        explained=pd.DataFrame(explained, index=names).T,
        levels=levels,
        labels=tuple(frame.loc[complete, label].astype(str)) if label else ("",) * len(kept),
        left_out=int((~complete).sum()),
        dropped=tuple(name for name in responses if name not in kept.columns),
    )


def _between(scores: pd.DataFrame, levels: pd.Series) -> pd.Series:
    """The correlation ratio: variance of the levels' means over the whole."""
    means = scores.groupby(levels).transform("mean")
    return (means**2).sum() / (scores**2).sum()


def in_order(level: Hashable) -> tuple[int, Any]:
    """Numbers by size, then names by letters."""
    if isinstance(level, int | float | np.number):
        return (0, float(level))
    return (1, str(level))


def _place_names(ax: Axes, texts: list[tuple[float, float, str]]) -> None:
    """Names at the arrows' heads, moved apart vertically where they would cover each other."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    apart, aside = 0.04 * (top - bottom), 0.008 * (right - left)
    for side in (1, -1):
        here = sorted((t for t in texts if (t[0] >= 0) == (side > 0)), key=lambda t: t[1])
        heights: list[float] = []
        for _, y, _ in here:
            heights.append(max(y, heights[-1] + apart) if heights else y)
        # What was moved up is shared between above and below.
        shift = float(np.mean([y for _, y, _ in here]) - np.mean(heights)) if here else 0.0
        for (x, y, name), height in zip(here, heights, strict=True):
            ax.annotate(
                name,
                (x, y),
                (x + aside * side, height + shift),
                ha="left" if side > 0 else "right",
                va="center",
                fontsize=SMALL,
                color="#333333",
                bbox={"facecolor": "white", "alpha": 0.6, "edgecolor": "none", "pad": 0.3},
                zorder=2.5,
            )
