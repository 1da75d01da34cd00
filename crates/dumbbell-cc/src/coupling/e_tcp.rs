//! Ensemble-TCP: the connections to a host share one congestion window equally, and together are exactly
//! as aggressive as one TCP connection.
//!
//! Eggert, Heidemann, Touch, "Effects of Ensemble-TCP", ACM CCR 30(1), 2000. A member's controller steers
//! the whole window with its own ACKs, so the window grows by one segment in a round trip of all of them
//! (with `reno`), and is cut once for what is lost in it.

use super::CouplingInfo;
use super::aggregate::one_connection;
use super::rules::one_connection_options;
use super::window::Sharing;
use crate::Params;

pub(crate) const NAME: &str = "e-tcp";

pub(crate) fn info() -> CouplingInfo {
    CouplingInfo {
        name: NAME,
        summary: "ensemble TCP: equal shares of one window; together as aggressive as one connection",
        source: "Eggert, Heidemann, Touch, ACM CCR 2000",
        shares: "window",
        options: one_connection_options(),
    }
}

pub(crate) fn build(params: &Params) -> Box<dyn Sharing> {
    one_connection(params, false)
}
