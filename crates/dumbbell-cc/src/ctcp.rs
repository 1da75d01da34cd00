//! Compound TCP (Tan, Song, Zhang, Sridharan; draft-sridharan-tcpm-ctcp): Reno's window plus one that
//! grows fast while no queue is seen and gives way when there is one.
//!
//! The window sent is the sum of both. The delay window follows the least round-trip time of each
//! round with at least three samples; its growth is spread over the next round, so that it does not
//! leave in one burst, and ends with a congestion event. Below the trigger there is no delay window.
//!
//! There is no Linux version to follow: the paper's rules are the only ones. The trigger is the 38 of
//! the paper's implementation; the NIST study (SP 500-282) has 41, from where the delay window grows
//! by a segment a round trip or more.

use crate::Controller;
use crate::event::{Ack, Nanos};
use crate::loss_based::{self, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;

pub(crate) const NAME: &str = "ctcp";

/// Fewer RTT samples in a round say nothing.
const MIN_SAMPLES: u32 = 3;
/// Of the backlog that Reno's window leaves at a loss, what gamma aims at.
const GAMMA_SHARE: f64 = 0.75;
/// Least window when the delay window gives way, segments.
const FLOOR: u64 = 2;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "low_window",
            "segments",
            38,
            (0.0, 1e9),
            "Reno below this window (Tan et al. 2006; NIST study: 41)",
        ),
        ParamInfo::new(
            "alpha",
            "number",
            0.125,
            (0.0, 1e3),
            "the delay window grows by alpha win^k - 1 a round trip (draft-sridharan-tcpm-ctcp)",
        ),
        ParamInfo::new(
            "k",
            "number",
            0.75,
            (0.0, 1.0),
            "exponent of that growth (draft-sridharan-tcpm-ctcp; 0.8 is HighSpeed TCP's slope)",
        ),
        ParamInfo::new(
            "beta",
            "fraction",
            0.5,
            (0.01, 0.99),
            "share of the window that a congestion event cuts (draft-sridharan-tcpm-ctcp)",
        ),
        ParamInfo::new(
            "gamma",
            "number",
            30.0,
            (0.0, 1e6),
            "backlog from which the delay window gives way, segments (draft-sridharan-tcpm-ctcp)",
        ),
        ParamInfo::new(
            "zeta",
            "number",
            1.0,
            (0.0, 1e3),
            "segments that the delay window gives way by per segment of backlog (Tan et al. 2006)",
        ),
        ParamInfo::flag(
            "gamma_tuning",
            true,
            "gamma follows three quarters of the backlog of Reno's window before losses",
        ),
        ParamInfo::new(
            "gamma_weight",
            "fraction",
            0.25,
            (0.0, 1.0),
            "weight of a new sample in the tuning of gamma (lambda)",
        ),
        ParamInfo::new(
            "gamma_low",
            "number",
            5.0,
            (0.0, 1e6),
            "least gamma of the tuning, segments",
        ),
        ParamInfo::new(
            "gamma_high",
            "number",
            30.0,
            (0.0, 1e6),
            "largest gamma of the tuning, segments",
        ),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "Reno's window plus a delay window that gives way to queues (Compound TCP)",
        source: "Tan et al. 2006, draft-sridharan-tcpm-ctcp-02",
        signals: &["loss", "ecn", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    Box::new(LossBased::new(Ctcp::new(params), params))
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    low_window: u64,
    alpha: f64,
    k: f64,
    beta: f64,
    zeta: f64,
    tuning: Option<Tuning>,
}

