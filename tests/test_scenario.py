"""Scenarios that are wrong are refused in one line; nothing else ever happens."""

from __future__ import annotations

import copy
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumbbell._errors import ScenarioError
from dumbbell._registry import Registry
from dumbbell._resolve import resolve
from dumbbell._scenario import Scenario, set_key, show_key, split_key

HOME: dict[str, Any] = {
    "duration": "60s",
    "warmup": "10s",
    "path": {
        "rate": "50Mbit",
        "rtt": "40ms",
        "queue": {"kind": "fifo", "limit": "1bdp"},
        "loss": {"kind": "gilbert-elliott", "p": 0.01, "r": 0.3},
        "reverse": {"rate": "5Mbit"},
        "changes": [{"at": "20s", "rate": "20Mbit"}],
    },
    "flows": [
        {"cc": "cubic"},
        {"cc": "bbr", "start": "10s", "traffic": {"kind": "onoff", "on": "1s", "off": "2s"}},
    ],
    "probes": [{"kind": "ping", "interval": "20ms"}],
}

DELETE = object()

WRONG: list[tuple[str, object, str]] = [
    # unknown keys and names, with the nearest
    ("pth", {}, 'pth: no such key; did you mean "path"?'),
    ("path.rat", "5Mbit", 'path.rat = "5Mbit": no such key; did you mean "rate"?'),
    ("flows[1].strat", "5s", 'flows[1].strat = "5s": no such key; did you mean "start"?'),
    ("flows[1].cc", "cubik", 'flows[1].cc = "cubik": expected the name of a controller;'),
    ("path.queue.kind", "codell", 'path.queue.kind = "codell": expected the name of a queue;'),
    ("path.queue.limt", "5p", "path.queue.limt: fifo has no such parameter;"),
    ("path.loss.kind", "gilbert", 'path.loss.kind = "gilbert": expected a kind; did you mean'),
    ("probes[0].kind", "pong", 'probes[0].kind = "pong": expected "ping" or "udp"'),
    # units
    ("path.rate", "50 Mb", 'path.rate = "50 Mb": expected a rate with unit, such as "50Mbit"'),
    ("path.rate", 50, "path.rate = 50: expected a rate with unit"),
    ("path.rtt", "80", 'path.rtt = "80": expected a time with unit, such as "80ms"'),
    ("path.jitter", 2, "path.jitter = 2: expected a time with unit"),
    ("path.queue.limit", 100, "path.queue.limit = 100: expected a limit with unit"),
    ("path.changes[0].rate", "x", 'path.changes[0].rate = "x": expected a rate with unit'),
    ("flows[1].traffic.on", 5, "flows[1].traffic.on = 5: expected a table"),
    ("flows[0].size", "10M", 'flows[0].size = "10M": expected a size with unit'),
    # values that cannot be
    ("duration", "-5s", 'duration = "-5s": expected a time with unit, such as "80ms" (not neg'),
    ("duration", "0s", 'duration = "0s": expected at least 1ns'),
    ("duration", "99999999s", 'duration = "99999999s": expected at most 1000000s'),
    ("path.rate", "0bit", 'path.rate = "0bit": expected at least'),
    ("path.rate", "9999Tbit", 'path.rate = "9999Tbit": expected at most 100Tbit'),
    ("path.queue.limit", "0p", 'path.queue.limit = "0p": expected at least 1p'),
    ("path.queue.limit", "0B", 'path.queue.limit = "0B": expected at least 1B'),
    ("path.loss.p", 2, "path.loss.p = 2: expected a fraction from 0 to 1"),
    ("path.loss", -0.1, "path.loss = -0.1: expected a fraction from 0 to 1"),
    ("path.loss", True, "path.loss = true: expected a fraction from 0 to 1"),
    ("flows[0].count", 0, "flows[0].count = 0: expected at least 1"),
    ("flows[0].ecn", 1, "flows[0].ecn = 1: expected true or false"),
    ("seed", -1, "seed = -1: expected at least 0"),
    # things that do not fit
    ("warmup", "60s", 'warmup = "60s": expected a time before the end (duration)'),
    ("flows[1].stop", "5s", 'flows[1].stop = "5s": expected a time after start'),
    ("flows[1].stop", "61s", 'flows[1].stop = "61s": expected a time not after the end'),
    ("flows[1].start", "60s", 'flows[1].start = "60s": expected a time before the end'),
    ("path.trace", "a.down", 'path.trace = "a.down": expected either rate or trace, not both'),
    ("path.reverse.delay", "50ms", 'path.reverse.delay = "50ms": a base round-trip time below'),
    ("flows[0].from", "a", 'flows[0].from = "a": only a [topology] has nodes'),
    ("flows[0].transport", "udp", 'flows[0].cc = "cubic": udp has no congestion controller'),
    ("flows[0].transport", "rap", 'flows[0].cc = "cubic": rap has no congestion controller'),
    ("path.changes[0].rtt", "5", 'path.changes[0].rtt = "5": expected a time with unit'),
    # shapes
    ("path", 5, "path = 5: expected a table"),
    ("flows", {}, "flows = {}: expected a list"),
    ("flows[0]", "cubic", 'flows[0] = "cubic": expected a table'),
    ("path.rtt", DELETE, "path.rtt: missing; expected a time with unit"),
    ("path.rate", DELETE, "path.rate: missing; expected a rate with unit"),
    ("duration", DELETE, "duration: missing; expected a time with unit"),
    ("path", DELETE, "path: expected either [path], [topology] or [mesonet]"),
    ("probes[0].kind", DELETE, "probes[0].kind: missing"),
]


