//! What DRR, WRR and WFQ choose from: the classes that a user named, or queues that flows or hosts are
//! hashed to.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::classes::{Classes, Next};
use crate::flow_queue::{FlowStore, Salt, flows_info};
use crate::params::{ParamInfo, Unit, Values};
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// What a queue could send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// A packet of this size.
    Bytes(u32),
    /// Nothing before this time.
    Wait(Nanos),
    Empty,
}

/// Queues by number.
pub(crate) trait Queues<P> {
    /// Offers a packet to its queue; gives the queue too.
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> (usize, Enqueued);
    /// The packet that [`Self::take`] would give.
    fn head(&mut self, index: usize, now: Nanos, dropped: &mut Dropped<P>) -> Head;
    fn take(&mut self, index: usize, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P>;
    fn is_empty(&mut self, index: usize) -> bool;
    fn backlog(&self) -> Amount;
    fn counters(&self) -> Counters;
    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64));
}

impl<P: Packet> Queues<P> for Classes<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> (usize, Enqueued) {
        Self::enqueue(self, now, packet, dropped)
    }

    fn head(&mut self, index: usize, now: Nanos, dropped: &mut Dropped<P>) -> Head {
        match self.get(index).next(now, dropped) {
            Next::Packet(packet) => Head::Bytes(packet.bytes()),
            Next::Wait(until) => Head::Wait(until),
            Next::Empty => Head::Empty,
        }
    }

    fn take(&mut self, index: usize, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        self.get(index).take(now, dropped)
    }

    fn is_empty(&mut self, index: usize) -> bool {
        self.get(index).is_empty()
    }

    fn backlog(&self) -> Amount {
        Self::backlog(self)
    }

    fn counters(&self) -> Counters {
        Self::counters(self)
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        Self::record(self, now, out);
    }
}

/// What packets have in common that share a queue.
#[derive(Clone, Copy, Debug)]
enum Isolate {
    Flow,
    Source,
    Destination,
}

/// FIFO queues that packets are hashed to, with one limit; where it is passed, the fattest queue
/// loses its last packet.
#[derive(Debug)]
struct HashedQueues<P> {
    isolate: Isolate,
    salt: Salt,
    limit: u64,
    store: FlowStore<P, ()>,
    counters: Counters,
}

impl<P: Packet> HashedQueues<P> {
    fn new(values: &Values, seed: u64) -> Self {
        Self {
            isolate: match values.choice("isolate") {
                "source" => Isolate::Source,
                "destination" => Isolate::Destination,
                _ => Isolate::Flow,
            },
            salt: Salt::new(seed),
            limit: values.optional("limit").unwrap_or(DEFAULT_LIMIT),
            store: FlowStore::new(values.whole("flows") as usize, ()),
            counters: Counters::default(),
        }
    }
}

impl<P: Packet> Queues<P> for HashedQueues<P> {
    fn enqueue(
        &mut self,
        now: Nanos,
        mut packet: P,
        dropped: &mut Dropped<P>,
    ) -> (usize, Enqueued) {
        self.counters.offered += 1;
        let hash = match self.isolate {
            Isolate::Flow => packet.flow_hash(),
            Isolate::Source => packet.source(),
            Isolate::Destination => packet.destination(),
        };
        let index = self.salt.bucket(hash, self.store.len());
        packet.set_enqueued_at(now);
        self.store.push(index, packet);
        if self.store.packets() > self.limit {
            let fattest = self.store.fattest();
            if let Some(last) = self.store.flow(fattest).1.pop_tail() {
                self.counters.drop(last, DropReason::Overflow, dropped);
            }
            if fattest == index {
                return (index, Enqueued::Dropped);
            }
        }
        (index, Enqueued::Accepted)
    }

    fn head(&mut self, index: usize, _now: Nanos, _dropped: &mut Dropped<P>) -> Head {
        self.store.flow(index).1.head().map_or(Head::Empty, |packet| Head::Bytes(packet.bytes()))
    }

    fn take(&mut self, index: usize, _now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        match self.store.flow(index).1.pop() {
            Some(packet) => {
                self.counters.dequeued += 1;
                Dequeued::Packet(packet)
            }
            None => Dequeued::Empty,
        }
    }

