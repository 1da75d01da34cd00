//! COBALT on each of many flow queues: CAKE's queueing without its shaper, tins and hosts.

use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::cobalt::{Cobalt, CobaltParams, Leaving, Sce};
use crate::flow_queue::{FlowQueues, FlowSource, MOST_PACKETS, Salt, flows_info, quantum_info};
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// Parameters of [`build_with`], beside those of COBALT.
pub(crate) fn queueing_info(flows: u64) -> [ParamInfo; 3] {
    [
        flows_info(flows),
        quantum_info(),
        ParamInfo::new("limit", Unit::Packets, 10_240, "Most packets held by all queues")
            .at_least(1.0)
            .at_most(MOST_PACKETS),
    ]
}

pub(crate) fn info() -> QueueInfo {
    let mut params = CobaltParams::info();
    params.push(Sce::info());
    params.extend(queueing_info(1024));
    QueueInfo {
        name: "fq_cobalt",
        summary: "Fair queueing of flows, each under COBALT; sparse flows go first",
        source: "RFC 8290; Linux sch_cake",
        params,
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    Ok(build_with(CobaltParams::with_schedule(values), values, seed))
}

/// Flow queues with these settings of COBALT.
pub(crate) fn build_with<P: Packet + Send + 'static>(
    params: CobaltParams,
    values: &Values,
    seed: u64,
) -> Box<dyn QueueDiscipline<P>> {
    Box::new(FqCobalt {
        params,
        limit: values.whole("limit"),
        salt: Salt::new(seed),
        queues: FlowQueues::new(values.whole("flows") as usize, values.whole("quantum")),
        random: Pcg32::seed_from_u64(seed),
        counters: Counters::default(),
    })
}

#[derive(Debug)]
struct FqCobalt<P> {
    params: CobaltParams,
    limit: u64,
    salt: Salt,
    queues: FlowQueues<P, Cobalt>,
    random: Pcg32,
    counters: Counters,
}

/// Takes the next packet of a flow that COBALT lets pass.
fn take<P: Packet>(
    cobalt: &mut Cobalt,
    source: &mut FlowSource<'_, P>,
    now: Nanos,
    params: &CobaltParams,
    random: &mut Pcg32,
    counters: &mut Counters,
    dropped: &mut Dropped<P>,
) -> Option<P> {
    while let Some(mut packet) = source.pop() {
        let leaving = Leaving::new(&packet, now, source.packets() == 0);
        if !cobalt.should_drop(now, params, leaving, &mut packet, counters, random) {
            return Some(packet);
        }
        counters.drop(packet, DropReason::Aqm, dropped);
    }
    cobalt.queue_empty(now, params);
    None
}

impl<P: Packet + Send> QueueDiscipline<P> for FqCobalt<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        let index = self.salt.bucket(packet.flow_hash(), self.queues.store().len());
        packet.set_enqueued_at(now);
        self.queues.push(index, packet);
        if self.queues.store().packets() > self.limit {
            let fattest = self.queues.fattest();
            let (cobalt, mut source) = self.queues.flow(fattest);
            cobalt.queue_full(now, &self.params);
            if let Some(packet) = source.pop() {
                self.counters.drop(packet, DropReason::Overflow, dropped);
            }
        }
        // The drop is from a head, so this packet, a tail, went only if its queue is empty.
        if self.queues.store().is_empty(index) { Enqueued::Dropped } else { Enqueued::Accepted }
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        let Self { params, random, counters, queues, .. } = self;
        let packet = queues
            .dequeue(|cobalt, source| take(cobalt, source, now, params, random, counters, dropped));
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
