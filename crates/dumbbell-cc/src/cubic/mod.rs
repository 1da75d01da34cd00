//! CUBIC (RFC 9438), by default with the details of Linux.
//!
//! What both variants share is here: congestion events, undo, slow start. How the window grows in
//! congestion avoidance is in [`linux`] (integers, a step count recomputed as Linux does) and in
//! [`rfc9438`] (real numbers). They differ where Linux and the RFC do:
//!
//! | | `linux = true` | `linux = false` |
//! | --- | --- | --- |
//! | target looks ahead by | least RTT | smoothed RTT |
//! | Reno estimate's alpha | 8/15 for ever | 9/17, then 1 from the window before the cut on |
//! | W_max unknown (after HyStart) | at least 5 % growth per RTT | K = 0, W_max = cwnd |
//! | timeout | forgets W_max and the least RTT | K = 0, W_max = cwnd in the next avoidance |
//! | time spent app-limited | counts, time spent idle does not | neither counts |
//! | arithmetic | whole segments | fractions |
//!
//! Linux is the default because that is what runs on the Internet and what our kernel reference
//! traces show. A spurious event restores all state (RFC 9438 section 4.9) in both; Linux itself
//! restores only cwnd and `ssthresh`.

mod linux;
mod rfc9438;

pub(crate) use linux::Linux;
use rfc9438::Rfc9438;

use crate::Controller;
use crate::event::{Ack, Nanos};
use crate::loss_based::{self, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;

pub(crate) const NAME: &str = "cubic";

/// Linux ignores RTT samples for this long after a congestion event: they hold the old queue.
const DELAY_SAMPLE_PAUSE: Nanos = 1_000_000_000;

/// Parameters of the curve.
pub(crate) fn curve_params() -> Vec<ParamInfo> {
    vec![
        ParamInfo::new(
            "beta",
            "fraction",
            0.7,
            (0.1, 0.99),
            "factor by which a congestion event multiplies the window",
        ),
        ParamInfo::new("c", "number", 0.4, (0.001, 1000.0), "C of the cubic, segments/s^3"),
        ParamInfo::flag(
            "fast_convergence",
            true,
            "lower W_max further when it has fallen (RFC 9438 section 4.7)",
        ),
        ParamInfo::flag("reno_friendly", true, "never slower than Reno (RFC 9438 section 4.3)"),
    ]
}

pub(crate) fn info() -> ControllerInfo {
    let mut params = curve_params();
    params.push(ParamInfo::flag(
        "linux",
        true,
        "growth as Linux computes it; false: as RFC 9438 says",
    ));
    params.extend(loss_based::abe_params(0.85));
    params.extend(loss_based::params("hystart"));
    ControllerInfo {
        name: NAME,
        summary: "window growth as a cubic of the time since the last congestion event",
        source: "RFC 9438, Linux",
        signals: &["loss", "ecn", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    Box::new(LossBased::new(Cubic::new(params), params))
}

/// Constants of the algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) beta: f64,
    c: f64,
    fast_convergence: bool,
    reno_friendly: bool,
}

impl Settings {
    /// In the fixed point of Linux.
    pub(crate) fn linux(params: &Params) -> Self {
        Self::new(params, linux::quantised)
    }

    fn new(params: &Params, exact: impl Fn(f64) -> f64) -> Self {
        Self {
            beta: exact(params.number("beta")),
            c: exact(params.number("c")),
            fast_convergence: params.flag("fast_convergence"),
            reno_friendly: params.flag("reno_friendly"),
        }
    }

    /// W_max after a congestion event at `cwnd` (RFC 9438 section 4.7).
    fn next_w_max(&self, cwnd: f64, w_max: f64) -> f64 {
        if self.fast_convergence && cwnd < w_max { cwnd * (1.0 + self.beta) / 2.0 } else { cwnd }
    }
}

#[derive(Clone, Debug)]
enum Growth {
    Linux(Linux),
    Rfc(Rfc9438),
}

#[derive(Clone, Debug)]
struct Cubic {
    settings: Settings,
    growth: Growth,
    /// Least RTT, 0 before the first sample.
    delay_min: Nanos,
    /// The RTT of the present ACK still holds the queue of before the last cut.
    stale: bool,
}

impl Cubic {
    fn new(params: &Params) -> Self {
        let (settings, growth) = if params.flag("linux") {
            let settings = Settings::linux(params);
            (settings, Growth::Linux(Linux::new(settings)))
        } else {
            let settings = Settings::new(params, |value| value);
            (settings, Growth::Rfc(Rfc9438::new(settings)))
        };
        Self { settings, growth, delay_min: 0, stale: false }
    }
}

impl Law for Cubic {
    const NAME: &'static str = NAME;

    /// Follow the least RTT.
    #[inline]
    fn observe(&mut self, ack: &Ack, _window: &mut Window) {
        self.stale = false;
        if let Some(rtt) = ack.rtt {
            self.stale = match &self.growth {
                Growth::Linux(growth) => {
                    growth.age(ack.now).is_some_and(|age| age < DELAY_SAMPLE_PAUSE)
                }
                Growth::Rfc(_) => false,
            };
            if !self.stale && (self.delay_min == 0 || rtt < self.delay_min) {
                self.delay_min = rtt.max(1);
            }
        }
        if let Growth::Rfc(growth) = &mut self.growth {
            let reducing = loss_based::in_reduction(ack.state);
            growth.on_utilisation(ack.now, ack.cwnd_limited || reducing);
        }
    }

    #[inline]
    fn slow_start_delay(&self, _ack: &Ack) -> Option<Nanos> {
        (!self.stale).then_some(self.delay_min)
    }

    #[inline]
    fn avoid(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        match &mut self.growth {
            Growth::Linux(growth) => {
                let per_increase = growth.update(ack.now, window, acked, self.delay_min);
                window.avoid(per_increase, acked);
            }
            Growth::Rfc(growth) => {
                let acked = acked as f64 / window.mss() as f64;
                let grown = growth.update(ack.now, window.segments(), acked, ack.srtt);
                window.grow(grown);
            }
        }
    }

    /// Remember W_max; it is a matter of cwnd, also where the cut is not.
    fn cut(&mut self, cut: &Cut, window: &Window) -> u64 {
        let cwnd = window.segments();
        match &mut self.growth {
            Growth::Linux(growth) => growth.on_congestion(cwnd),
            Growth::Rfc(growth) => growth.on_congestion(cwnd),
        }
        (cut.base as f64 * self.settings.beta) as u64
    }

    fn on_timeout(&mut self) {
        match &mut self.growth {
            Growth::Linux(growth) => {
                growth.on_timeout();
                self.delay_min = 0;
            }
            Growth::Rfc(growth) => growth.on_timeout(),
        }
    }

    fn on_idle(&mut self, now: Nanos, idle: Nanos) {
        match &mut self.growth {
            Growth::Linux(growth) => growth.on_idle(now, idle),
            Growth::Rfc(growth) => growth.on_idle(now, idle),
        }
    }

    /// W_max and W_est in segments, K in seconds.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        let (w_max, k, w_est) = match &self.growth {
            Growth::Linux(growth) => growth.record(),
            Growth::Rfc(growth) => growth.record(),
        };
        out("w_max", w_max);
        out("k", k);
        out("w_est", w_est);
    }
}

#[cfg(test)]
mod tests;
