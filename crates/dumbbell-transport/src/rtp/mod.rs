//! Real-time media over RTP (RFC 3550) with congestion control feedback (RFC 8888).

pub mod control;
pub mod controllers;
mod delay;
mod gcc;
#[cfg(test)]
mod loop_testing;
mod loss_intervals;
mod nada;
mod receive_rate;
mod scream;
