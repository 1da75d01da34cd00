//! The Congestion Manager (RFC 3124): one window for all connections to a receiver (a macroflow), and a
//! scheduler that divides it.
//!
//! The example module of section 5.2 is TCP's additive increase and multiplicative decrease on the whole
//! window; here the members' controller does the same with its own law (`reno` is that module). Loss or a
//! mark halves the window once; a timeout leaves one segment and slow start for all. The RFC lets a
//! scheduler grant one packet at a time; here a member's share of the window stands for its turns, so
//! each has at least one segment.

use super::CouplingInfo;
use super::aggregate::one_connection;
use super::rules::one_connection_options;
use super::window::Sharing;
use crate::{ParamInfo, Params};

pub(crate) const NAME: &str = "cm";

pub(crate) fn info() -> CouplingInfo {
    let mut options = vec![ParamInfo::choice(
        "scheduler",
        &["weighted", "unweighted"],
        "weighted",
        "weighted: shares by priority; unweighted: equal shares (RFC 3124 section 5.3, round robin)",
    )];
    options.extend(one_connection_options());
    CouplingInfo {
        name: NAME,
        summary: "congestion manager: one window for all connections, divided by a scheduler",
        source: "RFC 3124; Balakrishnan, Rahul, Seshan, SIGCOMM 1999",
        shares: "window",
        options,
    }
}

pub(crate) fn build(params: &Params) -> Box<dyn Sharing> {
    one_connection(params, params.choice("scheduler") == "weighted")
}
