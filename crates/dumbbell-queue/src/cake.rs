//! CAKE, common applications kept enhanced (Hoiland-Jorgensen, Taht and Morton 2018; Linux sch_cake): a
//! shaper, tins for Diffserv classes, and in each tin flow queues under COBALT, fair between hosts too.

mod ack_filter;
mod hosts;
mod shaper;
mod tins;

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;
use serde_json::Value;

use crate::cobalt::{Cobalt, CobaltParams, Leaving, Ramp, Sce};
use crate::flow_queue::{FlowStore, Salt};
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};
use ack_filter::AckFilter;
use hosts::{Found, Hosts, Isolation, Pair, Tags};
use shaper::{Framing, Rate, Shaper, TinClock};
use tins::{Diffserv, Share};

/// Queues of each tin, and hosts on each side.
const QUEUES: usize = 1024;
/// Least memory limit of a shaper; without one, 10240 full packets.
const LEAST_MEMORY: u64 = 4 << 20;
const UNLIMITED_MEMORY: u64 = 10_240 * 1514;
/// Least bandwidth in Linux, 64 bytes a second.
const LEAST_RATE: f64 = 512.0;
const NONE: u32 = u32::MAX;

pub(crate) fn info() -> QueueInfo {
    let mut params = vec![
        ParamInfo::new(
            "bandwidth",
            Unit::Rate,
            Value::Null,
            "Rate of the shaper; where not given, packets leave as the link takes them",
        )
        .at_least(LEAST_RATE)
        .at_most(1e12),
        ParamInfo::choice("diffserv", &Diffserv::NAMES, "Tins, by DSCP"),
        ParamInfo::choice("isolation", &Isolation::NAMES, "Fair between flows, hosts, or both"),
        ParamInfo::new(
            "rtt",
            Unit::Time,
            100_000_000,
            "Round-trip time of usual paths: COBALT's interval; the target is a twentieth",
        )
        .at_least(1000.0)
        .at_most(3.6e12),
    ];
    params.extend(Framing::info());
    params.extend([
        ParamInfo::choice("ack_filter", &AckFilter::NAMES, "Drop ACKs that newer ones replace"),
        ParamInfo::new(
            "memory_limit",
            Unit::Bytes,
            Value::Null,
            "Most bytes held; 4 times what the bandwidth sends in rtt, at least 4 MiB, if not given",
        )
        .at_least(1.0),
        ParamInfo::new(
            "ingress",
            Unit::Bool,
            false,
            "The link comes before: packets that are dropped have used it too",
        ),
        ParamInfo::new("wash", Unit::Bool, false, "Set the DSCP of all packets to zero"),
        ParamInfo::choice(
            "sce",
            &["off", "below", "straddling", "above"],
            "Mark some congestion experienced by a ramp below, around or above the target",
        ),
        ParamInfo::new(
            "knee",
            Unit::Count,
            4,
            "One mark in so many at the target, with the straddling ramp",
        )
        .at_least(1.0)
        .at_most(1024.0),
    ]);
    QueueInfo {
        name: "cake",
        summary: "Shaper, Diffserv tins, fair between hosts and flows, COBALT on each flow",
        source: "Hoiland-Jorgensen, Taht and Morton 2018; tc-cake; Linux sch_cake",
        params,
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let rate = values.optional("bandwidth").map(Rate);
    let rtt = values.whole("rtt");
    let diffserv = Diffserv::named(values.choice("diffserv"));
    let isolation = Isolation::named(values.choice("isolation"));
    let sce = Ramp::named(values.choice("sce"), values.whole("knee")).map_or(Sce::Off, Sce::Ramp);
    let shares = diffserv.shares(rate);
    let memory_limit = values.optional("memory_limit").unwrap_or_else(|| {
        rate.map_or(UNLIMITED_MEMORY, |rate| {
            let in_rtt = rate.0 as f64 / 8e9 * rtt as f64;
            LEAST_MEMORY.max((4.0 * in_rtt) as u64).min(UNLIMITED_MEMORY)
        })
    });
    Ok(Box::new(Cake {
        diffserv,
        isolation,
        framing: Framing::from_values(values),
        ack_filter: AckFilter::named(values.choice("ack_filter")),
        memory_limit,
        ingress: values.flag("ingress"),
        wash: values.flag("wash"),
        salt: Salt::new(seed),
        store: FlowStore::new(shares.len() * QUEUES, Flow::default()),
        tins: shares
            .into_iter()
            .enumerate()
            .map(|(index, share)| Tin::new(index, share, share.cobalt(rtt, sce), isolation))
            .collect(),
        current: 0,
        shaper: Shaper::new(rate),
        random: Pcg32::seed_from_u64(seed),
        counters: Counters::default(),
    }))
}

/// Which flows of a tin a flow counts among.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Set {
    /// Its queue is free.
    #[default]
    None,
    /// On the list of new flows.
    Sparse,
    /// It has used up its turn but had nothing more: on the list of old flows, and still sparse.
    SparseWait,
    Bulk,
    /// Empty; its queue stays reserved until COBALT is at rest.
    Decaying,
}

