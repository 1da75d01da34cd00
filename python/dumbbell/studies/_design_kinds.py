"""Designs as a study file writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dumbbell._errors import suggest
from dumbbell._scenario_types import Items, Model, fail

if TYPE_CHECKING:
    from dumbbell.studies._study import Study
    from dumbbell.studies.designs import Design

MOST_RUNS = 1_000_000
Count = Annotated[int, Field(ge=1, le=MOST_RUNS)]
Seed = Annotated[int, Field(ge=0, lt=2**62)]


class _DesignBase(Model):
    cross: Items[str] = ()
    """Factors that stand outside the design: every row of it runs with all their levels."""

    def build(self, study: Study, columns: list[str]) -> Design:
        raise NotImplementedError


class FullDesign(_DesignBase):
    """All combinations of the levels."""

    kind: Literal["full"]

    def build(self, study: Study, columns: list[str]) -> Design:
        from dumbbell.studies.designs import full_factorial

        return full_factorial({name: study.factors[name].count() for name in columns})


class FractionalDesign(_DesignBase):
    """A regular fraction of two-level factors."""

    kind: Literal["fractional"]
    generators: dict[str, str] | str | None = None
    """A word for each generated factor: { F = "ABCDE" }, { x6 = "x2*x3*x4*x5" }, or as pyDOE."""
    resolution: Annotated[int, Field(ge=3)] | None = None
    """In place of generators: the smallest fraction of at least this resolution."""
    foldover: bool = False
    """Add the runs with all signs turned."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.generators is None) == (self.resolution is None):
            fail("expected either generators or resolution", "generators")
        return self

    def build(self, study: Study, columns: list[str]) -> Design:
        from dumbbell.studies.designs import foldover, fractional, fractional_of_resolution

        if self.generators is not None:
            design = fractional(columns, self.generators)
        else:
            assert self.resolution is not None
            design = fractional_of_resolution(columns, self.resolution)
        return foldover(design) if self.foldover else design


class PlackettBurmanDesign(_DesignBase):
    """A screening design of two-level factors."""

    kind: Literal["plackett-burman"]
    foldover: bool = False
    """Add the runs with all signs turned."""

    def build(self, study: Study, columns: list[str]) -> Design:
        from dumbbell.studies.designs import foldover, plackett_burman

        design = plackett_burman(columns)
        return foldover(design) if self.foldover else design


class LatinHypercubeDesign(_DesignBase):
    """Random points, one in each stratum of each factor."""

    kind: Literal["latin-hypercube"]
    runs: Count
    seed: Seed = 1

    def build(self, study: Study, columns: list[str]) -> Design:
        from dumbbell.studies.designs import latin_hypercube

        return latin_hypercube(columns, self.runs, self.seed)


class SobolDesign(_DesignBase):
    """Points of a Sobol' sequence."""

    kind: Literal["sobol"]
    runs: Count
    """A power of two."""
    seed: Seed = 1
    scramble: bool = True
    """Owen's scrambling, by the seed."""

    def build(self, study: Study, columns: list[str]) -> Design:
        from dumbbell.studies.designs import sobol

        return sobol(columns, self.runs, self.seed, scramble=self.scramble)


class OneAtATimeDesign(_DesignBase):
    """The first level of all factors, then each other level alone."""

    kind: Literal["one-at-a-time"]

    def build(self, study: Study, columns: list[str]) -> Design:
        from dumbbell.studies.designs import one_at_a_time

        return one_at_a_time({name: study.factors[name].count() for name in columns})


class TableDesign(_DesignBase):
    """Runs as they are written."""

    kind: Literal["table"]
    rows: Annotated[Items[Any], Field(min_length=1)]
    """Signs of all factors, "-+-", or tables of each factor's level (or label)."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        texts = [isinstance(row, str) for row in self.rows]
        for i, row in enumerate(self.rows):
            if not isinstance(row, str if texts[0] else dict):
                expected = "signs, such as -+-" if texts[0] else "a table of factors and levels"
                fail(f"expected {expected}", f"rows[{i}]")
        return self

    def build(self, study: Study, columns: list[str]) -> Design:
        from dumbbell.studies.designs import signs, table

        if isinstance(self.rows[0], str):
            for name in columns:
                if study.factors[name].count() != 2:
                    raise study.error(f"factors.{name}", "expected two levels, for signs")
            return signs(columns, self.rows)
        rows = [self._indexes(study, columns, i) for i in range(len(self.rows))]
        return table(columns, rows)

    def _indexes(self, study: Study, columns: list[str], i: int) -> list[int]:
        row = self.rows[i]
        for name in row:
            if name not in columns:
                raise study.error(
                    f"design.rows[{i}].{name}", f"no such factor{suggest(name, columns)}"
                )
        indexes = []
        for name in columns:
            if name not in row:
                raise study.error(f"design.rows[{i}].{name}", "missing; expected a level")
            levels = [
                study.factors[name].level(name, n) for n in range(study.factors[name].count())
            ]
            known = [level.label for level in levels]
            if row[name] not in known:
                raise study.error(
                    f"design.rows[{i}].{name}",
                    f"expected one of its levels{suggest(str(row[name]), map(str, known))}",
                    row[name],
                )
            indexes.append(known.index(row[name]))
        return indexes


def _kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


DesignField = Annotated[
    Annotated[
        FullDesign
        | FractionalDesign
        | PlackettBurmanDesign
        | LatinHypercubeDesign
        | SobolDesign
        | OneAtATimeDesign
        | TableDesign,
        Field(discriminator="kind"),
    ],
    BeforeValidator(_kind, json_schema_input_type=Any),
]
TWO_LEVEL = ("fractional", "plackett-burman")
