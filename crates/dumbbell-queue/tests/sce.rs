//! Marks of Some Congestion Experienced: how many, and on which packets (draft-morton-tsvwg-sce; the
//! SCE kernel's ramps of CAKE at its target of 5 ms).

use crate::common::{MS, TestPacket, offer, overload, queue};
use dumbbell_queue::{Dequeued, Dropped, Ecn, Nanos};
use serde_json::{Value, json};

const PACKET: u32 = 1500;

fn packet(ecn: Ecn) -> TestPacket {
    TestPacket::new(1, 0, PACKET).with_ecn(ecn)
}

/// Share of SCE marks on 10 240 packets that waited for `delay`, all dequeued at one time, an interval
/// of COBALT away from its first signal of CE.
fn share(params: Value, delay: Nanos, ecn: Ecn) -> f64 {
    let mut q = queue("sce", params);
    let mut dropped = Dropped::new();
    offer(&mut q, MS, [packet(ecn)]);
    q.dequeue(MS, &mut dropped);
    offer(&mut q, MS, (0..10_240).map(|_| packet(ecn)));
    let mut marks = 0;
    for _ in 0..10_240 {
        let Dequeued::Packet(p) = q.dequeue(MS + delay, &mut dropped) else { panic!("dropped") };
        marks += u32::from(p.ecn == Ecn::Ect1 && ecn == Ecn::Ect0);
    }
    assert_eq!(q.counters().marked_sce, u64::from(marks));
    f64::from(marks) / 10_240.0
}

/// Probabilities of the three ramps; shares within 5 standard deviations of a binomial.
#[test]
fn marks_are_as_many_as_the_ramps_say() {
    let straddling = json!({"ramp": "straddling", "knee": 8});
    let delays = [2_500_000, 3_750_000, 5_000_000, 7_500_000, 10_000_000];
    for (params, expected) in [
        (json!({}), [0.0, 0.5, 1.0, 1.0, 1.0]),
        (straddling, [0.0, 1.0 / 16.0, 1.0 / 8.0, 9.0 / 16.0, 1.0]),
        (json!({"ramp": "above"}), [0.0, 0.0, 0.0, 0.5, 1.0]),
    ] {
        for (delay, p) in delays.into_iter().zip(expected) {
            let got = share(params.clone(), delay, Ecn::Ect0);
            let deviation = (p * (1.0 - p) / 10_240.0_f64).sqrt();
            assert!((got - p).abs() <= 5.0 * deviation, "{params} {delay}: {got} not {p}");
        }
    }
}

/// Only ECT(0) becomes SCE; Not-ECT, ECT(1) and CE pass as they came.
#[test]
fn only_ect0_is_marked() {
    for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ce] {
        assert_eq!(share(json!({}), 10 * MS, ecn), 0.0);
        let mut q = queue("sce", json!({}));
        let trace = overload(&mut q, packet(ecn), 0, 100 * MS);
        assert!(trace.delivered.iter().all(|d| d.1.ecn == ecn));
    }
}

/// CE is decided on first, at the times of tests/cobalt.rs, and overrides SCE.
#[test]
fn ce_comes_first() {
    let mut q = queue("sce", json!({}));
    let trace = overload(&mut q, packet(Ecn::Ect0), 0, 300 * MS);
    let ce: Vec<u64> =
        trace.delivered.iter().filter(|d| d.1.ecn == Ecn::Ce).map(|d| d.0 / MS).collect();
    assert_eq!(ce, [111, 182, 240, 290]);
    // From 10 ms on (delay 5 ms) every packet is marked, SCE or CE.
    assert!(trace.delivered.iter().all(|d| d.0 < 10 * MS || d.1.ecn != Ecn::Ect0));
    assert!(trace.dropped.is_empty());
}

