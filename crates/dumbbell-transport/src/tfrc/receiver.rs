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
/// Packets a round trip that the interval before the first loss event is good for at least.
const LEAST_FIRST_RATE: f64 = 0.5;

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
    /// The greatest receive rate reported, bytes a second.
    greatest: f64,
    /// Sending and arrival times of the last packet; none before the first.
    last: Option<(Nanos, Nanos)>,
    /// p, as it was computed last.
    rate: f64,
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
            greatest: 0.0,
            last: None,
            rate: 0.0,
            timer: Nanos::MAX,
            feedback: VecDeque::new(),
        }
    }

    fn loss_event_rate(&self) -> f64 {
        let open = self.highest.saturating_sub(self.event).saturating_add(1);
        self.intervals.rate(open as f64)
    }

    /// The interval before the first loss event, which lost packet `first`: what would give TCP the
    /// greatest receive rate so far, but no less than half a packet a round trip, which is what remains if
    /// the very first packet is lost or marked (section 6.3.1).
    fn first_interval(&self, first: u64) -> f64 {
        let packets = self.greatest * self.rtt as f64 / 1e9 / self.size;
        let least = LEAST_FIRST_RATE;
        1.0 / loss_rate(if first == 0 { least } else { packets.max(least) })
    }

    fn report(&mut self, now: Nanos) {
        let Some((sent, arrived)) = self.last else { return };
        if self.timer == Nanos::MAX && self.rtt > 0 {
            // Nothing arrived in the last round trip but what is answered.
            self.received.current.since = now.saturating_sub(self.rtt);
        }
        self.rate = self.loss_event_rate();
        let received = self.received.rate(now, self.rtt);
        self.greatest = self.greatest.max(received);
        self.received.restart(now, self.rtt);
        self.timer = if self.rtt > 0 { now.saturating_add(self.rtt) } else { Nanos::MAX };
        let packet = self.ends.packet(Kind::Report, FEEDBACK_BYTES, 0, now);
        let aux = [now - arrived, received.to_bits(), self.rate.to_bits()];
        self.feedback.push_back(Packet { seq: self.highest, timestamp: sent, aux, ..packet });
    }
}

impl FlowReceiver for Receiver {
    fn on_packet(&mut self, now: Nanos, packet: &Packet) {
        if packet.kind != Kind::Payload {
            return;
        }
        if packet.aux[2] > 0 && packet.seq >= self.highest {
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
                self.first_interval(first)
            } else {
                first.saturating_sub(self.event) as f64
            };
            self.intervals.close(length);
            self.event = first;
            event = true;
        });
        self.losses = losses;
        let before = self.rate;
        if event {
            self.rate = self.loss_event_rate();
        }
        if self.timer == Nanos::MAX || self.rate > before {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_testing::MILLISECOND;

    const RTT: Nanos = 100 * MILLISECOND;

    /// Packets of 1000 bytes by number, time of arrival in ms, and round-trip time; what is fed back:
    /// receive rate and loss event rate.
    fn feedback(packets: &[(u64, u64, Nanos)]) -> Vec<(f64, f64)> {
        let ends = Ends::default();
        let mut receiver = Receiver::new(1000, true, ends);
        let mut found = Vec::new();
        for &(seq, ms, rtt) in packets {
            let now = ms * MILLISECOND;
            while receiver.next_timeout() <= now {
                receiver.on_timeout(receiver.next_timeout());
            }
            let packet = ends.packet(Kind::Payload, 40, 960, now);
            receiver.on_packet(now, &Packet { seq, aux: [0, 0, rtt], ..packet });
            while let Some(Packet { aux: [_, received, p], .. }) = receiver.poll_transmit(now) {
                found.push((f64::from_bits(received), f64::from_bits(p)));
            }
        }
        found
    }

    /// 10 packets in a round trip, then 2; then packet 60 is lost. The interval before is the one that gives
    /// 10 packets a round trip, 1 / p with p = 0.01217272 by bisection of the equation; the open one
    /// does not count yet.
    #[test]
    fn the_first_interval_is_of_the_greatest_receive_rate() {
        let fast = (0..50).map(|seq| (seq, 10 * seq, RTT));
        let slow = (50..64).filter(|&seq| seq != 60).map(|seq| (seq, 500 + 50 * (seq - 50), RTT));
        let found = feedback(&fast.chain(slow).collect::<Vec<_>>());
        let (received, p) = found[found.len() - 1];
        assert!(found.iter().any(|&(received, _)| (received - 100e3).abs() < 1.0), "{found:?}");
        assert!(received < 30e3, "{found:?}");
        assert!((p / 0.012_172_72 - 1.0).abs() < 1e-5, "{p}");
    }

    /// The first packet is lost: half a packet a round trip, p = 0.2064 and an interval of 4.84.
    #[test]
    fn losing_the_first_packet_leaves_half_a_packet_a_round_trip() {
        let found = feedback(&[(1, 0, 0), (2, 100, RTT), (3, 110, RTT)]);
        let (_, p) = found[found.len() - 1];
        assert!((1.0 / p - 4.84).abs() < 0.01, "{p}");
    }

    /// Where less than a packet arrives in each round trip, each is answered at once, and X_recv is of the
    /// last round trip: a packet in it (the note on the measured receive rate in section 6.2).
    #[test]
    fn the_receive_rate_is_at_least_a_packet_a_round_trip() {
        let found = feedback(&(0..6).map(|seq| (seq, 700 * seq, RTT)).collect::<Vec<_>>());
        assert_eq!(found.len(), 6);
        assert!(
            found[1..].iter().all(|&(received, _)| (received - 10e3).abs() < 1e-6),
            "{found:?}"
        );
    }

    /// The round-trip time is that of the highest packet: 8 of 100 ms comes late and does not change the 50
    /// ms of 9.
    #[test]
    fn the_round_trip_time_is_of_the_highest_packet() {
        let mut receiver = Receiver::new(1000, true, Ends::default());
        for (seq, rtt) in [(7, RTT), (9, RTT / 2), (8, RTT)] {
            let packet = Ends::default().packet(Kind::Payload, 40, 960, 0);
            receiver.on_packet(seq, &Packet { seq, aux: [0, 0, rtt], ..packet });
        }
        assert_eq!(receiver.rtt, RTT / 2);
    }
}
