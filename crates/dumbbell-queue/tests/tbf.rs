//! Token bucket filter: times to the nanosecond, from the definition of the bucket.

use crate::common::shares::Saturated;
use crate::common::{MS, TestPacket, object, offer, queue};
use dumbbell_queue::{Dequeued, DropReason, Dropped, Enqueued, Nanos, build};
use proptest::prelude::*;
use serde_json::{Value, json};

const SECOND: Nanos = 1000 * MS;

fn packets(count: u64, bytes: u32) -> impl Iterator<Item = TestPacket> {
    (0..count).map(move |seq| TestPacket::new(1, seq, bytes))
}

/// Times at which the packets leave, with the queue asked when it said.
fn departures(params: Value, count: u64, bytes: u32) -> Vec<Nanos> {
    let mut link = Saturated::new(queue("tbf", params), &[TestPacket::new(1, 0, bytes)]);
    (0..count)
        .map(|_| {
            link.next();
            link.now
        })
        .collect()
}

/// At 8 Mbit/s a byte takes a microsecond: 4000 tokens are two packets of 1500 bytes at once, 1000 bytes
/// towards the third, and from then on a packet each 1.5 ms.
#[test]
fn a_burst_at_once_and_then_the_rate() {
    let times = departures(json!({"rate": 8_000_000, "burst": 4000}), 6, 1500);
    assert_eq!(times, [0, 0, 500_000, 2_000_000, 3_500_000, 5_000_000]);
    // After 10 ms idle there is a burst again, not more.
    let mut q = queue("tbf", json!({"rate": 8_000_000, "burst": 4000}));
    let mut dropped = Dropped::new();
    offer(&mut q, 0, packets(10, 1500));
    let mut taken_at = |now| {
        std::iter::from_fn(|| match q.dequeue(now, &mut dropped) {
            Dequeued::Packet(packet) => Some(packet.seq),
            Dequeued::Wait(_) | Dequeued::Empty => None,
        })
        .count()
    };
    assert_eq!([0, 10 * MS, 10 * MS + 499_999, 10 * MS + 500_000].map(&mut taken_at), [2, 2, 0, 1]);
}

/// Over 100 s the bytes are the burst and what the rate brings, to a packet, also where a packet's time is
/// no whole number of nanoseconds; rounding each gap would be off by more.
#[test]
fn the_rate_is_exact_in_the_long_run() {
    for rate in [999_999, 7_777_777, 123_456_789] {
        for burst in [1500, 20_000] {
            let q = queue("tbf", json!({"rate": rate, "burst": burst}));
            let mut link = Saturated::new(q, &[TestPacket::new(1, 0, 1499)]);
            let sent = link.bytes_until(100 * SECOND)[&1];
            let come = burst + rate * 100 / 8;
            assert!(sent <= come && sent + 1499 > come, "{rate}: {sent} of {come}");
        }
    }
}

/// A burst leaves at the peak rate: at 16 Mbit/s a packet of 1000 bytes each half millisecond, while
/// tokens come at half that rate. The burst of 3000 is used up with the fifth packet: 3000 + 2000 come by
/// 2 ms.
#[test]
fn the_peak_rate_spaces_a_burst() {
    let params = json!({"rate": 8_000_000, "burst": 3000, "peakrate": 16_000_000, "mtu": 1000});
    let halves: Vec<u64> = departures(params, 8, 1000).iter().map(|at| at / (MS / 2)).collect();
    assert_eq!(halves, [0, 1, 2, 3, 4, 6, 8, 10]);
}

/// A policer drops what a shaper would let wait: of packets at twice the rate it passes what the
/// shaper's long-run rate is, and the others are counted as policed.
#[test]
fn a_policer_drops() {
    let mut q = queue("tbf", json!({"rate": 8_000_000, "burst": 10_000, "mode": "police"}));
    let mut dropped = Dropped::new();
    let mut sent = 0;
    for n in 0..20_000 {
        let now = n * MS / 2;
        let outcome = q.enqueue(now, TestPacket::new(1, n, 1000), &mut dropped);
        assert_eq!(outcome == Enqueued::Dropped, dropped.last().is_some_and(|d| d.0.seq == n));
        while let Dequeued::Packet(packet) = q.dequeue(now, &mut dropped) {
            assert_eq!(packet.at, now);
            sent += 1;
        }
    }
    assert!(dropped.iter().all(|d| d.1 == DropReason::Policed));
    assert_eq!(q.counters().dropped_policed, dropped.len() as u64);
    // 10 s at 1000 packets a second (the last arrival is half a millisecond earlier), and the burst.
    assert_eq!(sent, 10_000 + 9);
}

