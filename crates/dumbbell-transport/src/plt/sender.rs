//! The sending end: both modules, and what each may send when.

use dumbbell_queue::Nanos;

use super::high::High;
use super::low::{self, End, Low};
use super::receiver::probe_mark;
use super::scheduler::{Range, Scheduler};
use super::shutdown::{self, Detector, Verdict};
use super::strong_ack::{Class, StrongAck};
use crate::flow::{Arrival, Ends, FlowSender, Snapshot};
use crate::tcp::SenderStats;
use crate::{Kind, Packet};

/// IP and UDP headers, id, place of the data in the connection, and send time.
pub(super) const LOW_HEADER_BYTES: u16 = 28 + 8 + 8 + 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) low: low::Config,
    pub(super) low_dscp: u8,
    pub(super) mss: u16,
    /// Receive window in bytes, and the scale of what strong ACKs tell of it.
    pub(super) rwnd: u64,
    pub(super) scale: u32,
    /// Bits per second that the low class is paced at, infinity for none.
    pub(super) line_rate: f64,
    pub(super) rexmt_on_low: bool,
    pub(super) unblock: f64,
    pub(super) duplicate_tail: bool,
    pub(super) shutdown: Option<shutdown::Config>,
}

/// Where data for the high class comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HighSource {
    Lost,
    New,
    /// What the low class has had outstanding for too long.
    Overdue,
}

/// What the low class may send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    New,
    Lost,
    /// What the high class has sent and the receiver has not acknowledged.
    Copy,
    /// As that, the segment of this number.
    Tail(u64),
}

pub(super) struct Sender {
    config: Config,
    ends: Ends,
    high: High,
    low: Low,
    scheduler: Scheduler,
    detector: Option<Detector>,
    /// The high class has data to send and no window, until something is heard or a timer ends.
    high_waits: bool,
    /// The packet that a timeout of the high class asked for.
    ready: Option<Packet>,
    pace_next: Nanos,
    /// When the low class may go on, if nothing else happens.
    wake: Nanos,
    /// First segment of the high class that the low one has not duplicated.
    tail: u64,
    rtt_sample: Option<Nanos>,
    /// Ranges of the retransmission buffer that were sent again.
    repaired: u64,
}

impl Sender {
    pub(super) fn new(config: Config, ends: Ends, high: High) -> Self {
        Self {
            low: Low::new(config.low),
            scheduler: Scheduler::new(config.rwnd, config.mss),
            detector: config.shutdown.map(Detector::new),
            config,
            ends,
            high,
            high_waits: false,
            ready: None,
            pace_next: 0,
            wake: Nanos::MAX,
            tail: 0,
            rtt_sample: None,
            repaired: 0,
        }
    }

    fn verdict(&self) -> Verdict {
        self.detector.as_ref().map_or(Verdict::Unknown, Detector::verdict)
    }

    /// What the high class would send beside its own retransmissions, and whether more follows.
    #[inline]
    fn high_source(&mut self, now: Nanos) -> Option<(HighSource, Range, bool)> {
        let backlog = self.scheduler.backlog();
        if let Some(range) = self.low.peek_lost(End::First, self.scheduler.acked()) {
            return Some((HighSource::Lost, range, self.low.buffered() > 1 || backlog > 0));
        }
        if backlog > 0
            // Soon what is behind the holes would fill the receive window.
            && (self.scheduler.free() as f64) < self.config.unblock * self.config.rwnd as f64
            && let Some(range) = self.low.peek_overdue(now, 2 * self.high.srtt())
        {
            return Some((HighSource::Overdue, range, true));
        }
        let range = self.scheduler.peek()?;
        Some((HighSource::New, range, backlog > u64::from(range.len)))
    }

    #[inline]
    fn poll_high(&mut self, now: Nanos) -> Option<Packet> {
        if self.high_waits {
            return None;
        }
        let source = self.high_source(now);
        let (range, more) = (source.map(|s| s.1), source.is_some_and(|s| s.2));
        let Some((packet, taken)) = self.high.poll(now, range, more) else {
            self.high_waits = source.is_some();
            return None;
        };
        match source {
            Some((HighSource::Lost, ..)) if taken => {
                self.low.take_lost(End::First);
                self.repaired += 1;
            }
            Some((HighSource::New, range, _)) if taken => self.scheduler.take(range),
            Some((HighSource::Overdue, ..)) if taken => {
                self.low.take_overdue();
                self.repaired += 1;
            }
            _ => {}
        }
        Some(packet)
    }

    /// Time between probes.
    fn round_trip(&self) -> Nanos {
        match self.high.srtt() {
            0 => self.low.srtt().max(self.config.low.min_rto),
            srtt => srtt,
        }
    }

