//! CAIA delay gradient, CDG (Hayes and Armitage, 2011), as Linux has it.
//!
//! Once a round trip the change of the least and of the largest RTT is summed over 8 rounds. A rising
//! delay makes a back-off to 0.7 of the window likely: with probability 1 - exp(-g/G) for a gradient of
//! g. Back-offs that do not lower the delay stop after five in a row, since then others fill the queue;
//! and a shadow window keeps what delay took away, so that a loss halves the larger one.
//!
//! The back-off is spread over a round trip, as Linux's window reductions are.
//! Slow start has HyStart of its own: a train of ACKs longer than half the least RTT, or a rise of an
//! eighth.

use std::collections::VecDeque;

use rand_core::RngCore;
use rand_pcg::Pcg32;

use crate::Controller;
use crate::event::{Ack, CaState, Nanos, Start};
use crate::loss_based::{self, Cause, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::reno;
use crate::round_trip::microseconds;
use crate::slow_start::SlowStart;
use crate::window::Window;

pub(crate) const NAME: &str = "cdg";

/// Of the random numbers.
const STREAM: u64 = 0x63_6467;
const LEAST_WINDOW: u64 = 2;
/// Microseconds of falling delay that show a back-off to have worked (Linux).
const EFFECT: i64 = -32;
/// Microseconds: least threshold of both HyStart signals (Linux).
const LEAST_THRESHOLD: u64 = 125;
/// Largest spacing of a train of ACKs, and RTT samples before their least counts (Linux).
const TRAIN_SPACING: Nanos = 3_000_000;
const DELAY_SAMPLES: u64 = 8;
/// Delayed ACKs to discount, at most (Linux).
const MOST_DELAYED: u64 = 5;
/// Variations below this many microseconds of summed gradient are none, with `tolerance`.
const TOLERANCE: i64 = 64;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "window",
            "count",
            8,
            (1.0, 256.0),
            "rounds over which gradients are summed (paper, Linux: 8)",
        ),
        ParamInfo::new(
            "backoff_beta",
            "fraction",
            724.0 / 1024.0,
            (0.01, 1.0),
            "factor of a delay back-off (paper 0.7, Linux 724/1024)",
        ),
        ParamInfo::new(
            "backoff_factor",
            "number",
            42.0,
            (0.0, 1e6),
            "back-off with probability 1 - exp(-factor g/1 s) for summed gradient g (Linux 42: G = 3 ms)",
        ),
        ParamInfo::choice(
            "slow_start_exit",
            &["both", "train", "delay", "none"],
            "both",
            "which of CDG's own HyStart signals end slow start (Linux: both)",
        ),
        ParamInfo::new(
            "ineffectual",
            "count",
            5,
            (0.0, 1e6),
            "back-offs without effect before they stop; 0: no limit (paper, Linux: 5)",
        ),
        ParamInfo::flag("shadow", true, "keep a shadow window (paper, Linux)"),
        ParamInfo::flag(
            "tolerance",
            false,
            "no cut for a loss while the queue is not full (paper's loss tolerance; Linux: off)",
        ),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "backs off at random when the round-trip time rises",
        source: "Hayes and Armitage, IFIP Networking 2011; Linux",
        signals: &["loss", "ecn", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, seed: u64) -> Box<dyn Controller> {
    let exit = params.choice("slow_start_exit");
    let settings = Settings {
        window: params.count("window") as usize,
        beta: params.number("backoff_beta"),
        factor: params.number("backoff_factor"),
        train: matches!(exit, "both" | "train"),
        delay: matches!(exit, "both" | "delay"),
        ineffectual: params.count("ineffectual"),
        shadow: params.flag("shadow"),
        tolerance: params.flag("tolerance"),
    };
    Box::new(LossBased::new(Cdg::new(settings, seed), params))
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    window: usize,
    beta: f64,
    factor: f64,
    train: bool,
    delay: bool,
    ineffectual: u64,
    shadow: bool,
    tolerance: bool,
}

/// Least and largest RTT of a round, microseconds.
#[derive(Clone, Copy, Debug)]
struct Range {
    least: u64,
    most: u64,
}

/// A back-off under way: the window falls in proportion to what is delivered, to `target`.
#[derive(Clone, Copy, Debug)]
struct BackOff {
    from: u64,
    target: u64,
    delivered: u64,
    /// It ends when data beyond this byte is acknowledged.
    end: u64,
}

#[derive(Clone, Debug)]
struct Cdg {
    settings: Settings,
    random: Pcg32,
    /// Gradients of the last rounds: of the least and of the largest RTT.
    gradients: VecDeque<(i64, i64)>,
    sum: (i64, i64),
    rounds: usize,
    previous: Option<Range>,
    present: Option<Range>,
    /// The round ends when data beyond this byte is acknowledged.
    end: u64,
    next: u64,
    /// Single-segment ACKs that may be delayed ones.
    delayed: u64,
    back_off: Option<BackOff>,
    without_effect: u64,
    /// What the window would be without back-offs.
    shadow: u64,
    /// Known not to be full.
    queue_free: bool,
    /// HyStart: least RTT, last ACK and start of the train, RTT samples of the round.
    delay_min: u64,
    last_ack: Option<Nanos>,
    train_start: Nanos,
    samples: u64,
    gradient: i64,
}

