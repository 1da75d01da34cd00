//! Acknowledges each packet and tells the last hole.

use std::collections::VecDeque;

use dumbbell_queue::Nanos;

use super::HEADER_BYTES;
use crate::distinct::Distinct;
use crate::flow::{Ends, FlowReceiver};
use crate::{Kind, Packet};

/// What has arrived up to `last`: all after `missed`, and `before`, but nothing between `before` and
/// `missed`, as far as is known. Packets are numbered from 1; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hole {
    /// Highest number that has arrived.
    pub(super) last: u64,
    /// Highest number of the last hole.
    pub(super) missed: u64,
    /// Highest number that has arrived before the last hole.
    pub(super) before: u64,
}

impl Hole {
    /// Packet `seq` has arrived.
    pub(super) fn update(&mut self, seq: u64) {
        if seq <= self.before {
            // A late packet of an earlier hole, or a copy.
        } else if seq - 1 > self.last {
            *self = Self { last: seq, missed: seq - 1, before: self.last };
        } else if seq - 1 == self.last {
            self.last = seq;
        } else if seq == self.missed {
            if seq - 1 == self.before {
                *self = Self { last: self.last, ..Self::default() };
            } else {
                self.missed -= 1;
            }
        } else if seq < self.missed {
            self.before = seq;
        }
    }

    pub(super) fn has(&self, seq: u64) -> bool {
        seq <= self.last && (seq > self.missed || seq == self.before)
    }
}

pub(super) struct Receiver {
    ends: Ends,
    hole: Hole,
    distinct: Distinct,
    delivered: u64,
    acks: VecDeque<Packet>,
}

impl Receiver {
    pub(super) fn new(ends: Ends) -> Self {
        Self {
            ends,
            hole: Hole::default(),
            distinct: Distinct::default(),
            delivered: 0,
            acks: VecDeque::new(),
        }
    }
}

impl FlowReceiver for Receiver {
    fn on_packet(&mut self, now: Nanos, packet: &Packet) {
        if packet.kind != Kind::Payload || packet.seq == 0 {
            return;
        }
        self.hole.update(packet.seq);
        if self.distinct.insert(packet.seq) {
            self.delivered = self.delivered.saturating_add(packet.payload.into());
        }
        let Hole { last, missed, before } = self.hole;
        let ack = self.ends.packet(Kind::Report, HEADER_BYTES, 0, now);
        let aux = [last, missed, before];
        self.acks.push_back(Packet { seq: packet.seq, timestamp: packet.timestamp, aux, ..ack });
    }

    fn poll_transmit(&mut self, _now: Nanos) -> Option<Packet> {
        self.acks.pop_front()
    }

    fn next_timeout(&self) -> Nanos {
        Nanos::MAX
    }

    fn on_timeout(&mut self, _now: Nanos) {}

    fn delivered_bytes(&self) -> u64 {
        self.delivered
    }
}
