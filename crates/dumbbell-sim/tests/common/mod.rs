//! Configurations for tests, as a user's short-form scenario would give them.
#![allow(dead_code)]

use std::ops::ControlFlow;

use dumbbell_sim::{Column, Config, NoCustomControllers, Output, run};
use serde_json::{Value, json};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// One bottleneck of `bps` with the given queue; flows are added by [`flow`].
pub fn path(bps: u64, queue: Value, seconds: u64) -> Value {
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

pub fn fifo(limit: u64) -> Value {
    json!({"kind": "fifo", "params": {"limit": limit}})
}

pub fn flow(config: &mut Value, cc: &str, rtt_ms: u64, start_ms: u64) {
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
pub fn simulate(config: &Value) -> Output {
    let config: Config = serde_json::from_value(config.clone()).unwrap();
    run(&config, &NoCustomControllers, &mut |_| ControlFlow::Continue(())).unwrap()
}

pub fn numbers(output: &Output, table: &str, column: &str) -> Vec<f64> {
    let (_, table) = output.tables.iter().find(|(name, _)| *name == table).unwrap();
    match &table.columns.iter().find(|(name, _)| name == column).unwrap().1 {
        Column::F64(values) => values.clone(),
        Column::U64(values) => values.iter().map(|&value| value as f64).collect(),
        Column::Name { .. } => panic!("{column} holds names"),
    }
}

pub fn names(output: &Output, table: &str, column: &str) -> Vec<String> {
    let (_, table) = output.tables.iter().find(|(name, _)| *name == table).unwrap();
    match &table.columns.iter().find(|(name, _)| name == column).unwrap().1 {
        Column::Name { codes, names } => {
            codes.iter().map(|&code| names[code as usize].clone()).collect()
        }
        _ => panic!("{column} holds numbers"),
    }
}
