//! Events that a transport hands to a controller.

/// Nanoseconds since the start of the run.
pub type Nanos = u64;

/// Loss-recovery state of the sender, with the meaning that Linux gives these names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaState {
    /// No sign of trouble.
    #[default]
    Open,
    /// Duplicate ACKs or SACKs seen, nothing declared lost yet.
    Disorder,
    /// Window reduction after an ECN mark.
    Cwr,
    /// Fast recovery after loss.
    Recovery,
    /// Recovery after a retransmission timeout.
    Loss,
}

/// How ECN is used on a connection: which codepoint data carries, what the receiver echoes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// Data is not ECN-capable.
    #[default]
    Off,
    /// ECT(0); ECE from the first mark until CWR (RFC 3168).
    Classic,
    /// ECT(0); ECE tells the CE state of the data acknowledged (RFC 8257 section 3.2).
    CeState,
    /// ECT(0); counters of marked packets and bytes (RFC 9768, Accurate ECN).
    Accurate,
    /// ECT(1), which asks for the L4S treatment (RFC 9331); counters as in `Accurate`.
    L4s,
    /// ECT(0); RFC 3168 for CE, and ESCE tells whether the data acknowledged carried SCE
    /// (draft-grimes-tcpm-tcpsce).
    Sce,
}

impl EcnMode {
    pub const ALL: [Self; 6] =
        [Self::Off, Self::Classic, Self::CeState, Self::Accurate, Self::L4s, Self::Sce];

    /// Name as written in a scenario.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Classic => "classic",
            Self::CeState => "ce-state",
            Self::Accurate => "accurate",
            Self::L4s => "l4s",
            Self::Sce => "sce",
        }
    }
}

/// The connection is established.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub now: Nanos,
    /// Largest payload of a segment, bytes.
    pub mss: u32,
    /// Initial window in bytes (RFC 6928: 10 segments).
    pub initial_window: u64,
    /// Round-trip time of the handshake, if it was not retransmitted.
    pub rtt: Option<Nanos>,
    /// What the two ends have agreed on.
    pub ecn: EcnMode,
}

/// Delivery-rate sample of one ACK (draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateSample {
    /// Bytes delivered over `interval`.
    pub delivered: u64,
    /// max(send_elapsed, ack_elapsed); 0 if this ACK gave no valid sample.
    pub interval: Nanos,
    /// Connection's `delivered` when the newest segment acked here was sent.
    pub prior_delivered: u64,
    /// Whether `prior_delivered` is meaningful: this ACK newly delivered at least one segment.
    pub has_data: bool,
    /// The newest acked segment was sent while the application limited the flow.
    pub app_limited: bool,
    /// Bytes in flight just after the newest acked segment was sent (it included).
    pub tx_in_flight: u64,
    /// Bytes marked lost between sending and acking that segment.
    pub lost: u64,
}

impl RateSample {
    /// Delivery rate in bytes per second, or `None` without a valid sample.
    pub fn rate(&self) -> Option<f64> {
        (self.interval > 0).then(|| self.delivered as f64 * 1e9 / self.interval as f64)
    }
}

