//! Who gets what of a link: schedulers and shapers with flows that always have packets waiting.

// Each test binary uses a part of this.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;

use dumbbell_queue::{Dequeued, Dropped, Nanos};

use super::{Queue, TestPacket};

/// Packets that each flow keeps in the queue.
const WAITING: u64 = 4;

/// Offers packets of flows so that each of them always has some waiting, and takes packets out.
pub struct Saturated {
    queue: Queue,
    flows: BTreeMap<u32, (TestPacket, u64)>,
    pub now: Nanos,
}

impl Saturated {
    /// One packet of each flow says what its packets are like.
    pub fn new(queue: Queue, flows: &[TestPacket]) -> Self {
        let flows = flows.iter().map(|&packet| (packet.flow, (packet, 0))).collect();
        Self { queue, flows, now: 0 }
    }

    /// The next packet that leaves, with the queue asked again when it said so.
    pub fn next(&mut self) -> TestPacket {
        let mut dropped = Dropped::new();
        for (packet, waiting) in self.flows.values_mut() {
            while *waiting < WAITING {
                self.queue.enqueue(self.now, *packet, &mut dropped);
                packet.seq += 1;
                *waiting += 1;
            }
        }
        loop {
            match self.queue.dequeue(self.now, &mut dropped) {
                Dequeued::Packet(packet) => {
                    assert!(dropped.is_empty());
                    self.flows.get_mut(&packet.flow).unwrap().1 -= 1;
                    return packet;
                }
                Dequeued::Wait(until) => {
                    assert!(until > self.now);
                    self.now = until;
                }
                Dequeued::Empty => panic!("empty with packets waiting"),
            }
        }
    }

    /// Flows of the next packets in order.
    pub fn order(&mut self, packets: usize) -> Vec<u32> {
        (0..packets).map(|_| self.next().flow).collect()
    }

    /// Bytes of each flow in so many packets.
    pub fn bytes(&mut self, packets: usize) -> BTreeMap<u32, u64> {
        let mut bytes = BTreeMap::new();
        for _ in 0..packets {
            let packet = self.next();
            *bytes.entry(packet.flow).or_default() += u64::from(packet.bytes);
        }
        bytes
    }

    /// Bytes of each flow by a time, of a queue that makes packets wait.
    pub fn bytes_until(&mut self, end: Nanos) -> BTreeMap<u32, u64> {
        let mut bytes: BTreeMap<u32, u64> = self.flows.keys().map(|&flow| (flow, 0)).collect();
        loop {
            let packet = self.next();
            if self.now > end {
                return bytes;
            }
            *bytes.entry(packet.flow).or_default() += u64::from(packet.bytes);
        }
    }
}

/// Jain's fairness index.
pub fn jain<'a>(values: impl IntoIterator<Item = &'a u64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for &value in values {
        count += 1.0;
        sum += value as f64;
        squares += (value as f64).powi(2);
    }
    sum * sum / (count * squares)
}
