//! FIFO: limits and order.

mod common;

use common::{TestPacket, drain, offer, queue};
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
    assert_eq!(queue("codel", json!({})).fifo_fixed_rate(), None);
}
