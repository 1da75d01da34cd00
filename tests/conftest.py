"""Fixtures shared by all tests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import settings

from dumbbell._registry import Registry

# A shared machine can be slow; how long an example takes says nothing of its correctness.
settings.register_profile("dumbbell", deadline=None)
settings.load_profile("dumbbell")


def _param(name: str, unit: str, default: Any, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "unit": unit,
        "default": default,
        "doc": f"{name} of a test",
        "minimum": None,
        "maximum": None,
        "choices": [],
        **more,
    }


def _entry(name: str, *params: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "summary": f"{name} for tests", "source": "test", "params": list(params)}


@pytest.fixture(scope="session")
def registry() -> Registry:
    """A registry with every unit of parameter, so that these tests need no compiled engine."""
    controllers = [
        _entry("reno"),
        _entry(
            "cubic",
            _param("beta", "fraction", 0.7),
            _param("c", "number", 0.4, minimum=0.01, maximum=10.0),
            _param("hystart", "bool", True),
            _param("slow_start", "choice", "classic", choices=["classic", "hystart++"]),
        ),
        _entry("bbr", _param("min_rtt_window", "time", 10**10, minimum=1.0)),
        _entry("ledbat", _param("target", "time", 10**8), _param("cap", "segments", 4)),
    ]
    queues = [
        _entry(
            "fifo",
            _param("limit", "packets", None, minimum=1.0),
            _param("limit_bytes", "bytes", None, minimum=1.0),
        ),
        _entry(
            "codel",
            _param("limit", "packets", 1000, minimum=1.0),
            _param("target", "time", 5_000_000, minimum=1.0, maximum=3.6e12),
            _param("ecn", "bool", False),
        ),
        _entry(
            "fq_codel",
            _param("limit", "packets", 10240, minimum=1.0),
            _param("flows", "count", 1024, minimum=1.0, maximum=65536.0),
            _param("quantum", "bytes", 1514, minimum=256.0),
        ),
        _entry("tbf", _param("peak", "rate", None)),
    ]
    return Registry.from_json(json.dumps(controllers), json.dumps(queues))
