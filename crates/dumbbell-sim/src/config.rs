//! The scenario as the engine reads it: every quantity resolved to nanoseconds, bits per second and
//! bytes, every default filled in, every name turned into an index. Python validates the user's
//! scenario and writes this; [`Config::check`] repeats what would otherwise make the engine misbehave.

use std::sync::Arc;

use dumbbell_cc::EcnMode;
use dumbbell_transport::rtp::source::SourceConfig;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub seed: u64,
    pub duration_ns: u64,
    /// Left out of the summary.
    #[serde(default)]
    pub warmup_ns: u64,
    /// Spacing of time series; 0 records none.
    #[serde(default = "default_interval")]
    pub interval_ns: u64,
    pub links: Vec<Link>,
    /// Ways through the network that the transfers of users choose from.
    #[serde(default)]
    pub paths: Vec<Path>,
    pub flows: Vec<Flow>,
    /// What is recorded of users; needed where a flow has some.
    #[serde(default)]
    pub users: Option<UserRecord>,
    #[serde(default)]
    pub probes: Vec<Probe>,
    /// Flows whose congestion control is coupled; each flow in one coupling at most.
    #[serde(default)]
    pub coupling: Vec<Coupling>,
    /// Use no shortcut (computed departures, elided hops): the oracle for the fast engine.
    #[serde(default)]
    pub hop_by_hop: bool,
    /// Record every packet at every link, for pcapng.
    #[serde(default)]
    pub capture: bool,
}

fn default_interval() -> u64 {
    100_000_000
}

/// A directed link: queue, then transmitter, then propagation with its impairments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub id: String,
    pub capacity: Capacity,
    #[serde(default)]
    pub delay_ns: u64,
    pub queue: Queue,
    #[serde(default)]
    pub framing: Framing,
    #[serde(default)]
    pub impairments: Impairments,
    /// Changes at set times, ascending.
    #[serde(default)]
    pub changes: Vec<Change>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Capacity {
    /// Packets pass at once; the queue is never used.
    Unlimited,
    /// A serial line: a packet has left when its last bit has. With `shaper_burst_bytes`, a token
    /// bucket in front of a fast line, as `tc` htb or tbf: a packet leaves whole when its turn comes.
    Constant {
        bps: u64,
        #[serde(default)]
        shaper_burst_bytes: Option<u32>,
    },
    /// Mahimahi delivery opportunities, milliseconds from the start, each of `mtu` bytes.
    Trace { ms: Vec<u64>, mtu: u32 },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    pub kind: String,
    #[serde(default)]
    pub params: Map<String, Value>,
}

/// Bytes that the link counts for an IP packet: `max(mpu, ip + overhead)`, then cell rounding.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Framing {
    #[serde(default)]
    pub overhead: u32,
    #[serde(default)]
    pub mpu: u32,
    #[serde(default)]
    pub cells: Cells,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Cells {
    #[default]
    None,
    /// 48 payload bytes in each 53-byte cell.
    Atm,
    /// 64b/65b encoding.
    Ptm,
}

/// What happens to packets after the transmitter. Fractions are probabilities per packet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Impairments {
    #[serde(default)]
    pub loss: Loss,
    #[serde(default)]
    pub jitter: Option<Jitter>,
    #[serde(default)]
    pub reorder: Option<Reorder>,
    /// Probability that a packet is delivered twice.
    #[serde(default)]
    pub duplicate: f64,
    #[serde(default)]
    pub ecn: Option<EcnFault>,
    /// ACKs wait for the next multiple of this time and leave together; 0: they do not wait.
    #[serde(default)]
    pub ack_aggregation_ns: u64,
    /// Of so many ACKs of a flow that wait together only the newest leaves; below 2: all do.
    #[serde(default)]
    pub ack_thinning: u32,
}

