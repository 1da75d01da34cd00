//! The packet as it travels through the simulated network: 64 bytes, copied by value.

use dumbbell_queue::{CongestionHeader, Ecn, Nanos};

/// What a packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A TCP segment with payload.
    #[default]
    Data,
    /// A TCP acknowledgement without payload.
    Ack,
    Syn,
    SynAck,
    /// A datagram without feedback.
    Datagram,
    /// A probe on its way out, and its echo.
    Ping,
    Pong,
    /// A request of the application on the far side, as a single message.
    Request,
    /// Data of a transport other than TCP ([`crate::flow`]), and what its receiver answers.
    Payload,
    Report,
    /// Data of PLT's low-priority class, and its strong ACK.
    LowPayload,
    StrongAck,
}

impl Kind {
    /// Whether it belongs to a transport other than TCP.
    #[inline]
    pub fn is_other(self) -> bool {
        self as u8 >= Self::Payload as u8
    }
}

/// Bits of [`Packet::flags`].
pub mod flags {
    /// ECN codepoint, two bits as in the IP header.
    pub const ECN_MASK: u8 = 0b11;
    /// ECN-echo (RFC 3168).
    pub const ECE: u8 = 1 << 2;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 1 << 3;
    /// End of an application write: the receiver does not delay its ACK.
    pub const PUSH: u8 = 1 << 4;
    /// The first SACK block reports a duplicate (RFC 2883).
    pub const DSACK: u8 = 1 << 5;
    /// Of data: a retransmission.
    pub const RETRANSMISSION: u8 = 1 << 6;
    /// Of an ACK: `aux[2]` holds the counters of Accurate ECN.
    pub const COUNTERS: u8 = 1 << 6;
    /// Of data: it carries a congestion header (XCP).
    pub const HEADER: u8 = 1 << 7;
    /// Of an ACK: `aux[2]` holds the feedback that XCP's routers have given, a float.
    pub const FEEDBACK: u8 = 1 << 4;
    /// Of an ACK: the former NS bit of the TCP header. ESCE (draft-grimes-tcpm-tcpsce), or AE, the
    /// highest bit of the ACE field whose others are CWR and ECE (RFC 9768 section 3.1).
    pub const AE: u8 = 1 << 7;
}

/// A packet in flight.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Packet {
    /// Slot of the connection (or probe) it belongs to.
    pub flow: u32,
    /// Distinguishes successive users of a slot.
    pub generation: u16,
    pub kind: Kind,
    pub flags: u8,
    /// IP length in bytes.
    pub ip_bytes: u16,
    /// What the current link adds to the IP length (framing, cells).
    pub overhead: u16,
    /// Payload bytes; of an ACK, the receive window in units of its scale.
    pub payload: u16,
    pub dscp: u8,
    /// Next hop on the packet's route.
    pub hop: u8,
    /// Segment number of data; next segment expected, of an ACK. Segments are numbered from 0 and
    /// never split, so this is a sequence number in units of segments.
    pub seq: u64,
    /// Send time of data; echoed send time, of an ACK (RFC 7323 with nanoseconds).
    pub timestamp: Nanos,
    /// When it entered the current queue.
    pub enqueued: Nanos,
    /// Of data and datagrams: `[byte offset, hosts and label, round-trip time and feedback]`, see
    /// [`Self::set_hosts`] and [`Self::set_congestion_header`]. Of an ACK: SACK blocks as
    /// `start << 32 | length`, `start` relative to `seq` (a DSACK may lie below: then it is counted
    /// downwards). With the counters of Accurate ECN, or XCP's feedback, there is room for two blocks
    /// beside them. Of the payload of another transport, `aux[0]` and `aux[2]` are its own; of what its
    /// receiver answers, all are.
    pub aux: [u64; 3],
}

/// The lower half of a word of [`Packet::aux`].
const LOWER: u64 = 0xffff_ffff;

const _: () = assert!(size_of::<Packet>() <= 64);

