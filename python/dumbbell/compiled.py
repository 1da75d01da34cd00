"""Congestion controllers as compiled functions: nearly as fast as the built-in ones.

Subclass :class:`CompiledControl` and write its methods in the subset of Python that Numba compiles,
or put functions of a C library in their place.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import json
import math
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

from dumbbell._errors import MissingExtraError
from dumbbell.control import EcnMode

__all__ = [
    "CWR",
    "DISORDER",
    "ECN_ACCURATE",
    "ECN_CE_STATE",
    "ECN_CLASSIC",
    "ECN_L4S",
    "ECN_OFF",
    "ECN_SCE",
    "LOSS",
    "OPEN",
    "RECOVERY",
    "CompiledControl",
    "c_header",
]

OPEN, DISORDER, CWR, RECOVERY, LOSS = range(5)
ECN_OFF, ECN_CLASSIC, ECN_CE_STATE, ECN_ACCURATE, ECN_L4S, ECN_SCE = range(6)

# What functions of libraries are, whatever their signature.
_CFunction: Any = ctypes.CFUNCTYPE(None).__base__

# Compiled once for each class; Numba's compiler takes one at a time anyway.
_known: dict[type, dict[str, _Function]] = {}
_compiling = threading.Lock()


@dataclass(frozen=True, slots=True)
class EventField:
    """A field of an event: `kind` is int64 or float64, `offset` in bytes."""

    name: str
    kind: str
    offset: int
    doc: str


@dataclass(frozen=True, slots=True)
class EventLayout:
    """The C struct that a method is handed: `size` in bytes."""

    method: str
    size: int
    fields: tuple[EventField, ...]


@functools.cache
def layouts() -> dict[str, EventLayout]:
    """Structs by method, as the engine has them."""
    from dumbbell import _core

    events = json.loads(_core.compiled_layout_json())["events"]
    return {
        event["method"]: EventLayout(
            event["method"], event["size"], tuple(EventField(**f) for f in event["fields"])
        )
        for event in events
    }


class CompiledControl:
    """Base class of controllers whose methods are compiled.

    All attributes are doubles in one C array: the five below, then each number that the class
    declares, be it a parameter or a variable of the algorithm. In a method `self` is that array,
    with its fields by name, and the event is a C struct of integers (ns, bytes, 0 or 1 for flags)
    and doubles. There are no other attributes there and no objects, and functions that it calls
    have to be compiled too (`numba.njit`); constants of the module may be used. What is None for
    :class:`dumbbell.CongestionControl` is 0 here.

    Methods are `on_start`, `on_ack`, `on_congestion`, `on_rto`, `on_undo`, `on_recovery_exit`,
    `on_idle_restart` and `on_sent`; what is not there is not called. On a timeout, an undo and an
    idle restart the engine first does what the built-in Reno does and then calls the method, which
    may correct that: its event has `cwnd` and `ssthresh` from before.

    In place of a method the class may have a function of a C library: a `ctypes` function, or its
    address as an integer. Its signature is `int32_t f(double *self, const struct event *event)`,
    and it returns 0, or anything else to end the run; `c_header` writes the structs. An address
    that is not such a function's crashes the process.

    An exception in a method ends the run with :class:`dumbbell.ControllerError`. Its traceback
    comes from calling the method once more, in Python.
    """

    compiled: ClassVar[bool] = True

    cwnd: float = 0
    """Congestion window in bytes. Set to the initial window before `on_start`."""
    ssthresh: float = math.inf
    """Slow-start threshold in bytes; infinite before the first congestion event (RFC 5681)."""
    pacing_rate: float = 0
    """Bytes per second, or 0 to send as the window allows."""
    prior_cwnd: float = 0
    """`cwnd` before the last congestion event or first timeout."""
    prior_ssthresh: float = 0
    """`ssthresh` before the last congestion event or first timeout."""

    recovery_style: ClassVar[Literal["prr", "own"]] = "prr"
    """As :attr:`dumbbell.CongestionControl.recovery_style`."""
    ecn: ClassVar[EcnMode] = "classic"
    """As :attr:`dumbbell.CongestionControl.ecn`."""
    responds_to_marks: ClassVar[bool] = False
    """As :attr:`dumbbell.CongestionControl.responds_to_marks`."""
    requested_rate: ClassVar[float | None] = None
    """As :attr:`dumbbell.CongestionControl.requested_rate`."""
    record: ClassVar[tuple[str, ...]] = ()
    """Names of fields to record in the table `controller_series`."""

    def __init__(self, **params: float) -> None:
        """Set the parameters that the scenario gives, and compile what is not compiled yet.

        Raises TypeError for a parameter that is no field of the class or no number, and
        MissingExtraError where there is something to compile without Numba.
        """
        cls = type(self)
        self.fields = field_names(cls)
        for name, value in params.items():
            if name not in self.fields:
                raise TypeError(f"{cls.__name__} has no parameter {name!r}")
            if not isinstance(value, int | float):
                raise TypeError(f"{cls.__name__}: {name} must be a number, not {value!r}")
            setattr(self, name, value)
        with _compiling:
            if cls not in _known:
                _known[cls] = _functions(cls)
            self._functions = _known[cls]

    def initial_state(self) -> list[float]:
        """Values of the fields, in order."""
        return [float(getattr(self, name)) for name in self.fields]

    def addresses(self) -> dict[str, int]:
        """Addresses of the functions by method."""
        return {name: function.address for name, function in self._functions.items()}

    def explain(self, method: str, event: str, state: list[float]) -> None:
        """Raise what a method raised when it was called with this event (JSON) and state."""
        function = inspect.getattr_static(type(self), method)
        if not inspect.isfunction(function):
            raise RuntimeError(f"{method} of {type(self).__name__} asked to end the run")
        fields = dict(zip(self.fields, state, strict=True))
        function(SimpleNamespace(**fields), SimpleNamespace(**json.loads(event)))
        raise RuntimeError(
            f"{method} of {type(self).__name__} raised an exception, but not when called in Python"
        )


def field_names(cls: type[CompiledControl]) -> tuple[str, ...]:
    """The numbers that a class and its bases declare, the base class's own first."""
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if (
                not name.startswith("_")
                and name not in _NOT_FIELDS
                and isinstance(value, int | float)
            ):
                names[name] = None
    return tuple(name for name in names if name not in layouts())