/// What waits is bounded in packets, in bytes, or by the time that its last packet waits for tokens.
#[test]
fn limits() {
    let refused = |params| {
        let mut q = queue("tbf", params);
        let (_, dropped) = offer(&mut q, 0, packets(100, 1000));
        assert_eq!(q.counters().dropped_overflow, dropped.len() as u64);
        dropped.len()
    };
    let with = |extra: Value| {
        let mut params = object(json!({"rate": 8_000_000, "burst": 2000}));
        params.extend(object(extra));
        Value::Object(params)
    };
    assert_eq!(refused(with(json!({}))), 0);
    assert_eq!(refused(with(json!({"limit": 40}))), 60);
    assert_eq!(refused(with(json!({"limit_bytes": 30_999}))), 70);
    // 18 ms bring 18,000 bytes to the burst of 2000.
    assert_eq!(refused(with(json!({"latency": 18 * MS}))), 80);
    assert_eq!(refused(with(json!({"queue": {"kind": "fifo", "params": {"limit": 9}}}))), 91);
    // There are never tokens for a packet larger than a bucket.
    assert_eq!(refused(with(json!({"burst": 999}))), 100);
    assert_eq!(refused(with(json!({"peakrate": 9_000_000, "mtu": 999}))), 100);
}

#[test]
fn each_parameter_reaches_the_queue() {
    let plain = departures(json!({}), 20, 1500);
    // 10 Mbit/s, and 3028 bytes at once.
    assert_eq!(plain[..4], [0, 0, 1_177_600, 2_377_600]);
    for params in [json!({"rate": 9_000_000}), json!({"burst": 5000})] {
        assert_ne!(departures(params.clone(), 20, 1500), plain, "{params}");
    }
    let peaks = [
        json!({"burst": 10_000}),
        json!({"burst": 10_000, "peakrate": 12_000_000, "mtu": 1500}),
        json!({"burst": 10_000, "peakrate": 12_000_000, "mtu": 3000}),
    ];
    // At once; a millisecond apart; two at once and then a millisecond apart.
    let firsts = peaks.map(|params| departures(params, 4, 1500));
    assert_eq!(firsts, [[0; 4], [0, MS, 2 * MS, 3 * MS], [0, 0, MS, 2 * MS]].map(Vec::from));
}

#[test]
fn values_that_do_not_go_together_are_refused() {
    let message =
        |params| build::<TestPacket>("tbf", &object(params), 1).err().unwrap().to_string();
    assert_eq!(
        message(json!({"rate": 2000, "peakrate": 1000})),
        "queue tbf: peakrate = 1000: expected at least the rate"
    );
    assert_eq!(
        message(json!({"latency": 5, "limit_bytes": 1000})),
        "queue tbf: latency = 5: expected no limit_bytes beside it"
    );
    assert!(message(json!({"rate": 0})).starts_with("queue tbf: rate = 0: expected"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// From 1 bit/s to 1 Tbit/s, with bursts to 4 GB and any times: no overflow and no division by zero
    /// (ns-3 issue 258), the time to wait is neither too late nor a nanosecond too early, and what
    /// left is within the burst and the rate.
    #[test]
    fn rates_and_bursts_of_any_size(
        kind in prop_oneof![Just("tbf"), Just("htb")],
        rate in prop_oneof![1..1000_u64, 1..1_000_000_000_000_u64, Just(1_000_000_000_000_u64)],
        burst in prop_oneof![1500..9000_u64, 1500..4_000_000_000_u64, Just(4_000_000_000_u64)],
        latency in prop::option::of(any::<u64>()),
        waits in prop::collection::vec((any::<u64>(), 0..64_u32), 1..60),
    ) {
        let params = match (kind, latency) {
            ("htb", _) => json!({"rate": rate, "burst": burst,
                "classes": [{"burst": burst, "cburst": burst}]}),
            (_, Some(latency)) => json!({"rate": rate, "burst": burst, "latency": latency}),
            (_, None) => json!({"rate": rate, "burst": burst, "peakrate": rate, "mtu": burst}),
        };
        let mut q = queue(kind, params);
        let mut dropped = Dropped::new();
        let (mut now, mut sent) = (0_u64, 0_u128);
        for (wait, shift) in waits {
            now = now.saturating_add(wait >> shift);
            q.enqueue(now, TestPacket::new(1, 0, 1500), &mut dropped);
            let result = q.dequeue(now, &mut dropped);
            if let Dequeued::Wait(until) = result {
                prop_assert!(until > now);
                if until == u64::MAX {
                    break;
                }
                prop_assert_eq!(q.dequeue(until - 1, &mut dropped), Dequeued::Wait(until));
                now = until;
                prop_assert!(matches!(q.dequeue(now, &mut dropped), Dequeued::Packet(_)));
            }
            sent += u128::from(result != Dequeued::Empty) * 1500;
            // HTB sends a packet when it is not in debt.
            let debt = if kind == "htb" { 1500 } else { 0 };
            let come = u128::from(rate) * u128::from(now) / 8_000_000_000;
            prop_assert!(sent <= u128::from(burst) + come + debt);
        }
    }
}
