//! CAKE: its shaper, its fairness, its tins and its ACK filter.

use std::collections::BTreeMap;

use crate::common::{MS, Queue, TestPacket, drain, offer, overload, queue};
use dumbbell_queue::{Dequeued, DropReason, Dropped, Ecn, Enqueued, Nanos};
use serde_json::{Value, json};

const PACKET: u32 = 1500;
const CS1: u8 = 8;
const EF: u8 = 46;

fn packet(flow: u32, seq: u64) -> TestPacket {
    TestPacket::new(flow, seq, PACKET).with_ecn(Ecn::Ect0)
}

/// The next packet, and when it leaves.
fn wait(q: &mut Queue, now: &mut Nanos) -> Option<TestPacket> {
    let mut dropped = Dropped::new();
    loop {
        match q.dequeue(*now, &mut dropped) {
            Dequeued::Packet(packet) => return Some(packet),
            Dequeued::Wait(until) => {
                assert!(until > *now);
                *now = until;
            }
            Dequeued::Empty => return None,
        }
    }
}

/// Times at which packets leave.
fn departures(q: &mut Queue, mut now: Nanos) -> Vec<Nanos> {
    std::iter::from_fn(|| wait(q, &mut now).map(|_| now)).collect()
}

/// dtaht/sch_cake#51: framing was counted relative to the wrong size. The gap between packets is
/// the size of the IP packet with the overhead, at least mpu, in cells, over the rate (tc-cake,
/// "Overhead compensation parameters"), exactly.
#[test]
fn gaps_are_the_framed_size_over_the_rate() {
    for (framing, bytes, framed) in [
        (json!({}), 1500, 1500),
        (json!({"overhead": 0}), 1500, 1500),
        // ethernet: 38 bytes, mpu 84.
        (json!({"overhead": 38, "mpu": 84}), 1500, 1538),
        (json!({"overhead": 38, "mpu": 84}), 40, 84),
        // pppoe-ptm: 30 bytes; 1530 bytes have 24 times 64 bytes or a part of them.
        (json!({"overhead": 30, "cells": "ptm"}), 1500, 1530 + 24),
        // pppoe-llcsnap: 40 bytes; 33 cells, and two.
        (json!({"overhead": 40, "cells": "atm"}), 1500, 33 * 53),
        (json!({"overhead": 40, "cells": "atm"}), 40, 2 * 53),
        // One byte more than a cell holds.
        (json!({"overhead": 9, "cells": "atm"}), 40, 2 * 53),
        (json!({"overhead": 8, "cells": "atm"}), 40, 53),
        // The least size counts before cells.
        (json!({"overhead": 0, "mpu": 64, "cells": "atm"}), 40, 2 * 53),
    ] {
        let mut params = crate::common::object(framing.clone());
        params.insert("bandwidth".to_owned(), json!(1_000_000));
        let mut q = queue("cake", Value::Object(params));
        offer(&mut q, 7 * MS, (0..5).map(|seq| TestPacket::new(1, seq, bytes)));
        let times = departures(&mut q, 7 * MS);
        assert_eq!(times[0], 7 * MS);
        assert!(times.windows(2).all(|w| w[1] - w[0] == framed * 8000), "{framing}: {times:?}");
    }
}

/// There is no burst: time that goes by unused is not saved up.
#[test]
fn idle_time_is_lost() {
    let mut q = queue("cake", json!({"bandwidth": 12_000_000}));
    offer(&mut q, 0, (0..2).map(|seq| packet(1, seq)));
    assert_eq!(departures(&mut q, 0), [0, MS]);
    // The clock stands at 2 ms.
    offer(&mut q, MS, [packet(1, 2)]);
    assert_eq!(departures(&mut q, MS), [2 * MS]);
    offer(&mut q, 100 * MS, (3..6).map(|seq| packet(1, seq)));
    assert_eq!(departures(&mut q, 100 * MS), [100 * MS, 101 * MS, 102 * MS]);
}

