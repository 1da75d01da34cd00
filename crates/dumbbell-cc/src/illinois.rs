//! TCP-Illinois (Liu, Basar and Srikant, 2006): loss says when to cut, delay says how fast to grow and
//! how far to cut.
//!
//! Once a round trip the mean queueing delay da, against the largest ever seen dm, gives alpha (from
//! 10 with an empty queue down to 0.3) and beta (from 1/8 up to 1/2).
//!
//! `linux = true` counts whole segments, alpha in 128ths and beta in 64ths, and delay in microseconds;
//! `linux = false` uses real numbers.

use crate::Controller;
use crate::event::{Ack, Start};
use crate::loss_based::{self, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::round_trip::microseconds;
use crate::slow_start::SlowStart;
use crate::window::Window;

pub(crate) const NAME: &str = "illinois";

const ALPHA_SCALE: f64 = 128.0;
const BETA_SCALE: f64 = 64.0;
/// Reno's alpha and beta, which hold in small windows and after a timeout.
const RENO: (f64, f64) = (1.0, 0.5);
const LEAST_WINDOW: u64 = 2;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "alpha_min",
            "number",
            0.3,
            (0.001, 1000.0),
            "segments added per round trip with a full queue (paper 0.1, Linux 0.3)",
        ),
        ParamInfo::new(
            "alpha_max",
            "number",
            10.0,
            (0.001, 1000.0),
            "segments added per round trip with an empty queue (paper, Linux)",
        ),
        ParamInfo::new(
            "beta_min",
            "fraction",
            0.125,
            (0.01, 0.99),
            "part of the window cut with an empty queue (paper, Linux)",
        ),
        ParamInfo::new(
            "beta_max",
            "fraction",
            0.5,
            (0.01, 0.99),
            "part of the window cut with a full queue (paper, Linux)",
        ),
        ParamInfo::new(
            "eta1",
            "fraction",
            0.01,
            (0.0, 1.0),
            "alpha is largest up to this part of the largest queueing delay (paper, Linux)",
        ),
        ParamInfo::new(
            "eta2",
            "fraction",
            0.1,
            (0.0, 1.0),
            "beta is least up to this part of the largest queueing delay (paper, Linux)",
        ),
        ParamInfo::new(
            "eta3",
            "fraction",
            0.8,
            (0.0, 1.0),
            "beta is largest from this part of the largest queueing delay on (paper, Linux)",
        ),
        ParamInfo::new(
            "win_thresh",
            "segments",
            15,
            (0.0, 1e9),
            "Reno in windows smaller than this (paper 10, Linux 15)",
        ),
        ParamInfo::new(
            "theta",
            "count",
            5,
            (1.0, 1e6),
            "rounds of low delay before alpha returns to its largest (paper, Linux)",
        ),
        ParamInfo::flag("linux", true, "in whole numbers as Linux; false: in real numbers"),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "loss-based, with growth and cut scaled by the queueing delay",
        source: "Liu, Basar and Srikant, VALUETOOLS 2006; Linux",
        signals: &["loss", "ecn", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let linux = params.flag("linux");
    let scaled = |v: f64, scale: f64| if linux { (v * scale).floor().max(1.0) / scale } else { v };
    let alpha_max = scaled(params.number("alpha_max"), ALPHA_SCALE);
    let settings = Settings {
        alpha: (scaled(params.number("alpha_min"), ALPHA_SCALE), alpha_max),
        beta: (
            scaled(params.number("beta_min"), BETA_SCALE),
            scaled(params.number("beta_max"), BETA_SCALE),
        ),
        eta: [params.number("eta1"), params.number("eta2"), params.number("eta3")],
        win_thresh: params.count("win_thresh"),
        theta: params.count("theta"),
        linux,
    };
    let law = Illinois {
        settings,
        alpha: alpha_max,
        beta: RENO.1,
        base: u64::MAX,
        longest: 0,
        sum: 0,
        samples: 0,
        end: 0,
        next: 0,
        low_rounds: 0,
        above: false,
        count: 0,
        acked: 0,
    };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    /// Least and largest.
    alpha: (f64, f64),
    beta: (f64, f64),
    /// Parts of the largest queueing delay.
    eta: [f64; 3],
    win_thresh: u64,
    theta: u64,
    linux: bool,
}

impl Settings {
    fn scaled(&self, value: f64, scale: f64) -> f64 {
        if self.linux { (value * scale).floor() / scale } else { value }
    }

