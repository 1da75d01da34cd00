//! FQ-PIE: the flow queueing of FQ-CoDel with PIE on each queue, which judges packets as they arrive.

use crate::flow_queue::{FlowQueues, MOST_PACKETS, Salt, flows_info, memory_info, quantum_info};
use crate::params::{ParamInfo, QueueInfo, Unit, Values, child_seed};
use crate::pie::{self, Pie, PieParams};
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

pub(crate) fn info() -> QueueInfo {
    // Sizes as in Linux; PIE's own parameters but for its limit.
    let mut params = pie::info().params;
    params.retain(|param| param.name != "limit");
    params.extend([
        ParamInfo::new(
            "limit",
            Unit::Packets,
            10_240,
            "Most packets held by all queues; tail drop",
        )
        .at_least(1.0)
        .at_most(MOST_PACKETS),
        flows_info(1024),
        quantum_info(),
        memory_info(),
    ]);
    QueueInfo {
        name: "fq_pie",
        summary: "Fair queueing of flows, each under PIE; sparse flows go first",
        source: "Linux sch_fq_pie; Ramakrishnan, Bhasi, Saicharan, Tahiliani, Nichols and Patil, LCN 2019",
        params,
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let params = PieParams::from_values(values);
    let flows = values.whole("flows") as usize;
    let mut queues = FlowQueues::with_state(flows, values.whole("quantum"), Pie::new(params, seed));
    for index in 0..flows {
        *queues.flow(index).0 = Pie::new(params, child_seed(seed, index));
    }
    Ok(Box::new(FqPie {
        limit: values.whole("limit"),
        memory_limit: values.whole("memory_limit"),
        salt: Salt::new(seed),
        queues,
        counters: Counters::default(),
    }))
}

#[derive(Debug)]
struct FqPie<P> {
    limit: u64,
    memory_limit: u64,
    salt: Salt,
    queues: FlowQueues<P, Pie>,
    counters: Counters,
}

impl<P: Packet + Send> QueueDiscipline<P> for FqPie<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        let store = self.queues.store();
        let index = self.salt.bucket(packet.flow_hash(), store.len());
        let full = store.packets() >= self.limit
            || store.bytes() + u64::from(packet.bytes()) > self.memory_limit;
        let (pie, source) = self.queues.flow(index);
        pie.catch_up(now, source.bytes());
        if full {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        let verdict = pie.judge(&packet, source.bytes());
        let Some((mut packet, outcome)) = verdict.carry_out(packet, &mut self.counters, dropped)
        else {
            return Enqueued::Dropped;
        };
        packet.set_enqueued_at(now);
        self.queues.push(index, packet);
        outcome
    }

    fn dequeue(&mut self, now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        let packet = self.queues.dequeue(|pie, source| {
            let backlog = source.bytes();
            pie.catch_up(now, backlog);
            let packet = source.pop()?;
            let sojourn = now.saturating_sub(packet.enqueued_at());
            pie.on_dequeue(now, sojourn, u64::from(packet.bytes()), backlog);
            Some(packet)
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
