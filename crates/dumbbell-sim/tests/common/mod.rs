//! Configurations for tests, as a user's short-form scenario would give them.

use std::ops::ControlFlow;

use dumbbell_sim::{Config, NoCustomControllers, Output, run};
use serde_json::{Value, json};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// One bottleneck of `bps` with the given queue; flows are added by [`flow`].
pub(crate) fn path(bps: u64, queue: Value, seconds: u64) -> Value {
    json!({
        "seed": 1,
        "duration_ns": seconds * SECOND,
        "links": [{
            "id": "bottleneck",
            "capacity": {"kind": "constant", "bps": bps},
            "queue": queue,
            "framing": {"overhead": 14},
        }],
        "flows": [],
    })
}

pub(crate) fn fifo(limit: u64) -> Value {
    json!({"kind": "fifo", "params": {"limit": limit}})
}

pub(crate) fn flow(config: &mut Value, cc: &str, rtt_ms: u64, start_ms: u64) {
    let flows = config["flows"].as_array().unwrap().len();
    let stop = config["duration_ns"].clone();
    let flow = json!({
        "id": format!("flow{flows}"),
        "route": [0],
        "reverse_route": [],
        "delay_ns": rtt_ms * MS / 2,
        "reverse_delay_ns": rtt_ms * MS / 2,
        "start_ns": start_ms * MS,
        "stop_ns": stop,
        "transport": {"kind": "tcp", "cc": {"kind": cc}},
    });
    config["flows"].as_array_mut().unwrap().push(flow);
}

/// Run; invariants are checked by the engine itself.
pub(crate) fn simulate(config: &Value) -> Output {
    let config: Config = serde_json::from_value(config.clone()).unwrap();
    run(&config, &NoCustomControllers, &mut |_| ControlFlow::Continue(())).unwrap()
}