/// Bytes of each of some flows that never run dry.
fn shares(q: &mut Queue, flows: &[TestPacket], packets: usize) -> BTreeMap<u32, u64> {
    for flow in flows {
        offer(q, 0, (0..20).map(|seq| TestPacket { seq, ..*flow }));
    }
    let mut now = 0;
    let mut bytes = BTreeMap::new();
    for n in 0..packets {
        let p = wait(q, &mut now).unwrap();
        offer(q, now, [TestPacket { ecn: Ecn::Ect0, ..p }]);
        // Until all flows have become bulk flows, they are served as they came.
        if n >= 4 * flows.len() {
            *bytes.entry(p.flow).or_default() += u64::from(p.bytes);
        }
    }
    bytes
}

/// tc-cake: of a host with ten flows, each to another host, and one with a single flow, each gets half
/// with isolation by that side (dual-srchost, dual-dsthost, triple-isolate, srchost, dsthost), and the
/// single flow an eleventh as all others with `flows`.
#[test]
fn hosts_share_first_and_then_their_flows() {
    let of_single = |isolation: &str, by_source: bool| {
        let mut q = queue("cake", json!({"isolation": isolation, "bandwidth": 50_000_000}));
        let flows: Vec<TestPacket> = (0..11)
            .map(|flow| {
                let (host, peer) = (if flow == 10 { 200 } else { 100 }, 1000 + flow);
                let (source, destination) = if by_source { (host, peer) } else { (peer, host) };
                packet(flow, 0).between(source, destination)
            })
            .collect();
        let bytes = shares(&mut q, &flows, 11_000);
        let most = (0..10).map(|flow| bytes[&flow]).max().unwrap();
        let least = (0..10).map(|flow| bytes[&flow]).min().unwrap();
        assert!(most as f64 <= least as f64 * 1.05, "{isolation}: {least} to {most}");
        bytes[&10] as f64 / bytes.values().sum::<u64>() as f64
    };
    let (half, eleventh) = (0.5, 1.0 / 11.0);
    for (isolation, by_source, by_destination) in [
        ("triple-isolate", half, half),
        ("dual-srchost", half, eleventh),
        ("dual-dsthost", eleventh, half),
        ("srchost", half, eleventh),
        ("dsthost", eleventh, half),
        ("hosts", eleventh, eleventh),
        ("flows", eleventh, eleventh),
        ("flowblind", eleventh, eleventh),
    ] {
        for (expected, is_source) in [(by_source, true), (by_destination, false)] {
            let got = of_single(isolation, is_source);
            assert!((got - expected).abs() < 0.01, "{isolation} {is_source}: {got}");
        }
    }
}

/// All tins loaded at 16 Mbit/s: up to their thresholds of 4 and 1 Mbit/s the latency and the bulk tin
/// go before best effort, which gets what is left; without a shaper the weights decide, 1024:64:256.
#[test]
fn loaded_tins_get_their_thresholds_or_weights() {
    let flows = [packet(1, 0), packet(2, 0).with_dscp(CS1), packet(3, 0).with_dscp(EF)];
    for (params, parts, total) in [
        (json!({"bandwidth": 16_000_000}), [11.0, 1.0, 4.0], 16.0),
        (json!({}), [1024.0, 64.0, 256.0], 1344.0),
    ] {
        let mut q = queue("cake", params);
        let bytes = shares(&mut q, &flows, 20_000);
        let sum = bytes.values().sum::<u64>() as f64;
        for (flow, part) in (1..=3).zip(parts) {
            let got = bytes[&flow] as f64 / sum;
            assert!((got - part / total).abs() < 0.005, "flow {flow}: {got}");
        }
    }
}

/// A latency tin below its threshold waits for the packet in service at most.
#[test]
fn latency_tin_goes_first_below_its_threshold() {
    let mut q = queue("cake", json!({"bandwidth": 12_000_000}));
    offer(&mut q, 0, (0..300).map(|seq| packet(1, seq)));
    let (mut now, mut pings, mut worst) = (0, 0, 0);
    let mut next_ping = 0;
    while pings < 40 {
        while next_ping <= now {
            q.enqueue(next_ping, packet(2, pings).with_dscp(EF), &mut Dropped::new());
            next_ping += 5 * MS + 70_000;
        }
        match q.dequeue(now, &mut Dropped::new()) {
            Dequeued::Packet(p) if p.flow == 2 => {
                pings += 1;
                worst = worst.max(now - p.at);
            }
            Dequeued::Packet(_) => {}
            Dequeued::Wait(until) => now = until,
            Dequeued::Empty => panic!("ran dry"),
        }
    }
    assert!(worst <= MS, "{worst}");
}

