//! PI2 against De Schepper et al., CoNEXT 2016, and RFC 9332 appendix A.

use crate::closed_loop::{Control, run, utilisation};
use crate::common::{MS, TestPacket, Trace, overload, queue};
use dumbbell_queue::{DropReason, Ecn};
use serde_json::{Value, json};

fn trace(params: Value, packet: TestPacket) -> Trace {
    overload(&mut queue("pi2", params), packet, 0, 20_000 * MS)
}

fn late_mean_delay_ms(trace: &Trace) -> f64 {
    let late: Vec<_> = trace.delivered.iter().filter(|d| d.0 >= 10_000 * MS).collect();
    late.iter().map(|(at, p)| at - p.at).sum::<u64>() as f64 / late.len() as f64 / MS as f64
}

/// The integral term leaves no standing error (RFC 9332 appendix A.1): with twice the capacity
/// arriving, half is dropped and the delay is at the target.
#[test]
fn an_overload_ends_at_the_target() {
    for (params, target) in [(json!({}), 15.0), (json!({"target": 30_000_000}), 30.0)] {
        let trace = trace(params, TestPacket::new(1, 0, 1500));
        let mean = late_mean_delay_ms(&trace);
        assert!((mean / target - 1.0).abs() < 0.1, "{mean} for {target}");
        let dropped = trace.dropped.iter().filter(|d| d.0 >= 10_000 * MS).count();
        assert!((9800..=10_200).contains(&dropped), "{dropped}");
        assert!(trace.dropped.iter().all(|d| d.2 == DropReason::Aqm));
    }
}

/// Four Reno flows: the target is held within 20 % and the link is busy.
#[test]
fn responsive_flows_are_held_at_the_target() {
    let flows = run(&mut queue("pi2", json!({})), &[Control::Reno(Ecn::NotEct); 4], 60);
    for flow in &flows {
        let mean = flow.mean_delay_ms();
        assert!((12.0..18.0).contains(&mean), "{mean}");
    }
    assert!(utilisation(&flows, 60) > 0.98);
}

/// RFC 9332 section 2.1: the square makes a classic window (1.22/p') and a scalable one (2/(2 p'))
/// nearly the same; the paper's gate for their ratio is 0.5 to 2.
#[test]
fn classic_and_scalable_flows_share_the_link() {
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let controls = [Control::Reno(ecn), Control::Scalable];
        let flows = run(&mut queue("pi2", json!({})), &controls, 120);
        let ratio = flows[1].delivered as f64 / flows[0].delivered as f64;
        assert!((0.5..2.0).contains(&ratio), "{ratio}");
    }
}

/// RFC 9332 section 4.2.3: from 2 p' = 1 on ECN-capable packets are dropped too; below they are not.
/// One and a third times the capacity needs p' = 0.5.
#[test]
fn marks_give_way_to_drops_in_overload_only() {
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        let trace = trace(json!({}), TestPacket::new(1, 0, 1500).with_ecn(ecn));
        let first = trace.dropped.first().map(|d| d.0).unwrap();
        let marked_before = trace.delivered.iter().filter(|d| d.1.at < first);
        assert!(marked_before.filter(|d| d.1.ecn == Ecn::Ce).count() > 10);
        // No drop below p' = 0.5: alpha and beta allow at most 0.16 * delay + 3.2 * delay of it.
        assert!(first >= 150 * MS, "{first}");
        assert!((late_mean_delay_ms(&trace) - 15.0).abs() < 1.5);
    }
    let overflow = trace(
        json!({"drop_overload": false, "limit": 100}),
        TestPacket::new(1, 0, 1500).with_ecn(Ecn::Ect1),
    );
    assert!(overflow.dropped.iter().all(|d| d.2 == DropReason::Overflow));
    assert!(overflow.delivered.iter().rev().take(1000).all(|d| d.1.ecn == Ecn::Ce));
}

/// Every parameter changes what is dropped or marked.
#[test]
fn every_parameter_counts() {
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        let packet = TestPacket::new(1, 0, 1500).with_ecn(ecn);
        let plain = trace(json!({}), packet);
        for other in [
            json!({"target": 5_000_000}),
            json!({"tupdate": 30_000_000}),
            json!({"alpha": 1.0}),
            json!({"beta": 5.0}),
            json!({"coupling_factor": 1.0}),
            json!({"drop_overload": false}),
            json!({"limit": 20}),
        ] {
            assert_ne!(trace(other.clone(), packet), plain, "{other}");
        }
    }
    let classic = TestPacket::new(1, 0, 1500).with_ecn(Ecn::Ect0);
    assert_ne!(trace(json!({"ecn": false}), classic), trace(json!({}), classic));
}
