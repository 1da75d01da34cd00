//! Target rate of the encoder (section 4.1.3).

use std::collections::VecDeque;

use dumbbell_cc::Params;
use dumbbell_queue::Nanos;

use super::seconds;
use crate::rtp::controllers::Limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Congestion {
    Loss,
    Mark,
}

/// What a report tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs {
    pub(super) now: Nanos,
    /// Bytes that have arrived.
    pub(super) received: u64,
    /// Bytes in the sender's queue.
    pub(super) queued: u64,
    /// Of them, those of frames before the newest.
    pub(super) backlog: u64,
    pub(super) congestion: Option<Congestion>,
    pub(super) fast_increase: bool,
    pub(super) trend: f64,
    pub(super) trend_memory: f64,
    /// Other flows keep the queue long.
    pub(super) competing: bool,
}

/// Growth is slow within a quarter of the rate at the last congestion, by this at least.
const LEAST_SCALE: f64 = 0.2;
/// Media rates that the median is taken of (section 4.1.1: more than 10 s).
const MEDIAN_SAMPLES: usize = 51;
/// The reference implementation: rate where growth ended is taken down at most so often, and the
/// greatest of so many counts; the target stays below so many times the throughput; less than this
/// much in the queue does not stop it.
const CONGESTION_INTERVAL: Nanos = 2_000_000_000;
const INFLECTIONS: usize = 3;
const MOST_OVER_THROUGHPUT: f64 = 1.5;
const QUEUE_BITS: f64 = 12_000.0;
/// Delay of the sender's queue below which it increases fast.
const FAST_QUEUE_DELAY: f64 = 0.1;
/// Beside competing flows it ramps up so many times as fast, and the trend counts for so much less.
/// (There, growth has no limit but the throughput. With RFC 8593's encoder a key frame would raise the
/// throughput, that the target, and that bring the next key frame: the RFC's limit stays.)
const COMPETING_RAMP_UP: f64 = 2.0;
const COMPETING_GUARD: f64 = 0.05;

#[derive(Clone, Debug)]
pub(super) struct TargetRate {
    reference: bool,
    limits: Limits,
    beta_loss: f64,
    beta_mark: f64,
    interval: Nanos,
    ramp_up_speed: f64,
    guard: f64,
    queue_factor: f64,
    queue_delay: f64,
    queue_scale: f64,

    target: f64,
    /// At the last congestion.
    last_max: Option<f64>,
    last_max_at: Nanos,
    /// The reference implementation: of what `last_max` is the greatest, newest last, and whether
    /// the rate has grown since.
    inflections: VecDeque<f64>,
    grew: bool,
    updated: Nanos,
    sent: u64,
    received: u64,
    queued: u64,
    /// Smoothed, bits.
    queue_bits: f64,
    throughput: f64,
    media: f64,
    media_history: VecDeque<f64>,
}

impl TargetRate {
    pub(super) fn new(params: &Params, limits: Limits) -> Self {
        Self {
            reference: params.choice("rate_control") == "reference",
            limits,
            beta_loss: params.number("beta_rate"),
            beta_mark: params.number("beta_rate_ecn"),
            interval: params.time("adjust_interval"),
            ramp_up_speed: params.number("ramp_up_speed"),
            guard: params.number("guard"),
            queue_factor: params.number("queue_factor"),
            queue_delay: seconds(params.time("queue_delay")),
            queue_scale: params.number("queue_scale"),
            target: limits.clip(params.number("start_rate")),
            last_max: None,
            last_max_at: 0,
            inflections: VecDeque::new(),
            grew: false,
            updated: 0,
            sent: 0,
            received: 0,
            queued: 0,
            queue_bits: 0.0,
            throughput: 0.0,
            media: 0.0,
            media_history: VecDeque::new(),
        }
    }

    pub(super) fn start(&mut self, now: Nanos) {
        self.updated = now;
    }

    pub(super) fn get(&self) -> f64 {
        self.target
    }

    pub(super) fn set(&mut self, rate: f64) {
        self.target = self.limits.clip(rate);
    }

    pub(super) fn sent(&mut self, bytes: u32) {
        self.sent += u64::from(bytes);
    }

    /// Whether the rate was computed anew.
    pub(super) fn update(&mut self, inputs: &Inputs) -> bool {
        self.received += inputs.received;
        if let Some(congestion) = inputs.congestion {
            self.remember(inputs.now);
            let beta = match congestion {
                Congestion::Loss => self.beta_loss,
                Congestion::Mark => self.beta_mark,
            };
            self.set(self.target * beta);
            if self.reference {
                self.measure(inputs);
            }
            return true;
        }
        if inputs.now.saturating_sub(self.updated) < self.interval {
            return false;
        }
        self.measure(inputs);
        let rate = if self.reference { self.by_reference(inputs) } else { self.by_rfc(inputs) };
        self.set(rate);
        true
    }

