//! TCP end points: one sender and one receiver of data per connection.

mod ecn;
mod prr;
mod rack;
mod rate;
mod receiver;
mod rtt;
mod scoreboard;
mod sender;
mod xcp;

pub use receiver::{Receiver, ReceiverConfig, Window};
pub use rtt::RttEstimator;
pub use sender::{Sender, SenderConfig, SenderStats};

/// IP and TCP headers with timestamps: 20 + 20 + 12.
pub const HEADER_BYTES: u16 = 52;

/// IP and TCP headers, with or without timestamps.
pub fn header_bytes(timestamps: bool) -> u16 {
    if timestamps { HEADER_BYTES } else { HEADER_BYTES - TIMESTAMP_OPTION_BYTES }
}

/// Congestion header of XCP, on data and on ACKs (draft-falk-xcp-spec-03 section 2).
pub const CONGESTION_HEADER_BYTES: u16 = 20;
/// The timestamp option with its padding (RFC 7323).
pub const TIMESTAMP_OPTION_BYTES: u16 = 12;
