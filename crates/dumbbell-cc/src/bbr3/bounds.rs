//! The model's bandwidth and its short-term bounds: draft sections "max_bw" and "Updating the Model
//! Upon Packet Loss".

use super::settings::MarkResponse;
use super::{Bbr3, Sample, UNBOUNDED};

/// Maximum delivery rate of the previous and the present ProbeBW cycle, bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxBandwidth {
    cycles: [f64; 2],
    max: f64,
}

impl MaxBandwidth {
    pub(super) fn get(&self) -> f64 {
        self.max
    }

    pub(super) fn update(&mut self, rate: f64) {
        if rate > self.cycles[1] {
            self.cycles[1] = rate;
            self.max = self.max.max(rate);
        }
    }

    /// A cycle is over; one without a sample leaves the old ones.
    pub(super) fn advance(&mut self) {
        if self.cycles[1] > 0.0 {
            self.cycles = [self.cycles[1], 0.0];
            self.max = self.cycles[0];
        }
    }
}

/// Bounds on what may be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes in flight that a bandwidth probe found too much.
    pub(super) inflight_longterm: u64,
    pub(super) inflight_shortterm: u64,
    /// Bytes per second.
    pub(super) bw_shortterm: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            inflight_longterm: UNBOUNDED,
            inflight_shortterm: UNBOUNDED,
            bw_shortterm: f64::INFINITY,
        }
    }
}

impl Bounds {
    pub(super) fn reset_shortterm(&mut self) {
        self.inflight_shortterm = UNBOUNDED;
        self.bw_shortterm = f64::INFINITY;
    }
}

/// Delivery of the latest round, and the loss in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latest {
    /// Bytes per second.
    pub(super) bw: f64,
    pub(super) inflight: u64,
    /// `delivered` that ends the round.
    pub(super) round_end: u64,
    pub(super) round_start: bool,
    pub(super) loss_in_round: bool,
    pub(super) loss_in_cycle: bool,
}

impl Latest {
    /// End of an ACK: a new round begins with this sample.
    pub(super) fn advance(&mut self, sample: &Sample) {
        if self.round_start {
            self.bw = sample.rate;
            self.inflight = sample.ack.rate.delivered;
        }
    }

    /// A new cycle.
    pub(super) fn reset(&mut self) {
        self.bw = 0.0;
        self.inflight = 0;
        self.loss_in_round = false;
        self.loss_in_cycle = false;
    }
}

impl Bbr3 {
    pub(super) fn update_latest_signals(&mut self, sample: &Sample) {
        let rate = &sample.ack.rate;
        let latest = &mut self.latest;
        latest.bw = latest.bw.max(sample.rate);
        latest.inflight = latest.inflight.max(rate.delivered);
        latest.round_start = rate.has_data && rate.prior_delivered >= latest.round_end;
        if latest.round_start {
            latest.round_end = sample.ack.delivered;
        }
    }

    pub(super) fn update_congestion_signals(&mut self, sample: &Sample) {
        self.update_round(sample.ack);
        // A sample that the application limited can only show that there is more bandwidth.
        if sample.rate > 0.0 && (!sample.app_limited || sample.rate >= self.max_bw.get()) {
            self.max_bw.update(sample.rate);
        }
        self.take_marks(sample.ack);
        if self.latest.round_start {
            if !self.state.is_probing() {
                self.adapt_short_term_bounds();
            }
            self.latest.loss_in_round = false;
            self.marks.in_round = false;
        }
    }

    /// Once a round: the bounds follow the latest delivery, by steps of at most `beta`; marks cut
    /// the data in flight by their mean share (Linux).
    fn adapt_short_term_bounds(&mut self) {
        let scaled = self.marks.in_round && self.mark_response() == MarkResponse::Scaled;
        if !(scaled || self.latest.loss_in_round) {
            return;
        }
        let (bounds, beta) = (&mut self.bounds, self.settings.beta);
        if bounds.inflight_shortterm == UNBOUNDED {
            bounds.inflight_shortterm = self.cwnd;
        }
        let mut by_marks = UNBOUNDED;
        if scaled {
            let cut = 1.0 - self.settings.ecn_factor * self.marks.alpha();
            by_marks = (bounds.inflight_shortterm as f64 * cut) as u64;
        }
        if self.latest.loss_in_round {
            if bounds.bw_shortterm.is_infinite() {
                bounds.bw_shortterm = self.max_bw.get();
            }
            bounds.bw_shortterm = self.latest.bw.max(beta * bounds.bw_shortterm);
            let cut = (beta * bounds.inflight_shortterm as f64) as u64;
            bounds.inflight_shortterm = self.latest.inflight.max(cut);
        }
        bounds.inflight_shortterm = bounds.inflight_shortterm.min(by_marks);
    }
}