impl Settings {
    /// What the delay window grows by in a round without a queue.
    fn growth(&self, window: f64) -> f64 {
        (self.alpha * libm::pow(window, self.k) - 1.0).max(0.0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Tuning {
    weight: f64,
    low: f64,
    high: f64,
}

impl Tuning {
    fn next_gamma(&self, gamma: f64, backlog: f64) -> f64 {
        let tuned = gamma + self.weight * (GAMMA_SHARE * backlog - gamma);
        tuned.max(self.low).min(self.high)
    }
}

#[derive(Clone, Debug)]
struct Ctcp {
    settings: Settings,
    gamma: f64,
    /// Delay window, part of the window sent.
    dwnd: f64,
    /// What the delay window grows by in the present round.
    growth: f64,
    /// 0 before the first sample.
    base_rtt: Nanos,
    /// Least RTT of the round, and how many samples it has.
    least_rtt: Nanos,
    samples: u32,
    /// The round ends when all before this byte is acknowledged; `None`: a new one begins.
    round_end: Option<u64>,
    /// Backlog in the last round, and that of Reno's window, taken by the next loss.
    backlog: f64,
    reno_backlog: Option<f64>,
    /// Growth is not Reno's.
    alternate: bool,
}

impl Ctcp {
    fn new(params: &Params) -> Self {
        Self {
            settings: Settings {
                low_window: params.count("low_window"),
                alpha: params.number("alpha"),
                k: params.number("k"),
                beta: params.number("beta"),
                zeta: params.number("zeta"),
                tuning: params.flag("gamma_tuning").then(|| Tuning {
                    weight: params.number("gamma_weight"),
                    low: params.number("gamma_low"),
                    high: params.number("gamma_high"),
                }),
            },
            gamma: params.number("gamma"),
            dwnd: 0.0,
            growth: 0.0,
            base_rtt: 0,
            least_rtt: Nanos::MAX,
            samples: 0,
            round_end: None,
            backlog: 0.0,
            reno_backlog: None,
            alternate: false,
        }
    }

    fn end_round(&mut self, window: &mut Window) {
        self.growth = 0.0;
        if self.samples >= MIN_SAMPLES {
            let queued = 1.0 - self.base_rtt as f64 / self.least_rtt as f64;
            let win = window.exact();
            self.backlog = win * queued;
            self.reno_backlog = Some((win - self.dwnd) * queued);
            if self.backlog < self.gamma {
                self.growth = self.settings.growth(win);
            } else {
                let less = (self.settings.zeta * self.backlog).min(self.dwnd);
                self.dwnd -= less;
                window.shrink(less, FLOOR);
            }
        }
    }

    fn begin_round(&mut self, ack: &Ack) {
        self.samples = 0;
        self.least_rtt = Nanos::MAX;
        self.round_end = Some(ack.snd_nxt);
    }
}

impl Law for Ctcp {
    const NAME: &'static str = NAME;

    #[inline]
    fn observe(&mut self, ack: &Ack, _window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.max(1);
            self.base_rtt = if self.base_rtt == 0 { rtt } else { self.base_rtt.min(rtt) };
            self.least_rtt = self.least_rtt.min(rtt);
            self.samples = self.samples.saturating_add(1);
        }
    }

    #[inline]
    fn avoid(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        let cwnd = window.segments();
        self.alternate = cwnd >= self.settings.low_window;
        match self.round_end {
            None => self.begin_round(ack),
            Some(end) if ack.snd_una >= end => {
                if self.alternate {
                    self.end_round(window);
                }
                self.begin_round(ack);
            }
            Some(_) => {}
        }
        if !self.alternate {
            (self.dwnd, self.growth) = (0.0, 0.0);
            window.avoid(cwnd, acked);
            return;
        }
        let exact = window.exact();
        let share = acked as f64 / window.mss() as f64 / exact;
        window.add((1.0 + self.growth) * share, 1);
        self.dwnd += self.growth * share;
    }

    /// Reno's window is halved and the sum cut by beta; the rest is the delay window's.
    fn cut(&mut self, cut: &Cut, window: &Window) -> u64 {
        if let (Some(tuning), Some(backlog)) = (self.settings.tuning, self.reno_backlog.take()) {
            self.gamma = tuning.next_gamma(self.gamma, backlog);
        }
        let reno = cut.base as f64 * (window.exact() - self.dwnd) / window.exact() / 2.0;
        let sum = ((cut.base as f64 * (1.0 - self.settings.beta)) as u64).max(reno as u64);
        self.dwnd = (sum as f64 - reno).max(0.0);
        if self.dwnd < 1.0 {
            self.dwnd = 0.0;
        }
        self.growth = 0.0;
        self.round_end = None;
        sum
    }

    fn on_timeout(&mut self) {
        self.dwnd = 0.0;
        self.round_end = None;
    }

    fn phase(&self) -> &'static str {
        if self.alternate { "alternate" } else { "normal" }
    }

    /// Delay window, backlog and gamma in segments, base RTT in ms.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("dwnd", self.dwnd);
        out("backlog", self.backlog);
        out("gamma", self.gamma);
        out("base_rtt", self.base_rtt as f64 / 1e6);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn ctcp() -> Ctcp {
        Ctcp::new(&Params::check(NAME, &info().params, &Map::new()).unwrap())
    }

    /// alpha win^k - 1 a round trip.
    #[test]
    fn the_delay_window_grows_with_the_window() {
        let settings = ctcp().settings;
        for (win, expected) in
            [(16.0, 0.0), (38.0, 0.91), (41.0, 1.03), (100.0, 2.95), (1000.0, 21.2), (1e4, 124.0)]
        {
            let got = settings.growth(win);
            assert!((got - expected).abs() <= 0.01 * expected.max(0.5), "{win}: {got}");
        }
        // Where the study's trigger comes from.
        assert!(settings.growth(40.0) < 1.0 && settings.growth(41.0) >= 1.0);
    }

    /// A quarter of the way to three quarters of the backlog, within 5 and 30; each sample once.
    #[test]
    fn gamma_follows_the_backlog_before_losses() {
        let tuning = ctcp().settings.tuning.unwrap();
        assert_eq!(tuning.next_gamma(30.0, 8.0), 24.0);
        assert_eq!(tuning.next_gamma(6.0, 0.0), 5.0);
        assert_eq!(tuning.next_gamma(28.0, 400.0), 30.0);
        let cut = Cut { now: 0, cause: loss_based::Cause::Loss, base: 100 };
        let mut ctcp = ctcp();
        ctcp.reno_backlog = Some(8.0);
        ctcp.cut(&cut, &Window::new());
        assert_eq!(ctcp.gamma, 24.0);
        ctcp.cut(&cut, &Window::new());
        assert_eq!(ctcp.gamma, 24.0);
    }

    /// Backlog at or above gamma: the delay window gives way by it, and not below nothing.
    #[test]
    fn the_delay_window_gives_way_to_a_queue() {
        let mut window = Window::new();
        window.set(1000);
        let mut ctcp = ctcp();
        (ctcp.base_rtt, ctcp.least_rtt, ctcp.samples, ctcp.dwnd) = (100, 110, 3, 150.0);
        ctcp.end_round(&mut window);
        // 1000 (1 - 100/110) = 90.9
        assert!((ctcp.dwnd - 59.09).abs() < 0.01 && (window.exact() - 909.09).abs() < 0.01);
        ctcp.end_round(&mut window);
        assert_eq!(ctcp.dwnd, 0.0);
        assert!((window.exact() - 850.0).abs() < 0.01);
        // Two samples say nothing.
        (ctcp.least_rtt, ctcp.samples) = (100, 2);
        ctcp.end_round(&mut window);
        assert_eq!(ctcp.growth, 0.0);
        ctcp.samples = 3;
        ctcp.end_round(&mut window);
        assert!((ctcp.growth - (0.125 * 850.0_f64.powf(0.75) - 1.0)).abs() < 1e-9);
    }

    /// A loss halves the sum, whatever its parts.
    #[test]
    fn a_cut_halves_the_sum() {
        let cut = Cut { now: 0, cause: loss_based::Cause::Loss, base: 1000 };
        let mut window = Window::new();
        window.set(1000);
        for dwnd in [0.0, 100.0, 900.0] {
            let mut ctcp = Ctcp { dwnd, ..ctcp() };
            assert_eq!(ctcp.cut(&cut, &window), 500);
            assert_eq!(ctcp.dwnd, dwnd / 2.0);
        }
    }
}
