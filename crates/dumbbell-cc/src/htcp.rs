//! H-TCP (Leith and Shorten 2004): growth by the time since the last congestion event, cuts by how
//! much of the round-trip time is queue.
//!
//! A cut leaves minRTT/maxRTT of the window, which just empties the queue, unless the achieved
//! throughput has changed by more than a fifth; then half.
//!
//! | | `linux = true` | `linux = false` |
//! | --- | --- | --- |
//! | arithmetic | whole segments, 1/128, milliseconds | real numbers |
//! | alpha | refreshed when the window grows | at each ACK |
//! | counting | the ACK that makes the window grow does not count | all count |
//! | first event, and first after a change of throughput | half | half, if throughput changed |
//! | least RTT up to 10 ms | half | as any other |
//! | idle time | counts | does not count |
//!
//! Linux is the default. The trigger of the NIST study (SP 500-282) is `delta_low`: one second without loss.

use crate::Controller;
use crate::event::{Ack, CaState, Nanos, Start};
use crate::loss_based::{self, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;

pub(crate) const NAME: &str = "htcp";

const NANOS_PER_MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;
/// A sample raises the largest RTT by at most this much (Linux).
const MAX_RTT_STEP: Nanos = 20 * NANOS_PER_MS;
/// Up to this least RTT Linux halves: its clock is too coarse for the ratio.
const SHORT_RTT: Nanos = 10 * NANOS_PER_MS;
/// Share of the distance to the least RTT that the largest keeps at a congestion event (Linux).
const MAX_RTT_MEMORY: u64 = 95;
/// RTT at which scaling changes nothing.
const REFERENCE_RTT: f64 = 0.1;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "delta_low",
            "time",
            SECOND,
            (0.0, 1e12),
            "time since the last congestion event up to which growth is Reno's (Leith and Shorten 2004, NIST study)",
        ),
        ParamInfo::new(
            "beta_min",
            "fraction",
            0.5,
            (0.01, 0.99),
            "least factor by which a congestion event multiplies the window",
        ),
        ParamInfo::new(
            "beta_max",
            "fraction",
            0.8,
            (0.01, 0.99),
            "largest factor by which a congestion event multiplies the window",
        ),
        ParamInfo::flag(
            "adaptive_backoff",
            true,
            "cut to minRTT/maxRTT within beta_min and beta_max; false: to beta_min (FreeBSD)",
        ),
        ParamInfo::flag(
            "bandwidth_switch",
            true,
            "cut to beta_min if the achieved throughput has changed by more than a fifth",
        ),
        ParamInfo::flag(
            "rtt_scaling",
            true,
            "multiply growth by minRTT/100 ms, within 0.1 and 2; false: not (FreeBSD)",
        ),
        ParamInfo::flag("linux", true, "as Linux computes it; false: in real numbers"),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "growth by the time since the last congestion event, cuts by the share of queue",
        source: "Leith and Shorten 2004, draft-leith-tcp-htcp-06, Linux",
        signals: &["loss", "ecn", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    Box::new(LossBased::new(Htcp::new(params), params))
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    delta_low: Nanos,
    beta_min: f64,
    beta_max: f64,
    adaptive_backoff: bool,
    bandwidth_switch: bool,
    rtt_scaling: bool,
    linux: bool,
}

/// Largest throughput since the last congestion event, segments per second.
#[derive(Clone, Debug, Default)]
struct Throughput {
    /// Bytes acked since `since`.
    acked: u64,
    since: Nanos,
    smoothed: f64,
    largest: f64,
    /// `largest` at the last event.
    previous: f64,
}

#[derive(Clone, Debug)]
struct Htcp {
    settings: Settings,
    /// Segments added a round trip, and factor of the next cut.
    alpha: f64,
    beta: f64,
    /// 0 before the first sample.
    min_rtt: Nanos,
    max_rtt: Nanos,
    throughput: Throughput,
    /// Linux: one congestion event with steady throughput was seen.
    steady: bool,
    /// End of the last congestion event.
    epoch: Nanos,
    /// An event has begun and the sender is not open again.
    in_event: bool,
    /// State before the present ACK.
    state: CaState,
    /// Linux: segments counted towards the next increase.
    count: u64,
    /// Linux: segments that the present ACK counts.
    acked: u64,
    /// Growth is not Reno's.
    alternate: bool,
}

