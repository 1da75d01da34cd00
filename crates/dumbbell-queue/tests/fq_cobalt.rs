//! Flow queues under COBALT.

use crate::common::{
    MS, TestPacket, assert_cobalt_parameters, assert_shares_in_bytes, drain, offer, overload,
    queue, signals,
};
use dumbbell_queue::Enqueued;
use serde_json::{Value, json};

const PACKET: u32 = 1500;

fn burst(flow: u32, packets: u64, bytes: u32) -> impl Iterator<Item = TestPacket> {
    (0..packets).map(move |seq| TestPacket::new(flow, seq, bytes))
}

/// On a single flow it is COBALT: the golden times of tests/cobalt.rs.
#[test]
fn each_flow_is_under_cobalt() {
    let mut q = queue("fq_cobalt", json!({}));
    let trace = overload(&mut q, TestPacket::new(1, 0, PACKET), 0, 300 * MS);
    let times: Vec<u64> = trace.dropped.iter().map(|d| d.0 / MS).collect();
    assert_eq!(times, [111, 182, 240, 290]);
}

/// Deficit round robin (RFC 8290 section 4.2): equal bytes for flows with unequal packets, to within
/// two quanta and a packet.
#[test]
fn shares_are_in_bytes() {
    assert_shares_in_bytes("fq_cobalt");
}

/// The head of the queue with most bytes goes, and only that flow's BLUE hears of it.
#[test]
fn overflow_drops_from_the_fattest_flow() {
    let mut q = queue("fq_cobalt", json!({"limit": 50, "blue_increment": 1.0}));
    offer(&mut q, 6 * MS, burst(1, 30, 100));
    offer(&mut q, 6 * MS, burst(2, 20, 1000));
    let (outcomes, dropped) = offer(&mut q, 6 * MS, [TestPacket::new(1, 30, 100)]);
    assert_eq!(outcomes, [Enqueued::Accepted]);
    assert_eq!(dropped.iter().map(|p| (p.flow, p.seq)).collect::<Vec<_>>(), [(2, 0)]);
    let left = drain(&mut q, 6 * MS);
    let of = |flow| left.iter().filter(|p| p.flow == flow).count();
    assert_eq!((of(1), of(2)), (31, 1));
}

#[test]
fn each_parameter_reaches_the_queue() {
    assert_cobalt_parameters("fq_cobalt");
    let sure = json!({"blue_threshold": 20 * MS, "blue_increment": 1.0});
    assert!(signals("fq_cobalt", sure).1 > 100);
    let overflow = |limit: u64| {
        let mut q = queue("fq_cobalt", json!({"limit": limit, "blue_decrement": 0.0}));
        offer(&mut q, 6 * MS, burst(1, 10, 1000)).1.len()
    };
    assert_eq!((overflow(10), overflow(7)), (0, 3));
    let order = |params: Value| {
        let mut q = queue("fq_cobalt", params);
        offer(&mut q, 0, burst(1, 50, 1000));
        offer(&mut q, 0, burst(2, 50, 1000));
        drain(&mut q, 0).iter().take_while(|p| p.flow == 1).count()
    };
    assert_eq!(order(json!({"quantum": 1000})), 1);
    assert_eq!(order(json!({"quantum": 10_000})), 10);
    assert_eq!(order(json!({"flows": 1})), 50);
}
