//! Core-stateless fair queueing against the experiments of its paper (Stoica, Shenker and Zhang,
//! SIGCOMM 1998): 10 Mbit/s, packets of 1 kB, flows at constant rates.

use std::collections::BTreeMap;

use crate::common::{MS, Queue, TestPacket, drain, offer, queue, recorded};
use dumbbell_queue::{Dequeued, DropReason, Dropped, Nanos};
use serde_json::json;

const BYTES: u32 = 1000;
const PACKET_TIME: Nanos = 800_000;
const DF: u8 = 0;
const AF11: u8 = 10;

/// Sends flows at rates in Mbit/s, which are on their packets' labels, to a link at 10 Mbit/s; gives
/// what each flow got in Mbit/s in the second half of the time. Every other flow has DSCP 10.
fn run(queue: &mut Queue, rates: &[f64], seconds: u64) -> Vec<f64> {
    let interval = |rate: f64| (f64::from(BYTES) * 8e3 / rate) as Nanos;
    let end = seconds * 1000 * MS;
    let mut arrivals: BTreeMap<(Nanos, usize), u64> = BTreeMap::new();
    for (flow, &rate) in rates.iter().enumerate() {
        // Spread, so that the flows' packets do not come together.
        arrivals.insert((interval(rate) * flow as u64 / rates.len() as u64, flow), 0);
    }
    let mut got = vec![0.0; rates.len()];
    let mut dropped = Dropped::new();
    let mut now = 0;
    while now < end {
        while let Some(first) = arrivals.first_entry() {
            let (at, flow) = *first.key();
            if at > now {
                break;
            }
            let seq = first.remove();
            let mut packet = TestPacket::new(flow as u32, seq, BYTES);
            packet.dscp = [DF, AF11][flow % 2];
            packet.label = rates[flow] as f32 * 1e6;
            queue.enqueue(at, packet, &mut dropped);
            arrivals.insert((at + interval(rates[flow]), flow), seq + 1);
        }
        if let Dequeued::Packet(packet) = queue.dequeue(now, &mut dropped)
            && now >= end / 2
        {
            got[packet.flow as usize] += f64::from(BYTES) * 8e3 * 2.0 / end as f64;
        }
        now += PACKET_TIME;
    }
    got
}

/// Flow i of 32 sends i + 1 times the fair share of 0.3125 Mbit/s.
fn thirty_two() -> Vec<f64> {
    (1..=32).map(|flow| f64::from(flow) * 10.0 / 32.0).collect()
}

/// The paper's first experiment: every flow gets 0.3125 Mbit/s. A FIFO starves
/// some and gives others three times as much.
#[test]
fn thirty_two_flows_get_the_same() {
    for edge in [true, false] {
        let mut q = queue("csfq", json!({"edge": edge}));
        let got = run(&mut q, &thirty_two(), 40);
        for (flow, rate) in got.iter().enumerate() {
            assert!((rate / 0.3125 - 1.0).abs() < 0.1, "flow {flow}: {rate} of {got:?}");
        }
        assert!(got.iter().sum::<f64>() > 9.9);
        // What leaves is labelled with no more than the fair share, for the next node.
        let left = drain(&mut q, 40_000 * MS);
        assert!(left.iter().all(|packet| packet.label < 0.3125e6 * 1.25));
    }
    let got = run(&mut queue("fifo", json!({})), &thirty_two(), 40);
    assert!(got.contains(&0.0) && got.iter().any(|&rate| rate > 0.9), "{got:?}");
}

/// Section 2.3: with labels of rate over weight, shares go by weight: here 1 to 3.
#[test]
fn shares_go_by_weight() {
    let params = json!({"edge": true, "classes": [{"dscp": [AF11], "weight": 3.0}]});
    let got = run(&mut queue("csfq", params), &[2.0; 20], 40);
    for (flow, rate) in got.iter().enumerate() {
        let expected = [0.25, 0.75][flow % 2];
        assert!((rate / expected - 1.0).abs() < 0.1, "flow {flow}: {rate} of {got:?}");
    }
}

