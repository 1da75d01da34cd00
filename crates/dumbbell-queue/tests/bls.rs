//! The burst limiting shaper on a link at 10 Mbit/s with Poisson EF traffic, and AF and DF that always
//! have packets waiting. The targets are those of the talk at IETF 99 (ICCRG) on Finzi, Lochin,
//! Mifdaoui and Frances, GLOBECOM 2017: AF gets w (1 - e) of the link, or what EF leaves.

use crate::common::{Queue, TestPacket, object, offer, queue, recorded};
use crate::router::{AF11, DF, EF, MTU, PACKET_TIME, run};
use dumbbell_queue::{Dequeued, Dropped, Nanos, build};
use serde_json::{Value, json};

/// Percent of the link that AF gets.
fn af(params: Value, ef: f64) -> f64 {
    run(&mut queue("bls", params), ef, 200).percent(AF11)
}

fn packets(dscp: u8, count: u64) -> impl Iterator<Item = TestPacket> {
    (0..count).map(move |seq| TestPacket::new(u32::from(dscp), seq, MTU).with_dscp(dscp))
}

/// The DSCPs that leave back to back from a time on.
fn leave(queue: &mut Queue, from: Nanos, count: u64) -> Vec<u8> {
    let mut dropped = Dropped::new();
    (0..count)
        .filter_map(|n| match queue.dequeue(from + n * PACKET_TIME, &mut dropped) {
            Dequeued::Packet(packet) => Some(packet.dscp),
            Dequeued::Wait(_) | Dequeued::Empty => None,
        })
        .collect()
}

/// The talk's figure at w = 0.5 and e = 0.5: AF gets 25 % with EF at 26 and at 49 %, and what EF
/// leaves at 76 %, where a weighted round robin gives 37, 25.5 and 12 %.
#[test]
fn af_gets_its_share_whatever_ef_leaves() {
    for ef in [0.26, 0.49] {
        let share = af(json!({}), ef);
        assert!((share - 25.0).abs() < 1.0, "EF {ef}: {share}");
    }
    // At 76 % the share follows w/2 until nothing is left.
    for (weight, expected) in [(0.3, 15.0), (0.4, 20.0), (0.5, 24.0), (0.6, 24.0), (0.8, 24.0)] {
        let share = af(json!({"weight": weight}), 0.76);
        assert!((share - expected).abs() < 1.5, "w {weight}: {share}");
    }
}

/// What the bounds of the credit cost: an independent calculation of the same queue, whose rounding
/// makes the credit miss zero by a trifle after three frames for one, so that a fourth follows and its
/// fall is cut off, gave these shares with EF at 26, 49 and 76 %. The slope is a trifle low here.
#[test]
fn short_bursts_lose_credit() {
    for (frames, expected) in [
        (1, [18.0, 16.0, 10.0]),
        (3, [23.5, 21.9, 15.1]),
        (10, [24.7, 24.1, 19.5]),
        (30, [24.9, 24.7, 22.2]),
        (100, [25.0, 25.1, 23.9]),
    ] {
        let params = json!({"max_credit": frames * 9000, "idle_slope": 2_499_999});
        for (ef, expected) in [0.26, 0.49, 0.76].into_iter().zip(expected) {
            let share = af(params.clone(), ef);
            assert!((share - expected).abs() < 1.0, "{frames} frames, EF {ef}: {share}");
        }
    }
    // Carried over, most of it is kept.
    let share =
        af(json!({"max_credit":9000, "idle_slope": 2_499_999, "carry_overshoot": true}), 0.26);
    assert!((share - 25.0).abs() < 1.5, "{share}");
}

/// The area between the curves of AF's share over w for EF at 25 and 75 %: the integral of
/// max(0, w/2 - 1/4), a sixteenth, where that of w (3/4 - 1/4) for a weighted round robin is a quarter.
#[test]
fn uncertainty_is_a_quarter_of_round_robin() {
    let spread = |step: u32| {
        let params = json!({"weight": f64::from(step) / 20.0, "frames": 1000});
        (af(params.clone(), 0.25) - af(params, 0.75)) / 100.0
    };
    let spreads: Vec<f64> = (0..=20).map(spread).collect();
    let area: f64 = spreads.windows(2).map(|w| (w[0] + w[1]) / 2.0 / 20.0).sum();
    assert!((area - 0.0625).abs() < 0.00625, "{area}");
}

