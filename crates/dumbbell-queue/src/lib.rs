//! Queue disciplines.
//!
//! A discipline is pure: time comes in as an argument, packets are any type that implements
//! [`Packet`], so the same code holds simulated packets and real IP packets. One discipline, one
//! file; all are listed in [`registry`].

mod codel;
mod fifo;
mod fq_codel;
mod params;
mod pie;
mod pool;
pub mod registry;

pub use registry::{BuildError, ParamInfo, QueueInfo, Unit, build, list};

/// Nanoseconds since the start of the run.
pub type Nanos = u64;

/// ECN codepoint of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    #[default]
    NotEct = 0,
    Ect1 = 1,
    Ect0 = 2,
    Ce = 3,
}

/// What a queue needs to know of a packet.
pub trait Packet {
    /// Bytes that the link counts for this packet (frame, with the link's framing overhead).
    fn bytes(&self) -> u32;
    /// Hash of the flow's five-tuple, before any salt.
    fn flow_hash(&self) -> u32;
    fn dscp(&self) -> u8;
    fn ecn(&self) -> Ecn;
    /// Set the codepoint to CE. Only called where `ecn()` is ECT(0) or ECT(1).
    fn mark_ce(&mut self);
    fn enqueued_at(&self) -> Nanos;
    fn set_enqueued_at(&mut self, now: Nanos);
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The queue's limit in packets or bytes.
    Overflow,
    /// The active queue management decided so.
    Aqm,
}

/// Packets dropped by one call, with the reason; the caller empties it.
pub type Dropped<P> = Vec<(P, DropReason)>;

/// What became of the packet offered to [`QueueDiscipline::enqueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    Accepted,
    Marked,
    Dropped,
}

/// Result of [`QueueDiscipline::dequeue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dequeued<P> {
    Packet(P),
    /// Nothing may leave before this time (shapers).
    Wait(Nanos),
    Empty,
}

/// What a queue counted since it was made. Every packet offered is, at any time, either dequeued,
/// dropped or still in the backlog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub offered: u64,
    pub dequeued: u64,
    pub dropped_overflow: u64,
    pub dropped_aqm: u64,
    /// Marks made here (not packets that arrived with CE).
    pub marked: u64,
}

/// Limit of a plain FIFO, whichever is reached first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoLimit {
    pub packets: u64,
    pub bytes: u64,
}

/// A queue discipline.
pub trait QueueDiscipline<P: Packet>: Send {
    /// Offer a packet. Packets dropped (this or others) are pushed to `dropped`.
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued;

    /// Take the next packet. Packets that the AQM drops on the way are pushed to `dropped`.
    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P>;

    fn backlog_packets(&self) -> u64;
    fn backlog_bytes(&self) -> u64;
    fn counters(&self) -> Counters;

    /// A tail-drop FIFO says so, and an engine with a constant-rate link may then compute departures
    /// in place of storing packets.
    fn fifo_fixed_rate(&self) -> Option<FifoLimit> {
        None
    }

    /// Internal variables worth plotting, as (name, value) pairs; the names must not vary in a run.
    fn record(&self, _out: &mut dyn FnMut(&'static str, f64)) {}
}
