//! What the SCE controllers share: how recent the last SCE mark is, and episodes of ECE.
//!
//! Some Congestion Experienced (draft-morton-tsvwg-sce) is a second, weaker mark: it asks for a small
//! reduction, so that CE stays what RFC 3168 made of it. Feedback is the ESCE flag
//! (draft-grimes-tcpm-tcpsce), which comes as [`Ack::sce`]. Constants are those of the SCE kernel.

use crate::event::{Ack, CaState};
use crate::params::ParamInfo;
use crate::window::Window;

/// Least window, segments.
pub(crate) const MIN_WINDOW: u64 = 2;

/// Parameters of the frame with the pacing that the SCE experiments used: 100 % of cwnd/srtt in slow
/// start and 40 % later, which is what makes up for the weak first response to SCE.
pub(crate) fn params(slow_start: &'static str) -> Vec<ParamInfo> {
    let mut params = crate::loss_based::params(slow_start);
    for param in &mut params {
        match param.name {
            "pacing_ss_gain" => param.default = 1.0.into(),
            "pacing_ca_gain" => {
                param.default = 0.4.into();
                param.doc = "pacing gain from ssthresh/2 on (SCE experiments 0.4)";
            }
            _ => {}
        }
    }
    params
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Feedback {
    /// ACKs until the last SCE mark is a round trip old.
    recent: u64,
    /// The present ACK carries a mark.
    marked: bool,
    /// The present ECE episode lasts until this byte is acknowledged.
    episode_end: Option<u64>,
}

/// What an ACK asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    None,
    /// Bytes acknowledged under ESCE.
    Sce(u64),
    /// The first ACK of an ECE episode, and a later one.
    CeBegins,
    CeGoesOn,
    /// The data outstanding when the episode began is acknowledged.
    CeEnds,
}

impl Feedback {
    /// Read an ACK. With ECE the ESCE flag does not count.
    #[inline]
    pub(crate) fn on_ack(&mut self, ack: &Ack, window: &Window) -> Signal {
        self.recent = self.recent.saturating_sub(1);
        self.marked = ack.ece || ack.sce > 0;
        if matches!(ack.state, CaState::Recovery | CaState::Loss) {
            self.episode_end = None;
            return Signal::None;
        }
        if let Some(end) = self.episode_end
            && ack.snd_una >= end
        {
            self.episode_end = None;
            return Signal::CeEnds;
        }
        if ack.ece {
            if self.episode_end.is_some() {
                return Signal::CeGoesOn;
            }
            self.episode_end = Some(ack.snd_nxt);
            return Signal::CeBegins;
        }
        if ack.sce > 0 {
            self.recent = window.segments() + 1;
            return Signal::Sce(ack.sce);
        }
        Signal::None
    }

    /// The last ACK read carries a mark, so it is not to grow the window.
    pub(crate) fn is_marked(&self) -> bool {
        self.marked
    }

    /// Reno's avoidance, by ACKs without a mark.
    #[inline]
    pub(crate) fn avoid(&self, acked: u64, window: &mut Window) {
        if !self.marked {
            window.add(acked as f64 / window.mss() as f64 / window.exact(), MIN_WINDOW);
        }
    }

    /// SCE was seen within about the last round trip.
    pub(crate) fn is_recent(&self) -> bool {
        self.recent > 0
    }
}

/// Largest integer whose square is at most the window.
pub(crate) fn root(window: &Window) -> f64 {
    libm::floor(libm::sqrt(window.segments() as f64))
}
