//! Flow queueing: packets hashed to queues, and the scheduler of FQ-CoDel (RFC 8290 section 4), deficit
//! round robin in which queues that have just become active go first. What manages each queue is the
//! discipline's own; its state lies with the queue.

use crate::largest::Largest;
use crate::params::{ParamInfo, Unit};
use crate::pool::{Chain, Place, Pool};
use crate::{Amount, Packet};

const NONE: u32 = u32::MAX;
/// Most packets that all queues of one pool may hold.
pub(crate) const MOST_PACKETS: f64 = (NONE - 1) as f64;
/// A queue takes about 80 bytes also when it is empty.
const MOST_QUEUES: f64 = 1_048_576.0;

/// Finaliser of SplitMix64: every input bit reaches every output bit.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A salted hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Salt(u64);

impl Salt {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// 32 bits that depend on every bit of `hash` and of the salt.
    pub(crate) fn hash(self, hash: u32) -> u32 {
        (mix(u64::from(hash) ^ self.0) >> 32) as u32
    }

    /// Queue that packets with this hash go to, evenly spread over `queues`.
    pub(crate) fn bucket(self, hash: u32, queues: usize) -> usize {
        ((u64::from(self.hash(hash)) * queues as u64) >> 32) as usize
    }
}

/// The parameter `flows`, the number of queues.
pub(crate) fn flows_info(default: u64) -> ParamInfo {
    ParamInfo::new("flows", Unit::Count, default, "Queues that flows are hashed to")
        .at_least(1.0)
        .at_most(MOST_QUEUES)
}

/// The parameter `quantum`.
pub(crate) fn quantum_info() -> ParamInfo {
    ParamInfo::new("quantum", Unit::Bytes, 1514, "Bytes that a queue sends in a round")
        .at_least(256.0)
        .at_most(1_048_576.0)
}

/// The parameter `memory_limit`, with the default of Linux.
pub(crate) fn memory_info() -> ParamInfo {
    ParamInfo::new("memory_limit", Unit::Bytes, 32 << 20, "Most bytes held by all queues")
        .at_least(1.0)
}

/// One queue of a [`FlowStore`].
#[derive(Clone, Debug)]
struct Flow<S> {
    chain: Chain,
    packets: u32,
    state: S,
}

/// Many FIFO queues in one pool, each with a state of type `S`.
#[derive(Debug)]
pub(crate) struct FlowStore<P, S> {
    flows: Vec<Flow<S>>,
    /// Bytes in each.
    bytes: Largest,
    totals: Totals<P>,
}

#[derive(Debug)]
struct Totals<P> {
    pool: Pool<P>,
    packets: u64,
    bytes: u64,
    largest_packet: u32,
}

/// One queue of a [`FlowStore`], to take packets from.
pub(crate) struct FlowSource<'a, P> {
    totals: &'a mut Totals<P>,
    chain: &'a mut Chain,
    packets: &'a mut u32,
    bytes: &'a mut Largest,
    index: usize,
}

impl<P: Packet> FlowSource<'_, P> {
    /// Takes the packet at the head.
    pub(crate) fn pop(&mut self) -> Option<P> {
        let packet = self.totals.pool.pop(self.chain)?;
        self.account(&packet);
        Some(packet)
    }

    /// Takes the packet that `find` points to.
    pub(crate) fn take(
        &mut self,
        find: impl FnOnce(&Pool<P>, Chain) -> Option<Place>,
    ) -> Option<P> {
        let place = find(&self.totals.pool, *self.chain)?;
        let packet = self.totals.pool.remove(self.chain, place)?;
        self.account(&packet);
        Some(packet)
    }

    /// Takes the packet that came last.
    pub(crate) fn pop_tail(&mut self) -> Option<P> {
        let packet = self.totals.pool.pop_tail(self.chain)?;
        self.account(&packet);
        Some(packet)
    }

    pub(crate) fn head(&self) -> Option<&P> {
        self.totals.pool.head(*self.chain)
    }

    fn account(&mut self, packet: &P) {
        let bytes = u64::from(packet.bytes());
        *self.packets -= 1;
        self.bytes.set(self.index, self.bytes.get(self.index) - bytes);
        self.totals.packets -= 1;
        self.totals.bytes -= bytes;
    }

    pub(crate) fn packets(&self) -> u32 {
        *self.packets
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get(self.index)
    }

    /// Bytes in all queues, and of the largest packet seen in any.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.totals.bytes
    }

    pub(crate) fn largest_packet(&self) -> u32 {
        self.totals.largest_packet
    }
}

impl<P: Packet, S: Clone> FlowStore<P, S> {
    /// So many empty queues, each with this state.
    pub(crate) fn new(flows: usize, state: S) -> Self {
        Self {
            flows: vec![Flow { chain: Chain::default(), packets: 0, state }; flows],
            bytes: Largest::new(flows),
            totals: Totals { pool: Pool::new(), packets: 0, bytes: 0, largest_packet: 0 },
        }
    }
}

impl<P: Packet, S> FlowStore<P, S> {
    pub(crate) fn push(&mut self, index: usize, packet: P) {
        let bytes = packet.bytes();
        let flow = &mut self.flows[index];
        self.totals.packets += 1;
        self.totals.bytes += u64::from(bytes);
        self.totals.largest_packet = self.totals.largest_packet.max(bytes);
        self.bytes.set(index, self.bytes.get(index) + u64::from(bytes));
        self.totals.pool.push(&mut flow.chain, packet);
        flow.packets += 1;
    }

