//! A constant sending rate: no congestion control at all.

use crate::event::{Ack, Congestion, Rto, Start, Undo};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::{Controller, RecoveryStyle, SSTHRESH_INFINITE};

pub(crate) const NAME: &str = "rate";

/// A window that never limits: 1 TiB, small enough to be added to anything.
const UNLIMITED: u64 = 1 << 40;

pub(crate) fn info() -> ControllerInfo {
    ControllerInfo {
        name: NAME,
        summary: "constant pacing rate, deaf to loss and marks",
        source: "reference for tests",
        signals: &["none"],
        params: vec![
            ParamInfo::new("rate", "rate", 10e6, (1.0, 1e15), "payload sent per second"),
            ParamInfo::new(
                "window",
                "segments",
                0,
                (0.0, 1e9),
                "congestion window; 0 leaves it unlimited",
            ),
        ],
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    Box::new(Rate {
        bytes_per_second: params.number("rate") / 8.0,
        segments: params.count("window"),
        mss: 1,
    })
}

struct Rate {
    bytes_per_second: f64,
    /// 0: unlimited.
    segments: u64,
    mss: u64,
}

impl Controller for Rate {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_start(&mut self, event: &Start) {
        self.mss = u64::from(event.mss.max(1));
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.mss = u64::from(ack.mss.max(1));
    }

    fn on_congestion(&mut self, _event: &Congestion) {}

    fn on_rto(&mut self, _event: &Rto) {}

    fn on_undo(&mut self, _event: &Undo) {}

    fn cwnd(&self) -> u64 {
        if self.segments == 0 { UNLIMITED } else { self.segments * self.mss }
    }

    fn ssthresh(&self) -> u64 {
        SSTHRESH_INFINITE
    }

    fn pacing_rate(&self) -> Option<f64> {
        Some(self.bytes_per_second)
    }

    /// The window stays what it is in recovery too.
    fn recovery_style(&self) -> RecoveryStyle {
        RecoveryStyle::Own
    }

    fn phase(&self) -> &'static str {
        "fixed"
    }
}
