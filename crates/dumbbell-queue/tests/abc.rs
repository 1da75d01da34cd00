//! Activity-based congestion management with users that do not respond, on a link at 10 Mbit/s. The
//! formulas of meter and drop probability are those of the module; see there for what they rest on.

use std::collections::BTreeMap;

use crate::common::{MS, Queue, TestPacket, drain, object, offer, queue};
use dumbbell_queue::{Dequeued, DropReason, Dropped, Ecn, Enqueued, Nanos, build};
use serde_json::{Value, json};

const BYTES: u32 = 1500;
const PACKET_TIME: Nanos = 1_200_000;

/// Users that send at rates in Mbit/s; gives what each got in Mbit/s in the last three quarters of the
/// time, and the mean delay in ms. The first has DSCP 1.
fn run(queue: &mut Queue, rates: &[f64], seconds: u64) -> (Vec<f64>, f64) {
    let interval = |rate: f64| (f64::from(BYTES) * 8e3 / rate) as Nanos;
    let end = seconds * 1000 * MS;
    let mut arrivals: BTreeMap<(Nanos, usize), u64> = BTreeMap::new();
    for (user, &rate) in rates.iter().enumerate() {
        arrivals.insert((interval(rate) * user as u64 / rates.len() as u64, user), 0);
    }
    let mut got = vec![0.0; rates.len()];
    let mut delays = Vec::new();
    let mut dropped = Dropped::new();
    let mut now = 0;
    while now < end {
        while let Some(first) = arrivals.first_entry() {
            let (at, user) = *first.key();
            if at > now {
                break;
            }
            let seq = first.remove();
            let packet = TestPacket::new(user as u32, seq, BYTES).with_dscp(u8::from(user == 0));
            queue.enqueue(at, packet, &mut dropped);
            arrivals.insert((at + interval(rates[user]), user), seq + 1);
        }
        if let Dequeued::Packet(packet) = queue.dequeue(now, &mut dropped)
            && now >= end / 4
        {
            got[packet.flow as usize] += f64::from(BYTES) * 8e3 / (end * 3 / 4) as f64;
            delays.push((now - packet.at) as f64 / 1e6);
        }
        now += PACKET_TIME;
    }
    (got, delays.iter().sum::<f64>() / delays.len() as f64)
}

/// One user at 20 Mbit/s, four at 2, which is the fair share.
const RATES: [f64; 5] = [20.0, 2.0, 2.0, 2.0, 2.0];

/// What the heavy and a light one of these get where a packet of a user with rate r is dropped with
/// a probability f(p, r/m), m being the mean of r over packets: p is such that the link is just full.
fn shares(probability: impl Fn(f64, f64) -> f64) -> (f64, f64) {
    let mean = RATES.iter().map(|r| r * r).sum::<f64>() / RATES.iter().sum::<f64>();
    let got = |p: f64, rate: f64| rate * (1.0 - probability(p, rate / mean));
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let p = (low + high) / 2.0;
        let total: f64 = RATES.iter().map(|&rate| got(p, rate)).sum();
        if total > 10.0 { low = p } else { high = p }
    }
    (got(low, RATES[0]), got(low, RATES[1]))
}

fn near(got: &[f64], expected: (f64, f64)) -> bool {
    (got[0] / expected.0 - 1.0).abs() < 0.05
        && got[1..].iter().all(|rate| (rate / expected.1 - 1.0).abs() < 0.05)
}

/// Offers packets of a user at times in ms and takes each out at once; gives their labels.
fn labels(params: Value, source: u32, times: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut params = params;
    params["meter"] = json!(true);
    let mut q = queue("abc", params);
    times
        .into_iter()
        .map(|ms| {
            let at = (ms * 1e6) as Nanos;
            offer(&mut q, at, [TestPacket::new(source, 0, BYTES)]);
            f64::from(drain(&mut q, at)[0].label)
        })
        .collect()
}

