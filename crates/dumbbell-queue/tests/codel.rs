//! CoDel against numbers worked out by hand from RFC 8289.
//!
//! Under [`overload`] the packet served at millisecond k without drops is number k, which arrived at
//! k/2 ms; each drop moves the numbers on by one. The sojourn time reaches the 5 ms target at 10 ms,
//! so the first drop is due at 110 ms and the next follow at gaps of 100/sqrt(n) ms.

use crate::common::{MS, TestPacket, drain, object, offer, overload, queue};
use dumbbell_queue::{Dequeued, DropReason, Dropped, Ecn, build};
use serde_json::json;

const PACKET: u32 = 1500;

#[test]
fn golden_drops_under_constant_overload() {
    let mut q = queue("codel", json!({}));
    let trace = overload(&mut q, TestPacket::new(1, 0, PACKET), 0, 600 * MS);
    let times: Vec<u64> = trace.dropped.iter().map(|d| d.0 / MS).collect();
    // 110 + sum of 100/sqrt(n), each rounded up to the millisecond of the next service.
    assert_eq!(times, [110, 210, 281, 339, 389, 434, 474, 512, 548, 581]);
    // The head of the queue goes (AQM-02), and the one behind it is delivered.
    assert_eq!(trace.dropped_seqs(), [110, 211, 283, 342, 393, 439, 480, 519, 556, 590]);
    assert!(trace.dropped.iter().all(|d| d.2 == DropReason::Aqm));
    let expected: Vec<u64> = (0..610).filter(|seq| !trace.dropped_seqs().contains(seq)).collect();
    let delivered: Vec<u64> = trace.delivered.iter().map(|d| d.1.seq).collect();
    assert_eq!(delivered, expected);
    // Late services do not push the schedule back (AQM-03): the tenth drop is due 470.5 ms after
    // the first.
    assert_eq!(times[9] - times[0], 471);
}

#[test]
fn late_service_catches_up_with_the_schedule() {
    let mut q = queue("codel", json!({}));
    overload(&mut q, TestPacket::new(1, 0, PACKET), 0, 111 * MS);
    // No service from 110 ms (first drop) to 400 ms; drops were due at 210, 280.7, 338.5, 388.5.
    let mut dropped = Dropped::new();
    assert!(matches!(
        q.dequeue(400 * MS, &mut dropped),
        Dequeued::Packet(TestPacket { seq: 116, .. })
    ));
    let seqs: Vec<u64> = dropped.iter().map(|d| d.0.seq).collect();
    assert_eq!(seqs, [112, 113, 114, 115]);
}

/// Drops until 600 ms (ten: count 10), empties the queue, and overloads it again `pause` later.
/// Gives the gap between the first two drops then.
fn gap_after_reentry(pause: u64) -> u64 {
    let mut q = queue("codel", json!({}));
    overload(&mut q, TestPacket::new(1, 0, PACKET), 0, 600 * MS);
    let left = drain(&mut q, 600 * MS);
    assert!(left.len() > 500);
    let start = 600 * MS + pause;
    let trace = overload(&mut q, TestPacket::new(1, 0, PACKET), start, start + 400 * MS);
    assert_eq!(trace.dropped[0].0, start + 110 * MS);
    trace.dropped[1].0 - trace.dropped[0].0
}

#[test]
fn reentry_keeps_the_count_for_sixteen_intervals() {
    // Ten drops, one of them from entering: re-entry continues with count 9, 100/sqrt(9) ms.
    assert_eq!(gap_after_reentry(0), 34 * MS);
    // drop_next was 612 ms when the state was left, so the memory ends at 2212 ms.
    assert_eq!(gap_after_reentry(1500 * MS - 10 * MS), 34 * MS);
    assert_eq!(gap_after_reentry(1505 * MS), 100 * MS);
}

#[test]
fn short_burst_is_not_punished() {
    let mut q = queue("codel", json!({}));
    let (_, dropped) = offer(&mut q, 0, (0..100).map(|seq| TestPacket::new(1, seq, PACKET)));
    assert!(dropped.is_empty());
    let mut dropped = Dropped::new();
    for k in 0..100 {
        assert!(matches!(q.dequeue(k * MS, &mut dropped), Dequeued::Packet(p) if p.seq == k));
    }
    assert!(dropped.is_empty());
}

