//! Round-trip times of one window of data, as Vegas and its relatives take them in Linux.

use crate::event::{Ack, CaState, Nanos};

/// Longest round-trip time in microseconds, so that products with a window fit in 64 bits.
const LONGEST: u64 = u32::MAX as u64;

/// Linux measures in whole microseconds.
pub(crate) fn microseconds(rtt: Nanos) -> u64 {
    (rtt / 1000).min(LONGEST)
}

/// Least round-trip times: of the connection and of the present window of data.
#[derive(Clone, Debug)]
pub(crate) struct RoundTrip {
    /// Microseconds plus one, so never 0 (Linux); `LONGEST` before the first sample.
    pub(crate) base: u64,
    /// The least since the round began, likewise.
    pub(crate) least: u64,
    pub(crate) samples: u64,
    /// The round ends when data beyond this byte is acknowledged.
    end: u64,
    /// First byte not sent yet, at the last ACK.
    next: u64,
    /// State of the sender at the last ACK; rounds are measured while it is `Open`.
    state: CaState,
}

impl RoundTrip {
    pub(crate) fn new() -> Self {
        Self { base: LONGEST, least: LONGEST, samples: 0, end: 0, next: 0, state: CaState::Open }
    }

    /// Take the sample of an ACK; returning to `Open` begins a round.
    pub(crate) fn observe(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            let rtt = microseconds(rtt) + 1;
            self.base = self.base.min(rtt);
            self.least = self.least.min(rtt);
            self.samples += 1;
        }
        self.next = ack.snd_nxt;
        if ack.state != self.state {
            self.state = ack.state;
            if self.is_open() {
                self.begin();
            }
        }
    }

    /// A congestion event: no round until the sender is `Open` again.
    pub(crate) fn interrupt(&mut self, state: CaState) {
        self.state = state;
    }

    /// Nothing was in flight: the path may be another one.
    pub(crate) fn forget(&mut self) {
        self.base = LONGEST;
        self.begin();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state == CaState::Open
    }

    /// All data sent before the round began is acknowledged.
    pub(crate) fn is_over(&self, ack: &Ack) -> bool {
        ack.snd_una > self.end
    }

    /// The next round covers what is sent up to now.
    pub(crate) fn begin(&mut self) {
        self.end = self.next;
        self.restart_samples();
    }

    pub(crate) fn restart_samples(&mut self) {
        self.samples = 0;
        self.least = LONGEST;
    }

    /// Data of a window of `cwnd` segments that the base round-trip time does not account for:
    /// cwnd (RTT - base)/base, whole segments.
    pub(crate) fn backlog_by_base(&self, cwnd: u64) -> u64 {
        cwnd * (self.least - self.base) / self.base
    }

    /// The same by Little's law: cwnd (RTT - base)/RTT.
    pub(crate) fn backlog(&self, cwnd: u64) -> u64 {
        cwnd * (self.least - self.base) / self.least
    }

    /// Least RTT of the connection in milliseconds, for recording.
    pub(crate) fn base_ms(&self) -> f64 {
        if self.base == LONGEST { 0.0 } else { self.base as f64 / 1e3 }
    }
}
