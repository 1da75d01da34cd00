//! TCP Prague: DCTCP made fit for the Internet (draft-briscoe-iccrg-prague-congestion-control).
//!
//! ECT(1) with accurate feedback; growth only for unmarked data, so that marking never saturates;
//! growth and marks are paced by a virtual round-trip time, so that flows of short and long paths get
//! about the same rate; always paced. Numbers are those of the L4STeam's Linux code where the draft
//! leaves them open. On a connection without accurate ECN, or after ECN failed on the path, it is Reno.
//!
//! A loss in the round of a mark halves what the window was before the mark: the two cuts do not
//! stack. Linux simply halves again.

use crate::Controller;
use crate::event::{Ack, EcnMode, Nanos, Start};
use crate::loss_based::{self, Cause, Cut, Law, LossBased, Pace};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;

pub(crate) const NAME: &str = "prague";

/// Least window, segments (RFC 9331 section 4.3 asks for less; Linux Prague has two).
const MIN_WINDOW: u64 = 2;
/// Weight of a period's marks in alpha (1/16).
const ALPHA_GAIN: f64 = 1.0 / 16.0;
/// Reference round-trip time of the "scalable" mode, and the RTT where it begins to rise.
const SCALABLE_RTT: f64 = 0.016_384;
const SCALABLE_START: f64 = 0.001_536;
/// Scores of the classic-queue detector: pure L4S below the first, clamped at the second.
const CLASSIC_BELOW: f64 = 8.0;
const CLASSIC_MAX: f64 = 17.0;
/// RTT variation and queue delay that score nothing.
const CLASSIC_DEVIATION: f64 = 750e3;
const CLASSIC_DEPTH: f64 = 2e6;
/// Reduction in proportion that classic response amounts to: alpha of 0.625 cuts to about 0.7.
const CLASSIC_ALPHA: f64 = 0.625;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::choice(
            "rtt_scaling",
            &["rate", "additive", "scalable", "none"],
            "rate",
            "virtual RTT: max(srtt, rtt_virtual), srtt + rtt_virtual, the trade-off below 16 ms, or srtt",
        ),
        ParamInfo::new(
            "rtt_virtual",
            "time",
            25_000_000,
            (1.0, 1e12),
            "virtual RTT's target (25 ms)",
        ),
        ParamInfo::new(
            "rtt_transition",
            "count",
            500,
            (0.0, 1e9),
            "rounds after slow start before the virtual RTT counts (Linux 500)",
        ),
        ParamInfo::new(
            "rtt_max",
            "time",
            100_000_000,
            (0.0, 1e12),
            "no scaling above this RTT (Linux 100 ms)",
        ),
        ParamInfo::flag(
            "classic_fallback",
            false,
            "respond as a classic sender where a classic queue is inferred from RTT variation",
        ),
    ];
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "scalable control for L4S: proportional cuts, RTT independence, pacing",
        source: "draft-briscoe-iccrg-prague-congestion-control, L4STeam Linux",
        signals: &["loss", "ce-fraction", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = Prague {
        scaling: match params.choice("rtt_scaling") {
            "additive" => Scaling::Additive,
            "scalable" => Scaling::Scalable,
            "none" => Scaling::None,
            _ => Scaling::Rate,
        },
        rtt_virtual: params.time("rtt_virtual"),
        rtt_transition: params.count("rtt_transition"),
        rtt_max: params.time("rtt_max"),
        classic_fallback: params.flag("classic_fallback"),
        ecn: false,
        alpha: 1.0,
        saw_ce: false,
        period_end: 0,
        acked: 0,
        marked: 0,
        cut_at: None,
        before_cut: None,
        rounds: 0,
        srtt: 0,
        deviation: 0.0,
        classic: 0.0,
    };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scaling {
    Rate,
    Additive,
    Scalable,
    None,
}

#[derive(Clone, Debug)]
struct Prague {
    scaling: Scaling,
    rtt_virtual: Nanos,
    rtt_transition: u64,
    rtt_max: Nanos,
    classic_fallback: bool,
    /// Accurate feedback is there and works.
    ecn: bool,
    /// Smoothed fraction of marked bytes.
    alpha: f64,
    saw_ce: bool,
    /// When the present period of alpha ends.
    period_end: Nanos,
    acked: u64,
    marked: u64,
    /// Time of the last cut for marks.
    cut_at: Option<Nanos>,
    /// Round and window of the last cut for marks, before it.
    before_cut: Option<(u64, f64)>,
    /// Rounds since slow start ended.
    rounds: u64,
    srtt: Nanos,
    /// Mean deviation of the RTT, ns.
    deviation: f64,
    /// Score of the classic-queue detector.
    classic: f64,
}

impl Prague {
    /// The scaling applies: settled, and the RTT is not long already.
    fn scaled(&self) -> bool {
        self.scaling != Scaling::None
            && self.rounds >= self.rtt_transition
            && self.srtt <= self.rtt_max
    }

    /// Time between updates of alpha and between cuts.
    fn virtual_rtt(&self) -> Nanos {
        if !self.scaled() {
            return self.srtt;
        }
        match self.scaling {
            Scaling::Rate => self.srtt.max(self.rtt_virtual),
            Scaling::Additive => self.srtt + self.rtt_virtual,
            Scaling::Scalable | Scaling::None => self.srtt,
        }
    }

    /// Segments of growth per unmarked window of data.
    fn increase(&self) -> f64 {
        if !self.scaled() {
            return 1.0;
        }
        if self.scaling == Scaling::Scalable {
            let rtt = self.srtt as f64 / 1e9;
            let ramp = ((rtt - SCALABLE_START) / SCALABLE_RTT).clamp(0.0, 1.0);
            return rtt / SCALABLE_RTT * (0.125 + ramp);
        }
        let ratio = self.srtt as f64 / self.virtual_rtt().max(1) as f64;
        ratio * ratio
    }

    /// Once a period: the marked fraction into alpha, and the detector's score.
    fn end_period(&mut self, now: Nanos, min_rtt: Nanos) {
        if self.acked > 0 && self.saw_ce {
            let fraction = self.marked as f64 / self.acked as f64;
            self.alpha += (fraction.min(1.0) - self.alpha) * ALPHA_GAIN;
        }
        if self.classic_fallback && self.deviation > 0.0 {
            let depth = self.srtt.saturating_sub(min_rtt) as f64;
            let from_depth = libm::log2((depth / CLASSIC_DEPTH).max(1e-9)).max(0.0);
            let step = 0.5 * libm::log2(self.deviation / CLASSIC_DEVIATION) + 0.5 * from_depth;
            self.classic = (self.classic + step).clamp(0.0, CLASSIC_MAX);
        }
        self.period_end = now + self.virtual_rtt();
        self.acked = 0;
        self.marked = 0;
    }

    /// Alpha that a cut uses: never less than classic if a classic queue is inferred.
    fn effective_alpha(&self) -> f64 {
        let classic = (self.classic - CLASSIC_BELOW).clamp(0.0, 1.0);
        self.alpha.max(CLASSIC_ALPHA * classic)
    }

    /// The first mark counts at once, with the alpha there is; then once per virtual RTT.
    fn on_marks(&mut self, ack: &Ack, window: &mut Window) {
        self.saw_ce = true;
        if self.cut_at.is_some_and(|at| ack.now < at + self.virtual_rtt().max(ack.srtt))
            || loss_based::in_reduction(ack.state)
        {
            return;
        }
        self.cut_at = Some(ack.now);
        self.before_cut = Some((ack.round, window.exact()));
        window.add(-window.exact() * self.effective_alpha() / 2.0, MIN_WINDOW);
        window.set_ssthresh(window.segments());
    }
}

impl Law for Prague {
    const NAME: &'static str = NAME;
    const ECN: EcnMode = EcnMode::L4s;

    fn responds_to_marks(&self) -> bool {
        true
    }

    fn start(&mut self, event: &Start, _window: &mut Window) {
        self.ecn = matches!(event.ecn, EcnMode::L4s | EcnMode::Accurate);
        self.srtt = event.rtt.unwrap_or(0);
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        self.srtt = ack.srtt;
        if let Some(rtt) = ack.rtt {
            let error = rtt.abs_diff(ack.srtt) as f64;
            self.deviation += (error - self.deviation) / 4.0;
        }
        if ack.ecn_failed {
            self.ecn = false;
        }
        if ack.round_start {
            self.rounds = if window.in_slow_start() { 0 } else { self.rounds + 1 };
            if self.before_cut.is_some_and(|(round, _)| ack.round > round + 1) {
                self.before_cut = None;
            }
        }
        if !self.ecn {
            return;
        }
        self.acked += ack.acked;
        self.marked += ack.ce;
        if ack.ce > 0 {
            self.on_marks(ack, window);
        }
        if ack.now >= self.period_end {
            self.end_period(ack.now, ack.min_rtt);
        }
    }

    /// Growth counts unmarked data only.
    #[inline]
    fn avoid(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        let unmarked = if self.ecn { acked.saturating_sub(ack.ce) } else { acked };
        let segments = unmarked as f64 / window.mss() as f64;
        window.add(segments / window.exact() * self.increase(), MIN_WINDOW);
    }

    fn cut(&mut self, cut: &Cut, window: &Window) -> u64 {
        let base = match self.before_cut {
            Some((_, before)) if cut.cause == Cause::Loss => before.max(window.exact()),
            _ => cut.base as f64,
        };
        self.before_cut = None;
        ((base / 2.0) as u64).min(cut.base)
    }

    /// Twice the rate while the window may double at least once more (Linux).
    fn pace(&self, window: &Window) -> Pace {
        if self.srtt == 0 {
            return Pace::Frame;
        }
        let gain = if window.segments() < window.ssthresh() / 2 { 2.0 } else { 1.0 };
        Pace::Rate(gain * window.exact() * window.mss() as f64 * 1e9 / self.srtt as f64)
    }

    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("alpha", self.alpha);
        out("virtual_rtt", self.virtual_rtt() as f64 / 1e9);
        out("classic_score", self.classic);
    }
}
