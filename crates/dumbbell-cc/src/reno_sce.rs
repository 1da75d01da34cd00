//! Reno-SCE: Reno that answers SCE with a cut of sqrt(cwnd)/2 segments per round trip of marks.
//!
//! The equilibrium of growth and SCE alone is a marked fraction of 2/(2 + sqrt(cwnd)). CE cuts to 3/4
//! in the manner of ABE, or to 7/8 if SCE was seen within the last round trip, spread over the ACKs
//! that carry ECE.

use crate::Controller;
use crate::event::{Ack, EcnMode};
use crate::loss_based::{Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::sce::{self, Feedback, MIN_WINDOW, Signal};
use crate::window::Window;

pub(crate) const NAME: &str = "reno-sce";

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "ce_divisor",
            "number",
            4.0,
            (1.0, 1e6),
            "a round trip of ECE takes cwnd/ce_divisor off the window",
        ),
        ParamInfo::new(
            "ce_divisor_recent",
            "number",
            8.0,
            (1.0, 1e6),
            "the same where SCE was seen within the last round trip",
        ),
    ];
    params.extend(sce::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "Reno with small cuts on SCE marks",
        source: "draft-grimes-tcpm-tcpsce, SCE Linux",
        signals: &["loss", "ecn", "sce"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = RenoSce {
        ce_divisor: params.number("ce_divisor"),
        ce_divisor_recent: params.number("ce_divisor_recent"),
        feedback: Feedback::default(),
    };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Debug)]
struct RenoSce {
    ce_divisor: f64,
    ce_divisor_recent: f64,
    feedback: Feedback,
}

impl Law for RenoSce {
    const NAME: &'static str = NAME;
    const ECN: EcnMode = EcnMode::Sce;

    fn responds_to_marks(&self) -> bool {
        true
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        let segments = ack.acked as f64 / window.mss() as f64;
        let signal = self.feedback.on_ack(ack, window);
        let cut = match signal {
            Signal::Sce(bytes) => {
                let marked = bytes as f64 / window.mss() as f64;
                marked * sce::root(window) / 2.0 / window.exact()
            }
            Signal::CeBegins | Signal::CeGoesOn => {
                let recent = self.feedback.is_recent();
                segments / if recent { self.ce_divisor_recent } else { self.ce_divisor }
            }
            Signal::None | Signal::CeEnds => return,
        };
        window.set_ssthresh(window.segments() / 2);
        window.add(-cut, MIN_WINDOW);
    }

    #[inline]
    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        self.feedback.avoid(acked, window);
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        cut.base - (cut.base / 2).max(1).min(cut.base)
    }

    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("sce_recent", f64::from(u8::from(self.feedback.is_recent())));
    }
}
