//! YeAH-TCP (Baiocchi, Castellani and Vacirca, 2007): Scalable TCP while the queue is short, Reno and a
//! draining of its own queue when it is not.
//!
//! Once a round trip the queue Q = cwnd (RTT - base)/RTT and the delay RTT - base decide the mode.
//! `reno_count` estimates the window of a Reno flow in its place: while it grows, others compete, and
//! the window is not drained below it.
//!
//! As Linux has it; the paper's Q_max is the same 80 segments.

use crate::Controller;
use crate::event::{Ack, CaState, Nanos, Start};
use crate::loss_based::{self, Cause, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::round_trip::RoundTrip;
use crate::slow_start::SlowStart;
use crate::window::Window;

pub(crate) const NAME: &str = "yeah";

/// With fewer samples the queue is not known (Linux).
const FEWEST_SAMPLES: u64 = 3;
const LEAST_WINDOW: u64 = 2;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "alpha",
            "segments",
            80,
            (0.0, 1e9),
            "most queued segments in fast mode; beyond, the queue is drained (paper, Linux: 80)",
        ),
        ParamInfo::new(
            "gamma",
            "count",
            1,
            (1.0, 1e6),
            "draining takes the queue divided by this (Linux 1)",
        ),
        ParamInfo::new(
            "epsilon",
            "count",
            1,
            (0.0, 32.0),
            "draining takes cwnd/2^epsilon at most (Linux 1)",
        ),
        ParamInfo::new(
            "delta",
            "count",
            3,
            (0.0, 32.0),
            "a loss in fast mode takes at least cwnd/2^delta (paper, Linux: 3)",
        ),
        ParamInfo::new(
            "phy",
            "number",
            8.0,
            (0.1, 1e6),
            "fast mode while the queueing delay is below base/phy (paper, Linux: 8)",
        ),
        ParamInfo::new(
            "rho",
            "count",
            16,
            (0.0, 1e6),
            "rounds in Reno mode after which a loss halves the window (paper, Linux: 16)",
        ),
        ParamInfo::new(
            "zeta",
            "count",
            50,
            (0.0, 1e6),
            "rounds in fast mode after which Reno's estimate is forgotten (paper, Linux: 50)",
        ),
        ParamInfo::new(
            "scalable_count",
            "segments",
            100,
            (1.0, 1e6),
            "in fast mode one segment more for this many acked, or for cwnd if that is less (Linux 100)",
        ),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "Scalable TCP while the queue is short, otherwise Reno that drains its own queue",
        source: "Baiocchi, Castellani and Vacirca, PFLDnet 2007; Linux",
        signals: &["loss", "ecn", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = Yeah {
        settings: Settings {
            alpha: params.count("alpha"),
            gamma: params.count("gamma"),
            epsilon: params.count("epsilon"),
            delta: params.count("delta"),
            phy: params.number("phy"),
            rho: params.count("rho"),
            zeta: params.count("zeta"),
            scalable_count: params.count("scalable_count"),
        },
        trip: RoundTrip::new(),
        queue: 0,
        reno_rounds: 0,
        fast_rounds: 0,
        reno_count: LEAST_WINDOW,
    };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    alpha: u64,
    gamma: u64,
    epsilon: u64,
    delta: u64,
    phy: f64,
    rho: u64,
    zeta: u64,
    scalable_count: u64,
}

#[derive(Clone, Debug)]
struct Yeah {
    settings: Settings,
    trip: RoundTrip,
    /// Own segments in the queue, last round.
    queue: u64,
    /// Rounds in Reno mode without a break; 0 is fast mode.
    reno_rounds: u64,
    fast_rounds: u64,
    /// Window of a Reno flow in this place.
    reno_count: u64,
}

impl Yeah {
    /// Once a round trip.
    fn decide(&mut self, window: &mut Window) {
        let s = self.settings;
        let cwnd = window.segments();
        self.queue = self.trip.backlog(cwnd);
        let delay = self.trip.least - self.trip.base;
        if self.queue > s.alpha || delay > (self.trip.base as f64 / s.phy) as u64 {
            if self.queue > s.alpha && cwnd > self.reno_count {
                let drained = (self.queue / s.gamma).min(cwnd >> s.epsilon);
                window.set((cwnd - drained).max(self.reno_count));
                window.exit_slow_start();
            }
            self.reno_count = if self.reno_count <= LEAST_WINDOW {
                (window.segments() / 2).max(LEAST_WINDOW)
            } else {
                self.reno_count + 1
            };
            self.reno_rounds += 1;
        } else {
            self.fast_rounds += 1;
            if self.fast_rounds > s.zeta {
                self.reno_count = LEAST_WINDOW;
                self.fast_rounds = 0;
            }
            self.reno_rounds = 0;
        }
    }
}

impl Law for Yeah {
    const NAME: &'static str = NAME;

    fn start(&mut self, _event: &Start, _window: &mut Window) {
        self.trip = RoundTrip::new();
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, _window: &mut Window) {
        self.trip.observe(ack);
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        if !ack.cwnd_limited {
            return;
        }
        loss_based::grow(self, ack, window, slow_start);
        if self.trip.is_over(ack) {
            if self.trip.samples >= FEWEST_SAMPLES {
                self.decide(window);
            }
            self.trip.begin();
        }
    }

    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        let cwnd = window.segments();
        let per_increase =
            if self.reno_rounds == 0 { cwnd.min(self.settings.scalable_count) } else { cwnd };
        window.avoid(per_increase, acked);
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        self.trip.interrupt(if cut.cause == Cause::Ecn { CaState::Cwr } else { CaState::Recovery });
        let half = (cut.base / 2).max(LEAST_WINDOW);
        let taken = if self.reno_rounds < self.settings.rho {
            self.queue.min(half).max(cut.base >> self.settings.delta)
        } else {
            half
        };
        self.fast_rounds = 0;
        self.reno_count = (self.reno_count / 2).max(LEAST_WINDOW);
        cut.base.saturating_sub(taken)
    }

    fn on_timeout(&mut self) {
        self.trip.interrupt(CaState::Loss);
    }

    fn on_idle(&mut self, _now: Nanos, _idle: Nanos) {
        self.trip.forget();
    }

    fn phase(&self) -> &'static str {
        if self.reno_rounds == 0 { "fast" } else { "reno" }
    }

    /// Own segments in the queue, least RTT in milliseconds, window of a Reno flow.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("queue", self.queue as f64);
        out("base_rtt", self.trip.base_ms());
        out("reno_count", self.reno_count as f64);
    }
}
