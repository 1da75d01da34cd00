//! Measures the loss event rate and the receive rate, and reports them once a round trip (RFC 5348
//! section 6).

use std::collections::VecDeque;

use dumbbell_queue::Nanos;

use super::FEEDBACK_BYTES;
use super::equation::loss_rate;
use super::loss_events::LossEvents;
use super::loss_intervals::LossIntervals;
use crate::distinct::Distinct;
use crate::flow::{Ends, FlowReceiver};
use crate::{Kind, Packet};

/// Bounds of the round-trip time that a sender may tell, ns.
const LEAST_RTT: Nanos = 1000;
const GREATEST_RTT: Nanos = 10_000_000_000_000;

/// Bytes that arrived since a time.
#[derive(Clone, Copy, Debug, Default)]
struct Arrived {
    bytes: u64,
    since: Nanos,
}

/// Bytes since the last feedback, and before it.
#[derive(Debug, Default)]
struct ReceiveRate {
    current: Arrived,
    previous: Arrived,
}

impl ReceiveRate {
    fn since(now: Nanos) -> Self {
        let nothing = Arrived { bytes: 0, since: now };
        Self { current: nothing, previous: nothing }
    }

    fn add(&mut self, bytes: u16) {
        self.current.bytes = self.current.bytes.saturating_add(bytes.into());
    }

    /// What has arrived over at least `rtt`, where the flow is as old. A feedback that comes early
    /// counts together with what the last one reported.
    fn over(&self, now: Nanos, rtt: Nanos) -> Arrived {
        if now - self.current.since >= rtt {
            self.current
        } else {
            let bytes = self.previous.bytes.saturating_add(self.current.bytes);
            Arrived { bytes, since: self.previous.since }
        }
    }

    /// Bytes a second.
    fn rate(&self, now: Nanos, rtt: Nanos) -> f64 {
        let Arrived { bytes, since } = self.over(now, rtt);
        if now > since { bytes as f64 * 1e9 / (now - since) as f64 } else { 0.0 }
    }

    fn restart(&mut self, now: Nanos, rtt: Nanos) {
        self.previous = self.over(now, rtt);
        self.current = Arrived { bytes: 0, since: now };
    }
}

pub(super) struct Receiver {
    ends: Ends,
    /// Bytes of a full packet.
    size: f64,
    losses: LossEvents,
    intervals: LossIntervals,
    /// First loss of the last event.
    event: u64,
    highest: u64,
    distinct: Distinct,
    delivered: u64,
    /// As the sender knows it; 0 until it does.
    rtt: Nanos,
    received: ReceiveRate,
    /// Sending and arrival times of the last packet; none before the first.
    last: Option<(Nanos, Nanos)>,
    /// p of the last feedback.
    reported: f64,
    /// When a round trip since the last feedback is over; [`Nanos::MAX`]: the next packet is answered.
    timer: Nanos,
    feedback: VecDeque<Packet>,
}

impl Receiver {
    pub(super) fn new(packet: u16, discounting: bool, ends: Ends) -> Self {
        Self {
            ends,
            size: packet.into(),
            losses: LossEvents::default(),
            intervals: LossIntervals::new(discounting),
            event: 0,
            highest: 0,
            distinct: Distinct::default(),
            delivered: 0,
            rtt: 0,
            received: ReceiveRate::default(),
            last: None,
            reported: 0.0,
            timer: Nanos::MAX,
            feedback: VecDeque::new(),
        }
    }

    fn loss_event_rate(&self) -> f64 {
        let open = self.highest.saturating_sub(self.event).saturating_add(1);
        self.intervals.rate(open as f64)
    }

    /// The interval before the first loss event: what would give TCP the present receive rate (section
    /// 6.3.1), no less than a packet a round trip.
    fn first_interval(&self, now: Nanos) -> f64 {
        let bytes = self.received.rate(now, self.rtt) * self.rtt as f64 / 1e9;
        1.0 / loss_rate((bytes / self.size).max(1.0))
    }

    fn report(&mut self, now: Nanos) {
        let Some((sent, arrived)) = self.last else { return };
        self.reported = self.loss_event_rate();
        let rate = self.received.rate(now, self.rtt);
        self.received.restart(now, self.rtt);
        self.timer = if self.rtt > 0 { now.saturating_add(self.rtt) } else { Nanos::MAX };
        let packet = self.ends.packet(Kind::Report, FEEDBACK_BYTES, 0, now);
        let aux = [now - arrived, rate.to_bits(), self.reported.to_bits()];
        self.feedback.push_back(Packet { seq: self.highest, timestamp: sent, aux, ..packet });
    }
}

impl FlowReceiver for Receiver {
    fn on_packet(&mut self, now: Nanos, packet: &Packet) {
        if packet.kind != Kind::Payload {
            return;
        }
        if packet.aux[2] > 0 {
            self.rtt = packet.aux[2].clamp(LEAST_RTT, GREATEST_RTT);
        }
        if self.last.is_none() {
            // The first packet's bytes belong to no interval.
            self.received = ReceiveRate::since(now);
        } else {
            self.received.add(packet.ip_bytes);
        }
        self.last = Some((packet.timestamp, now));
        self.highest = self.highest.max(packet.seq);
        if self.distinct.insert(packet.seq) {
            self.delivered = self.delivered.saturating_add(packet.payload.into());
        }
        let mut losses = std::mem::take(&mut self.losses);
        let mut event = false;
        losses.on_packet(packet.seq, now, self.rtt, packet.is_ce(), |first| {
            let length = if self.intervals.is_empty() {
                self.first_interval(now)
            } else {
                first.saturating_sub(self.event) as f64
            };
            self.intervals.close(length);
            self.event = first;
            event = true;
        });
        self.losses = losses;
        if self.timer == Nanos::MAX || event && self.loss_event_rate() > self.reported {
            self.report(now);
        }
    }

    fn poll_transmit(&mut self, _now: Nanos) -> Option<Packet> {
        self.feedback.pop_front()
    }

    fn next_timeout(&self) -> Nanos {
        self.timer
    }

    fn on_timeout(&mut self, now: Nanos) {
        if now < self.timer {
            return;
        }
        if self.received.current.bytes > 0 {
            self.report(now);
        } else {
            self.timer = Nanos::MAX;
        }
    }

    fn delivered_bytes(&self) -> u64 {
        self.delivered
    }
}
