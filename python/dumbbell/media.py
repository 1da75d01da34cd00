"""Congestion controllers for media written in Python.

Subclass :class:`MediaControl`, override the events that matter, and name the class in a flow with
``transport = "rtp"`` (``cc = "python:module:Class"``) or pass it to the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dumbbell._units import parse_rate
from dumbbell.control import set_params

if TYPE_CHECKING:
    from dumbbell._core import MediaFeedback

__all__ = ["MediaControl"]

_RATES = frozenset({"min_rate", "max_rate", "target_rate", "send_rate"})


class MediaControl:
    """Base class of controllers for media written in Python (RFC 8836 says what they are to do).

    The engine calls the methods below and then reads ``target_rate``, ``send_rate``, ``window`` and
    ``max_queue_delay``. Events are read-only: times are integers in nanoseconds, sizes are bytes of
    IP packets, rates are bits per second of IP packets.

    An exception in a method ends the run with :class:`dumbbell.ControllerError`, which carries the
    traceback, the simulated time and the result up to there.
    """

    min_rate: float = 150e3
    """Least rate (RFC 8593: 150 kbit/s). It is the controller that has to keep to it."""
    max_rate: float = 1.5e6
    """Greatest rate (RFC 8593: 1.5 Mbit/s)."""

    target_rate: float = 300e3
    """What the encoder is to produce, packets' headers included."""
    send_rate: float | None = None
    """What packets are paced at; None: 1.5 times ``target_rate``."""
    window: float | None = None
    """Bytes that may be in flight, or None for any."""
    max_queue_delay: float | None = None
    """Nanoseconds after which the sender empties its own queue and asks the encoder for a key
    frame; None: never."""
    phase: str | None = None
    """Name to record; None records "steady"."""
    seed: int = 0
    """The flow's own seed, set before :meth:`on_start`: draw from ``random.Random(self.seed)``."""

    record: ClassVar[tuple[str, ...]] = ()
    """Names of numeric attributes to record in the table ``controller_series``."""

    def __init__(self, **params: Any) -> None:
        """Set the parameters that the scenario gives; the rates may have a unit, "4Mbit".

        Raises TypeError for a parameter that is no attribute of the class, ValueError for a text
        that is no rate.
        """
        for name in _RATES & params.keys():
            if isinstance(params[name], str):
                try:
                    params[name] = float(parse_rate(params[name]))
                except ValueError as error:
                    raise ValueError(f"{name} = {params[name]!r}: {error}") from None
        set_params(self, params)

    def on_start(self, now: int) -> None:
        """Take note that the flow begins."""

    def on_feedback(self, feedback: MediaFeedback) -> None:
        """Set the rates after a report of the receiver (RFC 8888)."""

    def on_feedback_timeout(self, now: int) -> None:
        """Halve the rate: packets are in flight and no report has come for a long time."""
        self.target_rate = max(self.target_rate / 2, self.min_rate)

    def on_rate(self, now: int, rate: float) -> None:
        """Go on from this rate, which coupled flows have given this one (RFC 8699)."""
        self.target_rate = rate

    def on_sent(self, now: int, size: int, in_flight: int) -> None:
        """Take note of a packet of ``size`` bytes sent; ``in_flight`` counts it."""
