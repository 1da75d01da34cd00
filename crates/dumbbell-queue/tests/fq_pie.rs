//! FQ-PIE: PIE's numbers (RFC 8033) on each of FQ-CoDel's queues (RFC 8290).

use crate::common::shares::{Saturated, jain};
use crate::common::{MS, TestPacket, Trace, offer, overload, queue};
use dumbbell_queue::{Dequeued, DropReason, Dropped, Ecn, Enqueued};
use serde_json::{Value, json};

const PACKET: u32 = 1500;

fn run(params: Value, packet: TestPacket, until: u64) -> Trace {
    overload(&mut queue("fq_pie", params), packet, 0, until)
}

/// Alone on the link a flow meets PIE: no drop in the first 150 ms, then at twice the capacity half of it
/// is dropped, and the delay is near the target of 15 ms.
#[test]
fn each_flow_is_under_pie() {
    let trace = run(json!({}), TestPacket::new(1, 0, PACKET), 20_000 * MS);
    assert!(trace.dropped[0].0 >= 150 * MS);
    let late = |at: &u64| *at >= 10_000 * MS;
    let dropped = trace.dropped.iter().filter(|d| late(&d.0)).count();
    assert!((9900..=10_100).contains(&dropped), "{dropped}");
    let delays: Vec<u64> =
        trace.delivered.iter().filter(|d| late(&d.0)).map(|(at, p)| at - p.at).collect();
    let mean = delays.iter().sum::<u64>() / delays.len() as u64;
    assert!((10 * MS..20 * MS).contains(&mean), "{mean}");
    assert!(trace.dropped.iter().all(|d| d.2 == DropReason::Aqm));
}

/// A flow that keeps to less than its share loses nothing beside one that sends at twice the link's rate,
/// and waits for no more than a packet of the other and its own.
#[test]
fn a_modest_flow_pays_for_no_other() {
    let mut q = queue("fq_pie", json!({}));
    let mut dropped = Dropped::new();
    let mut worst = 0;
    for half in 0..20_000_u64 {
        let now = half * MS / 2;
        q.enqueue(now, TestPacket::new(1, half, PACKET), &mut dropped);
        if half % 10 == 3 {
            q.enqueue(now, TestPacket::new(2, half, PACKET), &mut dropped);
        }
        if half % 2 == 0
            && let Dequeued::Packet(packet) = q.dequeue(now, &mut dropped)
            && packet.flow == 2
        {
            worst = worst.max(now - packet.at);
        }
    }
    assert!(dropped.len() > 9000);
    assert!(dropped.iter().all(|d| d.0.flow == 1));
    assert!(worst <= 2 * MS, "{worst}");
}

#[test]
fn ten_flows_share_evenly() {
    let flows: Vec<_> = (0..10).map(|n| TestPacket::new(n, 0, 150 * (n + 1))).collect();
    let bytes = Saturated::new(queue("fq_pie", json!({})), &flows).bytes(50_000);
    assert!(jain(bytes.values()) > 0.9999, "{bytes:?}");
}

/// As in Linux a full queue refuses what arrives, whosever it is.
#[test]
fn overflow_refuses_the_arriving_packet() {
    for params in [json!({"limit": 50}), json!({"memory_limit": 50_999})] {
        let mut q = queue("fq_pie", params);
        offer(&mut q, 0, (0..50).map(|seq| TestPacket::new(1, seq, 1000)));
        let (outcomes, dropped) = offer(&mut q, 0, [TestPacket::new(2, 0, 1000)]);
        assert_eq!((outcomes[0], dropped[0].flow), (Enqueued::Dropped, 2));
        assert_eq!(q.counters().dropped_overflow, 1);
    }
}

/// Every parameter changes what is dropped, marked, or sent first.
#[test]
fn each_parameter_reaches_the_queue() {
    let packet = TestPacket::new(1, 0, 700).with_ecn(Ecn::Ect0);
    let plain = run(json!({}), packet, 5000 * MS);
    for other in [
        json!({"target": 5_000_000}),
        json!({"tupdate": 30_000_000}),
        json!({"alpha": 1.0}),
        json!({"beta": 5.0}),
        json!({"max_burst": 0}),
        json!({"ecn": true}),
        json!({"bytemode": true}),
        json!({"rate_estimator": true}),
        json!({"linux": true}),
        json!({"limit": 50}),
        json!({"memory_limit": 50_000}),
    ] {
        assert_ne!(run(other.clone(), packet, 5000 * MS), plain, "{other}");
    }
    let marking = run(json!({"ecn": true}), packet, 5000 * MS);
    assert_ne!(run(json!({"ecn": true, "ecn_threshold": 0.01}), packet, 5000 * MS), marking);
    let order = |params| {
        let flows = [TestPacket::new(1, 0, 1000), TestPacket::new(2, 0, 1000)];
        Saturated::new(queue("fq_pie", params), &flows).order(40)
    };
    assert_ne!(order(json!({"quantum": 3000})), order(json!({})));
    assert_ne!(order(json!({"flows": 1})), order(json!({})));
}
