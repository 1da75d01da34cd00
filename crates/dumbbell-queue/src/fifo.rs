//! First in, first out, with drops at a limit in packets, in bytes, or both.

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use serde_json::Value;

use crate::backlog::Backlog;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::random::uniform;
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, FifoLimit, Nanos, Packet,
    QueueDiscipline,
};

/// Linux `pfifo` takes the device's transmit queue length, which is 1000 on Ethernet.
const DEFAULT_PACKETS: u64 = 1000;

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "fifo",
        summary: "First in, first out; drops when full",
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
            ParamInfo::choice(
                "drop",
                &["tail", "head", "random"],
                "Which packet is dropped: the arriving, the oldest, or any",
            ),
        ],
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let packets = values.optional("limit");
    let bytes = values.optional("limit_bytes");
    let unlimited = if bytes.is_some() { u64::MAX } else { DEFAULT_PACKETS };
    Ok(Box::new(Fifo {
        limit: FifoLimit {
            packets: packets.unwrap_or(unlimited),
            bytes: bytes.unwrap_or(u64::MAX),
        },
        victim: match values.choice("drop") {
            "head" => Victim::Head,
            "random" => Victim::Random(Pcg32::seed_from_u64(seed)),
            _ => Victim::Tail,
        },
        backlog: Backlog::default(),
        counters: Counters::default(),
    }))
}

/// Which packet is dropped when the queue is full.
#[derive(Debug)]
enum Victim {
    Tail,
    Head,
    Random(Pcg32),
}

#[derive(Debug)]
struct Fifo<P> {
    limit: FifoLimit,
    victim: Victim,
    backlog: Backlog<P>,
    counters: Counters,
}

impl<P: Packet> Fifo<P> {
    fn fits(&self, packet: &P) -> bool {
        self.backlog.packets() < self.limit.packets
            && self.backlog.bytes() + u64::from(packet.bytes()) <= self.limit.bytes
    }

    /// The packet that goes so that another may stay; nothing where that is the arriving one.
    fn make_room(&mut self) -> Option<P> {
        match &mut self.victim {
            Victim::Tail => None,
            Victim::Head => self.backlog.pop(),
            Victim::Random(random) => {
                let candidates = self.backlog.packets() + 1;
                self.backlog.remove((uniform(random) * candidates as f64) as usize)
            }
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Fifo<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        while !self.fits(&packet) {
            let Some(victim) = self.make_room() else {
                self.counters.drop(packet, DropReason::Overflow, dropped);
                return Enqueued::Dropped;
            };
            self.counters.drop(victim, DropReason::Overflow, dropped);
        }
        self.backlog.push(now, packet);
        Enqueued::Accepted
    }

    fn dequeue(&mut self, _now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        self.counters.deliver(self.backlog.pop())
    }

    fn backlog(&self) -> Amount {
        self.backlog.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn fifo_fixed_rate(&self) -> Option<FifoLimit> {
        matches!(self.victim, Victim::Tail).then_some(self.limit)
    }
}
