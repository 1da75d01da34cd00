//! FIFO: limits, order, and which packet is dropped.

use crate::common::{TestPacket, drain, offer, queue};
use dumbbell_queue::{Enqueued, FifoLimit};
use serde_json::json;

fn burst(bytes: u32) -> impl Iterator<Item = TestPacket> {
    (0..2000).map(move |seq| TestPacket::new(1, seq, bytes))
}

#[test]
fn tail_drop_at_each_limit() {
    for (params, held) in [
        (json!({}), 1000),
        (json!({"limit": 333}), 333),
        // 100,000 bytes hold 66 packets of 1500 bytes (99,000) and not 67 (100,500).
        (json!({"limit_bytes": 100_000}), 66),
        (json!({"limit_bytes": 99_000}), 66),
        // A byte limit alone does not bring the packet default with it.
        (json!({"limit_bytes": 3_000_000}), 2000),
        (json!({"limit": 10, "limit_bytes": 100_000}), 10),
        (json!({"limit": 500, "limit_bytes": 100_000}), 66),
    ] {
        let mut q = queue("fifo", params.clone());
        let (outcomes, dropped) = offer(&mut q, 0, burst(1500));
        assert_eq!(q.backlog_packets(), held, "{params}");
        assert_eq!(q.backlog_bytes(), held * 1500, "{params}");
        assert!(dropped.iter().map(|p| p.seq).eq(held..2000), "{params}");
        let refused = outcomes.iter().filter(|&&o| o == Enqueued::Dropped).count();
        assert_eq!(refused as u64, 2000 - held);
        assert!(drain(&mut q, 1).iter().map(|p| p.seq).eq(0..held));
    }
}

#[test]
fn limits_are_told_to_the_engine() {
    let limit = |params| queue("fifo", params).fifo_fixed_rate();
    assert_eq!(limit(json!({"limit": 7})), Some(FifoLimit { packets: 7, bytes: u64::MAX }));
    assert_eq!(
        limit(json!({"limit_bytes": 9000, "limit": null})),
        Some(FifoLimit { packets: u64::MAX, bytes: 9000 })
    );
    assert_eq!(limit(json!({"drop": "head"})), None);
    assert_eq!(limit(json!({"drop": "random"})), None);
    assert_eq!(queue("codel", json!({})).fifo_fixed_rate(), None);
}

/// The oldest packets go and every arriving one stays, unless it is larger than the queue.
#[test]
fn head_drop_keeps_the_newest() {
    let mut q = queue("fifo", json!({"limit": 10, "drop": "head"}));
    let (outcomes, dropped) = offer(&mut q, 0, burst(1500).take(25));
    assert!(outcomes.iter().all(|&o| o == Enqueued::Accepted));
    assert!(dropped.iter().map(|p| p.seq).eq(0..15));
    assert!(drain(&mut q, 1).iter().map(|p| p.seq).eq(15..25));
    let mut q = queue("fifo", json!({"limit_bytes": 3000, "drop": "head"}));
    let sizes = [1000, 1000, 1000, 1500, 3001].into_iter().enumerate();
    let packets = sizes.map(|(seq, bytes)| TestPacket::new(1, seq as u64, bytes));
    let (outcomes, dropped) = offer(&mut q, 0, packets);
    // 1500 bytes need two of the thousands to go; 3001 bytes drop the rest and then themselves.
    assert!(dropped.iter().map(|p| p.seq).eq([0, 1, 2, 3, 4]));
    assert_eq!(outcomes[4], Enqueued::Dropped);
}

/// Each of the packets held, and the arriving one, goes with the same probability, 1/(n + 1): of 10
/// held, 20,000 arrivals are refused 1/11 of the time (four standard deviations).
#[test]
fn random_drop_takes_any() {
    let mut q = queue("fifo", json!({"limit": 10, "drop": "random"}));
    let packets = (0..20_010).map(|seq| TestPacket::new(1, seq, 1500));
    let (outcomes, dropped) = offer(&mut q, 0, packets);
    assert_eq!(dropped.len(), 20_000);
    let refused = outcomes.iter().filter(|&&o| o == Enqueued::Dropped).count() as f64;
    assert!((refused - 20_000.0 / 11.0).abs() < 163.0, "{refused}");
    let left = drain(&mut q, 1);
    assert!(left.is_sorted_by_key(|p| p.seq));
}
