//! Rate by over-use signals (draft section 5.5, with the average of the link's capacity and the
//! intervals of libwebrtc).

use dumbbell_queue::Nanos;

use super::detector::Signal;
use crate::rtp::controllers::Limits;
use crate::rtp::delay::millis;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Hold,
    Increase,
    Decrease,
}

impl State {
    /// Table of section 5.5.
    pub(super) fn after(self, signal: Signal) -> Self {
        match (signal, self) {
            (Signal::Over, _) => Self::Decrease,
            (Signal::Under, _) | (Signal::Normal, Self::Decrease) => Self::Hold,
            (Signal::Normal, Self::Hold | Self::Increase) => Self::Increase,
        }
    }
}

/// What is known of the link's capacity from the rates at which it was used too much, kbit/s
/// (libwebrtc's link capacity estimator).
#[derive(Clone, Copy, Debug)]
struct Capacity {
    mean: Option<f64>,
    /// Variance over the mean.
    deviation: f64,
}

impl Capacity {
    /// Weight of a sample (draft: 0.95 for what was known).
    const WEIGHT: f64 = 0.05;
    const LEAST_DEVIATION: f64 = 0.4;
    const GREATEST_DEVIATION: f64 = 2.5;

    fn new() -> Self {
        Self { mean: None, deviation: Self::LEAST_DEVIATION }
    }

    fn add(&mut self, rate: f64) {
        let sample = rate / 1e3;
        let mean =
            self.mean.map_or(sample, |mean| (1.0 - Self::WEIGHT) * mean + Self::WEIGHT * sample);
        self.mean = Some(mean);
        self.deviation = ((1.0 - Self::WEIGHT) * self.deviation
            + Self::WEIGHT * (mean - sample).powi(2) / mean.max(1.0))
        .clamp(Self::LEAST_DEVIATION, Self::GREATEST_DEVIATION);
    }

    /// Whether a rate lies more than three standard deviations beside the average.
    fn is_above(&self, rate: f64) -> bool {
        self.mean.is_some_and(|mean| rate / 1e3 > mean + 3.0 * (self.deviation * mean).sqrt())
    }

    fn is_below(&self, rate: f64) -> bool {
        self.mean.is_some_and(|mean| rate / 1e3 < mean - 3.0 * (self.deviation * mean).sqrt())
    }
}

/// Times in ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants {
    /// Factor of the measured rate on over-use.
    pub(super) beta: f64,
    /// Factor of the rate in a second far from convergence.
    pub(super) eta: f64,
    /// Of the over-use estimator.
    pub(super) response: f64,
    /// Increase is bounded by so many times the measured rate.
    pub(super) headroom: f64,
    /// Over-use cuts a round trip after any move of the rate, not only after the last cut.
    pub(super) patient: bool,
}

/// Increase is bounded by so much more, so that rates near 0 can grow (libwebrtc).
const HEADROOM_BPS: f64 = 10e3;
/// Least increase near convergence in a second (libwebrtc).
const LEAST_INCREASE: f64 = 4e3;
/// Least increase far from it, each time (draft section 5.5).
const LEAST_STEP: f64 = 1e3;
/// Bits of a packet, and frames a second, that the draft reckons with.
const PACKET_BITS: f64 = 9600.0;
const FRAME_RATE: f64 = 30.0;

#[derive(Clone, Debug)]
pub(super) struct Aimd {
    constants: Constants,
    limits: Limits,
    rate: f64,
    state: State,
    capacity: Capacity,
    /// When growth was last computed, or the rate set.
    changed: Option<Nanos>,
    /// From when on a round trip has to pass before a cut.
    moved: Option<Nanos>,
}

impl Aimd {
    pub(super) fn new(constants: Constants, limits: Limits, start: f64) -> Self {
        Self {
            constants,
            limits,
            rate: limits.clip(start),
            state: State::Hold,
            capacity: Capacity::new(),
            changed: None,
            moved: None,
        }
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn set_rate(&mut self, now: Nanos, rate: f64) {
        self.rate = self.limits.clip(rate);
        self.changed = Some(now);
    }

    /// What a probe has found.
    pub(super) fn probed(&mut self, now: Nanos, rate: f64) {
        self.set_rate(now, rate);
        self.moved = Some(now);
    }

    /// Bits per second added in a second near convergence: half a packet in a response time.
    fn additive(&self, rtt: f64) -> f64 {
        let frame = self.rate / FRAME_RATE;
        let packet = frame / (frame / PACKET_BITS).ceil().max(1.0);
        (0.5 * packet / ((self.constants.response + rtt) / 1e3).max(1e-3)).max(LEAST_INCREASE)
    }

    /// `measured`: R_hat; rtt in ms.
    pub(super) fn update(
        &mut self,
        now: Nanos,
        signal: Signal,
        measured: Option<f64>,
        rtt: f64,
    ) -> f64 {
        let since =
            |at: Option<Nanos>| at.map_or(f64::INFINITY, |at| millis(now.saturating_sub(at)));
        let due = measured.filter(|&measured| {
            // Unless the rate is far above what gets through.
            since(self.moved) >= rtt.clamp(10.0, 200.0) || measured < 0.5 * self.rate
        });
        match (signal, due) {
            (Signal::Over, Some(measured)) => {
                self.decrease(measured);
                self.moved = Some(now);
            }
            (Signal::Over, None) if self.constants.patient => return self.rate,
            _ => {}
        }
        self.state = self.state.after(signal);
        if self.state == State::Increase {
            self.increase(since(self.changed).min(1e3), measured, rtt);
            if self.constants.patient {
                self.moved = Some(now);
            }
        }
        self.changed = Some(now);
        self.rate
    }

    fn increase(&mut self, since: f64, measured: Option<f64>, rtt: f64) {
        if let Some(measured) = measured
            && self.capacity.is_above(measured)
        {
            self.capacity = Capacity { mean: None, ..self.capacity };
        }
        let step = if self.capacity.mean.is_some() {
            self.additive(rtt) * since / 1e3
        } else {
            (self.rate * (self.constants.eta.powf(since / 1e3) - 1.0)).max(LEAST_STEP)
        };
        let bound = measured.map_or(f64::INFINITY, |m| self.constants.headroom * m + HEADROOM_BPS);
        if self.rate < bound {
            self.rate = self.limits.clip((self.rate + step).min(bound));
        }
    }

    fn decrease(&mut self, measured: f64) {
        let mut rate = self.constants.beta * measured;
        if rate > self.rate
            && let Some(mean) = self.capacity.mean
        {
            rate = self.constants.beta * mean * 1e3;
        }
        // Over-use never raises the rate.
        self.rate = self.limits.clip(rate.min(self.rate));
        if self.capacity.is_below(measured) {
            self.capacity = Capacity { mean: None, ..self.capacity };
        }
        self.capacity.add(measured);
    }
}
