//! ProbeBW: cycling through DOWN, CRUISE, REFILL and UP, and what a probe says of the data in flight
//! (draft sections "ProbeBW", "Probing for Bandwidth In ProbeBW").

use rand_core::RngCore;

use super::settings::MarkResponse;
use super::{Bbr3, Sample, State, UNBOUNDED};
use crate::event::{Ack, CaState, Nanos};

/// Growth per round stops doubling here.
const MAX_UP_ROUNDS: u32 = 30;

/// What arriving ACKs say about a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AckPhase {
    #[default]
    Init,
    Refilling,
    /// Sending faster; ACKs are still for what was sent before.
    Starting,
    Feedback,
    /// Not sending faster any more; ACKs are still for what was.
    Stopping,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    pub(super) ack_phase: AckPhase,
    /// Samples may still be those of the probe.
    pub(super) is_sample: bool,
    pub(super) rounds_since_up: u64,
    pub(super) wait: Nanos,
    pub(super) cycle_stamp: Nanos,
    pub(super) up_rounds: u32,
    pub(super) up_acked: u64,
    /// Bytes acked for each segment that inflight_longterm grows; 0 while it does not.
    pub(super) acked_per_increase: u64,
    pub(super) prev_too_high: bool,
    pub(super) prev_precautionary: bool,
    /// Lost ranges of the present loss round, and the last segment of the newest.
    pub(super) lost_ranges: u64,
    pub(super) last_lost: Option<u64>,
}

impl Bbr3 {
    /// Whole segments of these bytes.
    pub(super) fn whole(&self, bytes: u64) -> u64 {
        bytes / self.mss * self.mss
    }

    pub(super) fn start_down(&mut self, now: Nanos) {
        self.latest.reset();
        self.marks.in_round = false;
        self.marks.in_cycle = false;
        self.probe.acked_per_increase = 0;
        self.pick_probe_wait();
        self.probe.cycle_stamp = now;
        self.probe.ack_phase = AckPhase::Stopping;
        self.start_round();
        self.state = State::Down;
        self.pacing_gain = self.settings.probe_down_gain;
        self.cwnd_gain = self.settings.cwnd_gain;
    }

    fn pick_probe_wait(&mut self) {
        self.probe.rounds_since_up = u64::from(self.random.next_u32() & 1);
        let spread = self.settings.probe_wait_spread as f64;
        let part = f64::from(self.random.next_u32()) / 4_294_967_296.0;
        self.probe.wait = self.settings.probe_wait + (spread * part) as Nanos;
    }

    pub(super) fn start_cruise(&mut self) {
        self.state = State::Cruise;
        self.pacing_gain = 1.0;
        self.cwnd_gain = self.settings.cwnd_gain;
    }

    pub(super) fn start_refill(&mut self, up_rounds: u32) {
        self.bounds.reset_shortterm();
        self.probe.up_rounds = up_rounds;
        self.probe.up_acked = 0;
        self.probe.prev_precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
        self.pacing_gain = 1.0;
        self.cwnd_gain = self.settings.cwnd_gain;
    }

    fn start_up(&mut self, rate: f64) {
        self.probe.is_sample = true;
        self.probe.ack_phase = AckPhase::Starting;
        self.start_round();
        self.full_pipe.reset(rate);
        self.state = State::Up;
        self.pacing_gain = self.settings.probe_up_gain;
        self.cwnd_gain = self.settings.probe_up_cwnd_gain;
        self.raise_slope();
    }

    pub(super) fn update_probe_bw(&mut self, sample: &Sample) {
        if !self.full_pipe.reached || self.adapt_long_term_model(sample) {
            return;
        }
        let ack = sample.ack;
        match self.state {
            State::Down => {
                if !self.check_time_to_probe(ack) && self.is_time_to_cruise(ack) {
                    self.start_cruise();
                }
            }
            State::Cruise => {
                self.check_time_to_probe(ack);
            }
            State::Refill => {
                if self.rounds.start {
                    self.start_up(sample.rate);
                }
            }
            State::Up => {
                if self.is_time_to_go_down(sample) {
                    self.probe.prev_too_high = false;
                    self.start_down(ack.now);
                }
            }
            State::Startup | State::Drain | State::ProbeRtt => {}
        }
    }

    fn check_time_to_probe(&mut self, ack: &Ack) -> bool {
        if ack.state == CaState::Open
            && self.marks.in_cycle
            && self.mark_response() == MarkResponse::Scaled
            && let Some(up_rounds) = self.reprobe_after_marks()
        {
            self.start_refill(up_rounds);
            return true;
        }
        let waited = ack.now > self.probe.cycle_stamp.saturating_add(self.probe.wait);
        let probe = waited || self.is_reno_time();
        if probe {
            self.start_refill(0);
        }
        probe
    }

