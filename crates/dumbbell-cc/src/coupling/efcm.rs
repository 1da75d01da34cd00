//! Ensemble flow congestion management: every connection to a host has the mean of the windows and of
//! the slow-start thresholds, S_cwnd / N and S_ssthresh / N.
//!
//! Savoric, Karl, Schläger, Poschwatta, Wolisz, "Analysis and performance evaluation of the EFCM common
//! congestion controller for TCP connections", Computer Networks 49(2), 2005. Each member grows as a
//! connection of its own does, so all together grow as N. Which part of the sum a congestion event of
//! one member takes is a reconstruction, and an option.

use super::CouplingInfo;
use super::aggregate::Aggregate;
use super::rules::{Restart, Rules, Steers, burst_option, lend_option};
use super::window::Sharing;
use crate::{ParamInfo, Params};

pub(crate) const NAME: &str = "efcm";

pub(crate) fn info() -> CouplingInfo {
    CouplingInfo {
        name: NAME,
        summary: "ensemble flow congestion management: all connections have the mean window",
        source: "Savoric, Karl, Schläger, Poschwatta, Wolisz, Computer Networks 2005",
        shares: "window",
        options: vec![
            ParamInfo::choice(
                "signal",
                &["all", "own"],
                "all",
                "a congestion event of one member reduces the windows of all; own: only its part of the \
                 sum. A timeout takes the member's part of the sum in either case (reconstruction)",
            ),
            lend_option(false),
            burst_option(0),
        ],
    }
}

pub(crate) fn build(params: &Params) -> Box<dyn Sharing> {
    let rules = Rules {
        steers: Steers::Share,
        weighted: false,
        grows_as_one: false,
        cuts_whole: params.choice("signal") == "all",
        restart: Restart::Share,
        lends: false,
        keeps: false,
        idle_halving: 0,
        burst: 0,
    };
    Box::new(Aggregate::new(rules.options(params)))
}
