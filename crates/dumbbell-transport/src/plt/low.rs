//! The low-priority module's congestion control: a window that is multiplied up while its loss ratio is
//! below a threshold, and down above.
//!
//! Ids count transmissions and are never used again, so a strong ACK leaves no doubt about which packet
//! it means. A lost range waits in the retransmission buffer, which is in the order of the connection: the
//! high class takes what the receiver waits for longest.

use std::collections::VecDeque;

use dumbbell_queue::Nanos;

use super::scheduler::Range;
use super::strong_ack::{SPAN, StrongAck};
use crate::tcp::RttEstimator;

/// Longest round trip that is believed.
const MAX_RTT: Nanos = 120_000_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) alpha: f64,
    pub(super) beta: f64,
    pub(super) mu: f64,
    /// Packets.
    pub(super) initial_window: f64,
    pub(super) max_window: f64,
    /// Packets of which the fate is known, for a measurement of loss.
    pub(super) period_packets: u64,
    /// A packet is lost when one sent so many later has arrived.
    pub(super) reordering: u64,
    pub(super) min_rto: Nanos,
    pub(super) max_rto: Nanos,
    pub(super) park_after: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Outstanding,
    Received,
    /// Lost; its range is in the retransmission buffer.
    Lost,
    /// Lost; nobody waits for it any more.
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    range: Range,
    sent: Nanos,
    state: State,
    /// The high class carries the range as well.
    copy: bool,
}

/// Which end of the retransmission buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

/// What has become of packets since `start`, those before `from` apart: they were sent before the
/// window was cut.
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    start: Nanos,
    from: u64,
    received: u64,
    lost: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) lost: u64,
    /// Lost packets that arrived after all.
    pub(super) late: u64,
    pub(super) timeouts: u64,
}

#[derive(Debug)]
pub(super) struct Low {
    config: Config,
    /// Of ids from `base` on.
    records: VecDeque<Record>,
    base: u64,
    /// Lost ranges in order of their place in the connection: start and id.
    buffer: VecDeque<(u64, u64)>,
    outstanding: u64,
    outstanding_bytes: u64,
    window: f64,
    highest: Option<u64>,
    /// Bit n: `highest - n` is known to have arrived.
    known: u128,
    /// All ids before it are received or lost.
    judged: u64,
    /// Packets before it have been looked at by [`Self::peek_overdue`].
    looked_at: u64,
    /// Packets before it were sent with the window full.
    full_before: u64,
    period: Period,
    loss_ratio: f64,
    rtt: RttEstimator,
    backoff: u32,
    /// Of the timeout.
    deadline: Nanos,
    timeouts_in_row: u32,
    parked: bool,
    probe_at: Nanos,
    counts: Counts,
}

fn shifted(bits: u128, by: u64) -> u128 {
    if by >= SPAN { 0 } else { bits << by }
}

