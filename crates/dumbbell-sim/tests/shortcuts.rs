//! The engine's shortcuts (computed departures, merged hops) change nothing: the hop-by-hop engine,
//! where every packet is stored and every hop is an event, is the oracle.

use crate::common::{fifo, flow, path, simulate};
use proptest::prelude::*;
use serde_json::{Value, json};

fn same(config: &Value) {
    let fast = simulate(config);
    let mut oracle = config.clone();
    oracle["hop_by_hop"] = json!(true);
    let oracle = simulate(&oracle);
    assert!(fast.summary.totals.events <= oracle.summary.totals.events);
    let mut left = serde_json::to_value(&fast.summary).unwrap();
    let mut right = serde_json::to_value(&oracle.summary).unwrap();
    for side in [&mut left, &mut right] {
        side["totals"]["events"] = Value::Null;
    }
    assert_eq!(left, right, "{config}");
    for ((name, left), (_, right)) in fast.tables.iter().zip(&oracle.tables) {
        // NaN marks absent values and is not equal to itself.
        assert_eq!(format!("{left:?}"), format!("{right:?}"), "table {name} of {config}");
    }
}

#[test]
fn every_controller_and_buffer() {
    for cc in ["reno", "cubic", "bbr", "fixed", "rate"] {
        for limit in [5, 40, 200] {
            let mut config = path(20_000_000, fifo(limit), 8);
            flow(&mut config, cc, 40, 0);
            flow(&mut config, cc, 60, 350);
            flow(&mut config, "cubic", 40, 700);
            same(&config);
        }
    }
}

#[test]
fn symmetric_flows_tie_at_the_same_instant() {
    let mut config = path(30_000_000, fifo(60), 6);
    for _ in 0..6 {
        flow(&mut config, "cubic", 30, 0);
    }
    same(&config);
}

#[test]
fn losses_shapers_and_byte_limits() {
    let mut config = path(20_000_000, json!({"kind": "fifo", "params": {"limit_bytes": 90000}}), 8);
    config["links"][0]["capacity"]["shaper_burst_bytes"] = json!(3000);
    config["links"][0]["impairments"] = json!({"loss": {"kind": "bernoulli", "p": 0.003}});
    config["links"][0]["delay_ns"] = json!(3_000_000);
    flow(&mut config, "cubic", 40, 0);
    flow(&mut config, "reno", 25, 100);
    same(&config);
}

/// Two bottlenecks in a row and a slow reverse path.
#[test]
fn several_links() {
    let mut config = path(20_000_000, fifo(50), 8);
    let link = config["links"][0].clone();
    for (id, bps) in [("second", 15_000_000), ("back", 800_000)] {
        let mut next = link.clone();
        next["id"] = json!(id);
        next["capacity"]["bps"] = json!(bps);
        next["delay_ns"] = json!(2_000_000);
        config["links"].as_array_mut().unwrap().push(next);
    }
    for start in [0, 300] {
        flow(&mut config, "cubic", 20, start);
    }
    for flow in config["flows"].as_array_mut().unwrap() {
        flow["route"] = json!([0, 1]);
        flow["reverse_route"] = json!([2]);
    }
    same(&config);
}

/// Faults of the ECN field, ACKs in batches and thinned ACKs, with a way back of one speed or none.
#[test]
fn ecn_faults_and_batches_of_acks() {
    let codel = json!({"kind": "codel", "params": {"ecn": true, "target": 1_000_000}});
    for (fault, aggregation, thinning, bps) in [
        (None, 0, 0, 400_000),
        (None, 10_000_000, 0, 400_000),
        (Some("bleach"), 4_000_000, 4, 1_000_000),
        (Some("ce"), 10_000_000, 100, 0),
    ] {
        let mut config = path(20_000_000, codel.clone(), 6);
        config["links"][0]["impairments"] = json!({"ecn": fault});
        let mut back = path(bps, fifo(50), 6)["links"][0].clone();
        back["id"] = json!("back");
        back["impairments"] = json!({"ack_aggregation_ns": aggregation, "ack_thinning": thinning});
        if bps == 0 {
            back["capacity"] = json!({"kind": "unlimited"});
        }
        config["links"].as_array_mut().unwrap().push(back);
        let flows = [("cubic", "classic"), ("dctcp", "ce_state"), ("prague", "l4s")];
        for (cc, ecn) in flows.into_iter().chain([("cubic", "accurate"), ("reno-sce", "sce")]) {
            flow(&mut config, cc, 30, 100);
            let flow = config["flows"].as_array_mut().unwrap().last_mut().unwrap();
            flow["reverse_route"] = json!([1]);
            flow["transport"]["ecn"] = json!(ecn);
        }
        same(&config);
        let links = simulate(&config).summary.links;
        assert_eq!(links[1].acks_thinned > 0, thinning > 1, "{thinning}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn random_paths(
        mbit in 2u64..60,
        limit in 2u64..300,
        flows in prop::collection::vec((0usize..3, 1u64..120, 0u64..2000), 1..5),
        loss in prop_oneof![Just(0.0), 0.0001..0.02],
        seed in 0u64..1000,
    ) {
        let mut config = path(mbit * 1_000_000, fifo(limit), 5);
        config["seed"] = json!(seed);
        for (cc, rtt, start) in flows {
            flow(&mut config, ["reno", "cubic", "bbr"][cc], rtt, start);
        }
        if loss > 0.0 {
            config["links"][0]["impairments"] =
                json!({"loss": {"kind": "bernoulli", "p": loss}});
        }
        same(&config);
    }
}
