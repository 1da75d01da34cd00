//! DualPI2 against RFC 9332.

use crate::closed_loop::{Control, Flow, run, utilisation};
use crate::common::{MS, Queue, TestPacket, Trace, drain, offer, overload, queue};
use dumbbell_queue::{Dequeued, DropReason, Dropped, Ecn, Nanos};
use serde_json::{Value, json};

const L: u32 = 1;
const C: u32 = 2;

fn l(seq: u64) -> TestPacket {
    TestPacket::new(L, seq, 1500).with_ecn(Ecn::Ect1)
}

fn c(seq: u64) -> TestPacket {
    TestPacket::new(C, seq, 1500)
}

fn flows(packets: &[TestPacket]) -> Vec<u32> {
    packets.iter().map(|p| p.flow).collect()
}

/// RFC 9331 section 5.1 and RFC 9332 section 2.5: ECT(1) and CE go to the L queue, which is served
/// first; ECT(0) joins them on request only.
#[test]
fn the_ecn_field_chooses_the_queue() {
    let packets = || {
        [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce]
            .into_iter()
            .enumerate()
            .map(|(i, ecn)| TestPacket::new(i as u32, 1, 1500).with_ecn(ecn))
    };
    let mut q = queue("dualpi2", json!({}));
    offer(&mut q, 0, packets());
    assert_eq!(flows(&drain(&mut q, 0)), [2, 3, 0, 1]);
    let mut q = queue("dualpi2", json!({"ecn_mask": "any_ect"}));
    offer(&mut q, 0, packets());
    assert_eq!(flows(&drain(&mut q, 0)), [1, 2, 3, 0]);
}

/// The credit by hand: it starts at 1514 * (0.1 - 0.9) = -1211 and gains 150 for each packet of L, so
/// that the tenth packet is C's; that costs 1350, and the next nine are L's again.
#[test]
fn c_gets_a_tenth_of_a_busy_link() {
    let mut q = queue("dualpi2", json!({"step_thresh": 10_000_000}));
    offer(&mut q, 0, (0..100).flat_map(|seq| [l(seq), c(seq)]));
    let order = flows(&drain(&mut q, 0));
    let places: Vec<_> = (0..80).filter(|&i| order[i] == C).collect();
    assert_eq!(places, [9, 19, 29, 39, 49, 59, 69, 79]);
    // RFC 9332 section 4.2.2 has 1/16.
    let mut q = queue("dualpi2", json!({"c_protection": 0.0625}));
    offer(&mut q, 0, (0..160).flat_map(|seq| [l(seq), c(seq)]));
    let order = flows(&drain(&mut q, 0));
    assert_eq!(order.iter().take(160).filter(|&&flow| flow == C).count(), 10);
}

/// RFC 9332 section 4.2.2: the time-shifted FIFO serves C first once it has waited 50 ms longer.
#[test]
fn the_time_shifted_fifo_compares_waiting_times() {
    for (l_arrives, first) in [(50 * MS, L), (50 * MS + 1, C)] {
        let mut q = queue("dualpi2", json!({"scheduler": "tsfifo"}));
        offer(&mut q, 0, [c(0)]);
        offer(&mut q, l_arrives, [l(0)]);
        assert_eq!(flows(&drain(&mut q, 60 * MS)), [first, L + C - first]);
    }
}

/// Marks of packets that leave L after these delays, alone or with another behind them.
fn marked(params: Value, delays: &[Nanos], behind: u64) -> Vec<bool> {
    let mark = |&delay: &Nanos| {
        let mut q = queue("dualpi2", params.clone());
        offer(&mut q, MS, (0..=behind).map(l));
        matches!(q.dequeue(MS + delay, &mut Dropped::new()),
            Dequeued::Packet(p) if p.ecn == Ecn::Ce)
    };
    delays.iter().map(mark).collect()
}

