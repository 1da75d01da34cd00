//! Scalable Classic: what drop-based controls could converge to (ICCRG at IETF 99, B. Briscoe).
//!
//! Two corrections of Reno's law: the rate does not depend on the RTT above about 5 ms, and below 1 %
//! of signals the rate goes with 1/p, so that signals never become rarer than 24 a second. At 1 % the
//! rate is that of Reno at 5 ms: 2440 segments a second, 30 Mbit/s.
//!
//! The talk gives the law, not the rule. Ours: per round trip the window grows by
//! (R/R0)^2 max(1, W/W0) segments with W0 = 12.2 R/R0, and a signal halves it. Where the law asks for
//! more than one signal a round trip (R above 41 ms at low p), halving once a round is not enough, so
//! that growth is bounded by a quarter of the window, and the cut is growth times the ratio of the
//! signals there are (moving average as in RFC 8257) to those that the law wants.

use crate::Controller;
use crate::event::{Ack, Nanos};
use crate::loss_based::{self, Cause, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;

pub(crate) const NAME: &str = "scalable-classic";

/// Reno's constant, sqrt(3/2).
const K: f64 = 1.224_744_871_391_589;
/// Least window, segments.
const MIN_WINDOW: u64 = 2;
/// Weight of a round's signals in their moving average.
const GAIN: f64 = 1.0 / 16.0;
/// Growth per round trip at most, of the window, where signals come more than once a round.
const STEEPEST: f64 = 0.25;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "reference_rtt",
            "time",
            5_000_000,
            (1.0, 1e12),
            "R0: the rate does not depend on RTTs above it (5 ms)",
        ),
        ParamInfo::new(
            "scalable_below",
            "fraction",
            0.01,
            (1e-9, 1.0),
            "p0: probability of a signal below which the rate goes with 1/p (1 %)",
        ),
    ];
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "RTT-independent above 5 ms, and scalable below 1 % of loss or marks",
        source: "ICCRG at IETF 99 (proposal)",
        signals: &["loss", "ecn", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = ScalableClassic {
        reference_rtt: params.time("reference_rtt") as f64,
        scalable_below: params.number("scalable_below"),
        srtt: 0,
        fraction: 0.0,
        acked: 0,
        signalled: 0,
    };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Debug)]
struct ScalableClassic {
    reference_rtt: f64,
    scalable_below: f64,
    srtt: Nanos,
    /// Moving average of the fraction of data lost or marked.
    fraction: f64,
    /// Bytes of the present round: delivered, and lost or marked.
    acked: u64,
    signalled: u64,
}

impl ScalableClassic {
    /// R/R0, at least one: below R0 it is Reno.
    fn stretch(&self, srtt: Nanos) -> f64 {
        (srtt as f64 / self.reference_rtt).max(1.0)
    }

    /// W0: the window at p0.
    fn knee(&self, stretch: f64) -> f64 {
        K * stretch / libm::sqrt(self.scalable_below)
    }

    /// Signals a round trip that the law wants at this window: p W for the p whose window it is.
    fn wanted(&self, stretch: f64, window: f64) -> f64 {
        let knee = self.knee(stretch);
        self.scalable_below * knee * (knee / window).max(1.0)
    }

    /// Segments of growth per round trip.
    fn increase(&self, stretch: f64, window: f64) -> f64 {
        let law = stretch * stretch * (window / self.knee(stretch)).max(1.0);
        if self.wanted(stretch, window) > 1.0 { law.min(STEEPEST * window).max(1.0) } else { law }
    }
}

impl Law for ScalableClassic {
    const NAME: &'static str = NAME;

    #[inline]
    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        self.srtt = ack.srtt;
        self.acked += ack.acked;
        self.signalled += ack.lost + ack.ce;
        if ack.round_start && self.acked > 0 {
            let fraction = (self.signalled as f64 / self.acked as f64).min(1.0);
            self.fraction += (fraction - self.fraction) * GAIN;
            self.acked = 0;
            self.signalled = 0;
        }
        // With a signal in every round, growth that stops for the round of a reduction would never
        // come: it is made up for in the window that holds when the reduction is over.
        if loss_based::in_reduction(ack.state) && !window.in_slow_start() {
            self.avoid(ack, ack.acked, window);
        }
    }

    #[inline]
    fn avoid(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        let stretch = self.stretch(ack.srtt);
        let per_window = self.increase(stretch, window.exact());
        window.add(acked as f64 / window.mss() as f64 / window.exact() * per_window, MIN_WINDOW);
    }

    fn cut(&mut self, cut: &Cut, window: &Window) -> u64 {
        let stretch = self.stretch(self.srtt);
        let base = cut.base as f64;
        let wanted = self.wanted(stretch, base);
        if wanted <= 1.0 || cut.cause == Cause::Timeout || window.in_slow_start() {
            return cut.base / 2;
        }
        let signals = self.fraction * base;
        let part = self.increase(stretch, base) * signals / wanted;
        (base - part.min(base / 2.0)) as u64
    }

    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("signal_fraction", self.fraction);
    }
}