    fn is_empty(&mut self, index: usize) -> bool {
        self.store.is_empty(index)
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

/// Linux's limit of a FIFO.
const DEFAULT_LIMIT: u64 = 1000;

/// Parameters of a scheduler of classes or hashed queues.
pub(crate) fn info() -> Vec<ParamInfo> {
    vec![
        ParamInfo::new(
            "classes",
            Unit::Classes,
            json!([]),
            "Classes by DSCP; where none is given, each flow or host has a queue",
        ),
        ParamInfo::choice(
            "isolate",
            &["flow", "source", "destination"],
            "Without classes: whose packets share a queue",
        ),
        flows_info(1024),
        ParamInfo::new(
            "limit",
            Unit::Packets,
            Value::Null,
            "Without classes: most packets held by all queues, 1000 if not given; drops the last of \
             the queue with most bytes",
        )
        .at_least(1.0),
    ]
}

/// Queues in the order of service, each at most once.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    queues: VecDeque<u32>,
    listed: Vec<bool>,
}

impl Order {
    /// An empty list for so many queues.
    pub(crate) fn new(count: usize) -> Self {
        Self { queues: VecDeque::new(), listed: vec![false; count] }
    }

    /// Puts a queue last; false if it is listed already.
    pub(crate) fn push(&mut self, index: usize) -> bool {
        if std::mem::replace(&mut self.listed[index], true) {
            return false;
        }
        self.queues.push_back(index as u32);
        true
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        self.listed[index]
    }

    pub(crate) fn first(&self) -> Option<usize> {
        self.queues.front().map(|&index| index as usize)
    }

    pub(crate) fn remove_first(&mut self) {
        if let Some(index) = self.queues.pop_front() {
            self.listed[index as usize] = false;
        }
    }

    pub(crate) fn move_first_to_end(&mut self) {
        if let Some(index) = self.queues.pop_front() {
            self.queues.push_back(index);
        }
    }

    /// Puts the queues in the order of their numbers.
    pub(crate) fn sort(&mut self) {
        self.queues.make_contiguous().sort_unstable();
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }
}

/// Chooses among queues that hold packets.
pub(crate) trait Scheduler {
    /// A queue holds packets, of which the scheduler may know already.
    fn activate(&mut self, index: usize);

    fn dequeue<P: Packet, Q: Queues<P>>(
        &mut self,
        queues: &mut Q,
        now: Nanos,
        dropped: &mut Dropped<P>,
    ) -> Dequeued<P>;
}

/// A discipline made of queues and a scheduler.
#[derive(Debug)]
struct Scheduled<Q, S> {
    queues: Q,
    scheduler: S,
}

impl<P, Q, S> QueueDiscipline<P> for Scheduled<Q, S>
where
    P: Packet,
    Q: Queues<P> + Send,
    S: Scheduler + Send,
{
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        let (index, outcome) = self.queues.enqueue(now, packet, dropped);
        if !self.queues.is_empty(index) {
            self.scheduler.activate(index);
        }
        outcome
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        self.scheduler.dequeue(&mut self.queues, now, dropped)
    }

    fn backlog(&self) -> Amount {
        self.queues.backlog()
    }

    fn counters(&self) -> Counters {
        self.queues.counters()
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        self.queues.record(now, out);
    }
}

/// A discipline of classes that are there already.
pub(crate) fn scheduled<P: Packet + Send + 'static, S: Scheduler + Send + 'static>(
    queues: Classes<P>,
    scheduler: S,
) -> Box<dyn QueueDiscipline<P>> {
    Box::new(Scheduled { queues, scheduler })
}

/// Builds the queues that the parameters of [`info`] ask for, and the scheduler that `make` makes for so
/// many, with the parameters of each class, if there are classes.
///
/// # Errors
/// Those of the classes; a limit beside classes.
pub(crate) fn build<P: Packet + Send + 'static, S: Scheduler + Send + 'static>(
    values: &Values,
    class_params: &[ParamInfo],
    seed: u64,
    make: impl FnOnce(usize, &[Values]) -> S,
) -> Built<P> {
    let classes = values.classes("classes", class_params)?;
    if classes.is_empty() {
        let queues = HashedQueues::new(values, seed);
        let scheduler = make(queues.store.len(), &[]);
        return Ok(Box::new(Scheduled { queues, scheduler }));
    }
    if values.optional("limit").is_some() {
        return Err(values.invalid("limit", "none beside classes, whose queues have their own"));
    }
    let scheduler = make(classes.len(), &classes);
    Ok(scheduled(Classes::build(values, &classes, seed)?, scheduler))
}
