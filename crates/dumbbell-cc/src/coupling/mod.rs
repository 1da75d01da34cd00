//! Congestion control coupled over flows: what flows of one host that share a bottleneck do together.
//!
//! Pure as controllers are. Whoever drives the flows hands over what their own controls have computed,
//! and sets what comes back.

pub mod fse;

use serde::Serialize;

use crate::ParamInfo;

/// What is known of a kind of coupling before it is built.
#[derive(Clone, Debug, Serialize)]
pub struct CouplingInfo {
    pub name: &'static str,
    pub summary: &'static str,
    /// RFC, draft or paper that defines it.
    pub source: &'static str,
    /// What the flows share: "rate" (of any transport whose rate can be set) or "window" (of TCP).
    pub shares: &'static str,
    pub options: Vec<ParamInfo>,
}

/// All kinds of coupling with their options, in the order of their names.
pub fn list() -> Vec<CouplingInfo> {
    vec![fse::info()]
}
