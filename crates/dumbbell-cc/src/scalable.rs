//! Scalable TCP (Kelly 2003): the window grows and shrinks by fractions of itself, so that recovery
//! from a loss takes the same number of round trips at any window.
//!
//! | | `linux = true` | `linux = false` |
//! | --- | --- | --- |
//! | growth per segment acked | 1/min(cwnd, 100) segments | 0.01 segments |
//! | low window | none: below 100 segments growth is Reno's, cuts are an eighth | 16: Reno up to there |
//! | arithmetic | whole segments | fractions |
//!
//! Linux is the default. The NIST study (SP 500-282) uses the paper's rules with a low window of 16.

use crate::Controller;
use crate::event::Ack;
use crate::loss_based::{self, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;

pub(crate) const NAME: &str = "scalable";

/// Legacy window of the paper (section 3.1), and trigger of the NIST study.
const KELLY_LOW_WINDOW: u64 = 16;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "a",
            "number",
            0.01,
            (1e-6, 1.0),
            "segments added per segment acked (Kelly 2003; Linux's 1/100)",
        ),
        ParamInfo::new(
            "beta",
            "fraction",
            0.875,
            (0.01, 0.99),
            "factor by which a congestion event multiplies the window (Kelly 2003, Linux)",
        ),
        ParamInfo::new(
            "low_window",
            "segments",
            0,
            (0.0, 1e9),
            "Reno up to this window; 0: none in Linux, 16 in the paper (Kelly 2003, NIST study)",
        ),
        ParamInfo::flag("linux", true, "growth as Linux computes it; false: as in Kelly 2003"),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "grows by a hundredth and cuts an eighth of the window (MIMD)",
        source: "Kelly 2003, Linux",
        signals: &["loss", "ecn"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    Box::new(LossBased::new(Scalable::new(params), params))
}

#[derive(Clone, Debug)]
struct Scalable {
    linux: bool,
    a: f64,
    beta: f64,
    low_window: u64,
    /// Growth is not Reno's.
    alternate: bool,
}

impl Scalable {
    fn new(params: &Params) -> Self {
        let linux = params.flag("linux");
        let low_window = match params.count("low_window") {
            0 if !linux => KELLY_LOW_WINDOW,
            segments => segments,
        };
        Self {
            linux,
            a: params.number("a"),
            beta: params.number("beta"),
            low_window,
            alternate: false,
        }
    }
}

impl Law for Scalable {
    const NAME: &'static str = NAME;

    #[inline]
    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        let cwnd = window.segments();
        self.alternate = cwnd > self.low_window;
        if !self.alternate {
            window.avoid(cwnd, acked);
        } else if self.linux {
            window.avoid(cwnd.min((1.0 / self.a).round() as u64), acked);
        } else {
            window.add(self.a * acked as f64 / window.mss() as f64, 1);
        }
    }

    fn cut(&mut self, cut: &Cut, window: &Window) -> u64 {
        if window.segments() > self.low_window {
            cut.base - (cut.base as f64 * (1.0 - self.beta)) as u64
        } else {
            cut.base / 2
        }
    }

    fn phase(&self) -> &'static str {
        if self.alternate { "alternate" } else { "normal" }
    }
}