/// One processed ACK.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ack {
    pub now: Nanos,
    pub mss: u32,
    /// Bytes delivered for the first time by this ACK (cumulatively or by SACK).
    pub acked: u64,
    /// Bytes marked lost while this ACK was processed.
    pub lost: u64,
    /// Bytes that this ACK reports as CE-marked: exact with counters (also of data that arrived twice,
    /// so it can exceed `acked`), all that it delivers if it carries ECE otherwise.
    pub ce: u64,
    /// Packets that this ACK reports as CE-marked, likewise.
    pub ce_packets: u64,
    /// Bytes that this ACK delivers under the ESCE flag: they carried SCE.
    pub sce: u64,
    /// Change of the sending rate that routers on the way ask for, payload bytes per second (XCP): the
    /// sum over the data that arrived since the receiver's previous ACK.
    pub feedback: f64,
    /// ECN does not work on this path (marks bleached or mangled); data is sent Not-ECT from now on.
    pub ecn_failed: bool,
    /// The ACK reports CE: it carries ECE, or its counters have grown.
    pub ece: bool,
    /// RTT sample of this ACK (Karn's rule observed).
    pub rtt: Option<Nanos>,
    /// Smoothed RTT, 0 before the first sample.
    pub srtt: Nanos,
    /// Windowed minimum RTT, 0 before the first sample.
    pub min_rtt: Nanos,
    pub rate: RateSample,
    /// Bytes delivered over the connection's life, this ACK included.
    pub delivered: u64,
    /// Bytes marked lost over the connection's life.
    pub lost_total: u64,
    /// Bytes in flight before and after this ACK was processed (RFC 6675 pipe).
    pub inflight_before: u64,
    pub inflight: u64,
    /// First unacknowledged byte, after this ACK.
    pub snd_una: u64,
    /// Next byte to be sent for the first time.
    pub snd_nxt: u64,
    /// Packet-timed round trips, and whether this ACK starts one.
    pub round: u64,
    pub round_start: bool,
    /// The window, not the application, limited what was sent in the last round
    /// (RFC 9438 section 5.8; Linux doubles the allowance in slow start).
    pub cwnd_limited: bool,
    /// The connection is application limited now.
    pub app_limited: bool,
    /// The ACK moves `snd_una`.
    pub advances: bool,
    /// The receiver may have delayed this ACK for its own reasons (single segment acked).
    pub maybe_delayed: bool,
    /// State after this ACK was processed.
    pub state: CaState,
}

/// A segment that was marked lost.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    pub now: Nanos,
    /// Place of the segment in the stream: neighbours differ by one.
    pub number: u64,
    pub bytes: u32,
    /// Bytes in flight just after the segment was last sent (it included).
    pub tx_in_flight: u64,
    /// Bytes marked lost since then (it included).
    pub lost: u64,
    /// Bytes delivered over the connection's life.
    pub delivered: u64,
    /// It was sent while the application limited the flow.
    pub app_limited: bool,
}

/// Cause of a congestion event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionKind {
    Loss,
    Ecn,
}

/// A congestion event: the window has to be cut.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    pub now: Nanos,
    pub kind: CongestionKind,
    pub mss: u32,
    /// Bytes in flight when the event was detected.
    pub inflight: u64,
    /// Bytes marked lost by the ACK that started the event.
    pub lost: u64,
    pub srtt: Nanos,
    /// Bytes delivered over the connection's life.
    pub delivered: u64,
    /// Bytes delivered by the ACK that started the event.
    pub acked: u64,
}

/// A retransmission timeout.
#[derive(Clone, Copy, Debug)]
pub struct Rto {
    pub now: Nanos,
    pub mss: u32,
    /// Bytes still counted as in flight after the timeout marked segments lost.
    pub inflight: u64,
    /// First timeout of this data: cut `ssthresh` (RFC 5681 eq. 4).
    pub first: bool,
    pub delivered: u64,
}

/// A congestion event or timeout that proved spurious.
#[derive(Clone, Copy, Debug)]
pub struct Undo {
    pub now: Nanos,
    pub mss: u32,
    /// It was a timeout, not a fast recovery.
    pub timeout: bool,
}

/// Sending starts with nothing in flight.
#[derive(Clone, Copy, Debug)]
pub struct IdleRestart {
    pub now: Nanos,
    pub mss: u32,
    /// Time since the last transmission.
    pub idle: Nanos,
    pub app_limited: bool,
    /// RFC 5681 section 4.1 asks for min(IW, cwnd): the idle time exceeded the RTO and the transport
    /// is set to restart from there. Bytes, if so.
    pub restart_window: Option<u64>,
    pub delivered: u64,
}
