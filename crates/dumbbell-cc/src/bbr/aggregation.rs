//! How far ACKs run ahead of the bandwidth estimate (Linux): where a medium holds ACKs back and
//! releases them together, the window must cover the silence, or the sender stalls in it.

use super::settings::Settings;
use crate::event::Nanos;

/// An epoch that counts this many segments is begun anew.
const MAX_EPOCH: u64 = 1 << 20;

#[derive(Clone, Debug)]
pub(super) struct Aggregation {
    gain: f64,
    window: u64,
    max_seconds: f64,
    epoch_start: Nanos,
    /// Segments acked since.
    epoch_acked: u64,
    /// Largest excess of the present and the previous half of the window, segments.
    extra: [u64; 2],
    slot: usize,
    /// Rounds in the present half.
    rounds: u64,
}

impl Aggregation {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            gain: settings.extra_acked_gain,
            window: settings.extra_acked_window,
            max_seconds: settings.extra_acked_max as f64 * 1e-9,
            epoch_start: 0,
            epoch_acked: 0,
            extra: [0; 2],
            slot: 0,
            rounds: 0,
        }
    }

    pub(super) fn restart(&mut self, now: Nanos) {
        self.epoch_start = now;
        self.epoch_acked = 0;
    }

    /// `bw` in segments per second.
    pub(super) fn update(&mut self, now: Nanos, acked: u64, bw: f64, cwnd: u64, round_start: bool) {
        if self.gain == 0.0 {
            return;
        }
        if round_start {
            self.rounds += 1;
            if self.rounds >= self.window {
                self.rounds = 0;
                self.slot = 1 - self.slot;
                self.extra[self.slot] = 0;
            }
        }
        let elapsed = now.saturating_sub(self.epoch_start) as f64 * 1e-9;
        let mut expected = (bw * elapsed) as u64;
        if self.epoch_acked <= expected || self.epoch_acked + acked >= MAX_EPOCH {
            self.restart(now);
            expected = 0;
        }
        self.epoch_acked += acked;
        let excess = (self.epoch_acked - expected).min(cwnd);
        self.extra[self.slot] = self.extra[self.slot].max(excess);
    }

    /// Largest excess of the last 5 to 10 rounds, segments.
    pub(super) fn max(&self) -> u64 {
        self.extra[0].max(self.extra[1])
    }

    /// Segments to add to the window.
    pub(super) fn extra(&self, bw: f64) -> u64 {
        ((self.gain * self.max() as f64) as u64).min((bw * self.max_seconds) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Params;

    fn aggregation() -> Aggregation {
        let infos = super::super::info().params;
        let params = Params::check("bbr", &infos, &serde_json::Map::new()).unwrap();
        Aggregation::new(&Settings::new(&params))
    }

    /// 1000 segments/s, released 20 at a time: each release is 20 segments ahead.
    #[test]
    fn a_release_of_held_back_acks_is_measured() {
        let mut aggregation = aggregation();
        for release in 1..=10_u64 {
            for _ in 0..20 {
                aggregation.update(release * 20_000_000, 1, 1000.0, 100, false);
            }
        }
        assert_eq!(aggregation.max(), 20);
        assert_eq!(aggregation.extra(1000.0), 20);
        // 100 ms at 100 segments/s.
        assert_eq!(aggregation.extra(100.0), 10);
    }

    #[test]
    fn smooth_acks_add_next_to_nothing() {
        let mut aggregation = aggregation();
        for ack in 1..=1000_u64 {
            aggregation.update(ack * 1_000_000, 1, 1000.0, 100, false);
        }
        assert!(aggregation.max() <= 1);
    }

    #[test]
    fn an_excess_is_forgotten_after_ten_rounds() {
        let mut aggregation = aggregation();
        aggregation.update(1_000_000, 30, 1000.0, 100, false);
        for round in 1..=10_u64 {
            assert_eq!(aggregation.max(), 30, "round {round}");
            aggregation.update(1_000_000_000 * round, 1, 1000.0, 100, true);
        }
        assert!(aggregation.max() <= 1);
    }
}
