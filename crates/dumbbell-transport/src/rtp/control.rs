//! What a congestion controller for media gets and gives (RFC 8836).

use dumbbell_queue::{Ecn, Nanos};

/// A packet as the sender knows it after feedback.
#[derive(Clone, Copy, Debug)]
pub struct PacketResult {
    pub seq: u64,
    pub sent: Nanos,
    /// IP bytes.
    pub bytes: u32,
    /// By the receiver's clock; `None`: lost.
    pub arrival: Option<Nanos>,
    pub ecn: Ecn,
    /// The probe that it was part of.
    pub probe: Option<ProbeTag>,
}

/// A burst of packets by whose arrival a controller sees what the path bears. Where no media wait,
/// padding fills it.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub cluster: u32,
    /// Bits per second.
    pub rate: f64,
    /// It ends when so many packets and IP bytes have been sent.
    pub packets: u32,
    pub bytes: u64,
    /// IP bytes of a packet of padding, as far as packets can be so short or long.
    pub packet_bytes: u64,
}

/// What a packet keeps of its probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTag {
    pub cluster: u32,
    /// IP bytes of the whole burst, at least.
    pub bytes: u64,
}

/// One report of the receiver, joined with what was sent.
#[derive(Clone, Copy, Debug)]
pub struct Feedback<'a> {
    pub now: Nanos,
    /// Packets that this report newly covers, by sequence number; never empty.
    pub results: &'a [PacketResult],
    /// Newest sample, and smoothed.
    pub rtt: Nanos,
    pub srtt: Nanos,
    /// IP bytes in flight after this report.
    pub in_flight: u64,
    /// Bytes that wait in the sender's own queue.
    pub queued: u64,
    /// Of them, those of frames before the newest.
    pub backlog: u64,
    /// How long the first of them has waited.
    pub queue_delay: Nanos,
}

/// A congestion controller for media. Rates are in bits per second.
pub trait MediaController: Send {
    fn name(&self) -> &'static str;

    /// The flow begins.
    fn on_start(&mut self, now: Nanos);

    fn on_feedback(&mut self, feedback: &Feedback);

    /// A packet leaves; bytes in flight with it.
    fn on_sent(&mut self, _now: Nanos, _bytes: u32, _in_flight: u64) {}

    /// No feedback for a long time although packets are in flight.
    fn on_feedback_timeout(&mut self, now: Nanos);

    /// What the encoder is to produce.
    fn target_rate(&self) -> f64;

    /// What packets are paced at.
    fn send_rate(&self) -> f64;

    /// IP bytes that may be in flight; `None`: any.
    fn window(&self) -> Option<u64> {
        None
    }

    /// When the first packet of the sender's queue has waited so long, the queue is emptied and a key
    /// frame asked for; `None`: never.
    fn max_queue_delay(&self) -> Option<Nanos> {
        None
    }

    /// The next burst to be sent, if one is due. It goes out at its own rate.
    fn take_probe(&mut self, _now: Nanos) -> Option<Probe> {
        None
    }

    /// The rate that flows share where they are coupled (RFC 8699), if it was computed since last
    /// asked.
    fn take_calculated(&mut self) -> Option<f64>;

    /// Go on from this rate as if it had been computed.
    fn set_rate(&mut self, now: Nanos, rate: f64);

    /// Name of the current phase, for recording.
    fn phase(&self) -> &'static str;

    /// What went wrong in a controller that is not built in.
    fn take_error(&mut self) -> Option<String> {
        None
    }

    /// Internal variables worth plotting; the names must not vary in a run.
    fn record(&self, _out: &mut dyn FnMut(&'static str, f64)) {}
}
