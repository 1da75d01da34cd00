//! The transport's options, and how its ends are built.

use std::sync::Arc;

use dumbbell_cc::{ParamInfo, Params};
use dumbbell_queue::{Ecn, Nanos};

use super::receiver::Receiver;
use super::sender::Sender;
use crate::flow::{Ends, Pair};
use crate::registry::{Given, Parts, TransportInfo};

pub(crate) const NAME: &str = "rtp";

const MS: Nanos = 1_000_000;

/// What both ends go by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// IP bytes of a full packet.
    pub(super) packet: u16,
    pub(super) feedback_interval: Nanos,
    /// Of a second, in which reports tell arrivals; 0: exactly.
    pub(super) arrival_parts: u64,
    pub(super) feedback_timeout: Nanos,
    /// Missing packets count as lost when so many later ones have arrived.
    pub(super) reordering: u64,
    /// 0: as the controller asks.
    pub(super) max_queue_delay: Nanos,
    pub(super) ecn: Ecn,
}

impl Settings {
    pub(super) fn new(options: &Params) -> Self {
        Self {
            packet: options.count("packet") as u16,
            feedback_interval: options.time("feedback_interval"),
            arrival_parts: options.count("arrival_parts"),
            feedback_timeout: options.time("feedback_timeout"),
            reordering: options.count("reordering"),
            max_queue_delay: options.time("max_queue_delay"),
            ecn: match options.choice("ecn") {
                "classic" => Ecn::Ect0,
                "l4s" => Ecn::Ect1,
                _ => Ecn::NotEct,
            },
        }
    }
}

pub(crate) fn info() -> TransportInfo {
    TransportInfo {
        name: NAME,
        summary: "real-time media: frames of an encoder that follows the controller, paced",
        source: "RFC 3550, RFC 8888, RFC 8593",
        controllers: "media",
        options: vec![
            ParamInfo::new(
                "packet",
                "bytes",
                1200,
                (200.0, 65_000.0),
                "IP length of a full packet; 40 bytes of it are headers",
            ),
            ParamInfo::new(
                "feedback_interval",
                "time",
                50 * MS,
                (1e6, 1e10),
                "between two reports (RFC 8888 leaves it open; NADA suggests 100 ms)",
            ),
            ParamInfo::new(
                "arrival_parts",
                "count",
                1024,
                (0.0, 1e9),
                "parts of a second in which reports tell arrivals (RFC 8888: 1024; libwebrtc's \
                 transport-wide feedback: 4000); 0: exactly",
            ),
            ParamInfo::new(
                "feedback_timeout",
                "time",
                500 * MS,
                (1e7, 1e11),
                "with packets in flight, feedback is overdue after this and a round-trip time: ours",
            ),
            ParamInfo::new(
                "reordering",
                "packets",
                3,
                (1.0, 1000.0),
                "a missing packet is lost when so many later ones have arrived: ours, as TCP's three",
            ),
            ParamInfo::new(
                "max_queue_delay",
                "time",
                0,
                (0.0, 1e12),
                "the sender empties its queue, at most once a second, when a packet has waited so \
                 long there; 0: as the controller asks",
            ),
            ParamInfo::choice(
                "ecn",
                &["off", "classic", "l4s"],
                "off",
                "codepoint of media packets: none, ECT(0) or ECT(1)",
            ),
        ],
    }
}

/// Both ends of a flow.
pub(crate) fn build(parts: &Parts, ends: &Ends, given: Given) -> Pair {
    let settings = Settings::new(&parts.options);
    let recipe = parts.media.as_ref().expect("a transport for media has a controller");
    let controller = match given {
        Given::Media(controller) => controller,
        _ => recipe.build(ends.seed),
    };
    let source = Arc::clone(&parts.source);
    Pair {
        sender: Box::new(Sender::new(&settings, source, controller, ends)),
        receiver: Box::new(Receiver::new(&settings, ends)),
    }
}
