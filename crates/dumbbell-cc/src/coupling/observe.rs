//! Flows that share nothing: they are only looked at.

use super::CouplingInfo;

pub const NAME: &str = "observe";

pub(super) fn info() -> CouplingInfo {
    CouplingInfo {
        name: NAME,
        summary: "nothing is shared; which flows seem to share a bottleneck is recorded",
        source: "RFC 8382",
        shares: "nothing",
        options: Vec::new(),
    }
}
