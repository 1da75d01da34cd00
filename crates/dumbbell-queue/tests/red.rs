//! RED against Floyd and Jacobson 1993; adaptive RED against Floyd, Gummadi and Shenker 2001.

use crate::closed_loop::{Control, run, utilisation};
use crate::common::{MS, TestPacket, Trace, offer, overload, queue, recorded};
use dumbbell_queue::{DropReason, Ecn};
use serde_json::{Value, json};

fn trace(params: Value, packet: TestPacket, ms: u64) -> Trace {
    overload(&mut queue("red", params), packet, 0, ms * MS)
}

/// Equation 3 of the 1993 paper: after a burst of L packets into an empty queue the average is
/// L + 1 + ((1 - w)^(L + 1) - 1)/w. Its example: L = 50 and w = 0.0042 give five packets. The paper
/// counts each packet in the queue it joins, so that its L-th is averaged with the L + 1st here.
#[test]
fn the_average_of_a_burst() {
    let mut q = queue("red", json!({"weight": 0.0042, "min": 1_000_000}));
    offer(&mut q, 0, (0..51).map(|seq| TestPacket::new(1, seq, 1000)));
    let packets = recorded(&mut q, "average_bytes") / 1000.0;
    let (w, l) = (0.0042_f64, 50.0);
    let expected = l + 1.0 + ((1.0 - w).powf(l + 1.0) - 1.0) / w;
    assert!((packets - expected).abs() < 1e-9, "{packets} {expected}");
    assert!((packets - 5.0).abs() < 0.01, "{packets}");
}

/// Section 4: an idle time counts as so many packets as the link could have sent. At 8 Mbit/s a packet
/// of 1000 bytes takes a millisecond, so 500 ms are 500 times the weight.
#[test]
fn the_average_falls_in_idle_time() {
    let mut q = queue("red", json!({"weight": 0.002, "min": 1_000_000, "bandwidth": 8_000_000}));
    offer(&mut q, 0, (0..300).map(|seq| TestPacket::new(1, seq, 1000)));
    let before = recorded(&mut q, "average_bytes");
    crate::common::drain(&mut q, 1000 * MS);
    offer(&mut q, 1500 * MS, [TestPacket::new(1, 300, 1000)]);
    let after = recorded(&mut q, "average_bytes");
    assert!((after / before - 0.998_f64.powi(500)).abs() < 1e-9, "{before} {after}");
}

/// With the instantaneous queue (weight 1) and the thresholds at 5 and 15 packets, nothing is dropped
/// up to the fifth packet; without `gentle` everything from the fifteenth on, with it from the
/// thirtieth.
#[test]
fn thresholds_on_the_instantaneous_queue() {
    let base = json!({"weight": 1.0, "min": 5000, "max": 15_000, "probability": 1e-6});
    let held = |gentle: bool| {
        let mut params = base.clone();
        params["gentle"] = json!(gentle);
        let mut q = queue("red", params);
        let (_, dropped) = offer(&mut q, 0, (0..200).map(|seq| TestPacket::new(1, seq, 1000)));
        assert!(dropped.iter().all(|p| p.seq > 5));
        q.backlog_packets()
    };
    assert_eq!(held(false), 15);
    assert!((16..=30).contains(&held(true)), "{}", held(true));
}

/// An overload that does not respond loses one half. Gaps between drops are evenly spread over 1 to
/// 1/p_b packets (section 7), (1 + 1/p_b)/2 on average, so that p_b must be 1/3: on the gentle part from
/// 10 % at max, max (1 + (1/3 - 0.1)/0.9) = 37.8 kB.
#[test]
fn an_overload_settles_on_the_gentle_curve() {
    let packet = TestPacket::new(1, 0, 1000);
    let mut q = queue("red", json!({"min": 10_000, "max": 30_000, "weight": 0.01}));
    let trace = overload(&mut q, packet, 0, 20_000 * MS);
    let average = recorded(&mut q, "average_bytes");
    assert!((average / 37_800.0 - 1.0).abs() < 0.1, "{average}");
    let late = trace.dropped.iter().filter(|d| d.0 >= 10_000 * MS).count();
    assert!((9900..=10_100).contains(&late), "{late}");
    assert!(trace.dropped.iter().all(|d| d.2 == DropReason::Aqm));
}

/// ECN-capable packets are marked; with `harddrop` they are dropped above max (tc-red).
#[test]
fn marks_and_hard_drops() {
    let packet = TestPacket::new(1, 0, 1000).with_ecn(Ecn::Ect0);
    let marking = trace(json!({"ecn": true, "weight": 0.01}), packet, 2000);
    assert!(marking.delivered.iter().any(|d| d.1.ecn == Ecn::Ce));
    assert!(marking.dropped.iter().all(|d| d.2 == DropReason::Overflow));
    let hard = trace(json!({"ecn": true, "harddrop": true, "weight": 0.01}), packet, 2000);
    assert!(hard.delivered.iter().any(|d| d.1.ecn == Ecn::Ce));
    assert!(hard.dropped.iter().any(|d| d.2 == DropReason::Aqm));
}

/// Adaptive RED, section 4 of the 2001 paper: responsive flows are held halfway between the
/// thresholds, within the band of 40 to 60 % that is aimed at, whatever their number. (As long as
/// max_p need not leave its bounds: 24 flows need drops of 1.5 %, 48 of 6 %.)
#[test]
fn adaptive_red_holds_the_middle() {
    for flows in [24, 48] {
        let params = json!({"adaptive": true, "min": 30_000, "max": 90_000, "bandwidth": 60_000_000,
            "avpkt": 1500});
        let mut q = queue("red", params);
        let results = run(&mut q, &vec![Control::Reno(Ecn::NotEct); flows], 120);
        // 60 kB take 8 ms at 60 Mbit/s.
        for flow in &results {
            let mean = flow.mean_delay_ms();
            assert!((6.4..9.6).contains(&mean), "{mean} with {flows}");
        }
        assert!(utilisation(&results, 120) > 0.95);
    }
}

#[test]
fn max_must_be_above_min() {
    let params = crate::common::object(json!({"min": 5000, "max": 5000}));
    let error = dumbbell_queue::build::<TestPacket>("red", &params, 1).err().unwrap();
    assert_eq!(error.to_string(), "queue red: max = 5000: expected more than min");
}

/// Every parameter changes what is dropped or marked.
#[test]
fn every_parameter_counts() {
    let packet = TestPacket::new(1, 0, 700).with_ecn(Ecn::Ect0);
    let run = |params| trace(params, packet, 3000);
    let plain = run(json!({}));
    for other in [
        json!({"min": 3000}),
        json!({"max": 60_000}),
        json!({"target": 100_000_000}),
        json!({"probability": 0.5}),
        json!({"weight": 0.1}),
        json!({"gentle": false}),
        json!({"adaptive": true}),
        json!({"bytemode": true}),
        json!({"ecn": true}),
        json!({"limit": 10}),
    ] {
        assert_ne!(run(other.clone()), plain, "{other}");
    }
    assert_ne!(run(json!({"bytemode": true, "avpkt": 500})), run(json!({"bytemode": true})));
    assert_ne!(run(json!({"ecn": true, "harddrop": true})), run(json!({"ecn": true})));
    let adaptive = |bandwidth| run(json!({"adaptive": true, "bandwidth": bandwidth}));
    assert_ne!(adaptive(1_000_000), adaptive(100_000_000));
}
