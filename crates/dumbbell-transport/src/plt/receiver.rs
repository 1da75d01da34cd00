//! The receiving end: both classes' packets are put into one order.

use std::collections::VecDeque;

use dumbbell_queue::Nanos;

use super::high;
use super::strong_ack::{Class, SPAN, StrongAck};
use crate::flow::{Ends, FlowReceiver};
use crate::tcp::{Receiver as TcpReceiver, ReceiverConfig};
use crate::{IntervalSet, Kind, Packet};

/// A strong ACK waits for further packets so long at most, as ACKs of QUIC do (max_ack_delay, RFC 9000).
const DELAY: Nanos = 25_000_000;

/// Packets of a probe train are marked in `aux[2]` of low-class packets.
pub(super) fn probe_mark(class: Class) -> u64 {
    match class {
        Class::Low => 1,
        Class::High => 2,
    }
}

fn probe_class(packet: &Packet) -> Option<Class> {
    [Class::Low, Class::High].into_iter().find(|&class| packet.aux[2] == probe_mark(class))
}

/// The connection's bytes that have arrived.
#[derive(Debug, Default)]
struct Reassembly {
    next: u64,
    ahead: IntervalSet,
}

impl Reassembly {
    /// Take `len` bytes from `start` on; returns whether any of them are new.
    #[inline]
    fn insert(&mut self, start: u64, end: u64) -> bool {
        if end <= self.next {
            return false;
        }
        if start <= self.next && self.ahead.is_empty() {
            self.next = end;
            return true;
        }
        let mut fresh = false;
        self.ahead.insert(start.max(self.next), end, 0, |_, _| fresh = true);
        if let Some((end, _)) = self.ahead.pop_reached(self.next) {
            self.next = end;
        }
        fresh
    }
}

/// Which of the low class's last packets have arrived.
#[derive(Debug, Default)]
struct Ids {
    highest: u64,
    /// Bit n: `highest - n`. None before the first arrival.
    received: u128,
}

impl Ids {
    fn insert(&mut self, id: u64) {
        if self.received == 0 || id > self.highest {
            let by = id - self.highest;
            self.received = if by >= SPAN { 0 } else { self.received << by };
            self.highest = id;
        }
        let back = self.highest - id;
        if back < SPAN {
            self.received |= 1 << back;
        }
    }
}

pub(super) struct Receiver {
    ends: Ends,
    high: TcpReceiver,
    ids: Ids,
    data: Reassembly,
    /// Bytes beyond those in order that are taken.
    window: u64,
    /// As strong ACKs tell it.
    told_window: u16,
    ack_every: u32,
    /// Packets of the low class that no strong ACK has left for, and when one has to.
    pending: u32,
    due: Nanos,
    echo: Nanos,
    outgoing: VecDeque<Packet>,
    low_duplicates: u64,
    high_duplicates: u64,
}

impl Receiver {
    pub(super) fn new(
        ends: Ends,
        high: ReceiverConfig,
        window: u64,
        scale: u32,
        every: u32,
    ) -> Self {
        Self {
            ends,
            high: TcpReceiver::new(high),
            ids: Ids::default(),
            data: Reassembly::default(),
            window,
            told_window: (window >> scale).min(u64::from(u16::MAX)) as u16,
            ack_every: every,
            pending: 0,
            due: Nanos::MAX,
            echo: 0,
            outgoing: VecDeque::new(),
            low_duplicates: 0,
            high_duplicates: 0,
        }
    }

    /// Bytes that a packet carries, if they lie within the receive window.
    #[inline]
    fn range(&self, packet: &Packet) -> Option<(u64, u64)> {
        let start = packet.aux[0];
        let end = start.checked_add(u64::from(packet.payload))?;
        (start < end && end <= self.data.next.saturating_add(self.window)).then_some((start, end))
    }

    fn on_high(&mut self, now: Nanos, packet: &Packet) {
        let Some((start, end)) = self.range(packet) else { return };
        // No sender gets that far; the number after it must exist.
        if packet.seq == u64::MAX {
            return;
        }
        self.high_duplicates += u64::from(!self.data.insert(start, end));
        let ack = self.high.on_data(now, &Packet { kind: Kind::Data, ..*packet });
        self.report(ack);
    }

    fn report(&mut self, ack: Option<Packet>) {
        if let Some(ack) = ack {
            self.outgoing.push_back(high::report(ack, self.data.next));
        }
    }

    fn on_low(&mut self, now: Nanos, packet: &Packet) {
        let Some((start, end)) = self.range(packet) else { return };
        self.low_duplicates += u64::from(!self.data.insert(start, end));
        self.ids.insert(packet.seq);
        self.echo = packet.timestamp;
        self.pending += 1;
        let probe = probe_class(packet).map(|class| (class, now));
        if self.pending >= self.ack_every || probe.is_some() {
            self.strong_ack(probe);
        } else if self.due == Nanos::MAX {
            self.due = now.saturating_add(DELAY);
        }
    }

    fn strong_ack(&mut self, probe: Option<(Class, Nanos)>) {
        (self.pending, self.due) = (0, Nanos::MAX);
        let ack = StrongAck {
            highest: self.ids.highest,
            received: self.ids.received,
            echo: self.echo,
            data_ack: self.data.next,
            window: self.told_window,
            probe,
        };
        self.outgoing.push_back(ack.encode(&self.ends));
    }
}

impl FlowReceiver for Receiver {
    fn on_packet(&mut self, now: Nanos, packet: &Packet) {
        match packet.kind {
            Kind::Payload => self.on_high(now, packet),
            Kind::LowPayload => self.on_low(now, packet),
            _ => {}
        }
    }

    fn poll_transmit(&mut self, _now: Nanos) -> Option<Packet> {
        self.outgoing.pop_front()
    }

    fn next_timeout(&self) -> Nanos {
        self.high.next_timeout().min(self.due)
    }

    fn on_timeout(&mut self, now: Nanos) {
        let ack = self.high.on_timeout(now);
        self.report(ack);
        if now >= self.due {
            self.strong_ack(None);
        }
    }

    fn delivered_bytes(&self) -> u64 {
        self.data.next
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        out("lcm_duplicates", self.low_duplicates as f64);
        out("hcm_duplicates", self.high_duplicates as f64);
        out("reassembly_holes", self.data.ahead.len() as f64);
    }
}
