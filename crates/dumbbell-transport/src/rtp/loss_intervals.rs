//! Average number of packets between loss events, with the weights of RFC 5348 section 5.4.
//!
//! The open interval does not count in it, other than in RFC 5348: with it the average grows along,
//! and no interval could ever be MULTILOSS = 7 times as long (RFC 8698 section 4.2): with weights that
//! add up to 6, it is less than 6 times as long for good.

use std::collections::VecDeque;

use dumbbell_queue::Nanos;

/// Weights of the last intervals, the newest first (RFC 5348 section 5.4).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

#[derive(Clone, Debug)]
pub(super) struct LossIntervals {
    /// Packets of each interval, the open one first.
    packets: VecDeque<u64>,
    /// When the packet was sent that the last loss event began with.
    event: Option<Nanos>,
}

impl LossIntervals {
    pub(super) fn new() -> Self {
        Self { packets: VecDeque::from([0]), event: None }
    }

    pub(super) fn received(&mut self) {
        self.packets[0] += 1;
    }

    /// Losses within a round trip of the first are one event.
    pub(super) fn lost(&mut self, sent: Nanos, rtt: Nanos) {
        if self.event.is_some_and(|event| sent.saturating_sub(event) <= rtt) {
            self.packets[0] += 1;
            return;
        }
        self.event = Some(sent);
        self.packets.push_front(1);
        self.packets.truncate(WEIGHTS.len() + 1);
    }

    /// Packets since the last loss event began.
    pub(super) fn open(&self) -> f64 {
        self.packets[0] as f64
    }

    /// Weighted average; `None` before a loss.
    pub(super) fn mean(&self) -> Option<f64> {
        let closed = self.packets.len() - 1;
        if closed == 0 {
            return None;
        }
        let weighted = self.packets.iter().skip(1).zip(WEIGHTS);
        let weights: f64 = WEIGHTS.iter().take(closed).sum();
        Some(weighted.map(|(&packets, weight)| packets as f64 * weight).sum::<f64>() / weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closed intervals 30, 20 and 10, the newest first: with weights of 1 their mean is 20.
    #[test]
    fn mean_of_the_closed_intervals() {
        let mut losses = LossIntervals::new();
        assert_eq!(losses.mean(), None);
        let mut sent = 0;
        for length in [10, 20, 30] {
            for _ in 0..length - u64::from(sent > 0) {
                losses.received();
            }
            sent += 1_000;
            losses.lost(sent, 100);
        }
        assert_eq!(losses.mean(), Some(20.0));
        for _ in 0..59 {
            losses.received();
        }
        assert_eq!((losses.open(), losses.mean()), (60.0, Some(20.0)));
    }

    /// Eight intervals of 10 to 80 packets, the newest the longest; the ninth is forgotten:
    /// 80 + 70 + 60 + 50 + 0.8 * 40 + 0.6 * 30 + 0.4 * 20 + 0.2 * 10 = 320, over 6.
    #[test]
    fn older_intervals_weigh_less() {
        let mut losses = LossIntervals::new();
        for event in 0..=8u64 {
            let received = if event == 0 { 1000 } else { 10 * event - 1 };
            for _ in 0..received {
                losses.received();
            }
            losses.lost(1_000 * event, 100);
        }
        assert!((losses.mean().unwrap() - 320.0 / 6.0).abs() < 1e-9);
    }

    #[test]
    fn losses_within_a_round_trip_are_one_event() {
        let mut losses = LossIntervals::new();
        for _ in 0..50 {
            losses.received();
        }
        losses.lost(1_000, 100);
        losses.lost(1_050, 100);
        assert_eq!((losses.mean(), losses.open()), (Some(50.0), 2.0));
    }
}