    /// A part of a delay, microseconds.
    fn part(&self, delay: f64, eta: f64) -> f64 {
        let part = delay * eta;
        // Rounding of the product must not lose a microsecond.
        if self.linux { (part + 1e-6).floor() } else { part }
    }

    /// kappa1/(kappa2 + da), written so that it is `alpha.1` at eta1 dm and `alpha.0` at dm.
    fn alpha(&self, mean: f64, largest: f64) -> f64 {
        let low = self.part(largest, self.eta[0]);
        let (least, most) = self.alpha;
        let (largest, mean) = (largest - low, mean - low);
        if largest <= 0.0 {
            return most;
        }
        self.scaled(largest * most / (largest + mean * (most - least) / least), ALPHA_SCALE)
    }

    /// Linear between eta2 dm and eta3 dm.
    fn beta(&self, mean: f64, largest: f64) -> f64 {
        let (least, most) = self.beta;
        let (low, high) = (self.part(largest, self.eta[1]), self.part(largest, self.eta[2]));
        if mean <= low {
            least
        } else if mean >= high || high <= low {
            most
        } else {
            let beta = (least * (high - mean) + most * (mean - low)) / (high - low);
            self.scaled(beta, BETA_SCALE)
        }
    }
}

#[derive(Clone, Debug)]
struct Illinois {
    settings: Settings,
    alpha: f64,
    /// Part of the window that a congestion event takes away.
    beta: f64,
    /// Least and longest RTT of the connection, microseconds.
    base: u64,
    longest: u64,
    /// RTTs of this round.
    sum: u64,
    samples: u64,
    /// The round ends when data beyond this byte is acknowledged.
    end: u64,
    /// First byte not sent yet, at the last ACK.
    next: u64,
    /// Rounds of low delay since it was higher; `above`: it has been.
    low_rounds: u64,
    above: bool,
    /// Segments acknowledged since the last growth.
    count: u64,
    /// Segments that the present ACK counts.
    acked: u64,
}

impl Illinois {
    fn begin_round(&mut self) {
        self.end = self.next;
        self.sum = 0;
        self.samples = 0;
    }

    fn update(&mut self, cwnd: u64) {
        if cwnd < self.settings.win_thresh {
            (self.alpha, self.beta) = RENO;
        } else if let Some(mean) = self.sum.checked_div(self.samples) {
            let largest = (self.longest - self.base) as f64;
            let mean = (mean - self.base) as f64;
            self.update_alpha(mean, largest);
            self.beta = self.settings.beta(mean, largest);
        }
    }

    fn update_alpha(&mut self, mean: f64, largest: f64) {
        if mean > self.settings.part(largest, self.settings.eta[0]) {
            self.above = true;
            self.alpha = self.settings.alpha(mean, largest);
            return;
        }
        if self.above {
            // Not for a chance round of low delay (the paper, section 3.3).
            self.low_rounds += 1;
            if self.low_rounds < self.settings.theta {
                return;
            }
            self.low_rounds = 0;
            self.above = false;
        }
        self.alpha = self.settings.alpha.1;
    }
}

impl Law for Illinois {
    const NAME: &'static str = NAME;

    fn start(&mut self, _event: &Start, _window: &mut Window) {
        self.begin_round();
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        self.acked = window.to_segments(ack.acked);
        self.next = ack.snd_nxt;
        if let Some(rtt) = ack.rtt {
            let rtt = microseconds(rtt);
            self.base = self.base.min(rtt);
            self.longest = self.longest.max(rtt);
            self.sum += rtt;
            self.samples += 1;
        }
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        if ack.snd_una > self.end {
            self.update(window.segments());
            self.begin_round();
        }
        if !ack.cwnd_limited {
            return;
        }
        if window.in_slow_start() {
            window.slow_start(slow_start.growth(ack.acked, window.mss()));
        } else {
            self.avoid(ack, ack.acked, window);
        }
    }

    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        let cwnd = window.segments();
        if !self.settings.linux {
            let acked = acked as f64 / window.mss() as f64;
            window.add(self.alpha * acked / window.exact(), LEAST_WINDOW);
            return;
        }
        self.count += self.acked;
        let delta = (self.count as f64 * self.alpha) as u64;
        if delta >= cwnd {
            window.grow(delta / cwnd);
            self.count = 0;
        }
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        self.count = 0;
        cut.base - (cut.base as f64 * self.beta) as u64
    }

    fn on_timeout(&mut self) {
        (self.alpha, self.beta) = RENO;
        self.low_rounds = 0;
        self.above = false;
        self.begin_round();
    }

    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("alpha", self.alpha);
        out("beta", self.beta);
    }
}