/// Drops of a flow that leaves at one packet per millisecond while two come.
fn overload_drops(q: &mut Queue, start: Nanos) -> Vec<u64> {
    let trace = overload(q, TestPacket::new(1, 0, PACKET), start, start + 300 * MS);
    assert!(trace.dropped.iter().all(|d| d.2 == DropReason::Aqm));
    trace.dropped.iter().map(|d| (d.0 - start) / MS).collect()
}

/// Without a shaper, on a single flow, it is COBALT: the golden times of tests/cobalt.rs; but as in Linux,
/// a queue that is over target for the first time, at 11 ms, is signalled with its next packet, and
/// after that at gaps of 100/sqrt(2) ms, 100/sqrt(3) ms, ... from there.
#[test]
fn each_flow_is_under_cobalt() {
    let mut q = queue("cake", json!({}));
    assert_eq!(overload_drops(&mut q, 0), [12, 82, 140, 190, 235, 275]);
    drain(&mut q, 300 * MS);
    let mut now = 300 * MS;
    while now < 2000 * MS {
        offer(&mut q, now, [TestPacket::new(1, 0, PACKET)]);
        drain(&mut q, now);
        now += 10 * MS;
    }
    assert_eq!(overload_drops(&mut q, now), [111, 182, 240, 290]);
}

/// A flow that sends little goes before those with a queue (RFC 8290 section 4.2).
#[test]
fn sparse_flow_goes_first() {
    let mut q = queue("cake", json!({"bandwidth": 12_000_000}));
    offer(&mut q, 0, (0..50).map(|seq| packet(seq as u32 % 5, seq)));
    let mut now = 0;
    for _ in 0..10 {
        wait(&mut q, &mut now);
    }
    offer(&mut q, now, [packet(9, 0)]);
    assert_eq!(wait(&mut q, &mut now).unwrap().flow, 9);
}

/// The queue with the most bytes gives up its head, and BLUE hears of it.
#[test]
fn overflow_drops_from_the_fattest_flow() {
    let mut q = queue("cake", json!({"memory_limit": 30_000}));
    offer(&mut q, 0, (0..5).map(|seq| packet(1, seq)));
    offer(&mut q, 0, (0..15).map(|seq| packet(2, seq)));
    let (outcomes, dropped) = offer(&mut q, 0, [packet(1, 5)]);
    assert_eq!(outcomes, [Enqueued::Accepted]);
    assert_eq!(dropped.iter().map(|p| (p.flow, p.seq)).collect::<Vec<_>>(), [(2, 0)]);

    // A packet larger than the memory is its own victim.
    let mut q = queue("cake", json!({"memory_limit": 1000}));
    assert_eq!(offer(&mut q, 0, [packet(1, 0)]).0, [Enqueued::Dropped]);
    assert_eq!(drain(&mut q, 0).len(), 0);
}