/// Linux dualpi2: step above 1 ms. RFC 9332 appendix A.1: a queue of one packet is not marked
/// (Th_len = 1); a ramp from 800 us to 1.2 ms.
#[test]
fn l_marks_by_its_own_delay() {
    let delays = [MS, MS + 1];
    assert_eq!(marked(json!({}), &delays, 0), [false, true]);
    assert_eq!(marked(json!({"min_qlen_step": 1}), &delays, 0), [false, false]);
    assert_eq!(marked(json!({"min_qlen_step": 1}), &delays, 1), [false, true]);
    assert_eq!(marked(json!({"step_thresh": 5_000_000}), &[5 * MS, 5 * MS + 1], 0), [false, true]);
    let ramp = json!({"l_aqm": "ramp"});
    assert_eq!(marked(ramp, &[800_000, 1_200_000], 0), [false, true]);
    let ramp = json!({"l_aqm": "ramp", "min_th": 2_000_000, "range": 1});
    assert_eq!(marked(ramp, &[2 * MS, 2 * MS + 1], 0), [false, true]);
}

/// Offers packets of L and of C at so many each ms to a link that sends one each ms.
fn load(q: &mut Queue, l_rate: f64, c_rate: f64, seconds: u64) -> Trace {
    let mut trace = Trace::default();
    let mut dropped = Dropped::new();
    let (mut l_sent, mut c_sent) = (0, 0);
    for now in (0..seconds * 1000 * MS).step_by(MS as usize / 4) {
        let ms = (now / (MS / 4)) as f64 / 4.0;
        while (l_sent as f64) < ms * l_rate {
            q.enqueue(now, l(l_sent), &mut dropped);
            l_sent += 1;
        }
        while (c_sent as f64) < ms * c_rate {
            q.enqueue(now, c(c_sent), &mut dropped);
            c_sent += 1;
        }
        if now.is_multiple_of(MS)
            && let Dequeued::Packet(packet) = q.dequeue(now, &mut dropped)
        {
            trace.delivered.push((now, packet));
        }
        trace.dropped.extend(dropped.drain(..).map(|(p, reason)| (now, p, reason)));
    }
    trace
}

/// Of the second half: mean delay of a flow in ms, packets delivered, packets dropped.
fn late(trace: &Trace, flow: u32, half: Nanos) -> (f64, usize, usize) {
    let delays: Vec<_> = trace
        .delivered
        .iter()
        .filter(|d| d.0 >= half && d.1.flow == flow)
        .map(|d| (d.0 - d.1.at) as f64 / MS as f64)
        .collect();
    let dropped = trace.dropped.iter().filter(|d| d.0 >= half && d.1.flow == flow).count();
    (delays.iter().sum::<f64>() / delays.len() as f64, delays.len(), dropped)
}

/// RFC 9332 section 4.2.3: under 150 % of unresponsive L traffic L's delay rises to the target and
/// drops take over; a third is dropped.
#[test]
fn overload_of_l_ends_in_drops_at_the_target() {
    let trace = load(&mut queue("dualpi2", json!({})), 1.5, 0.0, 40);
    let (delay, delivered, dropped) = late(&trace, L, 20_000 * MS);
    assert!((13.5..16.5).contains(&delay), "{delay}");
    assert!((9900..=10_100).contains(&dropped), "{dropped}");
    assert!(delivered >= 19_990, "{delivered}");
    assert!(trace.dropped.iter().all(|d| d.2 == DropReason::Aqm));
    let marks = |d: &&(Nanos, TestPacket)| d.0 >= 20_000 * MS && d.1.ecn == Ecn::Ce;
    assert!(trace.delivered.iter().filter(marks).count() as f64 > 0.99 * delivered as f64);
}

/// RFC 9332 section 4.2.2: C is not starved by that; it gets at least its share of the link, and the
/// longer of the two delays stays at the target.
#[test]
fn overload_of_l_does_not_starve_c() {
    for (params, share) in [(json!({}), 0.1), (json!({"c_protection": 0.0625}), 0.0625)] {
        let trace = load(&mut queue("dualpi2", params), 1.5, 0.3, 40);
        let (l_delay, _, l_dropped) = late(&trace, L, 20_000 * MS);
        let (c_delay, c_delivered, _) = late(&trace, C, 20_000 * MS);
        assert!(c_delivered as f64 >= 0.99 * share * 20_000.0, "{c_delivered}");
        assert!(l_dropped > 0);
        assert!(l_delay.max(c_delay) < 60.0, "{l_delay} {c_delay}");
    }
}

