"""The study that tests of studies begin with."""

from __future__ import annotations

from typing import Any

from dumbbell.studies import Run, Study

SCENARIO: dict[str, Any] = {
    "duration": "4s",
    "warmup": "1s",
    "path": {"rate": "10Mbit", "rtt": "20ms"},
    "flows": [{"cc": "cubic"}, {"cc": "reno"}],
}
FACTORS: dict[str, Any] = {
    "rate": {"key": "path.rate", "levels": ["5Mbit", "10Mbit"]},
    "rtt": {"key": "path.rtt", "levels": ["10ms", "20ms"]},
    "cc": {"key": "flows[0].cc", "levels": ["cubic", "reno"]},
}


def study(**changes: Any) -> Study:
    return Study.from_dict({"scenario": SCENARIO, "factors": FACTORS, **changes}, file="s.toml")


def levels(runs: list[Run], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(run.factors[name] for name in names) for run in runs]
