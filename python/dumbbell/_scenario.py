"""The scenario: what runs, for how long, on which network."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any, Self, cast

from pydantic import Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import ErrorDetails

from dumbbell._errors import ScenarioError, suggest
from dumbbell._scenario_coupling import Coupling
from dumbbell._scenario_flows import Flow, Probe
from dumbbell._scenario_links import Path
from dumbbell._scenario_types import Items, Model, Name, PositiveTime, Time, fail
from dumbbell._scenario_users import UserRecord, Users
from dumbbell._topologies import AnyTopology
from dumbbell._units import RATE_EXPECTED, TIME_EXPECTED
from dumbbell.mesonet._parameters import Mesonet

_LARGEST_FILE = 16 * 2**20


class Scenario(Model):
    """A validated scenario.

    Written as TOML (:meth:`load`), or as Python dictionaries of the same shape (:meth:`from_dict`).
    Quantities carry units: "50Mbit", "80ms", "1500B", "333p", "1bdp".
    """

    title: str = ""
    duration: PositiveTime
    """Length of the run in virtual time."""
    warmup: Time = 0
    """Left out of the summary."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    interval: Time = 100_000_000
    """Spacing of the recorded time series; 0 records none."""
    path: Path | None = None
    """Short form: one bottleneck."""
    topology: AnyTopology | None = None
    """Long form: nodes and links, or a network by its `kind`."""
    mesonet: Mesonet | None = None
    """The network and users of NIST SP 500-282."""
    flows: Items[Flow] = ()
    probes: Items[Probe] = ()
    coupling: Annotated[dict[Name, Coupling], Field(default_factory=dict)]
    """Flows whose congestion control is coupled, by a name of the coupling."""
    users: UserRecord | None = None
    """What is recorded of flows whose traffic is users."""
    capture: bool = False
    """Record every packet at every link, for pcapng."""
    hop_by_hop: bool = False
    """Simulate each hop as an event of its own, without shortcuts (slower, same results)."""

    _file: str | None = PrivateAttr(default=None)
    _directory: FilePath = PrivateAttr(default_factory=FilePath)

    @model_validator(mode="after")
    def _check(self) -> Self:
        kinds = ("path", "topology", "mesonet")
        networks = [key for key in kinds if getattr(self, key) is not None]
        if len(networks) != 1:
            key = networks[1] if networks else "path"
            fail("expected either [path], [topology] or [mesonet]", key)
        if self.mesonet is not None:
            for i, flow in enumerate(self.flows):
                if isinstance(flow.traffic, Users):
                    fail("[mesonet] has its own users", f"flows[{i}].traffic")
        if self.warmup >= self.duration:
            fail("expected a time before the end (duration)", "warmup")
        if not self.flows and not self.probes and self.mesonet is None:
            fail("missing; expected at least one [[flows]] or [[probes]]", "flows")
        for i, flow in enumerate(self.flows):
            self._check_item(f"flows[{i}]", flow)
        for i, probe in enumerate(self.probes):
            self._check_item(f"probes[{i}]", probe)
        return self

    def _check_item(self, key: str, item: Flow | Probe) -> None:
        if item.start >= self.duration:
            fail("expected a time before the end (duration)", f"{key}.start")
        if item.stop is not None and item.stop > self.duration:
            fail("expected a time not after the end (duration)", f"{key}.stop")
        if isinstance(item, Flow):
            last = item.start + item.stagger * (item.count - 1)
            if last >= (item.stop or self.duration):
                fail("the last of these flows would start after its stop", f"{key}.stagger")
        for end, node in (("from", item.from_), ("to", item.to)):
            if self.path is not None and node is not None:
                shown = node if isinstance(node, str) else None
                fail("only a [topology] has nodes", f"{key}.{end}", value=shown)
            if self.path is None and node is None:
                fail("missing; expected the name of a node", f"{key}.{end}")

    @property
    def file(self) -> str | None:
        """The file that it was read from, for messages."""
        return self._file

    @property
    def directory(self) -> FilePath:
        """What trace files are relative to."""
        return self._directory

    @classmethod
    def load(cls, path: str | FilePath) -> Self:
        """Read a TOML file. Raises ScenarioError."""
        return cls.from_dict(read_toml(path), file=str(path), directory=FilePath(path).parent)

    @classmethod
    def loads(cls, text: str, *, file: str | None = None) -> Self:
        """Read TOML text. Raises ScenarioError."""
        return cls.from_dict(_parse_toml(text, file), file=file)

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        *,
        file: str | None = None,
        directory: FilePath | None = None,
    ) -> Self:
        """Validate a dictionary of the shape of the TOML file.

        `file` is named in errors; trace files are relative to `directory`. Raises ScenarioError.
        """
        try:
            scenario = cls.model_validate(data)
        except ValidationError as error:
            raise _explain(error.errors(include_url=False)[0], data).in_file(file) from None
        except RecursionError:
            raise ScenarioError(file=file, expected="tables are nested too deeply") from None
        scenario._file = file
        scenario._directory = directory or FilePath()
        return scenario

    def to_dict(self) -> dict[str, Any]:
        """What was given (defaults left out), in the shape of the TOML file."""
        return self.model_dump(mode="json", exclude_unset=True)

    def replaced(self, changes: Mapping[str, Any]) -> Scenario:
        """A copy with other values at dotted keys (`flows[0].cc`). Raises ScenarioError."""
        data = self.to_dict()
        for key, value in changes.items():
            try:
                set_key(data, key, value)
            except ScenarioError as error:
                raise error.in_file(self._file) from None
        return Scenario.from_dict(data, file=self._file, directory=self._directory)