    /// A Reno flow of this window would have had to lose once by now.
    fn is_reno_time(&self) -> bool {
        let rounds = self.probe.rounds_since_up;
        rounds >= self.settings.probe_max_rounds || rounds * self.mss >= self.target_inflight()
    }

    /// The estimated pipe, unless congestion has cut the window.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp(self.bw, 1.0).min(self.cwnd)
    }

    fn is_time_to_cruise(&self, ack: &Ack) -> bool {
        ack.inflight <= self.inflight_with_headroom()
            && ack.inflight <= self.inflight_target(self.max_bw.get(), 1.0)
    }

    fn is_time_to_go_down(&mut self, sample: &Sample) -> bool {
        let longterm = self.bounds.inflight_longterm;
        // Precaution: the level that was too high is reached.
        if self.probe.prev_too_high && sample.ack.inflight >= longterm {
            self.probe.prev_precautionary = true;
            return true;
        }
        if sample.ack.cwnd_limited && self.cwnd >= longterm {
            // The bound, not the path, limits bandwidth.
            self.full_pipe.reset(sample.rate);
            return false;
        }
        self.full_pipe.now
    }

    /// Returns true if it has changed the state.
    fn adapt_long_term_model(&mut self, sample: &Sample) -> bool {
        if self.rounds.start {
            match self.probe.ack_phase {
                AckPhase::Starting => self.probe.ack_phase = AckPhase::Feedback,
                AckPhase::Stopping => {
                    self.probe.is_sample = false;
                    self.probe.ack_phase = AckPhase::Init;
                    if self.state.is_probe_bw() && !sample.app_limited {
                        self.max_bw.advance();
                    }
                    // The careful probe went well: go on at once.
                    if self.state.is_probe_bw()
                        && self.probe.prev_precautionary
                        && !self.probe.prev_too_high
                    {
                        self.start_refill(0);
                        return true;
                    }
                }
                AckPhase::Init | AckPhase::Refilling | AckPhase::Feedback => {}
            }
        }
        let rate = &sample.ack.rate;
        if self.marks_too_high(sample) {
            if self.probe.is_sample {
                let up = self.state == State::Up;
                self.handle_too_high(rate.tx_in_flight, sample.app_limited, sample.ack.now);
                return up;
            }
            return false;
        }
        if self.bounds.inflight_longterm == UNBOUNDED
            || self.is_too_high(rate.lost as f64, rate.tx_in_flight)
        {
            return false;
        }
        let safe = self.whole(rate.tx_in_flight);
        self.bounds.inflight_longterm = self.bounds.inflight_longterm.max(safe);
        if self.state == State::Up {
            self.raise_long_term(sample.ack);
        }
        false
    }

    fn raise_slope(&mut self) {
        let growth = 1_u64 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.probe.acked_per_increase = (self.cwnd / growth).max(self.mss);
    }

    /// While the bound is what limits the flow it grows by 1, 2, 4, ... segments a round.
    fn raise_long_term(&mut self, ack: &Ack) {
        if !ack.cwnd_limited || self.cwnd < self.bounds.inflight_longterm {
            return;
        }
        self.probe.up_acked += ack.acked;
        if let Some(steps) = self.probe.up_acked.checked_div(self.probe.acked_per_increase) {
            self.probe.up_acked -= steps * self.probe.acked_per_increase;
            self.bounds.inflight_longterm += steps * self.mss;
        }
        if self.rounds.start {
            self.raise_slope();
        }
    }

    /// More than the threshold of `inflight` was lost.
    pub(super) fn is_too_high(&self, lost: f64, inflight: u64) -> bool {
        lost > self.settings.loss_threshold * inflight as f64
    }

    /// A probe has put too much into flight: `inflight` is what the path took.
    pub(super) fn handle_too_high(&mut self, inflight: u64, app_limited: bool, now: Nanos) {
        self.probe.prev_too_high = true;
        self.probe.is_sample = false;
        if !app_limited {
            let least = (self.settings.beta * self.target_inflight() as f64) as u64;
            self.bounds.inflight_longterm =
                self.whole(inflight.max(least)).max(self.min_pipe_cwnd());
        }
        if self.state == State::Up {
            if let Some(saved) = &mut self.saved {
                saved.state = Some(State::Up);
            }
            self.start_down(now);
        }
    }
}