impl Packet {
    /// SACK blocks of an ACK as half-open ranges of segment numbers.
    #[inline]
    pub fn sack_blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let skip = usize::from(self.flags & flags::DSACK != 0);
        let end = if self.flags & (flags::COUNTERS | flags::FEEDBACK) == 0 { 3 } else { 2 };
        self.aux[skip..end].iter().take_while(|&&block| block != 0).map(|&block| {
            let start = self.seq + (block >> 32);
            (start, start + (block & 0xffff_ffff))
        })
    }

    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.flags = (self.flags & !flags::ECN_MASK) | ecn as u8;
    }

    /// Whether an ACK is one of no particular news: it moves the cumulative ACK on and says nothing
    /// that the next one does not. XCP's feedback is news.
    pub fn is_superseded_by(&self, next: &Self) -> bool {
        let echo = flags::ECE | flags::CWR | flags::AE;
        self.kind == Kind::Ack
            && next.kind == Kind::Ack
            && (self.flow, self.generation) == (next.flow, next.generation)
            && self.seq < next.seq
            && self.aux[0] == 0
            && self.flags & (flags::DSACK | flags::FEEDBACK) == 0
            && (self.flags ^ next.flags) & echo == 0
    }

    /// Name the sending and the receiving host, of data or a datagram. The upper half of `aux[1]`
    /// holds them, the lower half the label of an edge meter.
    #[inline]
    pub fn set_hosts(&mut self, source: u16, destination: u16) {
        let hosts = u64::from(source) << 48 | u64::from(destination) << 32;
        self.aux[1] = self.aux[1] & LOWER | hosts;
    }

    /// Tell the receiver of data the round-trip time, capped at 4.29 s. It is the lower half of
    /// `aux[2]`.
    #[inline]
    pub fn set_rtt(&mut self, rtt: Nanos) {
        self.aux[2] = self.aux[2] & !LOWER | rtt.min(LOWER);
    }

    #[inline]
    pub fn rtt(&self) -> Nanos {
        self.aux[2] & LOWER
    }

    /// Give data a congestion header beside its round-trip time: throughput takes the place of the
    /// label, and feedback the upper half of `aux[2]`.
    pub fn set_congestion_header(&mut self, throughput: f32, feedback: f32) {
        self.flags |= flags::HEADER;
        self.set_label_bits(throughput);
        self.set_feedback_bits(feedback);
    }

    fn set_label_bits(&mut self, label: f32) {
        self.aux[1] = self.aux[1] & !LOWER | u64::from(label.to_bits());
    }

    fn set_feedback_bits(&mut self, feedback: f32) {
        self.aux[2] = self.aux[2] & LOWER | u64::from(feedback.to_bits()) << 32;
    }

    #[inline]
    fn has_header(&self) -> bool {
        self.kind == Kind::Data && self.flags & flags::HEADER != 0
    }

    /// An XCP packet has no room for a label.
    #[inline]
    fn has_label(&self) -> bool {
        self.carries_payload() && !self.has_header()
    }

    #[inline]
    fn carries_payload(&self) -> bool {
        matches!(self.kind, Kind::Data | Kind::Datagram | Kind::Payload | Kind::LowPayload)
    }

    #[inline]
    pub fn is_ce(&self) -> bool {
        self.flags & flags::ECN_MASK == Ecn::Ce as u8
    }
}

impl dumbbell_queue::Packet for Packet {
    #[inline]
    fn bytes(&self) -> u32 {
        u32::from(self.ip_bytes) + u32::from(self.overhead)
    }

    /// Fibonacci hashing of the slot and its generation: what a five-tuple hash would tell apart.
    #[inline]
    fn flow_hash(&self) -> u32 {
        let direction = u64::from(matches!(
            self.kind,
            Kind::Ack | Kind::SynAck | Kind::Pong | Kind::Report | Kind::StrongAck
        ));
        let key = u64::from(self.flow) << 17 | u64::from(self.generation) << 1 | direction;
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    #[inline]
    fn ip_bytes(&self) -> u32 {
        u32::from(self.ip_bytes)
    }

    /// Only packets with payload name their hosts; others count as from a host of their own flow.
    #[inline]
    fn source(&self) -> u32 {
        if self.carries_payload() { (self.aux[1] >> 48) as u32 } else { self.flow_hash() }
    }

    #[inline]
    fn destination(&self) -> u32 {
        if self.carries_payload() { (self.aux[1] >> 32) as u32 & 0xffff } else { self.flow_hash() }
    }

    #[inline]
    fn dscp(&self) -> u8 {
        self.dscp
    }

    #[inline]
    fn set_dscp(&mut self, dscp: u8) {
        self.dscp = dscp;
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        match self.flags & flags::ECN_MASK {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    #[inline]
    fn mark_ce(&mut self) {
        self.set_ecn(Ecn::Ce);
    }

    #[inline]
    fn mark_sce(&mut self) {
        self.set_ecn(Ecn::Ect1);
    }

    #[inline]
    fn label(&self) -> f32 {
        if self.has_label() { f32::from_bits(self.aux[1] as u32) } else { 0.0 }
    }

    #[inline]
    fn set_label(&mut self, label: f32) {
        if self.has_label() {
            self.set_label_bits(label);
        }
    }

    #[inline]
    fn congestion_header(&self) -> Option<CongestionHeader> {
        self.has_header().then(|| CongestionHeader {
            rtt: self.rtt() as f32 / 1e9,
            throughput: f32::from_bits(self.aux[1] as u32),
            feedback: f32::from_bits((self.aux[2] >> 32) as u32),
        })
    }

    #[inline]
    fn set_feedback(&mut self, feedback: f32) {
        self.set_feedback_bits(feedback);
    }

    #[inline]
    fn is_superseded_by(&self, newer: &Self) -> bool {
        Self::is_superseded_by(self, newer)
    }

    #[inline]
    fn enqueued_at(&self) -> Nanos {
        self.enqueued
    }

    #[inline]
    fn set_enqueued_at(&mut self, now: Nanos) {
        self.enqueued = now;
    }
}
