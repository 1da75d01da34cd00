"""What flows send, as the engine reads it: traffic, random laws, and users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dumbbell._frame_trace import read_frames
from dumbbell._scenario import Scenario
from dumbbell._scenario_flows import (
    Bulk,
    Flow,
    OnOff,
    Poisson,
    RateTraffic,
    RequestResponse,
    SizeTraffic,
)
from dumbbell._scenario_laws import (
    ConstantSize,
    ConstantTime,
    EmpiricalSize,
    EmpiricalTime,
    ExponentialSize,
    ExponentialTime,
    ParetoSize,
    ParetoTime,
    UniformSize,
    UniformTime,
)
from dumbbell._scenario_media import Audio, Content, Media, Video
from dumbbell._scenario_users import Destination, UserRecord, Users
from dumbbell.mesonet._network import Hop


def traffic_config(flow: Flow, directory: Path, key: str) -> dict[str, Any]:
    """What a flow sends, if not users. Raises ScenarioError."""
    if flow.size is not None:
        return {"kind": "size", "bytes": flow.size}
    match flow.traffic:
        case None | Bulk():
            return {"kind": "bulk"}
        case Video() | Content() | Audio() as media:
            return {
                "kind": "media",
                "source": _source(media, directory, f"{key}.traffic"),
                "pauses_ns": [[pause.from_, pause.to] for pause in media.pauses],
            }
        case SizeTraffic(bytes=size):
            return {"kind": "size", "bytes": size}
        case OnOff(on=on, off=off, rate=rate):
            return {"kind": "on_off", "on": _law(on), "off": _law(off), "bps": rate or 0}
        case RateTraffic(rate=rate, chunk=chunk):
            return {"kind": "constant_rate", "bps": rate, "chunk_bytes": chunk}
        case Poisson(size=law, interval=interval, load=load):
            sizes = _law(law)
            rate_hz = 10**9 / interval if interval else (load or 0) / (8 * _mean(sizes))
            return {"kind": "poisson", "rate_hz": rate_hz, "size": sizes}
        case RequestResponse(request=request, response=response, think=think):
            return {
                "kind": "request_response",
                "request": _law(request),
                "response": _law(response),
                "think": _law(think),
            }
        case Users():
            raise AssertionError("users need the ways to their destinations")


def _source(media: Media, directory: Path, key: str) -> dict[str, Any]:
    """A media source as the engine reads it."""
    match media:
        case Audio():
            return {"model": "audio", "bps": float(media.rate), "interval_ns": media.interval}
        case Content():
            return {
                "model": "content",
                "fps": media.fps,
                "max_bps": float(media.max_rate),
                "frame_bytes": float(media.frame),
                "change_probability": media.change,
                "change_factor": list(media.factor),
            }
        case Video(trace=str() as trace):
            levels = read_frames(directory / trace, key=f"{key}.trace", written=trace)
            return {"model": "trace", "levels": levels, "update_ns": media.update}
        case Video():
            return {
                "model": "video",
                "fps": media.fps,
                "min_bps": float(media.min_rate),
                "max_bps": float(media.max_rate),
                "update_ns": media.update,
                "transient_change": media.transient_change,
                "transient_frames": media.transient_frames,
                "key_frame_bytes": float(media.key_frame),
                "size_noise": media.size_noise,
                "interval_noise": media.interval_noise,
                "largest_step": media.largest_step,
            }


_AnyTime = ConstantTime | UniformTime | ExponentialTime | ParetoTime | EmpiricalTime
_AnySize = ConstantSize | UniformSize | ExponentialSize | ParetoSize | EmpiricalSize


def _law(law: _AnyTime | _AnySize) -> dict[str, Any]:
    """A law in seconds or bytes."""
    time = isinstance(law, _AnyTime)

    def number(value: int) -> float:
        return value / 10**9 if time else float(value)

    match law:
        case ConstantTime(value=value) | ConstantSize(value=value):
            return {"kind": "constant", "value": number(value)}
        case UniformTime(low=low, high=high) | UniformSize(low=low, high=high):
            return {"kind": "uniform", "low": number(low), "high": number(high)}
        case ExponentialTime(mean=mean) | ExponentialSize(mean=mean):
            return {"kind": "exponential", "mean": number(mean)}
        case EmpiricalTime(values=values) | EmpiricalSize(values=values):
            return {"kind": "empirical", "values": [number(v) for v in values]}
        case _:
            pareto = {"kind": "pareto", "mean": number(law.mean), "shape": law.shape}
            return pareto if law.max is None else {**pareto, "max": number(law.max)}


def _mean(law: Mapping[str, Any]) -> float:
    """Mean of a law; that of a Pareto law is the one before `max` cuts it."""
    match law["kind"]:
        case "constant":
            return float(law["value"])
        case "uniform":
            return float(law["low"] + law["high"]) / 2
        case "empirical":
            return float(sum(law["values"])) / len(law["values"])
        case _:
            return float(law["mean"])


@dataclass(slots=True)
class UsersBuilder:
    """Collects the paths of users, and the names that are counted by."""

    paths: list[dict[str, Any]] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)

    def traffic(self, flow: Flow, ways: Sequence[tuple[list[Hop], list[Hop]]]) -> dict[str, Any]:
        """Traffic of a flow with users, and the way to each of its destinations and back."""
        users = flow.traffic
        assert isinstance(users, Users)
        to = []
        for target, (route, reverse_route) in zip(destinations(flow), ways, strict=True):
            kind = target.class_ or target.node
            to.append(
                {
                    "path": len(self.paths),
                    "weight": target.weight,
                    "class": _index(self.classes, kind),
                }
            )
            self.paths.append({"route": route, "reverse_route": reverse_route})
        return {
            "kind": "users",
            "count": users.count,
            "group": _index(self.groups, users.group or flow.id or flow.label),
            "destinations": to,
            "think": _law(users.think),
            "patience": None if users.patience is None else _law(users.patience),
            "files": [
                {
                    "file": _index(self.files, file.name),
                    "weight": file.weight,
                    "size": _law(file.size),
                }
                for file in users.files
            ],
            "starts": [{"share": start.share, "at_ns": start.at} for start in users.starts],
        }

    def config(self, scenario: Scenario) -> dict[str, Any]:
        """paths and users of the engine's configuration; nothing where there are no users."""
        if not self.groups:
            return {}
        record = scenario.users or UserRecord()
        spans = [(period.name, period.from_, period.to) for period in record.periods]
        if not spans:
            spans = [("all", 0, scenario.duration)]
            if scenario.warmup:
                spans.append(("measured", scenario.warmup, scenario.duration))
        return {
            "paths": self.paths,
            "users": {
                "groups": self.groups,
                "files": self.files,
                "classes": self.classes,
                "periods": [
                    {"name": name, "from_ns": begin, "to_ns": end} for name, begin, end in spans
                ],
                "interval_ns": record.interval,
                "series": record.series,
            },
        }


def destinations(flow: Flow) -> list[Destination]:
    """Of a flow with users; on a [path] there is one, without a name."""
    if isinstance(flow.to, tuple):
        return list(flow.to)
    return [Destination(node=flow.to or "receiver")]


def _index(names: list[str], name: str) -> int:
    """Where a name is in the list, put there if it is not."""
    if name not in names:
        names.append(name)
    return names.index(name)