/// What a path does to the ECN field against its rules.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum EcnFault {
    /// Everything becomes Not-ECT, marks too.
    Bleach,
    /// ECT(0) becomes ECT(1).
    Ect0ToEct1,
    /// ECT(1) becomes ECT(0).
    Ect1ToEct0,
    /// Whatever is ECN-capable becomes CE.
    Ce,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Loss {
    #[default]
    None,
    Bernoulli {
        p: f64,
    },
    /// Two-state Markov chain stepped per packet: `p` good to bad, `r` bad to good, loss
    /// probabilities `loss_good` and `loss_bad`.
    GilbertElliott {
        p: f64,
        r: f64,
        loss_bad: f64,
        loss_good: f64,
    },
    /// Drops exactly the packets with these indexes (0 = first packet to enter the link).
    Nth {
        indexes: Vec<u64>,
    },
    /// Drops one packet in every `period`.
    Periodic {
        period: u64,
    },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    pub distribution: JitterDistribution,
    /// Uniform: added delay in [0, amount]. Normal and exponential: mean 0 and `amount` as standard
    /// deviation (negative sums clamp to zero delay), and mean `amount`.
    pub amount_ns: u64,
    /// Whether packets may overtake each other.
    #[serde(default)]
    pub reorder: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JitterDistribution {
    Uniform,
    Normal,
    Exponential,
}

/// With `probability` a packet is held back for `delay_ns` while later ones pass.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    pub probability: f64,
    pub delay_ns: u64,
}

/// A change that takes effect at once, also for the packet being transmitted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub at_ns: u64,
    #[serde(default)]
    pub bps: Option<u64>,
    #[serde(default)]
    pub delay_ns: Option<u64>,
    #[serde(default)]
    pub loss: Option<Loss>,
}

/// A hop of a route: a link, and propagation behind it for this route alone.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub enum Hop {
    Link(usize),
    Delayed(usize, u64),
}

impl Hop {
    pub fn link(self) -> usize {
        match self {
            Self::Link(link) | Self::Delayed(link, _) => link,
        }
    }

    pub fn delay_ns(self) -> u64 {
        match self {
            Self::Link(_) => 0,
            Self::Delayed(_, delay) => delay,
        }
    }
}

/// A way from a site to another, and back.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    pub route: Vec<Hop>,
    pub reverse_route: Vec<Hop>,
}

/// What is recorded of all users together: [`Users`] name their group, kinds of file and classes of
/// path by index into these lists.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserRecord {
    pub groups: Vec<String>,
    pub files: Vec<String>,
    pub classes: Vec<String>,
    /// Parts of the run that the tables tell apart; they may overlap.
    pub periods: Vec<Period>,
    /// Spacing of the samples that a period's means are made of.
    pub interval_ns: u64,
    /// Whether the samples are recorded, not only their means.
    #[serde(default)]
    pub series: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Period {
    pub name: String,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// A flow, or a source of many flows (`traffic`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    pub id: String,
    /// From sender to receiver, and back; unused where users choose a path for each transfer.
    pub route: Vec<Hop>,
    pub reverse_route: Vec<Hop>,
    /// Propagation beyond the links, receiver side of the forward route and sender side of the
    /// reverse route.
    #[serde(default)]
    pub delay_ns: u64,
    #[serde(default)]
    pub reverse_delay_ns: u64,
    /// Loss between the last forward link and the receiver.
    #[serde(default)]
    pub loss: Loss,
    pub start_ns: u64,
    pub stop_ns: u64,
    #[serde(default)]
    pub dscp: u8,
    /// Numbers of the sending and the receiving host, for queues that are fair to hosts.
    #[serde(default)]
    pub source_host: u16,
    #[serde(default)]
    pub destination_host: u16,
    pub transport: Transport,
    #[serde(default)]
    pub traffic: Traffic,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Transport {
    Tcp(Tcp),
    /// Datagrams at a constant rate with no feedback; needs `Traffic::ConstantRate`.
    Udp {
        payload_bytes: u32,
    },
    Other(Other),
}

/// A transport of [`dumbbell_transport::registry`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Other {
    pub transport: String,
    /// What the summary calls it.
    pub label: String,
    #[serde(default)]
    pub options: Map<String, Value>,
    #[serde(default)]
    pub cc: Option<Controller>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    pub cc: Controller,
    /// None: off, but as the controller asks if that is not RFC 3168.
    #[serde(default)]
    pub ecn: Option<Ecn>,
    #[serde(default = "default_mss")]
    pub mss: u32,
    #[serde(default = "default_iw")]
    pub initial_window: u32,
    #[serde(default)]
    pub rwnd: Rwnd,
    /// ACK every n segments (1: no delayed ACK) and at the latest after `delack_ns`.
    #[serde(default = "default_ack_every")]
    pub ack_every: u32,
    #[serde(default = "default_delack")]
    pub delack_ns: u64,
    #[serde(default = "default_min_rto")]
    pub min_rto_ns: u64,
    /// Restart from the initial window after an idle time of one RTO (RFC 5681 section 4.1).
    #[serde(default = "yes")]
    pub idle_restart: bool,
    /// Pace also a controller that sets no rate, at 200 % of cwnd/srtt in slow start, 120 % after.
    #[serde(default)]
    pub pacing: bool,
    #[serde(default = "yes")]
    pub timestamps: bool,
    #[serde(default = "yes")]
    pub prr: bool,
    #[serde(default = "yes")]
    pub tlp: bool,
    /// Begin with a SYN exchange (which can be lost).
    #[serde(default = "yes")]
    pub handshake: bool,
    /// First timeout of a SYN; each further one is twice the one before.
    #[serde(default = "default_syn_timeout")]
    pub syn_timeout_ns: u64,
    /// SYNs after which a connection is given up; `None`: never.
    #[serde(default)]
    pub syn_tries: Option<u32>,
    /// IP bits per second above which it never sends (the host's interface, SO_MAX_PACING_RATE).
    #[serde(default)]
    pub max_rate_bps: Option<u64>,
}

