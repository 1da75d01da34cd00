//! Time of one enqueue and one dequeue, with a standing backlog spread over flows.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use dumbbell_queue::{Dequeued, Dropped, Ecn, Nanos, Packet, build};
use serde_json::Map;

/// As large as a simulator's packet.
#[derive(Clone, Copy)]
struct BenchPacket {
    flow: u32,
    at: Nanos,
    _payload: [u64; 6],
}

impl Packet for BenchPacket {
    fn bytes(&self) -> u32 {
        1500
    }
    fn flow_hash(&self) -> u32 {
        self.flow
    }
    fn dscp(&self) -> u8 {
        0
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn mark_ce(&mut self) {}
    fn enqueued_at(&self) -> Nanos {
        self.at
    }
    fn set_enqueued_at(&mut self, now: Nanos) {
        self.at = now;
    }
}

fn enqueue_dequeue(c: &mut Criterion) {
    let mut group = c.benchmark_group("enqueue+dequeue");
    for (kind, flows) in [("fifo", 10), ("codel", 10), ("fq_codel", 10), ("fq_codel", 500)] {
        group.bench_function(BenchmarkId::new(kind, flows), |b| {
            let mut queue = build::<BenchPacket>(kind, &Map::new(), 1).unwrap();
            let mut dropped = Dropped::new();
            let (mut now, mut n) = (0, 0_u32);
            let mut packet = move || {
                n += 1;
                BenchPacket { flow: n % flows, at: 0, _payload: [0; 6] }
            };
            for _ in 0..800 {
                queue.enqueue(now, packet(), &mut dropped);
            }
            b.iter(|| {
                now += 1_000; // 800 packets wait 0.8 ms: under target, nothing is dropped
                queue.enqueue(now, packet(), &mut dropped);
                match queue.dequeue(now, &mut dropped) {
                    Dequeued::Packet(p) => black_box(p.at),
                    Dequeued::Wait(_) | Dequeued::Empty => unreachable!(),
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, enqueue_dequeue);
criterion_main!(benches);
