//! FQ-CoDel against RFC 8290.

use std::collections::BTreeMap;

use crate::common::{
    MS, TestPacket, assert_shares_in_bytes, drain, object, offer, overload, queue,
};
use dumbbell_queue::{Dequeued, DropReason, Dropped, Ecn, Enqueued, Nanos, build};
use serde_json::json;

const PACKET: u32 = 1500;

fn burst(flow: u32, packets: u64, bytes: u32) -> impl Iterator<Item = TestPacket> {
    (0..packets).map(move |seq| TestPacket::new(flow, seq, bytes))
}

/// RFC 8290's promise: a flow that builds no queue sees almost none, and bulk flows share evenly.
#[test]
fn sparse_flow_waits_two_packet_times_and_bulk_flows_share() {
    // Packets of one quantum: with smaller ones a flow sends two in some rounds.
    const PACKET: u32 = 1514;
    const PACKET_TIME: Nanos = 1_211_200; // at 10 Mbit/s
    const SPARSE: u32 = 1000;
    let mut q = queue("fq_codel", json!({}));
    let mut dropped = Dropped::new();
    // Bulk flow f keeps a window of 10 + 2 f packets in the queue; they are ECN-capable, so that
    // CoDel shrinks none.
    for flow in 0..10 {
        let window = burst(flow, 10 + 2 * u64::from(flow), PACKET);
        offer(&mut q, 0, window.map(|p| p.with_ecn(Ecn::Ect0)));
    }
    let mut bytes = BTreeMap::<u32, u64>::new();
    let mut worst = 0;
    let mut pings = 0;
    // From one second on: before, the bulk flows are new flows themselves.
    let mut next_ping = 1000 * MS;
    let end = 30_000 * MS;
    let mut now = 0;
    while now < end {
        while next_ping <= now {
            q.enqueue(next_ping, TestPacket::new(SPARSE, 0, 100), &mut dropped);
            next_ping += 20_070_000;
        }
        let Dequeued::Packet(packet) = q.dequeue(now, &mut dropped) else {
            panic!("bulk flows ran dry");
        };
        if packet.flow == SPARSE {
            worst = worst.max(now - packet.at);
            pings += 1;
            now += 80_000;
        } else {
            *bytes.entry(packet.flow).or_default() += u64::from(packet.bytes);
            now += PACKET_TIME;
            offer(&mut q, now, [packet.with_ecn(Ecn::Ect0)]);
        }
    }
    assert!(dropped.is_empty());
    assert!(pings > 1400);
    assert!(worst <= 2 * PACKET_TIME, "{worst}");
    let (sum, squares) = bytes
        .values()
        .fold((0.0, 0.0), |(sum, squares), &b| (sum + b as f64, squares + (b as f64).powi(2)));
    let jain = sum * sum / (10.0 * squares);
    assert!(jain >= 0.98, "{jain}");
}

#[test]
fn new_flow_goes_first_and_then_takes_its_turn() {
    let mut q = queue("fq_codel", json!({}));
    offer(&mut q, 0, burst(1, 20, 500));
    let mut dropped = Dropped::new();
    let mut next = |q: &mut crate::common::Queue| match q.dequeue(0, &mut dropped) {
        Dequeued::Packet(p) => p.flow,
        other => panic!("{other:?}"),
    };
    // Four packets begin while flow 1 has credits of its first quantum; with the fifth it is old.
    for _ in 0..5 {
        assert_eq!(next(&mut q), 1);
    }
    offer(&mut q, 0, burst(2, 1, 100));
    assert_eq!(next(&mut q), 2);
    // Emptied, flow 2 moves to the end of the old flows; a packet that comes now waits there until
    // flow 1 has used its credits.
    assert_eq!(next(&mut q), 1);
    offer(&mut q, 0, burst(2, 1, 100));
    assert_eq!([next(&mut q), next(&mut q)], [1, 2]);
}

