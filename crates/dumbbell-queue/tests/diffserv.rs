//! The router of differentiated services: the scheduler on a link at 10 Mbit/s with Poisson EF traffic
//! and AF and DF that always have packets waiting; the AF classes on their own.

use std::collections::BTreeMap;

use crate::common::{MS, Queue, TestPacket, drain, object, offer, queue};
use crate::router::{AF11, DF, EF, MTU, PACKET_TIME, run};
use dumbbell_queue::{Dequeued, DropReason, Dropped, Ecn, Enqueued, Nanos, build};
use serde_json::{Value, json};

const AF12: u8 = 12;
const AF13: u8 = 14;

fn packets(dscp: u8, count: u64) -> impl Iterator<Item = TestPacket> {
    (0..count).map(move |seq| TestPacket::new(u32::from(dscp), seq, MTU).with_dscp(dscp))
}

/// A router with AF1 alone, which takes these parameters.
fn af1(class: Value) -> Queue {
    let mut class = class;
    class["af"] = json!(1);
    queue("diffserv", json!({"classes": [class]}))
}

/// Talk at IETF 99 (ICCRG) on the burst limiting shaper: under weighted round robin with w = 0.5 AF
/// gets half of what EF leaves, which is 37, 25.5 and 12 % with EF at 26, 49 and 76 %.
#[test]
fn af_and_df_share_what_ef_leaves() {
    let params = json!({"classes": [{"af": 1}]});
    for (ef, expected) in [(0.26, 37.0), (0.49, 25.5), (0.76, 12.0)] {
        let departures = run(&mut queue("diffserv", params.clone()), ef, 200);
        let share = departures.percent(AF11);
        assert!((share - expected).abs() < 1.0, "EF {ef}: {share}");
        assert!((departures.percent(EF) - ef * 100.0).abs() < 1.0);
        // The shaper leaves EF alone: frames of one size leave at the same times.
        let shaped = run(&mut queue("bls", json!({})), ef, 200);
        assert_eq!(departures.ef_wait(1), shaped.ef_wait(1));
    }
    let weights = json!({"classes": [{"af": 1, "weight": 3}], "df_weight": 2});
    let share = run(&mut queue("diffserv", weights), 0.5, 200).percent(AF11);
    assert!((share - 30.0).abs() < 1.0, "{share}");
}

/// RFC 3246 for a policed aggregate: no EF packet waits longer than a packet of another class on the
/// link and the burst of two packets before it take.
#[test]
fn ef_waits_for_one_packet_and_its_own_burst() {
    let params = json!({"ef_rate": 6_000_000, "ef_burst": 3000, "classes": [{"af": 1}]});
    let mut q = queue("diffserv", params);
    let departures = run(&mut q, 0.5, 100);
    assert!(departures.ef_wait(0) <= 3 * PACKET_TIME, "{}", departures.ef_wait(0));
    assert!(departures.ef_wait(0) > PACKET_TIME);
    assert!(q.counters().dropped_policed > 0);
    // Not policed, bursts of Poisson arrivals are longer.
    let departures = run(&mut queue("diffserv", json!({})), 0.5, 100);
    assert!(departures.ef_wait(0) > 4 * PACKET_TIME, "{}", departures.ef_wait(0));
}

/// The policer: a burst of two packets passes, then one packet each 2 ms at 6 Mbit/s.
#[test]
fn ef_is_policed() {
    let mut q = queue("diffserv", json!({"ef_rate": 6_000_000}));
    let mut accepted = |at: Nanos, count: u64| {
        let (outcomes, _) = offer(&mut q, at, packets(EF, count));
        outcomes.iter().filter(|o| **o == Enqueued::Accepted).count()
    };
    assert_eq!(accepted(0, 5), 2);
    assert_eq!(accepted(2 * MS - 1000, 1), 0);
    assert_eq!(accepted(2 * MS, 2), 1);
    assert_eq!(accepted(100 * MS, 5), 2);
    let mut dropped = Dropped::new();
    q.enqueue(100 * MS, TestPacket::new(1, 9, MTU).with_dscp(EF), &mut dropped);
    assert_eq!(dropped[0].1, DropReason::Policed);
}

/// Packets of 500 and 1500 bytes: quanta are fair in bytes, packets by weight are not.
#[test]
fn deficits_count_bytes() {
    let bytes = |scheduler: &str| {
        let params = json!({"scheduler": scheduler, "classes": [{"af": 1}]});
        let mut q = queue("diffserv", params);
        let small = packets(AF11, 30).map(|p| TestPacket { bytes: 500, ..p });
        offer(&mut q, 0, small.chain(packets(DF, 300)));
        let mut sum = BTreeMap::<u8, u32>::new();
        let mut dropped = Dropped::new();
        for _ in 0..40 {
            if let Dequeued::Packet(packet) = q.dequeue(0, &mut dropped) {
                *sum.entry(packet.dscp).or_default() += packet.bytes;
            }
        }
        (sum[&AF11], sum[&DF])
    };
    assert_eq!(bytes("drr"), (30 * 500, 10 * 1500));
    assert_eq!(bytes("wrr"), (20 * 500, 20 * 1500));
}