/// State of a flow queue.
#[derive(Clone, Copy, Debug)]
struct Flow {
    set: Set,
    hosts: Pair,
    /// Bytes left of its turn.
    deficit: i64,
    cobalt: Cobalt,
    /// Neighbours in the list that it is on.
    before: u32,
    next: u32,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            set: Set::None,
            hosts: Pair::default(),
            deficit: 0,
            cobalt: Cobalt::of_linux(),
            before: NONE,
            next: NONE,
        }
    }
}

type Store<P> = FlowStore<P, Flow>;

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
    fn first(self) -> Option<usize> {
        (self.head != NONE).then_some(self.head as usize)
    }

    fn push<P: Packet>(&mut self, store: &mut Store<P>, index: usize) {
        let flow = store.state(index);
        (flow.before, flow.next) = (self.tail, NONE);
        if self.tail == NONE {
            self.head = index as u32;
        } else {
            store.state(self.tail as usize).next = index as u32;
        }
        self.tail = index as u32;
    }

    fn remove<P: Packet>(&mut self, store: &mut Store<P>, index: usize) {
        let Flow { before, next, .. } = *store.state(index);
        if before == NONE {
            self.head = next;
        } else {
            store.state(before as usize).next = next;
        }
        if next == NONE {
            self.tail = before;
        } else {
            store.state(next as usize).before = before;
        }
    }
}

/// The flows of a Diffserv class.
#[derive(Debug)]
struct Tin {
    clock: TinClock,
    weight: i64,
    deficit: i64,
    quantum: i64,
    cobalt: CobaltParams,
    /// Number of its first queue.
    first: usize,
    tags: Tags,
    hosts: Hosts,
    new: List,
    old: List,
    decaying: List,
    sparse_flows: u32,
    bulk_flows: u32,
    packets: u64,
    bytes: u64,
}

impl Tin {
    fn new(index: usize, share: Share, cobalt: CobaltParams, isolation: Isolation) -> Self {
        Self {
            clock: TinClock::new(share.rate),
            weight: share.weight,
            deficit: 0,
            quantum: share.quantum(),
            cobalt,
            first: index * QUEUES,
            tags: Tags::new(),
            hosts: Hosts::new(isolation),
            new: List::default(),
            old: List::default(),
            decaying: List::default(),
            sparse_flows: 0,
            bulk_flows: 0,
            packets: 0,
            bytes: 0,
        }
    }

    fn is_active(&self) -> bool {
        self.sparse_flows + self.bulk_flows > 0
    }

    /// The queue for a packet.
    fn queue_of<P: Packet>(
        &mut self,
        store: &mut Store<P>,
        packet: &P,
        isolation: Isolation,
        salt: Salt,
    ) -> usize {
        let Some(tag) = isolation.tag(packet, salt) else {
            return self.first;
        };
        let first = self.first;
        let found = self.tags.find(tag, |place| store.peek(first + place).set != Set::None);
        let index = first + found.place();
        let Flow { set, hosts, .. } = *store.state(index);
        let keeps_hosts = matches!(found, Found::Same(_)) && set != Set::None;
        if !keeps_hosts {
            let pair = self.hosts.of(packet, salt);
            if set == Set::Bulk {
                self.hosts.remove(hosts);
                self.hosts.add(pair);
            }
            store.state(index).hosts = pair;
        }
        index
    }

    fn become_bulk(&mut self, flow: &mut Flow) {
        flow.set = Set::Bulk;
        self.sparse_flows -= 1;
        self.bulk_flows += 1;
        self.hosts.add(flow.hosts);
    }

