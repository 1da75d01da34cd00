//! DCTCP: the window is cut in proportion to the fraction of data that was marked (RFC 8257).
//!
//! With the details of Linux: alpha in units of 1/1024 from counts of packets, updated once per window
//! of data. Without ECN on the connection it is Reno. A timeout halves, as RFC 8257 section 3.5 asks
//! (Linux cuts by alpha there).

use crate::Controller;
use crate::event::{Ack, EcnMode, Start};
use crate::loss_based::{self, Cause, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;

pub(crate) const NAME: &str = "dctcp";

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
        shift_g: params.count("shift_g") as u32,
        alpha: (params.number("initial_alpha") * ONE as f64) as u64,
        window_end: 0,
        delivered: 0,
        marked: 0,
        ecn: false,
    };
    Box::new(LossBased::new(law, params))
}

#[derive(Clone, Debug)]
struct Dctcp {
    shift_g: u32,
    /// Smoothed fraction of marked packets, in 1/1024.
    alpha: u64,
    /// The observation window ends when this byte is acknowledged.
    window_end: u64,
    /// Bytes delivered, and bytes reported marked, in this observation window.
    delivered: u64,
    marked: u64,
    ecn: bool,
}

impl Dctcp {
    /// RFC 8257 section 3.3 steps 5 to 8. Alpha can reach zero, and never exceeds one.
    fn update_alpha(&mut self) {
        let decay = self.alpha >> self.shift_g;
        self.alpha -= if decay == 0 { self.alpha } else { decay };
        if self.marked > 0 {
            let scaled = u128::from(self.marked) << (10 - self.shift_g);
            let gain = (scaled / u128::from(self.delivered.max(1))) as u64;
            self.alpha = (self.alpha + gain).min(ONE);
        }
    }
}

impl Law for Dctcp {
    const NAME: &'static str = NAME;
    const ECN: EcnMode = EcnMode::CeState;

    fn start(&mut self, event: &Start, _window: &mut Window) {
        self.ecn = event.ecn != EcnMode::Off;
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, _window: &mut Window) {
        self.delivered += ack.acked;
        self.marked += ack.ce;
        if ack.snd_una > self.window_end {
            self.update_alpha();
            self.window_end = ack.snd_nxt;
            self.delivered = 0;
            self.marked = 0;
        }
    }

    #[inline]
    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        window.avoid(window.segments(), acked);
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        if cut.cause == Cause::Ecn && self.ecn {
            cut.base - ((cut.base * self.alpha) >> 11)
        } else {
            cut.base / 2
        }
    }

    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("alpha", self.alpha as f64 / ONE as f64);
    }
}
