//! CUBIC-SCE: CUBIC whose curve begins anew, flat, at each SCE mark.
//!
//! A round trip of marks takes sqrt(cwnd) segments off the window and off the plateau. The kernel
//! compares bytes acked with the root of the window in segments, so that every mark moves the
//! inflection point of the curve to the present; this is what is done here. (Its correction of the
//! plateau before the inflection has the wrong sign; here the curve has no jump.) CE multiplies by
//! CUBIC's beta, or by 7/8 if SCE was seen within the last round trip.

use crate::Controller;
use crate::cubic::{self, Linux, Settings};
use crate::event::{Ack, EcnMode, Nanos};
use crate::loss_based::{Cause, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::sce::{self, Feedback, MIN_WINDOW, Signal};
use crate::window::Window;

pub(crate) const NAME: &str = "cubic-sce";

pub(crate) fn info() -> ControllerInfo {
    let mut params = cubic::curve_params();
    params.push(ParamInfo::new(
        "beta_ce_recent",
        "fraction",
        0.875,
        (0.01, 0.99),
        "factor for CE where SCE was seen within the last round trip",
    ));
    params.extend(sce::params("hystart"));
    ControllerInfo {
        name: NAME,
        summary: "CUBIC with small cuts and a flat restart on SCE marks",
        source: "SCE Linux, RFC 9438",
        signals: &["loss", "ecn", "sce"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let settings = Settings::linux(params);
    let law = CubicSce {
        settings,
        beta_ce_recent: params.number("beta_ce_recent"),
        growth: Linux::new(settings),
        delay_min: 0,
        feedback: Feedback::default(),
    };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Debug)]
struct CubicSce {
    settings: Settings,
    beta_ce_recent: f64,
    growth: Linux,
    /// Least RTT, 0 before the first sample.
    delay_min: Nanos,
    feedback: Feedback,
}

impl CubicSce {
    fn on_marks(&mut self, ack: &Ack, window: &mut Window) {
        match self.feedback.on_ack(ack, window) {
            Signal::Sce(bytes) => {
                window.set_ssthresh(window.segments() / 2);
                let before = window.segments();
                self.growth.flatten(ack.now, before);
                let marked = bytes as f64 / window.mss() as f64;
                window.add(-marked * sce::root(window) / window.exact(), MIN_WINDOW);
                self.growth.lower(before - window.segments());
            }
            Signal::CeBegins => {
                let cut = Cut { now: ack.now, cause: Cause::Ecn, base: window.segments() };
                let reduced = self.cut(&cut, window);
                window.reduce(reduced);
            }
            Signal::None | Signal::CeGoesOn | Signal::CeEnds => {}
        }
    }
}

impl Law for CubicSce {
    const NAME: &'static str = NAME;
    const ECN: EcnMode = EcnMode::Sce;

    fn responds_to_marks(&self) -> bool {
        true
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        if let Some(rtt) = ack.rtt
            && (self.delay_min == 0 || rtt < self.delay_min)
        {
            self.delay_min = rtt.max(1);
        }
        self.on_marks(ack, window);
    }

    #[inline]
    fn slow_start_delay(&self, _ack: &Ack) -> Option<Nanos> {
        Some(self.delay_min)
    }

    #[inline]
    fn avoid(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        if !self.feedback.is_marked() {
            let per_increase = self.growth.update(ack.now, window, acked, self.delay_min);
            window.avoid(per_increase, acked);
        }
    }

    fn cut(&mut self, cut: &Cut, window: &Window) -> u64 {
        self.growth.on_congestion(window.segments());
        let recent = cut.cause == Cause::Ecn && self.feedback.is_recent();
        let beta = if recent { self.beta_ce_recent } else { self.settings.beta };
        (cut.base as f64 * beta) as u64
    }

    fn on_timeout(&mut self) {
        self.growth.on_timeout();
        self.delay_min = 0;
    }

    fn on_idle(&mut self, now: Nanos, idle: Nanos) {
        self.growth.on_idle(now, idle);
    }

    /// W_max and W_est in segments, K in seconds.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        let (w_max, k, w_est) = self.growth.record();
        out("w_max", w_max);
        out("k", k);
        out("w_est", w_est);
    }
}
