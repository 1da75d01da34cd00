"""The sections of a study's report: each runs an analysis, or notes why it does not apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from dumbbell._errors import UsageError
from dumbbell._plots_data import number
from dumbbell.analysis._style import listed
from dumbbell.analysis.congestion import Congestion, congestion
from dumbbell.analysis.report import Picture, Section

if TYPE_CHECKING:
    from dumbbell.analysis.study import Plan

CONDITION = "condition"
_MOST_IN_FOCUS = 4
_LEAST_LEVELS = 8
_MOST_CLASSES = 6
_LEAST_IN_CLASS = 4
"""Conditions that there must be, on average, for each class of congestion."""


class StudySections:
    """Runs the analyses one after the other; an analysis that does not apply is noted."""

    def __init__(self, frame: pd.DataFrame, plan: Plan) -> None:
        self.plan = plan
        self.goodputs = plan.goodputs()
        others = [name for name in plan.responses if name not in self.goodputs]
        self.responses = others or list(plan.responses)
        self.sections: list[Section] = []
        self.left_out: list[tuple[str, str]] = []
        self.factors = [name for name in plan.factors if name != plan.algorithm]
        self.varied = [name for name in self.factors if frame[name].nunique() > 1]
        self.two_level = [name for name in self.varied if frame[name].nunique() == 2]
        self.space_filling = [
            name
            for name in self.varied
            if pd.api.types.is_numeric_dtype(frame[name]) and frame[name].nunique() >= _LEAST_LEVELS
        ]
        self.frame = frame
        # A factor may be called so.
        self.condition = CONDITION if CONDITION not in plan.factors else f"{CONDITION} number"
        if self.condition not in frame.columns:
            numbers = self._numbers(frame) if self.factors else 1
            numbered = frame.assign(**{self.condition: numbers})
            self.frame = numbered.sort_values(self.condition, kind="stable")
        self.averaged = self._over_algorithms()
        self.congestion: Congestion | None = None
        self.focus: list[str] = []
        self.many = plan.algorithm is not None and frame[plan.algorithm].nunique() >= 3

    def run(self) -> None:
        self._do("Conditions", self._conditions)
        if self.plan.meanings:
            self._do("Responses", self._meanings)
        if len(self.responses) > 1:
            self._do("Correlation of responses", self._correlations)
        self.focus = self._focus()
        self._do("Main effects", self._main_effects)
        self._do("Interactions", self._interactions)
        self._do("Half-normal plots", self._half_normal)
        self._do("Analysis of variance", self._anova)
        self._do("Ten steps", self._ten_steps)
        if self.space_filling:
            self._do("Sensitivity", self._sensitivity)
        if len(self.responses) > 1:
            self._do("Principal components", lambda: self._components(self.responses))
        self._do("Intervals", self._intervals)
        if self.plan.algorithm is not None:
            self._do("Algorithms in pairs", self._paired)
        if self.many:
            self._do("Clusters of algorithms", self._clusters)
            self._do("Algorithms that differ", self._outliers)
            self._do("Responses by condition", self._bars)
        if self.goodputs:
            name = "Principal components of goodputs"
            self._do(name, lambda: self._components(self.goodputs))
            self._do("Goodput ranks", self._ranks)
            self._do("Coexistence with TCP", self._coexistence)

    def _do(self, title: str, make: Callable[[], Section | None]) -> None:
        try:
            section = make()
        except UsageError as error:
            self.left_out.append((title, str(error)))
            return
        if section is not None:
            self.sections.append(replace(section, title=title))

    def _numbers(self, frame: pd.DataFrame) -> pd.Series:
        """The number of each run's condition."""
        order = frame if self.plan.order is None else self.plan.order
        rows = order[self.factors].drop_duplicates().apply(tuple, axis=1)
        number_of = {levels: i for i, levels in enumerate(rows, start=1)}
        return frame[self.factors].apply(tuple, axis=1).map(number_of)

    def _over_algorithms(self) -> pd.DataFrame:
        """Mean over algorithms of the responses: one row a condition and replicate."""
        if self.plan.algorithm is None:
            return self.frame
        replicate = ["replicate"] if "replicate" in self.frame.columns else []
        keys = [*self.factors, self.condition, *replicate]
        groups = self.frame.groupby(keys, sort=False, dropna=False)
        means: pd.DataFrame = groups[list(self.plan.responses)].mean().reset_index()
        return means

    def _focus(self) -> list[str]:
        """The responses shown in detail: the plan's, or those that order conditions or represent
        others."""
        if self.plan.focus:
            return [name for name in self.plan.focus if name in self.responses]
        wanted = [*self._measure(), *self.focus]
        names = [name for name in dict.fromkeys(wanted) if name in self.responses]
        names += [name for name in self.responses if name not in names]
        return names[:_MOST_IN_FOCUS]

    def _what(self, response: str) -> str:
        """A response's name, and what it is where that is known."""
        meaning = self.plan.meanings.get(response)
        return f"{response} ({meaning.rstrip('.')})" if meaning else response

    def _measure(self) -> list[str]:
        return [self.plan.congestion] if self.plan.congestion else []

    def _meanings(self) -> Section:
        table = pd.Series(self.plan.meanings, name="meaning").rename_axis("response")
        return Section("", tables={"Responses": table.to_frame()})

    def _conditions(self) -> Section | None:
        if not self.factors:
            return None
        runs = self.frame.groupby(self.condition)
        table = runs[self.factors].first().assign(runs=runs.size())
        readings, pictures = [], []
        algorithms = ""
        if self.plan.algorithm is not None:
            algorithms = f" of {self.frame[self.plan.algorithm].nunique()} algorithms"
        readings.append(
            f"{len(self.frame)} runs{algorithms} in {len(table)} conditions that "
            f"{listed(self.varied) or 'nothing'} make."
        )
        if self.plan.algorithm is not None:
            cells = len(table) * self.frame[self.plan.algorithm].nunique()
            empty = cells - len(self.frame[[self.condition, self.plan.algorithm]].drop_duplicates())
            if empty:
                readings.append(
                    f"{empty} of {cells} pairs of condition and algorithm have no run: means over "
                    "algorithms are of those that there are."
                )
        if self.plan.congestion is not None and len(table) > 1:
            self.congestion = congestion(
                self.frame,
                self.plan.congestion,
                condition=self.condition,
                classes=max(2, min(_MOST_CLASSES, len(table) // _LEAST_IN_CLASS)),
            )
            readings.append(self.congestion.reading())
            text = f"{self._what(self.plan.congestion)}: mean over runs, coloured by class."
            pictures.append(Picture(self.congestion.figure(), text))
            table = table.join(self.congestion.table.add_prefix("congestion "))
        return Section("", readings, pictures, {"Conditions": table})

    def _correlations(self) -> Section:
        from dumbbell.analysis.correlation import correlations

        prefer = [*self.plan.focus, *self._measure()]
        found = correlations(self.frame, self.responses, prefer=prefer)
        self.focus = list(found.representatives)
        caption = "Correlations over all runs, responses ordered by group, and how strong they are."
        tables = {"Groups of responses": found.table, "Correlations": found.matrix}
        return Section("", [found.reading()], [Picture(found.figure(), caption)], tables)

    def _main_effects(self) -> Section:
        from dumbbell.analysis.effects import main_effects

        self._need_two_level()
        levels = self._low_and_high()
        found = main_effects(self.averaged, self.responses, self.two_level, levels=levels)
        pictures = [
            Picture(found.figure(self.focus), "Mean response at both levels of each factor."),
            Picture(
                found.signs_figure(),
                "Sign of each effect; ** for p < 0.01, * for p < 0.05.",
            ),
        ]
        tables = {"Main effects": found.table, "Factors over all responses": found.overall()}
        return Section("", [found.reading(name) for name in self.focus], pictures, tables)

    def _interactions(self) -> Section:
        from dumbbell.analysis.effects import interactions

        self._need_two_level(2)
        levels = self._low_and_high()
        found = interactions(self.averaged, self.focus, self.two_level, levels=levels)
        pictures = [
            Picture(found.figure(name), f"{self._what(name)}: parallel lines mean no interaction.")
            for name in self.focus[:1]
        ]
        readings = [found.reading(name) for name in self.focus]
        return Section("", readings, pictures, {"Interactions and aliases": found.table})

    def _half_normal(self) -> Section:
        from dumbbell.analysis.halfnormal import effects_plot

        self._need_two_level(2)
        readings, pictures, tables = [], [], {}
        for name in self.focus:
            plot = effects_plot(self.averaged, name, self.two_level, levels=self._low_and_high())
            readings.append(plot.reading())
            caption = f"{self._what(name)}: effects that noise would not make lie off the line."
            pictures.append(Picture(plot.figure(), caption))
            tables[f"Effects on {name}"] = plot.table
        return Section("", readings, pictures, tables)

    def _anova(self) -> Section:
        from dumbbell.analysis.anova import anova

        factors = list(self.varied)
        if self.plan.algorithm is not None and self.frame[self.plan.algorithm].nunique() > 1:
            factors.append(self.plan.algorithm)
        readings, pictures, tables = [], [], {}
        for name in self.focus:
            try:
                found = anova(self.frame, name, factors)
            except UsageError:
                # Without replicates, the interactions are the error.
                found = anova(self.frame, name, factors, order=1)
            readings.append(found.reading())
            pictures.append(
                Picture(found.figure(), f"What explains the variation in {self._what(name)}.")
            )
            tables[f"Analysis of variance of {name}"] = found.table
        return Section("", readings, pictures, tables)

    def _ten_steps(self) -> Section:
        from dumbbell.analysis.graphical import ten_steps

        self._need_two_level(2)
        name = self.focus[0]
        found = ten_steps(self.averaged, name, self.two_level, levels=self._low_and_high())
        what = self._what(name)
        pictures = [Picture(made, f"{what}: {step}.") for step, made in found.figures().items()]
        return Section("", [found.reading()], pictures, {f"Contrasts of {name}": found.table})

    def _intervals(self) -> Section:
        from dumbbell.analysis.bootstrap import bootstrap

        # Runs of one condition have their demand in common.
        by = [] if self.plan.algorithm is None else [self.plan.algorithm]
        found = bootstrap(self.frame, self.focus, by=by, cluster=self.condition)
        caption = "Means over conditions, and how far they might be off with other conditions."
        return Section("", [found.reading()], [Picture(found.figure(), caption)], {
            "Means and their intervals": found.table
        })  # fmt: skip

    def _sensitivity(self) -> Section:
        from dumbbell.analysis.sensitivity import given_data

        readings, pictures, tables = [], [], {}
        for name in self.focus:
            found = given_data(self.averaged, name, self.space_filling)
            readings.append(found.reading())
            pictures.append(
                Picture(found.figure(), f"{self._what(name)}: the longer, the more it matters.")
            )
            tables[f"Sensitivity of {name}"] = found.table
        return Section("", readings, pictures, tables)

    def _components(self, responses: Sequence[str]) -> Section:
        from dumbbell.analysis.components import components

        found = components(self.averaged, responses, label=self.condition, factors=self.varied)
        pictures = [
            Picture(
                found.figure(),
                "Shares of the variance; conditions as points and responses as arrows on the first "
                "two components.",
            )
        ]
        if len(responses) > 8:
            pictures.append(
                Picture(found.loadings_figure(), "How much each response weighs in a component.")
            )
        tables = {"Components": found.table, "Loadings": found.loadings.rename_axis("response")}
        return Section("", [found.reading()], pictures, tables)

    def _paired(self) -> Section:
        from dumbbell.analysis.multiplicity import adjust
        from dumbbell.analysis.paired import paired

        algorithm = str(self.plan.algorithm)
        pair = [self.condition, *(["replicate"] if "replicate" in self.frame.columns else [])]
        readings, pictures, tests = [], [], []
        for name in self.focus:
            found = paired(self.frame, name, algorithm, pair)
            readings.append(found.reading())
            caption = f"{self._what(name)}: differences between runs that have all else in common."
            pictures.append(Picture(found.figure(), caption))
            tests.append(found.table.reset_index().assign(response=name, baseline=found.baseline))
        table = pd.concat(tests, ignore_index=True)
        head = ["response", algorithm, "baseline"]
        table = table[[*head, *(name for name in table.columns if name not in head)]]
        adjusted = adjust(table)
        return Section("", [*readings, adjusted.reading()], pictures, {"Pairs": adjusted.table})

    def _clusters(self) -> Section:
        from dumbbell.analysis.clustering import clusters

        found = clusters(self.frame, self.responses, **self._compared())
        others = []
        for linkage in ("single", "complete"):
            other = clusters(self.frame, self.responses, linkage=linkage, **self._compared())
            others.append(f"With {linkage} linkage: {other.reading()}")
        caption = "Algorithms that behave alike join low in a tree."
        tables = {"Who stands out": found.counts(), "Trees": found.table}
        pictures = [Picture(found.figure(), caption)]
        return Section("", [found.reading(), *others], pictures, tables)

    def _outliers(self) -> Section:
        from dumbbell.analysis.outliers import outliers

        found = outliers(self.frame, self.responses, **self._compared())
        caption = (
            "Algorithms that differ from the others significantly (Grubbs' test) and by 10 % or "
            "more of the mean."
        )
        tables = {
            "Flags (both filters)": found.counts(),
            "Flags (significance alone)": found.counts("significant"),
            "Tests": found.table,
        }
        return Section("", [found.reading()], [Picture(found.figure(), caption)], tables)

    def _bars(self) -> Section:
        from dumbbell.analysis.summary import response_bars

        pictures = [
            Picture(
                response_bars(self.frame, name, **self._compared()),
                f"{self._what(name)}: bars are the mean over algorithms, points the algorithms.",
            )
            for name in self.focus
        ]
        means = self.frame.groupby(self.plan.algorithm, sort=False)[self.focus].mean()
        readings = [
            f"{name}: over all conditions {low} is lowest, {number(means.loc[low, name])}, and "
            f"{high} highest, {number(means.loc[high, name])}."
            for name, low, high in zip(means, means.idxmin(), means.idxmax(), strict=True)
        ]
        return Section("", readings, pictures, {"Means over conditions": means})

    def _goodputs(self) -> pd.DataFrame:
        from dumbbell.analysis.goodputs import goodputs

        if self.plan.algorithm is None:
            raise UsageError("no factor is the algorithm")
        flows = self.plan.flows or (None, None)
        return goodputs(
            self.frame,
            alternate=self.plan.goodput[0],
            tcp=self.plan.goodput[1],
            alternate_flows=flows[0],
            tcp_flows=flows[1],
            condition=self.condition,
            algorithm=self.plan.algorithm,
            files=self.plan.files,
        )

    def _ranks(self) -> Section:
        from dumbbell.analysis.ranks import ranks

        found = ranks(self._goodputs(), congestion=self.congestion)
        pictures = [
            Picture(found.figure("alternate"), "Ranks by goodput of the algorithm's own flows."),
            Picture(found.figure("tcp"), "Ranks by goodput of the TCP flows beside them."),
            Picture(found.scatter(), "Low and left is always among the best."),
        ]
        return Section("", [found.reading()], pictures, {"Ranks": found.table})

    def _coexistence(self) -> Section:
        from dumbbell.analysis.coexistence import coexistence

        found = coexistence(self._goodputs(), congestion=self.congestion)
        pictures = [
            Picture(found.figure(), "Above the line, the algorithm's flows have more than TCP's."),
            Picture(found.histograms(), "Differences by class of congestion."),
        ]
        tables = {"Coexistence": found.table}
        if self.congestion is not None:
            tables["By class of congestion"] = found.by_class()
        return Section("", [found.reading()], pictures, tables)

    def _compared(self) -> dict[str, Any]:
        return {
            "condition": self.condition,
            "algorithm": self.plan.algorithm,
            "congestion": self.congestion,
        }

    def _low_and_high(self) -> dict[str, tuple[Any, Any]]:
        """Both levels of the factors with two of which the order is known."""
        known = self.plan.levels
        return {n: (known[n][0], known[n][1]) for n in self.two_level if len(known.get(n, ())) == 2}

    def _need_two_level(self, least: int = 1) -> None:
        if len(self.two_level) < least:
            many = "a factor" if least == 1 else f"{least} factors"
            raise UsageError(f"needs {many} with two levels")
