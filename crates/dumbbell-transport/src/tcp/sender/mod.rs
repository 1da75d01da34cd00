//! The sending end: what to send and when, given ACKs, timers and a congestion controller.
//!
//! The state machine (Open, Disorder, CWR, Recovery, Loss) has the meaning that Linux gives it; loss
//! detection is RACK-TLP (RFC 8985), the window during recovery PRR (RFC 9937), the timeout RFC 6298.

mod acknowledgement;
mod recovery;
mod timeout;
mod transmission;

use dumbbell_cc::{CaState, Controller, EcnMode, Nanos, RecoveryStyle, Start};

use super::ecn::Marking;
use super::header_bytes;
use super::prr::Prr;
use super::rack::Rack;
use super::rate::{Newest, RateEstimator};
use super::rtt::RttEstimator;
use super::scoreboard::Scoreboard;
use super::xcp::Request;

#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    pub flow: u32,
    pub generation: u16,
    pub dscp: u8,
    pub mss: u16,
    /// Segments.
    pub initial_window: u32,
    pub ecn: EcnMode,
    pub timestamps: bool,
    pub prr: bool,
    pub tlp: bool,
    pub idle_restart: bool,
    /// Pace a controller that sets no rate.
    pub pacing: bool,
    /// Payload bytes per second above which nothing leaves, infinity for no limit.
    pub max_rate: f64,
    pub min_rto: Nanos,
    /// Scale of the windows that ACKs carry; `None`: the receive window never limits.
    pub window_scale: Option<u32>,
    /// Receive window before the first ACK, bytes.
    pub initial_rwnd: u64,
}

impl SenderConfig {
    /// Bytes of data packets beside the payload, without a congestion header.
    fn header_bytes(&self) -> u16 {
        header_bytes(self.timestamps)
    }
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderStats {
    pub sent: u64,
    pub retransmits: u64,
    pub timeouts: u64,
    pub recoveries: u64,
    pub spurious: u64,
    pub tail_probes: u64,
    /// Window reductions by ECN.
    pub ecn_reductions: u64,
    /// Connections that found ECN not to work on their path.
    pub ecn_failed: u64,
}

impl SenderStats {
    /// Add those of another connection.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.retransmits += other.retransmits;
        self.timeouts += other.timeouts;
        self.recoveries += other.recoveries;
        self.spurious += other.spurious;
        self.tail_probes += other.tail_probes;
        self.ecn_reductions += other.ecn_reductions;
        self.ecn_failed += other.ecn_failed;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Rto,
    Tlp,
    Reorder,
}

/// A tail loss probe that waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    None,
    New,
    Last,
}

/// One sender of data.
pub struct Sender {
    config: SenderConfig,
    board: Scoreboard,
    rate: RateEstimator,
    rtt: RttEstimator,
    rack: Rack,
    prr: Prr,
    cc: Box<dyn Controller>,
    own_recovery: bool,
    wants_sent: bool,
    wants_lost: bool,
    state: CaState,
    /// Sending window, segments.
    window: u64,
    /// Bytes the application has written and that were not sent yet; `u64::MAX` for an endless supply.
    unsent: u64,
    una_bytes: u64,
    nxt_bytes: u64,
    rwnd: u64,
    timer: Option<(Nanos, Timer)>,
    backoff: u32,
    next_round: u64,
    round: u64,
    pacing_rate: Option<f64>,
    pace_next: Nanos,
    pace_blocked: bool,
    last_sent: Nanos,
    last_rtt: Nanos,
    ack_rtt: Option<Nanos>,
    burst: bool,
    cwnd_limited: bool,
    max_packets_out: u64,
    usage_seq: u64,
    high_seq: u64,
    undo_marker: Option<u64>,
    /// Retransmissions not yet reported as duplicates; negative while there were none.
    undo_retransmits: i64,
    undo_allowed: bool,
    undo_timeout: bool,
    first_retransmit: Option<Nanos>,
    timeouts_in_loss: u32,
    tlp_high: Option<u64>,
    tlp_retransmitted: bool,
    probe: Probe,
    /// Data carries neither marks nor a congestion header.
    plain: bool,
    marking: Marking,
    request: Option<Request>,
    stats: SenderStats,
}

/// What one ACK did, collected on the way.
#[derive(Default)]
struct Delivery {
    segments: u64,
    newest: Newest,
    first_sent: Option<Nanos>,
    last_sent: Nanos,
    sacked_first: Option<Nanos>,
    sacked_last: Nanos,
    retransmission_acked: bool,
    reordered: bool,
}

