//! Reno: additive increase by one segment a round trip, multiplicative decrease (RFC 5681).
//!
//! As in Linux, all bytes acked count in slow start, and the cut is taken from cwnd unless
//! `basis = "inflight"` asks for the FlightSize of RFC 5681 equation 4.

use crate::Controller;
use crate::event::Ack;
use crate::loss_based::{self, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::slow_start::SlowStart;
use crate::window::Window;

pub(crate) const NAME: &str = "reno";

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "beta",
            "fraction",
            0.5,
            (0.01, 0.99),
            "factor by which a congestion event multiplies the window",
        ),
        ParamInfo::new(
            "alpha",
            "number",
            1.0,
            (0.001, 1000.0),
            "segments added per round trip in congestion avoidance",
        ),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "additive increase, multiplicative decrease (NewReno)",
        source: "RFC 5681, Linux",
        signals: &["loss", "ecn"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = Reno { beta: params.number("beta"), alpha: params.number("alpha") };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Debug)]
struct Reno {
    beta: f64,
    alpha: f64,
}

/// Growth of plain Reno, for controllers that fall back on it.
pub(crate) fn grow(ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
    let acked = loss_based::after_slow_start(ack, window, slow_start);
    if acked > 0 {
        window.avoid(window.segments(), acked);
    }
}

impl Law for Reno {
    const NAME: &'static str = NAME;

    #[inline]
    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        let per_increase = if self.alpha == 1.0 {
            window.segments()
        } else {
            (window.segments() as f64 / self.alpha) as u64
        };
        window.avoid(per_increase, acked);
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        (cut.base as f64 * self.beta) as u64
    }
}
