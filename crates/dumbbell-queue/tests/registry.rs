//! Every queue of the registry: its messages, and laws that hold for all.

mod common;

use std::collections::BTreeMap;

use common::{TestPacket, object};
use dumbbell_queue::{Dequeued, Dropped, Ecn, Enqueued, build, list};
use proptest::prelude::*;
use serde_json::{Value, json};

fn message(kind: &str, params: Value) -> String {
    build::<TestPacket>(kind, &object(params), 1).err().unwrap().to_string()
}

#[test]
fn bad_input_gets_one_line_that_names_the_key() {
    assert_eq!(
        message("fqcodel", json!({})),
        "unknown queue \"fqcodel\": did you mean \"fq_codel\"?"
    );
    let names: Vec<_> = list().iter().map(|info| info.name).collect();
    assert_eq!(
        message("zzz", json!({})),
        format!("unknown queue \"zzz\": expected one of {}", names.join(", "))
    );
    assert_eq!(
        message("codel", json!({"taget": 1})),
        "queue codel: unknown parameter \"taget\": did you mean \"target\"?"
    );
    assert_eq!(
        message("fifo", json!({"limit": 0})),
        "queue fifo: limit = 0: expected a whole number of packets, at least 1"
    );
    assert_eq!(
        message("fq_codel", json!({"flows": 1e9})),
        "queue fq_codel: flows = 1000000000.0: expected a whole number from 1 to 1048576"
    );
    for (key, value) in [
        ("target", json!("5ms")),
        ("target", json!(-1)),
        ("target", json!(null)),
        ("ecn", json!(1)),
        ("limit", json!(2.5)),
    ] {
        let text = message("codel", json!({key: value}));
        assert!(text.starts_with(&format!("queue codel: {key} = ")), "{text}");
    }
}

#[test]
fn listed_defaults_are_accepted_and_units_serialise() {
    for info in list() {
        let defaults = info.params.iter().map(|p| (p.name.to_owned(), p.default.clone())).collect();
        assert!(build::<TestPacket>(info.name, &defaults, 1).is_ok(), "{}", info.name);
    }
    let json = serde_json::to_value(list()).unwrap();
    assert_eq!(json[1]["name"], "codel");
    assert_eq!(
        json[1]["params"][0],
        json!({"name": "target", "unit": "time", "default": 5_000_000,
            "doc": "Standing delay that is acceptable; at least the time of one packet on the link",
            "minimum": 1.0, "maximum": 3.6e12, "choices": []})
    );
}

/// One call: time to let pass, and a packet to offer or a dequeue.
#[derive(Clone, Debug)]
struct Step {
    wait: u64,
    offer: Option<(u32, u32, Ecn)>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let wait = prop_oneof![4 => 0..2_000_000_u64, 1 => 0..300_000_000_u64];
    let offer = prop::option::weighted(0.6, (0..6_u32, 40..1515_u32, ecn));
    let step = (wait, offer).prop_map(|(wait, offer)| Step { wait, offer });
    prop::collection::vec(step, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Offered = dequeued + dropped + backlog in packets and bytes at every step; packets of a flow
    /// leave in order; the limit holds; a refused packet is among the dropped.
    #[test]
    fn packets_are_conserved_and_flows_in_order(
        steps in steps(),
        limit in 1..40_u64,
        seed in any::<u64>(),
    ) {
        for info in list() {
            let limited = info.params.iter().any(|p| p.name == "limit");
            let params = if limited { object(json!({"limit": limit})) } else { Default::default() };
            let mut q = build::<TestPacket>(info.name, &params, seed).unwrap();
            let mut dropped = Dropped::new();
            let mut now = 0;
            let mut next_seq = BTreeMap::<u32, u64>::new();
            let mut last_out = BTreeMap::<(u32, Option<u8>), u64>::new();
            let (mut packets_in, mut packets_out) = (0_u64, 0_u64);
            let (mut bytes_in, mut bytes_out) = (0_u64, 0_u64);
            let (mut marks, mut sce_marks) = (0, 0);
            let mut ecn_in = BTreeMap::new();
            for step in &steps {
                now += step.wait;
                if let Some((flow, bytes, ecn)) = step.offer {
                    let seq = next_seq.entry(flow).or_insert(1);
                    let packet = TestPacket::new(flow, *seq, bytes).with_ecn(ecn);
                    ecn_in.insert((flow, *seq), ecn);
                    packets_in += 1;
                    bytes_in += u64::from(bytes);
                    let outcome = q.enqueue(now, packet, &mut dropped);
                    let lost = dropped.iter().any(|d| (d.0.flow, d.0.seq) == (flow, *seq));
                    prop_assert_eq!(lost, outcome == Enqueued::Dropped);
                    if outcome == Enqueued::Marked {
                        prop_assert!(matches!(ecn, Ecn::Ect0 | Ecn::Ect1));
                        ecn_in.insert((flow, *seq), Ecn::Ce);
                        marks += 1;
                    }
                    *seq += 1;
                } else {
                    let backlog = q.backlog_packets();
                    match q.dequeue(now, &mut dropped) {
                        Dequeued::Packet(p) => {
                            let came = ecn_in[&(p.flow, p.seq)];
                            // DualPI2 keeps order among packets of one codepoint.
                            let codepoint = (info.name == "dualpi2").then_some(came as u8);
                            let last = last_out.entry((p.flow, codepoint)).or_default();
                            prop_assert!(p.seq > *last, "{} out of order", info.name);
                            *last = p.seq;
                            packets_out += 1;
                            bytes_out += u64::from(p.bytes);
                            let came = ecn_in[&(p.flow, p.seq)];
                            if (came, p.ecn) == (Ecn::Ect0, Ecn::Ect1) {
                                sce_marks += 1;
                            } else if came != p.ecn {
                                prop_assert!(p.ecn == Ecn::Ce && came != Ecn::NotEct);
                                marks += 1;
                            }
                        }
                        // These queues are work-conserving.
                        Dequeued::Wait(_) => prop_assert!(false),
                        Dequeued::Empty => prop_assert_eq!(backlog, dropped.len() as u64),
                    }
                }
                packets_out += dropped.len() as u64;
                bytes_out += dropped.drain(..).map(|d| u64::from(d.0.bytes)).sum::<u64>();
                prop_assert_eq!(packets_in, packets_out + q.backlog_packets());
                prop_assert_eq!(bytes_in, bytes_out + q.backlog_bytes());
                prop_assert!(!limited || q.backlog_packets() <= limit);
                let c = q.counters();
                prop_assert_eq!(c.offered, packets_in);
                prop_assert_eq!(
                    c.offered,
                    c.dequeued + c.dropped_overflow + c.dropped_aqm + q.backlog_packets()
                );
                prop_assert_eq!(c.marked, marks);
                prop_assert_eq!(c.marked_sce, sce_marks);
            }
        }
    }
}
