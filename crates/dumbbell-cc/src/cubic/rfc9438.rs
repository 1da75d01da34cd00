//! CUBIC's growth as RFC 9438 section 4 says, in real numbers.

use super::Settings;
use crate::event::Nanos;

/// Growth of the target per round trip at most (section 4.4).
const MAX_GROWTH: f64 = 1.5;

/// An epoch: the time since the last congestion event in congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Nanos,
    /// Plateau of the cubic.
    origin: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Rfc9438 {
    settings: Settings,
    /// Of the Reno-friendly region: 3 (1 - beta) / (1 + beta).
    alpha: f64,
    w_max: f64,
    /// Window before the last cut.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    k: f64,
    w_est: f64,
    /// Growth that does not fill a segment yet.
    fraction: f64,
    /// Since when the application, not the window, has limited what is sent.
    underused_since: Option<Nanos>,
    last_ack: Nanos,
}

impl Rfc9438 {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            alpha: 3.0 * (1.0 - settings.beta) / (1.0 + settings.beta),
            w_max: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
            k: 0.0,
            w_est: 0.0,
            fraction: 0.0,
            underused_since: None,
            last_ack: 0,
        }
    }

    /// Time in which the window was not used up does not count in the epoch (section 5.8).
    pub(super) fn on_utilisation(&mut self, now: Nanos, used: bool) {
        if !used {
            self.underused_since.get_or_insert(self.last_ack);
        } else if let Some(since) = self.underused_since.take() {
            self.shift(now, now.saturating_sub(since));
        }
        self.last_ack = now;
    }

    /// Idle time does not count either.
    pub(super) fn on_idle(&mut self, now: Nanos, idle: Nanos) {
        if self.underused_since.is_none() {
            self.shift(now, idle);
        }
    }

    fn shift(&mut self, now: Nanos, pause: Nanos) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = epoch.start.saturating_add(pause).min(now);
        }
    }

    /// `acked` segments were acked in congestion avoidance; returns the segments to grow by.
    #[inline]
    pub(super) fn update(&mut self, now: Nanos, segments: u64, acked: f64, srtt: Nanos) -> u64 {
        let cwnd = segments as f64 + self.fraction;
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.w_est = cwnd;
            let distance = (self.w_max - cwnd).max(0.0);
            self.k = libm::cbrt(distance / self.settings.c);
            Epoch { start: now, origin: self.w_max.max(cwnd) }
        });
        let elapsed = now.saturating_sub(epoch.start);
        let w_cubic = |t: Nanos| {
            let offset = t as f64 * 1e-9 - self.k;
            self.settings.c * offset * offset * offset + epoch.origin
        };
        let alpha = if self.w_est >= self.cwnd_prior { 1.0 } else { self.alpha };
        self.w_est += alpha * acked / cwnd;

        let grown = if self.settings.reno_friendly && w_cubic(elapsed) < self.w_est {
            (self.w_est - cwnd).max(0.0)
        } else {
            let target = w_cubic(elapsed.saturating_add(srtt)).clamp(cwnd, MAX_GROWTH * cwnd);
            (target - cwnd) / cwnd * acked
        };
        self.fraction += grown;
        let whole = self.fraction as u64;
        self.fraction -= whole as f64;
        whole
    }

    pub(super) fn on_congestion(&mut self, cwnd: u64) {
        self.w_max = self.settings.next_w_max(cwnd as f64, self.w_max);
        self.cwnd_prior = cwnd as f64;
        self.epoch = None;
        self.fraction = 0.0;
    }

    /// The next epoch begins at its plateau: K = 0, W_max = cwnd (section 4.8).
    pub(super) fn on_timeout(&mut self) {
        self.w_max = 0.0;
        self.epoch = None;
        self.fraction = 0.0;
    }

    /// W_max (segments), K (s), W_est (segments).
    pub(super) fn record(&self) -> (f64, f64, f64) {
        let w_max = self.epoch.map_or(self.w_max, |epoch| epoch.origin);
        (w_max, self.k, self.w_est)
    }
}
