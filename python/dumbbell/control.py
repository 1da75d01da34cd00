"""Congestion controllers written in Python.

Subclass :class:`CongestionControl`, override the events that matter, and name the class in a
scenario (``cc = "python:module:Class"``) or pass it to the run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from dumbbell._core import Ack, Congestion, IdleRestart, Rto, Start, Undo

__all__ = ["CongestionControl", "EcnMode"]

EcnMode = Literal["off", "classic", "ce-state", "accurate", "l4s", "sce"]
"""How ECN is used: not at all, RFC 3168, the CE state of each ACK (RFC 8257), counters (RFC 9768),
these with ECT(1) (RFC 9331), or SCE with ESCE feedback (draft-grimes-tcpm-tcpsce)."""


def set_params(controller: object, params: dict[str, Any]) -> None:
    """Make parameters attributes. Raises TypeError for one that the class does not have."""
    for name, value in params.items():
        if not hasattr(type(controller), name):
            raise TypeError(f"{type(controller).__name__} has no parameter {name!r}")
        setattr(controller, name, value)


class CongestionControl:
    """Base class of controllers written in Python.

    The engine calls the methods below and then reads ``cwnd``, ``ssthresh`` and ``pacing_rate``.
    Events are read-only: times are integers in nanoseconds, sizes are payload bytes, rates are
    payload bytes per second. Integer arithmetic keeps a run bit-equal on every machine; a fraction
    of a byte in ``cwnd`` stays in the attribute and is ignored by the engine.

    ``on_rto``, ``on_undo`` and ``on_idle_restart`` do what the built-in Reno does. Other methods
    do nothing, and are called only where a subclass overrides them.

    An exception in a method ends the run with :class:`dumbbell.ControllerError`, which carries the
    traceback, the simulated time and the result up to there.
    """

    cwnd: float = 0
    """Congestion window in bytes. Set to the initial window before :meth:`on_start`."""
    ssthresh: float = math.inf
    """Slow-start threshold in bytes; infinite before the first congestion event (RFC 5681)."""
    pacing_rate: float | None = None
    """Bytes per second, or None to send as the window allows."""
    phase: str | None = None
    """Name to record; None records "recovery", "cwr", "slow_start" or "avoidance"."""
    seed: int = 0
    """The flow's own seed, set before :meth:`on_start`: draw from ``random.Random(self.seed)``."""
    prior_cwnd: float = 0
    """``cwnd`` before the last congestion event or first timeout."""
    prior_ssthresh: float = 0
    """``ssthresh`` before the last congestion event or first timeout."""

    recovery_style: ClassVar[Literal["prr", "own"]] = "prr"
    """Who shapes the window in fast recovery: "prr" is Proportional Rate Reduction (RFC 9937) down
    to ``ssthresh``, "own" takes ``cwnd`` as it is at all times."""
    ecn: ClassVar[EcnMode] = "classic"
    """How ECN is used where the scenario turns it on and leaves the choice to the controller."""
    responds_to_marks: ClassVar[bool] = False
    """True if :meth:`on_ack` answers marks itself, from ``ack.ce`` and ``ack.sce``. Otherwise
    :meth:`on_congestion` is called once a round trip with marks."""
    requested_rate: ClassVar[float | None] = None
    """Bytes per second to ask XCP's routers for in a congestion header, ``math.inf`` for as much as
    there is; they answer in ``ack.feedback``. None sends no header. ``ecn`` is then to be "off"."""
    record: ClassVar[tuple[str, ...]] = ()
    """Names of numeric attributes to record in the table ``controller_series``."""

    def __init__(self, **params: Any) -> None:
        """Set the parameters that the scenario gives.

        Raises TypeError for a parameter that is no attribute of the class.
        """
        set_params(self, params)

    def on_start(self, event: Start) -> None:
        """Take note that the connection may send."""

    def on_ack(self, ack: Ack) -> None:
        """Grow the window. Not to be done while ``ack.state`` is "recovery" or "cwr"."""

    def on_congestion(self, event: Congestion) -> None:
        """Cut the window after loss or an ECN mark, at most once a round trip.

        Set ``ssthresh``, and ``cwnd`` to the window that holds when the reduction is complete.
        """

    def on_rto(self, event: Rto) -> None:
        """Fall back to one segment beyond what is still in flight (RFC 5681 section 3.1)."""
        mss = event.mss
        if event.first:
            self.ssthresh = max(int(self.cwnd) // mss // 2, 2) * mss
        self.cwnd = (-(-event.inflight // mss) + 1) * mss

    def on_undo(self, event: Undo) -> None:
        """Restore the window from before a congestion event or timeout that proved spurious."""
        if self.prior_cwnd:
            self.cwnd = max(self.cwnd, self.prior_cwnd)
            self.ssthresh = self.prior_ssthresh
        self.prior_cwnd = self.prior_ssthresh = 0

    def on_recovery_exit(self, now: int) -> None:
        """Take note that all data outstanding at the start of recovery is acked."""

    def on_idle_restart(self, event: IdleRestart) -> None:
        """Restart from the initial window after a long idle time (RFC 5681 section 4.1).

        ``ssthresh`` remembers three quarters of the old window (RFC 2861 section 3.1).
        """
        if event.restart_window is None:
            return
        mss = event.mss
        segments = int(self.cwnd) // mss
        if self.ssthresh != math.inf:
            self.ssthresh = max(self.ssthresh, (segments // 2 + segments // 4) * mss)
        self.cwnd = min(self.cwnd, max(event.restart_window // mss, 1) * mss)

    def on_sent(self, now: int, size: int, inflight: int) -> None:
        """Take note of a segment of ``size`` bytes sent."""
