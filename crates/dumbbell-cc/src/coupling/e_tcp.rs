//! Ensemble-TCP: the connections to a host share one congestion window equally, and together are exactly
//! as aggressive as one TCP connection.
//!
//! Eggert, Heidemann, Touch, "Effects of Ensemble-TCP", ACM CCR 30(1), 2000. A member's controller steers
//! the whole window with its own ACKs, so the window grows by one segment in a round trip of all of them
//! (with `reno`), and is cut once for what is lost in it.

use super::CouplingInfo;
use super::aggregate::{
    Aggregate, Restart, Rules, Steers, burst_option, keep_options, lend_option,
};
use super::window::Sharing;
use crate::Params;

pub(crate) const NAME: &str = "e-tcp";

pub(crate) fn info() -> CouplingInfo {
    let mut options = vec![lend_option(true)];
    options.extend(keep_options());
    options.push(burst_option(0));
    CouplingInfo {
        name: NAME,
        summary: "ensemble TCP: equal shares of one window; together as aggressive as one connection",
        source: "Eggert, Heidemann, Touch, ACM CCR 2000",
        shares: "window",
        options,
    }
}

pub(crate) fn build(params: &Params) -> Box<dyn Sharing> {
    let rules = Rules {
        steers: Steers::Whole,
        weighted: false,
        grows_as_one: false,
        cuts_whole: true,
        restart: Restart::Whole,
        lends: true,
        keeps: true,
        idle_halving: 0,
        burst: 0,
    };
    Box::new(Aggregate::new(rules.options(params)))
}
