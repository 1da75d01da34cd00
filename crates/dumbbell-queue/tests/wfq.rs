//! Weighted fair queueing against Goyal, Vin and Cheng 1997.

use crate::common::shares::{Saturated, jain};
use crate::common::{TestPacket, drain, offer, queue};
use serde_json::{Value, json};

const PREMIUM: u8 = 46;

fn weights(premium: f64) -> Value {
    json!({"classes": [{"dscp": [PREMIUM], "weight": premium}, {}]})
}

/// The greatest difference of the two classes' services over their weights, at any time.
fn most_apart(premium: f64, bytes: [u32; 2], packets: usize) -> f64 {
    let flows =
        [TestPacket::new(0, 0, bytes[0]).with_dscp(PREMIUM), TestPacket::new(1, 0, bytes[1])];
    let mut link = Saturated::new(queue("wfq", weights(premium)), &flows);
    let mut service = [0.0; 2];
    let mut most = 0.0_f64;
    for _ in 0..packets {
        let packet = link.next();
        let class = packet.flow as usize;
        service[class] += f64::from(packet.bytes) / [premium, 1.0][class];
        most = most.max((service[0] - service[1]).abs());
    }
    most
}

/// Three packets to one, at any time within one.
#[test]
fn weights_of_three_to_one_are_75_and_25_percent() {
    assert!(most_apart(3.0, [1000, 1000], 10_000) <= 1000.0 + 1e-6);
    let flows = [TestPacket::new(0, 0, 1000).with_dscp(PREMIUM), TestPacket::new(1, 0, 1000)];
    let bytes = Saturated::new(queue("wfq", weights(3.0)), &flows).bytes(10_000);
    assert!(bytes[&0].abs_diff(7_500_000) <= 1000, "{bytes:?}");
}

/// Theorem 1 of the paper: while both have packets, services over weights differ by no more than the sum
/// of the largest packets over the weights.
#[test]
fn the_bound_holds_for_any_weights_and_sizes() {
    for (premium, bytes) in
        [(1.0, [1500, 300]), (0.1, [40, 1500]), (7.3, [1500, 40]), (1000.0, [700, 900])]
    {
        let bound = f64::from(bytes[0]) / premium + f64::from(bytes[1]);
        let apart = most_apart(premium, bytes, 20_000);
        assert!(apart <= bound * (1.0 + 1e-9), "{premium} {bytes:?}: {apart} > {bound}");
    }
}

/// A class that was idle has nothing to catch up with, and one that was alone nothing to pay back.
#[test]
fn idle_time_is_no_credit() {
    let mut q = queue("wfq", weights(1.0));
    let packets =
        |flow: u32, dscp| (0..100).map(move |seq| TestPacket::new(flow, seq, 1000).with_dscp(dscp));
    offer(&mut q, 0, packets(1, 0));
    drain(&mut q, 0);
    offer(&mut q, 0, packets(1, 0));
    offer(&mut q, 0, packets(2, PREMIUM));
    let half = drain(&mut q, 0).iter().take(100).filter(|p| p.flow == 1).count();
    assert!((49..=51).contains(&half), "{half}");
}

/// Users with one and with nine flows have the same, if hosts are told apart.
#[test]
fn hosts_share_evenly_whatever_their_flows() {
    let flows: Vec<_> =
        (0..10).map(|n| TestPacket::new(n, 0, 500 + 100 * n).between(n.min(1), n)).collect();
    let q = queue("wfq", json!({"isolate": "source"}));
    let bytes = Saturated::new(q, &flows).bytes(20_000);
    let alone = bytes[&0];
    let others: u64 = bytes.values().sum::<u64>() - alone;
    assert!(alone.abs_diff(others) <= 500 + 1400, "{bytes:?}");
    let bytes = Saturated::new(queue("wfq", json!({})), &flows).bytes(20_000);
    assert!(jain(bytes.values()) > 0.9999, "{bytes:?}");
}

#[test]
fn each_parameter_reaches_the_queue() {
    let order = |params| {
        let flow = |n| TestPacket::new(n, 0, 1000);
        let flows = [flow(1).between(1, 1), flow(2).between(1, 2), flow(3).between(3, 1)];
        Saturated::new(queue("wfq", params), &flows).order(60)
    };
    let plain = order(json!({}));
    for params in [
        json!({"flows": 1}),
        json!({"isolate": "source"}),
        json!({"isolate": "destination"}),
        json!({"classes": [{}]}),
    ] {
        assert_ne!(order(params.clone()), plain, "{params}");
    }
    let mut q = queue("wfq", json!({"limit": 10}));
    assert_eq!(offer(&mut q, 0, (0..12).map(|seq| TestPacket::new(1, seq, 100))).1.len(), 2);
}
