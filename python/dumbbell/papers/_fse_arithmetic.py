"""What the arithmetic of additive increase and multiplicative decrease says of the experiments."""

from __future__ import annotations

import math
from typing import NamedTuple

from dumbbell.papers._fse_runs import HALF_BDP, PACKET_BYTES, RATE_BPS, RTT_MS

_CAPACITY = RATE_BPS / 8 / PACKET_BYTES
"""Packets a second."""
_REORDERING = 3
"""Packets that must have arrived after one for it to be lost."""


class Sawtooth(NamedTuple):
    """One RAP flow alone at 100 ms with half a bandwidth-delay product of buffer."""

    peak_bps: float
    """Rate at which it backs off."""
    use: float
    """Part of the link that it uses."""


def sawtooth() -> Sawtooth:
    """The rate grows by a packet in each round trip: by 1/R^2 packets a second in a second.

    Above the capacity it fills the buffer of B packets in sqrt(2 B) R, and goes on for the round
    trip, queue included, in which the loss becomes known. It halves, empties the queue, and grows
    back.
    """
    rtt = RTT_MS / 1000
    slope = 1 / rtt**2
    above = math.sqrt(2 * HALF_BDP / slope) + rtt + HALF_BDP / _CAPACITY
    peak = _CAPACITY + slope * above
    below = (_CAPACITY - peak / 2) / slope
    carried = _CAPACITY * above + HALF_BDP + (peak / 2 + _CAPACITY) / 2 * below
    return Sawtooth(peak * 8 * PACKET_BYTES, carried / (_CAPACITY * (above + below)))


def overflow_loss(flows: int, left: float, rtt_ms: float, buffer: int) -> float:
    """Part of the packets that is lost when an overflow leaves `left` of the sum of the rates.

    A fluid: each flow adds a packet a round trip each round trip, queue included, and the loss that
    an overflow begins with is answered a round trip and three packets of a flow later, once.
    """
    step = 1e-4
    rate, queue, now, answer, quiet = _CAPACITY, 0.0, 0.0, math.inf, 0.0
    lost = sent = 0.0
    while now < 30:
        rtt = rtt_ms / 1000 + queue / _CAPACITY
        rate += flows / rtt**2 * step
        sent += rate * step
        queue = max(0.0, queue + (rate - _CAPACITY) * step)
        if queue > buffer:
            lost += queue - buffer
            queue = buffer
            if answer == math.inf and now >= quiet:
                answer = now + rtt + _REORDERING * flows / rate
        if now >= answer:
            rate *= left
            answer, quiet = math.inf, now + rtt
        now += step
    return lost / sent