/// Talk at IETF 99 (ICCRG): with gamma 3 a user that does not respond cannot hurt the others, even at
/// twice the link's rate; a plain AQM lets it take most of the link.
#[test]
fn a_heavy_user_does_not_hurt_the_others() {
    for aqm in ["red", "pie"] {
        let with = |gamma: f64| {
            let params = json!({"meter": true, "aqm": aqm, "gamma": gamma});
            run(&mut queue("abc", params), &RATES, 200)
        };
        let (plain, _) = with(0.0);
        assert!(near(&plain, (10.0 * 20.0 / 28.0, 10.0 * 2.0 / 28.0)), "{plain:?}");
        let (fair, delay) = with(3.0);
        assert!(near(&fair, (2.0, 2.0)), "{fair:?}");
        let expected = if aqm == "pie" { 13.0..17.0 } else { 5.0..50.0 };
        assert!(expected.contains(&delay), "{aqm}: {delay}");
    }
}

/// Between these, the shares are those that the formulas p^((A_avg/A)^gamma) and p (A/A_avg)^gamma
/// give for a full link.
#[test]
fn shares_follow_the_formulas() {
    for gamma in [0.5, 1.0] {
        for (form, expected) in [
            ("exponent", shares(|p, relative| p.powf(relative.powf(-gamma)))),
            ("product", shares(|p, relative| (p * relative.powf(gamma)).min(1.0))),
        ] {
            let params = json!({"meter": true, "form": form, "gamma": gamma});
            let (got, _) = run(&mut queue("abc", params), &RATES, 100);
            assert!(near(&got, expected), "{form} {gamma}: {got:?} for {expected:?}");
        }
    }
    // Thresholds far apart: the light users are never dropped.
    let (got, _) = run(&mut queue("abc", json!({"meter": true, "form": "queue"})), &RATES, 40);
    assert!(near(&got, (2.0, 2.0)), "{got:?}");
}

/// gamma 0 is a plain AQM, whatever the labels are.
#[test]
fn gamma_zero_ignores_activity() {
    for form in ["exponent", "product", "queue"] {
        let with = |meter: bool| {
            let params = json!({"meter": meter, "gamma": 0, "form": form});
            run(&mut queue("abc", params), &RATES, 10)
        };
        assert_eq!(with(true), with(false), "{form}");
    }
}

/// A node in the core reads the labels, and takes a packet without one for average.
#[test]
fn the_core_reads_labels() {
    let counts = |labels: [f32; 2]| {
        let mut q = queue("abc", json!({}));
        let mut drops = [0, 0];
        let mut dropped = Dropped::new();
        for n in 0..20_000_u64 {
            let user = (n % 2) as u32;
            let mut packet = TestPacket::new(user, n, BYTES);
            packet.label = labels[user as usize];
            q.enqueue(n * MS, packet, &mut dropped);
            if n % 2 == 0 {
                q.dequeue(n * MS, &mut dropped);
            }
            for (packet, _) in dropped.drain(..) {
                drops[packet.flow as usize] += 1;
            }
        }
        drops
    };
    let [few, many] = counts([2.0, 4.0]);
    assert!(many > 3 * few, "{few} {many}");
    for equal in [[3.0, 3.0], [0.0, 0.0], [0.0, 3.0]] {
        let [one, other] = counts(equal);
        assert!((0.9..1.1).contains(&(f64::from(one) / f64::from(other))), "{one} {other}");
    }
}

/// Menth and Hauser's UTEMA is right from the start, where a plain moving average is too low for some
/// memories: 5 Mbit/s, a packet each 2.4 ms, are 10 times the reference rate from the second packet on.
/// Discrete packets make it too high by half an interval over the memory, 0.4 %.
#[test]
fn the_meter_is_right_from_the_start() {
    let labels = labels(json!({}), 1, (0..1000).map(|n| f64::from(n) * 2.4));
    // The first packet has no rate yet, and the first ones count for no less than their time at the
    // reference rate, 24 ms.
    for (label, expected) in labels.iter().zip([1.0 / 16.0, 1.0, 2.0, 3.0, 4.0]) {
        assert!((label / expected - 1.0).abs() < 0.02, "{label} for {expected}");
    }
    for label in &labels[11..] {
        assert!((9.95..10.06).contains(label), "{label}");
    }
}

