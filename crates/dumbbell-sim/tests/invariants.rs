//! Random scenarios over all parts: the engine's own invariants (conservation, capacity, order,
//! stalls) hold, the same seed gives the same result, and windows stay within what was sent.

use crate::common::{SECOND, flow, path, simulate};
use proptest::prelude::*;
use serde_json::{Value, json};

fn queue() -> impl Strategy<Value = Value> {
    prop_oneof![
        (1u64..200).prop_map(|limit| json!({"kind": "fifo", "params": {"limit": limit}})),
        (3000u64..300_000)
            .prop_map(|limit| json!({"kind": "fifo", "params": {"limit_bytes": limit}})),
        any::<bool>().prop_map(|ecn| json!({"kind": "codel", "params": {"ecn": ecn}})),
        any::<bool>().prop_map(|ecn| json!({"kind": "fq_codel", "params": {"ecn": ecn}})),
    ]
}

fn capacity() -> impl Strategy<Value = Value> {
    prop_oneof![
        (100_000u64..100_000_000).prop_map(|bps| json!({"kind": "constant", "bps": bps})),
        (1_000_000u64..50_000_000, 1500u64..10_000).prop_map(
            |(bps, burst)| json!({"kind": "constant", "bps": bps, "shaper_burst_bytes": burst})
        ),
        prop::collection::vec(0u64..500, 1..80).prop_map(|mut ms| {
            ms.sort_unstable();
            let last = ms.len() - 1;
            ms[last] += 1;
            json!({"kind": "trace", "ms": ms, "mtu": 1504})
        }),
    ]
}

fn impairments() -> impl Strategy<Value = Value> {
    let loss = prop_oneof![
        Just(json!({"kind": "none"})),
        (0.0..0.3).prop_map(|p| json!({"kind": "bernoulli", "p": p})),
        (0.0..0.1, 0.05..1.0).prop_map(|(p, r)| json!({
            "kind": "gilbert_elliott", "p": p, "r": r, "loss_bad": 0.8, "loss_good": 0.0
        })),
    ];
    let jitter = prop_oneof![
        Just(Value::Null),
        (0u64..20_000_000, any::<bool>()).prop_map(|(amount, reorder)| json!({
            "distribution": "normal", "amount_ns": amount, "reorder": reorder
        })),
    ];
    let reorder = prop_oneof![
        Just(Value::Null),
        (0.0..0.1).prop_map(|p| json!({"probability": p, "delay_ns": 15_000_000})),
    ];
    let ecn = prop_oneof![
        4 => Just(Value::Null),
        1 => prop::sample::select(vec!["bleach", "ect0_to_ect1", "ect1_to_ect0", "ce"])
            .prop_map(|fault| json!(fault)),
    ];
    let acks = prop_oneof![Just((0, 0)), (1u64..30_000_000, 0u32..10)];
    (loss, jitter, reorder, prop_oneof![Just(0.0), 0.0..0.05], ecn, acks).prop_map(
        |(loss, jitter, reorder, duplicate, ecn, (aggregation, thinning))| {
            let reorders = !reorder.is_null() || jitter["reorder"] == json!(true);
            json!({
                "loss": loss, "jitter": jitter, "reorder": reorder, "duplicate": duplicate,
                "ecn": ecn, "ack_aggregation_ns": aggregation,
                "ack_thinning": if reorders { 0 } else { thinning },
            })
        },
    )
}

fn ecn() -> impl Strategy<Value = Value> {
    let modes = ["off", "auto", "classic", "ce_state", "accurate", "l4s", "sce"];
    prop_oneof![
        Just(Value::Null),
        prop::sample::select(modes.to_vec()).prop_map(|mode| json!(mode))
    ]
}

