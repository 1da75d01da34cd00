//! Pacing of a window-based controller: a multiple of cwnd / srtt.
//!
//! Off by default, as in Linux without the fq discipline. The gains are those that Linux uses when it
//! does pace: 2 while the window may still double twice below `ssthresh`, 1.2 later.

use crate::event::Nanos;
use crate::params::{ParamInfo, Params};
use crate::window::Window;

#[derive(Clone, Debug)]
pub(crate) struct WindowPacing {
    enabled: bool,
    slow_start_gain: f64,
    avoidance_gain: f64,
    srtt: Nanos,
}

impl WindowPacing {
    pub(crate) fn params() -> [ParamInfo; 3] {
        [
            ParamInfo::flag(
                "pacing",
                false,
                "pace at a multiple of cwnd/srtt instead of sending as ACKs come in",
            ),
            ParamInfo::new(
                "pacing_ss_gain",
                "number",
                2.0,
                (0.1, 100.0),
                "pacing gain while cwnd < ssthresh/2 (Linux 2.0)",
            ),
            ParamInfo::new(
                "pacing_ca_gain",
                "number",
                1.2,
                (0.1, 100.0),
                "pacing gain from ssthresh/2 on (Linux 1.2)",
            ),
        ]
    }

    pub(crate) fn new(params: &Params) -> Self {
        Self {
            enabled: params.flag("pacing"),
            slow_start_gain: params.number("pacing_ss_gain"),
            avoidance_gain: params.number("pacing_ca_gain"),
            srtt: 0,
        }
    }

    pub(crate) fn enabled(&self) -> bool {
        self.enabled
    }

    pub(crate) fn set_srtt(&mut self, srtt: Nanos) {
        self.srtt = srtt;
    }

    /// Bytes per second; none without a round-trip time.
    pub(crate) fn rate(&self, window: &Window) -> Option<f64> {
        if !self.enabled || self.srtt == 0 {
            return None;
        }
        let gain = if window.segments() < window.ssthresh() / 2 {
            self.slow_start_gain
        } else {
            self.avoidance_gain
        };
        self.rate_of(window, gain)
    }

    /// `gain` windows a round trip, asked for or not.
    pub(crate) fn rate_of(&self, window: &Window, gain: f64) -> Option<f64> {
        (self.srtt > 0).then(|| gain * window.bytes() as f64 * 1e9 / self.srtt as f64)
    }
}