/// With `drop_overload` off the buffer overflows instead; L is marked, never dropped by the AQM.
#[test]
fn or_the_buffer_overflows() {
    let mut q = queue("dualpi2", json!({"drop_overload": false, "limit": 200}));
    let trace = load(&mut q, 1.5, 0.0, 20);
    assert!(!trace.dropped.is_empty());
    assert!(trace.dropped.iter().all(|d| d.2 == DropReason::Overflow));
}

/// Unresponsive classic traffic at twice the rate is held at the target of 15 ms too.
#[test]
fn overload_of_c_ends_at_the_target() {
    let trace = load(&mut queue("dualpi2", json!({})), 0.0, 2.0, 40);
    let (delay, delivered, dropped) = late(&trace, C, 20_000 * MS);
    assert!((13.5..16.5).contains(&delay), "{delay}");
    assert!((19_800..=20_200).contains(&dropped), "{dropped}");
    assert!(delivered >= 19_990, "{delivered}");
}

/// Four flows of each kind: near-equal rates (RFC 9332 section 2.1), C at the target, and L's median
/// delay below its threshold of 1 ms.
#[test]
fn classic_and_scalable_flows_coexist() {
    let mut controls = vec![Control::Reno(Ecn::NotEct); 4];
    controls.extend([Control::Scalable; 4]);
    let flows = run(&mut queue("dualpi2", json!({})), &controls, 120);
    let (classic, scalable) = flows.split_at(4);
    let mut delays: Vec<_> = scalable.iter().flat_map(|flow| flow.delays.clone()).collect();
    delays.sort_unstable();
    assert!(delays[delays.len() / 2] < MS, "{}", delays[delays.len() / 2]);
    for flow in classic {
        let mean = flow.mean_delay_ms();
        assert!((12.0..18.0).contains(&mean), "{mean}");
    }
    // Windows of 1.22/p' and 1/p', over round trips of 55 and 40 ms.
    let delivered = |flows: &[Flow]| flows.iter().map(|flow| flow.delivered).sum::<u64>() as f64;
    let ratio = delivered(scalable) / delivered(classic);
    assert!((0.6..1.6).contains(&(ratio / (55.0 / 40.0 / 1.22))), "{ratio}");
    assert!(utilisation(&flows, 120) > 0.98);
}

/// Four Reno flows alone: the C queue holds the target.
#[test]
fn classic_flows_alone_are_held_at_the_target() {
    let flows = run(&mut queue("dualpi2", json!({})), &[Control::Reno(Ecn::NotEct); 4], 60);
    for flow in &flows {
        let mean = flow.mean_delay_ms();
        assert!((12.0..18.0).contains(&mean), "{mean}");
    }
}

/// Every parameter changes what leaves when.
#[test]
fn every_parameter_counts() {
    let run = |params: Value| load(&mut queue("dualpi2", params), 0.7, 1.0, 10);
    let plain = run(json!({}));
    for other in [
        json!({"target": 5_000_000}),
        json!({"tupdate": 30_000_000}),
        json!({"alpha": 1.0}),
        json!({"beta": 5.0}),
        json!({"coupling_factor": 1.0}),
        json!({"l_aqm": "ramp"}),
        json!({"step_thresh": 0}),
        json!({"min_qlen_step": 3}),
        json!({"scheduler": "tsfifo"}),
        json!({"c_protection": 0.4}),
        json!({"limit": 10}),
        json!({"memory_limit": 15_000}),
    ] {
        assert_ne!(run(other.clone()), plain, "{other}");
    }
    let others = [
        (json!({"l_aqm": "ramp"}), json!({"l_aqm": "ramp", "min_th": 0})),
        (json!({"l_aqm": "ramp"}), json!({"l_aqm": "ramp", "range": 9_000_000})),
        (json!({"scheduler": "tsfifo"}), json!({"scheduler": "tsfifo", "tshift": 0})),
    ];
    for (one, other) in others {
        assert_ne!(run(one), run(other.clone()), "{other}");
    }
    let ect0 = TestPacket::new(C, 0, 1500).with_ecn(Ecn::Ect0);
    let run = |params| overload(&mut queue("dualpi2", params), ect0, 0, 5000 * MS);
    for other in [
        json!({"ecn_mask": "any_ect"}),
        json!({"classic_ecn": false}),
        json!({"drop_overload": false}),
    ] {
        assert_ne!(run(other.clone()), run(json!({})), "{other}");
    }
}
