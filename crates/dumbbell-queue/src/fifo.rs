//! First in, first out, with tail drop at a limit in packets, in bytes, or both.

use std::collections::VecDeque;

use serde_json::Value;

use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{
    Built, Counters, Dequeued, DropReason, Dropped, Enqueued, FifoLimit, Nanos, Packet,
    QueueDiscipline,
};

/// Linux `pfifo` takes the device's transmit queue length, which is 1000 on Ethernet.
const DEFAULT_PACKETS: u64 = 1000;

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "fifo",
        summary: "First in, first out; drops the arriving packet when full",
        source: "Linux pfifo and bfifo",
        params: vec![
            ParamInfo::new(
                "limit",
                Unit::Packets,
                Value::Null,
                "Most packets held; 1000 where limit_bytes is not given either",
            )
            .at_least(1.0),
            ParamInfo::new(
                "limit_bytes",
                Unit::Bytes,
                Value::Null,
                "Most bytes held; with limit, whichever is reached first",
            )
            .at_least(1.0),
        ],
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, _seed: u64) -> Built<P> {
    let packets = values.optional("limit");
    let bytes = values.optional("limit_bytes");
    let unlimited = if bytes.is_some() { u64::MAX } else { DEFAULT_PACKETS };
    Ok(Box::new(Fifo::new(FifoLimit {
        packets: packets.unwrap_or(unlimited),
        bytes: bytes.unwrap_or(u64::MAX),
    })))
}

/// A tail-drop FIFO.
#[derive(Debug)]
struct Fifo<P> {
    limit: FifoLimit,
    packets: VecDeque<P>,
    bytes: u64,
    counters: Counters,
}

impl<P> Fifo<P> {
    fn new(limit: FifoLimit) -> Self {
        Self { limit, packets: VecDeque::new(), bytes: 0, counters: Counters::default() }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Fifo<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        let bytes = self.bytes + u64::from(packet.bytes());
        if self.backlog_packets() >= self.limit.packets || bytes > self.limit.bytes {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        packet.set_enqueued_at(now);
        self.bytes = bytes;
        self.packets.push_back(packet);
        Enqueued::Accepted
    }

    fn dequeue(&mut self, _now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        let Some(packet) = self.packets.pop_front() else {
            return Dequeued::Empty;
        };
        self.bytes -= u64::from(packet.bytes());
        self.counters.dequeued += 1;
        Dequeued::Packet(packet)
    }

    fn backlog_packets(&self) -> u64 {
        self.packets.len() as u64
    }

    fn backlog_bytes(&self) -> u64 {
        self.bytes
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn fifo_fixed_rate(&self) -> Option<FifoLimit> {
        Some(self.limit)
    }
}