    fn remember(&mut self, now: Nanos) {
        if !self.reference {
            self.last_max = Some(self.target);
            return;
        }
        if self.last_max.is_some() && now.saturating_sub(self.last_max_at) < CONGESTION_INTERVAL {
            return;
        }
        if self.inflections.len() == INFLECTIONS {
            self.inflections.pop_front();
        }
        self.inflections.push_back(self.target.min(self.throughput));
        self.last_max = self.inflections.iter().copied().reduce(f64::max);
        self.last_max_at = now;
    }

    /// Throughput and the encoder's rate since the last update.
    fn measure(&mut self, inputs: &Inputs) {
        let elapsed = seconds(inputs.now.saturating_sub(self.updated)).max(1e-3);
        let rate = |bytes: f64| bytes * 8.0 / elapsed;
        self.throughput = rate(self.sent.max(self.received) as f64);
        let encoded = self.sent.saturating_add(inputs.queued).saturating_sub(self.queued);
        self.media = rate(encoded as f64);
        self.media_history.push_back(self.media);
        if self.media_history.len() > MEDIAN_SAMPLES {
            self.media_history.pop_front();
        }
        self.queue_bits += 0.5 * (inputs.backlog as f64 * 8.0 - self.queue_bits);
        self.queued = inputs.queued;
        (self.sent, self.received, self.updated) = (0, 0, inputs.now);
    }

    /// Slow where congestion was last time.
    fn scale(&self) -> f64 {
        let Some(last) = self.last_max.filter(|&last| last > 0.0) else { return 1.0 };
        (4.0 * (self.target - last) / last).powi(2).clamp(LEAST_SCALE, 1.0)
    }

    /// Greatest growth in one update.
    fn step(&self) -> f64 {
        self.ramp_up_speed.min(self.target / 2.0) * seconds(self.interval)
    }

    fn queue_seconds(&self, bytes: u64) -> f64 {
        let bits = bytes as f64 * 8.0;
        if bits == 0.0 { 0.0 } else { bits / self.throughput.max(1.0) }
    }

    fn by_rfc(&self, inputs: &Inputs) -> f64 {
        let mut target = self.target;
        if inputs.fast_increase {
            target += self.step() * self.scale();
        } else {
            let mut change = self.throughput * (1.0 - self.guard * inputs.trend)
                - self.queue_factor * inputs.queued as f64 * 8.0;
            if change > 0.0 {
                change = (change * self.scale()).min(self.step());
            }
            target += change;
            if self.queue_seconds(inputs.queued) > self.queue_delay {
                target *= self.queue_scale;
            }
        }
        let mut media: Vec<f64> = self.media_history.iter().copied().collect();
        media.sort_by(f64::total_cmp);
        let median = media.get(media.len() / 2).copied().unwrap_or(0.0);
        let bound = self.throughput.max(self.media).max(median);
        target.min(bound * (2.0 - inputs.trend_memory))
    }

    fn by_reference(&mut self, inputs: &Inputs) -> f64 {
        let most = MOST_OVER_THROUGHPUT * self.throughput;
        let target = self.target;
        let bounded = |step: f64| if target > most { 0.0 } else { step };
        let (ramp_up, guard) =
            if inputs.competing { (COMPETING_RAMP_UP, COMPETING_GUARD) } else { (1.0, 1.0) };
        // A frame that has just been encoded is no backlog.
        let backlog = inputs.backlog as f64 * 8.0;
        if inputs.fast_increase && backlog / self.throughput.max(self.target) < FAST_QUEUE_DELAY {
            self.grew = true;
            return self.target + bounded(ramp_up * self.step() * self.scale());
        }
        let mut change = self.throughput
            * (1.0 + 0.05 * (50e3 / self.target).min(1.0))
            * (1.0 - self.guard * guard * inputs.trend)
            - self.queue_factor * self.queue_bits
            - self.target;
        let scale = self.scale();
        if std::mem::take(&mut self.grew) {
            self.remember(inputs.now);
        }
        if backlog > QUEUE_BITS {
            change = change.min(0.0);
        }
        if change > 0.0 {
            self.grew = true;
            change = bounded((change * scale).min(ramp_up * self.step()));
        } else if self.media < 0.8 * self.target || self.media > 2.0 * self.target {
            // The encoder does not do what it was told: no reason to tell it less.
            change = 0.0;
        }
        self.target + change
    }
}