/// RFC 2597 section 6 gives the codepoints, RFC 2474 section 3 sends unknown ones to the default.
#[test]
fn codepoints_choose_the_class() {
    let params = json!({"classes": [{"af": 1}, {"af": 4}]});
    let mut q = queue("diffserv", params);
    // AF2 is not served here, 11 and 63 mean nothing: they share a turn with DF.
    for dscp in [0, 18, 11, 63, 10, 12, 34, 38, 46, 44] {
        offer(&mut q, 0, packets(dscp, 1));
    }
    let order: Vec<u8> = drain(&mut q, 0).iter().map(|p| p.dscp).collect();
    assert_eq!(order, [46, 44, 0, 10, 34, 18, 12, 38, 11, 63]);
}

/// RFC 2597 section 4: packets of an AF class leave in order, whatever their drop precedence.
#[test]
fn nothing_is_reordered_in_an_af_class() {
    let mut q = af1(json!({"meter": "srtcm", "cir": 1_000_000, "cbs": 3000, "ebs": 3000}));
    let mixed =
        (0..20).map(|n| TestPacket::new(1, n, MTU).with_dscp([AF11, AF12, AF13][n as usize % 3]));
    offer(&mut q, 0, mixed);
    let out = drain(&mut q, 0);
    assert!(out.windows(2).all(|w| w[0].seq < w[1].seq));
    // A blind meter makes two packets green, two yellow and the others red.
    let colours: Vec<u8> = out.iter().map(|p| p.dscp).collect();
    assert_eq!(colours[..5], [AF11, AF11, AF12, AF12, AF13]);
    assert!(colours[4..].iter().all(|&dscp| dscp == AF13));
}

#[test]
fn a_colour_aware_meter_leaves_worse_precedences() {
    let class = json!({"meter": "srtcm", "cbs": 3000, "ebs": 3000, "colour_aware": true});
    let mut q = af1(class);
    offer(&mut q, 0, packets(AF13, 1).chain(packets(AF12, 1)).chain(packets(AF11, 1)));
    let out: Vec<u8> = drain(&mut q, 0).iter().map(|p| p.dscp).collect();
    assert_eq!(out, [AF13, AF12, AF11]);
}

/// Shares of packets of a colour that are dropped at a queue held at so many packets, with the average
/// following at once.
fn drop_share(dscp: u8, held: u64) -> f64 {
    let mut q = af1(json!({"red_weight": 1.0}));
    // Green packets are not dropped before the queue is as long.
    let mut dropped = Dropped::new();
    for packet in packets(AF11, held) {
        q.enqueue(0, packet, &mut dropped);
    }
    assert!(dropped.is_empty());
    let arrivals = 20_000;
    for packet in packets(dscp, arrivals) {
        if q.enqueue(0, packet, &mut dropped) == Enqueued::Accepted {
            q.dequeue(0, &mut dropped);
        }
    }
    dropped.len() as f64 / arrivals as f64
}

/// The curves at 35 packets: red (10, 40, 10 %) has p_b = 10 % * 25/30 = 1/12, yellow (30, 60, 5 %) has
/// 5 % * 5/30 = 1/120, green (from 40) none. Drops evenly spread over 1 to 1/p_b packets are
/// (1 + 1/p_b)/2 apart in the mean (Floyd and Jacobson 1993 section 7).
#[test]
fn each_drop_precedence_has_its_curve() {
    let spread = |probability: f64| 2.0 / (1.0 + 1.0 / probability);
    for (dscp, probability) in [(AF13, 1.0 / 12.0), (AF12, 1.0 / 120.0)] {
        let (share, expected) = (drop_share(dscp, 35), spread(probability));
        assert!((share / expected - 1.0).abs() < 0.1, "{dscp}: {share} for {expected}");
    }
    assert_eq!(drop_share(AF11, 35), 0.0);
    // From 40 packets on all red ones go.
    assert_eq!(drop_share(AF13, 40), 1.0);
}

/// RIO (Clark and Fang 1998): with coupled averages, a queue full of red packets does not hurt green
/// ones; without, it does.
#[test]
fn green_packets_do_not_see_red_ones_in_rio() {
    let survivors = |coupled: bool| {
        let class = json!({"red_weight": 1.0, "coupled": coupled, "red_min": 800, "red_max": 900});
        let mut q = af1(class);
        offer(&mut q, 0, packets(AF13, 200));
        offer(&mut q, 0, packets(AF11, 20)).0.iter().filter(|o| **o == Enqueued::Accepted).count()
    };
    assert_eq!((survivors(true), survivors(false)), (20, 0));
}

