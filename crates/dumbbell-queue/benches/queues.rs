//! Cost of a packet in each queue, enqueue and dequeue together: nanoseconds on standard output as one JSON
//! object. Arguments: names of queues; default: all.
//!
//! A steady backlog of 50 packets of 8 flows, well below any delay that queues act on; what a queue drops
//! all the same is offered anew. FQ-CoDel also with a backlog of one packet for each of 10 and 100,000
//! flows.

use std::hint::black_box;
use std::time::Instant;

use dumbbell_queue::{
    CongestionHeader, Dequeued, Dropped, Ecn, Nanos, Packet, QueueDiscipline, Unit, build, list,
};
use serde_json::{Map, Value, json};

const BACKLOG: u64 = 50;
const FLOWS: u32 = 8;
const PACKETS: u64 = 1_000_000;
/// Best of so many runs.
const RUNS: usize = 5;
/// Time between packets, and the rate of the link that this makes: a backlog of 50 waits 50 us.
const GAP: Nanos = 1_000;
const RATE: u64 = 1514 * 8 * 1_000_000;
/// Packets offered for each that is asked for, while the backlog is too small.
const MOST_OFFERED: u32 = 2;
/// A standing backlog of one packet a flow.
const MANY: [u32; 2] = [10, 100_000];

/// As large as a simulator's packet.
#[derive(Clone, Copy)]
struct BenchPacket {
    flow: u32,
    dscp: u8,
    ecn: Ecn,
    label: f32,
    feedback: f32,
    at: Nanos,
    _rest: [u64; 5],
}

impl BenchPacket {
    fn new(flow: u32) -> Self {
        Self { flow, dscp: 0, ecn: Ecn::NotEct, label: 0.0, feedback: 1e9, at: 0, _rest: [0; 5] }
    }
}

impl Packet for BenchPacket {
    fn bytes(&self) -> u32 {
        1514
    }
    fn ip_bytes(&self) -> u32 {
        1500
    }
    /// Spread over 32 bits, as a hash is.
    fn flow_hash(&self) -> u32 {
        self.flow.wrapping_mul(0x9e37_79b9)
    }
    fn source(&self) -> u32 {
        self.flow / 2
    }
    fn destination(&self) -> u32 {
        self.flow
    }
    fn dscp(&self) -> u8 {
        self.dscp
    }
    fn set_dscp(&mut self, dscp: u8) {
        self.dscp = dscp;
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
    fn mark_sce(&mut self) {
        self.ecn = Ecn::Ect1;
    }
    fn label(&self) -> f32 {
        self.label
    }
    fn set_label(&mut self, label: f32) {
        self.label = label;
    }
    fn congestion_header(&self) -> Option<CongestionHeader> {
        Some(CongestionHeader { rtt: 0.04, throughput: 1e6, feedback: self.feedback })
    }
    fn set_feedback(&mut self, feedback: f32) {
        self.feedback = feedback;
    }
    fn is_superseded_by(&self, _newer: &Self) -> bool {
        false
    }
    fn enqueued_at(&self) -> Nanos {
        self.at
    }
    fn set_enqueued_at(&mut self, now: Nanos) {
        self.at = now;
    }
}

/// Nanoseconds a packet that leaves.
fn run(queue: &mut dyn QueueDiscipline<BenchPacket>, flows: u32, backlog: u64) -> f64 {
    let mut dropped = Dropped::new();
    let (mut now, mut flow, mut held, mut left) = (0, 0, 0, 0);
    let mut began = Instant::now();
    // The first round is not counted: it fills the queue and the caches.
    for counted in [false, true] {
        if counted {
            (began, left) = (Instant::now(), 0);
        }
        while left < PACKETS {
            now += GAP;
            for _ in 0..MOST_OFFERED {
                if held >= backlog {
                    break;
                }
                queue.enqueue(now, BenchPacket::new(flow), &mut dropped);
                held += 1;
                flow = if flow + 1 == flows { 0 } else { flow + 1 };
            }
            match queue.dequeue(now, &mut dropped) {
                Dequeued::Packet(packet) => {
                    black_box(&packet);
                    held -= 1;
                    left += 1;
                }
                Dequeued::Wait(until) => now = until,
                Dequeued::Empty => {}
            }
            held -= dropped.len() as u64;
            dropped.clear();
        }
    }
    began.elapsed().as_secs_f64() * 1e9 / PACKETS as f64
}

fn best(kind: &str, params: &Map<String, Value>, flows: u32, backlog: u64) -> f64 {
    let best = (0..RUNS)
        .filter_map(|_| build(kind, params, 1).ok())
        .map(|mut queue| run(queue.as_mut(), flows, backlog))
        .fold(f64::INFINITY, f64::min);
    (best * 10.0).round() / 10.0
}

fn main() {
    // Cargo says that it is a benchmark.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|name| name != "--bench").collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let mut costs = Map::new();
    for info in list().iter().filter(|info| chosen(info.name)) {
        let rates = info.params.iter().filter(|param| param.unit == Unit::LinkRate);
        let params = rates.map(|param| (param.name.to_owned(), json!(RATE))).collect();
        costs.insert(info.name.into(), json!(best(info.name, &params, FLOWS, BACKLOG)));
    }
    if chosen("fq_codel") {
        for flows in MANY {
            let bytes = 4096 * flows;
            let params = [("flows", 65_536), ("limit", 2 * flows), ("memory_limit", bytes)];
            let params = params.map(|(name, value)| (name.to_owned(), json!(value)));
            let cost = best("fq_codel", &params.into_iter().collect(), flows, u64::from(flows));
            costs.insert(format!("fq_codel, {flows} flows"), json!(cost));
        }
    }
    println!("{}", json!(costs));
}
