"""Flows whose congestion control is coupled, in a scenario: `[coupling.NAME]`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dumbbell._scenario_types import Items, Model, Name, Rate, Time, fail

Priority = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]
"""Above zero; a flow's share is in proportion to it."""
GroupNumber = Annotated[int, Field(ge=0, lt=2**32)]
"""Flows of one number are a group."""


class CouplingChange(Model):
    """What changes for a flow of a coupling at a set time."""

    at: Time
    flow: Name
    """Its id, or what the ids of several begin with."""
    priority: Priority | None = None
    desired: Rate | Literal["all"] | None = None
    """What its application can use; "all" lifts the limit."""
    group: GroupNumber | None = None
    coupled: bool | None = None
    """Join, or leave and go on alone."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.model_fields_set - {"at", "flow"}:
            fail("missing; expected priority, desired, group or coupled")
        return self


class Coupling(Model):
    """Flows that share what their congestion controls find out."""

    kind: Name
    """See `dumbbell list couplings`."""
    flows: Annotated[Items[Name], Field(min_length=1)]
    """Ids of flows; "rap" also stands for all flows "rap-1", "rap-2" and so on."""
    options: Annotated[dict[str, Any], Field(default_factory=dict)]
    """Options of the kind."""
    priorities: Annotated[dict[str, Priority], Field(default_factory=dict)]
    """By flow; default 1."""
    desired: Annotated[dict[str, Rate], Field(default_factory=dict)]
    """By flow, what its application can use; default: all it gets."""
    groups: Literal["one", "sbd"] | dict[str, GroupNumber] = "one"
    """All flows are one group; or groups are found by shared bottleneck detection (RFC 8382); or
    numbers by flow, 0 for those not named."""
    detection: Annotated[dict[str, Any], Field(default_factory=dict)]
    """Options of the detection (`dumbbell list couplings sbd`)."""
    changes: Items[CouplingChange] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.detection and self.groups != "sbd":
            fail('only with groups = "sbd"', "detection")
        for i, change in enumerate(self.changes):
            if change.group is not None and self.groups == "sbd":
                fail("the groups are found by detection", f"changes[{i}].group")
        return self