/// 25 % of 10 Mbit/s: a frame of 1.2 ms raises the credit by 1.2 ms * 7.5 Mbit/s = 9000 bits, any
/// other time lowers it by 2.5 bits a microsecond, and it stays from 0 to 3 frames' 27 000 bits.
#[test]
fn credit_follows_the_slopes() {
    let mut q = queue("bls", json!({"frames": 3}));
    let mut credit_after = |at: Nanos, arriving: &[u8]| {
        for &dscp in arriving {
            offer(&mut q, at, packets(dscp, 1));
        }
        let mut dropped = Dropped::new();
        q.dequeue(at, &mut dropped);
        recorded(&mut q, "credit_bits")
    };
    assert_eq!(credit_after(1_000_000, &[AF11]), 0.0);
    // The frame has left 1 ms ago.
    assert_eq!(credit_after(3_200_000, &[DF]), 9000.0 - 2500.0);
    assert_eq!(credit_after(4_400_000, &[AF11]), 6500.0 - 3000.0);
    assert_eq!(credit_after(5_600_000, &[AF11]), 12_500.0);
    assert_eq!(credit_after(6_800_000, &[AF11]), 21_500.0);
    assert_eq!(credit_after(8_000_000, &[]), 27_000.0);
    assert_eq!(credit_after(1_000_000_000, &[]), 0.0);
}

/// A burst of (L_M - L_R)/I_send, 3 frames; then (L_M - L_R)/I_idle without AF, 9 frames.
#[test]
fn bursts_alternate_with_pauses() {
    let mut q = queue("bls", json!({"frames": 3}));
    offer(&mut q, 0, packets(AF11, 50).chain(packets(DF, 50)));
    let order = leave(&mut q, 0, 36);
    let period = [vec![AF11; 3], vec![DF; 9]].concat();
    assert_eq!(order, period.repeat(3));
}

/// Behind DF is not blocked: without DF, AF sends on, its credit stays at the maximum, and DF goes
/// first when it comes back.
#[test]
fn the_link_never_idles() {
    let mut q = queue("bls", json!({"frames": 3}));
    offer(&mut q, 0, packets(AF11, 50));
    assert_eq!(leave(&mut q, 0, 20), [AF11; 20]);
    offer(&mut q, 20 * PACKET_TIME, packets(DF, 20).chain(packets(EF, 1)));
    let order = leave(&mut q, 20 * PACKET_TIME, 11);
    assert_eq!(recorded(&mut q, "af_low"), 0.0);
    assert_eq!(order, [vec![EF], vec![DF; 8], vec![AF11; 2]].concat());
}

/// An EF packet waits for the frame on the link and for EF packets before it.
#[test]
fn ef_goes_first() {
    let mut q = queue("bls", json!({}));
    offer(&mut q, 0, packets(AF11, 3).chain(packets(DF, 3)).chain(packets(EF, 3)));
    assert_eq!(leave(&mut q, 0, 4), [EF, EF, EF, AF11]);
}

/// Each parameter changes the order of service.
#[test]
fn every_parameter_reaches_the_queue() {
    let order = |params| {
        let mut q = queue("bls", params);
        offer(&mut q, 0, packets(AF11, 300).chain(packets(DF, 300)).chain(packets(EF, 5)));
        leave(&mut q, 0, 300)
    };
    let plain = order(json!({"frames": 10}));
    for mut other in [
        json!({"rate": 5_000_000}),
        json!({"weight": 0.25}),
        json!({"ef_share": 0.25}),
        json!({"frames": 5}),
        json!({"mtu": 500}),
        json!({"max_credit": 30_000}),
        json!({"resume_credit": 20_000, "max_credit": 90_000}),
        json!({"idle_slope": 5_000_000}),
        json!({"send_slope": 5_000_000, "max_credit": 90_000}),
        json!({"priority_high": 0}),
        json!({"priority_low": 2}),
        json!({"mtu": 1000, "carry_overshoot": true}),
        json!({"classes": [{"dscp": [0]}, {"dscp": [10]}, {}]}),
    ] {
        other.as_object_mut().unwrap().entry("frames").or_insert(json!(10));
        assert_ne!(order(other.clone()), plain, "{other}");
    }
    // The slopes and the maximum of the defaults, given one by one.
    let given = json!({"idle_slope": 2_500_000, "send_slope": 7_500_000, "max_credit": 90_000});
    assert_eq!(order(given), plain);
}

#[test]
fn values_that_do_not_go_together_are_refused() {
    for (params, start) in [
        (json!({"classes": [{}, {}]}), "queue bls: classes = "),
        (json!({"max_credit": 10, "resume_credit": 11}), "queue bls: resume_credit = 11"),
    ] {
        let error = build::<TestPacket>("bls", &object(params), 1).err().unwrap().to_string();
        assert!(error.starts_with(start), "{error}");
    }
}
