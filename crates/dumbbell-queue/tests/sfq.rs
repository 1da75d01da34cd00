//! Stochastic fairness queueing.

use crate::common::shares::{Saturated, jain};
use crate::common::{MS, TestPacket, drain, offer, queue};
use dumbbell_queue::{DropReason, Dropped, Enqueued};
use serde_json::{Value, json};

fn burst(flow: u32, packets: u64) -> impl Iterator<Item = TestPacket> {
    (0..packets).map(move |seq| TestPacket::new(flow, seq, 1000))
}

fn flows_out(params: Value) -> Vec<u32> {
    let mut q = queue("sfq", params);
    offer(&mut q, 0, burst(1, 20).chain(burst(2, 20)));
    drain(&mut q, 0).iter().map(|p| p.flow).collect()
}

#[test]
fn ten_flows_share_evenly_in_bytes() {
    let flows: Vec<_> = (0..10).map(|n| TestPacket::new(n, 0, 150 * (n + 1))).collect();
    let bytes = Saturated::new(queue("sfq", json!({})), &flows).bytes(50_000);
    assert!(jain(bytes.values()) > 0.9999, "{bytes:?}");
    let flows = [TestPacket::new(1, 0, 1500), TestPacket::new(2, 0, 300)];
    let bytes = Saturated::new(queue("sfq", json!({})), &flows).bytes(6000);
    // A quantum, and the packet by which an allotment may be overdrawn.
    assert!(bytes[&1].abs_diff(bytes[&2]) <= 1514 + 1500, "{bytes:?}");
}

/// A new flow waits for a turn like the others (unlike in FQ-CoDel).
#[test]
fn a_new_flow_goes_last() {
    let mut q = queue("sfq", json!({"quantum": 1000}));
    offer(&mut q, 0, burst(1, 3));
    offer(&mut q, 0, burst(2, 3));
    offer(&mut q, 0, burst(3, 1));
    let flows: Vec<u32> = drain(&mut q, 0).iter().map(|p| p.flow).collect();
    assert_eq!(flows, [1, 2, 3, 1, 2, 1, 2]);
}

/// The limit of 127 packets is kept by drops from the queue with most packets: its newest, or with
/// `headdrop` its oldest.
#[test]
fn overflow_takes_from_the_longest() {
    for (headdrop, victim) in [(false, 99), (true, 0)] {
        let mut q = queue("sfq", json!({"headdrop": headdrop}));
        offer(&mut q, 0, burst(1, 100).chain(burst(2, 27)));
        let (outcomes, dropped) = offer(&mut q, 0, [TestPacket::new(2, 27, 1000)]);
        assert_eq!(outcomes, [Enqueued::Accepted]);
        assert_eq!((dropped[0].flow, dropped[0].seq), (1, victim));
        assert_eq!(q.backlog_packets(), 127);
    }
}

#[test]
fn the_newest_packet_of_the_longest_queue_is_refused() {
    let mut q = queue("sfq", json!({"limit": 10}));
    let (outcomes, dropped) = offer(&mut q, 0, burst(1, 11));
    assert_eq!((outcomes[10], dropped[0].seq), (Enqueued::Dropped, 10));
    let mut q = queue("sfq", json!({"limit": 10, "headdrop": true}));
    let (outcomes, dropped) = offer(&mut q, 0, burst(1, 11));
    assert_eq!((outcomes[10], dropped[0].seq), (Enqueued::Accepted, 0));
}

#[test]
fn depth_and_flows_are_bounded() {
    let refused = |params| {
        let mut q = queue("sfq", params);
        let mut dropped = Dropped::new();
        for n in 0..60 {
            q.enqueue(0, TestPacket::new(n % 20, u64::from(n), 100), &mut dropped);
        }
        assert!(dropped.iter().all(|d| d.1 == DropReason::Overflow));
        dropped.len()
    };
    assert_eq!(refused(json!({"divisor": 65_536})), 0);
    assert_eq!(refused(json!({"divisor": 65_536, "depth": 2})), 20);
    assert_eq!(refused(json!({"divisor": 65_536, "flows": 15})), 15);
}

/// With the hash salted anew, packets go to other queues; those of a flow stay in order, and none is lost.
#[test]
fn perturbation_moves_flows_and_keeps_their_order() {
    let order = |perturb: Value| {
        let mut q = queue("sfq", json!({"divisor": 8, "limit": 1000, "perturb": perturb}));
        let all = (0..16).flat_map(|flow| burst(flow, 10));
        offer(&mut q, 0, all);
        offer(&mut q, 2000 * MS, [TestPacket::new(0, 10, 1000)]);
        drain(&mut q, 2000 * MS)
    };
    let (fixed, perturbed) = (order(json!(null)), order(json!(1000 * MS)));
    assert_ne!(fixed, perturbed);
    assert_eq!(perturbed.len(), 161);
    for flow in 0..16 {
        assert!(perturbed.iter().filter(|p| p.flow == flow).map(|p| p.seq).is_sorted());
    }
}

#[test]
fn each_parameter_reaches_the_queue() {
    let plain = flows_out(json!({}));
    assert_ne!(flows_out(json!({"quantum": 4000})), plain);
    let first_come = flows_out(json!({"divisor": 1}));
    assert!(first_come[..20].iter().all(|&flow| flow == 1));
    for params in [json!({"limit": 20}), json!({"depth": 5}), json!({"flows": 1})] {
        assert!(flows_out(params).len() < 40);
    }
}
