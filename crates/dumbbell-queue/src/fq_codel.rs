//! FQ-CoDel (RFC 8290): flows hashed to queues served by deficit round robin, where queues that
//! have just become active go first, and CoDel on each.

use crate::codel::{Codel, CodelParams, Source};
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::pool::{Chain, Pool};
use crate::{
    Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet, QueueDiscipline,
};

const NONE: u32 = u32::MAX;

pub(crate) fn info() -> QueueInfo {
    // RFC 8290 sections 4.1 and 5.2; memory limit and drop batch as in Linux.
    let mut params = CodelParams::info(true);
    params.extend([
        ParamInfo::new("limit", Unit::Packets, 10_240, "Most packets held by all queues")
            .at_least(1.0)
            .at_most(f64::from(NONE - 1)),
        ParamInfo::new("flows", Unit::Count, 1024, "Queues that flows are hashed to")
            .at_least(1.0)
            .at_most(65_536.0),
        ParamInfo::new("quantum", Unit::Bytes, 1514, "Bytes that a queue sends in a round")
            .at_least(256.0)
            .at_most(1_048_576.0),
        ParamInfo::new("memory_limit", Unit::Bytes, 32 << 20, "Most bytes held by all queues")
            .at_least(1.0),
        ParamInfo::new(
            "drop_batch",
            Unit::Packets,
            64,
            "Most packets dropped at once from the largest queue when a limit is passed",
        )
        .at_least(1.0)
        .at_most(f64::from(NONE)),
    ]);
    QueueInfo {
        name: "fq_codel",
        summary: "Fair queueing of flows, each under CoDel; sparse flows go first",
        source: "RFC 8290",
        params,
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let flows = values.whole("flows") as usize;
    Ok(Box::new(FqCodel {
        params: CodelParams::from_values(values),
        limit: values.whole("limit"),
        memory_limit: values.whole("memory_limit"),
        quantum: values.whole("quantum") as i64,
        drop_batch: values.whole("drop_batch") as u32,
        salt: mix(seed),
        flows: vec![Flow::default(); flows],
        flow_bytes: vec![0; flows],
        new: List::default(),
        old: List::default(),
        store: Store { pool: Pool::new(), packets: 0, bytes: 0, largest: 0 },
        counters: Counters::default(),
    }))
}

/// Finaliser of SplitMix64: every input bit reaches every output bit.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Queue that a flow's packets go to, evenly spread over `queues`.
fn bucket(flow_hash: u32, salt: u64, queues: usize) -> usize {
    let spread = mix(u64::from(flow_hash) ^ salt) >> 32;
    ((spread * queues as u64) >> 32) as usize
}

/// One of the queues.
#[derive(Clone, Debug)]
struct Flow {
    chain: Chain,
    packets: u32,
    /// Next flow of the list this one is on.
    next: u32,
    active: bool,
    credits: i64,
    codel: Codel,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            chain: Chain::default(),
            packets: 0,
            next: NONE,
            active: false,
            credits: 0,
            codel: Codel::default(),
        }
    }
}

/// Flows in the order of service, linked through [`Flow::next`].
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl List {
    fn push(&mut self, flows: &mut [Flow], flow: u32) {
        flows[flow as usize].next = NONE;
        if self.head == NONE {
            self.head = flow;
        } else {
            flows[self.tail as usize].next = flow;
        }
        self.tail = flow;
    }

    fn pop(&mut self, flows: &[Flow]) {
        self.head = flows[self.head as usize].next;
    }
}

/// Packets of all queues with their totals.
#[derive(Debug)]
struct Store<P> {
    pool: Pool<P>,
    packets: u64,
    bytes: u64,
    largest: u32,
}

/// One queue of the store, as CoDel sees it.
struct FlowSource<'a, P> {
    store: &'a mut Store<P>,
    chain: &'a mut Chain,
    packets: &'a mut u32,
    bytes: &'a mut u64,
}

impl<P: Packet> Source<P> for FlowSource<'_, P> {
    fn pop(&mut self) -> Option<P> {
        let packet = self.store.pool.pop(self.chain)?;
        let bytes = u64::from(packet.bytes());
        *self.packets -= 1;
        *self.bytes -= bytes;
        self.store.packets -= 1;
        self.store.bytes -= bytes;
        Some(packet)
    }

    /// Linux compares the backlog of all queues: a flow's only packet may be dropped if it waited
    /// too long behind other flows.
    fn standing(&self) -> bool {
        self.store.bytes > u64::from(self.store.largest)
    }
}

