//! LEDBAT++: LEDBAT over round-trip times, with a gain that yields to Reno, a multiplicative decrease
//! and slowdowns that let late-comers see the empty path (draft-irtf-iccrg-ledbat-plus-plus).
//!
//! Where the draft leaves a choice: below the target the window grows by GAIN a round trip; the ramp
//! that ends a slowdown is slow start at full pace and only `ssthresh` or loss ends it, since a ramp
//! at GAIN would cost more than the tenth of the time that the draft allows; the next slowdown starts
//! nine durations after a ramp has ended.

use crate::Controller;
use crate::event::{Ack, Nanos};
use crate::ledbat::delay_params;
use crate::loss_based::{self, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::queueing_delay::QueueingDelay;
use crate::registry::ControllerInfo;
use crate::slow_start::SlowStart;
use crate::window::Window;

pub(crate) const NAME: &str = "ledbat++";

/// Part of the target at which the first slow start ends (section 4.1).
const EXIT_PART: f64 = 0.75;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "target",
            "time",
            60_000_000,
            (1.0, 1e12),
            "queueing delay aimed at (TARGET, section 4.5: 60 ms)",
        ),
        ParamInfo::new(
            "gain_divisor",
            "count",
            16,
            (1.0, 1e6),
            "GAIN is never less than 1 over this (section 4.2: 16)",
        ),
        ParamInfo::new(
            "decrease",
            "number",
            1.0,
            (0.01, 100.0),
            "factor of the decrease above the target (the constant of section 4.3: 1)",
        ),
        ParamInfo::flag("slowdown", true, "periodic slowdowns (section 4.4)"),
        ParamInfo::new(
            "slowdown_cwnd",
            "segments",
            2,
            (2.0, 1e6),
            "window of a slowdown (section 4.4: 2)",
        ),
        ParamInfo::new(
            "slowdown_rtts",
            "count",
            2,
            (1.0, 1e6),
            "round trips for which it is held, and from the end of slow start to the first (section 4.4: 2)",
        ),
        ParamInfo::new(
            "slowdown_spacing",
            "number",
            9.0,
            (1.0, 1e6),
            "durations of a slowdown between its end and the next (section 4.4: 9)",
        ),
    ];
    params.extend(delay_params());
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "LEDBAT over round-trip times, fair to late-comers by periodic slowdowns",
        source: "draft-irtf-iccrg-ledbat-plus-plus",
        signals: &["rtt", "loss", "ecn"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = LedbatPlusPlus::new(params);
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The first one; GAIN scales it and queueing ends it.
    SlowStart,
    Avoidance,
    /// The window is at its least so that the queue drains.
    Slowdown {
        since: Nanos,
        until: Nanos,
    },
    /// Back to where the slowdown began, or, without `since`, up after a timeout.
    Ramp {
        since: Option<Nanos>,
    },
}

#[derive(Clone)]
struct LedbatPlusPlus {
    /// Nanoseconds.
    target: f64,
    gain_divisor: f64,
    decrease: f64,
    slowdown_cwnd: u64,
    slowdown_rtts: u64,
    spacing: f64,
    delay: QueueingDelay,
    srtt: Nanos,
    /// Window that a congestion event leaves, segments.
    after_cut: u64,
    phase: Phase,
    next_slowdown: Option<Nanos>,
    /// How many there have been; none if they are off.
    slowdowns: Option<u64>,
}

impl LedbatPlusPlus {
    fn new(params: &Params) -> Self {
        Self {
            target: params.number("target"),
            gain_divisor: params.number("gain_divisor"),
            decrease: params.number("decrease"),
            slowdown_cwnd: params.count("slowdown_cwnd"),
            slowdown_rtts: params.count("slowdown_rtts"),
            spacing: params.number("slowdown_spacing"),
            delay: QueueingDelay::new(
                params.count("base_history") as usize,
                params.count("current_filter") as usize,
            ),
            srtt: 0,
            after_cut: 2,
            phase: Phase::SlowStart,
            next_slowdown: None,
            slowdowns: params.flag("slowdown").then_some(0),
        }
    }

    /// Section 4.2: 1 / min(16, ceil(2 TARGET / base)).
    fn gain(&self) -> f64 {
        let base = self.delay.base().unwrap_or(1).max(1) as f64;
        1.0 / (2.0 * self.target / base).ceil().clamp(1.0, self.gain_divisor)
    }

    /// Section 4.3: change of a window of `cwnd` segments in a round trip.
    fn change(&self, cwnd: f64) -> f64 {
        let over = self.delay.queueing() as f64 / self.target - 1.0;
        if over <= 0.0 {
            self.gain()
        } else {
            (self.gain() - self.decrease * cwnd * over).max(-cwnd / 2.0)
        }
    }

    /// The window has reached `ssthresh`, or loss or queueing keeps it from there.
    fn enter_avoidance(&mut self, now: Nanos) {
        let wait = match self.phase {
            Phase::SlowStart => Some((self.slowdown_rtts.saturating_mul(self.srtt)) as f64),
            Phase::Ramp { since: Some(since) } => {
                Some(self.spacing * now.saturating_sub(since) as f64)
            }
            _ => None,
        };
        if let Some(wait) = wait {
            self.next_slowdown = Some(now.saturating_add(wait as Nanos));
        }
        self.phase = Phase::Avoidance;
    }

