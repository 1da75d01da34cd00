"""Media sources: what an encoder makes of the rate that its congestion controller allows."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dumbbell._scenario_types import (
    Fraction,
    Items,
    Model,
    PositiveTime,
    Rate,
    Size,
    Span,
    fail,
)

_Fps = Annotated[float, Field(ge=0.01, le=10_000, allow_inf_nan=False)]
_Noise = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]


class Pause(Span):
    """A time without frames."""


class _Media(Model):
    pauses: Items[Pause] = ()
    """Times of the run without frames; a key frame ends each."""

    @model_validator(mode="after")
    def _check_pauses(self) -> Self:
        ends = [pause.to for pause in self.pauses]
        if any(pause.from_ < end for pause, end in zip(self.pauses[1:], ends, strict=False)):
            fail("expected pauses one after the other", "pauses")
        return self


class Video(_Media):
    """Video of a live encoder: synthetic (RFC 8593 section 5), or frames of a file (section 6)."""

    kind: Literal["video"]
    fps: _Fps = 30.0
    min_rate: Rate = 150_000
    """R_min, of media without headers; a lower target changes nothing."""
    max_rate: Rate = 1_500_000
    """R_max."""
    update: PositiveTime = 200_000_000
    """A new target is taken up this long after the last, at the earliest (tau_v)."""
    transient_change: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 0.5
    """A change by more than this share of the rate begins a transient."""
    transient_frames: Annotated[int, Field(ge=0, le=100_000)] = 8
    """Frames of a transient (K_d): a key frame and smaller ones, the mean rate as always."""
    key_frame: Size = 13_500
    """Bytes of the key frame (K_B)."""
    size_noise: _Noise = 0.15
    """Scale of the Laplace distribution of frame sizes, relative to the mean."""
    interval_noise: _Noise = 0.15
    """The same, of the times between frames."""
    largest_step: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    """A change without a transient is cut to this share of the rate; default: it is not."""
    trace: str | None = None
    """A file of frames: lines of rate (bit/s), interval (s) and bytes, a frame each. Sizes are of
    the encodings next to the target, interpolated; below the lowest and above the highest they are
    scaled. An encoding is played from the start again at its end."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max_rate < self.min_rate:
            fail("expected at least min_rate", "max_rate")
        own = self.model_fields_set - {"kind", "pauses", "trace", "update"}
        if self.trace is not None and own:
            key = min(own)
            fail("a trace has its own frames", key, value=getattr(self, key))
        return self


class Content(_Media):
    """A shared screen: small frames, and large ones at random."""

    kind: Literal["content"]
    fps: _Fps = 5.0
    max_rate: Rate = 1_500_000
    frame: Size = 1000
    """Bytes of a small frame, at most; less where the target is lower."""
    change: Fraction = 0.05
    """Probability of a large frame; the first one is large too."""
    factor: tuple[float, float] = Field(default=(20.0, 200.0), strict=False)
    """A large frame has between so many and so many times the bytes of a small one."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        low, high = self.factor
        if not 1 <= low <= high <= 1e6:
            fail("expected two ascending numbers from 1 on", "factor", value=list(self.factor))
        return self


class Audio(_Media):
    """Frames of one size, whatever the controller allows."""

    kind: Literal["audio"]
    rate: Rate = 20_000
    """Of media without headers."""
    interval: PositiveTime = 20_000_000
    """Between two frames."""


Media = Video | Content | Audio
