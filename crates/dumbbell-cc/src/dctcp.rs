//! DCTCP: the window is cut in proportion to the fraction of data that was marked (RFC 8257).
//!
//! `linux = true` has the details of Linux: alpha in units of 1/1024 from counts of packets, so that it
//! is zero where less than about 1.5 % is marked, a cut in whole segments that PRR spreads over a round,
//! and no growth in that round. `linux = false` computes with real numbers, cuts at the first mark of
//! an observation window and grows in all of them, which gives the 2/p of the models. Without ECN on
//! the connection both are Reno. A timeout halves, as RFC 8257 section 3.5 asks (Linux cuts by alpha
//! there).

use crate::Controller;
use crate::event::{Ack, EcnMode, Start};
use crate::loss_based::{self, Cause, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;

pub(crate) const NAME: &str = "dctcp";

/// Least window, segments (RFC 8257 section 4.4 and Linux: 2).
const MIN_WINDOW: u64 = 2;
/// Alpha of one, in Linux's fixed point.
const ONE: u64 = 1024;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "shift_g",
            "count",
            4,
            (0.0, 10.0),
            "weight of a window's marks in alpha is 2^-shift_g (RFC 8257 section 4.2: g = 1/16)",
        ),
        ParamInfo::new(
            "initial_alpha",
            "fraction",
            1.0,
            (0.0, 1.0),
            "alpha before the first window (RFC 8257 section 4.2: 1)",
        ),
        ParamInfo::flag("linux", true, "fixed point and pauses of Linux; false: real numbers"),
    ];
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "cut in proportion to the marked fraction of a window (data centres)",
        source: "RFC 8257, Linux",
        signals: &["loss", "ce-fraction"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = Dctcp {
        linux: params.flag("linux"),
        shift_g: params.count("shift_g") as u32,
        alpha: params.number("initial_alpha"),
        window_end: 0,
        delivered: 0,
        marked: 0,
        cut_in_window: false,
        ecn: false,
    };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Debug)]
struct Dctcp {
    linux: bool,
    shift_g: u32,
    /// Smoothed fraction of marked bytes; in Linux's case a multiple of 1/1024.
    alpha: f64,
    /// The observation window ends when this byte is acknowledged.
    window_end: u64,
    /// Bytes delivered, and bytes reported marked, in this observation window.
    delivered: u64,
    marked: u64,
    /// The present observation window has had its cut (if the cuts are ours).
    cut_in_window: bool,
    ecn: bool,
}

impl Dctcp {
    /// RFC 8257 section 3.3 steps 5 to 8. Alpha can reach zero, and never exceeds one.
    fn update_alpha(&mut self) {
        if self.linux {
            let alpha = (self.alpha * ONE as f64) as u64;
            let decay = alpha >> self.shift_g;
            let kept = if decay == 0 { 0 } else { alpha - decay };
            let scaled = u128::from(self.marked) << (10 - self.shift_g);
            let gain = (scaled / u128::from(self.delivered.max(1))) as u64;
            self.alpha = (kept + gain).min(ONE) as f64 / ONE as f64;
        } else {
            let fraction = (self.marked as f64 / self.delivered.max(1) as f64).min(1.0);
            self.alpha += (fraction - self.alpha) / f64::from(1_u32 << self.shift_g);
        }
    }
}

impl Law for Dctcp {
    const NAME: &'static str = NAME;
    const ECN: EcnMode = EcnMode::CeState;

    fn responds_to_marks(&self) -> bool {
        !self.linux
    }

    fn start(&mut self, event: &Start, _window: &mut Window) {
        self.ecn = event.ecn != EcnMode::Off;
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        self.delivered += ack.acked;
        self.marked += ack.ce;
        if ack.snd_una > self.window_end {
            self.update_alpha();
            self.window_end = ack.snd_nxt;
            self.delivered = 0;
            self.marked = 0;
            self.cut_in_window = false;
        }
        if !self.linux && self.ecn && ack.ce > 0 && !self.cut_in_window {
            self.cut_in_window = true;
            window.add(-window.exact() * self.alpha / 2.0, MIN_WINDOW);
            window.set_ssthresh(window.segments());
        }
    }

    #[inline]
    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        if self.linux {
            window.avoid(window.segments(), acked);
        } else {
            window.add(acked as f64 / window.mss() as f64 / window.exact(), MIN_WINDOW);
        }
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        if cut.cause == Cause::Ecn && self.ecn {
            cut.base - (cut.base as f64 * self.alpha / 2.0) as u64
        } else {
            cut.base / 2
        }
    }

    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("alpha", self.alpha);
    }
}