impl Cdg {
    fn new(settings: Settings, seed: u64) -> Self {
        Self {
            settings,
            random: Pcg32::new(seed, STREAM),
            gradients: VecDeque::from(vec![(0, 0); settings.window]),
            sum: (0, 0),
            rounds: 0,
            previous: None,
            present: None,
            end: 0,
            next: 0,
            delayed: 0,
            back_off: None,
            without_effect: 0,
            shadow: 0,
            queue_free: false,
            delay_min: u64::MAX,
            last_ack: None,
            train_start: 0,
            samples: 0,
            gradient: 0,
        }
    }

    /// Take an RTT sample, but for those of delayed ACKs (Hayes, CAIA report 100219A).
    fn sample(&mut self, rtt: u64, segments: u64, in_order: bool) {
        if in_order {
            if segments == 1 && self.delayed > 0 {
                if let Some(range) = &mut self.present {
                    range.least = range.least.min(rtt);
                }
                self.delayed -= 1;
                return;
            }
            if segments > 1 && self.delayed < MOST_DELAYED {
                self.delayed += 1;
            }
        }
        let range = self.present.get_or_insert(Range { least: rtt, most: rtt });
        range.least = range.least.min(rtt);
        range.most = range.most.max(rtt);
    }

    fn begin_round(&mut self) {
        self.end = self.next;
        self.previous = self.present.take();
        self.last_ack = None;
        self.samples = 0;
    }

    /// Summed gradient, extrapolated while there are fewer rounds than it covers.
    fn update_gradient(&mut self, previous: Range, present: Range) -> i64 {
        let new = (
            present.least as i64 - previous.least as i64,
            present.most as i64 - previous.most as i64,
        );
        let old = self.gradients.pop_front().unwrap_or_default();
        self.gradients.push_back(new);
        self.sum = (self.sum.0 + new.0 - old.0, self.sum.1 + new.1 - old.1);
        let (least, most) = self.sum;
        let mut gradient = if least > 0 { least } else { most };
        self.rounds = (self.rounds + 1).min(self.settings.window);
        if self.rounds < self.settings.window {
            gradient = gradient * self.settings.window as i64 / self.rounds as i64;
        }
        if least <= EFFECT || most <= EFFECT {
            self.without_effect = 0;
        }
        if self.settings.tolerance {
            let rounded = |v: i64| (v + v.signum() * TOLERANCE / 2) / TOLERANCE;
            let (least, most) = (rounded(least), rounded(most));
            if least > 0 && most <= 0 {
                self.queue_free = false;
            } else if (least > 0 && most > 0) || most < 0 {
                self.queue_free = true;
            }
        }
        gradient
    }

    fn backs_off(&mut self, gradient: i64) -> bool {
        let stays = (-(gradient as f64) * self.settings.factor / 1e6).exp();
        if f64::from(self.random.next_u32()) <= stays * f64::from(u32::MAX) {
            return false;
        }
        if self.settings.ineffectual > 0 {
            self.without_effect += 1;
            return self.without_effect <= self.settings.ineffectual;
        }
        true
    }

    fn start_back_off(&mut self, window: &mut Window) {
        let cwnd = window.segments();
        self.shadow = self.shadow.max(cwnd);
        window.cut((cwnd as f64 * self.settings.beta) as u64);
        let target = window.ssthresh().min(cwnd);
        window.set(cwnd);
        self.back_off = Some(BackOff { from: cwnd, target, delivered: 0, end: self.next });
    }

    /// Proportional rate reduction (RFC 9937) of a window that is fully used.
    fn reduce(&mut self, ack: &Ack, window: &mut Window) {
        let Some(back_off) = &mut self.back_off else { return };
        back_off.delivered += window.to_segments(ack.acked);
        if ack.snd_una > back_off.end || back_off.delivered >= back_off.from {
            window.set(back_off.target.min(window.segments()));
        } else {
            let sent = (back_off.target * back_off.delivered).div_ceil(back_off.from);
            let left = (back_off.from - back_off.delivered + sent).max(back_off.target);
            window.set(left.min(window.segments()));
        }
        if ack.snd_una > back_off.end {
            self.back_off = None;
            self.complete();
        }
    }

    /// A reduction has ended, of whatever cause.
    fn complete(&mut self) {
        self.queue_free = false;
        self.begin_round();
    }

