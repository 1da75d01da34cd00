//! The Rate Adaptation Protocol (Rejaie, Handley and Estrin, INFOCOM 1999) as ns-2 has it: packets
//! leave at equal gaps, and the rate follows AIMD, one packet a round trip more each round trip, half
//! when packets are lost.
//!
//! Every packet is acknowledged. An ACK also tells the last hole in what has arrived, so that the ACKs
//! after a lost one make up for it.
//!
//! Ours: the first sample of the round-trip time replaces the initial estimate in every flow (a static
//! variable in ns-2 does it in the first flow of a simulation only); a sender that has nothing to send
//! and nothing outstanding lets its timers rest, and takes them up in the same phase; gaps lie between
//! [`sender::LEAST_GAP`] and [`sender::GREATEST_GAP`].

mod history;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use dumbbell_cc::ParamInfo;

use crate::flow::{Ends, Pair};
use crate::registry::{Given, Parts, TransportInfo};
use receiver::Receiver;
use sender::{Sender, Settings};

/// IP, UDP and RAP headers, of data and of ACKs (ns-2: 44 bytes).
pub const HEADER_BYTES: u16 = 44;

pub(crate) const NAME: &str = "rap";

pub(crate) fn info() -> TransportInfo {
    TransportInfo {
        name: NAME,
        summary: "rate-based AIMD: one packet a round trip more each round trip, half upon loss",
        source: "Rejaie, Handley and Estrin, INFOCOM 1999; ns-2",
        controllers: "none",
        options: vec![
            ParamInfo::new(
                "packet",
                "bytes",
                1000,
                (64.0, 9000.0),
                "IP length of a full packet (ns-2: 512 bytes)",
            ),
            ParamInfo::new(
                "initial_gap",
                "time",
                2_000_000_000_u64,
                (1e3, 64e9),
                "gap between packets, and round-trip time assumed, before the first ACK (ns-2: 2 s)",
            ),
            ParamInfo::new(
                "alpha",
                "number",
                1.0,
                (0.01, 100.0),
                "packets a round trip that the rate grows by each round trip (1)",
            ),
            ParamInfo::new(
                "beta",
                "fraction",
                0.5,
                (0.01, 0.99),
                "what is left of the rate after a loss (1/2)",
            ),
            ParamInfo::new(
                "dpthresh",
                "number",
                50.0,
                (0.0, 100.0),
                "percent of the packets allowed in a round trip that must have been sent for the rate to grow (ns-2: 50)",
            ),
            ParamInfo::new(
                "overhead",
                "number",
                0.0,
                (0.0, 1.0),
                "gaps between packets vary at random by so much of them, by half each way, as by what hosts do \
                 beside; flows of equal rates do not keep step then (0; ns-2 adds a random time instead)",
            ),
            ParamInfo::flag(
                "fine_grain",
                false,
                "stretch gaps by a short-term over a long-term average of the round-trip time",
            ),
            ParamInfo::new(
                "kfrtt",
                "fraction",
                0.9,
                (0.001, 1.0),
                "weight of a sample in the short-term average (0.9)",
            ),
            ParamInfo::new(
                "kxrtt",
                "fraction",
                0.01,
                (0.001, 1.0),
                "weight of a sample in the long-term average (0.01)",
            ),
        ],
    }
}

pub(crate) fn build(parts: &Parts, ends: &Ends, _given: Given) -> Pair {
    let options = &parts.options;
    let settings = Settings {
        packet: options.count("packet") as u16,
        initial_gap: options.time("initial_gap") as f64 / 1e9,
        alpha: options.number("alpha"),
        beta: options.number("beta"),
        threshold: options.number("dpthresh") / 100.0,
        overhead: options.number("overhead"),
        fine_grain: options.flag("fine_grain"),
        fast_gain: options.number("kfrtt"),
        slow_gain: options.number("kxrtt"),
    };
    Pair {
        sender: Box::new(Sender::new(settings, *ends)),
        receiver: Box::new(Receiver::new(*ends)),
    }
}
