//! Every queue of the registry: its messages, and laws that hold for all.

use crate::common::laws::Observed;
use crate::common::{TestPacket, object};
use dumbbell_queue::{Dequeued, Ecn, build, list};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Queues that hold packets back. All others give one whenever they have one.
const SHAPERS: [&str; 2] = ["tbf", "htb"];

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

    /// What holds for every queue holds for each with its defaults, under a load that fills it.
    #[test]
    fn packets_are_conserved_and_flows_in_order(
        steps in steps(),
        limit in 1..40_u64,
        seed in any::<u64>(),
    ) {
        for info in list() {
            let limited = info.params.iter().any(|p| p.name == "limit");
            let params = if limited { object(json!({"limit": limit})) } else { Default::default() };
            let queue = build::<TestPacket>(info.name, &params, seed).unwrap();
            let mut observed = Observed::new(info.name, queue, limited.then_some(limit));
            for step in &steps {
                observed.wait(step.wait);
                match step.offer {
                    Some((flow, bytes, ecn)) => {
                        observed.offer(TestPacket::new(flow, 0, bytes).with_ecn(ecn));
                    }
                    None => {
                        let waits = matches!(observed.take(), Dequeued::Wait(_));
                        prop_assert!(!waits || SHAPERS.contains(&info.name), "{} waits", info.name);
                    }
                }
            }
            observed.drain();
        }
    }
}
