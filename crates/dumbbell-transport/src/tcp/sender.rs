//! The sending end: what to send and when, given ACKs, timers and a congestion controller.
//!
//! The state machine (Open, Disorder, CWR, Recovery, Loss) has the meaning that Linux gives it; loss
//! detection is RACK-TLP (RFC 8985), the window during recovery PRR (RFC 9937), the timeout RFC 6298.

use dumbbell_cc::{
    Ack, CaState, Congestion, CongestionKind, Controller, IdleRestart, Nanos, RecoveryStyle, Rto,
    Start, Undo,
};
use dumbbell_queue::Ecn;

use super::prr::Prr;
use super::rack::Rack;
use super::rate::{Newest, RateEstimator};
use super::rtt::RttEstimator;
use super::scoreboard::{Scoreboard, Segment};
use super::{HEADER_BYTES, TIMESTAMP_OPTION_BYTES};
use crate::{Kind, Packet, flags};

/// Added to the probe timeout when the receiver may delay its ACK (RFC 8985 section 7.2).
const TLP_DELAYED_ACK: Nanos = 200_000_000;
/// Granularity that Linux adds to the probe timeout.
const TLP_MARGIN: Nanos = 2_000_000;

#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    pub flow: u32,
    pub generation: u16,
    pub dscp: u8,
    pub mss: u16,
    /// Segments.
    pub initial_window: u32,
    pub ecn: bool,
    pub timestamps: bool,
    pub prr: bool,
    pub tlp: bool,
    pub idle_restart: bool,
    /// Pace a controller that sets no rate.
    pub pacing: bool,
    pub min_rto: Nanos,
    /// Scale of the windows that ACKs carry; `None`: the receive window never limits.
    pub window_scale: Option<u32>,
    /// Receive window before the first ACK, bytes.
    pub initial_rwnd: u64,
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderStats {
    pub sent: u64,
    pub retransmits: u64,
    pub timeouts: u64,
    pub recoveries: u64,
    pub spurious: u64,
    pub acks: u64,
    pub tail_probes: u64,
    /// Window reductions by ECN.
    pub ecn_reductions: u64,
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
    send_cwr: bool,
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
        Self {
            own_recovery: cc.recovery_style() == RecoveryStyle::Own,
            wants_sent: cc.wants_sent(),
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
            send_cwr: false,
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
        });
        self.update_window();
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

    pub fn acked_bytes(&self) -> u64 {
        self.una_bytes
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

    pub fn state(&self) -> CaState {
        self.state
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

    fn mss(&self) -> u64 {
        u64::from(self.config.mss)
    }

    #[inline]
    fn update_window(&mut self) {
        let in_reduction = matches!(self.state, CaState::Cwr | CaState::Recovery);
        if !in_reduction || self.own_recovery || !self.config.prr {
            self.window = (self.cc.cwnd() / self.mss()).max(1);
        }
    }

    // ---- sending -------------------------------------------------------------------------------

    /// The next packet to send now, if any. Call until it returns `None`.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        if self.probe != Probe::None {
            return self.send_probe(now);
        }
        let in_flight = self.board.in_flight();
        if in_flight >= self.window {
            return self.end_burst(now, true);
        }
        let lost = self.board.next_lost();
        if lost.is_none() && (self.unsent == 0 || !self.rwnd_allows()) {
            return self.end_burst(now, false);
        }
        if self.pace_next > now {
            self.pace_blocked = true;
            return self.end_burst(now, false);
        }
        let packet = match lost {
            Some(number) => self.retransmit(now, number),
            None => self.send_new(now, in_flight),
        };
        self.burst = true;
        Some(packet)
    }

    #[inline]
    fn rwnd_allows(&self) -> bool {
        self.rwnd == u64::MAX || {
            let len = self.mss().min(self.unsent);
            self.nxt_bytes + len <= self.una_bytes + self.rwnd
        }
    }

    /// Nothing more leaves now: note how much of the window was used, and arm the probe timer.
    #[inline]
    fn end_burst(&mut self, now: Nanos, limited: bool) -> Option<Packet> {
        if self.burst || limited {
            let out = self.board.packets_out();
            if self.board.una >= self.usage_seq
                || limited
                || !self.cwnd_limited && out > self.max_packets_out
            {
                self.cwnd_limited = limited;
                self.max_packets_out = out;
                self.usage_seq = self.board.nxt;
            }
        }
        if self.burst {
            self.burst = false;
            self.last_sent = now;
            if !matches!(self.timer, Some((_, Timer::Reorder))) {
                self.arm_probe_or_rto(now);
            }
        }
        None
    }

    #[inline]
    fn send_new(&mut self, now: Nanos, in_flight: u64) -> Packet {
        if in_flight == 0 {
            self.on_idle_restart(now);
        }
        let len = self.mss().min(self.unsent) as u16;
        if self.unsent != u64::MAX {
            self.unsent -= u64::from(len);
        }
        let number = self.board.nxt;
        let mut segment = Segment::new(len, self.unsent == 0);
        segment.sent = now;
        segment.in_flight = in_flight as u32 + 1;
        let idle = self.board.packets_out() == 0;
        self.rate.on_send(&mut segment, now, idle);
        self.board.push(segment);
        let offset = self.nxt_bytes;
        self.nxt_bytes += u64::from(len);
        if self.timer.is_none() {
            self.timer = Some((now + self.rtt.rto(self.backoff), Timer::Rto));
        }
        let mut packet = self.packet(now, number, &segment, offset);
        if self.config.ecn {
            packet.set_ecn(Ecn::Ect0);
            if self.send_cwr {
                packet.flags |= flags::CWR;
                self.send_cwr = false;
            }
        }
        self.on_transmitted(now, len, in_flight);
        packet
    }

    fn retransmit(&mut self, now: Nanos, number: u64) -> Packet {
        let in_flight = self.board.in_flight();
        let idle = self.board.packets_out() == 0;
        let segment = self.board.get_mut(number);
        segment.sent = now;
        segment.in_flight = in_flight as u32 + 1;
        self.rate.on_send(segment, now, idle);
        let segment = *segment;
        self.board.mark_retransmitted(number, now);
        self.first_retransmit.get_or_insert(now);
        self.undo_retransmits = self.undo_retransmits.max(0) + 1;
        self.stats.retransmits += 1;
        let offset = self.offset_of(number);
        let mut packet = self.packet(now, number, &segment, offset);
        packet.flags |= flags::RETRANSMISSION;
        self.on_transmitted(now, segment.len, in_flight);
        packet
    }

    /// Byte offset of an outstanding segment. All but a few have the full size, so walk from the
    /// nearer end only where they do not.
    fn offset_of(&self, number: u64) -> u64 {
        let full = (self.nxt_bytes - self.una_bytes) == self.board.packets_out() * self.mss();
        if full {
            return self.una_bytes + (number - self.board.una) * self.mss();
        }
        (self.board.una..number)
            .fold(self.una_bytes, |sum, n| sum + u64::from(self.board.get(n).len))
    }

    fn on_transmitted(&mut self, now: Nanos, len: u16, in_flight: u64) {
        self.stats.sent += 1;
        self.prr.on_sent();
        if let Some(rate) = self.pacing_rate() {
            let start = now.max(self.pace_next);
            // A late start earns credit of at most half a segment, as in Linux.
            let credit = start - self.pace_next;
            let gap = (f64::from(len) * 1e9 / rate) as Nanos;
            self.pace_next = start + gap - credit.min(gap / 2);
        }
        if self.wants_sent {
            self.cc.on_sent(now, u32::from(len), in_flight * self.mss());
        }
    }

    fn pacing_rate(&self) -> Option<f64> {
        match self.cc.pacing_rate() {
            None if self.config.pacing && self.rtt.srtt() > 0 => {
                // Linux: 200 % while cwnd < ssthresh / 2, else 120 %.
                let gain = if self.cc.cwnd() < self.cc.ssthresh() / 2 { 2.0 } else { 1.2 };
                Some(gain * (self.window * self.mss()) as f64 * 1e9 / self.rtt.srtt() as f64)
            }
            rate => rate.filter(|&rate| rate > 0.0),
        }
    }

    #[inline]
    fn packet(&self, now: Nanos, number: u64, segment: &Segment, offset: u64) -> Packet {
        let header = if self.config.timestamps {
            HEADER_BYTES
        } else {
            HEADER_BYTES - TIMESTAMP_OPTION_BYTES
        };
        Packet {
            flow: self.config.flow,
            generation: self.config.generation,
            kind: Kind::Data,
            flags: if segment.push() { flags::PUSH } else { 0 },
            ip_bytes: segment.len + header,
            payload: segment.len,
            dscp: self.config.dscp,
            seq: number,
            timestamp: now,
            aux: [offset, self.last_rtt, 0],
            ..Packet::default()
        }
    }

    #[cold]
    fn on_idle_restart(&mut self, now: Nanos) {
        let idle = now - self.last_sent;
        let restart = self.config.idle_restart
            && self.board.packets_out() == 0
            && self.stats.sent > 0
            && idle > self.rtt.rto(0);
        self.cc.on_idle_restart(&IdleRestart {
            now,
            mss: u32::from(self.config.mss),
            idle,
            app_limited: self.rate.app_limited != 0,
            restart_window: restart
                .then(|| u64::from(self.config.initial_window) * u64::from(self.config.mss)),
            delivered: self.rate.delivered,
        });
        self.update_window();
    }

    #[cold]
    fn send_probe(&mut self, now: Nanos) -> Option<Packet> {
        let probe = std::mem::replace(&mut self.probe, Probe::None);
        self.stats.tail_probes += 1;
        self.tlp_retransmitted = probe == Probe::Last;
        let packet = if probe == Probe::New {
            self.send_new(now, self.board.in_flight())
        } else {
            self.retransmit(now, self.board.nxt - 1)
        };
        self.tlp_high = Some(self.board.nxt);
        self.timer = Some((now + self.rtt.rto(self.backoff), Timer::Rto));
        Some(packet)
    }

    // ---- timers --------------------------------------------------------------------------------

    /// When [`Self::on_timeout`] has to be called, `Nanos::MAX` if never.
    pub fn next_timeout(&self) -> Nanos {
        self.timer_deadline().min(self.pacing_deadline())
    }

    /// The part of [`Self::next_timeout`] that loss recovery asks for: moves with every ACK.
    #[inline]
    pub fn timer_deadline(&self) -> Nanos {
        self.timer.map_or(Nanos::MAX, |(at, _)| at)
    }

    /// The part of [`Self::next_timeout`] that pacing asks for.
    #[inline]
    pub fn pacing_deadline(&self) -> Nanos {
        if self.pace_blocked { self.pace_next } else { Nanos::MAX }
    }

    /// A timer may be due. Call [`Self::poll_transmit`] afterwards.
    pub fn on_timeout(&mut self, now: Nanos) {
        if self.pace_blocked && self.pace_next <= now {
            self.pace_blocked = false;
        }
        let Some((at, timer)) = self.timer else {
            return;
        };
        if at > now {
            return;
        }
        self.timer = None;
        self.check_app_limited();
        match timer {
            Timer::Rto => self.on_rto(now),
            Timer::Tlp => self.on_probe_timeout(now),
            Timer::Reorder => self.on_reorder_timeout(now),
        }
    }

    fn arm_probe_or_rto(&mut self, now: Nanos) {
        let out = self.board.packets_out();
        if out == 0 {
            self.timer = None;
            return;
        }
        let rto = now + self.rtt.rto(self.backoff);
        let probing = self.config.tlp
            && self.tlp_high.is_none()
            && self.board.sacked_out == 0
            && matches!(self.state, CaState::Open | CaState::Cwr)
            && self.rtt.srtt() > 0;
        self.timer = Some(if probing {
            let slack = if out == 1 { TLP_DELAYED_ACK } else { TLP_MARGIN };
            let probe = now + 2 * self.rtt.srtt() + slack;
            if probe < rto { (probe, Timer::Tlp) } else { (rto, Timer::Rto) }
        } else {
            (rto, Timer::Rto)
        });
    }

    fn on_probe_timeout(&mut self, now: Nanos) {
        if self.board.packets_out() == 0 {
            return;
        }
        self.timer = Some((now + self.rtt.rto(self.backoff), Timer::Rto));
        if self.unsent > 0 && self.rwnd_allows() {
            self.probe = Probe::New;
        } else if !self.board.get(self.board.nxt - 1).sacked() {
            self.probe = Probe::Last;
        }
    }

    fn on_reorder_timeout(&mut self, now: Nanos) {
        let inflight = self.board.in_flight();
        let lost_before = self.rate.lost;
        let wait = self.detect_losses(now);
        if self.rate.lost > lost_before {
            if !matches!(self.state, CaState::Recovery) {
                self.enter_recovery(now, inflight, self.rate.lost - lost_before, 0);
            }
            if !self.own_recovery {
                self.apply_prr(1, false);
            }
        }
        self.timer = Some(match wait {
            Some(at) => (at.max(now + 1), Timer::Reorder),
            None => (now + self.rtt.rto(self.backoff), Timer::Rto),
        });
    }

    fn on_rto(&mut self, now: Nanos) {
        if self.board.packets_out() == 0 {
            return;
        }
        self.stats.timeouts += 1;
        let first = match self.state {
            CaState::Open | CaState::Disorder => true,
            CaState::Loss => self.timeouts_in_loss == 0 || self.board.una >= self.high_seq,
            CaState::Cwr | CaState::Recovery => self.board.una >= self.high_seq,
        };
        let rate = &mut self.rate;
        self.rack
            .mark_on_timeout(now, &mut self.board, |segment| rate.lost += u64::from(segment.len));
        if first {
            self.begin_undo();
        }
        self.undo_timeout = true;
        self.state = CaState::Loss;
        self.high_seq = self.board.nxt;
        self.tlp_high = None;
        self.probe = Probe::None;
        self.timeouts_in_loss += 1;
        self.backoff += 1;
        self.cc.on_rto(&Rto {
            now,
            mss: u32::from(self.config.mss),
            inflight: self.board.in_flight() * self.mss(),
            first,
            delivered: self.rate.delivered,
        });
        self.window = (self.cc.cwnd() / self.mss()).max(self.board.in_flight() + 1);
        self.pace_next = self.pace_next.min(now);
        self.timer = Some((now + self.rtt.rto(self.backoff), Timer::Rto));
    }

    // ---- acknowledgements ----------------------------------------------------------------------

    /// An ACK arrived. Call [`Self::poll_transmit`] afterwards.
    #[inline]
    pub fn on_ack(&mut self, now: Nanos, packet: &Packet) {
        self.stats.acks += 1;
        self.check_app_limited();
        if let Some(scale) = self.config.window_scale {
            self.rwnd = u64::from(packet.payload) << scale;
        }
        let una_before = self.board.una;
        let in_flight_before = self.board.in_flight();
        let delivered_before = self.rate.delivered;
        let lost_before = self.rate.lost;
        let lost_segments_before = self.board.lost_out;
        let ack = packet.seq.min(self.board.nxt);
        let advances = ack > una_before;
        let mut delivery = Delivery::default();
        self.rack.advanced = false;
        if advances {
            self.take_cumulative(now, ack, &mut delivery);
            self.timeouts_in_loss = 0;
        }
        if packet.aux[0] != 0 {
            self.take_sack(now, packet, &mut delivery);
        }
        if delivery.reordered {
            self.rack.on_reordering();
        }
        let rtt = self.sample_rtt(now, packet, &delivery, advances);
        self.ack_rtt = rtt;

        let ece = self.config.ecn && packet.flags & flags::ECE != 0;
        if ece {
            self.undo_allowed = false;
        }
        let dsack = packet.flags & flags::DSACK != 0;
        if self.tlp_high.is_some() {
            self.end_probe(now, ack, dsack, advances || delivery.segments > 0, in_flight_before);
        }
        let trouble = self.state != CaState::Open
            || self.board.sacked_out + self.board.lost_out + self.board.retrans_out > 0
            || ece;
        let mut wait = None;
        if trouble {
            wait = self.process_trouble(
                now,
                packet,
                ack,
                advances,
                ece,
                in_flight_before,
                delivered_before,
            );
        }
        let lost = self.rate.lost - lost_before;
        let sample =
            self.rate.sample(&delivery.newest, self.rtt.min_rtt(), u32::from(self.config.mss));
        let round_start = sample.has_data && sample.prior_delivered >= self.next_round;
        if round_start {
            self.next_round = self.rate.delivered;
            self.round += 1;
        }
        let acked = self.rate.delivered - delivered_before;
        let cwnd_limited = self.cwnd_limited
            || self.cc.cwnd() < self.cc.ssthresh() && self.window < 2 * self.max_packets_out;
        self.cc.on_ack(&Ack {
            now,
            mss: u32::from(self.config.mss),
            acked,
            lost,
            ce: if ece { acked } else { 0 },
            ece,
            rtt,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            rate: sample,
            delivered: self.rate.delivered,
            lost_total: self.rate.lost,
            inflight_before: in_flight_before * self.mss(),
            inflight: self.board.in_flight() * self.mss(),
            snd_una: self.una_bytes,
            snd_nxt: self.nxt_bytes,
            round: self.round,
            round_start,
            cwnd_limited,
            app_limited: self.rate.app_limited != 0,
            advances,
            maybe_delayed: advances && in_flight_before == 1,
            state: self.state,
        });
        if matches!(self.state, CaState::Cwr | CaState::Recovery)
            && !self.own_recovery
            && self.config.prr
        {
            if delivery.segments > 0 || lost > 0 {
                let safe = advances && self.board.lost_out <= lost_segments_before && lost == 0;
                self.apply_prr(delivery.segments, safe);
            }
        } else {
            self.update_window();
        }
        if self.board.packets_out() == 0 {
            self.timer = None;
        } else if let Some(at) = wait {
            self.timer = Some((at.max(now + 1), Timer::Reorder));
        } else if advances || self.sacked_before_head(&delivery) {
            self.arm_probe_or_rto(now);
        } else if matches!(self.timer, Some((_, Timer::Reorder)) | None) {
            let rto = self.board.get(self.board.una).sent + self.rtt.rto(self.backoff);
            self.timer = Some((rto.max(now + 1), Timer::Rto));
        }
        // Rate changes let a paced sender go on earlier or later.
        if self.pace_blocked && self.pace_next <= now {
            self.pace_blocked = false;
        }
    }

    /// The ACK SACKs data older than the last transmission of the head, so it may put off the
    /// timeout. Newer data may not, or the timeout of a lost head would never come (Linux).
    fn sacked_before_head(&self, delivery: &Delivery) -> bool {
        delivery.sacked_first.is_some_and(|first| first < self.board.get(self.board.una).sent)
    }

    fn apply_prr(&mut self, delivered: u64, safe: bool) {
        let ssthresh = self.cc.ssthresh() / self.mss();
        self.window = self.prr.window(ssthresh, self.board.in_flight(), delivered, safe).max(1);
    }

    #[inline]
    fn take_cumulative(&mut self, now: Nanos, ack: u64, delivery: &mut Delivery) {
        let min_rtt = self.rtt.min_rtt();
        let highest_sacked = self.board.sacked.end().unwrap_or(0);
        for number in self.board.una..ack {
            let segment = *self.board.get(number);
            self.una_bytes += u64::from(segment.len);
            if segment.sacked() {
                self.board.unsack();
                continue;
            }
            self.board.account_delivered(number);
            delivery.segments += 1;
            self.rate.on_delivered(number, &segment, now, &mut delivery.newest);
            self.rack.on_delivered(number, &segment, now, min_rtt);
            if segment.ever_retransmitted() {
                delivery.retransmission_acked = true;
            } else {
                delivery.first_sent.get_or_insert(segment.sent);
                delivery.last_sent = segment.sent;
                delivery.reordered |= number < highest_sacked;
            }
        }
        self.board.una = ack;
        if highest_sacked > 0 {
            self.board.sacked.remove_below(ack);
        }
    }

    fn take_sack(&mut self, now: Nanos, packet: &Packet, delivery: &mut Delivery) {
        if packet.flags & flags::DSACK != 0 {
            self.rack.on_dsack(self.board.una, self.board.nxt);
            if self.undo_marker.is_some() && self.undo_retransmits > 0 {
                self.undo_retransmits -= 1;
            }
        }
        let min_rtt = self.rtt.min_rtt();
        let mut sacked = std::mem::take(&mut self.board.sacked);
        let highest = sacked.end().unwrap_or(0);
        for (start, end) in packet.sack_blocks() {
            let (start, end) = (start.max(self.board.una), end.min(self.board.nxt));
            let (board, rate, rack) = (&mut self.board, &mut self.rate, &mut self.rack);
            sacked.insert(start, end, 0, |from, to| {
                for number in from..to {
                    let segment = *board.get(number);
                    delivery.segments += 1;
                    rate.on_delivered(number, &segment, now, &mut delivery.newest);
                    rack.on_delivered(number, &segment, now, min_rtt);
                    board.mark_sacked(number);
                    if !segment.ever_retransmitted() {
                        delivery.sacked_first.get_or_insert(segment.sent);
                        delivery.sacked_last = segment.sent;
                        delivery.reordered |= number < highest;
                    }
                }
            });
        }
        self.board.sacked = sacked;
    }

    /// RTT samples as Linux takes them: the smoothed one from the oldest segment newly acknowledged,
    /// the controller's from the newest; from the echoed timestamp where Karn's rule forbids both.
    #[inline]
    fn sample_rtt(
        &mut self,
        now: Nanos,
        packet: &Packet,
        delivery: &Delivery,
        advances: bool,
    ) -> Option<Nanos> {
        let usable = !delivery.retransmission_acked;
        let (smoothed, latest) = match (delivery.first_sent, delivery.sacked_first) {
            (Some(first), _) if usable => (now - first, now - delivery.last_sent),
            (_, Some(first)) => (now - first, now - delivery.sacked_last),
            _ if advances && self.config.timestamps && packet.timestamp > 0 => {
                let rtt = now - packet.timestamp;
                (rtt, rtt)
            }
            _ => return None,
        };
        self.rtt.sample(now, smoothed);
        self.rtt.sample_min(now, latest);
        self.backoff = 0;
        self.last_rtt = latest;
        Some(latest)
    }

    fn end_probe(&mut self, now: Nanos, ack: u64, dsack: bool, progress: bool, in_flight: u64) {
        let Some(high) = self.tlp_high else { return };
        if ack < high {
            return;
        }
        if self.tlp_retransmitted && !dsack && ack > high {
            // The probe repaired a loss: one reduction (RFC 8985 section 7.4.2).
            self.tlp_high = None;
            if matches!(self.state, CaState::Open | CaState::Disorder) {
                self.undo_marker = None;
                self.notify_congestion(now, CongestionKind::Loss, in_flight, 0, 0);
            }
        } else if !self.tlp_retransmitted || dsack || !progress {
            self.tlp_high = None;
        }
    }

    /// Mark losses by RACK; returns when to look again.
    fn detect_losses(&mut self, now: Nanos) -> Option<Nanos> {
        let recovering = matches!(self.state, CaState::Recovery | CaState::Loss);
        let (min_rtt, srtt) = (self.rtt.min_rtt(), self.rtt.srtt());
        let rate = &mut self.rate;
        self.rack.detect(now, &mut self.board, recovering, min_rtt, srtt, |segment| {
            rate.lost += u64::from(segment.len);
        })
    }

    /// Everything that happens only when something is SACKed, lost, retransmitted or marked.
    #[allow(clippy::too_many_arguments)]
    #[inline(never)]
    fn process_trouble(
        &mut self,
        now: Nanos,
        packet: &Packet,
        ack: u64,
        advances: bool,
        ece: bool,
        in_flight_before: u64,
        delivered_before: u64,
    ) -> Option<Nanos> {
        let delayed = self.config.timestamps
            && self.first_retransmit.is_none_or(|first| packet.timestamp < first);
        // The end of an episode.
        match self.state {
            CaState::Cwr if ack > self.high_seq => self.leave(now),
            CaState::Recovery if ack >= self.high_seq => {
                if self.may_undo(delayed) {
                    self.undo(now);
                }
                self.rack.on_recovery_exit();
                self.leave(now);
            }
            CaState::Recovery if advances && delayed && self.may_undo(delayed) => {
                if self.board.retrans_out == 0 {
                    self.rack.on_reordering();
                    self.unmark_lost();
                    self.undo(now);
                    self.leave(now);
                }
            }
            CaState::Loss if advances && self.may_undo(delayed) => {
                self.unmark_lost();
                self.undo(now);
                self.leave(now);
            }
            CaState::Loss if ack >= self.high_seq => self.leave(now),
            CaState::Open | CaState::Disorder
                if self.undo_marker.is_some() && self.undo_retransmits == 0 =>
            {
                self.undo(now);
            }
            _ => {}
        }
        let lost_before = self.rate.lost;
        let retrans_before = self.board.retrans_out;
        let wait = if self.rack.advanced { self.detect_losses(now) } else { None };
        let lost_retransmission = self.board.retrans_out < retrans_before;
        let enter = match self.state {
            CaState::Recovery => false,
            CaState::Loss => lost_retransmission,
            _ => self.board.lost_out > self.board.retrans_out || self.rate.lost > lost_before,
        };
        let acked = self.rate.delivered - delivered_before;
        if enter {
            self.enter_recovery(now, in_flight_before, self.rate.lost - lost_before, acked);
        } else if ece && matches!(self.state, CaState::Open | CaState::Disorder) {
            self.undo_marker = None;
            self.stats.ecn_reductions += 1;
            self.reduce(now, CongestionKind::Ecn, in_flight_before, 0, acked);
            self.state = CaState::Cwr;
            self.high_seq = self.board.nxt;
        } else if matches!(self.state, CaState::Open | CaState::Disorder) {
            self.state = if self.board.sacked_out + self.board.lost_out > 0 {
                CaState::Disorder
            } else {
                CaState::Open
            };
        }
        wait
    }

    /// Nothing is lost after all; what really is will be judged anew.
    fn unmark_lost(&mut self) {
        self.board.unmark_all_lost();
        self.rack.rescan();
    }

    fn begin_undo(&mut self) {
        self.undo_marker = Some(self.board.una);
        let out = self.board.retrans_out as i64;
        self.undo_retransmits = if out > 0 { out } else { -1 };
        self.undo_allowed = true;
        self.undo_timeout = false;
        if out == 0 {
            self.first_retransmit = None;
        }
    }

    fn may_undo(&self, delayed: bool) -> bool {
        self.undo_marker.is_some() && self.undo_allowed && (self.undo_retransmits == 0 || delayed)
    }

    fn undo(&mut self, now: Nanos) {
        self.undo_marker = None;
        if !self.undo_allowed {
            return;
        }
        self.stats.spurious += 1;
        self.cc.on_undo(&Undo { now, mss: u32::from(self.config.mss), timeout: self.undo_timeout });
    }

    fn enter_recovery(&mut self, now: Nanos, in_flight: u64, lost: u64, acked: u64) {
        self.stats.recoveries += 1;
        let in_reduction = matches!(self.state, CaState::Cwr | CaState::Recovery);
        let allowed = !matches!(self.state, CaState::Cwr);
        self.begin_undo();
        self.undo_allowed = allowed;
        self.state = CaState::Recovery;
        self.high_seq = self.board.nxt;
        if !in_reduction {
            self.reduce(now, CongestionKind::Loss, in_flight, lost, acked);
        }
    }

    fn reduce(&mut self, now: Nanos, kind: CongestionKind, in_flight: u64, lost: u64, acked: u64) {
        self.tlp_high = None;
        self.prr.start(self.window);
        self.send_cwr = self.config.ecn;
        self.notify_congestion(now, kind, in_flight, lost, acked);
    }

    fn notify_congestion(
        &mut self,
        now: Nanos,
        kind: CongestionKind,
        in_flight: u64,
        lost: u64,
        acked: u64,
    ) {
        self.cc.on_congestion(&Congestion {
            now,
            kind,
            mss: u32::from(self.config.mss),
            inflight: in_flight * self.mss(),
            lost,
            srtt: self.rtt.srtt(),
            delivered: self.rate.delivered,
            acked,
        });
    }

    fn leave(&mut self, now: Nanos) {
        self.state = CaState::Open;
        if self.board.lost_out == 0 && self.board.retrans_out == 0 {
            self.board.forget_recovery();
        }
        self.cc.on_recovery_exit(now);
    }

    /// draft-cheng-iccrg-delivery-rate-estimation section 3.4: the pipe has a bubble because the
    /// application had nothing to send.
    #[inline]
    fn check_app_limited(&mut self) {
        if self.unsent >= self.mss() {
            return;
        }
        let in_flight = self.board.in_flight();
        if in_flight < self.window && self.board.lost_out <= self.board.retrans_out {
            self.rate.app_limited = (self.rate.delivered + in_flight * self.mss()).max(1);
        }
    }
}