    fn hystart(&mut self, ack: &Ack, window: &mut Window) {
        let least = self.present.map_or(u64::MAX, |range| range.least);
        self.delay_min = self.delay_min.min(least);
        if self.delay_min == u64::MAX {
            return;
        }
        if self.settings.train {
            match self.last_ack {
                Some(last) if ack.cwnd_limited => {
                    if ack.now - last < TRAIN_SPACING {
                        self.last_ack = Some(ack.now);
                        let train = microseconds(ack.now - self.train_start);
                        if train > (self.delay_min / 2).max(LEAST_THRESHOLD) {
                            window.exit_slow_start();
                            return;
                        }
                    }
                }
                _ => {
                    self.last_ack = Some(ack.now);
                    self.train_start = ack.now;
                }
            }
        }
        if self.settings.delay {
            if self.samples < DELAY_SAMPLES {
                self.samples += 1;
            } else {
                let threshold = (self.delay_min + self.delay_min / 8).max(LEAST_THRESHOLD);
                if least != u64::MAX && least > threshold {
                    window.exit_slow_start();
                }
            }
        }
    }
}

impl Law for Cdg {
    const NAME: &'static str = NAME;

    fn start(&mut self, event: &Start, window: &mut Window) {
        self.shadow = window.segments();
        // The handshake belongs to the first round (Linux).
        if let Some(rtt) = event.rtt.map(microseconds).filter(|rtt| *rtt > 0) {
            self.sample(rtt, 1, true);
        }
    }

    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        self.next = ack.snd_nxt;
        if let Some(rtt) = ack.rtt.map(microseconds).filter(|rtt| *rtt > 0) {
            let in_order = ack.state == CaState::Open;
            self.sample(rtt, window.to_segments(ack.acked), in_order);
        }
        self.reduce(ack, window);
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        if self.back_off.is_some() {
            return;
        }
        if window.in_slow_start() {
            self.hystart(ack, window);
        }
        if ack.snd_una > self.end
            && let Some(present) = self.present
        {
            self.gradient =
                self.previous.map_or(0, |previous| self.update_gradient(previous, present));
            self.begin_round();
            if self.gradient > 0 && self.backs_off(self.gradient) {
                self.start_back_off(window);
                return;
            }
        }
        let before = window.segments();
        if ack.cwnd_limited {
            reno::grow(ack, window, slow_start);
            self.shadow += window.segments() - before;
        } else {
            self.shadow = self.shadow.min(before);
        }
    }

    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        window.avoid(window.segments(), acked);
    }

    fn cut(&mut self, cut: &Cut, window: &Window) -> u64 {
        // A loss while the window falls already is part of the same event (Linux).
        if self.back_off.take().is_some() && cut.cause != Cause::Ecn {
            return window.ssthresh().min(cut.base);
        }
        if self.settings.tolerance && self.queue_free {
            return cut.base;
        }
        let half = cut.base / 2;
        if !self.settings.shadow {
            return half;
        }
        self.shadow = (self.shadow / 2).min(window.segments());
        self.shadow.max(half).max(LEAST_WINDOW)
    }

    fn on_recovery_exit(&mut self, _now: Nanos, _window: &mut Window) {
        self.complete();
    }

    fn phase(&self) -> &'static str {
        if self.back_off.is_some() { "backoff" } else { "avoidance" }
    }

    /// Summed gradient in milliseconds, shadow window in segments, back-offs without effect.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("gradient", self.gradient as f64 / 1e3);
        out("shadow_wnd", self.shadow as f64);
        out("without_effect", self.without_effect as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cdg(ineffectual: u64) -> Cdg {
        let settings = Settings {
            window: 8,
            beta: 724.0 / 1024.0,
            factor: 42.0,
            train: true,
            delay: true,
            ineffectual,
            shadow: true,
            tolerance: false,
        };
        Cdg::new(settings, 1)
    }

    /// P = 1 - exp(-g/G), G = 3 ms: a rise of 3 ms a round, 24 ms summed over eight, gives 1 - 1/e.
    #[test]
    fn backs_off_with_the_papers_probability() {
        for (rise, expected) in [(300, 0.095), (3_000, 0.632), (9_000, 0.950)] {
            let mut cdg = cdg(0);
            let count = (0..10_000).filter(|_| cdg.backs_off(8 * rise)).count();
            let share = count as f64 / 1e4;
            assert!((share - expected).abs() < 0.02, "{rise}: {share}");
        }
    }

    /// The sixth back-off in a row without effect is left out; a fall of 32 microseconds clears the count.
    #[test]
    fn stops_after_five_back_offs_without_effect() {
        let mut cdg = cdg(5);
        let certain = 10_000_000;
        let before: Vec<_> = (0..7).map(|_| cdg.backs_off(certain)).collect();
        assert_eq!(before, [true, true, true, true, true, false, false]);
        cdg.update_gradient(Range { least: 1000, most: 1000 }, Range { least: 968, most: 1000 });
        assert!(cdg.backs_off(certain));
    }

    /// The sum over eight rounds, extrapolated until there are eight; the least RTT counts if it rises.
    #[test]
    fn sums_gradients_over_the_window() {
        let mut cdg = cdg(5);
        let mut got = Vec::new();
        for round in 0..10 {
            let range = |r: u64| Range { least: 40_000 + 100 * r, most: 50_000 };
            got.push(cdg.update_gradient(range(round), range(round + 1)));
        }
        assert_eq!(got, [800; 10]);
    }
}