#[test]
fn a_single_packet_is_no_standing_queue() {
    // Each packet waits a second and leaves one behind: always delivered.
    let mut q = queue("codel", json!({}));
    let mut dropped = Dropped::new();
    offer(&mut q, 0, [TestPacket::new(1, 0, PACKET)]);
    for seq in 0..20 {
        let now = (seq + 1) * 1000 * MS;
        offer(&mut q, now, [TestPacket::new(1, seq + 1, PACKET)]);
        assert!(matches!(q.dequeue(now, &mut dropped), Dequeued::Packet(p) if p.seq == seq));
    }
    assert!(dropped.is_empty());
}

#[test]
fn ecn_marks_head_packets_at_the_times_of_drops() {
    let mut q = queue("codel", json!({"ecn": true}));
    let packet = TestPacket::new(1, 0, PACKET).with_ecn(Ecn::Ect0);
    let trace = overload(&mut q, packet, 0, 600 * MS);
    assert!(trace.dropped.is_empty());
    let marked: Vec<u64> =
        trace.delivered.iter().filter(|d| d.1.ecn == Ecn::Ce).map(|d| d.1.seq).collect();
    // Nothing is removed, so packet k leaves at millisecond k.
    assert_eq!(marked, [110, 210, 281, 339, 389, 434, 474, 512, 548, 581]);
    assert_eq!(q.counters().marked, 10);
}

#[test]
fn without_ecn_capability_packets_are_dropped() {
    for (params, ecn) in
        [(json!({"ecn": true}), Ecn::NotEct), (json!({}), Ecn::Ect0), (json!({}), Ecn::Ce)]
    {
        let mut q = queue("codel", params);
        let trace = overload(&mut q, TestPacket::new(1, 0, PACKET).with_ecn(ecn), 0, 600 * MS);
        assert_eq!((trace.dropped.len(), q.counters().marked), (10, 0));
    }
}

#[test]
fn ce_passes_and_is_not_counted_as_a_mark() {
    for kind in ["codel", "fq_codel"] {
        let mut q = queue(kind, json!({"ecn": true, "ce_threshold": 1}));
        let packet = TestPacket::new(1, 0, PACKET).with_ecn(Ecn::Ce);
        let trace = overload(&mut q, packet, 0, 600 * MS);
        assert!(trace.dropped.is_empty(), "{kind}");
        assert_eq!(q.counters().marked, 0, "{kind}");
    }
}

#[test]
fn threshold_marks_by_sojourn_time_alone() {
    let mut q = queue("codel", json!({"ce_threshold": 3 * MS}));
    let packet = TestPacket::new(1, 0, PACKET).with_ecn(Ecn::Ect1);
    let trace = overload(&mut q, packet, 0, 100 * MS);
    // Packet k waits k/2 ms: longer than 3 ms from packet 7 on.
    for (_, packet) in &trace.delivered {
        assert_eq!(packet.ecn == Ecn::Ce, packet.seq >= 7, "{}", packet.seq);
    }
}

#[test]
fn each_parameter_reaches_the_queue() {
    let first_drop = |params| {
        let mut q = queue("codel", params);
        overload(&mut q, TestPacket::new(1, 0, PACKET), 0, 300 * MS).dropped[0]
    };
    assert_eq!(first_drop(json!({})).0, 110 * MS);
    assert_eq!(first_drop(json!({"target": 20 * MS})).0, 140 * MS);
    assert_eq!(first_drop(json!({"interval": 50 * MS})).0, 60 * MS);
    // Packet n arrives at n/2 ms, and n/2 + 1 have left by then: 30 wait when number 60 comes
    // (the one served in that millisecond leaves after the arrival).
    let overflow = first_drop(json!({"limit": 30}));
    assert_eq!((overflow.0, overflow.2), (30 * MS, DropReason::Overflow));
}

#[test]
fn default_limit_is_a_thousand_packets() {
    let mut q = queue("codel", json!({}));
    let (_, dropped) = offer(&mut q, 0, (0..1001).map(|seq| TestPacket::new(1, seq, 100)));
    assert_eq!(dropped, [TestPacket::new(1, 1000, 100)]);
    assert!(build::<TestPacket>("codel", &object(json!({"limit": 0})), 1).is_err());
}