    /// What the low class would send next.
    #[inline]
    fn low_source(&mut self) -> Option<(Source, Range)> {
        if self.low.is_parked()
            && let Some(range) = self.high.newest()
        {
            // Nothing waits for a probe: it may starve.
            return Some((Source::Copy, range));
        }
        // What the high class can send within a round trip is left to it.
        if self.config.rexmt_on_low
            && self.low.buffered() as f64 > self.high_window()
            && let Some(range) = self.low.peek_lost(End::Last, self.scheduler.acked())
        {
            return Some((Source::Lost, range));
        }
        if let Some(range) = self.scheduler.peek() {
            return Some((Source::New, range));
        }
        if self.config.duplicate_tail && self.scheduler.backlog() == 0 {
            let (number, range) = self.high.outstanding_from(self.tail)?;
            return Some((Source::Tail(number), range));
        }
        None
    }

    /// Packets that the low class may have outstanding whatever its own window says: while nothing is
    /// known of priority, no more than the high class.
    fn most(&self) -> f64 {
        match &self.detector {
            Some(detector) if detector.verdict() == Verdict::Unknown => self.high_window(),
            _ => f64::INFINITY,
        }
    }

    /// Packets.
    fn high_window(&self) -> f64 {
        self.high.controller().cwnd() as f64 / f64::from(self.config.mss)
    }

    /// Begin a train if it is time. Returns whether the low class has to wait until its window has room
    /// for one.
    #[inline]
    fn begin_train(&mut self, now: Nanos) -> bool {
        let (most, rtt) = (self.most(), self.round_trip());
        let window = self.low.window().min(most);
        let Some(detector) = &mut self.detector else { return false };
        if !detector.is_due(now) {
            return false;
        }
        let size = detector.size(window);
        let packets = 2 * size as u64;
        let bytes = packets * u64::from(self.config.mss);
        if self.scheduler.backlog().min(self.scheduler.free()) < bytes {
            return false;
        }
        if self.low.is_parked() {
            // A pair in the place of a probe: starvation tells of priority, too.
            if self.low.allows(now, 1, most) {
                detector.begin(now, rtt, size);
            }
            return false;
        }
        if packets as f64 > window {
            return false;
        }
        if !self.low.allows(now, packets, most) {
            return true;
        }
        detector.begin(now, rtt, size);
        false
    }

    fn train_class(&self) -> Option<Class> {
        self.detector.as_ref().and_then(Detector::next_class)
    }

    /// A packet of a train: new data, all at once.
    fn poll_train(&mut self, now: Nanos, class: Class) -> Option<Packet> {
        let detector = self.detector.as_mut()?;
        let Some(range) = self.scheduler.peek() else {
            detector.abandon();
            return None;
        };
        detector.on_sent();
        let begun = detector.begun();
        self.scheduler.take(range);
        let mut packet = self.send_low(now, range, false);
        packet.timestamp = begun;
        packet.aux[2] = probe_mark(class);
        if class == Class::High {
            packet.dscp = self.ends.dscp;
        }
        Some(packet)
    }

    fn poll_low(&mut self, now: Nanos) -> Option<Packet> {
        self.wake = Nanos::MAX;
        if self.verdict() == Verdict::NoPriority {
            return None;
        }
        if self.detector.is_some() {
            if self.begin_train(now) {
                return None;
            }
            if let Some(class) = self.train_class() {
                return self.poll_train(now, class);
            }
        }
        if !self.low.allows(now, 1, self.most()) {
            if self.low.is_parked() && self.low_source().is_some() {
                self.wake = self.low.probe_at();
            }
            return None;
        }
        let (source, range) = self.low_source()?;
        let allowance = self
            .scheduler
            .low_allowance(self.high.outstanding_bytes(), self.high.controller().cwnd());
        if self.low.outstanding_bytes() + u64::from(range.len) > allowance {
            return None;
        }
        if self.pace_next > now {
            self.wake = self.pace_next;
            return None;
        }
        match source {
            Source::New => self.scheduler.take(range),
            Source::Lost => {
                self.low.take_lost(End::Last);
                self.repaired += 1;
            }
            Source::Copy => {}
            Source::Tail(number) => self.tail = number + 1,
        }
        let copy = matches!(source, Source::Copy | Source::Tail(_));
        Some(self.send_low(now, range, copy))
    }

    #[inline]
    fn send_low(&mut self, now: Nanos, range: Range, copy: bool) -> Packet {
        let id = self.low.send(now, range, copy, self.round_trip());
        let mut packet = self.ends.packet(Kind::LowPayload, LOW_HEADER_BYTES, range.len, now);
        packet.dscp = self.config.low_dscp;
        packet.seq = id;
        packet.aux[0] = range.start;
        if self.config.line_rate < f64::INFINITY {
            let gap = f64::from(packet.ip_bytes) * 8e9 / self.config.line_rate;
            self.pace_next = self.pace_next.max(now).saturating_add(gap as Nanos);
        }
        packet
    }

