//! ECN: the answer of Linux (BBRv3), which is in proportion to the share of marked data as DCTCP's
//! is, at round-trip times up to some milliseconds; beyond these, that to a loss or none.

use super::settings::{MarkResponse, Settings};
use super::{Bbr3, Sample};
use crate::event::{Ack, EcnMode};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    mode: EcnMode,
    /// Mean share of marked data.
    alpha: f64,
    /// Bytes marked, all in all.
    total: u64,
    /// (`delivered`, `total`) at the start of the last round and of the present one.
    starts: [(u64, u64); 2],
    /// Share of the last round.
    share: f64,
    /// Rounds in a row with too high a share.
    high_rounds: u64,
    pub(super) in_round: bool,
    pub(super) in_cycle: bool,
}

impl Marks {
    pub(super) fn start(&mut self, settings: &Settings, mode: EcnMode) {
        *self = Self { mode, alpha: 1.0, ..Self::default() };
        if !settings.ecn {
            self.mode = EcnMode::Off;
        }
    }

    pub(super) fn alpha(&self) -> f64 {
        if self.mode == EcnMode::Off { 0.0 } else { self.alpha }
    }

    fn end_round(&mut self, delivered: u64, settings: &Settings) {
        let (before, marked) = self.starts[1];
        let span = delivered.saturating_sub(before);
        if span == 0 {
            return;
        }
        self.share = ((self.total - marked) as f64 / span as f64).min(1.0);
        self.alpha += settings.ecn_alpha_gain * (self.share - self.alpha);
        self.starts = [self.starts[1], (delivered, self.total)];
        let high = self.share >= settings.ecn_threshold && self.total > marked;
        self.high_rounds = if high { self.high_rounds + 1 } else { 0 };
    }

    /// Bytes marked since `delivered` was `at`. Segments do not carry the count of their time; within
    /// a round it is taken as even.
    fn since(&self, at: u64, delivered: u64) -> f64 {
        let share = |from: (u64, u64), to: (u64, u64)| {
            let span = to.0.saturating_sub(from.0);
            let part = to.0.saturating_sub(at.max(from.0)).min(span);
            if span == 0 { 0.0 } else { (to.1 - from.1) as f64 * part as f64 / span as f64 }
        };
        share(self.starts[0], self.starts[1]) + share(self.starts[1], (delivered, self.total))
    }

    /// There were marks in this cycle, and there are none any more.
    fn have_ceased(&self) -> bool {
        self.in_cycle && self.share == 0.0 && self.total == self.starts[1].1
    }
}

impl Bbr3 {
    /// What marks call for at present.
    pub(super) fn mark_response(&self) -> MarkResponse {
        match self.marks.mode {
            EcnMode::Off => MarkResponse::Nothing,
            // The echo of one mark lasts a round: it says nothing of shares (RFC 3168 section 5: the
            // answer is that to a loss).
            EcnMode::Classic => MarkResponse::AsLoss,
            _ => {
                let most = self.settings.ecn_max_rtt;
                let near = most == 0 || self.min_rtt.get().is_some_and(|rtt| rtt <= most);
                if near { self.settings.ecn_near } else { self.settings.ecn_beyond }
            }
        }
    }

    pub(super) fn take_marks(&mut self, ack: &Ack) {
        if self.marks.mode == EcnMode::Off {
            return;
        }
        if ack.ecn_failed {
            self.marks.start(&self.settings, EcnMode::Off);
            return;
        }
        self.marks.total += ack.ce;
        if self.rounds.start {
            self.marks.end_round(ack.delivered, &self.settings);
        }
        if ack.ce == 0 {
            return;
        }
        match self.mark_response() {
            MarkResponse::Scaled => (self.marks.in_round, self.marks.in_cycle) = (true, true),
            MarkResponse::AsLoss => self.note_loss(),
            MarkResponse::Nothing => {}
        }
    }

    /// Startup is over: too many marks, round after round.
    pub(super) fn marks_end_startup(&self) -> bool {
        self.marks.high_rounds >= self.settings.ecn_startup_rounds
            && self.mark_response() != MarkResponse::Nothing
    }

    /// Marks say that this sample's data in flight was too much.
    pub(super) fn marks_too_high(&self, sample: &Sample) -> bool {
        if self.marks.total == self.marks.starts[0].1 {
            return false;
        }
        let rate = &sample.ack.rate;
        let marked = self.marks.since(rate.prior_delivered, sample.ack.delivered);
        match self.mark_response() {
            MarkResponse::Nothing => false,
            MarkResponse::Scaled => {
                marked > 0.0 && marked >= rate.delivered as f64 * self.settings.ecn_threshold
            }
            MarkResponse::AsLoss => self.is_too_high(rate.lost as f64 + marked, rate.tx_in_flight),
        }
    }

    /// The path carried marks but no loss, and they have ceased: whoever shared it may have left, so
    /// probe at once. Returns log2 of the growth in segments to begin with.
    pub(super) fn reprobe_after_marks(&self) -> Option<u32> {
        let gain = self.settings.ecn_reprobe_gain;
        if gain == 0.0 || !self.marks.have_ceased() || self.latest.loss_in_cycle {
            return None;
        }
        let growth = gain * self.bounds.inflight_longterm.min(self.cwnd) as f64 / self.mss as f64;
        Some((growth as u64).max(1).ilog2())
    }
}
