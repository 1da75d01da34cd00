//! Cheap nasty queueing: two FIFOs and a counter for each bucket of flows tell sparse flows from bulk
//! (draft-morton-tsvwg-cheap-nasty-queueing). Approximate fairness among the bulk flows comes from
//! COBALT on each, with delays weighed by the flow's share of the queue
//! (draft-morton-tsvwg-codel-approx-fair).
//!
//! A flow's packet is sparse if nothing of the flow is in the bulk queue. It leaves a dummy there, so
//! that the flow counts as seen until all that was ahead in the bulk queue has been served.

use std::collections::VecDeque;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::backlog::Backlog;
use crate::cobalt::{Cobalt, CobaltParams, Leaving, Sce};
use crate::flow_queue::{Salt, flows_info};
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// Buckets in the SCE kernel.
pub(crate) const FLOWS: u64 = 65_536;

/// The packet limit of the queues with a sparse and a bulk FIFO.
pub(crate) fn limit_info() -> ParamInfo {
    ParamInfo::new("limit", Unit::Packets, 10_240, "Most packets held; the head of the bulk goes")
        .at_least(1.0)
}

pub(crate) fn info() -> QueueInfo {
    let mut params = CobaltParams::info();
    params.extend([
        Sce::info(),
        ParamInfo::choice(
            "fairness",
            &["codel_af", "none"],
            "COBALT on each flow, with delays weighed by its share of the queue; or one for all",
        ),
        flows_info(FLOWS),
        limit_info(),
    ]);
    QueueInfo {
        name: "cnq",
        summary: "Two FIFOs, sparse flows first; the bulk about fair by weighed delays",
        source: "draft-morton-tsvwg-cheap-nasty-queueing; draft-morton-tsvwg-codel-approx-fair",
        params,
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let flows = values.whole("flows") as usize;
    let weighed = values.choice("fairness") == "codel_af";
    Ok(Box::new(Cnq {
        params: CobaltParams::with_schedule(values),
        limit: values.whole("limit"),
        salt: Salt::new(seed),
        buckets: vec![Bucket::default(); flows],
        cobalts: vec![Cobalt::default(); if weighed { flows } else { 1 }],
        weighed,
        sparse: Backlog::default(),
        bulk: Bulk::default(),
        active_flows: 0,
        dummy_flows: 0,
        next_idle: 0,
        random: Pcg32::seed_from_u64(seed),
        counters: Counters::default(),
    }))
}

/// What is known of the flows that share a hash.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Items in the bulk queue.
    backlog: u32,
    /// One of them is a dummy.
    dummy: bool,
}

impl Bucket {
    fn is_dummy_only(self) -> bool {
        self.backlog == 1 && self.dummy
    }
}

/// Packets and dummies of the bulk queue, each with its bucket.
#[derive(Debug)]
struct Bulk<P> {
    items: VecDeque<(u32, Option<P>)>,
    packets: u64,
    bytes: u64,
}

impl<P> Default for Bulk<P> {
    fn default() -> Self {
        Self { items: VecDeque::new(), packets: 0, bytes: 0 }
    }
}

#[derive(Debug)]
struct Cnq<P> {
    params: CobaltParams,
    limit: u64,
    salt: Salt,
    buckets: Vec<Bucket>,
    /// One for each bucket where delays are weighed, else one for the bulk queue.
    cobalts: Vec<Cobalt>,
    weighed: bool,
    sparse: Backlog<P>,
    bulk: Bulk<P>,
    /// Buckets with anything in the bulk queue, and those of them with a dummy only.
    active_flows: u32,
    dummy_flows: u32,
    next_idle: usize,
    random: Pcg32,
    counters: Counters,
}

impl<P: Packet> Cnq<P> {
    fn cobalt(&mut self, bucket: usize) -> &mut Cobalt {
        &mut self.cobalts[if self.weighed { bucket } else { 0 }]
    }

    fn push_bulk(&mut self, index: usize, packet: Option<P>) {
        let bucket = &mut self.buckets[index];
        self.dummy_flows -= u32::from(bucket.is_dummy_only());
        self.active_flows += u32::from(bucket.backlog == 0);
        bucket.backlog += 1;
        bucket.dummy |= packet.is_none();
        self.dummy_flows += u32::from(bucket.is_dummy_only());
        if let Some(packet) = &packet {
            self.bulk.packets += 1;
            self.bulk.bytes += u64::from(packet.bytes());
        }
        self.bulk.items.push_back((index as u32, packet));
    }

