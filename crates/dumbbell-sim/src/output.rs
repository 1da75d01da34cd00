//! What a run gives back: a summary to print and tables of columns to plot.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

/// One column of a [`Table`].
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    F64(Vec<f64>),
    U64(Vec<u64>),
    /// Strings as indexes into `names`.
    Name {
        codes: Vec<u32>,
        names: Vec<String>,
    },
}

impl Column {
    pub fn len(&self) -> usize {
        match self {
            Self::F64(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::Name { codes, .. } => codes.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<(String, Column)>,
}

impl Table {
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }
}

/// Result of a run. Tables, with their columns (times in seconds from the start of the run):
///
/// - `flow_series`: t, flow, goodput_bps, cwnd (segments), ssthresh (segments, NaN if infinite),
///   rtt_ms (smoothed), inflight (segments), pacing_bps (NaN if none), retransmits (cumulative), phase
/// - `controller_series`: t, flow, name, value (the controller's own variables)
/// - `link_series`: t, link, throughput_bps, queue_packets, queue_delay_ms (mean of packets in the
///   interval), queue_delay_max_ms, drops, marks, sce_marks (cumulative), capacity_bps
/// - `queue_series`: t, link, name, value (the queue's own variables)
/// - `probe_samples`: t (sent), probe, delay_ms (RTT of a ping, one-way delay otherwise)
/// - `frames`: t (captured), flow, delay_ms (until complete, NaN if lost), bytes (where flows carry media)
/// - `completions`: flow, start_s, bytes, duration_s
/// - `flow_rtt_cdf`: flow, rtt_ms, fraction; `queue_delay_cdf`: link, delay_ms, fraction
/// - `capture`: t_ns (U64), link, flow, event, kind, ip_bytes, payload, seq, ack, flags,
///   ecn, reason (with `capture`; sequence numbers in bytes)
#[derive(Clone, Debug)]
pub struct Output {
    pub summary: Summary,
    pub tables: Vec<(&'static str, Table)>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub flows: Vec<FlowSummary>,
    pub links: Vec<LinkSummary>,
    pub probes: Vec<ProbeSummary>,
    pub totals: Totals,
}

/// Distribution in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Quantiles {
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct FlowSummary {
    pub id: String,
    pub cc: String,
    /// Payload delivered in order once, over [max(start, warmup), stop].
    pub goodput_bps: f64,
    pub rtt_ms: Quantiles,
    /// Segments dropped in the network over segments sent, whole run.
    pub loss_ratio: f64,
    /// Segments that arrived with CE over segments that arrived, whole run.
    pub mark_ratio: f64,
    pub retransmits: u64,
    /// Of a `size` flow: seconds from start to the last byte. Of a source of many: their mean.
    pub completion_s: Option<f64>,
    pub cwnd_mean: f64,
    pub cwnd_max: f64,
    pub sent_packets: u64,
    /// What the receiver sent: ACKs, reports, requests.
    pub sent_answers: u64,
    pub delivered_packets: u64,
    pub dropped_packets: u64,
    pub delivered_bytes: u64,
    pub timeouts: u64,
    pub recoveries: u64,
    pub spurious_recoveries: u64,
    /// Tail loss probes sent.
    pub tail_probes: u64,
    /// Reductions of the window after an ECN mark.
    pub ecn_reductions: u64,
    /// Connections that found ECN not to work on their path.
    pub ecn_failed: u64,
    pub connections: u64,
    pub completed: u64,
    /// Of a flow that carries media.
    pub media: Option<MediaSummary>,
    pub effective: Effective,
}

/// Frames captured in the summary's window.
#[derive(Clone, Debug, Serialize)]
pub struct MediaSummary {
    pub frames: u64,
    /// Of which never arrived, or not whole. Those of the last second may be under way.
    pub lost_frames: u64,
    /// From capture to the last packet's arrival.
    pub frame_delay_ms: Quantiles,
    /// A frame shown for at least `max(3 * mean, mean + 150 ms)` (webrtc-stats), and their times.
    pub freezes: u64,
    pub freeze_s: f64,
    /// Of whole frames, without headers.
    pub media_rate_bps: f64,
}

/// What an end point really ran with.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Effective {
    Tcp(Box<EffectiveTcp>),
    Udp { transport: &'static str, payload_bytes: u32 },
    Other(EffectiveOther),
}

/// Of a transport of [`dumbbell_transport::registry`].
#[derive(Clone, Debug, Serialize)]
pub struct EffectiveOther {
    pub transport: String,
    /// Defaults filled in.
    pub options: Map<String, Value>,
    pub cc: Option<String>,
    /// Of the controller.
    pub params: Map<String, Value>,
    pub base_delay_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct EffectiveTcp {
    pub transport: &'static str,
    pub cc: EffectiveController,
    pub mss: u32,
    pub initial_window: u32,
    /// How ECN was used, "off" if it was not.
    pub ecn: &'static str,
    pub ack_every: u32,
    pub delack_ms: f64,
    pub min_rto_ms: f64,
    pub pacing: bool,
    pub idle_restart: bool,
    pub timestamps: bool,
    pub prr: bool,
    pub tlp: bool,
    pub handshake: bool,
    pub base_delay_ms: f64,
}

/// A controller with all its parameters, defaults filled in.
#[derive(Clone, Debug, Serialize)]
pub struct EffectiveController {
    pub kind: String,
    pub params: Arc<Map<String, Value>>,
    /// Who shapes the window in recovery: "prr" or the controller's "own".
    pub recovery: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub struct LinkSummary {
    pub id: String,
    /// Bytes sent over bytes that the capacity allowed, over [warmup, duration].
    pub utilisation: f64,
    pub queue_delay_ms: Quantiles,
    /// Packets that left the link, whole run.
    pub packets: u64,
    pub drops: u64,
    pub marks: u64,
    /// Within [warmup, duration].
    pub drops_window: u64,
    pub marks_window: u64,
    /// SCE marks, whole run.
    pub sce_marks: u64,
    pub drops_by_reason: DropsByReason,
    pub random_losses: u64,
    /// ACKs that a newer one made needless.
    pub acks_thinned: u64,
    pub capacity_bps: Option<f64>,
    /// The queue and its parameters as they really were.
    pub effective: Value,
}

/// Packets that a queue dropped, whole run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DropsByReason {
    pub overflow: u64,
    pub aqm: u64,
    pub policed: u64,
    pub ack_filter: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct ProbeSummary {
    pub id: String,
    pub rtt_ms: Quantiles,
    pub sent: u64,
    pub lost: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Totals {
    pub jain: f64,
    /// Packets that left all links.
    pub packets: u64,
    pub events: u64,
    pub simulated_s: f64,
    /// False if the run was interrupted.
    pub complete: bool,
}

impl Output {
    /// Nothing recorded.
    pub(crate) fn empty() -> Self {
        let totals = Totals { jain: 1.0, packets: 0, events: 0, simulated_s: 0.0, complete: false };
        Self {
            summary: Summary { flows: Vec::new(), links: Vec::new(), probes: Vec::new(), totals },
            tables: Vec::new(),
        }
    }
}
