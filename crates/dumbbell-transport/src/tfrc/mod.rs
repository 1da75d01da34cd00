//! TCP Friendly Rate Control (RFC 5348): the receiver measures the loss event rate, and the sender
//! keeps to the rate that TCP would have at it.
//!
//! Rates and the segment's size count IP and UDP headers, as in ns-2, so that a rate is what the path
//! carries. A packet that arrives after it was counted as lost changes nothing.

mod equation;
mod limits;
mod loss_events;
mod loss_intervals;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use dumbbell_cc::ParamInfo;

use crate::flow::{DATAGRAM_HEADER_BYTES, Ends, Pair};
use crate::registry::{Given, Parts, TransportInfo};
use receiver::Receiver;
use sender::{Sender, Settings};

/// IP and UDP headers, sequence number, timestamp and round-trip time.
pub const HEADER_BYTES: u16 = DATAGRAM_HEADER_BYTES + 12;
/// IP and UDP headers, timestamp, delay, receive rate and loss event rate.
pub const FEEDBACK_BYTES: u16 = DATAGRAM_HEADER_BYTES + 16;

pub(crate) const NAME: &str = "tfrc";

pub(crate) fn info() -> TransportInfo {
    TransportInfo {
        name: NAME,
        summary: "rate that TCP would have at the measured loss event rate and round-trip time",
        source: "RFC 5348",
        controllers: "none",
        options: vec![
            ParamInfo::new("packet", "bytes", 1000, (64.0, 9000.0), "IP length of a full packet"),
            ParamInfo::flag(
                "discounting",
                true,
                "give old loss intervals less weight in a long one without loss (section 5.5; ns-2: on)",
            ),
            ParamInfo::flag(
                "damping",
                false,
                "send faster or slower as the round-trip time is below or above its average (section 4.5)",
            ),
            ParamInfo::new(
                "overhead",
                "number",
                0.0,
                (0.0, 1.0),
                "gaps between packets vary at random by so much of them, by half each way, as by what hosts do \
                 beside (ns-2: 0); flows of equal rates do not keep step then",
            ),
            ParamInfo::flag("ecn", false, "send ECN-capable packets; a mark is a loss"),
        ],
    }
}

pub(crate) fn build(parts: &Parts, ends: &Ends, _given: Given) -> Pair {
    let options = &parts.options;
    let packet = options.count("packet") as u16;
    let settings = Settings {
        packet,
        damping: options.flag("damping"),
        overhead: options.number("overhead"),
        ecn: options.flag("ecn"),
    };
    Pair {
        sender: Box::new(Sender::new(settings, *ends)),
        receiver: Box::new(Receiver::new(packet, options.flag("discounting"), *ends)),
    }
}
