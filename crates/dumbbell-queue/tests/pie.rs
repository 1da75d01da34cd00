//! PIE against RFC 8033, under an overload that does not respond: packets of 1500 bytes every half
//! millisecond on a link that serves one a millisecond.

use crate::common::{MS, TestPacket, Trace, overload, queue};
use dumbbell_queue::{DropReason, Ecn};
use serde_json::{Value, json};

const PACKET: u32 = 1500;

fn run(params: Value, packet: TestPacket, until: u64) -> Trace {
    overload(&mut queue("pie", params), packet, 0, until)
}

fn first_drop(trace: &Trace) -> u64 {
    trace.dropped.first().map_or(u64::MAX, |d| d.0)
}

/// Section 4.4: no drop while the burst allowance of 150 ms lasts, whatever the queue.
#[test]
fn a_burst_passes() {
    let packet = TestPacket::new(1, 0, PACKET);
    let trace = run(json!({}), packet, 2000 * MS);
    assert!(first_drop(&trace) >= 150 * MS, "{}", first_drop(&trace));
    let trace = run(json!({"max_burst": 1_000_000_000}), packet, 2000 * MS);
    assert!(first_drop(&trace) >= 1000 * MS, "{}", first_drop(&trace));
}

/// Twice the capacity arrives: half of it is dropped in the end, and the delay is near the target of
/// 15 ms, not at the limit of 1000 packets.
#[test]
fn an_overload_ends_at_the_target() {
    let trace = run(json!({}), TestPacket::new(1, 0, PACKET), 20_000 * MS);
    let late = |at: &u64| *at >= 10_000 * MS;
    let dropped = trace.dropped.iter().filter(|d| late(&d.0)).count();
    let delivered: Vec<_> = trace.delivered.iter().filter(|d| late(&d.0)).collect();
    assert!((9900..=10_100).contains(&dropped), "{dropped}");
    let mean = delivered.iter().map(|(at, p)| at - p.at).sum::<u64>() / delivered.len() as u64;
    assert!((10 * MS..20 * MS).contains(&mean), "{mean}");
    assert!(trace.dropped.iter().all(|d| d.2 == DropReason::Aqm));
}

/// Section 5.1: ECN-capable packets are marked up to 10 %, and dropped as others above.
#[test]
fn marks_give_way_to_drops_above_ten_percent() {
    let packet = TestPacket::new(1, 0, PACKET).with_ecn(Ecn::Ect0);
    let trace = run(json!({"ecn": true}), packet, 5000 * MS);
    let marked = trace.delivered.iter().filter(|d| d.1.ecn == Ecn::Ce).count();
    assert!(marked > 0);
    let last = trace.delivered.iter().filter(|d| d.1.ecn == Ecn::Ce).map(|d| d.1.at).max();
    assert!(trace.dropped.iter().all(|d| d.0 + 20 * MS >= last.unwrap()), "drops come later");
    assert!(!trace.dropped.is_empty());
    let all = run(json!({"ecn": true, "ecn_threshold": 1.0}), packet, 900 * MS);
    assert!(all.dropped.is_empty());
}

/// Every parameter changes what is dropped or marked.
#[test]
fn every_parameter_counts() {
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
    ] {
        assert_ne!(run(other.clone(), packet, 5000 * MS), plain, "{other}");
    }
    let marking = run(json!({"ecn": true}), packet, 5000 * MS);
    assert_ne!(run(json!({"ecn": true, "ecn_threshold": 0.01}), packet, 5000 * MS), marking);
}