/// Nothing is dropped of what fits.
#[test]
fn an_uncongested_link_drops_nothing() {
    let mut q = queue("csfq", json!({"edge": true}));
    let got = run(&mut q, &[1.0, 2.0, 6.0], 20);
    assert_eq!(q.counters().dropped(), 0);
    assert!((got[2] - 6.0).abs() < 0.1, "{got:?}");
}

/// Figure 3: a packet is dropped with probability 1 - alpha/label; alpha is the link's rate at first.
/// Here that holds for any queue.
#[test]
fn drops_leave_the_fair_share() {
    for (label, expected) in [(40e6, 0.75), (12.5e6, 0.2), (10e6, 0.0), (0.0, 0.0)] {
        let mut q = queue("csfq", json!({"threshold": 0}));
        let mut dropped = Dropped::new();
        for seq in 0..10_000 {
            let packet = TestPacket { label, ..TestPacket::new(1, seq, BYTES) };
            q.enqueue(0, packet, &mut dropped);
            if let Dequeued::Packet(packet) = q.dequeue(0, &mut dropped) {
                assert_eq!(packet.label, label.min(10e6));
            }
        }
        assert!(dropped.iter().all(|d| d.1 == DropReason::Aqm));
        let share = dropped.len() as f64 / 1e4;
        assert!((share - expected).abs() < 0.015, "{label}: {share}");
    }
}

/// Equation 3: packets of L every T give exactly L/T once the first ones are forgotten, and a first
/// packet L/K.
#[test]
fn the_edge_measures_rates() {
    let mut q = queue("csfq", json!({"edge": true}));
    let labels: Vec<f32> = (0..200)
        .map(|n| {
            offer(&mut q, n * 10 * MS, [TestPacket::new(1, n, 500)]);
            drain(&mut q, n * 10 * MS)[0].label
        })
        .collect();
    assert_eq!(labels[0], 500.0 * 8.0 / 0.1);
    assert!((labels[199] / 400e3 - 1.0).abs() < 1e-6, "{}", labels[199]);
    // After K a step is made up for but 1/e: packet 10 comes 100 ms after the first.
    let expected = 400e3 + (40e3 - 400e3) * (-1.0_f32).exp();
    assert!((labels[10] / expected - 1.0).abs() < 1e-5, "{} {expected}", labels[10]);
}

/// Each packet that finds no room takes 1 % off the fair share, and all in a window no more than 25 %.
#[test]
fn overflows_lower_the_fair_share() {
    let mut q = queue("csfq", json!({"limit_bytes": BYTES}));
    offer(&mut q, 0, (0..11).map(|seq| TestPacket::new(1, seq, BYTES)));
    let share = recorded(&mut q, "fair_share_bps");
    assert!((share / (10e6 * 0.99_f64.powi(10)) - 1.0).abs() < 1e-9, "{share}");
    offer(&mut q, 0, (0..100).map(|seq| TestPacket::new(1, seq, BYTES)));
    assert_eq!(recorded(&mut q, "fair_share_bps"), 7.5e6);
}

/// Each parameter changes what flows get.
#[test]
fn every_parameter_reaches_the_queue() {
    let edge = json!({"edge": true});
    let plain = run(&mut queue("csfq", edge), &thirty_two(), 4);
    for other in [
        json!({"edge": false}),
        json!({"rate": 8_000_000}),
        json!({"weight": 2.0}),
        json!({"classes": [{"dscp": [10], "weight": 2.0}]}),
        json!({"averaging": 200 * MS}),
        json!({"link_averaging": 100 * MS}),
        json!({"window": 300 * MS}),
        json!({"limit_bytes": 20_000}),
    ] {
        let mut params = json!({"edge": true});
        params.as_object_mut().unwrap().extend(crate::common::object(other.clone()));
        assert_ne!(run(&mut queue("csfq", params), &thirty_two(), 4), plain, "{other}");
    }
    // With little overload, it takes time to fill the queue.
    let with = |threshold: u64| {
        let mut q = queue("csfq", json!({"edge": true, "threshold": threshold}));
        (run(&mut q, &[5.2, 5.2], 4), q.counters())
    };
    assert_ne!(with(16_000), with(60_000));
}
