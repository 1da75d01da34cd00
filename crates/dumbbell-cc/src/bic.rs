//! BIC (Xu, Harfoush, Rhee 2004): binary search for the window of the last loss, then probing beyond.
//!
//! | | `linux = true` | `linux = false` |
//! | --- | --- | --- |
//! | cut | to 819/1024 | to 0.875 |
//! | largest step a round trip | 16 | 32 |
//! | search below the maximum | a quarter of the distance | half of the distance |
//! | last steps of the search | 1/5 segment | at least 0.01 segments |
//! | beyond the maximum | steps of a third of the distance from it | steps of 1, 2, 4, ... |
//! | fast convergence | to 0.9 of the window | to the middle between window and cut |
//! | delayed ACKs | double growth | do not matter |
//! | before the first loss | at least 5 % a round trip | as beyond a maximum |
//! | timeout | forgets the maximum | as a loss |
//! | arithmetic | whole segments, step count refreshed every 1/32 s | fractions |
//!
//! Both are Reno up to a window of 14. Linux is the default, and what the NIST study (SP 500-282) uses.

use crate::Controller;
use crate::event::{Ack, CaState, Nanos};
use crate::loss_based::{self, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;

pub(crate) const NAME: &str = "bic";

const NANOS_PER_MS: Nanos = 1_000_000;
/// With an unchanged window the step count is kept for this many milliseconds (1/32 s).
const REFRESH: u64 = 31;
/// Linux: the distance to the maximum is covered in steps of one in this many.
const SEARCH: u64 = 4;
/// Step count at most, before the first loss: 5 % growth per round trip.
const FIRST_EPOCH: u64 = 20;
/// Unit of the mean number of segments an ACK, and weight of its memory.
const PER_ACK_UNIT: u64 = 16;
/// Denominator of Linux's factor.
const SCALE: u64 = 1024;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "low_window",
            "segments",
            14,
            (0.0, 1e9),
            "Reno up to this window (Xu et al. 2004, Linux, NIST study)",
        ),
        ParamInfo::new(
            "beta",
            "fraction",
            0.0,
            (0.0, 0.99),
            "factor by which a congestion event multiplies the window; 0: Linux 819/1024 (NIST study), paper 0.875",
        ),
        ParamInfo::new(
            "max_increment",
            "segments",
            0,
            (0.0, 1e6),
            "Smax, largest step a round trip; 0: Linux 16 (NIST study), paper 32",
        ),
        ParamInfo::new(
            "smooth_part",
            "count",
            20,
            (1.0, 1e6),
            "Linux: round trips per 4 segments where the search ends and probing begins",
        ),
        ParamInfo::new(
            "min_increment",
            "number",
            0.01,
            (1e-6, 1.0),
            "Smin, least step a round trip of the search, segments (Xu et al. 2004; not in Linux)",
        ),
        ParamInfo::flag(
            "fast_convergence",
            true,
            "lower the maximum further when it has fallen (Xu et al. 2004, Linux)",
        ),
        ParamInfo::flag("linux", true, "as Linux computes it; false: as in Xu et al. 2004"),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "binary search for the window of the last loss, then probing beyond",
        source: "Xu, Harfoush, Rhee 2004, Linux",
        signals: &["loss", "ecn"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    Box::new(LossBased::new(Bic::new(params), params))
}

/// Constants of the algorithm.
#[derive(Clone, Copy, Debug)]
struct Settings {
    low_window: u64,
    beta: f64,
    max_increment: u64,
    smooth_part: u64,
    min_increment: f64,
    fast_convergence: bool,
}

/// Linux's growth: one segment more per `count` acked.
#[derive(Clone, Debug)]
struct Linux {
    /// Window of the last loss (lower with fast convergence); 0: none yet.
    last_max: u64,
    count: u64,
    last_cwnd: u64,
    last_time: u64,
    /// Mean number of segments an ACK acknowledges, in 16ths. The count is divided by it, which doubles
    /// growth with delayed ACKs: all segments acked count as well.
    per_ack: u64,
    /// State before the present ACK.
    state: CaState,
}

impl Default for Linux {
    fn default() -> Self {
        Self {
            last_max: 0,
            count: 0,
            last_cwnd: 0,
            last_time: 0,
            per_ack: 2 * PER_ACK_UNIT,
            state: CaState::Open,
        }
    }
}

impl Linux {
    #[inline]
    fn observe(&mut self, ack: &Ack) {
        if self.state == CaState::Open {
            let acked =
                if ack.advances { ack.acked.div_ceil(u64::from(ack.mss.max(1))) } else { 0 };
            self.per_ack = self.per_ack - self.per_ack / PER_ACK_UNIT + acked;
        }
        self.state = ack.state;
    }

    #[inline]
    fn update(&mut self, settings: &Settings, now: Nanos, cwnd: u64) -> u64 {
        let time = now / NANOS_PER_MS;
        if cwnd != self.last_cwnd || time.saturating_sub(self.last_time) > REFRESH {
            self.last_cwnd = cwnd;
            self.last_time = time;
            self.count = step_count(settings, self.last_max, cwnd);
            if cwnd > settings.low_window {
                self.count = (self.count * PER_ACK_UNIT / self.per_ack.max(1)).max(1);
            }
        }
        self.count
    }

