//! Transports beside TCP: what a driver needs of their two ends.
//!
//! Both ends are sans-IO: they never read a clock, a socket or a random device. A driver hands over
//! packets and the time, takes packets until there are none, and calls back when the next timeout is
//! due. Feedback that does not fit into a packet of the simulator (arrival times of many packets) is
//! kept by the receiver as a numbered report; the driver hands it to the sender together with the
//! packet that announces it. A driver with real sockets writes it into the datagram instead.

use dumbbell_queue::{Ecn, Nanos, Packet as _};

use crate::rtp::playout::{Captured, MediaRecord};
use crate::tcp::SenderStats;
use crate::{Kind, Packet};

/// IP and UDP headers.
pub const DATAGRAM_HEADER_BYTES: u16 = 28;

/// What both ends of a flow must know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// Written into each packet, so that it finds its way back.
    pub flow: u32,
    pub generation: u16,
    /// Of data; PLT's low-priority class has its own.
    pub dscp: u8,
    /// Start of the random stream, for those that need one.
    pub seed: u64,
}

impl Ends {
    /// A packet of this flow sent `now`: `payload` bytes behind `headers` bytes, those of IP and UDP
    /// included.
    pub fn packet(&self, kind: Kind, headers: u16, payload: u16, now: Nanos) -> Packet {
        Packet {
            flow: self.flow,
            generation: self.generation,
            kind,
            ip_bytes: headers + payload,
            payload,
            dscp: self.dscp,
            timestamp: now,
            ..Packet::default()
        }
    }
}

/// What a receiver reports of one packet (RFC 8888).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// [`Packet::seq`].
    pub seq: u64,
    pub at: Nanos,
    pub ecn: Ecn,
}

impl Arrival {
    pub fn of(now: Nanos, packet: &Packet) -> Self {
        Self { seq: packet.seq, at: now, ecn: packet.ecn() }
    }
}

/// What is recorded of a sender at intervals; NaN where the transport has no such thing.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Packets.
    pub window: f64,
    /// Packets.
    pub ssthresh: f64,
    /// Packets.
    pub in_flight: f64,
    /// Bits per second that the sender allows itself.
    pub rate: f64,
    /// Smoothed; 0 before the first sample.
    pub srtt: Nanos,
    pub phase: &'static str,
}

/// A rate that a flow's own control has computed, for those that share it (RFC 8699).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calculated {
    /// Bits per second.
    pub rate: f64,
    /// Bits per second that the application could use, infinity for all.
    pub desired: f64,
    /// Smoothed.
    pub rtt: Nanos,
}

/// A sender whose rate others may set (RFC 8699 section 5).
pub trait Coupled {
    /// The rate that the flow's own control would have from now on, if it has computed one since this
    /// was last asked.
    fn take_calculated(&mut self) -> Option<Calculated>;

    /// Go on from this rate, bits per second, as if it had been computed.
    fn set_rate(&mut self, now: Nanos, rate: f64);
}

/// The sending end of a flow.
///
/// After each call that takes `now`, the driver takes packets by [`Self::poll_transmit`] until there
/// are none, and sees to it that [`Self::on_timeout`] is called at [`Self::next_timeout`].
pub trait FlowSender: Send {
    /// The flow begins; nothing was called before.
    fn on_start(&mut self, now: Nanos);

    /// The application has written so many bytes more; `u64::MAX`: an endless supply.
    fn write(&mut self, now: Nanos, bytes: u64);

    /// Forget what was written and not sent yet.
    fn truncate(&mut self);

    /// The next packet that may leave now.
    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet>;

    /// A packet from the receiver, with the report that it announces (empty for most transports).
    fn on_feedback(&mut self, now: Nanos, packet: &Packet, report: &[Arrival]);

    /// When [`Self::on_timeout`] is to be called; `u64::MAX`: never.
    fn next_timeout(&self) -> Nanos;

    fn on_timeout(&mut self, now: Nanos);

    /// All that was written has reached the receiver, or is given up.
    fn is_idle(&self) -> bool;

    /// Round-trip time of what the last feedback acknowledged.
    fn rtt_sample(&self) -> Option<Nanos>;

    fn snapshot(&self) -> Snapshot;

    fn stats(&self) -> SenderStats;

    /// Internal variables worth plotting, as (name, value) pairs; the names must not vary in a run.
    fn record(&self, _out: &mut dyn FnMut(&'static str, f64)) {}

    /// What went wrong in a controller that is not built in; the run ends.
    fn take_error(&mut self) -> Option<String> {
        None
    }

    /// Frames that were captured, of media.
    fn captured(&self) -> &[Captured] {
        &[]
    }

    /// For a flow whose rate can be coupled with others'.
    fn coupled(&mut self) -> Option<&mut dyn Coupled> {
        None
    }
}

/// The receiving end of a flow; driven as a [`FlowSender`] is.
pub trait FlowReceiver: Send {
    fn on_packet(&mut self, now: Nanos, packet: &Packet);

    /// The next packet of feedback that is to leave now.
    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet>;

    /// When [`Self::on_timeout`] is to be called; `u64::MAX`: never.
    fn next_timeout(&self) -> Nanos;

    fn on_timeout(&mut self, now: Nanos);

    /// Payload bytes that the application got: once and in order from a reliable transport, those that
    /// have arrived, each once, from others.
    fn delivered_bytes(&self) -> u64;

    /// The report that this packet of feedback announces; empty if it is too old.
    fn report(&self, _packet: &Packet) -> &[Arrival] {
        &[]
    }

    /// Frames that have arrived, of media.
    fn media(&self) -> Option<&MediaRecord> {
        None
    }

    /// As [`FlowSender::record`].
    fn record(&self, _out: &mut dyn FnMut(&'static str, f64)) {}
}

/// Both ends of a flow.
pub struct Pair {
    pub sender: Box<dyn FlowSender>,
    pub receiver: Box<dyn FlowReceiver>,
}
