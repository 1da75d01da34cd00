//! ctrlTCP, coupled congestion control for TCP: connections have shares of the sum of their windows by
//! priority. One that joins begins with its share; slow start ends for all with the first that leaves it;
//! one member's fast recovery reduces the sum once; a timeout is the member's alone.
//!
//! Islam, Welzl, Hiorth, Hayes, Armitage, Gjessing, "ctrlTCP: Reducing latency through coupled,
//! heterogeneous multi-flow TCP congestion control", IEEE INFOCOM workshops 2018; draft-welzl-tcp-ccc.
//! Details are a reconstruction: by how much members grow together is an option, and how a share that
//! has become larger is spread over the ACKs (Islam, Welzl, "Start me up: Determining and sharing TCP's
//! initial congestion window", ANRW 2016, keeps the ACK clock).

use super::CouplingInfo;
use super::aggregate::Aggregate;
use super::rules::{Restart, Rules, Steers, burst_option, lend_option};
use super::window::Sharing;
use crate::{ParamInfo, Params};

pub(crate) const NAME: &str = "ctrltcp";

pub(crate) fn info() -> CouplingInfo {
    CouplingInfo {
        name: NAME,
        summary: "coupled TCP: shares of the sum of windows by priority, one reduction for all",
        source: "Islam, Welzl et al., INFOCOM workshops 2018; draft-welzl-tcp-ccc-00",
        shares: "window",
        options: vec![
            ParamInfo::choice(
                "growth",
                &["each", "one"],
                "each",
                "in avoidance the sum grows by what each member's window would grow by; one: all members \
                 together grow as one connection (reconstruction)",
            ),
            lend_option(false),
            burst_option(4),
        ],
    }
}

pub(crate) fn build(params: &Params) -> Box<dyn Sharing> {
    let rules = Rules {
        steers: Steers::Share,
        weighted: true,
        grows_as_one: params.choice("growth") == "one",
        cuts_whole: true,
        restart: Restart::Alone,
        lends: false,
        keeps: false,
        idle_halving: 0,
        burst: 0,
    };
    Box::new(Aggregate::new(rules.options(params)))
}