impl Low {
    pub(super) fn new(config: Config) -> Self {
        Self {
            window: config.initial_window,
            config,
            records: VecDeque::new(),
            base: 0,
            buffer: VecDeque::new(),
            outstanding: 0,
            outstanding_bytes: 0,
            highest: None,
            known: 0,
            judged: 0,
            looked_at: 0,
            full_before: 0,
            period: Period::default(),
            loss_ratio: 0.0,
            rtt: RttEstimator::new(0),
            backoff: 0,
            deadline: Nanos::MAX,
            timeouts_in_row: 0,
            parked: false,
            probe_at: 0,
            counts: Counts::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    pub(super) fn outstanding_bytes(&self) -> u64 {
        self.outstanding_bytes
    }

    /// Packets that may be outstanding.
    pub(super) fn window(&self) -> f64 {
        if self.parked { 1.0 } else { self.window }
    }

    pub(super) fn is_parked(&self) -> bool {
        self.parked
    }

    /// When a parked module sends again.
    pub(super) fn probe_at(&self) -> Nanos {
        self.probe_at
    }

    pub(super) fn srtt(&self) -> Nanos {
        self.rtt.srtt()
    }

    /// Of the last period of measurement.
    pub(super) fn loss_ratio(&self) -> f64 {
        self.loss_ratio
    }

    pub(super) fn deadline(&self) -> Nanos {
        self.deadline
    }

    fn next(&self) -> u64 {
        self.base + self.records.len() as u64
    }

    fn record(&mut self, id: u64) -> Option<&mut Record> {
        let index = usize::try_from(id.checked_sub(self.base)?).ok()?;
        self.records.get_mut(index)
    }

    fn rto(&self) -> Nanos {
        let Config { min_rto, max_rto, .. } = self.config;
        self.rtt.rto(self.backoff).max(min_rto << self.backoff.min(8)).min(max_rto.max(min_rto))
    }

    /// `packets` more may leave, if the window is no wider than `most`.
    #[inline]
    pub(super) fn allows(&self, now: Nanos, packets: u64, most: f64) -> bool {
        if self.parked {
            return packets == 1 && now >= self.probe_at;
        }
        (self.outstanding + packets) as f64 <= self.window.min(most)
    }

    /// A packet leaves: its id. While parked, the next one follows after `rtt`.
    #[inline]
    pub(super) fn send(&mut self, now: Nanos, range: Range, copy: bool, rtt: Nanos) -> u64 {
        let id = self.next();
        self.records.push_back(Record { range, sent: now, state: State::Outstanding, copy });
        self.counts.sent += 1;
        self.outstanding += 1;
        self.outstanding_bytes += u64::from(range.len);
        if (self.outstanding + 1) as f64 > self.window {
            self.full_before = id + 1;
        }
        if self.deadline == Nanos::MAX {
            self.deadline = now.saturating_add(self.rto());
        }
        if self.parked {
            self.probe_at = now.saturating_add(rtt);
        }
        id
    }

    /// A range of the retransmission buffer that the receiver is not known to have: the first in the
    /// connection, or the last.
    #[inline]
    pub(super) fn peek_lost(&mut self, which: End, acked: u64) -> Option<Range> {
        loop {
            let &(_, id) = match which {
                End::First => self.buffer.front()?,
                End::Last => self.buffer.back()?,
            };
            if let Some(record) = self.record(id)
                && record.state == State::Lost
                && record.range.end() > acked
            {
                return Some(record.range);
            }
            self.take_lost(which);
        }
    }

    /// What [`Self::peek_lost`] has shown leaves the retransmission buffer.
    pub(super) fn take_lost(&mut self, which: End) {
        let taken = match which {
            End::First => self.buffer.pop_front(),
            End::Last => self.buffer.pop_back(),
        };
        let Some((_, id)) = taken else { return };
        if let Some(record) = self.record(id)
            && record.state == State::Lost
        {
            record.state = State::Over;
        }
        self.forget();
    }

    /// The oldest range that is outstanding for longer than `age` and that the high class has not sent.
    pub(super) fn peek_overdue(&mut self, now: Nanos, age: Nanos) -> Option<Range> {
        let since = now.checked_sub(age)?;
        self.looked_at = self.looked_at.max(self.base);
        while let Some(&mut record) = self.record(self.looked_at) {
            if record.state == State::Outstanding && !record.copy {
                return (record.sent < since).then_some(record.range);
            }
            self.looked_at += 1;
        }
        None
    }

    /// The high class sends what [`Self::peek_overdue`] has shown.
    pub(super) fn take_overdue(&mut self) {
        let id = self.looked_at;
        if let Some(record) = self.record(id) {
            record.copy = true;
            self.looked_at += 1;
        }
    }

    /// Ranges in the retransmission buffer.
    pub(super) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    fn forget(&mut self) {
        while let Some(front) = self.records.front()
            && matches!(front.state, State::Received | State::Over)
        {
            self.records.pop_front();
            self.base += 1;
        }
    }

    /// A strong ACK arrived: the round-trip time that it gives.
    pub(super) fn on_ack(&mut self, now: Nanos, ack: &StrongAck) -> Option<Nanos> {
        if ack.highest >= self.next() {
            return None;
        }
        let sample = now.checked_sub(ack.echo).map(|rtt| rtt.min(MAX_RTT));
        if let Some(rtt) = sample {
            self.rtt.sample(now, rtt);
        }
        if self.take_bitmap(ack) {
            self.timeouts_in_row = 0;
            self.backoff = 0;
            self.parked = false;
        }
        self.detect_losses();
        self.forget();
        self.end_period(now);
        self.deadline =
            if self.outstanding > 0 { now.saturating_add(self.rto()) } else { Nanos::MAX };
        sample
    }

    /// Returns whether anything has newly arrived.
    fn take_bitmap(&mut self, ack: &StrongAck) -> bool {
        let highest = self.highest.unwrap_or(ack.highest);
        let top = highest.max(ack.highest);
        let known = shifted(self.known, top - highest);
        let received = shifted(ack.received, top - ack.highest);
        let mut fresh = received & !known;
        let news = fresh != 0;
        self.known = known | received;
        self.highest = Some(top);
        while fresh != 0 {
            let bit = fresh.trailing_zeros();
            fresh &= fresh - 1;
            let Some(id) = top.checked_sub(u64::from(bit)) else { break };
            self.receive(id);
        }
        news
    }

    #[inline]
    fn receive(&mut self, id: u64) {
        let Some(record) = self.record(id) else { return };
        let len = u64::from(record.range.len);
        match std::mem::replace(&mut record.state, State::Received) {
            State::Outstanding => {
                self.outstanding -= 1;
                self.outstanding_bytes -= len;
                if id >= self.period.from {
                    self.period.received += 1;
                    self.grow(id);
                }
            }
            State::Lost | State::Over => self.counts.late += 1,
            State::Received => {}
        }
    }

    /// Growth by alpha a round trip, in the form of alpha - 1 for each packet that arrives; none while
    /// the period has more losses than it may have, or if the window did not limit what was sent.
    #[inline]
    fn grow(&mut self, id: u64) {
        let resolved = (self.period.received + self.period.lost).max(self.config.period_packets);
        if id < self.full_before && self.period.lost as f64 <= self.config.mu * resolved as f64 {
            self.window = (self.window + self.config.alpha - 1.0).min(self.config.max_window);
        }
    }

    fn detect_losses(&mut self) {
        let Some(highest) = self.highest else { return };
        let bound = (highest + 1).saturating_sub(self.config.reordering);
        for id in self.judged.max(self.base)..bound {
            self.lose(id);
        }
        self.judged = self.judged.max(bound);
    }

    /// The packet is lost if it is outstanding.
    fn lose(&mut self, id: u64) {
        let Some(record) = self.record(id) else { return };
        if record.state != State::Outstanding {
            return;
        }
        let (range, copy) = (record.range, record.copy);
        record.state = if copy { State::Over } else { State::Lost };
        if !copy {
            self.keep((range.start, id));
        }
        self.outstanding -= 1;
        self.outstanding_bytes -= u64::from(range.len);
        self.counts.lost += 1;
        if id >= self.period.from {
            self.period.lost += 1;
        }
    }

    /// Into the retransmission buffer; at its end but for what was lost before.
    fn keep(&mut self, lost: (u64, u64)) {
        if self.buffer.back().is_none_or(|&last| last < lost) {
            self.buffer.push_back(lost);
        } else {
            let place = self.buffer.partition_point(|&other| other < lost);
            self.buffer.insert(place, lost);
        }
    }

    fn end_period(&mut self, now: Nanos) {
        let Period { start, received, lost, .. } = self.period;
        let resolved = received + lost;
        if resolved < self.config.period_packets || now.saturating_sub(start) < self.rtt.srtt() {
            return;
        }
        self.loss_ratio = lost as f64 / resolved as f64;
        if self.loss_ratio > self.config.mu {
            self.cut();
        }
        self.begin_period(now);
    }

    /// What was sent before the cut says nothing about the window after it.
    fn cut(&mut self) {
        self.window = (self.window * self.config.beta).max(1.0);
        self.period.from = self.next();
    }

    fn begin_period(&mut self, now: Nanos) {
        self.period = Period { start: now, received: 0, lost: 0, ..self.period };
    }

    /// The timeout, if it is due. A parked module keeps its window. `rtt` is the time until the first
    /// probe.
    pub(super) fn on_timeout(&mut self, now: Nanos, rtt: Nanos) {
        if now < self.deadline {
            return;
        }
        self.deadline = Nanos::MAX;
        self.counts.timeouts += 1;
        self.timeouts_in_row += 1;
        self.backoff += 1;
        for id in self.judged.max(self.base)..self.next() {
            self.lose(id);
        }
        self.judged = self.next();
        self.forget();
        if self.parked {
            return;
        }
        self.cut();
        self.begin_period(now);
        if self.timeouts_in_row >= self.config.park_after {
            self.parked = true;
            self.probe_at = now.saturating_add(rtt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn low(window: f64) -> Low {
        Low::new(Config {
            alpha: 2.0,
            beta: 0.5,
            mu: 0.05,
            initial_window: window,
            max_window: 1e6,
            period_packets: 32,
            reordering: 3,
            min_rto: 200 * MS,
            max_rto: 1000 * MS,
            park_after: 3,
        })
    }

    fn fill(low: &mut Low, now: Nanos) -> u64 {
        let mut sent = 0;
        while low.allows(now, 1, f64::INFINITY) {
            let range = Range { start: low.next() * 1000, len: 1000 };
            low.send(now, range, false, 50 * MS);
            sent += 1;
        }
        sent
    }

    /// Strong ACKs for ids of `from..to` for which `arrives` holds, sent at `now - 50 ms`.
    fn answer(low: &mut Low, now: Nanos, ids: std::ops::Range<u64>, arrives: impl Fn(u64) -> bool) {
        let mut received = 0u128;
        let mut last = ids.start;
        for id in ids.filter(|&id| arrives(id)) {
            received = shifted(received, id - last) | 1;
            last = id;
            let ack = StrongAck {
                highest: id,
                received,
                echo: now - 50 * MS,
                data_ack: 0,
                window: 0,
                probe: None,
            };
            low.on_ack(now, &ack);
        }
    }

    /// alpha = 2: 10, 20, 40, ... a round trip.
    #[test]
    fn doubles_per_round_trip() {
        let mut low = low(10.0);
        let mut next = 0;
        for round in 0..8u64 {
            let sent = fill(&mut low, round * 50 * MS);
            assert_eq!(sent, 10 << round);
            answer(&mut low, (round + 1) * 50 * MS, next..next + sent, |_| true);
            next += sent;
        }
        assert_eq!((low.outstanding(), low.window()), (0, 2560.0));
    }

    /// Of 1000 packets every tenth is lost: 0.1 > mu, so the window is halved, once; at every fiftieth
    /// (0.02) it goes on growing.
    #[test]
    fn multiplies_by_beta_above_mu() {
        let mut heavy = low(1000.0);
        fill(&mut heavy, 0);
        answer(&mut heavy, 50 * MS, 0..1000, |id| id % 10 != 9);
        // The first packets arrive before the losses are known: 32 allow one, later ones 5 %.
        assert!((heavy.loss_ratio() - 0.1).abs() < 0.05, "{}", heavy.loss_ratio());
        let after = heavy.window();
        assert!((500.0..=530.0).contains(&after), "{after}");
        assert_eq!(heavy.buffered() as u64, heavy.counts().lost);
        let mut light = low(1000.0);
        fill(&mut light, 0);
        answer(&mut light, 50 * MS, 0..1000, |id| id % 50 != 49);
        assert!(light.window() > 1900.0, "{}", light.window());
    }

    /// Reordering threshold 3: lost when id + 3 has arrived, not before.
    #[test]
    fn loses_what_three_later_packets_have_overtaken() {
        let mut low = low(10.0);
        fill(&mut low, 0);
        answer(&mut low, 50 * MS, 0..4, |id| id != 1);
        assert_eq!((low.counts().lost, low.peek_lost(End::First, 0)), (0, None));
        answer(&mut low, 50 * MS, 4..5, |_| true);
        assert_eq!(low.peek_lost(End::First, 0), Some(Range { start: 1000, len: 1000 }));
        // It comes after all: nobody needs to send it again.
        answer(&mut low, 51 * MS, 1..2, |_| true);
        assert_eq!((low.peek_lost(End::First, 0), low.counts().late), (None, 1));
    }

    /// Lost are ids 1 and 3, which carry the bytes from 1000 and 3000 on, and then, of what is sent after,
    /// id 11, which carries those from 0 on: first is the lowest byte, last the highest.
    #[test]
    fn lost_ranges_wait_in_the_order_of_the_connection() {
        let mut low = low(10.0);
        fill(&mut low, 0);
        answer(&mut low, 50 * MS, 0..8, |id| id != 1 && id != 3);
        for start in [10_000, 0, 20_000, 30_000, 40_000] {
            low.send(50 * MS, Range { start, len: 1000 }, false, 50 * MS);
        }
        answer(&mut low, 100 * MS, 8..15, |id| id != 11);
        let mut starts = Vec::new();
        for which in [End::First, End::Last, End::First] {
            starts.extend(low.peek_lost(which, 0).map(|range| range.start));
            low.take_lost(which);
        }
        assert_eq!((starts, low.buffered()), (vec![0, 3000, 1000], 0));
    }

    /// A strong ACK that repeats what others have told changes nothing, and one that others have
    /// overtaken only adds what they did not tell.
    #[test]
    fn strong_acks_may_be_lost_repeated_and_overtaken() {
        let ack = |highest, received| StrongAck {
            highest,
            received,
            echo: 0,
            data_ack: 0,
            window: 0,
            probe: None,
        };
        let mut low = low(200.0);
        fill(&mut low, 0);
        low.on_ack(MS, &ack(99, u128::MAX >> 28));
        assert_eq!(low.outstanding(), 100);
        low.on_ack(MS, &ack(99, u128::MAX >> 28));
        low.on_ack(MS, &ack(50, u128::MAX >> 77));
        assert_eq!(low.outstanding(), 100);
        low.on_ack(MS, &ack(101, 0b101));
        assert_eq!(low.outstanding(), 99);
        low.on_ack(MS, &ack(100, 1));
        assert_eq!((low.outstanding(), low.counts().lost, low.counts().late), (98, 0, 0));
    }

    /// RTT 50 ms and hardly any variation: outstanding for longer than that, the oldest first, each once.
    #[test]
    fn overdue_packets_are_shown_once() {
        let mut low = low(64.0);
        fill(&mut low, 0);
        answer(&mut low, 50 * MS, 0..62, |id| id != 60);
        assert_eq!(low.peek_overdue(50 * MS, 50 * MS), None);
        let mut starts = Vec::new();
        while let Some(range) = low.peek_overdue(52 * MS, 50 * MS) {
            starts.push(range.start);
            low.take_overdue();
        }
        assert_eq!(starts, [60_000, 62_000, 63_000]);
        // The high class carries them: nothing waits for the timeout.
        low.on_timeout(10_000 * MS, 80 * MS);
        assert_eq!((low.counts().lost, low.buffered()), (3, 0));
    }

    /// min_rto 200 ms after the last sign of life: 1.2 s before the first sample, then 200, 400, 800;
    /// halved three times, then parked with one packet each round trip; the first arrival ends it. No
    /// timeout is longer than 1 s.
    #[test]
    fn timeouts_park_it() {
        let mut low = low(64.0);
        let sent = fill(&mut low, 0);
        answer(&mut low, 50 * MS, 0..sent, |_| true);
        assert_eq!(low.window(), 128.0);
        fill(&mut low, 50 * MS);
        for (deadline, window) in [(250, 64.0), (650, 32.0), (1450, 1.0)] {
            assert_eq!(low.deadline(), deadline * MS);
            low.on_timeout(deadline * MS, 80 * MS);
            assert_eq!((low.outstanding(), low.window()), (0, window));
            fill(&mut low, deadline * MS);
        }
        assert_eq!(low.buffered(), 128 + 64 + 32);
        assert!(low.is_parked());
        assert_eq!(low.rto(), 1000 * MS);
        assert_eq!(fill(&mut low, 1529 * MS), 0);
        assert_eq!(fill(&mut low, 1530 * MS), 1);
        assert_eq!(fill(&mut low, 1579 * MS), 0);
        assert_eq!(fill(&mut low, 1580 * MS), 1);
        let last = low.next() - 1;
        answer(&mut low, 1630 * MS, last..last + 1, |_| true);
        assert!(!low.is_parked());
        assert!(low.window() >= 16.0);
    }
}
