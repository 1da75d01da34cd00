//! What loss-based controllers have in common: when they may grow, what they cut from, phase names.

use crate::event::CaState;
use crate::params::ParamInfo;
use crate::slow_start::SlowStart;
use crate::window::Window;

/// The window is being reduced by the transport and must not grow.
pub(crate) fn in_reduction(state: CaState) -> bool {
    matches!(state, CaState::Cwr | CaState::Recovery)
}

pub(crate) fn basis_param() -> ParamInfo {
    ParamInfo::choice(
        "basis",
        &["cwnd", "inflight"],
        "cwnd",
        "what a congestion event multiplies: cwnd (Linux) or the data in flight (RFC 5681, RFC 9438)",
    )
}

/// Segments that a congestion event multiplies by beta. (A timeout always multiplies cwnd: by then
/// what was in flight is marked lost.)
pub(crate) fn basis(window: &Window, from_inflight: bool, inflight: u64) -> u64 {
    if from_inflight { window.to_segments(inflight) } else { window.segments() }
}

pub(crate) fn phase(state: CaState, window: &Window, slow_start: &dyn SlowStart) -> &'static str {
    match state {
        CaState::Recovery => "recovery",
        CaState::Cwr => "cwr",
        _ if window.in_slow_start() => slow_start.phase(),
        _ => "avoidance",
    }
}
