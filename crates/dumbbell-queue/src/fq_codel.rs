//! FQ-CoDel (RFC 8290): flows hashed to queues served by deficit round robin, where queues that
//! have just become active go first, and CoDel on each.

use crate::codel::{Codel, CodelParams, Source};
use crate::flow_queue::{
    FlowQueues, FlowSource, MOST_PACKETS, Salt, flows_info, memory_info, quantum_info,
};
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

pub(crate) fn info() -> QueueInfo {
    // RFC 8290 sections 4.1 and 5.2; memory limit and drop batch as in Linux.
    let mut params = CodelParams::info(true);
    params.extend([
        ParamInfo::new("limit", Unit::Packets, 10_240, "Most packets held by all queues")
            .at_least(1.0)
            .at_most(MOST_PACKETS),
        flows_info(1024),
        quantum_info(),
        memory_info(),
        ParamInfo::new(
            "drop_batch",
            Unit::Packets,
            64,
            "Most packets dropped at once from the largest queue when a limit is passed",
        )
        .at_least(1.0)
        .at_most(MOST_PACKETS),
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
    Ok(Box::new(FqCodel {
        params: CodelParams::from_values(values),
        limit: values.whole("limit"),
        memory_limit: values.whole("memory_limit"),
        drop_batch: values.whole("drop_batch") as u32,
        salt: Salt::new(seed),
        queues: FlowQueues::new(values.whole("flows") as usize, values.whole("quantum")),
        counters: Counters::default(),
    }))
}

impl<P: Packet> Source<P> for FlowSource<'_, P> {
    fn pop(&mut self) -> Option<P> {
        FlowSource::pop(self)
    }

    /// Linux compares the backlog of all queues: a flow's only packet may be dropped if it waited
    /// too long behind other flows.
    fn standing(&self) -> bool {
        self.total_bytes() > u64::from(self.largest_packet())
    }
}

#[derive(Debug)]
struct FqCodel<P> {
    params: CodelParams,
    limit: u64,
    memory_limit: u64,
    drop_batch: u32,
    salt: Salt,
    queues: FlowQueues<P, Codel>,
    counters: Counters,
}

impl<P: Packet> FqCodel<P> {
    /// RFC 8290 section 4.1: half the packets of the queue with the most bytes, from its head.
    fn drop_from_fattest(&mut self, dropped: &mut Dropped<P>) {
        let fattest = self.queues.fattest();
        let (codel, mut source) = self.queues.flow(fattest);
        let drops = source.packets().div_ceil(2).min(self.drop_batch);
        for _ in 0..drops {
            dropped.extend(source.pop().map(|packet| (packet, DropReason::Overflow)));
        }
        self.counters.dropped_overflow += u64::from(drops);
        codel.add_drops(drops);
    }

    fn over_limit(&self) -> bool {
        let store = self.queues.store();
        store.packets() > self.limit || store.bytes() > self.memory_limit
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for FqCodel<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        let index = self.salt.bucket(packet.flow_hash(), self.queues.store().len());
        packet.set_enqueued_at(now);
        self.queues.push(index, packet);
        while self.over_limit() {
            self.drop_from_fattest(dropped);
        }
        // Drops come from heads, so this packet, a tail, went only if its queue is empty.
        if self.queues.store().is_empty(index) { Enqueued::Dropped } else { Enqueued::Accepted }
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        let packet = self.queues.dequeue(|codel, source| {
            codel.dequeue(now, &self.params, source, &mut self.counters, dropped)
        });
        self.counters.deliver(packet)
    }

    fn backlog(&self) -> Amount {
        self.queues.store().amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, _now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        out("flows_waiting", self.queues.store().waiting() as f64);
    }
}
