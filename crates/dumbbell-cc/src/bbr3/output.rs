//! Control outputs: pacing rate, send quantum, window (draft section "Updating Control Parameters").

use super::{Bbr3, MAX_SEGMENTS, State, UNBOUNDED};
use crate::event::{Ack, Nanos};

/// Round-trip time assumed for the first pacing rate if the handshake gave none.
const NOMINAL_RTT: Nanos = 1_000_000;
/// Time at the pacing rate that one burst may take, seconds.
const QUANTUM_SECONDS: f64 = 1e-3;
/// Largest burst, bytes.
const MAX_QUANTUM: u64 = 64 * 1024;

impl Bbr3 {
    pub(super) fn init_pacing_rate(&mut self, rtt: Option<Nanos>) {
        self.has_seen_rtt |= rtt.is_some();
        let seconds = rtt.unwrap_or(NOMINAL_RTT).max(1) as f64 * 1e-9;
        self.pacing_rate = self.settings.startup_gain * self.initial_window as f64 / seconds;
    }

    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.bw * (1.0 - self.settings.pacing_margin);
        if self.full_pipe.reached || rate > self.pacing_rate {
            self.pacing_rate = rate.max(1.0);
        }
    }

    /// Bytes sent in one burst at the present pacing rate.
    pub(super) fn send_quantum(&self) -> u64 {
        let bytes = (self.pacing_rate * QUANTUM_SECONDS) as u64;
        bytes.min(MAX_QUANTUM).max(2 * self.mss)
    }

    /// Room for bursts at the sender, in the network and at the receiver.
    fn with_bursts(&self, inflight: u64) -> u64 {
        let budget = self.settings.offload_quanta * self.send_quantum();
        let probing = if self.state == State::Up { 2 * self.mss } else { 0 };
        inflight.max(budget).max(self.min_pipe_cwnd()) + probing
    }

    /// Data in flight that fills `gain` times the pipe at `bw`.
    pub(super) fn inflight_target(&self, bw: f64, gain: f64) -> u64 {
        self.with_bursts(self.bdp(bw, gain))
    }

    fn max_inflight(&self) -> u64 {
        self.with_bursts(self.bdp(self.bw, self.cwnd_gain) + self.aggregation.extra())
    }

    pub(super) fn inflight_with_headroom(&self) -> u64 {
        let longterm = self.bounds.inflight_longterm;
        if longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = ((self.settings.headroom * longterm as f64) as u64).max(self.mss);
        longterm.saturating_sub(headroom).max(self.min_pipe_cwnd())
    }

    pub(super) fn set_cwnd(&mut self, ack: &Ack) {
        let target = self.max_inflight();
        if self.full_pipe.reached {
            self.cwnd = (self.cwnd + ack.acked).min(target);
        } else if self.cwnd < target || ack.delivered < self.initial_window {
            self.cwnd += ack.acked;
        }
        self.cwnd = self.cwnd.max(self.min_pipe_cwnd());
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.min_rtt.probe_cwnd());
        }
        self.bound_cwnd();
    }

    /// What recent congestion allows.
    fn bound_cwnd(&mut self) {
        let cap = match self.state {
            State::Startup | State::Drain => UNBOUNDED,
            State::Down | State::Refill | State::Up => self.bounds.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(),
        };
        let cap = cap.min(self.bounds.inflight_shortterm).max(self.min_pipe_cwnd());
        self.cwnd = self.cwnd.min(cap).min(MAX_SEGMENTS * self.mss);
    }
}