    fn on_report(&mut self, now: Nanos, packet: &Packet) {
        self.high_waits = false;
        if let Some(data_ack) = self.high.on_ack(now, packet) {
            self.scheduler.on_ack(data_ack, None);
            self.rtt_sample = self.high.rtt_sample();
        }
    }

    fn on_strong_ack(&mut self, now: Nanos, packet: &Packet) {
        let ack = StrongAck::decode(packet);
        let Some(rtt) = self.low.on_ack(now, &ack) else { return };
        self.rtt_sample = Some(rtt);
        let window = u64::from(ack.window) << self.config.scale;
        self.scheduler.on_ack(ack.data_ack, Some(window.min(self.config.rwnd)));
        let rtt = self.round_trip();
        if let (Some(detector), Some((class, at))) = (&mut self.detector, ack.probe) {
            detector.on_arrival(now, rtt, ack.echo, class, at);
        }
    }
}

impl FlowSender for Sender {
    fn on_start(&mut self, now: Nanos) {
        self.high.start(now);
    }

    fn write(&mut self, _now: Nanos, bytes: u64) {
        self.scheduler.write(bytes);
    }

    fn truncate(&mut self) {
        self.high_waits = false;
        self.scheduler.truncate();
    }

    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        if let Some(packet) = self.ready.take() {
            return Some(packet);
        }
        // Nothing comes between the packets of a train.
        if self.train_class().is_none()
            && let Some(packet) = self.poll_high(now)
        {
            return Some(packet);
        }
        self.poll_low(now)
    }

    fn on_feedback(&mut self, now: Nanos, packet: &Packet, _report: &[Arrival]) {
        match packet.kind {
            Kind::Report => self.on_report(now, packet),
            Kind::StrongAck => self.on_strong_ack(now, packet),
            _ => {}
        }
    }

    fn next_timeout(&self) -> Nanos {
        self.high.next_timeout().min(self.low.deadline()).min(self.wake)
    }

    fn on_timeout(&mut self, now: Nanos) {
        self.high_waits = false;
        if self.wake <= now {
            self.wake = Nanos::MAX;
        }
        self.low.on_timeout(now, self.round_trip());
        if self.high.next_timeout() <= now {
            let source = self.high_source(now);
            let (range, more) = (source.map(|s| s.1), source.is_some_and(|s| s.2));
            self.high.on_timeout(now, range, more);
            // A tail loss probe must find the data that it was promised.
            self.ready = self.poll_high(now);
        }
    }

    fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    fn rtt_sample(&self) -> Option<Nanos> {
        self.rtt_sample
    }

    fn snapshot(&self) -> Snapshot {
        let cc = self.high.controller();
        let mss = f64::from(self.config.mss);
        Snapshot {
            window: self.high_window(),
            ssthresh: match cc.ssthresh() {
                u64::MAX => f64::NAN,
                bytes => bytes as f64 / mss,
            },
            in_flight: (self.high.in_flight() + self.low.outstanding()) as f64,
            rate: f64::NAN,
            srtt: self.high.srtt(),
            phase: match self.verdict() {
                Verdict::NoPriority => "hcm-only",
                _ if self.low.is_parked() => "parked",
                _ => cc.phase(),
            },
        }
    }

    fn stats(&self) -> SenderStats {
        let mut stats = *self.high.stats();
        stats.sent += self.low.counts().sent;
        stats.retransmits += self.repaired;
        stats
    }

    fn take_error(&mut self) -> Option<String> {
        self.high.take_error()
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        let counts = self.low.counts();
        out("hcm_cwnd", self.high_window());
        out("hcm_in_flight", self.high.in_flight() as f64);
        out("lcm_cwnd", self.low.window());
        out("lcm_outstanding", self.low.outstanding() as f64);
        out("lcm_srtt", self.low.srtt() as f64 / 1e9);
        out("lcm_loss", self.low.loss_ratio());
        out("lcm_sent", counts.sent as f64);
        out("lcm_lost", counts.lost as f64);
        out("lcm_spurious", counts.late as f64);
        out("lcm_timeouts", counts.timeouts as f64);
        out("rexmt_buffer", self.low.buffered() as f64);
        out("free_rwnd", self.scheduler.free() as f64);
        out("probe_trains", self.detector.as_ref().map_or(0.0, |d| d.trains() as f64));
        out("priority", self.verdict().number());
    }
}
