//! The least RTT, and ProbeRTT, which empties the queue to measure it (draft section "ProbeRTT").

use super::probe_bw::AckPhase;
use super::{Bbr3, State};
use crate::event::{Ack, Nanos};

/// Two minima: one over the long window, which is the model's, and one over the interval of
/// ProbeRTT, which schedules it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinRtt {
    min: Option<Nanos>,
    stamp: Nanos,
    recent: Option<Nanos>,
    recent_stamp: Nanos,
    /// `recent` is due for a new measurement.
    expired: bool,
    /// When ProbeRTT may end.
    done: Option<Nanos>,
    round_done: bool,
    /// Window of ProbeRTT, bytes; from before the sample that ends the interval, which the queue that
    /// is to be drained may have inflated.
    cwnd: u64,
}

impl MinRtt {
    pub(super) fn start(&mut self, now: Nanos, rtt: Option<Nanos>) {
        (self.min, self.recent) = (rtt, rtt);
        (self.stamp, self.recent_stamp) = (now, now);
    }

    pub(super) fn get(&self) -> Option<Nanos> {
        self.min
    }

    pub(super) fn seconds(&self) -> Option<f64> {
        self.min.map(|rtt| rtt as f64 * 1e-9)
    }

    pub(super) fn probe_cwnd(&self) -> u64 {
        self.cwnd
    }
}

impl Bbr3 {
    pub(super) fn update_min_rtt(&mut self, ack: &Ack) {
        let settings = &self.settings;
        let due = self.min_rtt.recent_stamp.saturating_add(settings.probe_rtt_interval);
        let expired = ack.now > due;
        if expired && self.state != State::ProbeRtt {
            let half = self.bdp(self.bw, settings.probe_rtt_cwnd_gain);
            self.min_rtt.cwnd = self.whole(half).max(self.min_pipe_cwnd());
        }
        let min_rtt = &mut self.min_rtt;
        min_rtt.expired = expired;
        if let Some(rtt) = ack.rtt
            && (expired || min_rtt.recent.is_none_or(|recent| rtt < recent))
        {
            min_rtt.recent = Some(rtt.max(1));
            min_rtt.recent_stamp = ack.now;
        }
        let stale = ack.now > min_rtt.stamp.saturating_add(settings.min_rtt_window);
        if let Some(recent) = min_rtt.recent
            && (stale || min_rtt.min.is_none_or(|min| recent < min))
        {
            min_rtt.min = Some(recent);
            min_rtt.stamp = min_rtt.recent_stamp;
        }
    }

    pub(super) fn check_probe_rtt(&mut self, ack: &Ack) {
        if self.min_rtt.expired
            && self.state != State::ProbeRtt
            && !self.idle_restart
            && self.settings.probe_rtt_duration > 0
        {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.pacing_gain = 1.0;
            self.cwnd_gain = self.settings.probe_rtt_cwnd_gain;
            self.min_rtt.done = None;
            self.probe.ack_phase = AckPhase::Stopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(ack);
        }
        if ack.acked > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, ack: &Ack) {
        self.quiet.extend(ack.delivered, ack.inflight);
        if self.min_rtt.done.is_none() {
            if ack.inflight <= self.min_rtt.cwnd {
                self.min_rtt.done = Some(ack.now + self.settings.probe_rtt_duration);
                self.min_rtt.round_done = false;
                self.start_round();
            }
            return;
        }
        self.min_rtt.round_done |= self.rounds.start;
        if self.min_rtt.round_done {
            self.check_probe_rtt_done(ack.now);
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Nanos) {
        if self.min_rtt.done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt.recent_stamp = now;
        self.restore_cwnd();
        self.bounds.reset_shortterm();
        if self.full_pipe.reached {
            self.start_down(now);
            self.start_cruise();
        } else {
            self.enter_startup();
        }
    }
}
