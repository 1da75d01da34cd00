//! XCP's router as a queue. Its formulas are tested beside them, its promises in the engine
//! (`dumbbell-sim/tests/xcp.rs`).

use crate::common::{MS, Queue, TestPacket, queue};
use dumbbell_queue::{CongestionHeader, Dequeued, Dropped, Nanos};
use serde_json::json;

/// A packet of a flow at 100,000 B/s with 50 ms.
fn packet(seq: u64) -> TestPacket {
    let header = CongestionHeader { rtt: 0.05, throughput: 100e3, feedback: f32::INFINITY };
    TestPacket { xcp: Some(header), ..TestPacket::new(0, seq, 1000) }
}

/// Packets arrive every millisecond and leave `delay` later; gives the feedback of each that left.
fn feedback(queue: &mut Queue, packets: u64, delay: Nanos) -> Vec<f32> {
    let mut dropped = Dropped::new();
    let mut all = Vec::new();
    for seq in 0..packets + delay / MS {
        let now = seq * MS;
        if seq < packets {
            queue.enqueue(now, packet(seq), &mut dropped);
        }
        if now >= delay
            && let Dequeued::Packet(packet) = queue.dequeue(now, &mut dropped)
        {
            all.push(packet.xcp.unwrap().feedback);
        }
    }
    all
}

/// On a link of 2,000,000 B/s, half used, 0.4 * 1,000,000 B/s are to be given in an interval; 50 packets
/// of 10 ms of s/throughput share them: 400,000 / 0.5 s * 10 ms = 8000 B/s each (equations 1, 4 and 6 of
/// the paper as rates). Before the first interval is over nothing is known.
#[test]
fn spare_rate_is_given_from_the_second_interval_on() {
    let mut q = queue("xcp", json!({"rate": 16_000_000}));
    let all = feedback(&mut q, 95, 0);
    assert!(all[..50].iter().all(|&feedback| feedback == 0.0));
    assert!(all[51..].iter().all(|&feedback| (feedback - 8000.0).abs() < 1.0), "{:?}", &all[50..]);
    let mut recorded = Vec::new();
    q.record(0, &mut |name, value| recorded.push((name.to_owned(), value)));
    let value = |wanted| recorded.iter().find(|(name, _)| name == wanted).unwrap().1;
    assert!((value("interval") - 0.05).abs() < 1e-6);
    assert_eq!((value("traffic"), value("persistent_queue")), (8e6, 0.0));
    assert_eq!(value("feedback"), 0.4 * 8e6);
}

/// Packets without a header count as traffic and pass untouched.
#[test]
fn other_traffic_takes_its_part() {
    let mut dropped = Dropped::new();
    let mut q = queue("xcp", json!({"rate": 16_000_000}));
    for millisecond in 0..60 {
        let now = millisecond * MS;
        q.enqueue(now, TestPacket::new(1, millisecond, 1500), &mut dropped);
        let Dequeued::Packet(out) = q.dequeue(now, &mut dropped) else { panic!("empty") };
        assert_eq!((out.seq, out.xcp), (millisecond, None));
    }
    q.enqueue(60 * MS, packet(0), &mut dropped);
    let Dequeued::Packet(out) = q.dequeue(60 * MS, &mut dropped) else { panic!("empty") };
    // 0.4 * 500,000 B/s, with no flow known in the last interval: the packet's 10 ms of a second.
    assert_eq!(out.xcp.unwrap().feedback, 2000.0);
}

#[test]
fn every_parameter_reaches_the_queue() {
    let delay = 20 * MS;
    let sum = |params| -> f32 { feedback(&mut queue("xcp", params), 95, delay).iter().sum() };
    let base = sum(json!({"rate": 8_800_000}));
    for params in [
        json!({"rate": 9_200_000}),
        json!({"rate": 8_800_000, "alpha": 0.2}),
        json!({"rate": 8_800_000, "beta": 0.1}),
        json!({"rate": 8_800_000, "limit": 10}),
    ] {
        assert_ne!(sum(params.clone()), base, "{params}");
    }
    // Shuffling on a full link: only a flow slower than the others gets more.
    let mut q = queue("xcp", json!({"rate": 8_000_000, "shuffling": 0.0}));
    assert!(feedback(&mut q, 95, 0)[51..].iter().all(|&feedback| feedback == 0.0));
    let mut q = queue("xcp", json!({"rate": 8_000_000, "shuffling": 0.5, "alpha": 0.0}));
    let unequal = CongestionHeader { throughput: 50e3, ..packet(0).xcp.unwrap() };
    feedback(&mut q, 55, 0);
    let mut dropped = Dropped::new();
    q.enqueue(56 * MS, TestPacket { xcp: Some(unequal), ..packet(0) }, &mut dropped);
    let Dequeued::Packet(out) = q.dequeue(56 * MS, &mut dropped) else { panic!("empty") };
    assert!(out.xcp.unwrap().feedback > 1000.0);
}
