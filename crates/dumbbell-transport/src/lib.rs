//! Sans-IO transport end points: no clock, no socket, no random device. A driver hands over packets
//! and the time, takes packets to send, and calls back when the next timeout is due.

mod distinct;
pub mod flow;
#[cfg(test)]
pub(crate) mod flow_testing;
mod interval;
mod packet;
mod plt;
mod random;
pub mod rap;
pub mod registry;
pub mod rtp;
pub mod shared_bottleneck;
pub mod tcp;
pub mod tfrc;

pub use interval::IntervalSet;
pub use packet::{Kind, Packet, flags};