/// How a flow uses ECN.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ecn {
    /// As the controller asks.
    Auto,
    Off,
    Classic,
    CeState,
    Accurate,
    L4s,
    Sce,
}

impl Tcp {
    /// What the ends agree on with a controller that asks for `wanted`.
    pub(crate) fn ecn_mode(&self, wanted: EcnMode) -> EcnMode {
        match self.ecn {
            None if wanted == EcnMode::Classic => EcnMode::Off,
            None | Some(Ecn::Auto) => wanted,
            Some(Ecn::Off) => EcnMode::Off,
            Some(Ecn::Classic) => EcnMode::Classic,
            Some(Ecn::CeState) => EcnMode::CeState,
            Some(Ecn::Accurate) => EcnMode::Accurate,
            Some(Ecn::L4s) => EcnMode::L4s,
            Some(Ecn::Sce) => EcnMode::Sce,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    pub kind: String,
    #[serde(default)]
    pub params: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rwnd {
    #[default]
    Unlimited,
    Fixed {
        bytes: u64,
    },
    /// Linux dynamic right-sizing, simplified (spec/variable-links section 5).
    Auto {
        initial_bytes: u64,
        max_bytes: u64,
    },
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Traffic {
    #[default]
    Bulk,
    /// One transfer; its completion time is measured from `start_ns` to the last byte in order.
    Size { bytes: u64 },
    /// Alternates on (writes as fast as TCP takes, or at `bps` if not 0) and off, times from the given laws.
    OnOff {
        on: Law,
        off: Law,
        #[serde(default)]
        bps: u64,
    },
    /// The application writes `bps` in chunks of `chunk_bytes`.
    ConstantRate { bps: u64, chunk_bytes: u32 },
    /// New connections at exponential intervals, `rate_hz` a second, sizes (bytes) from a law.
    Poisson { rate_hz: f64, size: Law },
    /// Users, each with a connection of its own while it transfers a file.
    Users(Box<Users>),
    /// On one connection: request of `request` bytes, response of `response` bytes, think time
    /// (seconds), again. The flow's direction carries the responses.
    RequestResponse { request: Law, response: Law, think: Law },
    /// What an encoder makes, for a transport that carries media.
    Media(Arc<SourceConfig>),
}

/// `count` users at one place who think, connect, transfer a file to a destination, think again.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    pub count: u32,
    /// Index into [`UserRecord::groups`].
    pub group: usize,
    pub destinations: Vec<Destination>,
    /// Seconds between two transfers.
    pub think: Law,
    /// Seconds after which a user gives a transfer up; `None`: never.
    #[serde(default)]
    pub patience: Option<Law>,
    pub files: Vec<File>,
    #[serde(default)]
    pub surges: Vec<Surge>,
    /// Shares of the users that begin a transfer at set times; the others begin with a think time.
    #[serde(default)]
    pub starts: Vec<StartGroup>,
}

/// Where files go, with a weight that needs no scale.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// Index into [`Config::paths`].
    pub path: usize,
    pub weight: f64,
    /// Index into [`UserRecord::classes`].
    pub class: usize,
}

/// A kind of file, drawn by weight.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Index into [`UserRecord::files`].
    pub file: usize,
    pub weight: f64,
    /// Bytes.
    pub size: Law,
}

/// While it lasts, files that begin on paths of this class are `factor` times as large.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Surge {
    pub from_ns: u64,
    pub to_ns: u64,
    pub class: usize,
    pub factor: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartGroup {
    pub share: f64,
    pub at_ns: u64,
}

/// A random law; the unit is that of its use (seconds or bytes).
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Law {
    Constant {
        value: f64,
    },
    Uniform {
        low: f64,
        high: f64,
    },
    Exponential {
        mean: f64,
    },
    /// Pareto with the given mean and shape (> 1); with `max`, samples above are cut to it.
    Pareto {
        mean: f64,
        shape: f64,
        #[serde(default)]
        max: Option<f64>,
    },
    /// Drawn from the values, each with the same probability.
    Empirical {
        values: Vec<f64>,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    pub id: String,
    pub kind: ProbeKind,
    pub route: Vec<Hop>,
    pub reverse_route: Vec<Hop>,
    #[serde(default)]
    pub delay_ns: u64,
    #[serde(default)]
    pub reverse_delay_ns: u64,
    pub interval_ns: u64,
    /// IP packet size.
    pub size_bytes: u32,
    pub start_ns: u64,
    pub stop_ns: u64,
    #[serde(default)]
    pub dscp: u8,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// Echoed by the far end: round-trip time.
    Ping,
    /// One way: delay from sender to receiver.
    OneWay,
}

fn default_mss() -> u32 {
    1448
}
fn default_iw() -> u32 {
    10
}
fn default_ack_every() -> u32 {
    2
}
fn default_delack() -> u64 {
    40_000_000
}
fn default_min_rto() -> u64 {
    200_000_000
}
fn default_syn_timeout() -> u64 {
    1_000_000_000
}
fn yes() -> bool {
    true
}

/// Flows that share what their congestion controls find out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coupling {
    pub id: String,
    /// Of [`dumbbell_cc::coupling::list`].
    pub kind: String,
    #[serde(default)]
    pub options: Map<String, Value>,
    pub members: Vec<CoupledFlow>,
    /// Changes at set times, ascending.
    #[serde(default)]
    pub changes: Vec<CouplingChange>,
    /// Find the groups by shared bottleneck detection with these options; none: groups are as set.
    #[serde(default)]
    pub detect: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoupledFlow {
    /// Index into the flows.
    pub flow: usize,
    #[serde(default = "default_priority")]
    pub priority: f64,
    /// Bits per second that its application can use; none: all.
    #[serde(default)]
    pub desired_bps: Option<f64>,
    #[serde(default)]
    pub group: u32,
}

fn default_priority() -> f64 {
    1.0
}

/// What changes for a member at a set time; the others stay.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CouplingChange {
    pub at_ns: u64,
    /// Index into the coupling's members.
    pub member: usize,
    #[serde(default)]
    pub priority: Option<f64>,
    /// Infinite cannot be written: 0 lifts the limit.
    #[serde(default)]
    pub desired_bps: Option<f64>,
    #[serde(default)]
    pub group: Option<u32>,
    /// Join, or leave and go on alone.
    #[serde(default)]
    pub coupled: Option<bool>,
}
