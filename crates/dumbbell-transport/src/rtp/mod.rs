//! Real-time media over RTP (RFC 3550) with congestion control feedback (RFC 8888).
//!
//! A source makes frames at the controller's target rate, the sender cuts them into packets and paces
//! them, the receiver reports when each packet arrived.

pub mod control;
pub mod controllers;
mod delay;
mod gcc;
mod history;
#[cfg(test)]
mod loop_testing;
mod loss_intervals;
mod nada;
pub mod playout;
mod receive_rate;
mod receiver;
mod scream;
mod sender;
pub mod source;
#[cfg(test)]
mod tests;
pub(crate) mod transport;
mod wire;

use dumbbell_queue::Nanos;

const SECOND: Nanos = 1_000_000_000;