/// Growth a round trip `age` after a congestion event, before scaling, segments.
fn factor(settings: &Settings, age: Nanos) -> f64 {
    let Some(past) = age.checked_sub(settings.delta_low).filter(|past| *past > 0) else {
        return 1.0;
    };
    if settings.linux {
        let ms = past / NANOS_PER_MS;
        (1 + (10 * ms + (ms / 2).saturating_mul(ms / 2) / 1000) / 1000) as f64
    } else {
        let seconds = past as f64 / 1e9;
        1.0 + 10.0 * seconds + 0.25 * seconds * seconds
    }
}

impl Htcp {
    fn new(params: &Params) -> Self {
        let settings = Settings {
            delta_low: params.time("delta_low"),
            beta_min: params.number("beta_min"),
            beta_max: params.number("beta_max").max(params.number("beta_min")),
            adaptive_backoff: params.flag("adaptive_backoff"),
            bandwidth_switch: params.flag("bandwidth_switch"),
            rtt_scaling: params.flag("rtt_scaling"),
            linux: params.flag("linux"),
        };
        Self {
            settings,
            alpha: 1.0,
            beta: in_128ths(&settings, settings.beta_min),
            min_rtt: 0,
            max_rtt: 0,
            throughput: Throughput::default(),
            steady: false,
            epoch: 0,
            in_event: false,
            state: CaState::Open,
            count: 0,
            acked: 1,
            alternate: false,
        }
    }

    fn measure_rtt(&mut self, rtt: Nanos) {
        let rtt = if self.settings.linux {
            rtt.div_ceil(NANOS_PER_MS).saturating_mul(NANOS_PER_MS)
        } else {
            rtt.max(1)
        };
        if self.min_rtt == 0 || rtt < self.min_rtt {
            self.min_rtt = rtt;
        }
        if self.state == CaState::Open {
            self.max_rtt = self.max_rtt.max(self.min_rtt);
            if rtt > self.max_rtt && rtt <= self.max_rtt.saturating_add(MAX_RTT_STEP) {
                self.max_rtt = rtt;
            }
        }
    }

    /// One measurement a window and least RTT; those just after a cut start again.
    fn measure_throughput(&mut self, ack: &Ack, cwnd: u64) {
        let measured = &mut self.throughput;
        if !matches!(self.state, CaState::Open | CaState::Disorder) {
            measured.acked = 0;
            measured.since = ack.now;
            return;
        }
        measured.acked += ack.acked;
        let elapsed = ack.now.saturating_sub(measured.since);
        let window = cwnd.saturating_sub((self.alpha as u64).max(1)) * u64::from(ack.mss);
        if measured.acked < window || elapsed < self.min_rtt || self.min_rtt == 0 || elapsed == 0 {
            return;
        }
        let rate = measured.acked as f64 / f64::from(ack.mss) * 1e9 / elapsed as f64;
        if ack.now.saturating_sub(self.epoch) / self.min_rtt <= 3 {
            measured.smoothed = rate;
            measured.largest = rate;
        } else {
            measured.smoothed = 0.75 * measured.smoothed + 0.25 * rate;
            measured.largest = measured.largest.max(measured.smoothed);
        }
        measured.acked = 0;
        measured.since = ack.now;
    }

    fn update_beta(&mut self) {
        let settings = self.settings;
        let measured = &mut self.throughput;
        let (largest, previous) = (measured.largest, measured.previous);
        measured.previous = largest;
        let changed = settings.bandwidth_switch && (largest - previous).abs() > 0.2 * previous;
        if changed {
            self.beta = in_128ths(&settings, settings.beta_min);
            self.steady = false;
            return;
        }
        let measurable = self.max_rtt > 0
            && self.min_rtt > 0
            && (!settings.linux || self.steady && self.min_rtt > SHORT_RTT);
        self.steady |= !measurable;
        let ratio = if settings.adaptive_backoff && measurable {
            self.min_rtt as f64 / self.max_rtt as f64
        } else {
            0.0
        };
        self.beta = in_128ths(&settings, ratio.clamp(settings.beta_min, settings.beta_max));
    }