fn traffic() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"kind": "bulk"})),
        (1u64..3_000_000).prop_map(|bytes| json!({"kind": "size", "bytes": bytes})),
        (10_000u64..20_000_000)
            .prop_map(|bps| json!({"kind": "constant_rate", "bps": bps, "chunk_bytes": 1000})),
        Just(json!({
            "kind": "poisson", "rate_hz": 15.0,
            "size": {"kind": "pareto", "mean": 20000.0, "shape": 1.3},
        })),
        prop_oneof![Just(0u64), Just(3_000_000)].prop_map(|bps| json!({
            "kind": "on_off", "bps": bps,
            "on": {"kind": "exponential", "mean": 0.4},
            "off": {"kind": "exponential", "mean": 0.6},
        })),
        Just(json!({
            "kind": "request_response",
            "request": {"kind": "constant", "value": 300.0},
            "response": {"kind": "uniform", "low": 1.0, "high": 60000.0},
            "think": {"kind": "exponential", "mean": 0.1},
        })),
    ]
}

prop_compose! {
    fn scenario()(
        capacity in capacity(),
        queue in queue(),
        impairments in impairments(),
        reverse in prop_oneof![Just(None), (50_000u64..5_000_000).prop_map(Some)],
        flows in prop::collection::vec(
            (prop_oneof![Just("reno"), Just("cubic"), Just("bbr"), Just("fixed"), Just("dctcp"),
                         Just("prague"), Just("reno-sce")],
             0u64..150, 0u64..3000, traffic(), ecn(), 1u32..4,
             prop_oneof![
                 Just(json!({"kind": "unlimited"})),
                 (3000u64..2_000_000).prop_map(|bytes| json!({"kind": "fixed", "bytes": bytes})),
                 Just(json!({"kind": "auto", "initial_bytes": 65536, "max_bytes": 3_000_000})),
             ]),
            1..5),
        seed in any::<u64>(),
    ) -> Value {
        let mut config = path(1_000_000, queue, 6);
        config["seed"] = json!(seed);
        config["warmup_ns"] = json!(SECOND);
        config["links"][0]["capacity"] = capacity;
        config["links"][0]["impairments"] = impairments;
        if let Some(bps) = reverse {
            let mut link = config["links"][0].clone();
            link["id"] = json!("reverse");
            link["capacity"] = json!({"kind": "constant", "bps": bps});
            link["queue"] = crate::common::fifo(30);
            config["links"].as_array_mut().unwrap().push(link);
        }
        for (index, (cc, rtt, start, traffic, ecn, ack_every, rwnd)) in flows.into_iter().enumerate() {
            flow(&mut config, cc, rtt, start);
            let flow = &mut config["flows"][index];
            flow["traffic"] = traffic;
            flow["transport"]["ecn"] = json!(ecn);
            flow["transport"]["ack_every"] = json!(ack_every);
            flow["transport"]["rwnd"] = rwnd;
            if reverse.is_some() {
                flow["reverse_route"] = json!([1]);
            }
        }
        config["probes"] = json!([{
            "id": "ping", "kind": "ping", "route": [0],
            "reverse_route": if reverse.is_some() { json!([1]) } else { json!([]) },
            "interval_ns": 20_000_000, "size_bytes": 84, "start_ns": 0, "stop_ns": 6 * SECOND,
        }]);
        config
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn hold_in_random_scenarios(config in scenario()) {
        let output = simulate(&config);
        for flow in &output.summary.flows {
            prop_assert!(flow.goodput_bps >= 0.0 && flow.goodput_bps.is_finite());
            prop_assert!((0.0..=1.0).contains(&flow.loss_ratio));
            prop_assert!(flow.cwnd_max.is_finite());
            prop_assert!(flow.delivered_bytes <= flow.delivered_packets * 1448);
        }
        for (link, given) in output.summary.links.iter().zip(config["links"].as_array().unwrap()) {
            // A shaper may spend in the window what it saved before, and pass one packet on credit.
            let burst = given["capacity"]["shaper_burst_bytes"].as_f64().unwrap_or(0.0);
            let extra = 8.0 * (burst + 1514.0) / (5.0 * link.capacity_bps.unwrap_or(f64::INFINITY));
            prop_assert!((0.0..=1.0 + extra).contains(&link.utilisation), "{}", link.utilisation);
        }
        let again = simulate(&config);
        prop_assert_eq!(
            serde_json::to_string(&output.summary).unwrap(),
            serde_json::to_string(&again.summary).unwrap()
        );
    }
}
