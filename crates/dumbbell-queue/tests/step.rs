//! Step marking as in DCTCP (Alizadeh et al., SIGCOMM 2010, section 3.1; RFC 8257 section 3.1).

use crate::closed_loop::{Control, SLOT, run};
use crate::common::{MS, Queue, TestPacket, drain, offer, queue};
use dumbbell_queue::{DropReason, Dropped, Ecn};
use serde_json::{Value, json};

const ALL: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];

fn burst(ecn: Ecn) -> impl Iterator<Item = TestPacket> {
    (0..30).map(move |seq| TestPacket::new(1, seq, 1000).with_ecn(ecn))
}

/// Sequence numbers that carry CE when all leave after `wait`.
fn marked(params: Value, ecn: Ecn, wait: u64) -> Vec<u64> {
    let mut q = queue("step", params);
    offer(&mut q, 0, burst(ecn));
    drain(&mut q, wait).iter().filter(|p| p.ecn == Ecn::Ce).map(|p| p.seq).collect()
}

fn seqs(range: std::ops::Range<u64>) -> Vec<u64> {
    range.collect()
}

/// "Marked if the queue occupancy is greater than K upon its arrival": with K = 10 packets the
/// twelfth packet of a burst is the first. In time, what waits longer than the threshold.
#[test]
fn golden_marks_of_a_burst() {
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        assert_eq!(marked(json!({"threshold": 10}), ecn, 0), seqs(11..30));
        assert_eq!(marked(json!({"threshold_bytes": 9999}), ecn, 0), seqs(10..30));
        assert_eq!(marked(json!({"threshold_bytes": 10_000}), ecn, 0), seqs(11..30));
        let both = json!({"threshold": 10, "threshold_bytes": 5000});
        assert_eq!(marked(both, ecn, 0), seqs(6..30));
        assert_eq!(marked(json!({}), ecn, MS), seqs(0..0));
        assert_eq!(marked(json!({}), ecn, MS + 1), seqs(0..30));
        assert_eq!(marked(json!({"threshold_time": 5_000_000}), ecn, 5 * MS), seqs(0..0));
        assert_eq!(marked(json!({"threshold_time": 5_000_000}), ecn, 5 * MS + 1), seqs(0..30));
        // A threshold in packets does not bring the default one in time with it.
        assert_eq!(marked(json!({"threshold": 100}), ecn, 1000 * MS), seqs(0..0));
    }
}

/// What is not ECN-capable is only dropped, at the limit; CE passes and is not counted.
#[test]
fn others_are_dropped_at_the_limit_only() {
    for ecn in ALL {
        let mut q = queue("step", json!({"threshold": 5, "limit": 20}));
        let mut dropped = Dropped::new();
        for packet in burst(ecn) {
            q.enqueue(0, packet, &mut dropped);
        }
        assert_eq!(dropped.len(), 10);
        assert!(dropped.iter().all(|d| d.1 == DropReason::Overflow && d.0.seq >= 20));
        let marks = if matches!(ecn, Ecn::Ect0 | Ecn::Ect1) { 14 } else { 0 };
        assert_eq!(q.counters().marked, marks);
        assert!(
            drain(&mut q, 1)
                .iter()
                .all(|p| (p.ecn == Ecn::Ce) == (p.seq > 5 && marks > 0) || ecn == Ecn::Ce)
        );
    }
}

/// N flows that respond to each mark overshoot the threshold by the packet that each adds in the round
/// trip until the first mark comes back: at most K + N packets, and one more each for the round trip
/// that the marks are on their way (SIGCOMM 2010 section 3.3). Nothing is dropped.
#[test]
fn scalable_flows_peak_just_above_the_threshold() {
    let mut q: Queue = queue("step", json!({"threshold": 40}));
    let flows = run(&mut q, &[Control::Scalable; 4], 60);
    let peak = flows.iter().flat_map(|flow| &flow.delays).max().unwrap() / SLOT;
    assert!((40..=48).contains(&peak), "{peak}");
    assert_eq!(q.counters().dropped(), 0);
}
