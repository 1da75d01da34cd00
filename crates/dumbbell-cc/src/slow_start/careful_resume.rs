//! Careful Resume (RFC 9959): begin with half of a window that was seen on the path before, and take
//! it back at once if the path does not bear it.
//!
//! It works beside the slow-start plug-in. The initial window is sent as usual (Reconnaissance); once
//! it is acknowledged, over a round trip like the saved one, the window jumps (Unvalidated, paced over
//! a round trip, no growth) until the first segment beyond is acknowledged; what was sent by then is
//! the window until all of it has arrived (Validating). Congestion before that halves what has
//! arrived, the PipeSize (Safe Retreat).

use crate::event::{Ack, Nanos};
use crate::params::{ParamInfo, Params};
use crate::window::Window;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Reconnaissance,
    /// Stream offset of the first byte sent beyond the initial window.
    Unvalidated {
        first: u64,
    },
    /// Stream offset after the last byte sent before validation.
    Validating {
        last: u64,
    },
    Retreat {
        last: u64,
    },
    Normal,
}

#[derive(Clone, Debug)]
pub(crate) struct CarefulResume {
    /// Segments, and the round-trip time that belongs to them.
    saved_cwnd: u64,
    saved_rtt: Nanos,
    initial_window: u64,
    phase: Phase,
    /// Bytes known to have fitted into the path: PipeSize.
    pipe: u64,
    sent: u64,
}

pub(crate) fn params() -> [ParamInfo; 2] {
    [
        ParamInfo::new(
            "resume_cwnd",
            "segments",
            0,
            (0.0, 1e9),
            "saved window for Careful Resume (RFC 9959); 0 starts without",
        ),
        ParamInfo::new(
            "resume_rtt",
            "time",
            100_000_000,
            (1.0, 1e12),
            "round-trip time that was saved with resume_cwnd",
        ),
    ]
}

impl CarefulResume {
    /// `None` if nothing was saved.
    pub(crate) fn new(params: &Params) -> Option<Self> {
        let saved_cwnd = params.count("resume_cwnd");
        (saved_cwnd > 0).then(|| Self {
            saved_cwnd,
            saved_rtt: params.time("resume_rtt"),
            initial_window: 0,
            phase: Phase::Reconnaissance,
            pipe: 0,
            sent: 0,
        })
    }

    pub(crate) fn start(&mut self, initial_window: u64) {
        self.initial_window = initial_window;
    }

    /// The window must not grow: it is beyond what the path is known to bear.
    pub(crate) fn holds(&self) -> bool {
        matches!(self.phase, Phase::Unvalidated { .. } | Phase::Retreat { .. })
    }

    /// The jump is spread over a round trip.
    pub(crate) fn paces(&self) -> bool {
        matches!(self.phase, Phase::Unvalidated { .. })
    }

    pub(crate) fn phase(&self) -> Option<&'static str> {
        match self.phase {
            Phase::Reconnaissance => Some("reconnaissance"),
            Phase::Unvalidated { .. } => Some("unvalidated"),
            Phase::Validating { .. } => Some("validating"),
            Phase::Retreat { .. } => Some("safe_retreat"),
            Phase::Normal => None,
        }
    }

    fn reconnoitre(&mut self, ack: &Ack, window: &mut Window) {
        if ack.delivered < self.initial_window {
            return;
        }
        let Some(rtt) = ack.rtt else {
            return;
        };
        let jump = self.saved_cwnd / 2;
        let same_path = rtt > self.saved_rtt / 2 && rtt < self.saved_rtt.saturating_mul(10);
        if jump <= window.segments() || !same_path {
            self.phase = Phase::Normal;
            return;
        }
        self.pipe = window.bytes();
        window.set(jump);
        self.phase = Phase::Unvalidated { first: ack.snd_nxt };
    }

    /// Every ACK, after the window has grown.
    pub(crate) fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        match self.phase {
            Phase::Normal => {}
            Phase::Reconnaissance => self.reconnoitre(ack, window),
            Phase::Unvalidated { first } => {
                self.pipe += ack.acked;
                self.sent = ack.snd_nxt;
                if ack.snd_una <= first {
                    return;
                }
                if ack.inflight <= self.pipe {
                    window.set(window.to_segments(self.pipe));
                    self.phase = Phase::Normal;
                } else {
                    window.set(window.to_segments(ack.inflight));
                    self.phase = Phase::Validating { last: ack.snd_nxt };
                }
            }
            Phase::Validating { last } => {
                self.pipe += ack.acked;
                if ack.snd_una >= last {
                    self.phase = Phase::Normal;
                }
            }
            Phase::Retreat { last } => {
                self.pipe += ack.acked;
                if ack.snd_una >= last {
                    window.set_ssthresh(window.to_segments(self.pipe));
                    self.phase = Phase::Normal;
                }
            }
        }
    }

    /// Loss or a mark: the window, in segments, if the saved one was to blame.
    pub(crate) fn on_congestion(&mut self, window: &Window) -> Option<u64> {
        let last = match self.phase {
            Phase::Unvalidated { first } => self.sent.max(first),
            Phase::Validating { last } => last,
            Phase::Retreat { .. } => return None,
            _ => {
                self.phase = Phase::Normal;
                return None;
            }
        };
        self.phase = Phase::Retreat { last };
        Some(window.to_segments(self.pipe) / 2)
    }

    pub(crate) fn on_timeout(&mut self) {
        self.phase = Phase::Normal;
    }
}