    fn on_congestion(&mut self, settings: &Settings, cwnd: u64) {
        let fallen = settings.fast_convergence && cwnd < self.last_max;
        self.last_max =
            if fallen { (cwnd as f64 * (1.0 + settings.beta) / 2.0) as u64 } else { cwnd };
    }
}

/// Segments to be acked per segment of growth.
fn step_count(settings: &Settings, last_max: u64, cwnd: u64) -> u64 {
    let largest = settings.max_increment;
    let smooth = cwnd * settings.smooth_part / SEARCH;
    if cwnd <= settings.low_window {
        return cwnd;
    }
    let count = if cwnd < last_max {
        let step = (last_max - cwnd) / SEARCH;
        if step > largest {
            cwnd / largest
        } else if step <= 1 {
            smooth
        } else {
            cwnd / step
        }
    } else {
        let beyond = cwnd - last_max;
        if beyond < SEARCH {
            smooth
        } else if beyond < largest * (SEARCH - 1) {
            cwnd * (SEARCH - 1) / beyond
        } else {
            cwnd / largest
        }
    };
    if last_max == 0 { count.min(FIRST_EPOCH) } else { count }.max(1)
}

/// Growth of the paper, in real numbers.
#[derive(Clone, Debug, Default)]
struct Paper {
    /// Window of the last loss (lower with fast convergence), until it is passed.
    max_win: Option<f64>,
    /// Step a round trip of max probing, and the window at which it doubles; 0: not yet begun.
    probe: f64,
    probe_target: f64,
}

impl Paper {
    /// Segments to add per round trip at window `cwnd`.
    #[inline]
    fn step(&mut self, settings: &Settings, cwnd: f64) -> f64 {
        let largest = settings.max_increment as f64;
        if let Some(max_win) = self.max_win {
            if cwnd < max_win {
                // The minimum is the present window: nothing was lost there.
                let distance = (max_win - cwnd) / 2.0;
                return distance.clamp(settings.min_increment.min(largest), largest);
            }
            self.max_win = None;
            self.probe = 0.0;
        }
        if self.probe == 0.0 {
            self.probe = 1.0;
            self.probe_target = cwnd + 1.0;
        } else if self.probe < largest && cwnd >= self.probe_target {
            self.probe *= 2.0;
            self.probe_target = cwnd + self.probe;
        }
        self.probe.min(largest)
    }

    fn on_congestion(&mut self, settings: &Settings, cwnd: f64) {
        let fallen = self.max_win.is_some_and(|previous| cwnd < previous);
        let middle = cwnd * (1.0 + settings.beta) / 2.0;
        self.max_win = Some(if fallen && settings.fast_convergence { middle } else { cwnd });
    }
}

#[derive(Clone, Debug)]
enum Growth {
    Linux(Linux),
    Paper(Paper),
}

#[derive(Clone, Debug)]
struct Bic {
    settings: Settings,
    growth: Growth,
    /// Growth is not Reno's.
    alternate: bool,
}

impl Bic {
    fn new(params: &Params) -> Self {
        let linux = params.flag("linux");
        let beta = match params.number("beta") {
            0.0 => {
                if linux {
                    0.8
                } else {
                    0.875
                }
            }
            beta => beta,
        };
        let max_increment = match params.count("max_increment") {
            0 => {
                if linux {
                    16
                } else {
                    32
                }
            }
            segments => segments,
        };
        Self {
            settings: Settings {
                low_window: params.count("low_window"),
                // Linux has whole 1024ths: 0.8 is 819/1024.
                beta: if linux { (beta * SCALE as f64).floor() / SCALE as f64 } else { beta },
                max_increment,
                smooth_part: params.count("smooth_part"),
                min_increment: params.number("min_increment"),
                fast_convergence: params.flag("fast_convergence"),
            },
            growth: if linux {
                Growth::Linux(Linux::default())
            } else {
                Growth::Paper(Paper::default())
            },
            alternate: false,
        }
    }
}

impl Law for Bic {
    const NAME: &'static str = NAME;

    #[inline]
    fn observe(&mut self, ack: &Ack, _window: &mut Window) {
        if let Growth::Linux(growth) = &mut self.growth {
            growth.observe(ack);
        }
    }

    #[inline]
    fn avoid(&mut self, ack: &Ack, acked: u64, window: &mut Window) {
        let cwnd = window.segments();
        self.alternate = cwnd > self.settings.low_window;
        match &mut self.growth {
            Growth::Linux(growth) => {
                let per_increase = growth.update(&self.settings, ack.now, cwnd);
                window.avoid(per_increase, acked);
            }
            Growth::Paper(_) if !self.alternate => window.avoid(cwnd, acked),
            Growth::Paper(growth) => {
                let exact = window.exact();
                let step = growth.step(&self.settings, exact);
                window.add(step / exact * acked as f64 / window.mss() as f64, 1);
            }
        }
    }

