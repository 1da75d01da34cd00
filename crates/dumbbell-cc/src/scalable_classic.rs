//! Scalable Classic: what drop-based controls could converge to (ICCRG at IETF 99, B. Briscoe).
//!
//! Two corrections of Reno's law: the rate does not depend on the RTT above about 5 ms, and below 1 %
//! of signals the rate goes with 1/p, so that signals never become rarer than 24 a second. At 1 % the
//! rate is that of Reno at 5 ms: 2440 segments a second, 30 Mbit/s.
//!
//! The talk gives the law, not the rule. Ours: the law says how many signals v a round trip sees at the
//! present window. While that is few, the window grows by (2/3) W v/(1 + v) segments a round trip and a
//! signal halves it, which balances if there is at most one cut a round (for v well below 1 it is
//! Reno's balance, 2/3 W v; at R = 5 ms and 1 % one segment a round). Where the law asks for more
//! signals, so that some share a round, halving is too coarse: the window grows by a tenth a round, and
//! a cut is what balances that times the ratio of the signals there are (moving average as in RFC 8257)
//! to those that the law wants.

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
/// Up to so many signals a round trip halve the window each.
const FEW: f64 = 0.25;
/// Growth a round trip, of the window, where signals are more.
const STEADY_GROWTH: f64 = 0.1;
/// Mean window of a sawtooth that halves, against the cut: W/2 of the peak is 2/3 of the mean.
const HALVED: f64 = 2.0 / 3.0;

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
        made_up: 0,
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
    /// Bytes that may still count in avoidance during the present reduction: one window.
    made_up: u64,
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

    /// Growth per round trip, of the window.
    fn increase(&self, wanted: f64) -> f64 {
        if wanted <= FEW { HALVED * wanted / (1.0 + wanted) } else { STEADY_GROWTH }
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
            let gain = if self.fraction == 0.0 { 1.0 } else { GAIN };
            self.fraction += (fraction - self.fraction) * gain;
            self.acked = 0;
            self.signalled = 0;
        }
        // With a signal in every round, growth that stops for the round of a reduction would never
        // come: it counts in the window that holds when the reduction is over.
        if loss_based::in_reduction(ack.state) && !window.in_slow_start() {
            let acked = ack.acked.min(self.made_up);
            self.made_up -= acked;
            self.avoid(ack, acked, window);
        }
    }

    #[inline]
    fn avoid(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        let wanted = self.wanted(self.stretch(ack.srtt), window.exact());
        window.add(acked as f64 / window.mss() as f64 * self.increase(wanted), MIN_WINDOW);
    }

    fn cut(&mut self, cut: &Cut, window: &Window) -> u64 {
        let base = cut.base as f64;
        let wanted = self.wanted(self.stretch(self.srtt), base);
        self.made_up = cut.base * window.mss();
        if wanted <= FEW || cut.cause == Cause::Timeout || window.in_slow_start() {
            return cut.base / 2;
        }
        let balance = STEADY_GROWTH * (1.0 + wanted) / wanted;
        let part = balance * self.fraction * base / wanted;
        (base * (1.0 - part.min(0.5))) as u64
    }

    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("signal_fraction", self.fraction);
    }
}