    fn update_alpha(&mut self, now: Nanos) {
        let age = now.saturating_sub(self.epoch);
        self.alternate = age > self.settings.delta_low;
        let mut factor = factor(&self.settings, age);
        if self.settings.rtt_scaling && self.min_rtt > 0 {
            let scale = REFERENCE_RTT * 1e9 / self.min_rtt as f64;
            if self.settings.linux {
                // In eighths, between a half and ten; at least one.
                let eighths = ((8.0 * scale) as u64).clamp(4, 80);
                factor = ((factor as u64 * 8 / eighths).max(1)) as f64;
            } else {
                factor /= scale.clamp(0.5, 10.0);
            }
        }
        self.alpha = 2.0 * factor * (1.0 - self.beta);
        if !self.settings.linux {
            self.alpha = self.alpha.max(1.0);
        }
    }
}

/// Linux has factors in 128ths, rounded down.
fn in_128ths(settings: &Settings, beta: f64) -> f64 {
    if settings.linux { (beta * 128.0).floor() / 128.0 } else { beta }
}

impl Law for Htcp {
    const NAME: &'static str = NAME;

    fn start(&mut self, event: &Start, _window: &mut Window) {
        self.epoch = event.now;
        self.throughput.since = event.now;
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        if self.state == CaState::Open {
            self.acked = ack.acked.div_ceil(window.mss());
        }
        if let Some(rtt) = ack.rtt {
            self.measure_rtt(rtt);
        }
        self.measure_throughput(ack, window.segments());
        if ack.state == CaState::Open && self.in_event {
            self.epoch = ack.now;
            self.in_event = false;
        }
        self.state = ack.state;
    }

    /// Linux drops what slow start leaves of an ACK.
    fn spills_over(&self) -> bool {
        !self.settings.linux
    }

    #[inline]
    fn avoid(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        let cwnd = window.segments();
        if self.settings.linux {
            if (self.count as f64 * self.alpha) as u64 >= cwnd {
                window.grow(1);
                self.count = 0;
                self.update_alpha(ack.now);
            } else {
                self.count = self.count.saturating_add(self.acked);
            }
            self.acked = 1;
            return;
        }
        self.update_alpha(ack.now);
        if self.alpha == 1.0 {
            window.avoid(cwnd, acked);
        } else {
            window.add(self.alpha / window.exact() * acked as f64 / window.mss() as f64, 1);
        }
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        self.update_beta();
        self.update_alpha(cut.now);
        let mut memory = self.max_rtt.saturating_sub(self.min_rtt) / 100 * MAX_RTT_MEMORY;
        if self.settings.linux {
            memory -= memory % NANOS_PER_MS;
        }
        self.max_rtt = self.max_rtt.min(self.min_rtt + memory);
        self.alternate = false;
        self.epoch = cut.now;
        self.in_event = true;
        self.count = 0;
        self.state = cut.cause.state();
        (cut.base as f64 * self.beta) as u64
    }

    fn on_idle(&mut self, now: Nanos, idle: Nanos) {
        if !self.settings.linux {
            self.epoch = self.epoch.saturating_add(idle).min(now);
        }
    }

