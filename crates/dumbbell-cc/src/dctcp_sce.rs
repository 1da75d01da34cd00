//! DCTCP-SCE: each segment acknowledged under ESCE takes half a segment off the window.
//!
//! No moving average: a round trip full of marks halves the window, and the equilibrium is two marks
//! per round trip, as DCTCP's. CE cuts to 3/4, or to 7/8 if SCE was seen within the last round trip,
//! when the data outstanding at the first ECE is acknowledged. The first SCE ends slow start.

use crate::Controller;
use crate::event::{Ack, EcnMode};
use crate::loss_based::{Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::sce::{self, Feedback, MIN_WINDOW, Signal};
use crate::window::Window;

pub(crate) const NAME: &str = "dctcp-sce";

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "beta_ce",
            "fraction",
            0.75,
            (0.01, 0.99),
            "factor by which an episode of CE multiplies the window",
        ),
        ParamInfo::new(
            "beta_ce_recent",
            "fraction",
            0.875,
            (0.01, 0.99),
            "the same where SCE was seen within the last round trip",
        ),
    ];
    params.extend(sce::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "half a segment less for each SCE mark",
        source: "draft-morton-tsvwg-sce, SCE Linux",
        signals: &["loss", "ecn", "sce"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = DctcpSce {
        beta_ce: params.number("beta_ce"),
        beta_ce_recent: params.number("beta_ce_recent"),
        feedback: Feedback::default(),
    };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Debug)]
struct DctcpSce {
    beta_ce: f64,
    beta_ce_recent: f64,
    feedback: Feedback,
}

impl Law for DctcpSce {
    const NAME: &'static str = NAME;
    const ECN: EcnMode = EcnMode::Sce;

    fn responds_to_marks(&self) -> bool {
        true
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        match self.feedback.on_ack(ack, window) {
            Signal::Sce(bytes) => {
                let half = window.segments() / 2;
                let known = window.ssthresh() != u64::MAX;
                window.set_ssthresh(if known { window.ssthresh().max(half) } else { half });
                // Where the threshold of an earlier cut lies above, slow start ends here.
                if window.in_slow_start() {
                    window.exit_slow_start();
                }
                window.add(-(bytes as f64) / window.mss() as f64 / 2.0, MIN_WINDOW);
            }
            Signal::CeEnds => {
                let recent = self.feedback.is_recent();
                let beta = if recent { self.beta_ce_recent } else { self.beta_ce };
                window.set_ssthresh(window.segments() / 2);
                window.add(-(1.0 - beta) * window.exact(), MIN_WINDOW);
            }
            Signal::None | Signal::CeBegins | Signal::CeGoesOn => {}
        }
    }

    #[inline]
    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        self.feedback.avoid(acked, window);
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        cut.base / 2
    }

    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("sce_recent", f64::from(u8::from(self.feedback.is_recent())));
    }
}