/// A second CoDel with half the target and an interval `knee` times shorter: over 2.5 ms from 6 ms on,
/// the first mark 25 ms later and the next 25/sqrt(2) and 25/sqrt(3) ms after it.
#[test]
fn marks_by_a_second_schedule() {
    let marks = |knee: u64| {
        let mut q = queue("sce", json!({"marking": "codel", "knee": knee}));
        let trace = overload(&mut q, packet(Ecn::Ect0), 0, 70 * MS);
        let sce = trace.delivered.iter().filter(|d| d.1.ecn == Ecn::Ect1);
        sce.map(|d| d.0 / MS).collect::<Vec<u64>>()
    };
    assert_eq!(marks(4), [31, 49, 64]);
    assert_eq!(marks(2), [56]);
}

/// With flow queues a sparse flow goes first and is not marked for the queue that another builds.
#[test]
fn flow_queues_keep_a_sparse_flow_unmarked() {
    let sparse_marked = |flows: u64| {
        let mut q = queue("sce", json!({"flows": flows}));
        let mut dropped = Dropped::new();
        let mut marked = 0;
        for ms in 0..200 {
            offer(&mut q, ms * MS, [packet(Ecn::Ect0), packet(Ecn::Ect0)]);
            if ms % 20 == 0 {
                offer(&mut q, ms * MS, [TestPacket::new(2, 0, 100).with_ecn(Ecn::Ect0)]);
            }
            if let Dequeued::Packet(p) = q.dequeue(ms * MS, &mut dropped) {
                marked += u32::from(p.flow == 2 && p.ecn != Ecn::Ect0);
            }
        }
        marked
    };
    assert_eq!(sparse_marked(1024), 0);
    assert!(sparse_marked(1) > 0);
}

#[test]
fn each_parameter_reaches_the_queue() {
    // First SCE and first CE.
    let first = |params: Value| {
        let mut q = queue("sce", params);
        let trace = overload(&mut q, packet(Ecn::Ect0), 0, 400 * MS);
        let at = |ecn| trace.delivered.iter().find(|d| d.1.ecn == ecn).map(|d| d.0 / MS);
        (at(Ecn::Ect1), at(Ecn::Ce))
    };
    let (sce, ce) = first(json!({}));
    assert!(sce.is_some_and(|ms| (6..=10).contains(&ms)));
    assert_eq!(ce, Some(111));
    assert_eq!(first(json!({"target": 50 * MS})).1, Some(201));
    assert!(first(json!({"target": 50 * MS})).0.is_some_and(|ms| ms > 50));
    assert_eq!(first(json!({"interval": 50 * MS})).1, Some(61));
    assert_eq!(first(json!({"mtu_time": 10 * MS})).1, Some(181));
    assert_eq!(first(json!({"ecn": false})).1, None);
    assert!(first(json!({"ramp": "above"})).0.is_some_and(|ms| ms > 10));
    assert_eq!(first(json!({"marking": "codel"})).0, Some(31));

    let counters = |params: Value| {
        let mut q = queue("sce", params);
        offer(&mut q, 6 * MS, (0..10_000).map(|n| TestPacket { flow: n % 2, ..packet(Ecn::Ect0) }));
        crate::common::drain(&mut q, 6 * MS + 4_500_000);
        q.counters()
    };
    assert_eq!(counters(json!({"limit": 9_000})).dropped_overflow, 1000);
    let blue = json!({"limit": 9_000, "blue_increment": 0.5});
    assert!(counters(blue.clone()).dropped_aqm > 1000);
    let marks = |knee: u64| counters(json!({"ramp": "straddling", "knee": knee})).marked_sce;
    assert!(marks(1) > 2 * marks(4));
    assert!(counters(json!({"blue_threshold": 4 * MS, "blue_increment": 0.5})).dropped_aqm > 1000);

    let run = |quantum: u64| {
        let mut q = queue("sce", json!({"quantum": quantum, "flows": 1024}));
        for flow in [1, 2] {
            offer(&mut q, 0, (0..50).map(|seq| TestPacket::new(flow, seq, 1000)));
        }
        crate::common::drain(&mut q, 0).iter().take_while(|p| p.flow == 1).count()
    };
    assert_eq!((run(1000), run(10_000)), (1, 10));
}
