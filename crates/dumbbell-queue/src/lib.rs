//! Queue disciplines.
//!
//! A discipline is pure: time comes in as an argument, packets are any type that implements
//! [`Packet`], so the same code holds simulated packets and real IP packets. One discipline, one
//! file; all are listed in [`registry`].

mod abc;
mod backlog;
mod bls;
mod bucket;
mod cake;
mod classes;
mod cnq;
mod cobalt;
mod codel;
mod csfq;
mod diffserv;
mod drr;
mod dualpi2;
mod fifo;
mod flow_queue;
mod fq_cobalt;
mod fq_codel;
mod fq_pie;
mod htb;
mod largest;
mod lfq;
mod meter;
mod params;
mod pi2;
mod pi_controller;
mod pie;
mod pool;
mod prio;
mod profile;
mod random;
mod red;
pub mod registry;
mod sce;
mod scheduler;
mod sfb;
mod sfq;
mod step;
mod tbf;
mod verdict;
mod wfq;
mod wrr;
mod xcp;

pub use registry::{BuildError, ParamInfo, QueueInfo, Unit, build, list};

/// A queue made from its parameters.
pub type Built<P> = Result<Box<dyn QueueDiscipline<P>>, BuildError>;

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
    /// Length of the IP packet, for queues that count framing themselves.
    fn ip_bytes(&self) -> u32;
    /// Hash of the flow's five-tuple, before any salt.
    fn flow_hash(&self) -> u32;
    /// The sending host, and the receiving one: hashes of their addresses, before any salt.
    fn source(&self) -> u32;
    fn destination(&self) -> u32;
    fn dscp(&self) -> u8;
    fn set_dscp(&mut self, dscp: u8);
    fn ecn(&self) -> Ecn;
    /// Set the codepoint to CE. Only called where `ecn()` is ECT(0) or ECT(1).
    fn mark_ce(&mut self);
    /// Set the codepoint to SCE, which is ECT(1). Only called where `ecn()` is ECT(0).
    fn mark_sce(&mut self);
    /// What the edge of the network measured of the packet's sender and wrote into it: its activity
    /// (ABC) or its rate (CSFQ); 0 where nothing was written.
    fn label(&self) -> f32;
    fn set_label(&mut self, label: f32);
    /// What an XCP sender wrote for the routers on the way.
    fn congestion_header(&self) -> Option<CongestionHeader>;
    /// Replace the header's feedback. Only called where there is one.
    fn set_feedback(&mut self, feedback: f32);
    /// Whether this is a pure ACK that `newer`, of the same connection, makes needless.
    fn is_superseded_by(&self, newer: &Self) -> bool;
    fn enqueued_at(&self) -> Nanos;
    fn set_enqueued_at(&mut self, now: Nanos);
}

/// Congestion header of XCP (draft-falk-xcp-spec-03 section 2, in SI units).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CongestionHeader {
    /// The sender's round-trip time in seconds; 0 where it does not know it yet.
    pub rtt: f32,
    /// Its rate in bytes per second.
    pub throughput: f32,
    /// The change of that rate that it asks for, and that routers reduce.
    pub feedback: f32,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The queue's limit in packets or bytes.
    Overflow,
    /// The active queue management decided so.
    Aqm,
    /// Above the rate that a policer allows.
    Policed,
    /// An ACK that a newer one made needless.
    AckFilter,
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
    pub dropped_policed: u64,
    pub dropped_ack_filter: u64,
    /// CE marks made here (not packets that arrived with CE).
    pub marked: u64,
    /// SCE marks made here.
    pub marked_sce: u64,
}

impl Counters {
    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_overflow + self.dropped_aqm + self.dropped_policed + self.dropped_ack_filter
    }

    /// Count a packet that is dropped.
    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        let counter = match reason {
            DropReason::Overflow => &mut self.dropped_overflow,
            DropReason::Aqm => &mut self.dropped_aqm,
            DropReason::Policed => &mut self.dropped_policed,
            DropReason::AckFilter => &mut self.dropped_ack_filter,
        };
        *counter += 1;
    }

    /// Drop a packet: count it and hand it to the caller.
    pub(crate) fn drop<P>(&mut self, packet: P, reason: DropReason, dropped: &mut Dropped<P>) {
        self.count_drop(reason);
        dropped.push((packet, reason));
    }

    /// Count a packet that leaves, if there is one.
    pub(crate) fn deliver<P>(&mut self, packet: Option<P>) -> Dequeued<P> {
        match packet {
            Some(packet) => {
                self.dequeued += 1;
                Dequeued::Packet(packet)
            }
            None => Dequeued::Empty,
        }
    }

    /// Set CE on an ECN-capable packet and count it. One that carries CE already passes, uncounted.
    /// False where the packet is not ECN-capable.
    pub(crate) fn mark_ce(&mut self, packet: &mut impl Packet) -> bool {
        match packet.ecn() {
            Ecn::NotEct => return false,
            Ecn::Ce => {}
            Ecn::Ect0 | Ecn::Ect1 => {
                packet.mark_ce();
                self.marked += 1;
            }
        }
        true
    }

    /// Set SCE on a packet with ECT(0) and count it; false where that cannot be
    /// (draft-morton-tsvwg-sce section 4).
    pub(crate) fn mark_sce(&mut self, packet: &mut impl Packet) -> bool {
        if packet.ecn() != Ecn::Ect0 {
            return false;
        }
        packet.mark_sce();
        self.marked_sce += 1;
        true
    }
}

impl std::ops::Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            offered: self.offered + other.offered,
            dequeued: self.dequeued + other.dequeued,
            dropped_overflow: self.dropped_overflow + other.dropped_overflow,
            dropped_aqm: self.dropped_aqm + other.dropped_aqm,
            dropped_policed: self.dropped_policed + other.dropped_policed,
            dropped_ack_filter: self.dropped_ack_filter + other.dropped_ack_filter,
            marked: self.marked + other.marked,
            marked_sce: self.marked_sce + other.marked_sce,
        }
    }
}

/// Packets, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub packets: u64,
    pub bytes: u64,
}

impl std::ops::Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
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

    /// What it holds.
    fn backlog(&self) -> Amount;
    fn counters(&self) -> Counters;

    fn backlog_packets(&self) -> u64 {
        self.backlog().packets
    }

    fn backlog_bytes(&self) -> u64 {
        self.backlog().bytes
    }

    /// A tail-drop FIFO says so, and an engine with a constant-rate link may then compute departures
    /// in place of storing packets.
    fn fifo_fixed_rate(&self) -> Option<FifoLimit> {
        None
    }

    /// Internal variables worth plotting, as they are at `now`, as (name, value) pairs; the names must
    /// not vary in a run. A queue with children gives theirs after its own, each with the child's name
    /// and a dot before it.
    fn record(&mut self, _now: Nanos, _out: &mut dyn FnMut(&str, f64)) {}
}
