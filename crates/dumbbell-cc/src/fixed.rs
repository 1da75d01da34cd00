//! A fixed window: no congestion control at all.

use crate::event::{Ack, Congestion, Rto, Start, Undo};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::{Controller, RecoveryStyle, SSTHRESH_INFINITE};

pub(crate) const NAME: &str = "fixed";

pub(crate) fn info() -> ControllerInfo {
    ControllerInfo {
        name: NAME,
        summary: "constant congestion window, deaf to loss and marks",
        source: "reference for tests",
        signals: &["none"],
        params: vec![ParamInfo::new("window", "segments", 10, (1.0, 1e9), "congestion window")],
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    Box::new(Fixed { segments: params.count("window"), mss: 1 })
}

struct Fixed {
    segments: u64,
    mss: u64,
}

impl Controller for Fixed {
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
        self.segments * self.mss
    }

    fn ssthresh(&self) -> u64 {
        SSTHRESH_INFINITE
    }

    /// The window stays what it is in recovery too.
    fn recovery_style(&self) -> RecoveryStyle {
        RecoveryStyle::Own
    }

    fn phase(&self) -> &'static str {
        "fixed"
    }
}