/// Three times as many flows as queues, so that queues are shared and hosts change under them: nothing is
/// lost, and in the end nothing is left.
#[test]
fn more_flows_than_queues_lose_nothing() {
    for isolation in ["triple-isolate", "dual-srchost", "dual-dsthost", "hosts", "flows"] {
        let params = json!({
            "isolation": isolation, "bandwidth": 100_000_000, "ingress": true, "cells": "atm",
            "memory_limit": 2_000_000, "diffserv": "diffserv4",
        });
        let mut q = queue("cake", params);
        let mut dropped = Dropped::new();
        let (mut now, mut sent, mut random) = (0, 0, 1_u32);
        for n in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (flow, dscp) = ((random >> 8) % 3072, [0, 0, CS1, EF][(random >> 20) as usize % 4]);
            let p = packet(flow, n).with_dscp(dscp).between(flow % 1500, flow % 1700);
            q.enqueue(now, p, &mut dropped);
            now += 90_000;
            sent += u64::from(matches!(q.dequeue(now, &mut dropped), Dequeued::Packet(_)));
            assert_eq!(n + 1, sent + dropped.len() as u64 + q.backlog_packets());
        }
        while wait(&mut q, &mut now).is_some() {}
        assert_eq!((q.backlog_packets(), q.backlog_bytes()), (0, 0));
        let c = q.counters();
        assert_eq!(c.offered, c.dequeued + c.dropped());
        assert!(c.dropped_overflow > 0 && c.marked > 0, "{c:?}");
    }
}

/// The default limit in memory is four intervals' worth of the bandwidth, at least 4 MiB.
#[test]
fn memory_follows_the_bandwidth() {
    let held = |params: Value| {
        let mut q = queue("cake", params);
        offer(&mut q, 0, (0..12_000).map(|seq| packet(1, seq)));
        q.backlog_bytes() / 1500
    };
    assert_eq!(held(json!({"bandwidth": 10_000_000})), (4 << 20) / 1500);
    assert_eq!(held(json!({"bandwidth": 200_000_000})), 10_000_000 / 1500);
    assert_eq!(held(json!({"bandwidth": 200_000_000, "rtt": 60 * MS})), 6_000_000 / 1500);
    assert_eq!(held(json!({})), 10_240 * 1514 / 1500);
}

fn ack(seq: u64) -> TestPacket {
    TestPacket { ack: true, ..TestPacket::new(1, seq, 40) }
}

/// Sequence numbers that the filter leaves, oldest first.
fn filtered(mode: &str, packets: impl IntoIterator<Item = TestPacket>) -> Vec<u64> {
    let mut q = queue("cake", json!({"ack_filter": mode, "isolation": "flowblind"}));
    let (outcomes, dropped) = offer(&mut q, 0, packets);
    assert!(outcomes.iter().all(|&outcome| outcome == Enqueued::Accepted));
    assert_eq!(q.counters().dropped_ack_filter, dropped.len() as u64);
    drain(&mut q, 0).iter().map(|p| p.seq).collect()
}

/// tc-cake, "ack-filter": the newest ACK always stays, and one more; the aggressive filter leaves that
/// only where something else lies between or it says something else.
#[test]
fn ack_filter_drops_old_acks() {
    assert_eq!(filtered("off", (0..6).map(ack)), [0, 1, 2, 3, 4, 5]);
    assert_eq!(filtered("on", (0..6).map(ack)), [4, 5]);
    assert_eq!(filtered("aggressive", (0..6).map(ack)), [5]);
}

#[test]
fn ack_filter_keeps_what_says_something_else() {
    let data = |seq| TestPacket::new(1, seq, 1500);
    let other = |seq| TestPacket { flow: 2, ..ack(seq) };
    let echo = |seq| TestPacket { label: 1.0, ..ack(seq) };
    // Data stay, and ACKs of other connections in the same queue.
    for mode in ["on", "aggressive"] {
        assert_eq!(filtered(mode, [data(0), data(1), data(2)]), [0, 1, 2]);
        assert_eq!(filtered(mode, [ack(0), other(1), ack(2)]), [0, 1, 2]);
        assert_eq!(filtered(mode, [ack(0), data(1), ack(2)]), [0, 1, 2]);
        // ACKs that came late or twice.
        assert_eq!(filtered(mode, [ack(5), ack(3), ack(3)]), [5, 3, 3]);
        // An ACK that echoes something else than those after it.
        assert_eq!(filtered(mode, [echo(0), ack(1)]), [0, 1]);
        assert_eq!(filtered(mode, [ack(0), echo(1), echo(2)])[0], 0);
    }
    assert_eq!(filtered("on", [ack(0), data(1), ack(2), ack(3)]), [1, 2, 3]);
    assert_eq!(filtered("aggressive", [ack(0), data(1), ack(2), ack(3)]), [1, 2, 3]);
}