    /// The next packet of the bulk queue and its bucket; removes the dummies before it.
    fn pop_bulk(&mut self) -> Option<(usize, P)> {
        while let Some((index, packet)) = self.bulk.items.pop_front() {
            let bucket = &mut self.buckets[index as usize];
            self.dummy_flows -= u32::from(bucket.is_dummy_only());
            bucket.backlog -= 1;
            self.active_flows -= u32::from(bucket.backlog == 0);
            if let Some(packet) = packet {
                self.bulk.packets -= 1;
                self.bulk.bytes -= u64::from(packet.bytes());
                return Some((index as usize, packet));
            }
            bucket.dummy = false;
        }
        None
    }

    /// What COBALT is told of a packet that was just taken out of the bulk queue.
    fn leaving(&self, packet: &P, index: usize, now: Nanos) -> Leaving {
        let left = self.buckets[index].backlog;
        let leaving = Leaving::new(packet, now, left == 0);
        if !self.weighed {
            return leaving;
        }
        // What the flow has of the bulk queue over what would be its share, with this packet.
        let flows = self.active_flows - self.dummy_flows + u32::from(left == 0);
        let share = (f64::from(left) + 1.0) * f64::from(flows) / (self.bulk.packets + 1) as f64;
        Leaving { weighed: (leaving.sojourn as f64 * share) as Nanos, ..leaving }
    }

    /// Decays the state of one idle bucket, in turn.
    fn visit_idle(&mut self, now: Nanos) {
        if self.weighed {
            if self.buckets[self.next_idle].backlog == 0 {
                self.cobalts[self.next_idle].queue_empty(now, &self.params);
            }
            self.next_idle = (self.next_idle + 1) % self.buckets.len();
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Cnq<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        if self.backlog_packets() >= self.limit {
            if let Some((index, head)) = self.pop_bulk() {
                let params = self.params;
                self.cobalt(index).queue_full(now, &params);
                self.counters.drop(head, DropReason::Overflow, dropped);
            } else if let Some(head) = self.sparse.pop() {
                self.counters.drop(head, DropReason::Overflow, dropped);
            }
        }
        let index = self.salt.bucket(packet.flow_hash(), self.buckets.len());
        if self.buckets[index].backlog == 0 {
            self.push_bulk(index, None);
            self.sparse.push(now, packet);
        } else {
            packet.set_enqueued_at(now);
            self.push_bulk(index, Some(packet));
        }
        Enqueued::Accepted
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        self.visit_idle(now);
        let params = self.params;
        if let Some(packet) = self.sparse.pop() {
            if self.weighed {
                let index = self.salt.bucket(packet.flow_hash(), self.buckets.len());
                self.cobalts[index].queue_empty(now, &params);
            }
            self.counters.dequeued += 1;
            return Dequeued::Packet(packet);
        }
        while let Some((index, mut packet)) = self.pop_bulk() {
            let leaving = self.leaving(&packet, index, now);
            let cobalt = &mut self.cobalts[if self.weighed { index } else { 0 }];
            let drop = cobalt.should_drop(
                now,
                &params,
                leaving,
                &mut packet,
                &mut self.counters,
                &mut self.random,
            );
            if !drop {
                self.counters.dequeued += 1;
                return Dequeued::Packet(packet);
            }
            self.counters.drop(packet, DropReason::Aqm, dropped);
        }
        if !self.weighed {
            self.cobalts[0].queue_empty(now, &params);
        }
        Dequeued::Empty
    }

    fn backlog(&self) -> Amount {
        Amount {
            packets: self.sparse.packets() + self.bulk.packets,
            bytes: self.sparse.bytes() + self.bulk.bytes,
        }
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, _now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        out("sparse_packets", self.sparse.packets() as f64);
        out("bulk_packets", self.bulk.packets as f64);
        out("bulk_flows", f64::from(self.active_flows - self.dummy_flows));
    }
}
