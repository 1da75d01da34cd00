//! Hybla (Caini and Firrincieli, 2004): long paths, such as satellite ones, grow as a path of 25 ms does.
//!
//! With rho = RTT/25 ms, at least 1, slow start adds 2^rho - 1 segments for each one acknowledged and
//! avoidance rho^2/cwnd, so that the rate grows as fast as Reno's at 25 ms whatever the RTT.
//!
//! | | `linux = true` | `linux = false` |
//! | --- | --- | --- |
//! | growth counts | ACKs, in 128ths of a segment | segments acknowledged, real numbers |
//! | rho | from the least smoothed RTT, in eighths | the same, real |
//! | initial window | rho | rho times the usual one |

use crate::Controller;
use crate::event::{Ack, CaState, Nanos, Start};
use crate::loss_based::{self, Cause, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::reno;
use crate::slow_start::SlowStart;
use crate::window::Window;

pub(crate) const NAME: &str = "hybla";

/// Parts of a segment in which Linux counts.
const PARTS: u64 = 128;
/// 2^(1/8) to 2^(7/8) in such parts, as Linux rounds them.
const EIGHTH_POWERS: [u64; 8] = [128, 139, 152, 165, 181, 197, 215, 234];
/// Exponents beyond this would pass any window.
const LARGEST_RHO: f64 = 16.0;
/// No path is that long; keeps squares within bounds.
const UTMOST_RHO: f64 = 65_536.0;
/// Linux lets Hybla's window grow no further.
const LARGEST_WINDOW: u64 = 65_535;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "rtt0",
            "time",
            25_000_000,
            (1e6, 1e10),
            "round-trip time whose growth all paths are given (paper, Linux: 25 ms)",
        ),
        ParamInfo::flag("linux", true, "as Linux computes it; false: as the paper says"),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "Reno with the growth of a 25 ms path whatever the round-trip time",
        source: "Caini and Firrincieli, Int. J. Satellite Comm. 22(5), 2004; Linux",
        signals: &["loss", "ecn", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = Hybla {
        rtt0: params.time("rtt0"),
        linux: params.flag("linux"),
        srtt_min: Nanos::MAX,
        rho: 1.0,
        parts: 0,
        acks: 0,
        state: CaState::Open,
    };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Debug)]
struct Hybla {
    rtt0: Nanos,
    linux: bool,
    /// Least smoothed RTT.
    srtt_min: Nanos,
    /// At least 1; whole eighths in Linux.
    rho: f64,
    /// Of a segment, not yet added.
    parts: u64,
    /// ACKs since the last growth that were worth less than a segment.
    acks: u64,
    state: CaState,
}

impl Hybla {
    fn set_rho(&mut self, srtt: Nanos) {
        self.srtt_min = srtt;
        let rho = (srtt as f64 / self.rtt0 as f64).min(UTMOST_RHO);
        self.rho = if self.linux { (rho * 8.0).floor() / 8.0 } else { rho }.max(1.0);
    }

    /// What one ACK is worth in Linux, in parts of a segment.
    fn parts_per_ack(&self, window: &Window) -> u64 {
        let eighths = (self.rho * 8.0) as u64;
        if window.in_slow_start() {
            let whole = (eighths / 8).min(LARGEST_RHO as u64);
            (EIGHTH_POWERS[(eighths % 8) as usize] << whole) - PARTS
        } else {
            // rho^2 in 128ths is exactly twice the square of rho in eighths.
            2 * eighths * eighths / window.segments()
        }
    }

    fn grow_by_acks(&mut self, window: &mut Window) {
        let slow_start = window.in_slow_start();
        let parts = self.parts_per_ack(window);
        if !slow_start && parts < PARTS {
            self.acks += 1;
        }
        self.parts += parts % PARTS;
        let mut grown = parts / PARTS;
        if self.parts >= PARTS {
            self.parts -= PARTS;
            self.acks = 0;
            grown += 1;
        }
        let mut cwnd = window.segments() + grown;
        // Too little for a part: Reno's pace, by ACKs.
        if parts == 0 && self.acks >= cwnd {
            cwnd += 1;
            self.acks = 0;
        }
        if slow_start {
            cwnd = cwnd.min(window.ssthresh());
        }
        window.set(cwnd.min(LARGEST_WINDOW.max(window.segments())));
    }

    fn grow_by_segments(&self, acked: u64, window: &mut Window) {
        let acked = acked as f64 / window.mss() as f64;
        if window.in_slow_start() {
            let gain = self.rho.min(LARGEST_RHO).exp2() - 1.0;
            let room = (window.ssthresh() - window.segments()) as f64;
            window.add((gain * acked).min(room), 1);
        } else {
            window.add(self.rho * self.rho * acked / window.exact(), 1);
        }
    }
}

impl Law for Hybla {
    const NAME: &'static str = NAME;

    fn start(&mut self, event: &Start, window: &mut Window) {
        if let Some(rtt) = event.rtt {
            self.set_rho(rtt);
        }
        let usual = if self.linux { 1.0 } else { window.segments() as f64 };
        window.set((self.rho * usual) as u64);
    }

    fn observe(&mut self, ack: &Ack, _window: &mut Window) {
        self.state = ack.state;
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        if ack.srtt > 0 && ack.srtt < self.srtt_min {
            self.set_rho(ack.srtt);
        }
        if !ack.cwnd_limited {
            return;
        }
        if !self.linux {
            self.grow_by_segments(ack.acked, window);
        } else if self.state == CaState::Open {
            self.grow_by_acks(window);
        } else {
            reno::grow(ack, window, slow_start);
        }
    }

    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        window.avoid(window.segments(), acked);
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        self.state = match cut.cause {
            Cause::Loss => CaState::Recovery,
            Cause::Ecn => CaState::Cwr,
            Cause::Timeout => CaState::Loss,
        };
        self.acks = 0;
        cut.base / 2
    }

    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("rho", self.rho);
    }
}
