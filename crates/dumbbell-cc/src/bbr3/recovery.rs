//! Loss segment by segment, loss recovery, and taking back what a spurious one has changed (draft
//! sections "Probing for Bandwidth In ProbeBW", "Modulating cwnd in Loss Recovery", "Updating the
//! Model Upon Detecting a Spurious Loss Recovery").

use super::bounds::Bounds;
use super::{Bbr3, State};
use crate::event::{CaState, Lost};

/// The model before a loss episode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    bounds: Bounds,
    /// The probing state that the episode has ended.
    pub(super) state: Option<State>,
}

impl Bbr3 {
    pub(super) fn handle_lost(&mut self, event: &Lost) {
        self.delivered = event.delivered;
        self.save_state();
        self.note_loss();
        if self.probe.last_lost.is_none_or(|last| event.number != last + 1) {
            self.probe.lost_ranges += 1;
        }
        self.probe.last_lost = Some(event.number);
        if self.probe.is_sample && self.is_too_high(event.lost as f64, event.tx_in_flight) {
            let inflight = self.inflight_at_loss(event);
            self.handle_too_high(inflight, event.app_limited, event.now);
        }
    }

    /// The first loss of a round starts it anew, so that the delivery after it is seen in full.
    pub(super) fn note_loss(&mut self) {
        if !self.latest.loss_in_round {
            self.latest.round_end = self.delivered;
        }
        self.latest.loss_in_round = true;
        self.latest.loss_in_cycle = true;
    }

    /// The data in flight at which losses crossed the threshold, inside the segment.
    pub(super) fn inflight_at_loss(&self, event: &Lost) -> u64 {
        let (size, threshold) = (u64::from(event.bytes), self.settings.loss_threshold);
        let inflight = event.tx_in_flight.saturating_sub(size) as f64;
        let lost = event.lost.saturating_sub(size) as f64;
        let prefix = ((threshold * inflight - lost) / (1.0 - threshold)).max(0.0);
        (inflight + prefix) as u64
    }

    /// Keep what the loss episode may turn out to have changed without need.
    pub(super) fn save_state(&mut self) {
        if self.in_episode {
            return;
        }
        self.in_episode = true;
        self.save_cwnd();
        self.saved = Some(Saved { bounds: self.bounds, state: None });
    }

    /// Keep the window that neither recovery nor ProbeRTT has cut.
    pub(super) fn save_cwnd(&mut self) {
        let cut = matches!(self.ca_state, CaState::Recovery | CaState::Loss)
            || self.state == State::ProbeRtt;
        self.prior_cwnd = if cut { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    pub(super) fn end_episode(&mut self) {
        if self.in_episode {
            self.in_episode = false;
            self.restore_cwnd();
        }
    }

    pub(super) fn undo(&mut self) {
        let Some(saved) = self.saved.take() else {
            return;
        };
        self.in_episode = false;
        self.restore_cwnd();
        self.latest.loss_in_round = false;
        self.full_pipe.reset(0.0);
        let (now, before) = (&mut self.bounds, saved.bounds);
        now.bw_shortterm = now.bw_shortterm.max(before.bw_shortterm);
        now.inflight_shortterm = now.inflight_shortterm.max(before.inflight_shortterm);
        now.inflight_longterm = now.inflight_longterm.max(before.inflight_longterm);
        match saved.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.reached = false;
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => {
                self.start_refill(0);
            }
            _ => {}
        }
    }
}