    fn phase(&self) -> &'static str {
        if self.alternate { "alternate" } else { "normal" }
    }

    /// Segments added a round trip; factor of the last cut; round-trip times in ms.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("alpha", self.alpha);
        out("beta", self.beta);
        out("min_rtt", self.min_rtt as f64 / 1e6);
        out("max_rtt", self.max_rtt as f64 / 1e6);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const MS: Nanos = NANOS_PER_MS;

    fn htcp(given: &Value) -> Htcp {
        Htcp::new(&Params::check(NAME, &info().params, given.as_object().unwrap()).unwrap())
    }

    fn cut() -> Cut {
        Cut { now: 0, cause: crate::loss_based::Cause::Loss, base: 1000 }
    }

    /// Growth a round trip by the time since the last event, in seconds.
    #[test]
    fn growth_follows_the_time_without_loss() {
        let (real, linux) = (htcp(&json!({"linux": false})), htcp(&json!({})));
        for (seconds, expected) in [
            (0.5, 1.0),
            (1.0, 1.0),
            (1.5, 6.0625),
            (2.0, 11.25),
            (5.0, 45.0),
            (10.0, 111.25),
            (20.0, 281.25),
            (60.0, 1461.25),
        ] {
            let age = (seconds * 1e9) as Nanos;
            assert!((factor(&real.settings, age) - expected).abs() < 1e-9, "{seconds} s");
            // Linux rounds down to whole segments.
            assert_eq!(factor(&linux.settings, age), expected.floor(), "{seconds} s");
        }
    }

    /// alpha = 2 (1 - beta) factor: all of it at beta = 0.5, 0.4 of it at 0.8.
    #[test]
    fn alpha_makes_up_for_the_smaller_cut() {
        for linux in [false, true] {
            let mut htcp = htcp(&json!({"linux": linux, "rtt_scaling": false}));
            htcp.update_alpha(10 * SECOND);
            let unscaled = if linux { 111.0 } else { 111.25 };
            assert_eq!(htcp.alpha, unscaled);
            htcp.beta = 0.8;
            htcp.update_alpha(10 * SECOND);
            assert!((htcp.alpha - 0.4 * unscaled).abs() < 1e-9);
        }
    }

    /// Times minRTT/100 ms within 0.1 and 2.
    #[test]
    fn growth_is_scaled_by_the_least_rtt() {
        for (rtt, scale) in [(1, 0.1), (10, 0.1), (50, 0.5), (100, 1.0), (200, 2.0), (500, 2.0)] {
            for linux in [false, true] {
                let mut htcp = htcp(&json!({"linux": linux}));
                htcp.min_rtt = rtt * MS;
                htcp.update_alpha(20 * SECOND);
                let expected = 281.25 * scale;
                let got = htcp.alpha;
                let tolerance = if linux { 1.0 } else { 1e-6 };
                assert!((got - expected).abs() < tolerance, "{rtt} ms: {got}, expected {expected}");
            }
        }
    }

    /// The cut empties the queue: minRTT/maxRTT within 0.5 and 0.8, in 128ths in Linux (64 to 102).
    #[test]
    fn cuts_leave_the_share_that_is_not_queue() {
        for (min, max, expected) in
            [(100, 100, 0.8), (100, 125, 0.8), (100, 150, 2.0 / 3.0), (100, 300, 0.5)]
        {
            let mut real = htcp(&json!({"linux": false}));
            (real.min_rtt, real.max_rtt) = (min * MS, max * MS);
            real.cut(&cut(), &Window::new());
            assert!((real.beta - expected).abs() < 1e-9, "{max} ms: {}", real.beta);

            // Linux halves at the first event.
            let mut linux = htcp(&json!({}));
            (linux.min_rtt, linux.max_rtt) = (min * MS, max * MS);
            assert_eq!(linux.cut(&cut(), &Window::new()), 500);
            linux.max_rtt = max * MS;
            linux.cut(&cut(), &Window::new());
            assert_eq!(linux.beta, (expected * 128.0_f64).floor() / 128.0, "{max} ms");
        }
        // Too short for Linux's clock.
        let mut linux = htcp(&json!({}));
        for _ in 0..2 {
            (linux.min_rtt, linux.max_rtt) = (10 * MS, 12 * MS);
            assert_eq!(linux.cut(&cut(), &Window::new()), 500);
        }
    }

    /// Half if the achieved throughput has changed by more than a fifth.
    #[test]
    fn a_change_of_throughput_halves() {
        for (previous, largest, halved) in
            [(100.0, 119.0, false), (100.0, 121.0, true), (100.0, 81.0, false), (100.0, 79.0, true)]
        {
            let mut htcp = htcp(&json!({"linux": false}));
            (htcp.min_rtt, htcp.max_rtt) = (100 * MS, 125 * MS);
            htcp.throughput.previous = previous;
            htcp.throughput.largest = largest;
            htcp.cut(&cut(), &Window::new());
            assert_eq!(htcp.beta == 0.5, halved, "{largest}");
            assert_eq!(htcp.throughput.previous, largest);
        }
    }

    /// The largest RTT keeps 95 % of its distance at an event; a sample raises it by 20 ms at most.
    #[test]
    fn the_largest_rtt_fades_and_is_not_fooled() {
        let mut htcp = htcp(&json!({}));
        (htcp.min_rtt, htcp.max_rtt) = (100 * MS, 200 * MS);
        htcp.cut(&cut(), &Window::new());
        assert_eq!(htcp.max_rtt, 195 * MS);
        htcp.state = CaState::Open;
        htcp.measure_rtt(215 * MS);
        assert_eq!(htcp.max_rtt, 215 * MS);
        htcp.measure_rtt(236 * MS);
        assert_eq!(htcp.max_rtt, 215 * MS);
        htcp.state = CaState::Recovery;
        htcp.measure_rtt(220 * MS);
        assert_eq!(htcp.max_rtt, 215 * MS);
    }
}