/// A flow that sends a packet just after it was found empty would be new each time, and starve the
/// others, if an emptied new flow were forgotten at once.
#[test]
fn one_packet_at_a_time_does_not_starve_others() {
    let mut q = queue("fq_codel", json!({}));
    offer(&mut q, 0, burst(1, 5000, 100));
    let mut dropped = Dropped::new();
    let mut bytes = BTreeMap::<u32, u32>::new();
    let mut waiting = false;
    for _ in 0..3000 {
        let Dequeued::Packet(packet) = q.dequeue(0, &mut dropped) else {
            panic!("empty");
        };
        *bytes.entry(packet.flow).or_default() += packet.bytes;
        if packet.flow == 2 {
            waiting = false;
        } else if !waiting {
            waiting = true;
            offer(&mut q, 0, burst(2, 1, 1500));
        }
    }
    assert!(bytes[&1] * 10 >= bytes[&2] * 9, "{bytes:?}");
}

#[test]
fn shares_are_in_bytes() {
    assert_shares_in_bytes("fq_codel");
}

#[test]
fn overflow_takes_half_of_the_largest_flow_from_its_head() {
    let mut q = queue("fq_codel", json!({"limit": 50}));
    offer(&mut q, 0, burst(1, 30, 100));
    offer(&mut q, 0, burst(2, 20, 1000));
    // The 51st packet: flow 2 has most bytes, though fewer packets.
    let (outcomes, dropped) = offer(&mut q, 0, [TestPacket::new(1, 30, 100)]);
    assert_eq!(outcomes, [Enqueued::Accepted]);
    assert!(dropped.iter().all(|p| p.flow == 2));
    assert!(dropped.iter().map(|p| p.seq).eq(0..10));
    assert_eq!(q.counters().dropped_overflow, 10);
}

#[test]
fn overflow_drops_at_most_a_batch() {
    let mut q = queue("fq_codel", json!({"limit": 1000}));
    let (_, dropped) = offer(&mut q, 0, burst(1, 1001, 100));
    assert!(dropped.iter().map(|p| p.seq).eq(0..64));
}

#[test]
fn a_packet_that_is_its_own_victim_is_refused() {
    let mut q = queue("fq_codel", json!({"memory_limit": 1000}));
    let (outcomes, dropped) = offer(&mut q, 0, [TestPacket::new(1, 0, 1500)]);
    assert_eq!(outcomes, [Enqueued::Dropped]);
    assert_eq!(dropped.len(), 1);
    assert_eq!((q.backlog_packets(), q.backlog_bytes()), (0, 0));
    // The flow it left empty on the list of new flows does no harm.
    offer(&mut q, 1, burst(1, 1, 500));
    assert_eq!(drain(&mut q, 2).len(), 1);
}

/// On a single flow FQ-CoDel is CoDel: the golden times of tests/codel.rs.
#[test]
fn each_flow_is_under_codel() {
    let mut q = queue("fq_codel", json!({}));
    let trace = overload(&mut q, TestPacket::new(1, 0, PACKET), 0, 600 * MS);
    let times: Vec<u64> = trace.dropped.iter().map(|d| d.0 / MS).collect();
    assert_eq!(times, [110, 210, 281, 339, 389, 434, 474, 512, 548, 581]);
    assert!(trace.dropped.iter().all(|d| d.2 == DropReason::Aqm));
}

/// As in Linux, packets dropped for the limit count in CoDel's control law.
#[test]
fn overflow_drops_raise_the_signal() {
    let mut q = queue("fq_codel", json!({"limit": 1000}));
    // The first drop, at 110 ms, schedules the next for 210 ms.
    overload(&mut q, TestPacket::new(1, 0, PACKET), 0, 111 * MS);
    let room = 1000 - q.backlog_packets();
    let (_, refused) = offer(&mut q, 111 * MS, burst(1, room + 1, PACKET));
    assert_eq!(refused.len(), 64);
    let mut drops_at = |ms: u64| {
        let mut dropped = Dropped::new();
        q.dequeue(ms * MS, &mut dropped);
        dropped.len()
    };
    // Count 1 + 64 + 1: the next is due 100/sqrt(66) = 12.3 ms later, not 70.7 ms.
    assert_eq!([209, 210, 222, 223].map(&mut drops_at), [0, 1, 0, 1]);
}