def changed(key: str, value: object) -> dict[str, Any]:
    data = copy.deepcopy(HOME)
    if value is not DELETE:
        set_key(data, key, value)
        return data
    node: Any = data
    *parents, last = split_key(key)
    for part in parents:
        node = node[part]
    del node[last]
    return data


@pytest.mark.parametrize(
    ("key", "value", "line"),
    WRONG,
    ids=[f"{key}={'' if value is DELETE else value}" for key, value, _ in WRONG],
)
def test_one_line_says_key_value_and_what_was_expected(
    key: str, value: object, line: str, registry: Registry
) -> None:
    with pytest.raises(ScenarioError) as raised:
        resolve(Scenario.from_dict(changed(key, value), file="home.toml"), registry)
    assert str(raised.value).startswith(f"home.toml: {line}")
    assert "\n" not in str(raised.value)


def test_the_unchanged_scenario_is_right(registry: Registry) -> None:
    resolve(Scenario.from_dict(HOME), registry)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty file: expected one time"),
        (b"1\n2\nx\n", "line 3 of the trace, 'x': expected a non-negative integer (ms)"),
        (b"1\n-2\n", "line 2 of the trace, '-2': expected a non-negative integer"),
        (b"5\n4\n", "line 2 of the trace, 4 after 5: expected times that do not decrease"),
        (b"0\n0\n", "line 2 of the trace, 0: expected the last time to be above 0 ms"),
        (b"\xff\xfe\n", "line 1 of the trace, '\\\\xff"),
        (b"9" * 30, "line 1 of the trace, '999"),
        (None, "expected a trace file: cannot be read: No such file"),
    ],
)
def test_malformed_traces(
    content: bytes | None, expected: str, tmp_path: Path, registry: Registry
) -> None:
    if content is not None:
        (tmp_path / "t.down").write_bytes(content)
    data = changed("path.rate", DELETE)
    data["path"] |= {"trace": "t.down", "changes": []}
    scenario = Scenario.from_dict(data, directory=tmp_path)
    with pytest.raises(ScenarioError) as raised:
        resolve(scenario, registry)
    assert str(raised.value).startswith(f'path.trace = "t.down": {expected}')


LINK = {"from": "a", "to": "b", "rate": "1Mbit", "duplex": False}