    /// Remember the maximum; it is a matter of cwnd, also where the cut is not.
    fn cut(&mut self, cut: &Cut, window: &Window) -> u64 {
        let low = window.segments() <= self.settings.low_window;
        match &mut self.growth {
            Growth::Linux(growth) => {
                growth.on_congestion(&self.settings, window.segments());
                growth.state = cut.cause.state();
            }
            Growth::Paper(growth) => {
                if !low {
                    growth.on_congestion(&self.settings, window.exact());
                }
            }
        }
        if low { cut.base / 2 } else { (cut.base as f64 * self.settings.beta) as u64 }
    }

    fn on_timeout(&mut self) {
        if let Growth::Linux(growth) = &mut self.growth {
            *growth = Linux::default();
        }
    }

    fn phase(&self) -> &'static str {
        if self.alternate { "alternate" } else { "normal" }
    }

    /// Window of the last loss, segments; 0 where there is none, or the paper's search has passed it.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out(
            "last_max",
            match &self.growth {
                Growth::Linux(growth) => growth.last_max as f64,
                Growth::Paper(growth) => growth.max_win.unwrap_or(0.0),
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bic(given: &serde_json::Value) -> Bic {
        Bic::new(&Params::check(NAME, &info().params, given.as_object().unwrap()).unwrap())
    }

    /// Growth per round trip by the window, last maximum 1000, one segment an ACK.
    #[test]
    fn steps_are_those_of_linux() {
        let settings = bic(&json!({})).settings;
        for (cwnd, expected) in [
            (800, 16.0),
            (900, 16.0),
            (940, 15.0),
            (980, 5.0),
            (996, 0.2),
            (1000, 0.2),
            (1010, 3.33),
            (1030, 10.0),
            (1100, 16.0),
        ] {
            let got = cwnd as f64 / step_count(&settings, 1000, cwnd) as f64;
            assert!((got / expected - 1.0).abs() < 0.02, "{cwnd}: {got}, expected {expected}");
        }
        // Before any loss at least 5 % a round trip.
        assert_eq!(step_count(&settings, 0, 10_000), 20);
        assert_eq!(step_count(&settings, 0, 15), 3);
    }

    /// Linux 819/1024 and 16, paper 0.875 and 32; what is given holds in both.
    #[test]
    fn constants_are_those_of_the_variant() {
        let (linux, paper) = (bic(&json!({})).settings, bic(&json!({"linux": false})).settings);
        assert_eq!((linux.beta, linux.max_increment), (819.0 / 1024.0, 16));
        assert_eq!((paper.beta, paper.max_increment), (0.875, 32));
        let given = bic(&json!({"linux": false, "beta": 0.8, "max_increment": 16})).settings;
        assert_eq!((given.beta, given.max_increment), (0.8, 16));
    }

    /// Fast convergence: Linux to w (1 + 819/1024)/2, the paper to the middle between window and cut.
    #[test]
    fn a_maximum_that_falls_is_lowered_further() {
        let settings = bic(&json!({})).settings;
        let mut linux = Linux::default();
        linux.on_congestion(&settings, 1000);
        assert_eq!(linux.last_max, 1000);
        linux.on_congestion(&settings, 900);
        assert_eq!(linux.last_max, 809);
        linux.on_congestion(&settings, 900);
        assert_eq!(linux.last_max, 900);

        let settings = bic(&json!({"linux": false})).settings;
        let mut paper = Paper::default();
        paper.on_congestion(&settings, 1000.0);
        paper.on_congestion(&settings, 800.0);
        assert_eq!(paper.max_win, Some(750.0));
    }

    /// The paper's search halves the distance within its bounds; beyond, steps double up to Smax.
    #[test]
    fn the_papers_search_and_probing() {
        let settings = bic(&json!({"linux": false})).settings;
        let mut paper = Paper::default();
        paper.on_congestion(&settings, 1000.0);
        for (cwnd, step) in
            [(875.0, 32.0), (940.0, 30.0), (980.0, 10.0), (999.0, 0.5), (999.999, 0.01)]
        {
            assert!((paper.step(&settings, cwnd) - step).abs() < 1e-9, "{cwnd}");
        }
        let probing: Vec<_> = [1000.0, 1001.0, 1003.0, 1007.0, 1015.0, 1031.0, 1063.0]
            .map(|cwnd| paper.step(&settings, cwnd))
            .into();
        assert_eq!(probing, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 32.0]);
    }

    /// A timeout forgets the maximum in Linux.
    #[test]
    fn a_timeout_forgets_the_maximum() {
        let mut bic = bic(&json!({}));
        let Growth::Linux(growth) = &mut bic.growth else { panic!() };
        growth.on_congestion(&bic.settings, 1000);
        bic.on_timeout();
        let Growth::Linux(growth) = &bic.growth else { panic!() };
        assert_eq!((growth.last_max, growth.per_ack), (0, 32));
    }
}