    /// A packet has come: the flow takes its place in the rounds.
    fn activate<P: Packet>(&mut self, store: &mut Store<P>, index: usize) {
        let flow = store.state(index);
        match flow.set {
            Set::None | Set::Decaying => {
                let was = std::mem::replace(&mut flow.set, Set::Sparse);
                flow.deficit = self.quantum / i64::from(self.hosts.load(flow.hosts));
                self.sparse_flows += 1;
                if was == Set::Decaying {
                    self.decaying.remove(store, index);
                }
                self.new.push(store, index);
            }
            Set::SparseWait => self.become_bulk(flow),
            Set::Sparse | Set::Bulk => {}
        }
    }

    /// Takes a flow off the list that it heads: that of its set.
    fn unlist<P: Packet>(&mut self, store: &mut Store<P>, index: usize) {
        let list = match store.state(index).set {
            Set::Decaying => &mut self.decaying,
            Set::Sparse => &mut self.new,
            Set::SparseWait | Set::Bulk | Set::None => &mut self.old,
        };
        list.remove(store, index);
    }

    /// A flow has used up its turn: it gets the next, at the end of the old flows. Hosts with many bulk
    /// flows get one turn for all of them.
    fn next_turn<P: Packet>(&mut self, store: &mut Store<P>, index: usize, random: &mut Pcg32) {
        self.unlist(store, index);
        let has_more = !store.is_empty(index);
        let flow = store.state(index);
        if flow.set == Set::Sparse {
            if has_more {
                self.become_bulk(flow);
            } else {
                flow.set = Set::SparseWait;
            }
        }
        let load = self.hosts.load(flow.hosts);
        // The fraction by chance, so that none is lost to rounding.
        let dither = if load > 1 { i64::from(random.next_u32() % u32::from(load)) } else { 0 };
        flow.deficit += (self.quantum + dither) / i64::from(load);
        self.old.push(store, index);
    }

    /// A flow had its turn and was empty.
    fn retire<P: Packet>(&mut self, store: &mut Store<P>, index: usize, now: Nanos) {
        self.unlist(store, index);
        let flow = store.state(index);
        match flow.set {
            Set::Sparse | Set::SparseWait => self.sparse_flows -= 1,
            Set::Bulk => {
                self.bulk_flows -= 1;
                self.hosts.remove(flow.hosts);
            }
            Set::Decaying | Set::None => {}
        }
        flow.cobalt.queue_empty(now, &self.cobalt);
        if flow.cobalt.at_rest(now) {
            flow.set = Set::None;
        } else {
            flow.set = Set::Decaying;
            self.decaying.push(store, index);
        }
    }
}

#[derive(Debug)]
struct Cake<P> {
    diffserv: Diffserv,
    isolation: Isolation,
    framing: Framing,
    ack_filter: Option<AckFilter>,
    memory_limit: u64,
    ingress: bool,
    wash: bool,
    salt: Salt,
    /// The queues of all tins.
    store: Store<P>,
    tins: Vec<Tin>,
    /// The tin whose turn it is where tins are not told apart by rate.
    current: usize,
    shaper: Shaper,
    random: Pcg32,
    counters: Counters,
}

impl<P: Packet> Cake<P> {
    /// Charges a packet to the clocks; gives its size.
    fn charge(&mut self, tin: usize, packet: &P, now: Nanos, sent: bool) -> i64 {
        let bytes = self.framing.bytes(packet);
        self.tins[tin].clock.charge(now, bytes);
        self.shaper.charge(bytes, sent);
        bytes as i64
    }

    /// A packet has left the store of a tin.
    fn left(&mut self, tin: usize, packet: &P) {
        let tin = &mut self.tins[tin];
        tin.packets -= 1;
        tin.bytes -= u64::from(packet.bytes());
    }

    /// Drops the head of the queue with the most bytes.
    fn drop_from_fattest(&mut self, now: Nanos, dropped: &mut Dropped<P>) {
        let index = self.store.fattest();
        let tin = index / QUEUES;
        let (flow, mut source) = self.store.flow(index);
        flow.cobalt.queue_full(now, &self.tins[tin].cobalt);
        if let Some(packet) = source.pop() {
            self.left(tin, &packet);
            if self.ingress {
                self.charge(tin, &packet, now, false);
            }
            self.counters.drop(packet, DropReason::Overflow, dropped);
        }
    }

    /// Drops what the packet that has just come makes needless.
    fn filter_acks(&mut self, tin: usize, index: usize, now: Nanos, dropped: &mut Dropped<P>) {
        let Some(filter) = self.ack_filter else { return };
        let (_, mut source) = self.store.flow(index);
        if let Some(ack) = source.take(|pool, chain| filter.find(pool, chain)) {
            self.left(tin, &ack);
            if self.ingress {
                self.charge(tin, &ack, now, false);
            }
            self.counters.drop(ack, DropReason::AckFilter, dropped);
        }
    }