_NOT_FIELDS = (
    "compiled",
    "recovery_style",
    "ecn",
    "responds_to_marks",
    "requested_rate",
    "record",
)


@dataclass(frozen=True, slots=True)
class _Function:
    """An address and what keeps its code alive."""

    address: int
    keeper: object


def _functions(cls: type[CompiledControl]) -> dict[str, _Function]:
    found = {}
    for method, layout in layouts().items():
        function = inspect.getattr_static(cls, method, None)
        if function is None:
            continue
        if inspect.isfunction(function):
            found[method] = _compile(function, field_names(cls), layout)
        elif isinstance(function, _CFunction):
            address = ctypes.cast(function, ctypes.c_void_p).value or 0
            found[method] = _Function(address, function)
        elif isinstance(function, int) and not isinstance(function, bool):
            found[method] = _Function(function, None)
        else:
            raise TypeError(
                f"{cls.__name__}.{method}: expected a function to compile, a ctypes function or an "
                f"address, not {type(function).__name__}"
            )
    return found


def _compile(function: Any, fields: Iterable[str], layout: EventLayout) -> _Function:
    try:
        import numba
        import numpy as np
    except ImportError:
        raise MissingExtraError("compiling a controller", "numba") from None
    state_type = numba.from_dtype(np.dtype([(name, "f8") for name in fields]))
    description: Any = numpy_description(layout)
    event_type = numba.from_dtype(np.dtype(description))
    method, carray = numba.njit(function), numba.carray

    def call(state, event):  # type: ignore[no-untyped-def]
        try:
            method(carray(state, 1)[0], carray(event, 1)[0])
        except Exception:
            return 1
        return 0

    pointer = numba.types.CPointer
    signature = numba.types.int32(pointer(state_type), pointer(event_type))
    try:
        compiled = numba.cfunc(signature)(call)
    except numba.errors.NumbaError as error:
        raise TypeError(f"{function.__qualname__} cannot be compiled: {_reason(error)}") from error
    return _Function(compiled.address, compiled)


def _reason(error: Exception) -> str:
    """What an error of Numba says, in one line: the last of its many that is no source or hint."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if re.match(r"[A-Z][^:]*[a-z] .*|.*[Ee]rror: ", line)]
    return (telling or lines or [type(error).__name__])[-1]


def numpy_description(layout: EventLayout) -> dict[str, Any]:
    """What `numpy.dtype` makes the struct of."""
    return {
        "names": [field.name for field in layout.fields],
        "formats": [field.kind for field in layout.fields],
        "offsets": [field.offset for field in layout.fields],
        "itemsize": layout.size,
    }


def c_header(cls: type[CompiledControl] = CompiledControl) -> str:
    """A C header with the structs that functions are handed, and the fields of `cls`."""
    types = {"int64": "int64_t", "float64": "double"}
    lines = ["#include <stdint.h>", ""]
    lines += ["/* Places in the array of doubles. */", "enum {"]
    lines += [f"  DUMBBELL_{name.upper()}," for name in field_names(cls)]
    lines += ["};", "", "enum { OPEN, DISORDER, CWR, RECOVERY, LOSS };"]
    lines += ["enum { ECN_OFF, ECN_CLASSIC, ECN_CE_STATE, ECN_ACCURATE, ECN_L4S, ECN_SCE };", ""]
    for method, layout in layouts().items():
        lines.append(f"struct {method} {{")
        lines += [f"  {types[f.kind]} {f.name}; /* {f.doc} */" for f in layout.fields]
        lines += ["};", f"int32_t {method}(double *self, const struct {method} *event);", ""]
    return "\n".join(lines)
