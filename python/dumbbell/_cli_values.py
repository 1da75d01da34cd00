"""Values on the command line: `--set key=value`, `--over key=a,b`, `--queue kind:key=value`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any

from dumbbell._errors import UsageError, show_value

_QUEUE = re.compile(r"[^:=]+(:[^:=]+=[^:]*)*")


def parse_value(text: str) -> Any:
    """A value as TOML writes it; what is no TOML is text, so that 50Mbit needs no quotes."""
    try:
        return tomllib.loads(f"v = {text}")["v"] if "\n" not in text else text
    except (tomllib.TOMLDecodeError, KeyError, RecursionError):
        return text


def parse_settings(items: Sequence[str]) -> dict[str, Any]:
    """`key=value` items. Raises UsageError."""
    result: dict[str, Any] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not key.strip() or not equals:
            raise UsageError(f"--set {show_value(item)}: expected key=value")
        result[key.strip()] = parse_value(value.strip())
    return result


def parse_over(items: Sequence[str]) -> dict[str, list[Any]]:
    """`key=a,b,c` items. Raises UsageError."""
    result: dict[str, list[Any]] = {}
    for item in items:
        key, equals, values = item.partition("=")
        parts = split_list(values)
        if not key.strip() or not equals or not parts:
            raise UsageError(f"--over {show_value(item)}: expected key=value,value,...")
        result[key.strip()] = [parse_value(part) for part in parts]
    return result


def parse_queues(text: str) -> list[str | dict[str, Any]]:
    """`fifo,codel:target=10ms:ecn=true`. Raises UsageError."""
    result: list[str | dict[str, Any]] = []
    for item in split_list(text):
        if not _QUEUE.fullmatch(item):
            raise UsageError(f"--queue {show_value(item)}: expected kind or kind:key=value:...")
        kind, *settings = item.split(":")
        pairs = [setting.partition("=") for setting in settings]
        table = {"kind": kind} | {key.strip(): parse_value(value) for key, _, value in pairs}
        result.append(table if pairs else kind)
    return result


def split_list(text: str) -> list[str]:
    """Parts between commas that stand outside brackets and quotes, without spaces around."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "[{":
            depth += 1
        elif c in "]}":
            depth -= 1
        elif c == "," and depth <= 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]
