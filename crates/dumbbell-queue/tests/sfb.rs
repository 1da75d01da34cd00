//! BLUE and Stochastic Fair BLUE against Feng, Kandlur, Saha and Shin 2002.

use crate::common::{MS, Queue, TestPacket, Trace, drain, offer, overload, queue, recorded};
use dumbbell_queue::{Dequeued, DropReason, Dropped, Ecn, Nanos};
use serde_json::{Value, json};

const SECOND: Nanos = 1000 * MS;

fn blue(mut params: Value) -> Queue {
    for key in ["levels", "bins"] {
        params[key] = json!(1);
    }
    queue("sfb", params)
}

fn packets(n: u64) -> impl Iterator<Item = TestPacket> {
    (0..n).map(|seq| TestPacket::new(1, seq, 1500).with_ecn(Ecn::Ect0))
}

/// By hand: with a target of 20 the 21st to the 25th packet find it reached, each a step of 0.05 %
/// (tc-sfb); the 26th finds the bin full as well. A packet that finds the bin empty takes one step of
/// 0.005 % down.
#[test]
fn golden_steps_of_one_bin() {
    let mut q = blue(json!({}));
    let (_, dropped) = offer(&mut q, 0, packets(20));
    assert_eq!((recorded(&mut q, "largest_probability"), dropped.len()), (0.0, 0));
    offer(&mut q, 0, packets(5));
    assert!((recorded(&mut q, "largest_probability") - 0.0025).abs() < 1e-12);
    let (_, dropped) = offer(&mut q, 0, packets(3));
    assert_eq!(dropped.len(), 3);
    assert!((recorded(&mut q, "largest_probability") - 0.004).abs() < 1e-12);
    drain(&mut q, MS);
    offer(&mut q, MS, packets(1));
    assert!((recorded(&mut q, "largest_probability") - (0.004 - 0.000_05)).abs() < 1e-12);
    // The freeze time of BLUE: one step in 100 ms.
    let mut q = blue(json!({"freeze_time": 100_000_000}));
    offer(&mut q, MS, packets(25));
    assert!((recorded(&mut q, "largest_probability") - 0.0005).abs() < 1e-12);
    offer(&mut q, 101 * MS, packets(3));
    assert!((recorded(&mut q, "largest_probability") - 0.001).abs() < 1e-12);
}

/// A flow of twice the capacity beside ten flows of 8 % each: it is held down to what they leave, and
/// they lose next to nothing. A single queue would drop 64 % of all.
#[test]
fn a_flow_that_does_not_respond_is_isolated() {
    let mut q = queue("sfb", json!({}));
    let mut dropped = Dropped::new();
    let (mut offered, mut delivered) = ([0_u32; 11], [0_u32; 11]);
    for tick in 0..120_000_u64 {
        let now = tick * MS / 2;
        let late = now >= 30 * SECOND;
        let thin = (tick % 5 < 2).then_some(1 + (tick / 5 % 10) as u32);
        for flow in std::iter::once(0).chain(thin) {
            q.enqueue(now, TestPacket::new(flow, tick, 1500), &mut dropped);
            offered[flow as usize] += u32::from(late);
        }
        if tick % 2 == 0
            && let Dequeued::Packet(packet) = q.dequeue(now, &mut dropped)
        {
            delivered[packet.flow as usize] += u32::from(late);
        }
    }
    assert_eq!(offered[0], 60_000);
    assert!((3000..=6300).contains(&delivered[0]), "{delivered:?}");
    for flow in 1..11 {
        let share = f64::from(delivered[flow]) / f64::from(offered[flow]);
        assert!(share > 0.99, "{share} of {flow}");
    }
}

/// At probability one a flow gets the penalty rate, 50 packets a second, and no more.
#[test]
fn the_penalty_rate_is_left_to_a_condemned_flow() {
    let mut q = queue("sfb", json!({"penalty_rate": 50, "increment": 1.0, "decrement": 0.0}));
    let trace = overload(&mut q, TestPacket::new(1, 0, 1500), 0, 40 * SECOND);
    let late = trace.delivered.iter().filter(|d| d.0 >= 10 * SECOND).count();
    assert!((1499..=1501).contains(&late), "{late}");
    assert!(trace.dropped.iter().rev().take(1000).all(|d| d.2 == DropReason::Policed));
}

/// New hash functions start from nothing, unless they have learnt beside the old ones.
#[test]
fn rehashing_forgets_unless_warmed_up() {
    let after = |db: u64| {
        let mut q = queue("sfb", json!({"rehash": 10 * SECOND, "db": db, "increment": 0.01}));
        let mut seq = 0;
        for now in (0..=10 * SECOND).step_by(MS as usize) {
            seq += 1;
            offer(&mut q, now, [TestPacket::new(1, seq, 1500)]);
        }
        recorded(&mut q, "largest_probability")
    };
    assert!(after(0) <= 0.01, "{}", after(0));
    assert_eq!(after(5 * SECOND), 1.0);
}

/// Every parameter changes what is dropped or marked.
#[test]
fn every_parameter_counts() {
    let packet = TestPacket::new(1, 0, 1500).with_ecn(Ecn::Ect0);
    let run = |params| -> Trace { overload(&mut queue("sfb", params), packet, 0, 3000 * MS) };
    let plain = run(json!({}));
    for other in [
        json!({"target": 10}),
        json!({"max": 22}),
        json!({"increment": 0.01}),
        json!({"freeze_time": 100_000_000}),
        json!({"rehash": 100_000_000, "db": 0}),
        json!({"limit": 10}),
    ] {
        assert_ne!(run(other.clone()), plain, "{other}");
    }
    let quick = |mut params: Value| {
        for (key, value) in [("increment", json!(1.0)), ("rehash", json!(1_000_000_000))] {
            params[key] = value;
        }
        run(params)
    };
    for other in [json!({"penalty_rate": 100}), json!({"penalty_burst": 100}), json!({"db": 0})] {
        assert_ne!(quick(other.clone()), quick(json!({})), "{other}");
    }
    // Flows that share bins.
    let sum = |params: Value| {
        let mut q = queue("sfb", params);
        let (_, dropped) =
            offer(&mut q, 0, (0..1000).map(|seq| TestPacket::new(seq as u32 % 50, seq, 1500)));
        dropped.len()
    };
    assert_ne!(sum(json!({"levels": 1})), sum(json!({})));
    assert_ne!(sum(json!({"bins": 4})), sum(json!({})));
    // The step down: from 0.2 % in an empty bin.
    let lowered = |decrement: f64| {
        let mut q = blue(json!({"decrement": decrement}));
        offer(&mut q, 0, packets(24));
        drain(&mut q, 0);
        offer(&mut q, 0, packets(1));
        recorded(&mut q, "largest_probability")
    };
    assert!(lowered(0.001) < lowered(0.000_1));
}