/// After a pause of a memory, 1/e of the rate is left.
#[test]
fn the_meter_forgets() {
    let times = (0..2000).map(|n| f64::from(n) * 2.4).chain([1999.0 * 2.4 + 300.0]);
    let labels = labels(json!({}), 1, times);
    let (before, after) = (labels[1999], labels[2000]);
    // One packet of 1500 bytes in 300 ms is 0.08 of the reference rate.
    assert!((after - (before * (-1.0_f64).exp() + 0.08)).abs() < 0.01, "{before} {after}");
}

/// Two users do not share an estimate, and profiles have their reference rates.
#[test]
fn each_user_has_its_rate() {
    let mut q = queue(
        "abc",
        json!({"meter": true, "classes": [{"dscp": [10], "reference_rate": 1_000_000}]}),
    );
    let mut last = BTreeMap::new();
    for n in 0..5000_u64 {
        let at = n * 12 * MS / 10;
        // User 1 at 5 Mbit/s, user 2 at 2.5, user 3 as user 2 with another profile.
        let (user, dscp) = [(1, 0), (2, 0), (1, 0), (3, 10)][n as usize % 4];
        let packet = TestPacket::new(7, n, BYTES).between(user, 9).with_dscp(dscp);
        offer(&mut q, at, [packet]);
        last.insert(user, drain(&mut q, at)[0].label);
    }
    for (user, expected) in [(1, 10.0), (2, 5.0), (3, 2.5)] {
        assert!((last[&user] / expected - 1.0).abs() < 0.02, "{user}: {last:?}");
    }
}

/// The first bytes after a pause have the least activity, as many as the burst has; without a
/// tolerance, or for what is beyond it, activity is the rate.
#[test]
fn bursts_are_tolerated() {
    let burst = || (0..10).map(|n| f64::from(n) * 0.01);
    let least = 1.0 / 16.0;
    let tolerant = labels(json!({"burst": 6 * BYTES}), 1, burst());
    assert_eq!(tolerant[..6], [least; 6]);
    assert!(tolerant[6] > 1.0);
    let strict = labels(json!({}), 1, burst());
    assert_eq!(strict[6..], tolerant[6..]);
    // At the reference rate the bucket is never empty: 24 ms a packet.
    let steady = labels(json!({"burst": BYTES}), 1, (0..20).map(|n| f64::from(n) * 24.0));
    assert_eq!(steady, [least; 20]);
    // By utilisation of the tokens: all that come are used.
    let params = json!({"burst": BYTES, "burst_activity": "utilisation"});
    let used = labels(params, 1, (0..200).map(|n| f64::from(n) * 24.0));
    assert!((0.95..=1.0).contains(&used[199]), "{}", used[199]);
}

/// IEEE Access 2018, abstract: a class for real-time users with strict priority. A user within its share
/// waits for the packet on the link only; one that floods the class takes what the others leave, and the
/// more its packets count, the less it is.
#[test]
fn real_time_users_go_first_and_starve_nobody() {
    let params = |urgent: u8| json!({"meter": true, "priority_dscp": [urgent]});
    let (got, _) = run(&mut queue("abc", params(1)), &RATES, 40);
    assert!(near(&got, (2.0, 2.0)), "{got:?}");
    let flood = |factor: f64| {
        let params = json!({"meter": true, "gamma": 1.0, "priority_dscp": [1],
            "priority_factor": factor});
        run(&mut queue("abc", params), &RATES, 40).0[0]
    };
    assert!(flood(2.0) < 0.9 * flood(1.0), "{} {}", flood(2.0), flood(1.0));

    let mut q = queue("abc", params(46));
    let mut dropped = Dropped::new();
    let mut longest = 0;
    for n in 0..20_000_u64 {
        let at = n * PACKET_TIME / 2;
        q.enqueue(at, TestPacket::new(1, n, BYTES), &mut dropped);
        if n % 40 == 0 {
            q.enqueue(at, TestPacket::new(2, n, BYTES).with_dscp(46), &mut dropped);
        }
        if n % 2 == 1
            && let Dequeued::Packet(packet) = q.dequeue(at, &mut dropped)
            && packet.flow == 2
        {
            longest = longest.max(at - packet.at);
        }
    }
    assert!(longest <= PACKET_TIME, "{longest}");
    assert!(dropped.iter().all(|d| d.0.flow == 1));
}

