"""How far a study is."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from dumbbell.studies._store import Store

_LAST = 100
"""Runs whose times give the rate: it changes when machines join."""


def status_of(store: Store) -> dict[str, Any]:
    """Counts of runs: runs, done, failed, missing, running (of the missing); errors, each with the
    number of its runs and the index of the first; rate_per_s and left_s, None if unknown."""
    finished, failed = store.finished(), store.failed()
    places = Counter(store.keys)
    missing = sum(number for key, number in places.items() if key not in finished)
    failures = sum(places[key] for key in failed)
    running = store.running()
    errors: dict[str, dict[str, Any]] = {}
    for key, error in failed.items():
        entry = {"error": error, "runs": 0, "first": store.keys.index(key)}
        errors.setdefault(error, entry)["runs"] += places[key]
    times = store.times()[-_LAST:]
    # While it is being done, the time since the last one counts as well.
    seconds = (time.time() if running else times[-1]) - times[0] if times else 0.0
    rate = len(times) / seconds if len(times) > 1 and seconds > 0 else None
    return {
        "runs": len(store.keys),
        "done": len(store.keys) - missing - failures,
        "failed": failures,
        "missing": missing,
        "running": running,
        "rate_per_s": rate,
        "left_s": missing / rate if rate else None,
        "errors": sorted(errors.values(), key=lambda entry: -entry["runs"]),
    }
