//! LEDBAT: a background transport that aims at a fixed queueing delay (RFC 6817).
//!
//! The queueing delay is that of the round trip, see [`crate::queueing_delay`]. Without `slow_start`
//! the window grows from INIT_CWND as the pseudocode of section 2.4.2 has it; with it, it doubles a
//! round trip up to `ssthresh` or until three quarters of the target are queued (LEDBAT++'s test).

use crate::Controller;
use crate::event::{Ack, Start};
use crate::loss_based::{self, Cause, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::queueing_delay::{MAX_FILTER, MAX_MINUTES, QueueingDelay};
use crate::registry::ControllerInfo;
use crate::slow_start::SlowStart;
use crate::window::Window;

pub(crate) const NAME: &str = "ledbat";

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "target",
            "time",
            100_000_000,
            (1.0, 1e12),
            "queueing delay aimed at (TARGET; RFC 6817: at most 100 ms)",
        ),
        ParamInfo::new(
            "gain",
            "number",
            1.0,
            (1e-3, 1.0),
            "segments a round trip by which the window grows over an empty queue (GAIN; RFC 6817: at most 1)",
        ),
        ParamInfo::new(
            "init_cwnd",
            "segments",
            2,
            (1.0, 1e6),
            "window at the start (INIT_CWND, RFC 6817: 2), never more than the connection's own",
        ),
        ParamInfo::new(
            "min_cwnd",
            "segments",
            2,
            (1.0, 1e6),
            "least window but after a timeout (MIN_CWND, RFC 6817: 2)",
        ),
        ParamInfo::new(
            "allowed_increase",
            "segments",
            1,
            (1.0, 1e6),
            "window beyond the data in flight at most (ALLOWED_INCREASE, RFC 6817: 1)",
        ),
        ParamInfo::flag(
            "slow_start",
            false,
            "begin, and go on after a timeout, with slow start instead of the linear law",
        ),
    ];
    params.extend(delay_params());
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "background transport: holds the queueing delay at a target, yields to others",
        source: "RFC 6817",
        signals: &["rtt", "loss", "ecn"],
        params,
    }
}

/// How the queueing delay is measured, here and by LEDBAT++.
pub(crate) fn delay_params() -> [ParamInfo; 2] {
    [
        ParamInfo::new(
            "base_history",
            "count",
            10,
            (1.0, MAX_MINUTES as f64),
            "minutes over which the base delay is the minimum (BASE_HISTORY, RFC 6817: 10)",
        ),
        ParamInfo::new(
            "current_filter",
            "count",
            4,
            (1.0, MAX_FILTER as f64),
            "newest samples of which the least counts (CURRENT_FILTER; RFC 6817: 4 suggested)",
        ),
    ]
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = Ledbat::new(params);
    Box::new(LossBased::new(law, params))
}

#[derive(Clone)]
struct Ledbat {
    /// Nanoseconds.
    target: f64,
    gain: f64,
    init_cwnd: u64,
    min_cwnd: u64,
    allowed_increase: u64,
    slow_start: bool,
    delay: QueueingDelay,
}

impl Ledbat {
    fn new(params: &Params) -> Self {
        Self {
            target: params.number("target"),
            gain: params.number("gain"),
            init_cwnd: params.count("init_cwnd"),
            min_cwnd: params.count("min_cwnd"),
            allowed_increase: params.count("allowed_increase"),
            slow_start: params.flag("slow_start"),
            delay: QueueingDelay::new(
                params.count("base_history") as usize,
                params.count("current_filter") as usize,
            ),
        }
    }

    /// 1 over an empty queue, 0 at the target, negative beyond it.
    fn off_target(&self) -> f64 {
        (self.target - self.delay.queueing() as f64) / self.target
    }
}

impl Law for Ledbat {
    const NAME: &'static str = NAME;

