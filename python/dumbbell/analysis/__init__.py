"""Analysis of experiments: functions on data frames, their figures, and a report.

Each module holds one method: functions that take a frame with a row per run (factors, responses,
perhaps `replicate` and `block`) and return a small result with a `table`, a `figure()` and a
`reading()`, one sentence with the numbers. For example::

    from dumbbell.analysis.effects import main_effects

    found = main_effects(frame, ["goodput", "delay"], ["rate", "rtt", "cc"])

Needs the extra `study`.
"""

from __future__ import annotations

from importlib.util import find_spec

from dumbbell._errors import MissingExtraError

if not all(map(find_spec, ("SALib", "matplotlib", "pandas", "scipy", "sklearn", "statsmodels"))):
    raise MissingExtraError("analysing experiments", "study")
