//! Real-time media over RTP (RFC 3550) with congestion control feedback (RFC 8888).

pub mod control;
