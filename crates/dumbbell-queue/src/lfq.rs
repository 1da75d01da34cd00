//! Lightweight fair queueing: flows share by bytes with two FIFOs and a few words for each bucket of
//! flows (draft-morton-tsvwg-lightweight-fair-queueing), and COBALT on the bulk.
//!
//! The bulk queue is read again and again from head to tail. In one sweep a flow may send until it has
//! used up the credit of one full packet that each sweep gives it; the rest of its packets is skipped.

use std::collections::VecDeque;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::backlog::Backlog;
use crate::cnq::{FLOWS, limit_info};
use crate::cobalt::{Cobalt, CobaltParams, Leaving, Sce};
use crate::flow_queue::{Salt, flows_info};
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

pub(crate) fn info() -> QueueInfo {
    let mut params = CobaltParams::info();
    params.extend([
        Sce::info(),
        ParamInfo::new(
            "quantum",
            Unit::Bytes,
            1514,
            "Bytes that a flow sends in a sweep; the size of the largest packet",
        )
        .at_least(256.0)
        .at_most(1_048_576.0),
        flows_info(FLOWS),
        limit_info(),
    ]);
    QueueInfo {
        name: "lfq",
        summary: "Fair by bytes with two FIFOs: a sweep skips flows that have had their share",
        source: "draft-morton-tsvwg-lightweight-fair-queueing",
        params,
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    Ok(Box::new(Lfq {
        params: CobaltParams::with_schedule(values),
        limit: values.whole("limit"),
        quantum: values.whole("quantum") as i64,
        salt: Salt::new(seed),
        buckets: vec![Bucket::default(); values.whole("flows") as usize],
        dirty: Vec::new(),
        cobalt: Cobalt::default(),
        sparse: Backlog::default(),
        bulk: Bulk::default(),
        random: Pcg32::seed_from_u64(seed),
        counters: Counters::default(),
    }))
}

/// What is known of the flows that share a hash.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Packets in both queues.
    backlog: u32,
    /// Credit left, in bytes.
    deficit: i64,
    /// It has sent its share of this sweep.
    skip: bool,
    /// On the list of those that have sent since the last sweep.
    dirty: bool,
}

/// The bulk queue, each packet with its bucket. The packets that the scan has passed over come before
/// those that it has not reached.
#[derive(Debug)]
struct Bulk<P> {
    passed: VecDeque<(u32, P)>,
    ahead: VecDeque<(u32, P)>,
    bytes: u64,
}

impl<P> Default for Bulk<P> {
    fn default() -> Self {
        Self { passed: VecDeque::new(), ahead: VecDeque::new(), bytes: 0 }
    }
}

impl<P: Packet> Bulk<P> {
    fn packets(&self) -> u64 {
        (self.passed.len() + self.ahead.len()) as u64
    }

    fn push(&mut self, index: usize, packet: P) {
        self.bytes += u64::from(packet.bytes());
        self.ahead.push_back((index as u32, packet));
    }

    /// Takes the head, wherever the scan is.
    fn pop_head(&mut self) -> Option<(usize, P)> {
        let (index, packet) = self.passed.pop_front().or_else(|| self.ahead.pop_front())?;
        self.bytes -= u64::from(packet.bytes());
        Some((index as usize, packet))
    }
}

#[derive(Debug)]
struct Lfq<P> {
    params: CobaltParams,
    limit: u64,
    quantum: i64,
    salt: Salt,
    buckets: Vec<Bucket>,
    dirty: Vec<u32>,
    /// Of the bulk queue.
    cobalt: Cobalt,
    sparse: Backlog<P>,
    bulk: Bulk<P>,
    random: Pcg32,
    counters: Counters,
}

impl<P: Packet> Lfq<P> {
    /// The scan has reached the tail of the bulk queue: a new sweep begins.
    fn sweep(&mut self) {
        for index in self.dirty.drain(..) {
            let bucket = &mut self.buckets[index as usize];
            if bucket.skip {
                bucket.skip = false;
            } else if bucket.backlog == 0 {
                bucket.deficit = 0;
            }
            bucket.dirty = false;
        }
        std::mem::swap(&mut self.bulk.passed, &mut self.bulk.ahead);
    }

    /// The next packet of the bulk queue whose flow may send, and its bucket.
    fn scan(&mut self) -> Option<(usize, P)> {
        loop {
            while let Some((index, packet)) = self.bulk.ahead.pop_front() {
                if !self.buckets[index as usize].skip {
                    self.bulk.bytes -= u64::from(packet.bytes());
                    return Some((index as usize, packet));
                }
                self.bulk.passed.push_back((index, packet));
            }
            let empty = self.bulk.passed.is_empty();
            self.sweep();
            if empty {
                return None;
            }
        }
    }

    /// Accounts for a packet that leaves.
    fn send(&mut self, index: usize, packet: P) -> Dequeued<P> {
        let bucket = &mut self.buckets[index];
        bucket.backlog -= 1;
        bucket.deficit -= i64::from(packet.bytes());
        if bucket.deficit < 0 {
            bucket.skip = true;
            bucket.deficit += self.quantum;
        }
        if !bucket.dirty {
            bucket.dirty = true;
            self.dirty.push(index as u32);
        }
        self.counters.dequeued += 1;
        Dequeued::Packet(packet)
    }

    /// Makes room for one packet: the head of the bulk queue goes, else that of the sparse one.
    fn drop_head(&mut self, now: Nanos, dropped: &mut Dropped<P>) {
        if let Some((index, packet)) = self.bulk.pop_head() {
            self.cobalt.queue_full(now, &self.params);
            self.buckets[index].backlog -= 1;
            self.counters.drop(packet, DropReason::Overflow, dropped);
        } else if let Some(packet) = self.sparse.pop() {
            let index = self.salt.bucket(packet.flow_hash(), self.buckets.len());
            self.buckets[index].backlog -= 1;
            self.counters.drop(packet, DropReason::Overflow, dropped);
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Lfq<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        if self.backlog_packets() >= self.limit {
            self.drop_head(now, dropped);
        }
        let index = self.salt.bucket(packet.flow_hash(), self.buckets.len());
        let bucket = &mut self.buckets[index];
        let sparse = bucket.backlog == 0 && bucket.deficit >= 0 && !bucket.skip;
        bucket.backlog += 1;
        if sparse {
            self.sparse.push(now, packet);
        } else {
            packet.set_enqueued_at(now);
            self.bulk.push(index, packet);
        }
        Enqueued::Accepted
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        if let Some(packet) = self.sparse.pop() {
            let index = self.salt.bucket(packet.flow_hash(), self.buckets.len());
            return self.send(index, packet);
        }
        while let Some((index, mut packet)) = self.scan() {
            let drop = self.cobalt.should_drop(
                now,
                &self.params,
                Leaving::new(&packet, now, self.buckets[index].backlog == 1),
                &mut packet,
                &mut self.counters,
                &mut self.random,
            );
            if !drop {
                return self.send(index, packet);
            }
            self.buckets[index].backlog -= 1;
            self.counters.drop(packet, DropReason::Aqm, dropped);
        }
        self.cobalt.queue_empty(now, &self.params);
        Dequeued::Empty
    }

    fn backlog(&self) -> Amount {
        Amount {
            packets: self.sparse.packets() + self.bulk.packets(),
            bytes: self.sparse.bytes() + self.bulk.bytes,
        }
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, _now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        out("sparse_packets", self.sparse.packets() as f64);
        out("bulk_packets", self.bulk.packets() as f64);
        out("cobalt_count", f64::from(self.cobalt.count()));
    }
}
