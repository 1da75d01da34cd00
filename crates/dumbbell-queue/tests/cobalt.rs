//! COBALT against numbers worked out by hand from CAKE's description of it.
//!
//! Under [`overload`] the packet served at millisecond k arrived at k/2 ms, drops aside. The sojourn
//! time is over the 5 ms target from 11 ms on; the first signal is due an interval later, and the
//! next follow at gaps of 100/sqrt(n) ms, n = 2, 3, ...

use crate::common::{MS, TestPacket, drain, offer, overload, queue, recorded};
use dumbbell_queue::{Dequeued, DropReason, Dropped, Ecn, Enqueued, Nanos};
use serde_json::{Value, json};

const PACKET: u32 = 1500;

fn ect0() -> TestPacket {
    TestPacket::new(1, 0, PACKET).with_ecn(Ecn::Ect0)
}

fn times_with(trace: &crate::common::Trace, ecn: Ecn) -> Vec<u64> {
    trace.delivered.iter().filter(|d| d.1.ecn == ecn).map(|d| d.0 / MS).collect()
}

/// 111 + 70.71 + 57.74 + 50 + 44.72 + ..., each rounded up to the millisecond of the next service.
const GOLDEN: [u64; 12] = [111, 182, 240, 290, 335, 375, 413, 449, 482, 514, 544, 573];

#[test]
fn golden_signals_under_constant_overload() {
    let mut q = queue("cobalt", json!({}));
    let trace = overload(&mut q, TestPacket::new(1, 0, PACKET), 0, 600 * MS);
    let times: Vec<u64> = trace.dropped.iter().map(|d| d.0 / MS).collect();
    assert_eq!(times, GOLDEN);
    assert!(trace.dropped.iter().all(|d| d.2 == DropReason::Aqm));

    // The same times with marks.
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        let mut q = queue("cobalt", json!({}));
        let trace = overload(&mut q, TestPacket::new(1, 0, PACKET).with_ecn(ecn), 0, 600 * MS);
        assert_eq!(times_with(&trace, Ecn::Ce), GOLDEN);
        assert!(trace.dropped.is_empty());
    }
}

/// Twelve signals up to 600 ms leave a count of 13; the schedule then steps down at the gaps at which
/// it stepped up, and with no rule of memory as in CoDel it is where it was when overload returns.
#[test]
fn the_count_decays_while_the_delay_is_under_target() {
    let mut q = queue("cobalt", json!({}));
    overload(&mut q, ect0(), 0, 600 * MS);
    let count = |q: &mut crate::common::Queue| recorded(q, "cobalt_count");
    assert_eq!(count(&mut q), 13.0);
    drain(&mut q, 600 * MS);
    let mut dropped = Dropped::new();
    let mut light = |q: &mut crate::common::Queue, now: Nanos| {
        q.enqueue(now, ect0(), &mut dropped);
        assert!(matches!(q.dequeue(now, &mut dropped), Dequeued::Packet(_)));
        count(q)
    };
    // A signal was due at 572.12 + 100/sqrt(13) = 599.85 ms and given at 600, in the drain. The next step
    // is due at 626.58 ms and goes down, to 13, the one after it 100/sqrt(13) ms later.
    let before = light(&mut q, 601 * MS);
    let mut now = 601 * MS;
    let mut steps = vec![];
    let mut last = before;
    while last > 0.0 {
        now += MS;
        let next = light(&mut q, now);
        if next < last {
            steps.push(now);
        }
        last = next;
    }
    // One step each, at growing gaps, the last two of an interval.
    assert_eq!(steps.len() as f64, before);
    let gaps: Vec<u64> = steps.windows(2).map(|w| (w[1] - w[0]) / MS).collect();
    assert!(gaps.windows(2).all(|w| w[1] + 1 >= w[0]), "{gaps:?}");
    for (left, gap) in (1..before as u64).rev().zip(&gaps) {
        let expected = 100.0 / (left as f64).sqrt();
        assert!((*gap as f64 - expected).abs() <= 1.0, "{left}: {gap} not {expected}");
    }
}

/// As in Linux, a queue that nothing was served from for longer than an interval, and that is over
/// target then, is not given another interval: its second packet is marked.
#[test]
fn a_stall_is_signalled_with_the_second_packet() {
    let mut q = queue("cobalt", json!({}));
    offer(&mut q, 0, (0..5).map(|seq| TestPacket { seq, ..ect0() }));
    let marked: Vec<bool> = drain(&mut q, 150 * MS).iter().map(|p| p.ecn == Ecn::Ce).collect();
    assert_eq!(marked, [false, true, false, false, false]);
}

