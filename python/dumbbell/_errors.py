"""Exceptions that dumbbell raises on purpose.

DumbbellError
├── ScenarioError(ValueError)   the user's scenario: file, key, value, what was expected
├── UsageError(ValueError)      arguments of a command or function
├── ResultError(ValueError)     a result that cannot be read
├── BackendError                a backend that cannot run here
└── MissingExtraError           a feature whose optional packages are not installed
"""

from __future__ import annotations

import datetime
import difflib
import json
from collections.abc import Iterable

_LONGEST_VALUE = 60


class DumbbellError(Exception):
    """Base of all errors that are reported in one line and without a traceback."""


class UsageError(DumbbellError, ValueError):
    """An argument is wrong."""


class ResultError(DumbbellError, ValueError):
    """A result directory cannot be read."""


class BackendError(DumbbellError):
    """The backend cannot run here."""


class MissingExtraError(DumbbellError):
    """Optional packages are needed.

    `feature` says what for, `extra` which extra brings them.
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs optional packages: pip install 'dumbbell[{extra}]'")
        self.feature = feature
        self.extra = extra


class ScenarioError(DumbbellError, ValueError):
    """A scenario is wrong.

    `file` is the scenario's file if it has one, `key` the dotted key (`flows[0].cc`), `value` what
    stands there (`None` where nothing does), `expected` the sentence that says what should.
    """

    def __init__(
        self, *, expected: str, file: str | None = None, key: str = "", value: object = None
    ) -> None:
        self.file = file
        self.key = key
        self.value = value
        self.expected = expected
        super().__init__(self._line())

    def _line(self) -> str:
        place = self.key
        if self.value is not None and self.key:
            place = f"{self.key} = {show_value(self.value)}"
        parts = [part for part in (self.file, place, self.expected) if part]
        return printable(": ".join(parts))

    def in_file(self, file: str | None) -> ScenarioError:
        """The same error, said of a file."""
        return ScenarioError(file=file, key=self.key, value=self.value, expected=self.expected)


def show_value(value: object) -> str:
    """A value as a scenario writes it, cut where it is long."""
    if isinstance(value, datetime.date | datetime.time):
        text = value.isoformat()
    else:
        try:
            text = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            text = type(value).__name__
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def printable(text: str) -> str:
    """The text with everything that would break a line or a terminal escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode("ascii")
        for c in text
    )


def suggest(name: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?`, or a list of what there is, or nothing."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    if near:
        return f'; did you mean "{near[0]}"?'
    return f"; there are {', '.join(names)}" if names and len(names) <= 40 else ""