#[derive(Debug)]
struct FqCodel<P> {
    params: CodelParams,
    limit: u64,
    memory_limit: u64,
    quantum: i64,
    drop_batch: u32,
    salt: u64,
    flows: Vec<Flow>,
    /// Apart from the flows, so that the search for the largest reads little memory.
    flow_bytes: Vec<u64>,
    new: List,
    old: List,
    store: Store<P>,
    counters: Counters,
}

impl<P: Packet> FqCodel<P> {
    /// RFC 8290 section 4.1: half the packets of the queue with the most bytes, from its head.
    fn drop_from_largest(&mut self, dropped: &mut Dropped<P>) {
        let Some((index, _)) = self
            .flow_bytes
            .iter()
            .enumerate()
            .max_by_key(|&(index, &bytes)| (bytes, std::cmp::Reverse(index)))
        else {
            return;
        };
        let flow = &mut self.flows[index];
        let drops = flow.packets.div_ceil(2).min(self.drop_batch);
        let mut source = FlowSource {
            store: &mut self.store,
            chain: &mut flow.chain,
            packets: &mut flow.packets,
            bytes: &mut self.flow_bytes[index],
        };
        for _ in 0..drops {
            dropped.extend(source.pop().map(|packet| (packet, DropReason::Overflow)));
        }
        self.counters.dropped_overflow += u64::from(drops);
        flow.codel.add_drops(drops);
    }

    fn over_limit(&self) -> bool {
        self.store.packets > self.limit || self.store.bytes > self.memory_limit
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for FqCodel<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        let index = bucket(packet.flow_hash(), self.salt, self.flows.len());
        let bytes = packet.bytes();
        packet.set_enqueued_at(now);
        self.store.packets += 1;
        self.store.bytes += u64::from(bytes);
        self.store.largest = self.store.largest.max(bytes);
        self.flow_bytes[index] += u64::from(bytes);
        let flow = &mut self.flows[index];
        self.store.pool.push(&mut flow.chain, packet);
        flow.packets += 1;
        if !flow.active {
            flow.active = true;
            flow.credits = self.quantum;
            self.new.push(&mut self.flows, index as u32);
        }
        while self.over_limit() {
            self.drop_from_largest(dropped);
        }
        // Drops come from heads, so this packet, a tail, went only if its queue is empty.
        if self.flows[index].chain.is_empty() { Enqueued::Dropped } else { Enqueued::Accepted }
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        loop {
            let from_new = self.new.head != NONE;
            let list = if from_new { &mut self.new } else { &mut self.old };
            let head = list.head;
            if head == NONE {
                return Dequeued::Empty;
            }
            let index = head as usize;
            let flow = &mut self.flows[index];
            if flow.credits <= 0 {
                flow.credits += self.quantum;
                list.pop(&self.flows);
                self.old.push(&mut self.flows, head);
                continue;
            }
            let mut source = FlowSource {
                store: &mut self.store,
                chain: &mut flow.chain,
                packets: &mut flow.packets,
                bytes: &mut self.flow_bytes[index],
            };
            let packet =
                flow.codel.dequeue(now, &self.params, &mut source, &mut self.counters, dropped);
            if let Some(packet) = packet {
                flow.credits -= i64::from(packet.bytes());
                self.counters.dequeued += 1;
                return Dequeued::Packet(packet);
            }
            list.pop(&self.flows);
            if from_new {
                // A round as an old flow before it may be new again, or a flow that sends one
                // packet at a time would starve the others (RFC 8290 section 4.2).
                self.old.push(&mut self.flows, head);
            } else {
                self.flows[index].active = false;
            }
        }
    }

    fn backlog_packets(&self) -> u64 {
        self.store.packets
    }

    fn backlog_bytes(&self) -> u64 {
        self.store.bytes
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&self, out: &mut dyn FnMut(&str, f64)) {
        let waiting = self.flow_bytes.iter().filter(|&&bytes| bytes > 0).count();
        out("flows_waiting", waiting as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8290 section 5.3: of 100 flows on 1024 queues, a flow has its queue to itself
    /// with probability 90.78 %.
    #[test]
    fn hundred_flows_seldom_collide() {
        let trials = 2000_u32;
        let mut alone = 0;
        for seed in 0..trials {
            let salt = mix(u64::from(seed));
            let mut used = vec![0_u32; 1024];
            for flow in 0..100 {
                used[bucket(flow, salt, 1024)] += 1;
            }
            alone += used.iter().filter(|&&n| n == 1).count();
        }
        let share = alone as f64 / f64::from(trials * 100);
        assert!((share - 0.9078).abs() < 0.01, "{share}");
    }
}
