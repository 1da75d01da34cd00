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

use linux::Linux;
use rfc9438::Rfc9438;

use crate::event::{
    Ack, CaState, Congestion, CongestionKind, IdleRestart, Nanos, Rto, Start, Undo,
};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::slow_start::{self, SlowStart, View};
use crate::window::Window;
use crate::window_pacing::WindowPacing;
use crate::{Controller, loss_based};

pub(crate) const NAME: &str = "cubic";

/// Linux ignores RTT samples for this long after a congestion event: they hold the old queue.
const DELAY_SAMPLE_PAUSE: Nanos = 1_000_000_000;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
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
        ParamInfo::flag("linux", true, "growth as Linux computes it; false: as RFC 9438 says"),
        loss_based::basis_param(),
    ];
    params.extend(slow_start::params("hystart"));
    params.extend(WindowPacing::params());
    ControllerInfo {
        name: NAME,
        summary: "window growth as a cubic of the time since the last congestion event",
        source: "RFC 9438, Linux",
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    Box::new(Cubic::new(params))
}

/// Constants of the algorithm.
#[derive(Clone, Copy, Debug)]
struct Settings {
    beta: f64,
    c: f64,
    fast_convergence: bool,
    reno_friendly: bool,
}

impl Settings {
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

/// What a congestion event changes, kept in case it was spurious.
#[derive(Clone, Debug)]
struct Saved {
    window: Window,
    growth: Growth,
    delay_min: Nanos,
}

struct Cubic {
    settings: Settings,
    from_inflight: bool,
    window: Window,
    growth: Growth,
    slow_start: Box<dyn SlowStart>,
    pacing: WindowPacing,
    /// Least RTT, 0 before the first sample.
    delay_min: Nanos,
    state: CaState,
    saved: Option<Saved>,
}

impl Cubic {
    fn new(params: &Params) -> Self {
        let linux = params.flag("linux");
        let exact = |v: f64| if linux { linux::quantised(v) } else { v };
        let settings = Settings {
            beta: exact(params.number("beta")),
            c: exact(params.number("c")),
            fast_convergence: params.flag("fast_convergence"),
            reno_friendly: params.flag("reno_friendly"),
        };
        Self {
            settings,
            from_inflight: params.choice("basis") == "inflight",
            window: Window::new(),
            growth: if linux {
                Growth::Linux(Linux::new(settings))
            } else {
                Growth::Rfc(Rfc9438::new(settings))
            },
            slow_start: slow_start::build(params),
            pacing: WindowPacing::new(params),
            delay_min: 0,
            state: CaState::Open,
            saved: None,
        }
    }

    /// Follow the least RTT and let slow start see the ACK.
    fn observe(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            if let Growth::Linux(growth) = &self.growth
                && growth.age(ack.now).is_some_and(|age| age < DELAY_SAMPLE_PAUSE)
            {
                return;
            }
            if self.delay_min == 0 || rtt < self.delay_min {
                self.delay_min = rtt.max(1);
            }
        }
        if self.window.in_slow_start() && !loss_based::in_reduction(ack.state) {
            let view = View {
                cwnd: self.window.segments(),
                delay_min: self.delay_min,
                paced: self.pacing.enabled(),
            };
            if self.slow_start.on_ack(ack, &view) {
                self.window.exit_slow_start();
            }
        }
    }

    fn save(&mut self) {
        self.saved = Some(Saved {
            window: self.window.clone(),
            growth: self.growth.clone(),
            delay_min: self.delay_min,
        });
    }

    /// Remember W_max and return the new threshold for a cut from `base` segments.
    fn congestion(&mut self, base: u64) -> u64 {
        let cwnd = self.window.segments();
        match &mut self.growth {
            Growth::Linux(growth) => growth.on_congestion(cwnd),
            Growth::Rfc(growth) => growth.on_congestion(cwnd),
        }
        (base as f64 * self.settings.beta) as u64
    }
}

impl Controller for Cubic {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_start(&mut self, event: &Start) {
        self.window.start(event);
        self.pacing.set_srtt(event.rtt.unwrap_or(0));
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.window.set_mss(ack.mss);
        self.pacing.set_srtt(ack.srtt);
        self.state = ack.state;
        self.observe(ack);
        let may_grow = ack.cwnd_limited && !loss_based::in_reduction(ack.state);
        if let Growth::Rfc(growth) = &mut self.growth {
            growth.on_utilisation(ack.now, may_grow || loss_based::in_reduction(ack.state));
        }
        if !may_grow || !ack.advances {
            return;
        }
        let mut acked = ack.acked;
        if self.window.in_slow_start() {
            acked = self.window.slow_start(self.slow_start.growth(acked, self.window.mss()));
            if acked == 0 {
                return;
            }
        }
        match &mut self.growth {
            Growth::Linux(growth) => {
                let per_increase = growth.update(ack.now, &self.window, acked, self.delay_min);
                self.window.avoid(per_increase, acked);
            }
            Growth::Rfc(growth) => {
                let acked = acked as f64 / self.window.mss() as f64;
                let grown = growth.update(ack.now, self.window.segments(), acked, ack.srtt);
                self.window.grow(grown);
            }
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.state = match event.kind {
            CongestionKind::Loss => CaState::Recovery,
            CongestionKind::Ecn => CaState::Cwr,
        };
        self.save();
        let base = loss_based::basis(&self.window, self.from_inflight, event.inflight);
        let reduced = self.congestion(base);
        self.window.cut(reduced);
        self.slow_start.on_congestion();
    }

    fn on_rto(&mut self, event: &Rto) {
        self.state = CaState::Loss;
        let ssthresh = event.first.then(|| {
            self.save();
            self.congestion(self.window.segments())
        });
        match &mut self.growth {
            Growth::Linux(growth) => {
                growth.on_timeout();
                self.delay_min = 0;
            }
            Growth::Rfc(growth) => growth.on_timeout(),
        }
        self.window.timeout(ssthresh, event.inflight);
        self.slow_start.on_timeout();
    }

    fn on_undo(&mut self, _event: &Undo) {
        if let Some(saved) = self.saved.take() {
            self.window.undo(&saved.window);
            self.growth = saved.growth;
            self.delay_min = saved.delay_min;
        }
        self.state = CaState::Open;
    }

    fn on_recovery_exit(&mut self, _now: Nanos) {
        self.state = CaState::Open;
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        match &mut self.growth {
            Growth::Linux(growth) => growth.on_idle(event.now, event.idle),
            Growth::Rfc(growth) => growth.on_idle(event.now, event.idle),
        }
        if let Some(restart) = event.restart_window {
            self.window.restart(restart);
        }
    }

    fn cwnd(&self) -> u64 {
        self.window.bytes()
    }

    fn ssthresh(&self) -> u64 {
        self.window.ssthresh_bytes()
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.pacing.rate(&self.window)
    }

    fn phase(&self) -> &'static str {
        loss_based::phase(self.state, &self.window, self.slow_start.as_ref())
    }

    /// W_max and W_est in segments, K in seconds.
    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
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
