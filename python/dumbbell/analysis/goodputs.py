"""Goodputs of alternate and of TCP flows by flow group, for the analyses of mixed networks.

A flow group is what flows have in common: size of file, class of path, speed of interface.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from dumbbell._errors import UsageError
from dumbbell.analysis._analysis import check_columns
from dumbbell.analysis._frame import response_values

LEAST_FLOWS = 5
KINDS = ("alternate", "tcp")


def goodputs(
    frame: pd.DataFrame,
    *,
    alternate: str,
    tcp: str,
    alternate_flows: str | None = None,
    tcp_flows: str | None = None,
    condition: str = "condition",
    algorithm: str = "algorithm",
    files: Mapping[str, str] | None = None,
    least_flows: int = LEAST_FLOWS,
) -> pd.DataFrame:
    """The goodput columns of a frame of runs as one row for each condition, algorithm and group.

    `alternate` and `tcp` name the columns with `{group}` where the group stands, such as
    `"goodput_alternate_{group}"`; `alternate_flows` and `tcp_flows` name the numbers of completed
    flows in the same way. A goodput of fewer than `least_flows` flows is missing. `files` gives the
    file type of each group. Replicates are averaged. The columns are `condition`, `algorithm`,
    `group`, `alternate`, `tcp` and `file`. Raises UsageError.
    """
    check_columns(frame, [condition, algorithm])
    patterns = {"alternate": (alternate, alternate_flows), "tcp": (tcp, tcp_flows)}
    groups = _groups(frame, alternate)
    parts = []
    for group in groups:
        part = pd.DataFrame({"condition": frame[condition], "algorithm": frame[algorithm]})
        part["group"] = group
        for kind, (goodput, flows) in patterns.items():
            name = goodput.replace("{group}", group)
            part[kind] = response_values(frame, [name])[name]
            if flows is not None:
                name = flows.replace("{group}", group)
                few = response_values(frame, [name])[name] < least_flows
                part.loc[few, kind] = np.nan
        parts.append(part)
    keys = ["condition", "algorithm", "group"]
    table = pd.concat(parts).groupby(keys, sort=False)[list(KINDS)].mean().reset_index()
    table["file"] = "all" if files is None else table["group"].map(dict(files))
    return table


def check_goodputs(table: pd.DataFrame, wanted: tuple[str, ...] = ("alternate", "tcp")) -> None:
    """Raise UsageError for a table without the columns that `goodputs` makes."""
    check_columns(table, ["condition", "algorithm", *wanted])
    if table.empty:
        raise UsageError("the table of goodputs is empty")


def _groups(frame: pd.DataFrame, pattern: str) -> list[str]:
    if pattern.count("{group}") != 1:
        raise UsageError(f'"{pattern}": expected {{group}} where the flow group stands')
    before, after = pattern.split("{group}")
    shape = re.compile(f"{re.escape(before)}(.+){re.escape(after)}")
    found = [match[1] for name in frame.columns if (match := shape.fullmatch(str(name)))]
    if not found:
        raise UsageError(f'the table of runs has no column "{pattern}"')
    return found
