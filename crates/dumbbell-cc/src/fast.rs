//! FAST TCP (Jin, Wei, Low 2004): once a round trip, move half-way towards the window that keeps
//! `alpha` segments queued.
//!
//! Growth is spread over the round that follows the update, so that it does not leave in one burst;
//! a smaller window holds at once. There is no Linux version to follow. As in the NIST study
//! (SP 500-282) slow start is Reno's and there is no low window; the multiplicative increase of the
//! Caltech code, which ends at a queueing delay of about 0.75 ms, is `slow_start_delay`. The study's
//! alpha of 200 is a reconstruction.

use crate::Controller;
use crate::event::{Ack, Nanos};
use crate::fast_at::Tuning;
use crate::loss_based::{self, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;

pub(crate) const NAME: &str = "fast";

/// Least window of an update, segments.
const FLOOR: u64 = 2;
/// The window at most doubles in an update.
const STEEPEST: f64 = 2.0;
/// Weight of a sample in the mean RTT: three windows' worth of samples forget it, or a quarter.
const MEAN_WINDOWS: f64 = 3.0;
const MEAN_WEIGHT: f64 = 0.25;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![ParamInfo::new(
        "alpha",
        "number",
        200.0,
        (0.1, 1e6),
        "segments that the flow keeps queued (NIST study: 200)",
    )];
    params.extend(core_params());
    ControllerInfo {
        name: NAME,
        summary: "keeps alpha segments of each flow queued, by queueing delay",
        source: "Jin, Wei, Low 2004",
        signals: &["loss", "ecn", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    Box::new(LossBased::new(Fast::<false>::new(params, params.number("alpha"), None), params))
}

/// Parameters that FAST and FAST-AT share.
pub(crate) fn core_params() -> Vec<ParamInfo> {
    let mut params = vec![
        ParamInfo::new(
            "gamma",
            "fraction",
            0.5,
            (0.001, 1.0),
            "share of the way to the target that an update goes (Jin, Wei, Low 2004)",
        ),
        ParamInfo::new(
            "update_rounds",
            "count",
            1,
            (1.0, 100.0),
            "round trips from update to update (Caltech code: 2)",
        ),
        ParamInfo::new(
            "slow_start_delay",
            "time",
            0,
            (0.0, 1e12),
            "mean queueing delay that ends slow start (Caltech code: 0.75 ms); 0: none (NIST study)",
        ),
        ParamInfo::new(
            "beta",
            "fraction",
            0.5,
            (0.01, 0.99),
            "factor by which a congestion event multiplies the window",
        ),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    params
}

/// Window after an update that goes the share `gamma` of the way.
fn next_window(window: f64, base_rtt: f64, rtt: f64, alpha: f64, gamma: f64) -> f64 {
    let target = base_rtt / rtt * window + alpha;
    ((1.0 - gamma) * window + gamma * target).min(STEEPEST * window)
}

/// FAST, or FAST-AT if `AT`.
#[derive(Clone, Debug)]
pub(crate) struct Fast<const AT: bool> {
    alpha: f64,
    gamma: f64,
    update_rounds: u64,
    slow_start_delay: Nanos,
    beta: f64,
    /// ns, 0 before the first sample.
    base_rtt: f64,
    mean_rtt: f64,
    /// The round ends when all before this byte is acknowledged; `None`: a new one begins.
    round_end: Option<u64>,
    rounds: u64,
    /// Growth of the last update that is not done yet, and of that what each segment acked does.
    pending: f64,
    per_segment: f64,
    tuning: Option<Tuning>,
}

impl<const AT: bool> Fast<AT> {
    pub(crate) fn new(params: &Params, alpha: f64, tuning: Option<Tuning>) -> Self {
        Self {
            alpha,
            gamma: params.number("gamma"),
            update_rounds: params.count("update_rounds"),
            slow_start_delay: params.time("slow_start_delay"),
            beta: params.number("beta"),
            base_rtt: 0.0,
            mean_rtt: 0.0,
            round_end: None,
            rounds: 0,
            pending: 0.0,
            per_segment: 0.0,
            tuning,
        }
    }

    fn end_round(&mut self, ack: &Ack, window: &mut Window) {
        if let Some(tuning) = &mut self.tuning {
            self.alpha = tuning.end_round(ack);
        }
        self.rounds += 1;
        if self.rounds < self.update_rounds || self.mean_rtt == 0.0 {
            return;
        }
        self.rounds = 0;
        let old = window.exact();
        let new = next_window(old, self.base_rtt, self.mean_rtt, self.alpha, self.gamma);
        self.pending = (new - old).max(0.0);
        self.per_segment = self.pending / old;
        if new < old {
            window.shrink(old - new, FLOOR);
        }
    }
}

impl<const AT: bool> Law for Fast<AT> {
    const NAME: &'static str = if AT { crate::fast_at::NAME } else { NAME };

    #[inline]
    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        let Some(rtt) = ack.rtt else {
            return;
        };
        let rtt = rtt.max(1) as f64;
        if self.mean_rtt == 0.0 {
            (self.base_rtt, self.mean_rtt) = (rtt, rtt);
        } else {
            self.base_rtt = self.base_rtt.min(rtt);
            let weight = (MEAN_WINDOWS / window.segments() as f64).min(MEAN_WEIGHT);
            self.mean_rtt += weight * (rtt - self.mean_rtt);
        }
        if self.slow_start_delay > 0
            && window.in_slow_start()
            && self.mean_rtt - self.base_rtt > self.slow_start_delay as f64
        {
            window.exit_slow_start();
        }
    }

    #[inline]
    fn avoid(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        if self.round_end.is_none_or(|end| ack.snd_una >= end) {
            if self.round_end.is_some() {
                self.end_round(ack, window);
            }
            self.round_end = Some(ack.snd_nxt);
        }
        if self.pending > 0.0 {
            let segments = acked as f64 / window.mss() as f64;
            let growth = (self.per_segment * segments).min(self.pending);
            self.pending -= growth;
            window.add(growth, FLOOR);
        }
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        self.pending = 0.0;
        self.round_end = None;
        (cut.base as f64 * self.beta) as u64
    }

    fn phase(&self) -> &'static str {
        "alternate"
    }

    /// alpha in segments, base RTT and mean queueing delay in ms.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("alpha", self.alpha);
        out("base_rtt", self.base_rtt / 1e6);
        out("queueing_delay", (self.mean_rtt - self.base_rtt) / 1e6);
    }
}

#[cfg(test)]
mod tests {
    use super::next_window;

    /// Base 100 ms, alpha 200, gamma one half.
    #[test]
    fn an_update_goes_half_way() {
        for (window, rtt, expected) in [
            (1000.0, 100.0, 1100.0),
            (1000.0, 110.0, 1_054.545_454),
            (1000.0, 125.0, 1000.0),
            (1000.0, 150.0, 933.333_333),
            (1000.0, 200.0, 850.0),
            // At most doubled: 150 without that bound.
            (50.0, 100.0, 100.0),
        ] {
            let got = next_window(window, 100.0, rtt, 200.0, 0.5);
            assert!((got - expected).abs() < 1e-5, "{window} at {rtt} ms: {got}");
        }
    }
}