impl Sender {
    pub fn new(config: SenderConfig, cc: Box<dyn Controller>) -> Self {
        let header = config.header_bytes();
        let request = cc.requested_rate().map(|rate| Request::new(rate, config.mss, header));
        Self {
            own_recovery: cc.recovery_style() == RecoveryStyle::Own,
            wants_sent: cc.wants_sent(),
            wants_lost: cc.wants_lost(),
            plain: config.ecn == EcnMode::Off && request.is_none(),
            marking: Marking::new(config.ecn, cc.responds_to_marks()),
            request,
            rtt: RttEstimator::new(config.min_rto),
            rwnd: if config.window_scale.is_some() { config.initial_rwnd } else { u64::MAX },
            config,
            board: Scoreboard::default(),
            rate: RateEstimator::default(),
            rack: Rack::default(),
            prr: Prr::default(),
            cc,
            state: CaState::Open,
            window: u64::from(config.initial_window),
            unsent: 0,
            una_bytes: 0,
            nxt_bytes: 0,
            timer: None,
            backoff: 0,
            next_round: 0,
            round: 0,
            pacing_rate: None,
            pace_next: 0,
            pace_blocked: false,
            last_sent: 0,
            last_rtt: 0,
            ack_rtt: None,
            burst: false,
            cwnd_limited: false,
            max_packets_out: 0,
            usage_seq: 0,
            high_seq: 0,
            undo_marker: None,
            undo_retransmits: -1,
            undo_allowed: true,
            undo_timeout: false,
            first_retransmit: None,
            timeouts_in_loss: 0,
            tlp_high: None,
            tlp_retransmitted: false,
            probe: Probe::None,
            stats: SenderStats::default(),
        }
    }

    /// The handshake is over; `rtt` if it gave a sample (RFC 6298: not if the SYN was repeated).
    pub fn on_established(&mut self, now: Nanos, rtt: Option<Nanos>) {
        if let Some(rtt) = rtt {
            self.rtt.sample(now, rtt);
            self.last_rtt = rtt;
        }
        self.last_sent = now;
        self.cc.on_start(&Start {
            now,
            mss: u32::from(self.config.mss),
            initial_window: u64::from(self.config.initial_window) * u64::from(self.config.mss),
            rtt,
            ecn: self.config.ecn,
        });
        self.update_window();
        self.update_pacing();
    }

    /// The application hands over `bytes` more; `u64::MAX` for an endless supply.
    pub fn write(&mut self, bytes: u64) {
        self.check_app_limited();
        self.unsent = self.unsent.saturating_add(bytes);
    }

    /// The application takes back what was not sent (a flow's stop).
    pub fn truncate(&mut self) {
        self.unsent = 0;
    }

    /// Everything written was acknowledged.
    pub fn is_idle(&self) -> bool {
        self.unsent == 0 && self.board.packets_out() == 0
    }

    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Segments between the first unacknowledged and the next new one.
    pub fn packets_out(&self) -> u64 {
        self.board.packets_out()
    }

    pub fn in_flight(&self) -> u64 {
        self.board.in_flight()
    }

    /// Sending window in segments: the controller's, or PRR's during recovery.
    pub fn window(&self) -> u64 {
        self.window
    }

    pub fn srtt(&self) -> Nanos {
        self.rtt.srtt()
    }

    /// RTT sample of the last ACK, if it gave one.
    #[inline]
    pub fn rtt_sample(&self) -> Option<Nanos> {
        self.ack_rtt
    }

    /// Byte offset of a segment in the stream; that of the first unacknowledged one for those before.
    pub fn byte_offset(&self, number: u64) -> u64 {
        if number <= self.board.una { self.una_bytes } else { self.offset_of(number) }
    }

    /// Data waits for the receive window only.
    pub fn is_rwnd_limited(&self) -> bool {
        self.unsent > 0 && !self.rwnd_allows()
    }

    /// Whether the pipe's counts agree with the scoreboard; costs a walk over the window.
    pub fn is_consistent(&self) -> bool {
        self.board.is_consistent()
    }

    pub fn controller(&self) -> &dyn Controller {
        &*self.cc
    }

    pub fn controller_mut(&mut self) -> &mut dyn Controller {
        &mut *self.cc
    }

    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    pub(super) fn mss(&self) -> u64 {
        u64::from(self.config.mss)
    }

    /// PRR sets the window now, not the controller.
    #[inline]
    pub(super) fn prr_rules(&self) -> bool {
        matches!(self.state, CaState::Cwr | CaState::Recovery)
            && !self.own_recovery
            && self.config.prr
    }

    #[inline]
    pub(super) fn update_window(&mut self) {
        if !self.prr_rules() {
            self.window = (self.cc.cwnd() / self.mss()).max(1);
        }
    }

    /// draft-cheng-iccrg-delivery-rate-estimation section 3.4: the pipe has a bubble because the
    /// application had nothing to send.
    #[inline]
    pub(super) fn check_app_limited(&mut self) {
        if self.unsent >= self.mss() {
            return;
        }
        let in_flight = self.board.in_flight();
        if in_flight < self.window && self.board.lost_out <= self.board.retrans_out {
            self.rate.app_limited = (self.rate.delivered + in_flight * self.mss()).max(1);
        }
    }
}
