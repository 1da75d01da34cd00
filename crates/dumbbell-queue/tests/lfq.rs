//! Lightweight fair queueing (draft-morton-tsvwg-lightweight-fair-queueing).

use std::collections::BTreeMap;

use crate::common::{
    MS, TestPacket, assert_cobalt_parameters, drain, offer, overload, queue, signals,
};
use dumbbell_queue::{Dequeued, Dropped, Ecn, Enqueued};
use serde_json::{Value, json};

fn packet(flow: u32, seq: u64, bytes: u32) -> TestPacket {
    TestPacket::new(flow, seq, bytes).with_ecn(Ecn::Ect0)
}

fn burst(flow: u32, packets: u64, bytes: u32) -> impl Iterator<Item = TestPacket> {
    (0..packets).map(move |seq| packet(flow, seq, bytes))
}

/// Each sweep gives each flow one quantum: equal bytes with packets of 1500, 600 and 300 bytes, and
/// with one flow three times as long in the queue as another, to within two quanta.
#[test]
fn shares_are_equal_in_bytes() {
    for sce in [Value::Null, json!(4)] {
        let mut q = queue("lfq", json!({"sce_thresh": sce}));
        offer(&mut q, 0, burst(1, 1500, 1500));
        offer(&mut q, 0, burst(2, 2000, 600));
        offer(&mut q, 0, burst(3, 3000, 300));
        let mut dropped = Dropped::new();
        let mut bytes = BTreeMap::<u32, i64>::new();
        let mut total = 0;
        while total < 2_400_000 {
            let Dequeued::Packet(p) = q.dequeue(0, &mut dropped) else { panic!("empty") };
            *bytes.entry(p.flow).or_default() += i64::from(p.bytes);
            total += i64::from(p.bytes);
            let mean = total / 3;
            assert!(total < 10_000 || bytes.values().all(|b| (b - mean).abs() <= 2 * 1514));
        }
        assert!(dropped.is_empty());
    }
}

/// A flow without packets in the queue and with credit left is sparse; one that has used its credit up
/// is not before the next sweep.
#[test]
fn sparse_flows_go_first_until_their_credit_is_used_up() {
    let mut q = queue("lfq", json!({}));
    let mut dropped = Dropped::new();
    let mut next = |q: &mut crate::common::Queue| match q.dequeue(0, &mut dropped) {
        Dequeued::Packet(p) => p.flow,
        other => panic!("{other:?}"),
    };
    offer(&mut q, 0, burst(1, 5, 1500));
    assert_eq!([next(&mut q), next(&mut q)], [1, 1]);
    // Flow 2 starts without credit or debt; 100 bytes put it into debt, to be paid in the next sweep.
    offer(&mut q, 0, burst(2, 1, 100));
    assert_eq!(next(&mut q), 2);
    offer(&mut q, 0, burst(2, 1, 100));
    assert_eq!([next(&mut q), next(&mut q)], [1, 2]);
    // Now it has a credit of a quantum less 200 bytes and is sparse.
    offer(&mut q, 0, burst(2, 1, 100));
    assert_eq!([next(&mut q), next(&mut q)], [2, 1]);
}

/// On a single flow it is COBALT: the golden times of tests/cobalt.rs. SCE with sce_thresh 4 as there.
#[test]
fn the_bulk_is_under_cobalt() {
    let mut q = queue("lfq", json!({"sce_thresh": 4}));
    let trace = overload(&mut q, packet(1, 0, 1500), 0, 300 * MS);
    let at = |ecn| {
        let marked = trace.delivered.iter().filter(move |d| d.1.ecn == ecn);
        marked.map(|d| d.0 / MS).collect::<Vec<u64>>()
    };
    assert_eq!(at(Ecn::Ce), [111, 182, 240, 290]);
    assert_eq!(at(Ecn::Ect1)[..4], [31, 49, 64, 76]);
}

#[test]
fn overflow_drops_the_head_of_the_bulk() {
    let mut q = queue("lfq", json!({"limit": 3}));
    let (outcomes, dropped) = offer(&mut q, 0, burst(1, 5, 1500));
    assert_eq!(outcomes, [Enqueued::Accepted; 5]);
    assert_eq!(dropped.iter().map(|p| p.seq).collect::<Vec<_>>(), [1, 2]);
    let mut q = queue("lfq", json!({"limit": 2}));
    let (_, dropped) = offer(&mut q, 0, (0..4).map(|flow| packet(flow, 0, 1500)));
    assert_eq!(dropped.iter().map(|p| p.flow).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn each_parameter_reaches_the_queue() {
    assert_cobalt_parameters("lfq");
    assert!(signals("lfq", json!({"blue_threshold": 20 * MS, "blue_increment": 1.0})).1 > 100);
    assert_eq!(signals("lfq", json!({"limit": 9})).0, 0);

    let run = |params: Value| {
        let mut q = queue("lfq", params);
        offer(&mut q, 0, burst(1, 30, 500));
        offer(&mut q, 0, burst(2, 30, 500));
        drain(&mut q, 0).iter().skip(2).take_while(|p| p.flow == 1).count()
    };
    // After the two sparse packets both flows are skipped until the first sweep.
    assert_eq!(run(json!({"quantum": 1000})), 2);
    assert_eq!(run(json!({"quantum": 5000})), 10);
    assert_eq!(run(json!({"flows": 1})), 28);

    let dropped = |decrement: f64| {
        let blue = json!({"limit": 9, "blue_increment": 1.0, "blue_decrement": decrement});
        let mut q = queue("lfq", blue);
        offer(&mut q, 6 * MS, burst(1, 10, 1500));
        drain(&mut q, 12 * MS);
        let before = q.counters().dropped_aqm;
        offer(&mut q, 13 * MS, burst(1, 9, 1500));
        drain(&mut q, 13 * MS);
        q.counters().dropped_aqm - before
    };
    assert!(dropped(0.0) > dropped(1.0));
}
