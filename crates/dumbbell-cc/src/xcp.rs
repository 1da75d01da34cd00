//! XCP's sender: routers say by how much its rate is to change, and it obeys (Katabi, Handley and Rohrs,
//! SIGCOMM 2002; draft-falk-xcp-spec-03).
//!
//! The transport writes the congestion header and brings back the routers' answer, which moves the window
//! here. Where no router on the path answers, the window stays as it is. Losses cut it as Reno's.

use crate::event::{Ack, CaState, Congestion, EcnMode, IdleRestart, Rto, Start, Undo};
use crate::loss_based::in_reduction;
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;
use crate::{Controller, Nanos};

pub(crate) const NAME: &str = "xcp";

/// Negative feedback ends at one packet (section 3.3 of the paper).
const MIN_WINDOW: u64 = 1;

pub(crate) fn info() -> ControllerInfo {
    ControllerInfo {
        name: NAME,
        summary: "obeys routers that tell each flow by how much to change its rate",
        source: "Katabi, Handley and Rohrs 2002, draft-falk-xcp-spec-03",
        signals: &["feedback", "loss"],
        params: vec![
            ParamInfo::new(
                "rate",
                "rate",
                0,
                (0.0, 1e15),
                "payload rate that routers are asked for; 0: as much as there is",
            ),
            ParamInfo::new(
                "beta",
                "fraction",
                0.5,
                (0.01, 0.99),
                "factor by which a loss multiplies the window",
            ),
        ],
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let bits = params.number("rate");
    Box::new(Xcp {
        requested: if bits > 0.0 { bits / 8.0 } else { f64::INFINITY },
        beta: params.number("beta"),
        window: Window::new(),
        state: CaState::Open,
        feedback: 0.0,
        saved: None,
    })
}

struct Xcp {
    /// Bytes per second.
    requested: f64,
    beta: f64,
    window: Window,
    state: CaState,
    /// Of the last ACK, bytes per second.
    feedback: f64,
    /// Before the last cut.
    saved: Option<Window>,
}

impl Xcp {
    fn reduced(&mut self) -> u64 {
        self.saved = Some(self.window.clone());
        (self.window.segments() as f64 * self.beta) as u64
    }
}

impl Controller for Xcp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_start(&mut self, event: &Start) {
        self.window.start(event);
    }

    /// A change of the rate is one of the window by so much in a round-trip time. Less is always obeyed;
    /// more is taken only where the window is what limits, or an idle flow would collect windows.
    fn on_ack(&mut self, ack: &Ack) {
        self.window.set_mss(ack.mss);
        self.state = ack.state;
        self.feedback = ack.feedback;
        let grows = ack.cwnd_limited && !in_reduction(ack.state);
        if ack.feedback < 0.0 || ack.feedback > 0.0 && grows {
            let bytes = ack.feedback * ack.srtt as f64 / 1e9;
            self.window.add(bytes / self.window.mss() as f64, MIN_WINDOW);
        }
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        self.state = CaState::Recovery;
        let segments = self.reduced();
        self.window.cut(segments);
    }

    fn on_rto(&mut self, event: &Rto) {
        self.state = CaState::Loss;
        let ssthresh = event.first.then(|| self.reduced());
        self.window.timeout(ssthresh, event.inflight);
    }

    fn on_undo(&mut self, _event: &Undo) {
        self.state = CaState::Open;
        if let Some(saved) = self.saved.take() {
            self.window.undo(&saved);
        }
    }

    fn on_recovery_exit(&mut self, _now: Nanos) {
        self.state = CaState::Open;
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        if let Some(restart) = event.restart_window {
            self.window.restart(restart);
        }
    }

    /// Its feedback takes the place of marks.
    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Off
    }

    fn requested_rate(&self) -> Option<f64> {
        Some(self.requested)
    }

    fn cwnd(&self) -> u64 {
        self.window.bytes()
    }

    fn ssthresh(&self) -> u64 {
        self.window.ssthresh_bytes()
    }

    fn phase(&self) -> &'static str {
        match self.state {
            CaState::Recovery => "recovery",
            CaState::Loss => "loss",
            _ => "feedback",
        }
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        out("feedback", self.feedback * 8.0);
    }
}