#[test]
fn delay_is_of_length_or_of_the_oldest_packet() {
    // A queue of 25 packets, 30 ms, that has only just come: by length packets are dropped.
    let dropped = |measure: &str, later: Nanos| {
        let mut q = queue("abc", json!({"measure": measure}));
        offer(&mut q, 0, (0..4).map(|n| TestPacket::new(1, n, BYTES)));
        offer(&mut q, later, (0..200).map(|n| TestPacket::new(1, n, BYTES)));
        q.counters().dropped_aqm
    };
    assert!(dropped("length", 0) > 100);
    assert_eq!(dropped("delay", 0), 0);
    assert!(dropped("delay", 45 * MS) > 100);
}

#[test]
fn ecn_marks_in_place_of_drops() {
    let mut q = queue("abc", json!({"ecn": true, "limit": 30}));
    let capable = (0..100).map(|n| TestPacket::new(1, n, BYTES).with_ecn(Ecn::Ect0));
    let (outcomes, _) = offer(&mut q, 0, capable);
    let c = q.counters();
    assert!(outcomes.contains(&Enqueued::Marked) && c.marked > 0);
    assert_eq!((c.dropped_aqm, c.dropped_overflow), (0, 70));
}

/// Each parameter changes what users get.
#[test]
fn every_parameter_reaches_the_queue() {
    let trace = |params: Value| {
        let mut q = queue("abc", params);
        let mut dropped = Dropped::new();
        let mut left = Vec::new();
        for n in 0..20_000_u64 {
            let at = n * PACKET_TIME / 2 + n / 5000 * 100 * MS;
            let source = if n % 4 == 0 { 1 } else { 2 };
            let packet = TestPacket::new(source, n, if n % 4 == 0 { 300 } else { BYTES });
            let packet = packet.with_ecn(Ecn::Ect0).with_dscp(source as u8);
            q.enqueue(at, packet, &mut dropped);
            if n % 2 == 0 {
                left.push(q.dequeue(at, &mut dropped));
            }
        }
        (left, dropped)
    };
    let differs = |base: Value, change: Value| {
        let mut base = base;
        base["meter"] = json!(true);
        let plain = trace(base.clone());
        base.as_object_mut().unwrap().extend(object(change.clone()));
        assert!(trace(base) != plain, "{change}");
    };
    for change in [
        json!({"meter": false}),
        json!({"reference_rate": 1_000_000}),
        json!({"classes": [{"dscp": [1], "reference_rate": 1_000_000}]}),
        json!({"memory": 100 * MS}),
        json!({"burst": 10_000}),
        json!({"coding": "log"}),
        json!({"coding": "quantised"}),
        json!({"average_memory": 20 * MS}),
        json!({"gamma": 1.0}),
        json!({"form": "product"}),
        json!({"form": "queue"}),
        json!({"aqm": "pie"}),
        json!({"measure": "delay"}),
        json!({"rate": 5_000_000}),
        json!({"min": 10 * MS}),
        json!({"max": 100 * MS}),
        json!({"probability": 0.5}),
        json!({"priority_dscp": [1]}),
        json!({"ecn": true}),
        json!({"limit": 20}),
    ] {
        differs(json!({}), change);
    }
    differs(json!({"burst": 10_000}), json!({"burst_activity": "utilisation"}));
    differs(json!({"coding": "log"}), json!({"coding": "quantised"}));
    differs(json!({"aqm": "pie"}), json!({"target": 5 * MS}));
    differs(json!({"form": "queue"}), json!({"base": 10 * MS}));
    differs(json!({"priority_dscp": [1]}), json!({"priority_factor": 1.0}));
}

#[test]
fn values_that_do_not_go_together_are_refused() {
    let params = object(json!({"min": 10 * MS, "max": 5 * MS}));
    let error = build::<TestPacket>("abc", &params, 1).err().unwrap().to_string();
    assert_eq!(error, "queue abc: max = 5000000: expected more than min");
    let mut q = queue("abc", json!({"limit": 1}));
    let mut dropped = Dropped::new();
    q.enqueue(0, TestPacket::new(1, 0, BYTES), &mut dropped);
    q.enqueue(0, TestPacket::new(1, 1, BYTES), &mut dropped);
    assert_eq!(dropped[0].1, DropReason::Overflow);
}