    /// State of a queue, and its packets.
    pub(crate) fn flow(&mut self, index: usize) -> (&mut S, FlowSource<'_, P>) {
        let flow = &mut self.flows[index];
        let source = FlowSource {
            totals: &mut self.totals,
            chain: &mut flow.chain,
            packets: &mut flow.packets,
            bytes: &mut self.bytes,
            index,
        };
        (&mut flow.state, source)
    }

    pub(crate) fn peek(&self, index: usize) -> &S {
        &self.flows[index].state
    }

    pub(crate) fn state(&mut self, index: usize) -> &mut S {
        &mut self.flows[index].state
    }

    pub(crate) fn is_empty(&self, index: usize) -> bool {
        self.flows[index].chain.is_empty()
    }

    /// The queue with the most bytes.
    pub(crate) fn fattest(&mut self) -> usize {
        self.bytes.find()
    }

    /// Number of queues.
    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Queues that hold packets.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.positive()
    }

    pub(crate) fn packets(&self) -> u64 {
        self.totals.packets
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.totals.bytes
    }

    pub(crate) fn amount(&self) -> Amount {
        Amount { packets: self.totals.packets, bytes: self.totals.bytes }
    }
}

/// Place of a queue in the rounds, and the state of what manages it.
#[derive(Clone, Debug)]
pub(crate) struct Turn<S> {
    state: S,
    /// Bytes it may send before the next takes its turn.
    credits: i64,
    /// Next queue of the list this one is on.
    next: u32,
    active: bool,
}

/// Queues in the order of service, linked through [`Turn::next`].
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
    fn push<S>(&mut self, flows: &mut [Flow<Turn<S>>], flow: u32) {
        flows[flow as usize].state.next = NONE;
        if self.head == NONE {
            self.head = flow;
        } else {
            flows[self.tail as usize].state.next = flow;
        }
        self.tail = flow;
    }

    fn pop<S>(&mut self, flows: &[Flow<Turn<S>>]) {
        self.head = flows[self.head as usize].state.next;
    }
}

/// Queues served in rounds by bytes, new ones first (RFC 8290 section 4.2). Each has a state of
/// type `S`.
#[derive(Debug)]
pub(crate) struct FlowQueues<P, S> {
    store: FlowStore<P, Turn<S>>,
    quantum: i64,
    new: List,
    old: List,
}

impl<P: Packet, S: Clone + Default> FlowQueues<P, S> {
    /// `quantum`: bytes that a queue sends in a round.
    pub(crate) fn new(flows: usize, quantum: u64) -> Self {
        Self::with_state(flows, quantum, S::default())
    }
}

impl<P: Packet, S: Clone> FlowQueues<P, S> {
    /// Queues that begin in this state.
    pub(crate) fn with_state(flows: usize, quantum: u64, state: S) -> Self {
        Self {
            store: FlowStore::new(flows, Turn { state, credits: 0, next: NONE, active: false }),
            quantum: quantum as i64,
            new: List::default(),
            old: List::default(),
        }
    }
}

impl<P: Packet, S> FlowQueues<P, S> {
    /// Appends a packet; a queue that was idle becomes a new one.
    pub(crate) fn push(&mut self, index: usize, packet: P) {
        self.store.push(index, packet);
        let turn = self.store.state(index);
        if !turn.active {
            turn.active = true;
            turn.credits = self.quantum;
            self.new.push(&mut self.store.flows, index as u32);
        }
    }

    /// The packet that `take` finds in the next queue in which it finds one.
    pub(crate) fn dequeue(
        &mut self,
        mut take: impl FnMut(&mut S, &mut FlowSource<'_, P>) -> Option<P>,
    ) -> Option<P> {
        loop {
            let from_new = self.new.head != NONE;
            let list = if from_new { &mut self.new } else { &mut self.old };
            let head = list.head;
            if head == NONE {
                return None;
            }
            let index = head as usize;
            let (turn, mut source) = self.store.flow(index);
            if turn.credits <= 0 {
                turn.credits += self.quantum;
                list.pop(&self.store.flows);
                self.old.push(&mut self.store.flows, head);
                continue;
            }
            if let Some(packet) = take(&mut turn.state, &mut source) {
                turn.credits -= i64::from(packet.bytes());
                return Some(packet);
            }
            list.pop(&self.store.flows);
            if from_new {
                // A round as an old flow before it may be new again, or a flow that sends one
                // packet at a time would starve the others (RFC 8290 section 4.2).
                self.old.push(&mut self.store.flows, head);
            } else {
                self.store.state(index).active = false;
            }
        }
    }

    /// State of a queue, and its packets.
    pub(crate) fn flow(&mut self, index: usize) -> (&mut S, FlowSource<'_, P>) {
        let (turn, source) = self.store.flow(index);
        (&mut turn.state, source)
    }

    /// The queue with the most bytes.
    pub(crate) fn fattest(&mut self) -> usize {
        self.store.fattest()
    }

    pub(crate) fn store(&self) -> &FlowStore<P, Turn<S>> {
        &self.store
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
            let salt = Salt::new(u64::from(seed));
            let mut used = vec![0_u32; 1024];
            for flow in 0..100 {
                used[salt.bucket(flow, 1024)] += 1;
            }
            alone += used.iter().filter(|&&n| n == 1).count();
        }
        let share = alone as f64 / f64::from(trials * 100);
        assert!((share - 0.9078).abs() < 0.01, "{share}");
    }
}
