//! Deficit round robin against Shreedhar and Varghese 1995, with classes and without.

use crate::common::shares::{Saturated, jain};
use crate::common::{MS, TestPacket, drain, object, offer, queue};
use dumbbell_queue::{Dequeued, Dropped, Enqueued, build};
use serde_json::{Value, json};

fn flow(flow: u32, bytes: u32) -> TestPacket {
    TestPacket::new(flow, 0, bytes)
}

/// Bytes that two flows are apart at most, at any of many departures.
fn most_apart(params: Value, flows: &[TestPacket; 2]) -> u64 {
    let mut link = Saturated::new(queue("drr", params), flows);
    let mut sent = [0_u64; 2];
    let mut most = 0;
    for _ in 0..6000 {
        let packet = link.next();
        sent[usize::from(packet.flow == flows[1].flow)] += u64::from(packet.bytes);
        most = most.max(sent[0].abs_diff(sent[1]));
    }
    most
}

/// Packets of 1500 and 300 bytes: within one quantum of each other at any time where both fill it, and
/// within a quantum and a packet in any case (the paper's invariant: a deficit is less than a packet).
#[test]
fn bytes_are_shared_whatever_the_size_of_packets() {
    let flows = [flow(1, 1500), flow(2, 300)];
    assert!(most_apart(json!({"quantum": 1500}), &flows) <= 1500);
    for quantum in [300, 1000, 1514, 4000] {
        let apart = most_apart(json!({"quantum": quantum}), &flows);
        assert!(apart <= quantum + 1500, "{quantum}: {apart}");
    }
    let classes = [flow(1, 1500).with_dscp(10), flow(2, 300)];
    let params = json!({"classes": [{"dscp": [10], "quantum": 1500}, {"quantum": 1500}]});
    assert!(most_apart(params, &classes) <= 1500);
}

#[test]
fn ten_flows_share_evenly() {
    let flows: Vec<_> = (0..10).map(|n| flow(n, 150 * (n + 1))).collect();
    let bytes = Saturated::new(queue("drr", json!({})), &flows).bytes(50_000);
    assert!(jain(bytes.values()) > 0.9999, "{bytes:?}");
}

/// Quanta of 4500 and 1500 bytes: three quarters of the bytes, to a quantum.
#[test]
fn classes_share_by_their_quanta() {
    let params = json!({"classes": [{"dscp": [46], "quantum": 4500}, {"quantum": 1500}]});
    let flows = [flow(1, 700).with_dscp(46), flow(2, 1500)];
    let bytes = Saturated::new(queue("drr", params), &flows).bytes(10_000);
    assert!(bytes[&1].abs_diff(3 * bytes[&2]) <= 4500 + 1500, "{bytes:?}");
}

/// Without classes a full queue loses the last packet of the flow that holds most bytes.
#[test]
fn overflow_takes_the_last_of_the_fattest() {
    let mut q = queue("drr", json!({"limit": 5}));
    offer(&mut q, 0, (0..3).map(|seq| TestPacket::new(1, seq, 1000)));
    offer(&mut q, 0, (0..2).map(|seq| TestPacket::new(2, seq, 100)));
    let (outcomes, dropped) = offer(&mut q, 0, [TestPacket::new(2, 2, 100)]);
    assert_eq!(outcomes, [Enqueued::Accepted]);
    assert_eq!((dropped[0].flow, dropped[0].seq), (1, 2));
    let (outcomes, dropped) = offer(&mut q, 0, [TestPacket::new(1, 3, 1000)]);
    assert_eq!(outcomes, [Enqueued::Dropped]);
    assert_eq!((dropped[0].flow, dropped[0].seq), (1, 3));
}

/// While the shaper of one class waits the other sends; alone, its time is that of the scheduler.
#[test]
fn a_class_may_wait_for_its_shaper() {
    let shaper = json!({"kind": "tbf", "params": {"rate": 12_000_000, "burst": 1500}});
    for (kind, weights) in [("drr", "quantum"), ("wrr", "weight"), ("wfq", "weight")] {
        let params = json!({"classes": [{"dscp": [10], "queue": shaper, weights: 300}, {}]});
        let mut q = build::<TestPacket>(kind, &object(params), 1).unwrap();
        offer(&mut q, 0, [1, 2].map(|seq| TestPacket::new(1, seq, 1500).with_dscp(10)));
        offer(&mut q, 0, [1, 2].map(|seq| TestPacket::new(2, seq, 1500)));
        let flows: Vec<u32> = drain(&mut q, 0).iter().map(|p| p.flow).collect();
        assert_eq!(flows.iter().filter(|&&flow| flow == 2).count(), 2, "{kind}");
        assert_eq!(flows.len(), 3, "{kind}");
        let mut dropped = Dropped::new();
        assert_eq!(q.dequeue(0, &mut dropped), Dequeued::Wait(MS), "{kind}");
        assert!(matches!(q.dequeue(MS, &mut dropped), Dequeued::Packet(_)), "{kind}");
    }
}

#[test]
fn each_parameter_reaches_the_queue() {
    let order = |params| {
        let hosts = [flow(1, 1000).between(1, 9), flow(2, 1000).between(1, 8), flow(3, 500)];
        Saturated::new(queue("drr", params), &hosts).order(60)
    };
    let plain = order(json!({"quantum": 1000}));
    for params in [
        json!({"quantum": 3000}),
        json!({"quantum": 1000, "flows": 1}),
        json!({"quantum": 1000, "isolate": "source"}),
        json!({"classes": [{}]}),
    ] {
        assert_ne!(order(params.clone()), plain, "{params}");
    }
    // A host with two flows has the share of one with one.
    let hosts = [flow(1, 1000).between(1, 9), flow(2, 1000).between(1, 8), flow(3, 1000)];
    for (isolate, share) in [("flow", 1000), ("source", 1500), ("destination", 1000)] {
        let q = queue("drr", json!({"quantum": 1000, "isolate": isolate}));
        assert_eq!(Saturated::new(q, &hosts).bytes(3000)[&3] / 1000, share, "{isolate}");
    }
    let refused = |params: Value| {
        let mut q = queue("drr", params);
        offer(&mut q, 0, (0..1200).map(|seq| TestPacket::new(1, seq, 100))).1.len()
    };
    assert_eq!((refused(json!({})), refused(json!({"limit": 1100}))), (200, 100));
}

#[test]
fn a_limit_beside_classes_is_refused() {
    let params = object(json!({"limit": 10, "classes": [{}]}));
    let error = build::<TestPacket>("drr", &params, 1).err().unwrap();
    assert_eq!(
        error.to_string(),
        "queue drr: limit = 10: expected none beside classes, whose queues have their own"
    );
}