/// ECN-capable packets are marked between the thresholds and dropped above (RFC 3168 section 7).
#[test]
fn ecn_marks_below_the_maximum() {
    let outcome = |held: u64| {
        let mut q = af1(json!({"red_weight": 1.0, "ecn": true}));
        offer(&mut q, 0, packets(AF11, held));
        let arriving = packets(AF13, 500).map(|p| p.with_ecn(Ecn::Ect0));
        let mut dropped = Dropped::new();
        for packet in arriving {
            if q.enqueue(0, packet, &mut dropped) != Enqueued::Dropped {
                q.dequeue(0, &mut dropped);
            }
        }
        (q.counters().marked > 0, q.counters().dropped_aqm > 0)
    };
    assert_eq!(outcome(30), (true, false));
    assert_eq!(outcome(40), (false, true));
}

/// Each parameter changes what leaves.
#[test]
fn every_parameter_reaches_the_queue() {
    let trace = |params: Value| {
        let mut q = queue("diffserv", params);
        let mut dropped = Dropped::new();
        let mut left = Vec::new();
        for n in 0..3000_u64 {
            let dscp = [AF13, EF, EF, EF, AF11, DF, AF12, 18][n as usize % 8];
            let packet = TestPacket::new(u32::from(dscp), n, if n % 3 == 0 { 500 } else { MTU })
                .with_dscp(dscp)
                .with_ecn(Ecn::Ect0);
            let at = n * PACKET_TIME / 3 + n / 600 * 20 * MS;
            q.enqueue(at, packet, &mut dropped);
            if n % 2 == 0 {
                left.push(q.dequeue(at, &mut dropped));
            }
            // A pause follows, so that the averages fall.
            if n % 600 == 599 {
                left.extend(drain(&mut q, at).into_iter().map(Dequeued::Packet));
            }
        }
        (left, dropped)
    };
    let with = |top: Value, class: Value| {
        let mut params = top;
        let mut full = json!({"af": 1, "red_weight": 0.05});
        full.as_object_mut().unwrap().extend(object(class));
        params.as_object_mut().unwrap().entry("classes").or_insert(json!([full]));
        params
    };
    let plain = trace(with(json!({}), json!({})));
    for top in [
        json!({"bandwidth": 100_000}),
        json!({"ef_dscp": [10]}),
        json!({"ef_rate": 1_000_000}),
        json!({"ef_limit": 1}),
        json!({"scheduler": "drr"}),
        json!({"df_weight": 2}),
        json!({"df": {"kind": "fifo", "params": {"limit": 5}}}),
        json!({"classes": [{"af": 2}]}),
    ] {
        assert!(trace(with(top.clone(), json!({}))) != plain, "{top}");
    }
    let policed = |burst: u64| with(json!({"ef_rate": 1_000_000, "ef_burst": burst}), json!({}));
    assert!(trace(policed(3000)) != trace(policed(30_000)));
    let quantum = |bytes: u64| with(json!({"scheduler": "drr", "quantum": bytes}), json!({}));
    assert!(trace(quantum(1500)) != trace(quantum(6000)));
    for class in [
        json!({"weight": 2}),
        json!({"meter": "srtcm"}),
        json!({"green_min": 5}),
        json!({"green_max": 41}),
        json!({"green_probability": 0.9}),
        json!({"yellow_min": 5}),
        json!({"yellow_max": 31}),
        json!({"yellow_probability": 0.9}),
        json!({"red_min": 5}),
        json!({"red_max": 11}),
        json!({"red_probability": 0.9}),
        json!({"red_weight": 0.002}),
        json!({"avpkt": 100}),
        json!({"coupled": true}),
        json!({"ecn": true}),
        json!({"limit": 20}),
    ] {
        assert!(trace(with(json!({}), class.clone())) != plain, "{class}");
    }
    for (meter, change) in [
        ("srtcm", json!({"colour_aware": true})),
        ("srtcm", json!({"cir": 2_000_000})),
        ("srtcm", json!({"cbs": 30_000})),
        ("srtcm", json!({"ebs": 30_000})),
        ("trtcm", json!({"pir": 3_000_000})),
        ("trtcm", json!({"pbs": 30_000})),
        ("tswtcm", json!({"interval": 100 * MS})),
    ] {
        let metered = trace(with(json!({}), json!({"meter": meter})));
        let mut changed = change.clone();
        changed["meter"] = json!(meter);
        assert!(trace(with(json!({}), changed)) != metered, "{change}");
    }
}

#[test]
fn values_that_do_not_go_together_are_refused() {
    for (class, end) in [
        (json!([{"green_min": 70}]), "green_max = 70: expected more than green_min"),
        (json!([{"meter": "trtcm", "pir": 10}]), "pir = 10: expected at least cir"),
        (json!([{"af": 1}, {"af": 1}]), "af = 1: expected an AF class only once"),
    ] {
        let params = object(json!({"classes": class}));
        let error = build::<TestPacket>("diffserv", &params, 1).err().unwrap().to_string();
        assert!(error.ends_with(end), "{error}");
    }
}
