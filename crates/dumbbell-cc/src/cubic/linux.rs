//! CUBIC's growth as Linux computes it: whole segments, time in 1/1024 s, and a step count ("one
//! segment more per `count` acked") that is refreshed only when the window has changed or 1/32 s
//! has passed.

use super::Settings;
use crate::event::Nanos;
use crate::window::Window;

const NANOS_PER_MS: Nanos = 1_000_000;
/// With an unchanged window the step count is kept for this many milliseconds (1/32 s).
const REFRESH: u64 = 31;
/// Units of the cubic's clock per second.
const TICKS: u64 = 1024;
/// Step count while the target is not above the window: next to no growth.
const FLAT: u64 = 100;
/// Step count at most, before the first W_max: 5 % growth per round trip.
const FIRST_EPOCH: u64 = 20;
/// Step count at least: growth of 1.5 per round trip.
const STEEPEST: u64 = 2;
/// Time from the plateau at most, in ticks (12 days): keeps its cube within 128 bits.
const MAX_OFFSET: u64 = 1 << 30;

/// The nearest number that the 10-bit fixed point of Linux holds (0.7 is 717/1024).
pub(crate) fn quantised(value: f64) -> f64 {
    let scaled = (value * TICKS as f64 + 0.5) as u64;
    scaled.max(1) as f64 / TICKS as f64
}

#[derive(Clone, Debug)]
pub(crate) struct Linux {
    settings: Settings,
    /// C in 1/1024.
    c: u64,
    /// Eight times the windows acked per segment of the Reno estimate: 15 for beta = 0.7.
    reno_scale: u64,
    /// Window before the last cut (lower with fast convergence); 0: none yet.
    w_max: u64,
    /// Start of the present epoch, ms.
    epoch: Option<u64>,
    /// Plateau of the epoch, and when it is reached, in ticks.
    origin: u64,
    k: u64,
    count: u64,
    last_cwnd: u64,
    last_time: u64,
    /// The window that Reno would have, and the bytes acked towards its next segment.
    w_est: u64,
    acked: u64,
}

impl Linux {
    pub(crate) fn new(settings: Settings) -> Self {
        let beta = (settings.beta * TICKS as f64) as u64;
        Self {
            settings,
            c: (settings.c * TICKS as f64) as u64,
            reno_scale: (8 * (TICKS + beta) / 3 / (TICKS - beta).max(1)).max(1),
            w_max: 0,
            epoch: None,
            origin: 0,
            k: 0,
            count: STEEPEST,
            last_cwnd: 0,
            last_time: 0,
            w_est: 0,
            acked: 0,
        }
    }

    /// Time since the epoch began.
    pub(crate) fn age(&self, now: Nanos) -> Option<Nanos> {
        self.epoch.map(|epoch| now.saturating_sub(epoch * NANOS_PER_MS))
    }

    /// Count `acked` bytes and return the segments to be acked per segment of growth.
    #[inline]
    pub(crate) fn update(
        &mut self,
        now: Nanos,
        window: &Window,
        acked: u64,
        delay_min: Nanos,
    ) -> u64 {
        let cwnd = window.segments();
        let time = now / NANOS_PER_MS;
        self.acked += acked;
        if cwnd == self.last_cwnd && time.saturating_sub(self.last_time) <= REFRESH {
            return self.count;
        }
        // At most one target per tick of the clock; the Reno estimate is followed all the same.
        if self.epoch.is_none() || time != self.last_time {
            self.last_cwnd = cwnd;
            self.last_time = time;
            self.count = self.cubic_count(time, cwnd, acked, delay_min);
        }
        if self.settings.reno_friendly {
            self.count = self.count.min(self.reno_count(window));
        }
        self.count = self.count.max(STEEPEST);
        self.count
    }

    fn cubic_count(&mut self, time: u64, cwnd: u64, acked: u64, delay_min: Nanos) -> u64 {
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.acked = acked;
            self.w_est = cwnd;
            if self.w_max > cwnd {
                let distance = (self.w_max - cwnd) as f64 * TICKS as f64 / self.c as f64;
                self.k = (TICKS as f64 * libm::cbrt(distance)) as u64;
                self.origin = self.w_max;
            } else {
                self.k = 0;
                self.origin = cwnd;
            }
            time
        });
        // The window to have one round trip from now.
        let ahead = time.saturating_sub(epoch) + delay_min.div_ceil(NANOS_PER_MS);
        let target = self.curve(ahead);
        let count = if target > cwnd { cwnd / (target - cwnd) } else { FLAT * cwnd };
        if self.w_max == 0 { count.min(FIRST_EPOCH) } else { count }
    }

    /// The window so many milliseconds into the epoch.
    fn curve(&self, elapsed: u64) -> u64 {
        let ticks = elapsed.saturating_mul(TICKS) / 1000;
        let offset = u128::from(ticks.abs_diff(self.k).min(MAX_OFFSET));
        let delta = ((u128::from(self.c) * offset * offset * offset) >> 40) as u64;
        if ticks < self.k {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        }
    }

    /// Begin the curve anew at its present value, flat.
    pub(crate) fn flatten(&mut self, now: Nanos, cwnd: u64) {
        let time = now / NANOS_PER_MS;
        if let Some(epoch) = self.epoch {
            self.origin = self.curve(time.saturating_sub(epoch));
            self.epoch = Some(time);
            self.k = 0;
            self.w_est = cwnd;
            self.acked = 0;
            self.last_cwnd = 0;
        }
    }

    /// Lower the plateau.
    pub(crate) fn lower(&mut self, segments: u64) {
        self.origin = self.origin.saturating_sub(segments);
        self.w_est = self.w_est.saturating_sub(segments);
    }

    /// Step count that catches up with the window of Reno within a round trip, if that is larger.
    fn reno_count(&mut self, window: &Window) -> u64 {
        let cwnd = window.segments();
        let per_segment = ((cwnd * self.reno_scale) >> 3).max(1) * window.mss();
        if self.acked > per_segment {
            let steps = (self.acked - 1) / per_segment;
            self.acked -= steps * per_segment;
            self.w_est += steps;
        }
        if self.w_est > cwnd { cwnd / (self.w_est - cwnd) } else { u64::MAX }
    }

    pub(crate) fn on_congestion(&mut self, cwnd: u64) {
        self.w_max = self.settings.next_w_max(cwnd as f64, self.w_max as f64) as u64;
        self.epoch = None;
    }

    pub(crate) fn on_timeout(&mut self) {
        *self = Self::new(self.settings);
    }

    /// Idle time does not count in the epoch.
    pub(crate) fn on_idle(&mut self, now: Nanos, idle: Nanos) {
        if let Some(epoch) = &mut self.epoch {
            *epoch = (*epoch + idle / NANOS_PER_MS).min(now / NANOS_PER_MS);
        }
    }

    /// W_max (segments), K (s), W_est (segments).
    pub(crate) fn record(&self) -> (f64, f64, f64) {
        (self.w_max as f64, self.k as f64 / TICKS as f64, self.w_est as f64)
    }
}