    /// The tin to serve. There must be packets.
    fn choose_tin(&mut self, now: Nanos) -> usize {
        if self.shaper.is_limited() { self.tin_by_clock(now) } else { self.tin_by_weight() }
    }

    /// The highest tin that is under its rate, else the one whose clock comes first.
    fn tin_by_clock(&self, now: Nanos) -> usize {
        let mut best = (Nanos::MAX, 0);
        for (index, tin) in self.tins.iter().enumerate().filter(|(_, tin)| tin.is_active()) {
            let next = tin.clock.next();
            if next <= now || next <= best.0 {
                best = (next, index);
            }
        }
        best.1
    }

    /// Deficit round robin.
    fn tin_by_weight(&mut self) -> usize {
        loop {
            let tin = &mut self.tins[self.current];
            if tin.deficit >= 0 && tin.is_active() {
                return self.current;
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.weight;
            }
            self.current = (self.current + 1) % self.tins.len();
        }
    }

    /// The next packet of a tin; `None` where a queue was found empty, and the choice of the tin should
    /// be made again. `decay` lets one decaying flow be looked at.
    fn serve(
        &mut self,
        tin_index: usize,
        now: Nanos,
        decay: &mut bool,
        dropped: &mut Dropped<P>,
    ) -> Option<P> {
        loop {
            let tin = &mut self.tins[tin_index];
            let decaying = if std::mem::take(decay) { tin.decaying.first() } else { None };
            let index =
                decaying.or(tin.new.first()).or(tin.old.first()).or(tin.decaying.first())?;
            if self.store.state(index).deficit <= 0 {
                tin.next_turn(&mut self.store, index, &mut self.random);
                continue;
            }
            let bulk_flows = if self.ingress { u64::from(tin.bulk_flows) } else { 0 };
            let (flow, mut source) = self.store.flow(index);
            let Some(mut packet) = source.pop() else {
                tin.retire(&mut self.store, index, now);
                return None;
            };
            let leaving =
                Leaving { bulk_flows, ..Leaving::new(&packet, now, source.packets() == 0) };
            let drop = flow.cobalt.should_drop(
                now,
                &tin.cobalt,
                leaving,
                &mut packet,
                &mut self.counters,
                &mut self.random,
            );
            self.left(tin_index, &packet);
            if !drop || self.ingress {
                let bytes = self.charge(tin_index, &packet, now, !drop);
                self.store.state(index).deficit -= bytes;
                self.tins[tin_index].deficit -= bytes;
            }
            if !drop {
                return Some(packet);
            }
            self.counters.drop(packet, DropReason::Aqm, dropped);
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Cake<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        let tin_index = self.diffserv.tin(packet.dscp());
        if self.wash {
            packet.set_dscp(0);
        }
        let nothing_waits = self.store.packets() == 0;
        let tin = &mut self.tins[tin_index];
        let index = tin.queue_of(&mut self.store, &packet, self.isolation, self.salt);
        if tin.packets == 0 {
            tin.clock.restart(now);
        }
        if nothing_waits {
            self.shaper.restart(now);
        }
        packet.set_enqueued_at(now);
        tin.packets += 1;
        tin.bytes += u64::from(packet.bytes());
        self.store.push(index, packet);
        tin.activate(&mut self.store, index);
        self.filter_acks(tin_index, index, now, dropped);
        while self.store.bytes() > self.memory_limit {
            self.drop_from_fattest(now, dropped);
        }
        // Those drops are from heads, so this packet, a tail, went only if its queue is empty.
        if self.store.is_empty(index) { Enqueued::Dropped } else { Enqueued::Accepted }
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        let mut decay = true;
        while self.store.packets() > 0 {
            if let Some(until) = self.shaper.wait(now) {
                return Dequeued::Wait(until);
            }
            let tin = self.choose_tin(now);
            if let Some(packet) = self.serve(tin, now, &mut decay, dropped) {
                self.counters.dequeued += 1;
                return Dequeued::Packet(packet);
            }
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
        for (index, tin) in self.tins.iter().enumerate() {
            out(&format!("tin{index}.backlog_packets"), tin.packets as f64);
            out(&format!("tin{index}.backlog_bytes"), tin.bytes as f64);
            out(&format!("tin{index}.sparse_flows"), f64::from(tin.sparse_flows));
            out(&format!("tin{index}.bulk_flows"), f64::from(tin.bulk_flows));
        }
    }
}
