//! Startup and Drain, and the estimator of a full pipe (draft sections "Startup", "Drain").

use super::{Bbr3, Sample, State};
use crate::event::{Ack, CaState};

/// Whether bandwidth still grows with the sending rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    /// Bytes per second, of the last round that grew.
    pub(super) bw: f64,
    /// Rounds since.
    pub(super) count: u64,
    /// The pipe is full as far as this probe can tell.
    pub(super) now: bool,
    /// It has been full before.
    pub(super) reached: bool,
}

impl FullPipe {
    /// Begin a new estimate from `bw`.
    pub(super) fn reset(&mut self, bw: f64) {
        (self.bw, self.count, self.now) = (bw, 0, false);
    }
}

impl Bbr3 {
    pub(super) fn enter_startup(&mut self) {
        self.state = State::Startup;
        self.pacing_gain = self.settings.startup_gain;
        self.cwnd_gain = self.settings.cwnd_gain;
        self.pipe = None;
    }

    pub(super) fn check_full_bw_reached(&mut self, sample: &Sample) {
        let full = &mut self.full_pipe;
        if full.now || !self.rounds.start || sample.app_limited || sample.rate == 0.0 {
            return;
        }
        if sample.rate >= full.bw * self.settings.full_bw_growth {
            full.reset(sample.rate);
            return;
        }
        full.count += 1;
        full.now = full.count >= self.settings.full_bw_rounds;
        full.reached |= full.now;
    }

    pub(super) fn check_startup_done(&mut self, ack: &Ack) {
        if self.state != State::Startup {
            return;
        }
        if self.has_high_loss(ack) || self.marks_end_startup() {
            self.full_pipe.now = true;
            self.full_pipe.reached = true;
            let safe = self.bdp(self.bw, 1.0).max(self.latest.inflight);
            self.bounds.inflight_longterm = self.whole(safe).max(self.min_pipe_cwnd());
            if let Some(saved) = &mut self.saved {
                saved.state = Some(State::Startup);
            }
        }
        if self.full_pipe.reached {
            self.enter_drain();
        }
    }

    /// A round of fast recovery has lost too much, in several places.
    fn has_high_loss(&mut self, ack: &Ack) -> bool {
        if !self.latest.round_start {
            return false;
        }
        let ranges = std::mem::take(&mut self.probe.lost_ranges);
        ack.state == CaState::Recovery
            && ranges >= self.settings.startup_full_loss_count
            && self.is_too_high(ack.rate.lost as f64, ack.rate.tx_in_flight)
    }

    fn enter_drain(&mut self) {
        self.state = State::Drain;
        self.pacing_gain = self.settings.drain_gain;
        self.cwnd_gain = self.settings.cwnd_gain;
        self.drain_start = self.rounds.count;
        self.pipe = Some(self.inflight_target(self.max_bw.get(), 1.0));
    }

    pub(super) fn check_drain_done(&mut self, ack: &Ack) {
        if self.state != State::Drain {
            return;
        }
        let limit = self.settings.drain_rounds;
        let too_long = limit > 0 && self.rounds.count > self.drain_start + limit;
        if too_long || ack.inflight <= self.inflight_target(self.bw, 1.0) {
            self.cwnd_gain = self.settings.cwnd_gain;
            self.start_down(ack.now);
        }
    }
}