    fn start(&mut self, _event: &Start, window: &mut Window) {
        if !self.slow_start {
            window.set(window.segments().min(self.init_cwnd));
            window.exit_slow_start();
        }
    }

    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.delay.add(ack.now, rtt);
        }
        if window.in_slow_start() && self.delay.queueing() as f64 > 0.75 * self.target {
            window.exit_slow_start();
        }
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        let mut acked = ack.acked;
        if self.slow_start && window.in_slow_start() {
            if !ack.cwnd_limited {
                return;
            }
            acked = window.slow_start(slow_start.growth(acked, window.mss()));
        }
        if acked > 0 {
            self.avoid(ack, acked, window);
        }
    }

    /// RFC 6817 section 2.4.2: GAIN * off_target * bytes_newly_acked * MSS / cwnd, and no window
    /// that the data in flight does not use.
    fn avoid(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        let cwnd = window.exact();
        let acked = acked as f64 / window.mss() as f64;
        let step = (self.gain * self.off_target() * acked / cwnd).max(-cwnd);
        let used = window.to_segments(ack.inflight_before) + self.allowed_increase;
        let change = step.min(used as f64 - cwnd);
        if ack.cwnd_limited {
            window.add(change, self.min_cwnd);
        } else if change < 0.0 {
            window.add(change, self.min_cwnd.min(window.segments()));
        }
        if window.in_slow_start() {
            // Or what falls below the threshold would double again.
            window.set_ssthresh(window.segments());
        }
    }

    /// Halved by loss, once a round trip; one segment after a timeout.
    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        match cut.cause {
            Cause::Timeout if !self.slow_start => self.min_cwnd,
            _ => (cut.base / 2).max(self.min_cwnd),
        }
    }

    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("queueing_delay_ms", self.delay.queueing() as f64 / 1e6);
        out("base_delay_ms", self.delay.base().unwrap_or(0) as f64 / 1e6);
        out("off_target", self.off_target());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;

    const MS: u64 = 1_000_000;

    /// That takes each sample as the current delay.
    fn law() -> Ledbat {
        let params = Params::check(NAME, &info().params, &Map::new()).unwrap();
        Ledbat { delay: QueueingDelay::new(10, 1), ..Ledbat::new(&params) }
    }

    fn window(segments: u64) -> Window {
        let mut window = Window::new();
        window.start(&Start {
            now: 0,
            mss: 1000,
            initial_window: 1000 * segments,
            rtt: None,
            ecn: crate::EcnMode::Off,
        });
        window
    }

    /// RFC 6817 section 2.4.2 by hand: base delay 40 ms, TARGET 100 ms, GAIN 1.
    #[test]
    fn window_follows_the_formula_of_the_rfc() {
        let mut law = law();
        let mut window = window(2);
        law.delay.add(0, 40 * MS);
        for (queueing_ms, acked, cwnd) in [
            (0, 1000, 2.0 + 1.0 / 2.0),
            (50, 2000, 2.5 + 0.5 * 2.0 / 2.5),
            (100, 5000, 2.9),
            (200, 1000, 2.9 - 1.0 / 2.9),
            (150, 500, 2.555_172_413_793_103 - 0.5 * 0.5 / 2.555_172_413_793_103),
            (1000, 1000, 2.0),
        ] {
            law.delay.add(MS, (40 + queueing_ms) * MS);
            let ack = Ack { acked, inflight_before: 100_000, cwnd_limited: true, ..Ack::default() };
            law.avoid(&ack, acked, &mut window);
            assert!((window.exact() - cwnd).abs() < 1e-9, "{queueing_ms}: {}", window.exact());
        }
    }

    /// At most ALLOWED_INCREASE beyond the data in flight.
    #[test]
    fn window_stays_near_what_is_in_flight() {
        let mut law = law();
        let mut window = window(50);
        law.delay.add(0, 40 * MS);
        let ack = Ack { acked: 1000, inflight_before: 10_000, ..Ack::default() };
        law.avoid(&ack, 1000, &mut window);
        assert_eq!(window.exact(), 11.0);
    }
}