/// tc-cake, "ingress": what is dropped has used the link too, and is paid for; the failsafe clock at two
/// thirds of the rate keeps some packets going.
#[test]
fn ingress_charges_drops() {
    let sent = |ingress: bool| {
        let mut q = queue("cake", json!({"bandwidth": 12_000_000, "ingress": ingress}));
        let mut sent = 0;
        let mut due = 0;
        for ms in 0..20_000 {
            // 24 Mbit/s that do not respond.
            offer(&mut q, ms * MS, (0..2).map(|seq| TestPacket::new(1, seq, PACKET)));
            while due <= ms * MS {
                match q.dequeue(due, &mut Dropped::new()) {
                    Dequeued::Packet(_) => sent += 1,
                    Dequeued::Wait(until) => due = until,
                    Dequeued::Empty => due += MS,
                }
            }
        }
        (sent, q.counters().dropped_aqm)
    };
    let (egress, dropped) = sent(false);
    assert!((19_990..=20_001).contains(&egress) && dropped > 0, "{egress} {dropped}");
    let (ingress, dropped) = sent(true);
    // Between the failsafe rate and what is left beside the drops.
    assert!(dropped > 1000 && ingress >= 13_300 && ingress + 1000 < egress, "{ingress} {dropped}");
}

/// SCE by the ramp that `sce` names, on ECT(0) alone: above 5 ms every packet with `below`; from there to
/// 10 ms with `above`.
#[test]
fn sce_marks_by_the_ramp() {
    let first = |sce: &str, knee: u64| {
        let mut q = queue("cake", json!({"sce": sce, "knee": knee}));
        let trace = overload(&mut q, packet(1, 0), 0, 100 * MS);
        let first = trace.delivered.iter().find(|d| d.1.ecn == Ecn::Ect1).map(|d| d.0 / MS);
        (first, q.counters().marked_sce)
    };
    assert_eq!(first("off", 4), (None, 0));
    let (below, straddling, above) = (first("below", 4), first("straddling", 4), first("above", 4));
    assert!(below.0.is_some_and(|ms| (6..=10).contains(&ms)));
    assert!(straddling.0.is_some_and(|ms| (6..=20).contains(&ms)));
    assert!(above.0.is_some_and(|ms| (11..=20).contains(&ms)));
    assert!(below.1 > straddling.1 && straddling.1 > above.1);
    assert!(first("straddling", 1).1 > first("straddling", 1024).1);
}

#[test]
fn each_other_parameter_reaches_the_queue() {
    let first = |params: Value| {
        let mut q = queue("cake", params);
        let trace = overload(&mut q, packet(1, 0), 0, 300 * MS);
        trace.delivered.iter().find(|d| d.1.ecn == Ecn::Ce).map(|d| d.0 / MS)
    };
    assert_eq!(first(json!({})), Some(12));
    // Target 10 ms: from 21 ms on.
    assert_eq!(first(json!({"rtt": 200 * MS})), Some(22));

    let mut q = queue("cake", json!({"wash": true}));
    offer(&mut q, 0, [packet(1, 0), packet(2, 0).with_dscp(EF)]);
    assert!(drain(&mut q, 0).iter().all(|p| p.dscp == 0));

    // The first of two packets of a wave, both from full queues: which tin goes first.
    let order = |diffserv: &str| {
        let mut q = queue("cake", json!({"bandwidth": 12_000_000, "diffserv": diffserv}));
        offer(&mut q, 0, [packet(1, 0), packet(2, 0).with_dscp(40), packet(3, 0).with_dscp(16)]);
        let mut now = 0;
        let flows = std::iter::from_fn(|| wait(&mut q, &mut now).map(|p| p.flow));
        flows.collect::<Vec<u32>>()
    };
    assert_eq!(order("besteffort"), [1, 2, 3]);
    assert_eq!(order("diffserv3"), [1, 2, 3]);
    for diffserv in ["diffserv4", "diffserv8", "precedence"] {
        assert_eq!(order(diffserv), [2, 3, 1], "{diffserv}");
    }
}
