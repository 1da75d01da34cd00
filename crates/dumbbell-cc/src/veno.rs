//! Veno (Fu and Liew, 2003): Reno that tells random loss from congestion by the backlog in the queue.
//!
//! The backlog is Vegas's, N = cwnd (1 - base/RTT). Below beta = 3 segments the link is not full: the
//! window grows as Reno's and a loss takes only a fifth. From beta on it grows every other round trip
//! and a loss takes half.
//!
//! As in Linux, RTT is that of the present ACK (the least since the ACK before that advanced), the
//! backlog is measured in half segments, and a flow that is not `Open` grows as Reno.

use crate::Controller;
use crate::event::{Ack, CaState, Nanos, Start};
use crate::loss_based::{self, Cause, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::reno;
use crate::round_trip::RoundTrip;
use crate::slow_start::SlowStart;
use crate::window::Window;

pub(crate) const NAME: &str = "veno";

/// With fewer samples the backlog is not known (Linux).
const FEWEST_SAMPLES: u64 = 3;
const LEAST_WINDOW: u64 = 2;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "beta",
            "number",
            3.0,
            (0.0, 1e6),
            "segments queued from which on the link counts as full (paper, Linux: 3)",
        ),
        ParamInfo::new(
            "random_loss_factor",
            "fraction",
            0.8,
            (0.01, 0.99),
            "factor for a loss below beta, taken as random (paper, Linux: 4/5)",
        ),
        ParamInfo::new(
            "congestion_factor",
            "fraction",
            0.5,
            (0.01, 0.99),
            "factor for a loss from beta on (paper, Linux: 1/2)",
        ),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "Reno that cuts less for a loss without a queue, which it takes for a random one",
        source: "Fu and Liew, IEEE JSAC 21(2), 2003; Linux",
        signals: &["loss", "ecn", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = Veno {
        beta_halves: (2.0 * params.number("beta")) as u64,
        random_loss_factor: params.number("random_loss_factor"),
        congestion_factor: params.number("congestion_factor"),
        trip: RoundTrip::new(),
        samples: 0,
        halves: 0,
        due: true,
    };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Debug)]
struct Veno {
    beta_halves: u64,
    random_loss_factor: f64,
    congestion_factor: f64,
    trip: RoundTrip,
    /// RTT samples since the start or an idle time.
    samples: u64,
    /// Backlog in half segments.
    halves: u64,
    /// The next full count of ACKs increases the window; every other one does.
    due: bool,
}

impl Veno {
    fn congested(&self) -> bool {
        self.halves >= self.beta_halves
    }

    fn forget(&mut self) {
        self.trip.forget();
        self.samples = 0;
        self.due = true;
    }
}

impl Law for Veno {
    const NAME: &'static str = NAME;

    fn start(&mut self, _event: &Start, _window: &mut Window) {
        self.trip = RoundTrip::new();
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, _window: &mut Window) {
        self.samples += u64::from(ack.rtt.is_some());
        self.trip.observe(ack);
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        if !self.trip.is_open() {
            reno::grow(ack, window, slow_start);
            return;
        }
        if !ack.cwnd_limited {
            return;
        }
        if self.samples < FEWEST_SAMPLES {
            reno::grow(ack, window, slow_start);
        } else {
            let cwnd = window.segments();
            self.halves = 2 * cwnd - 2 * cwnd * self.trip.base / self.trip.least;
            let mut acked = ack.acked;
            if window.in_slow_start() {
                acked = window.slow_start(slow_start.growth(acked, window.mss()));
            }
            if acked > 0 {
                self.avoid(ack, acked, window);
            }
            window.set(window.segments().max(LEAST_WINDOW));
        }
        self.trip.restart_samples();
    }

    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        let cwnd = window.segments();
        if !self.congested() {
            window.avoid(cwnd, acked);
        } else if window.counted(cwnd, acked) {
            window.grow(u64::from(self.due));
            self.due = !self.due;
        }
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        self.trip.interrupt(if cut.cause == Cause::Ecn { CaState::Cwr } else { CaState::Recovery });
        let factor =
            if self.congested() { self.congestion_factor } else { self.random_loss_factor };
        (cut.base as f64 * factor) as u64
    }

    fn on_timeout(&mut self) {
        self.trip.interrupt(CaState::Loss);
    }

    fn on_idle(&mut self, _now: Nanos, _idle: Nanos) {
        self.forget();
    }

    fn phase(&self) -> &'static str {
        if self.congested() { "congested" } else { "avoidance" }
    }

    /// Least RTT in milliseconds and segments in the queue.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("base_rtt", self.trip.base_ms());
        out("backlog", self.halves as f64 / 2.0);
    }
}
