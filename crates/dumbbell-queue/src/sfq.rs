//! Stochastic fairness queueing (McKenney 1990): flows hashed to queues that are served in rounds by
//! bytes, with a hash that can be salted anew from time to time, and drops from the longest queue.

use std::collections::VecDeque;

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;
use serde_json::Value;

use crate::flow_queue::{FlowStore, MOST_PACKETS, Salt, quantum_info};
use crate::largest::Largest;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

pub(crate) fn info() -> QueueInfo {
    let packets = |name, default: u64, doc| {
        ParamInfo::new(name, Unit::Packets, default, doc).at_least(1.0).at_most(MOST_PACKETS)
    };
    QueueInfo {
        name: "sfq",
        summary: "Stochastic fairness queueing: hashed flows in rounds, drops from the longest",
        source: "McKenney, INFOCOM 1990; Linux sch_sfq",
        // Defaults of tc-sfq.
        params: vec![
            packets("limit", 127, "Most packets held by all queues"),
            ParamInfo::new("divisor", Unit::Count, 1024, "Queues that flows are hashed to")
                .at_least(1.0)
                .at_most(65_536.0),
            ParamInfo::new("flows", Unit::Count, 127, "Most queues that hold packets at one time")
                .at_least(1.0)
                .at_most(65_536.0),
            packets("depth", 127, "Most packets of one queue"),
            quantum_info(),
            ParamInfo::new(
                "perturb",
                Unit::Time,
                Value::Null,
                "Time after which the hash is salted anew",
            )
            .at_least(1_000_000.0),
            ParamInfo::new(
                "headdrop",
                Unit::Bool,
                false,
                "Drop the oldest packet of a queue that is too long, not the newest",
            ),
        ],
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let queues = values.whole("divisor") as usize;
    Ok(Box::new(Sfq {
        limit: values.whole("limit"),
        flows: values.whole("flows") as usize,
        depth: values.whole("depth"),
        quantum: values.whole("quantum") as i64,
        perturb: values.optional("perturb"),
        next_perturb: values.optional("perturb").unwrap_or_default(),
        headdrop: values.flag("headdrop"),
        salt: Salt::new(seed),
        random: Pcg32::seed_from_u64(seed),
        store: FlowStore::new(queues, 0),
        lengths: Largest::new(queues),
        order: VecDeque::new(),
        counters: Counters::default(),
    }))
}

#[derive(Debug)]
struct Sfq<P> {
    limit: u64,
    flows: usize,
    depth: u64,
    quantum: i64,
    perturb: Option<Nanos>,
    next_perturb: Nanos,
    headdrop: bool,
    salt: Salt,
    random: Pcg32,
    /// Each queue with the bytes it may still send in this round.
    store: FlowStore<P, i64>,
    /// Packets of each queue.
    lengths: Largest,
    /// Queues that hold packets, in the order of service.
    order: VecDeque<u32>,
    counters: Counters,
}

impl<P: Packet> Sfq<P> {
    fn push(&mut self, index: usize, packet: P) {
        if self.store.is_empty(index) {
            *self.store.state(index) = self.quantum;
            self.order.push_back(index as u32);
        }
        self.store.push(index, packet);
        self.lengths.set(index, self.lengths.get(index) + 1);
    }

    /// Drops a packet from one end of a queue.
    fn drop_from(&mut self, index: usize, dropped: &mut Dropped<P>) {
        let mut source = self.store.flow(index).1;
        let packet = if self.headdrop { source.pop() } else { source.pop_tail() };
        if let Some(packet) = packet {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            self.lengths.set(index, self.lengths.get(index) - 1);
        }
        if self.store.is_empty(index) {
            self.order.retain(|&queue| queue as usize != index);
        }
    }

    /// Salts the hash anew if it is time to, and moves the packets to where it sends them. A
    /// queue has its packets in order before and after, so no flow's packets change places.
    fn rehash(&mut self, now: Nanos, dropped: &mut Dropped<P>) {
        let Some(perturb) = self.perturb.filter(|_| now >= self.next_perturb) else { return };
        self.next_perturb = now + perturb - (now - self.next_perturb) % perturb;
        self.salt = Salt::new(self.random.next_u64());
        let mut packets = Vec::with_capacity(self.store.packets() as usize);
        while let Some(index) = self.order.pop_front() {
            let index = index as usize;
            packets.extend(std::iter::from_fn(|| self.store.flow(index).1.pop()));
            self.lengths.set(index, 0);
        }
        for packet in packets {
            let index = self.salt.bucket(packet.flow_hash(), self.store.len());
            self.push(index, packet);
            if self.lengths.get(index) > self.depth || self.order.len() > self.flows {
                self.drop_from(index, dropped);
            }
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Sfq<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        self.rehash(now, dropped);
        packet.set_enqueued_at(now);
        let index = self.salt.bucket(packet.flow_hash(), self.store.len());
        self.push(index, packet);
        // The packet itself goes if it is the last of a queue that is cut at its tail or has no other.
        let length = self.lengths.get(index);
        let refused = if length > self.depth || self.order.len() > self.flows {
            self.drop_from(index, dropped);
            !self.headdrop || length == 1
        } else if self.store.packets() > self.limit {
            let longest = self.lengths.find();
            self.drop_from(longest, dropped);
            longest == index && (!self.headdrop || length == 1)
        } else {
            false
        };
        if refused { Enqueued::Dropped } else { Enqueued::Accepted }
    }

    fn dequeue(&mut self, _now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        while let Some(&head) = self.order.front() {
            let index = head as usize;
            let (allotment, mut source) = self.store.flow(index);
            if *allotment <= 0 {
                *allotment += self.quantum;
                self.order.rotate_left(1);
                continue;
            }
            let Some(packet) = source.pop() else {
                self.order.pop_front();
                continue;
            };
            *allotment -= i64::from(packet.bytes());
            self.lengths.set(index, self.lengths.get(index) - 1);
            if self.store.is_empty(index) {
                self.order.pop_front();
            }
            self.counters.dequeued += 1;
            return Dequeued::Packet(packet);
        }
        Dequeued::Empty
    }

    fn backlog(&self) -> Amount {
        self.store.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, _now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        out("flows_waiting", self.store.waiting() as f64);
    }
}
