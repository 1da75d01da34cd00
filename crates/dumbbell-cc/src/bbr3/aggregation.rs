//! How far ACKs run ahead of the bandwidth estimate: `extra_acked`, a windowed maximum over rounds.

use super::Bbr3;
use super::settings::Settings;
use crate::event::{Ack, Nanos};
use crate::windowed_filter::WindowedFilter;

#[derive(Clone, Debug)]
pub(super) struct Aggregation {
    /// Bytes; over the rounds after Startup.
    filter: WindowedFilter<u64>,
    /// Largest excess of the present and of the last round: the filter of Startup.
    recent: [u64; 2],
    /// What of the filter counts at present.
    extra: u64,
    interval_start: Nanos,
    delivered: u64,
}

impl Aggregation {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            filter: WindowedFilter::max(settings.extra_acked_window, 0, 0),
            recent: [0; 2],
            extra: 0,
            interval_start: 0,
            delivered: 0,
        }
    }

    pub(super) fn restart(&mut self, now: Nanos) {
        self.interval_start = now;
    }

    /// Bytes.
    pub(super) fn extra(&self) -> u64 {
        self.extra
    }

    /// Bytes acked by one ACK beyond what `bw` lets expect.
    fn excess(&mut self, now: Nanos, acked: u64, bw: f64) -> u64 {
        let elapsed = now.saturating_sub(self.interval_start) as f64 * 1e-9;
        let mut expected = (bw * elapsed) as u64;
        if self.delivered <= expected {
            self.delivered = 0;
            self.interval_start = now;
            expected = 0;
        }
        self.delivered += acked;
        self.delivered - expected
    }
}

impl Bbr3 {
    pub(super) fn update_aggregation(&mut self, ack: &Ack) {
        let Self { aggregation, rounds, cwnd, .. } = self;
        let excess = aggregation.excess(ack.now, ack.acked, self.bw).min(*cwnd);
        if rounds.start {
            aggregation.recent = [0, aggregation.recent[0]];
        }
        aggregation.recent[0] = aggregation.recent[0].max(excess);
        let longest = aggregation.filter.update(rounds.count, excess);
        aggregation.extra = if self.full_pipe.reached {
            longest
        } else {
            aggregation.recent[0].max(aggregation.recent[1])
        };
        if self.settings.extra_acked_max > 0 {
            let most = self.bw * self.settings.extra_acked_max as f64 * 1e-9;
            aggregation.extra = aggregation.extra.min(most as u64);
        }
    }
}
