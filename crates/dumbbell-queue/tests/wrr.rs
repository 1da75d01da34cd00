//! Weighted round robin: packets a round, and their order.

use crate::common::shares::Saturated;
use crate::common::{TestPacket, offer, queue};
use dumbbell_queue::{Dequeued, Dropped};
use serde_json::{Value, json};

const A: u8 = 1;
const B: u8 = 2;

fn class(name: u8, bytes: u32) -> TestPacket {
    TestPacket::new(u32::from(name), 0, bytes).with_dscp(name)
}

fn classes(interleaved: bool) -> Value {
    json!({"interleaved": interleaved, "classes": [
        {"dscp": [A], "weight": 3}, {"dscp": [B], "weight": 1}, {"weight": 2}]})
}

/// Weights 3, 1 and 2. Interleaved, a class of weight w sends in the first w visits of a round
/// (Tabatabaee, Le Boudec and Boyer 2021, algorithm 1).
#[test]
fn the_order_of_a_round() {
    let flows = [class(A, 100), class(B, 100), class(3, 100)];
    for (interleaved, round) in [(false, [1, 1, 1, 2, 3, 3]), (true, [1, 2, 3, 1, 3, 1])] {
        let order = Saturated::new(queue("wrr", classes(interleaved)), &flows).order(18);
        assert_eq!(order, [round, round, round].concat());
    }
}

/// It counts packets: with equal weights those of 1500 bytes get five times as much as those of 300.
#[test]
fn large_packets_get_more() {
    for params in [json!({}), json!({"classes": [{"dscp": [A]}, {}]})] {
        let flows = [class(A, 1500), class(B, 300)];
        let bytes = Saturated::new(queue("wrr", params), &flows).bytes(2000);
        assert_eq!((bytes[&1], bytes[&2]), (1_500_000, 300_000));
    }
}

/// A class that sends one packet at a time, just after it was found empty, does not make a round
/// longer than its weight.
#[test]
fn one_packet_at_a_time_does_not_starve_others() {
    for interleaved in [false, true] {
        let mut q = queue("wrr", classes(interleaved));
        offer(&mut q, 0, (0..3000).map(|seq| TestPacket { seq, ..class(B, 100) }));
        let mut dropped = Dropped::new();
        let (mut waiting, mut sent) = (0, [0; 2]);
        for seq in 0..400 {
            if waiting == 0 {
                offer(&mut q, 0, [TestPacket { seq, ..class(A, 100) }]);
                waiting = 1;
            }
            let Dequeued::Packet(packet) = q.dequeue(0, &mut dropped) else { panic!("empty") };
            waiting -= u32::from(packet.dscp == A);
            sent[usize::from(packet.dscp == B)] += 1;
        }
        assert!(sent[1] >= 100, "{interleaved}: {sent:?}");
    }
}

#[test]
fn each_parameter_reaches_the_queue() {
    let order = |params| {
        let flows = [class(A, 100).between(1, 9), class(B, 100).between(1, 8), class(3, 100)];
        Saturated::new(queue("wrr", params), &flows).order(60)
    };
    let plain = order(json!({}));
    for params in [
        json!({"flows": 1}),
        json!({"isolate": "source"}),
        json!({"classes": [{"dscp": [A], "weight": 2}, {}]}),
    ] {
        assert_ne!(order(params.clone()), plain, "{params}");
    }
    assert_ne!(order(classes(true)), order(classes(false)));
    let mut q = queue("wrr", json!({"limit": 10}));
    assert_eq!(offer(&mut q, 0, (0..12).map(|seq| TestPacket::new(1, seq, 100))).1.len(), 2);
}
