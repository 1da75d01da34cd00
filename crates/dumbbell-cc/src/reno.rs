//! Reno: additive increase by one segment a round trip, multiplicative decrease (RFC 5681).
//!
//! As in Linux, all bytes acked count in slow start, and the cut is taken from cwnd unless
//! `basis = "inflight"` asks for the FlightSize of RFC 5681 equation 4.

use crate::event::{
    Ack, CaState, Congestion, CongestionKind, IdleRestart, Nanos, Rto, Start, Undo,
};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::slow_start::{self, SlowStart, View};
use crate::window::Window;
use crate::window_pacing::WindowPacing;
use crate::{Controller, loss_based};

pub(crate) const NAME: &str = "reno";

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "beta",
            "fraction",
            0.5,
            (0.01, 0.99),
            "factor by which a congestion event multiplies the window",
        ),
        ParamInfo::new(
            "alpha",
            "number",
            1.0,
            (0.001, 1000.0),
            "segments added per round trip in congestion avoidance",
        ),
        loss_based::basis_param(),
    ];
    params.extend(slow_start::params("classic"));
    params.extend(WindowPacing::params());
    ControllerInfo {
        name: NAME,
        summary: "additive increase, multiplicative decrease (NewReno)",
        source: "RFC 5681, Linux",
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    Box::new(Reno {
        beta: params.number("beta"),
        alpha: params.number("alpha"),
        from_inflight: params.choice("basis") == "inflight",
        window: Window::new(),
        slow_start: slow_start::build(params),
        pacing: WindowPacing::new(params),
        state: CaState::Open,
        saved: None,
    })
}

struct Reno {
    beta: f64,
    alpha: f64,
    from_inflight: bool,
    window: Window,
    slow_start: Box<dyn SlowStart>,
    pacing: WindowPacing,
    state: CaState,
    /// The window before the last cut.
    saved: Option<Window>,
}

impl Reno {
    fn reduced(&self, segments: u64) -> u64 {
        (segments as f64 * self.beta) as u64
    }

    /// Segments to be acked per segment of growth.
    fn per_increase(&self) -> u64 {
        if self.alpha == 1.0 {
            self.window.segments()
        } else {
            (self.window.segments() as f64 / self.alpha) as u64
        }
    }
}

impl Controller for Reno {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_start(&mut self, event: &Start) {
        self.window.start(event);
        self.pacing.set_srtt(event.rtt.unwrap_or(0));
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.window.set_mss(ack.mss);
        self.pacing.set_srtt(ack.srtt);
        self.state = ack.state;
        if loss_based::in_reduction(ack.state) {
            return;
        }
        if self.window.in_slow_start() {
            let view = View {
                cwnd: self.window.segments(),
                delay_min: ack.min_rtt,
                paced: self.pacing.enabled(),
            };
            if self.slow_start.on_ack(ack, &view) {
                self.window.exit_slow_start();
            }
        }
        if !ack.cwnd_limited || !ack.advances {
            return;
        }
        let mut acked = ack.acked;
        if self.window.in_slow_start() {
            acked = self.window.slow_start(self.slow_start.growth(acked, self.window.mss()));
        }
        if acked > 0 {
            self.window.avoid(self.per_increase(), acked);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.state = match event.kind {
            CongestionKind::Loss => CaState::Recovery,
            CongestionKind::Ecn => CaState::Cwr,
        };
        self.saved = Some(self.window.clone());
        let base = loss_based::basis(&self.window, self.from_inflight, event.inflight);
        self.window.cut(self.reduced(base));
        self.slow_start.on_congestion();
    }

    fn on_rto(&mut self, event: &Rto) {
        self.state = CaState::Loss;
        let ssthresh = event.first.then(|| {
            self.saved = Some(self.window.clone());
            self.reduced(self.window.segments())
        });
        self.window.timeout(ssthresh, event.inflight);
        self.slow_start.on_timeout();
    }

    fn on_undo(&mut self, _event: &Undo) {
        if let Some(saved) = self.saved.take() {
            self.window.undo(&saved);
        }
        self.state = CaState::Open;
    }

    fn on_recovery_exit(&mut self, _now: Nanos) {
        self.state = CaState::Open;
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        if let Some(restart) = event.restart_window {
            self.window.restart(restart);
        }
    }

    fn cwnd(&self) -> u64 {
        self.window.bytes()
    }

    fn ssthresh(&self) -> u64 {
        self.window.ssthresh_bytes()
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.pacing.rate(&self.window)
    }

    fn phase(&self) -> &'static str {
        loss_based::phase(self.state, &self.window, self.slow_start.as_ref())
    }
}
