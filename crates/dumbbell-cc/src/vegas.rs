//! Vegas (Brakmo and Peterson, 1995), by default with the details of Linux.
//!
//! Once a round trip the window is compared with what the least round-trip time would carry; the
//! difference is the flow's own data in the queue, and is kept between alpha and beta segments.
//!
//! | | `linux = true` | `linux = false` |
//! | --- | --- | --- |
//! | difference | cwnd (RTT - base)/base | cwnd (RTT - base)/RTT |
//! | slow start | doubles every round trip | doubles every other round trip |
//! | an unused window | moves all the same | rests |
//!
//! RTT is the least of the round. Linux's is the default because it is what runs, and what our kernel
//! reference traces show.

use crate::Controller;
use crate::event::{Ack, CaState, Nanos, Start};
use crate::loss_based::{self, Cause, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::reno;
use crate::round_trip::RoundTrip;
use crate::slow_start::SlowStart;
use crate::window::Window;

pub(crate) const NAME: &str = "vegas";

/// With fewer samples a round is too thin to tell a queue from delayed ACKs (Linux).
const FEWEST_SAMPLES: u64 = 3;
const LEAST_WINDOW: u64 = 2;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "alpha",
            "segments",
            2,
            (0.0, 1e6),
            "below this many queued segments the window grows (Linux 2; the paper 1 to 2)",
        ),
        ParamInfo::new(
            "beta",
            "segments",
            4,
            (0.0, 1e6),
            "above this many queued segments the window shrinks (Linux 4; the paper 3 to 4)",
        ),
        ParamInfo::new(
            "gamma",
            "segments",
            1,
            (0.0, 1e6),
            "above this many queued segments slow start ends (Linux and the paper: 1)",
        ),
        ParamInfo::flag("linux", true, "as Linux computes it; false: as the paper says"),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "keeps a few segments of its own in the queue, judged by the round-trip time",
        source: "Brakmo and Peterson, IEEE JSAC 13(8), 1995; Linux",
        signals: &["loss", "ecn", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = Vegas {
        alpha: params.count("alpha"),
        beta: params.count("beta"),
        gamma: params.count("gamma"),
        linux: params.flag("linux"),
        trip: RoundTrip::new(),
        rest: false,
        diff: 0,
    };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Debug)]
struct Vegas {
    alpha: u64,
    beta: u64,
    gamma: u64,
    linux: bool,
    trip: RoundTrip,
    /// The window stands still this round of slow start (the paper).
    rest: bool,
    /// Queued segments at the last decision.
    diff: u64,
}

impl Vegas {
    /// Once a round trip.
    fn decide(&mut self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        let cwnd = window.segments();
        self.diff =
            if self.linux { self.trip.backlog_by_base(cwnd) } else { self.trip.backlog(cwnd) };
        if window.in_slow_start() {
            if self.diff > self.gamma {
                // What the base RTT carries, and one: less than cwnd drains the queue.
                let carried = cwnd * self.trip.base / self.trip.least;
                window.set(cwnd.min(carried + 1));
                window.exit_slow_start();
            } else {
                self.rest = !self.linux && !self.rest;
                self.slow_start(ack, window, slow_start);
            }
        } else if self.diff > self.beta {
            window.set(cwnd - 1);
            // Or the next ACK would find itself in slow start.
            window.set_ssthresh(window.ssthresh().min(window.segments()));
        } else if self.diff < self.alpha {
            window.grow(1);
        }
        window.set(window.segments().max(LEAST_WINDOW));
        window.set_ssthresh_at_least_three_quarters();
    }

    fn slow_start(&self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        if !self.rest {
            window.slow_start(slow_start.growth(ack.acked, window.mss()));
        }
    }
}

impl Law for Vegas {
    const NAME: &'static str = NAME;

    fn start(&mut self, _event: &Start, _window: &mut Window) {
        self.trip = RoundTrip::new();
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, _window: &mut Window) {
        self.trip.observe(ack);
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        if !self.linux && !ack.cwnd_limited {
            return;
        }
        if !self.trip.is_open() {
            reno::grow(ack, window, slow_start);
        } else if self.trip.is_over(ack) {
            if self.trip.samples < FEWEST_SAMPLES {
                reno::grow(ack, window, slow_start);
            } else {
                self.decide(ack, window, slow_start);
            }
            self.trip.begin();
        } else if window.in_slow_start() {
            self.slow_start(ack, window, slow_start);
        }
    }

    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        window.avoid(window.segments(), acked);
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        self.trip.interrupt(if cut.cause == Cause::Ecn { CaState::Cwr } else { CaState::Recovery });
        cut.base / 2
    }

    fn on_timeout(&mut self) {
        self.trip.interrupt(CaState::Loss);
    }

    fn on_idle(&mut self, _now: Nanos, _idle: Nanos) {
        self.trip.forget();
    }

    /// Least RTT in milliseconds and queued segments.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("base_rtt", self.trip.base_ms());
        out("diff", self.diff as f64);
    }
}