    fn begin_slowdown(&mut self, ack: &Ack, window: &mut Window) {
        let until = ack.now.saturating_add(self.slowdown_rtts.saturating_mul(self.srtt));
        self.phase = Phase::Slowdown { since: ack.now, until };
        self.slowdowns = self.slowdowns.map(|count| count + 1);
        window.set_ssthresh(window.segments());
        window.set(self.slowdown_cwnd.min(window.segments()));
    }
}

impl Law for LedbatPlusPlus {
    const NAME: &'static str = NAME;

    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.delay.add(ack.now, rtt);
        }
        self.srtt = ack.srtt;
        match self.phase {
            Phase::SlowStart => {
                if self.delay.queueing() as f64 > EXIT_PART * self.target {
                    window.exit_slow_start();
                }
                if !window.in_slow_start() {
                    self.enter_avoidance(ack.now);
                }
            }
            Phase::Slowdown { since, until, .. } if ack.now >= until => {
                self.phase = Phase::Ramp { since: Some(since) };
            }
            Phase::Ramp { .. } if !window.in_slow_start() => {
                self.enter_avoidance(ack.now);
            }
            Phase::Avoidance
                if self.slowdowns.is_some()
                    && !loss_based::in_reduction(ack.state)
                    && self.next_slowdown.is_some_and(|at| ack.now >= at) =>
            {
                self.begin_slowdown(ack, window);
            }
            _ => {}
        }
    }

    fn slow_start_delay(&self, ack: &Ack) -> Option<Nanos> {
        (self.phase == Phase::SlowStart).then_some(ack.min_rtt)
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        let mut acked = ack.acked;
        match self.phase {
            Phase::Slowdown { .. } => return,
            // A window that the data in flight does not use may shrink, not grow.
            Phase::SlowStart | Phase::Ramp { .. } if !ack.cwnd_limited => return,
            Phase::SlowStart => {
                let scaled = (acked as f64 * self.gain()) as u64;
                window.slow_start(slow_start.growth(scaled, window.mss()));
                return;
            }
            Phase::Ramp { .. } => acked = window.slow_start(acked),
            Phase::Avoidance => {}
        }
        if acked > 0 {
            self.avoid(ack, acked, window);
        }
    }

    fn avoid(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        let cwnd = window.exact();
        let round = (acked as f64 / window.mss() as f64 / cwnd).min(1.0);
        let change = self.change(cwnd) * round;
        if change < 0.0 || ack.cwnd_limited {
            // The least window, but no growth of one that a timeout left below it.
            window.add(change, if ack.cwnd_limited { 2 } else { window.segments().min(2) });
            if window.in_slow_start() {
                window.set_ssthresh(window.segments());
            }
        }
    }

    /// Loss halves the window as it does Reno's; in a slowdown and on the way up from it or from a
    /// timeout, the aim too, which is not what little window there is then.
    fn cut(&mut self, cut: &Cut, window: &Window) -> u64 {
        let half = (cut.base / 2).max(2);
        match self.phase {
            Phase::Slowdown { .. } => self.after_cut = self.slowdown_cwnd,
            Phase::Ramp { .. } => self.after_cut = half,
            Phase::SlowStart | Phase::Avoidance => {
                self.enter_avoidance(cut.now);
                self.after_cut = half;
                return half;
            }
        }
        (window.ssthresh() / 2).max(2)
    }

    fn window_after_cut(&self, ssthresh: u64) -> u64 {
        self.after_cut.min(ssthresh)
    }

    fn on_timeout(&mut self) {
        let since = match self.phase {
            Phase::Slowdown { since, .. } => Some(since),
            Phase::Ramp { since } => since,
            _ => None,
        };
        self.phase = Phase::Ramp { since };
    }

    fn phase(&self) -> &'static str {
        "avoidance"
    }

    fn phase_in_slow_start(&self) -> Option<&'static str> {
        match self.phase {
            Phase::Slowdown { .. } => Some("slowdown"),
            Phase::Ramp { since: Some(_) } => Some("ramp"),
            _ => None,
        }
    }

    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("queueing_delay_ms", self.delay.queueing() as f64 / 1e6);
        out("base_delay_ms", self.delay.base().unwrap_or(0) as f64 / 1e6);
        out("gain", self.gain());
        out("slowdowns", self.slowdowns.unwrap_or(0) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;

    const MS: Nanos = 1_000_000;

    fn law(base: Nanos, queueing: Nanos) -> LedbatPlusPlus {
        let params = Params::check(NAME, &info().params, &Map::new()).unwrap();
        let mut law = LedbatPlusPlus::new(&params);
        law.delay.add(0, base);
        for _ in 0..4 {
            law.delay.add(1, base + queueing);
        }
        law
    }

    /// Section 4.2 with TARGET = 60 ms.
    #[test]
    fn gain_falls_with_the_base_delay() {
        for (base, divisor) in
            [(1, 16.0), (8, 15.0), (20, 6.0), (60, 2.0), (119, 2.0), (120, 1.0), (300, 1.0)]
        {
            assert_eq!(law(base * MS, 0).gain(), 1.0 / divisor, "{base} ms");
        }
    }

    /// Section 4.3: GAIN below the target; above it the decrease, half the window at most.
    #[test]
    fn decrease_is_multiplicative() {
        let change = |queueing| law(20 * MS, queueing).change(100.0);
        assert_eq!(change(0), 1.0 / 6.0);
        assert_eq!(change(60 * MS), 1.0 / 6.0);
        assert!((change(66 * MS) - (1.0 / 6.0 - 10.0)).abs() < 1e-9);
        assert!((change(90 * MS) - (1.0 / 6.0 - 50.0)).abs() < 1e-9);
        assert_eq!(change(300 * MS), -50.0);
    }
}
