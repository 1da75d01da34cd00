"""Synthetic link traces, reproducible from a seed.

Each generator returns a `Trace`. Random numbers come from PCG64 seeded with the seed and the
generator's name, so that two generators with one seed are independent.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dumbbell._errors import UsageError, show_value, suggest
from dumbbell._mahimahi import Trace, trace_from_rate

_SPROUT_TICK_S = 0.02
_MMWAVE_TICK_S = 0.005


def _generator(seed: int, name: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise UsageError(message)


def constant(*, seed: int = 0, duration_s: float = 60.0, rate_bps: float = 12e6) -> Trace:
    """A constant rate. The seed is not used."""
    del seed
    return trace_from_rate([0.0], [rate_bps], duration_s)


def step(
    *,
    seed: int = 0,
    duration_s: float = 60.0,
    rate_bps: float = 10e6,
    step_bps: float = 100e6,
    at_s: float | None = None,
) -> Trace:
    """`rate_bps` until `at_s` (half way by default), then `step_bps`. The seed is not used."""
    del seed
    at = duration_s / 2 if at_s is None else at_s
    _require(
        0 < at < duration_s,
        f"step at {at:g} s: expected a time inside the {duration_s:g} s of the trace",
    )
    return trace_from_rate([0.0, at], [rate_bps, step_bps], duration_s)


def square(
    *,
    seed: int = 0,
    duration_s: float = 60.0,
    high_bps: float = 50e6,
    low_bps: float = 10e6,
    period_s: float = 10.0,
    duty: float = 0.5,
) -> Trace:
    """`high_bps` for the first `duty` of each period, then `low_bps`. The seed is not used."""
    del seed
    _require(0 < duty < 1, f"duty {duty:g}: expected a fraction above 0 and below 1")
    _require(period_s > 0, f"period {period_s:g} s: expected a positive time")
    cycles = np.arange(int(np.ceil(duration_s / period_s)))
    starts = np.stack((cycles * period_s, (cycles + duty) * period_s), axis=1).ravel()
    rates = np.tile([high_bps, low_bps], cycles.size)
    inside = starts < duration_s
    return trace_from_rate(starts[inside], rates[inside], duration_s)


def sprout(*, seed: int = 0, duration_s: float = 60.0, scale: float = 1.0) -> Trace:
    """A cellular link as the model behind Sprout sees it (Winstein et al., NSDI 2013).

    Deliveries are Poisson; their rate is a Brownian motion of 200 packets/s per root second between
    0 and 1000 packets/s, reflected at the top. At 0 an outage begins, which ends at rate 1 per
    second. `scale` multiplies range and volatility: 1 gives at most 12 Mbit/s, 3 suits LTE, 0.5
    HSPA.
    """
    _require(scale > 0, f"scale {scale:g}: expected a positive number")
    _require(duration_s >= _SPROUT_TICK_S, f"duration of {duration_s:g} s: expected at least 20 ms")
    rng = _generator(seed, "sprout")
    top = 1000.0 * scale
    volatility = 200.0 * scale * np.sqrt(_SPROUT_TICK_S)
    # Lower, and one outage brings the next at once; measured traces then vary less than the model.
    restart = 0.1 * top
    ticks = round(duration_s / _SPROUT_TICK_S)
    rates = np.empty(ticks)
    rate = top * rng.uniform(0.2, 0.8)
    outage_left = 0
    for tick in range(ticks):
        if outage_left > 0:
            outage_left -= 1
            rates[tick] = 0.0
            continue
        rate += rng.normal(0.0, volatility)
        if rate > top:
            rate = 2 * top - rate
        if rate <= 0:
            outage_left = int(np.ceil(rng.exponential(1.0) / _SPROUT_TICK_S))
            rate = restart
            rates[tick] = 0.0
            continue
        rates[tick] = rate
    counts = rng.poisson(rates * _SPROUT_TICK_S)
    _require(
        counts.sum() > 0, "the trace came out empty: expected a longer duration or another seed"
    )
    times = (np.repeat(np.arange(ticks), counts) + rng.uniform(size=counts.sum())) * _SPROUT_TICK_S
    milliseconds = np.sort(np.ceil(times * 1000).astype(np.int64))
    milliseconds[-1] = round(duration_s * 1000)
    return Trace(milliseconds)


@dataclass(frozen=True)
class Layer:
    """One radio layer: its rate while present, exponential means of its times on and off, and
    shadowing.

    `off_s` of 0 is a layer that is always there. Shadowing is log-normal, `sd_db` in dB, with an
    exponential correlation time.
    """

    rate_bps: float
    on_s: float
    off_s: float
    sd_db: float
    correlation_s: float


LAYERS_5G = (
    Layer(50e6, 1.0, 0.0, 2.0, 5.0),
    Layer(400e6, 1.0, 3.0, 2.0, 1.0),
    Layer(2e9, 0.4, 2.0, 3.0, 0.2),
)
LAYERS_4G = (Layer(15e6, 1.0, 0.0, 3.0, 2.0), Layer(60e6, 1.5, 3.0, 3.0, 0.5))
LAYERS_3G = (Layer(4e6, 1.0, 0.0, 1.5, 4.0),)


def layered_capacity(
    rng: np.random.Generator, layers: Sequence[Layer], ticks: int
) -> NDArray[np.float64]:
    """Capacity (bit/s, one value every 5 ms): the best of the layers present."""
    best = np.zeros(ticks)
    for layer in layers:
        gain_db = _shadowing(rng, ticks, layer.sd_db, layer.correlation_s)
        rate = layer.rate_bps * 10 ** (gain_db / 10)
        np.maximum(best, np.where(_presence(rng, layer, ticks), rate, 0.0), out=best)
    return best


def _presence(rng: np.random.Generator, layer: Layer, ticks: int) -> NDArray[np.bool_]:
    if layer.off_s == 0:
        return np.ones(ticks, dtype=np.bool_)
    present = np.zeros(ticks, dtype=np.bool_)
    end = ticks * _MMWAVE_TICK_S
    on = bool(rng.uniform() < layer.on_s / (layer.on_s + layer.off_s))
    now = 0.0
    while now < end:
        until = now + rng.exponential(layer.on_s if on else layer.off_s)
        if on:
            present[round(now / _MMWAVE_TICK_S) : round(until / _MMWAVE_TICK_S)] = True
        now, on = until, not on
    return present


def _shadowing(
    rng: np.random.Generator, ticks: int, sd_db: float, correlation_s: float
) -> NDArray[np.float64]:
    keep = float(np.exp(-_MMWAVE_TICK_S / correlation_s))
    innovations = rng.normal(0.0, sd_db * np.sqrt(1 - keep * keep), size=ticks).tolist()
    value = float(rng.normal(0.0, sd_db))
    values = np.empty(ticks)
    for tick, innovation in enumerate(innovations):
        value = keep * value + innovation
        values[tick] = value
    return values


def _layered(seed: int, name: str, duration_s: float, layers: Sequence[Layer]) -> Trace:
    ticks = _ticks(duration_s)
    capacity = layered_capacity(_generator(seed, name), layers, ticks)
    return trace_from_rate(np.arange(ticks) * _MMWAVE_TICK_S, capacity, duration_s)


def _ticks(duration_s: float) -> int:
    _require(duration_s >= _MMWAVE_TICK_S, f"duration of {duration_s:g} s: expected at least 5 ms")
    return int(np.ceil(duration_s / _MMWAVE_TICK_S - 1e-9))


def cellular_5g(*, seed: int = 0, duration_s: float = 60.0) -> Trace:
    """5G pedestrian: 50 Mbit/s always, 400 Mbit/s mid band and 2 Gbit/s mmWave beams at times."""
    return _layered(seed, "cellular-5g", duration_s, LAYERS_5G)


def cellular_4g(*, seed: int = 0, duration_s: float = 60.0) -> Trace:
    """4G: 15 Mbit/s always, 60 Mbit/s a third of the time."""
    return _layered(seed, "cellular-4g", duration_s, LAYERS_4G)


def cellular_3g(*, seed: int = 0, duration_s: float = 60.0) -> Trace:
    """3G: 4 Mbit/s with slow shadowing."""
    return _layered(seed, "cellular-3g", duration_s, LAYERS_3G)


def blockage_db(
    rng: np.random.Generator, ticks: int, blockages_per_s: float, *, narrow_beam: bool = True
) -> NDArray[np.float64]:
    """Fading by people in the beam (dB, one value every 5 ms): unshadowed, decay, shadowed, rise.

    Depth and the mean 0.28 s below -5 dB follow MacCartney et al. 2017 (73.5 GHz): N(15.8, 4) dB
    with a beam of 7 degrees, N(11.5, 3) dB with one of 60. Decay lasts U(50, 150) ms, rise U(80,
    250) ms, linear in dB.
    """
    loss = np.zeros(ticks)
    end = ticks * _MMWAVE_TICK_S
    times = (np.arange(ticks)) * _MMWAVE_TICK_S
    mean_db, sd_db = (15.8, 4.0) if narrow_beam else (11.5, 3.0)
    now = rng.exponential(1 / blockages_per_s)
    while now < end:
        depth = float(np.clip(rng.normal(mean_db, sd_db), 5.0, 30.0))
        decay, rise = rng.uniform(0.05, 0.15), rng.uniform(0.08, 0.25)
        # Decay and rise spend this long below -5 dB; the flat part fills up to 0.28 s on average.
        on_slopes = (1 - 5.0 / depth) * (decay + rise)
        flat = rng.exponential(max(0.28 - on_slopes, _MMWAVE_TICK_S))
        knots = np.cumsum([now, decay, flat, rise])
        first, last = np.searchsorted(times, (knots[0], knots[-1]))
        loss[first:last] = np.interp(times[first:last], knots, [0.0, depth, depth, 0.0])
        now = knots[-1] + rng.exponential(1 / blockages_per_s)
    return loss


def mmwave(
    *,
    seed: int = 0,
    duration_s: float = 60.0,
    mean_snr_db: float = 20.0,
    bandwidth_hz: float = 400e6,
    max_bps_per_hz: float = 6.0,
    blockages_per_s: float = 0.21,
) -> Trace:
    """One mmWave beam: shadowing (3 dB, 0.5 s) and blockage by people on an attenuated Shannon
    curve.

    Rate is 0.75 B min(SE_max, 0.6 log2(1 + SNR)), and 0 below -10 dB. 0.21 blockages a second is a
    pedestrian crowd of 0.1 per square metre at 30 m (Jain et al. 2018).
    """
    _require(
        blockages_per_s > 0, f"blockages_per_s {blockages_per_s:g}: expected a positive number"
    )
    _require(bandwidth_hz > 0, f"bandwidth_hz {bandwidth_hz:g}: expected a positive number")
    rng = _generator(seed, "mmwave")
    ticks = _ticks(duration_s)
    shadowing = _shadowing(rng, ticks, 3.0, 0.5)
    snr_db = mean_snr_db + shadowing - blockage_db(rng, ticks, blockages_per_s)
    efficiency = np.minimum(max_bps_per_hz, 0.6 * np.log2(1 + 10 ** (snr_db / 10)))
    capacity = np.where(snr_db < -10, 0.0, 0.75 * bandwidth_hz * efficiency)
    return trace_from_rate(np.arange(ticks) * _MMWAVE_TICK_S, capacity, duration_s)


GENERATORS: dict[str, Callable[..., Trace]] = {
    "constant": constant,
    "step": step,
    "square": square,
    "sprout": sprout,
    "cellular-3g": cellular_3g,
    "cellular-4g": cellular_4g,
    "cellular-5g": cellular_5g,
    "mmwave": mmwave,
}


def generate(kind: str, *, seed: int = 0, duration_s: float = 60.0, **parameters: Any) -> Trace:
    """Make a trace by the generator's name, the same for the same arguments.

    Raises UsageError with one line for an unknown kind or parameter and for a value out of range.
    """
    if kind not in GENERATORS:
        raise UsageError(f"trace kind {show_value(kind)}{suggest(kind, GENERATORS)}")
    accepted = [
        name
        for name in signature(GENERATORS[kind]).parameters
        if name not in ("seed", "duration_s")
    ]
    for name in parameters:
        if name not in accepted:
            known = suggest(name, accepted) if accepted else "; it has no parameters"
            raise UsageError(
                f"trace kind {show_value(kind)}: unknown parameter {show_value(name)}{known}"
            )
    for name, value in parameters.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise UsageError(f"{name} = {show_value(value)}: expected a number")
    if not 0 < duration_s <= 86_400:
        raise UsageError(f"duration of {duration_s:g} s: expected above 0 and at most a day")
    if seed < 0:
        raise UsageError(f"seed {seed}: expected a non-negative integer")
    return GENERATORS[kind](seed=seed, duration_s=duration_s, **parameters)