@pytest.mark.parametrize(
    ("links", "flow", "line"),
    [
        ([LINK], {"from": "a", "to": "b"}, 'flows[0].to = "a": there is no route from "b"'),
        ([LINK], {"from": "a", "to": "c"}, 'flows[0].to = "c": expected a node'),
        ([LINK], {"from": "a", "to": "a"}, 'flows[0].to = "a": expected another node than from'),
        ([LINK], {"from": "a"}, "flows[0].to: missing; expected the name of a node"),
        ([LINK, LINK], {"from": "a", "to": "b"}, "topology.links[1]: there is a link a->b already"),
        ([{**LINK, "to": "a"}], {"from": "a", "to": "b"}, 'topology.links[0].to = "a": expected a'),
        (
            [{**LINK, "delay": "50ms", "duplex": True}],
            {"from": "a", "to": "b", "rtt": "20ms"},
            'flows[0].rtt = "20ms": the links alone have a round-trip time of 100ms',
        ),
    ],
)
def test_wrong_topologies(
    links: list[Any], flow: dict[str, Any], line: str, registry: Registry
) -> None:
    data = {"duration": "1s", "topology": {"links": links}, "flows": [flow]}
    with pytest.raises(ScenarioError) as raised:
        resolve(Scenario.from_dict(data), registry)
    message = str(raised.value)
    if "no route" in line:
        assert "there is no route" in message
    else:
        assert message.startswith(line)


@pytest.mark.parametrize(
    "text",
    ["duration = ", "[path\n", "a = 1\na = 2\n", "duration = 1979-05-27\n", "\x00", "a" * 10000],
)
def test_text_that_is_no_scenario(text: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        Scenario.loads(text, file="x.toml")
    assert str(raised.value).startswith("x.toml: ")
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'title = "\xe9"\n')
    for name in ("absent.toml", "latin.toml", "."):
        with pytest.raises(ScenarioError, match=r"cannot be read|UTF-8"):
            Scenario.load(tmp_path / name)


KEY_NAMES = (
    "duration warmup seed path topology flows probes interval rate trace rtt queue reverse loss "
    "jitter kind limit at p changes links from to delay duplex cc params start stop count size "
    "traffic on off mean values overhead bytes 0"
)
KEYS = st.sampled_from([*KEY_NAMES.split(), "", "x\ny"])
SCALARS = (
    st.sampled_from(["1s", "0s", "-1s", "10ms", "50Mbit", "1bdp", "10p", "1500B", "cubic", "fifo"])
    | st.sampled_from(
        ["gilbert-elliott", "onoff", "bulk", "udp", "ping", "a", "b", "docsis", "auto"]
    )
    | st.text(string.printable, max_size=8)
    | st.booleans()
    | st.integers(-5, 100)
    | st.floats()
    | st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def read(data: dict[str, Any], registry: Registry) -> None:
    """Nothing but a configuration or a ScenarioError of one line may come of it."""
    message = ""
    try:
        resolve(Scenario.from_dict(data), registry)
    except ScenarioError as error:
        message = str(error)
    assert "\n" not in message


@settings(max_examples=400, deadline=None)
@given(data=st.dictionaries(KEYS, VALUES, max_size=6))
def test_any_tables_are_read_or_refused(data: dict[str, Any], registry: Registry) -> None:
    read(data, registry)


PLACES = ["", "path", "path.queue", "path.loss", "path.reverse", "path.changes[0]", "flows[0]"]
PLACES += ["flows[1]", "flows[1].traffic", "probes[0]"]


@settings(max_examples=400, deadline=None)
@given(place=st.sampled_from(PLACES), key=KEYS, value=VALUES)
def test_one_wrong_value_anywhere_is_read_or_refused(
    place: str, key: str, value: Any, registry: Registry
) -> None:
    data = copy.deepcopy(HOME)
    node: Any = data
    for part in split_key(place) if place else []:
        node = node[part]
    node[key] = value
    read(data, registry)


@given(st.lists(st.integers(0, 9) | st.sampled_from(["a", "flows", "cc"]), min_size=1, max_size=5))
def test_keys_read_back(parts: list[int | str]) -> None:
    parts = ["top", *parts]
    assert split_key(show_key(parts)) == parts