def read_toml(path: str | FilePath) -> dict[str, Any]:
    """The tables of a TOML file. Raises ScenarioError, with the file's name."""
    file = str(path)
    try:
        with open(path, "rb") as stream:
            raw = stream.read(_LARGEST_FILE + 1)
        if len(raw) > _LARGEST_FILE:
            raise ScenarioError(file=file, expected="too large for a scenario (over 16 MiB)")
        text = raw.decode("utf-8")
    except OSError as error:
        raise ScenarioError(file=file, expected=_os_reason(error)) from None
    except (UnicodeDecodeError, ValueError) as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError(file=file, expected="expected a text file in UTF-8") from None
    return _parse_toml(text, file)


def _parse_toml(text: str, file: str | None) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(file=file, expected=f"not valid TOML: {error}") from None
    except (RecursionError, ValueError):
        raise ScenarioError(file=file, expected="not valid TOML") from None


def _os_reason(error: OSError) -> str:
    return f"cannot be read: {(error.strerror or str(error)).lower()}"


def split_key(key: str) -> list[str | int]:
    """`flows[0].cc` or `flows.0.cc` as ["flows", 0, "cc"]."""
    parts = key.replace("[", ".").replace("]", "").split(".")
    return [int(part) if part.isascii() and part.isdigit() else part for part in parts]


def set_key(data: dict[str, Any], key: str, value: Any) -> None:
    """Put a value at a dotted key, making tables on the way. Raises ScenarioError."""
    *parents, last = split_key(key)
    node: Any = data
    for part in parents:
        if isinstance(node, dict):
            # A bare name may stand for these tables.
            if isinstance(node.get(part), str) and part in ("queue", "traffic"):
                node[part] = {"kind": node[part]}
            node = node.setdefault(part, {})
        else:
            node = node[part] if _has(node, part) else None
    places: Any = node
    if (isinstance(node, dict) and last != "") or (isinstance(node, list) and _has(node, last)):
        places[last] = value
    else:
        raise ScenarioError(key=key, expected="there is no such place in the scenario")


def _has(node: Any, part: str | int) -> bool:
    """Whether a table or list has this key or index."""
    if isinstance(node, dict):
        return part in node
    return isinstance(node, list | tuple) and isinstance(part, int) and part < len(node)


def show_key(parts: Sequence[str | int]) -> str:
    """["flows", 0, "cc"] as `flows[0].cc`."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _explain(error: ErrorDetails, data: Any) -> ScenarioError:
    """pydantic's first complaint in our words."""
    context: Mapping[str, Any] = error.get("ctx", {})
    at = split_key(context["at"]) if context.get("at") else []
    if error["type"] == "missing":
        *parents, last = error["loc"]
        parts, _ = _locate(tuple(parents), data)
        expected = "; ".join(filter(None, ["missing", _MISSING.get(str(last), "")]))
        return ScenarioError(key=show_key([*parts, last]), expected=expected)
    parts, value = _locate(error["loc"], data)
    if error["type"] == "scenario":
        found = _descend(value, at)
        shown = context["is"] if context["is"] is not None else found
        return ScenarioError(
            key=show_key([*parts, *at]),
            value=None if isinstance(shown, dict | list) else shown,
            expected=context["expected"],
        )
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        kinds = [tag.strip(" '") for tag in str(context.get("expected_tags", "")).split(",")]
        kind = value.get("kind") if isinstance(value, dict) else None
        if isinstance(value, str):
            # Some tables may be written as their kind alone.
            kind = value
        if error["type"] == "union_tag_not_found" and not isinstance(value, dict):
            return ScenarioError(key=show_key(parts), value=value, expected="expected a table")
        expected = "expected a kind" + (suggest(str(kind), kinds) if kinds != [""] else "")
        return ScenarioError(
            key=show_key([*parts, "kind"]),
            value=kind,
            expected=expected if kind is not None else "missing; expected a kind",
        )
    return ScenarioError(
        key=show_key(parts), value=value if parts else None, expected=_expectation(error)
    )


def _locate(loc: tuple[int | str, ...], data: Any) -> tuple[list[str | int], Any]:
    """Keys of a location without pydantic's union tags, and what stands there."""
    parts: list[str | int] = []
    node = data
    for part in loc:
        if _has(node, part):
            node = node[part]
            parts.append(part)
    return parts, node


def _descend(node: Any, parts: Sequence[str | int]) -> Any:
    for part in parts:
        node = node[part] if _has(node, part) else None
    return node


_MISSING = dict.fromkeys(("duration", "rtt", "at", "interval", "amount", "delay"), TIME_EXPECTED)
_MISSING["rate"] = RATE_EXPECTED
_EXPECTED = {
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "int_type": "expected a whole number",
    "int_parsing_size": "expected a smaller number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "model_type": "expected a table",
    "model_attributes_type": "expected a table",
    "dict_type": "expected a table",
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "string_too_short": "expected text that is not empty",
    "invalid_key": "expected text as key",
}
_COMPARED = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
    "multiple_of": ("multiple_of", "a multiple of"),
}


def _expectation(error: ErrorDetails) -> str:
    context = cast(Mapping[str, Any], error.get("ctx", {}))
    kind = error["type"]
    if kind == "value_error":
        return str(context["error"])
    if kind in _COMPARED:
        name, words = _COMPARED[kind]
        return f"expected {words} {context[name]}"
    if kind == "literal_error":
        return f"expected {context['expected']}".replace("'", '"')
    if kind in ("too_short", "too_long"):
        return f"expected {'at least' if kind == 'too_short' else 'at most'} one item"
    return _EXPECTED.get(kind, error["msg"][:1].lower() + error["msg"][1:])