/// As in Linux, the backlog that CoDel leaves alone is that of all flows: a flow's only packet is
/// dropped if it waits too long behind others.
#[test]
fn lone_packet_late_behind_other_flows_is_dropped() {
    let mut q = queue("fq_codel", json!({}));
    offer(&mut q, 0, burst(1, 20, PACKET));
    offer(&mut q, 0, burst(2, 1, PACKET));
    let mut dropped = Dropped::new();
    while !matches!(q.dequeue(50 * MS, &mut dropped), Dequeued::Packet(p) if p.flow == 2) {}
    assert!(dropped.is_empty());
    offer(&mut q, 50 * MS, burst(2, 1, PACKET));
    while q.backlog_packets() > 10 {
        q.dequeue(150 * MS, &mut dropped);
    }
    assert_eq!(dropped.iter().filter(|d| d.0.flow == 2).count(), 1);
}

#[test]
fn ecn_is_on_by_default_and_spares_only_capable_packets() {
    for (ecn, drops, marks) in [(Ecn::Ect0, 0, 10), (Ecn::Ect1, 0, 10), (Ecn::NotEct, 10, 0)] {
        let mut q = queue("fq_codel", json!({}));
        let packet = TestPacket::new(1, 0, PACKET).with_ecn(ecn);
        overload(&mut q, packet, 0, 600 * MS);
        let c = q.counters();
        assert_eq!((c.dropped_aqm, c.marked), (drops, marks), "{ecn:?}");
    }
}

#[test]
fn each_parameter_reaches_the_queue() {
    let first = |params| {
        let mut q = queue("fq_codel", params);
        let packet = TestPacket::new(1, 0, PACKET).with_ecn(Ecn::Ect0);
        let trace = overload(&mut q, packet, 0, 300 * MS);
        let drop = trace.dropped.first().map(|d| d.0 / MS);
        let mark = trace.delivered.iter().find(|d| d.1.ecn == Ecn::Ce);
        (drop, mark.map(|d| d.0 / MS))
    };
    assert_eq!(first(json!({})), (None, Some(110)));
    assert_eq!(first(json!({"target": 20 * MS})), (None, Some(140)));
    assert_eq!(first(json!({"interval": 50 * MS})), (None, Some(60)));
    assert_eq!(first(json!({"ecn": false})), (Some(110), None));
    assert_eq!(first(json!({"ce_threshold": 3 * MS})), (None, Some(7)));

    let half = |params| {
        let mut q = queue("fq_codel", params);
        offer(&mut q, 0, burst(1, 101, 1000)).1.len()
    };
    assert_eq!(half(json!({"limit": 100})), 51);
    assert_eq!(half(json!({"memory_limit": 100_000})), 51);
    assert_eq!(half(json!({"limit": 100, "drop_batch": 7})), 7);

    // Packets that one flow sends before the other's turn.
    let run = |quantum: u64| {
        let mut q = queue("fq_codel", json!({"quantum": quantum}));
        offer(&mut q, 0, burst(1, 100, 1000));
        offer(&mut q, 0, burst(2, 100, 1000));
        drain(&mut q, 0).iter().take_while(|p| p.flow == 1).count()
    };
    assert_eq!((run(1000), run(10_000)), (1, 10));

    // With one queue there is one order, first come first served.
    let alternating = || (0..100).map(|seq| TestPacket::new((seq % 2) as u32, seq, 1000));
    let order = |flows: u64| {
        let mut q = queue("fq_codel", json!({"flows": flows, "quantum": 10_000}));
        offer(&mut q, 0, alternating());
        drain(&mut q, 0)
    };
    assert!(order(1).iter().map(|p| p.seq).eq(0..100));
    assert!(!order(1024).iter().map(|p| p.seq).eq(0..100));
}

/// The salt comes from the seed: which flows share a queue differs between seeds.
#[test]
fn seed_salts_the_hash() {
    let order = |seed| {
        let mut q = build("fq_codel", &object(json!({"flows": 4})), seed).unwrap();
        for flow in 0..16 {
            offer(&mut q, 0, burst(flow, 3, 1000));
        }
        let flows: Vec<u32> = drain(&mut q, 0).iter().map(|p| p.flow).collect();
        flows
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}
