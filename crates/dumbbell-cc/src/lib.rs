//! Congestion controllers.
//!
//! A controller is pure: it never reads a clock, a socket or a random device. The transport hands it
//! events ([`Ack`], [`Congestion`], [`Rto`], ...) and reads back a congestion window, a pacing rate and
//! a slow-start threshold. Everything a controller may want is in the event; there is no callback into
//! the transport. One controller, one file; all are listed in [`registry`].
//!
//! Units: time in nanoseconds, sizes in payload bytes, rates in payload bytes per second.

mod bbr;
mod bbr3;
mod bic;
mod cdg;
mod copa;
pub mod coupling;
mod ctcp;
mod cubic;
mod cubic_sce;
mod dctcp;
mod dctcp_sce;
mod event;
mod fast;
mod fast_at;
mod fixed;
mod highspeed;
mod htcp;
mod hybla;
mod illinois;
mod ledbat;
mod ledbat_pp;
mod loss_based;
mod lp;
mod nv;
mod params;
mod prague;
mod queueing_delay;
mod quiet;
mod rate;
pub mod registry;
mod reno;
mod reno_sce;
mod round_trip;
mod scalable;
mod scalable_classic;
mod sce;
pub mod slow_start;
mod vegas;
mod veno;
mod vivace;
mod westwood;
mod window;
mod window_pacing;
pub mod windowed_filter;
mod xcp;
mod yeah;

pub use event::{
    Ack, CaState, Congestion, CongestionKind, EcnMode, IdleRestart, Lost, Nanos, RateSample, Rto,
    Start, Undo,
};
pub use params::{ParamInfo, Params};
pub use registry::{BuildError, ControllerInfo, Recipe, build, find, list};

/// Slow-start threshold before the first congestion event (RFC 5681 section 3.1: arbitrarily high).
pub const SSTHRESH_INFINITE: u64 = u64::MAX;

/// Who shapes the window during fast recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStyle {
    /// The transport runs Proportional Rate Reduction (RFC 9937) from the window at entry down to
    /// [`Controller::ssthresh`], and the controller's own window counts again when recovery ends.
    Prr,
    /// [`Controller::cwnd`] is the sending window at all times (BBR).
    Own,
}

/// A congestion controller.
///
/// Life of a connection: [`on_start`](Self::on_start) once, then for each ACK
/// [`on_ack`](Self::on_ack) (and before it [`on_congestion`](Self::on_congestion) where that ACK
/// starts a congestion event). During [`CaState::Recovery`] and [`CaState::Cwr`] `on_ack` is still
/// called; a loss-based controller must not grow its window then.
pub trait Controller: Send {
    /// Name as written in a scenario.
    fn name(&self) -> &'static str;

    /// The connection is established and may send.
    fn on_start(&mut self, event: &Start);

    /// An ACK was processed: delivery, loss and marks since the previous one.
    fn on_ack(&mut self, ack: &Ack);

    /// Loss or ECN mark, at most once a round trip (RFC 5681, 6675, 3168): cut the window.
    /// Must set `ssthresh`, and `cwnd` to the window that holds when the reduction is complete.
    fn on_congestion(&mut self, event: &Congestion);

    /// The retransmission timer fired. `ssthresh` is to be cut only when `event.first` (RFC 5681
    /// eq. 4: not again for a repeated timeout of the same data).
    fn on_rto(&mut self, event: &Rto);

    /// The last congestion event or timeout proved spurious (Eifel, DSACK): restore what was saved.
    /// Never called for an episode with ECN marks.
    fn on_undo(&mut self, event: &Undo);

    /// Fast recovery, CWR or loss recovery has ended (all data outstanding at its start is acked).
    fn on_recovery_exit(&mut self, _now: Nanos) {}

    /// Sending starts with nothing in flight.
    fn on_idle_restart(&mut self, _event: &IdleRestart) {}

    /// A segment was handed to the network; called only if [`Self::wants_sent`].
    fn on_sent(&mut self, _now: Nanos, _bytes: u32, _inflight: u64) {}

    /// Whether [`Self::on_sent`] is to be called for each segment.
    fn wants_sent(&self) -> bool {
        false
    }

    /// A segment was marked lost, before the [`on_congestion`](Self::on_congestion) or
    /// [`on_rto`](Self::on_rto) that follows from it; called only if [`Self::wants_lost`].
    fn on_lost(&mut self, _event: &Lost) {}

    /// Whether [`Self::on_lost`] is to be called for each segment.
    fn wants_lost(&self) -> bool {
        false
    }

    /// How ECN is used where the scenario leaves the choice to the controller.
    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Classic
    }

    /// Whether the controller answers marks itself, from [`Ack::ce`] and [`Ack::sce`]. Otherwise the
    /// transport calls [`on_congestion`](Self::on_congestion) once a round trip with marks.
    fn responds_to_marks(&self) -> bool {
        false
    }

    /// Payload bytes per second to ask the routers for in a congestion header (XCP), infinity for as
    /// much as there is; their answers come as [`Ack::feedback`]. `None`: no header. Asked once.
    fn requested_rate(&self) -> Option<f64> {
        None
    }

    /// Congestion window in bytes.
    fn cwnd(&self) -> u64;

    /// Slow-start threshold in bytes, [`SSTHRESH_INFINITE`] if there is none yet.
    fn ssthresh(&self) -> u64;

    /// Whether [`Self::set_window`] works: the window may be one that connections share.
    fn takes_window(&self) -> bool {
        false
    }

    /// Go on from this window and slow-start threshold (bytes, or [`SSTHRESH_INFINITE`]) as if they had
    /// been the controller's own; called only if [`Self::takes_window`].
    fn set_window(&mut self, _cwnd: u64, _ssthresh: u64) {}

    /// Bytes acknowledged that count towards the next increase of the window.
    fn counted(&self) -> u64 {
        0
    }

    /// As [`Self::set_window`], for what [`Self::counted`] tells.
    fn set_counted(&mut self, _bytes: u64) {}

    /// Another connection that shares the window has cut it. What is remembered of the last cut is now
    /// that of this one; the window is set afterwards.
    fn on_shared_congestion(&mut self, _event: &Congestion) {}

    /// The connection has closed; nothing is called after this.
    fn on_close(&mut self, _now: Nanos) {}

    /// Pacing rate in payload bytes per second; `None` sends as the window allows.
    fn pacing_rate(&self) -> Option<f64> {
        None
    }

    /// Who shapes the window during recovery.
    fn recovery_style(&self) -> RecoveryStyle {
        RecoveryStyle::Prr
    }

    /// Name of the current phase, for recording.
    fn phase(&self) -> &'static str;

    /// Internal variables worth plotting, as (name, value) pairs; the names must not vary in a run.
    fn record(&self, _out: &mut dyn FnMut(&'static str, f64)) {}

    /// An error raised by a controller that can fail (one written in Python). The run stops on it.
    fn take_error(&mut self) -> Option<String> {
        None
    }
}
