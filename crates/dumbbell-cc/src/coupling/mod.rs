//! Congestion control coupled over flows: what flows of one host that share a bottleneck do together.
//!
//! Pure as controllers are. Whoever drives the flows hands over what their own controls have computed,
//! and sets what comes back.

mod aggregate;
mod cm;
mod ctrltcp;
mod e_tcp;
mod efcm;
pub mod fse;
mod fse_window;
pub mod observe;
mod rules;
mod tcb;
mod window;

use serde::Serialize;

use crate::ParamInfo;

pub use fse_window::NAME as FSE_WINDOW;
pub use window::Group;

/// What is known of a kind of coupling before it is built.
#[derive(Clone, Debug, Serialize)]
pub struct CouplingInfo {
    pub name: &'static str,
    pub summary: &'static str,
    /// RFC, draft or paper that defines it.
    pub source: &'static str,
    /// What the flows share: "rate" (of any transport whose rate can be set), "window" (of TCP) or
    /// "nothing".
    pub shares: &'static str,
    pub options: Vec<ParamInfo>,
}

/// All kinds of coupling with their options, in the order of their names.
pub fn list() -> Vec<CouplingInfo> {
    let mut all: Vec<_> =
        [fse::info(), observe::info()].into_iter().chain(window::list()).collect();
    all.sort_by_key(|info| info.name);
    all
}