/// BLUE: an overflow raises the drop probability by 1/256 at most once per target, and a queue found
/// empty lowers it by 1/4096 at most once per target.
#[test]
fn blue_steps_once_per_target() {
    let mut q = queue("cobalt", json!({"limit": 1}));
    let blue = |q: &mut crate::common::Queue| recorded(q, "blue_probability");
    let at = |q: &mut crate::common::Queue, now| offer(q, now, [ect0(), ect0(), ect0()]).0;
    assert_eq!(at(&mut q, 6 * MS), [Enqueued::Accepted, Enqueued::Dropped, Enqueued::Dropped]);
    assert_eq!(blue(&mut q), 1.0 / 256.0);
    at(&mut q, 11 * MS);
    assert_eq!(blue(&mut q), 1.0 / 256.0);
    at(&mut q, 11 * MS + 1);
    assert_eq!(blue(&mut q), 2.0 / 256.0);
    drain(&mut q, 12 * MS);
    drain(&mut q, 12 * MS);
    assert_eq!(blue(&mut q), 2.0 / 256.0);
    drain(&mut q, 17 * MS);
    drain(&mut q, 17 * MS);
    assert_eq!(blue(&mut q), 2.0 / 256.0 - 1.0 / 4096.0);
    assert_eq!(q.counters().dropped_aqm, 0);
}

/// BLUE drops ECN-capable packets too: of 20 000 that pass while p = 1/4, a quarter (5 standard
/// deviations: 306) — and never the last in the queue.
#[test]
fn blue_drops_by_its_probability_whatever_ecn() {
    let params = json!({"blue_increment": 0.25, "limit": 20_001});
    let mut q = queue("cobalt", params);
    offer(&mut q, 6 * MS, (0..20_002).map(|_| ect0()));
    let sent = drain(&mut q, 6 * MS);
    let c = q.counters();
    assert_eq!(sent.len() as u64 + c.dropped_aqm, 20_001);
    assert!(c.dropped_aqm.abs_diff(5000) < 306, "{}", c.dropped_aqm);

    let mut q = queue("cobalt", json!({"blue_increment": 1.0, "limit": 3}));
    offer(&mut q, 6 * MS, (0..4).map(|seq| TestPacket { seq, ..ect0() }));
    let seqs: Vec<u64> = drain(&mut q, 6 * MS).iter().map(|p| p.seq).collect();
    assert_eq!(seqs, [2]);
}

/// SCE by a second schedule (sce_thresh 4): over 2.5 ms from 6 ms on, then 25 ms and 25/sqrt(n) ms.
/// CE goes first and a packet never carries both.
#[test]
fn sce_by_schedule_has_half_the_target_and_a_fourth_of_the_interval() {
    let mut q = queue("cobalt", json!({"sce_thresh": 4}));
    let trace = overload(&mut q, ect0(), 0, 150 * MS);
    // 31 + 17.68 = 48.68, + 14.43 = 63.11, + 12.5, + 11.18, + 10.21 = 97.00, + 9.45, + 8.84, ...
    let sce = times_with(&trace, Ecn::Ect1);
    assert_eq!(sce[..7], [31, 49, 64, 76, 87, 97, 107]);
    assert_eq!(times_with(&trace, Ecn::Ce), [111]);
    assert_eq!(q.counters().marked_sce, sce.len() as u64);

    for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ce] {
        let mut q = queue("cobalt", json!({"sce_thresh": 4}));
        overload(&mut q, ect0().with_ecn(ecn), 0, 150 * MS);
        assert_eq!(q.counters().marked_sce, 0);
    }
}

#[test]
fn each_parameter_reaches_the_queue() {
    let first = |params: Value| {
        let mut q = queue("cobalt", params);
        let trace = overload(&mut q, ect0(), 0, 300 * MS);
        let drop = trace.dropped.first().map(|d| d.0 / MS);
        (drop, times_with(&trace, Ecn::Ce).first().copied())
    };
    assert_eq!(first(json!({})), (None, Some(111)));
    assert_eq!(first(json!({"target": 20 * MS})), (None, Some(141)));
    assert_eq!(first(json!({"interval": 50 * MS})), (None, Some(61)));
    // Not over target before more than four times 10 ms.
    assert_eq!(first(json!({"mtu_time": 10 * MS})), (None, Some(181)));
    assert_eq!(first(json!({"ecn": false})), (Some(111), None));
    // A sure drop by BLUE as soon as the delay is over the threshold, at 42 ms.
    let blue = json!({"blue_threshold": 20 * MS + MS / 2, "blue_increment": 1.0});
    assert_eq!(first(blue), (Some(42), None));
    assert!(first(json!({"limit": 50})).0.is_some());

    let left = |decrement: f64| {
        let mut q = queue("cobalt", json!({"limit": 1, "blue_decrement": decrement}));
        offer(&mut q, 6 * MS, [ect0(), ect0()]);
        drain(&mut q, 20 * MS);
        recorded(&mut q, "blue_probability")
    };
    assert_eq!(left(1.0), 0.0);
    assert!(left(0.001) > 0.0);
}
