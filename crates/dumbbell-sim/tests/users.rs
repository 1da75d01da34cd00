//! Users that think, connect, transfer and think again; routes whose hops add delay.

use crate::common::{MS, SECOND, fifo, flow, path, simulate};
use dumbbell_sim::{Column, Output};
use serde_json::{Value, json};

/// `count` users behind a router of 100 Mbit/s; their files cross 10 ms to one of two routers.
fn network(count: u32, seconds: u64) -> Value {
    let router = |id: &str| {
        json!({
            "id": id,
            "capacity": {"kind": "constant", "bps": 100_000_000},
            "queue": fifo(10_000),
            "framing": {"mpu": 1500},
        })
    };
    json!({
        "seed": 7,
        "duration_ns": seconds * SECOND,
        "links": [router("a"), router("b"), router("c")],
        "paths": [
            {"route": [[0, 10 * MS], 1], "reverse_route": [[1, 10 * MS], 0]},
            {"route": [[0, 10 * MS], 2], "reverse_route": [[2, 10 * MS], 0]},
        ],
        "users": {
            "groups": ["all"],
            "files": ["small", "large"],
            "classes": ["b", "c"],
            "periods": [{"name": "run", "from_ns": 0, "to_ns": seconds * SECOND}],
            "interval_ns": 100 * MS,
        },
        "flows": [{
            "id": "crowd",
            "route": [],
            "reverse_route": [],
            "start_ns": 0,
            "stop_ns": seconds * SECOND,
            "transport": {"kind": "tcp", "cc": {"kind": "reno"}, "ack_every": 1},
            "traffic": {
                "kind": "users",
                "count": count,
                "group": 0,
                "destinations": [
                    {"path": 0, "weight": 3.0, "class": 0},
                    {"path": 1, "weight": 1.0, "class": 1},
                ],
                "think": {"kind": "exponential", "mean": 2.0},
                "files": [
                    {"file": 0, "weight": 9.0, "size": {"kind": "constant", "value": 1448.0}},
                    {"file": 1, "weight": 1.0, "size": {"kind": "constant", "value": 28960.0}},
                ],
            },
        }],
    })
}

fn column<'a>(output: &'a Output, table: &str, name: &str) -> &'a Column {
    let (_, table) = output.tables.iter().find(|(known, _)| *known == table).unwrap();
    &table.columns.iter().find(|(known, _)| known == name).unwrap().1
}

fn reals(output: &Output, table: &str, name: &str) -> Vec<f64> {
    match column(output, table, name) {
        Column::F64(values) => values.clone(),
        Column::U64(values) => values.iter().map(|&value| value as f64).collect(),
        Column::Name { .. } => panic!("{name} has names"),
    }
}

fn names(output: &Output, table: &str, name: &str) -> Vec<String> {
    let Column::Name { codes, names } = column(output, table, name) else { panic!("{name}") };
    codes.iter().map(|&code| names[code as usize].clone()).collect()
}

fn run_mean(output: &Output, name: &str) -> f64 {
    reals(output, "user_periods", name)[0]
}

/// The interactive response-time law (Denning and Buzen 1978): users = rate x (think + response).
#[test]
fn users_obey_the_response_time_law() {
    let seconds = 400;
    let output = simulate(&network(200, seconds));
    let completed = run_mean(&output, "completed");
    // A response is the handshake and the transfer.
    let response =
        0.020 + reals(&output, "transfers", "duration_s").iter().sum::<f64>() / completed;
    let law = 200.0 * seconds as f64 / (2.0 + response);
    assert!((completed / law - 1.0).abs() < 0.01, "{completed} transfers, {law} by the law");
    // The same law for the states: mean number = rate x time in the state.
    let thinking = run_mean(&output, "thinking");
    assert!((thinking / (completed / seconds as f64 * 2.0) - 1.0).abs() < 0.01, "{thinking}");
    let connecting = run_mean(&output, "connecting");
    assert!((connecting / (completed / seconds as f64 * 0.020) - 1.0).abs() < 0.1, "{connecting}");
}

#[test]
fn files_and_destinations_are_drawn_by_weight() {
    let output = simulate(&network(200, 400));
    let counts = reals(&output, "transfers", "count");
    let files = names(&output, "transfers", "file");
    let classes = names(&output, "transfers", "class");
    let share = |wanted: &dyn Fn(usize) -> bool| {
        let some: f64 = (0..counts.len()).filter(|&row| wanted(row)).map(|row| counts[row]).sum();
        some / counts.iter().sum::<f64>()
    };
    assert!((share(&|row| files[row] == "large") - 0.1).abs() < 0.005);
    assert!((share(&|row| classes[row] == "b") - 0.75).abs() < 0.01);
    let bytes = reals(&output, "transfers", "bytes");
    for row in 0..counts.len() {
        let size = if files[row] == "large" { 28_960.0 } else { 1448.0 };
        assert_eq!(bytes[row], counts[row] * size);
    }
}

/// One segment over an idle path: sent at once, acknowledged after the two transmissions of the data
/// and two of the ACK, each 120 us for 1500 bytes, and 20 ms.
#[test]
fn hops_add_their_delay() {
    let output = simulate(&network(1, 100));
    let files = names(&output, "transfers", "file");
    let row = files.iter().position(|file| file == "small").unwrap();
    let mean =
        reals(&output, "transfers", "duration_s")[row] / reals(&output, "transfers", "count")[row];
    assert!((mean - (0.020 + 4.0 * 0.000_120)).abs() < 1e-9, "{mean}");
    assert!((run_mean(&output, "queueing_ms") - 0.48).abs() < 0.2);
}

/// Skipping events changes nothing.
#[test]
fn shortcuts_change_no_result() {
    let mut config = network(50, 60);
    config["flows"][0]["traffic"]["files"][1]["size"] =
        json!({"kind": "pareto", "mean": 500_000.0, "shape": 1.5});
    for link in 0..3 {
        config["links"][link]["queue"] = fifo(20);
    }
    let fast = simulate(&config);
    config["hop_by_hop"] = json!(true);
    let slow = simulate(&config);
    for table in ["user_periods", "transfers"] {
        let rows = |output: &Output| {
            let (_, table) = output.tables.iter().find(|(known, _)| *known == table).unwrap();
            format!("{table:?}")
        };
        assert_eq!(rows(&fast), rows(&slow), "{table}");
    }
    assert!(run_mean(&fast, "retransmits") > 100.0);
}

/// With one transfer each, what users ask for does not depend on the controller.
#[test]
fn controllers_meet_the_same_demand() {
    let asked = |cc: &str| {
        let mut config = network(300, 60);
        config["flows"][0]["transport"]["cc"]["kind"] = json!(cc);
        let traffic = &mut config["flows"][0]["traffic"];
        traffic["think"] = json!({"kind": "uniform", "low": 30.0, "high": 31.0});
        traffic["files"][1]["size"] = json!({"kind": "pareto", "mean": 100_000.0, "shape": 1.5});
        let output = simulate(&config);
        assert_eq!(run_mean(&output, "completed"), 300.0);
        (reals(&output, "transfers", "bytes"), reals(&output, "transfers", "duration_s"))
    };
    let (reno, scalable) = (asked("reno"), asked("scalable"));
    assert_eq!(reno.0, scalable.0);
}

/// A path that loses everything: each attempt is given up after its SYNs, at 3, 9 and 21 s.
#[test]
fn users_give_up_connecting() {
    let mut config = network(20, 21);
    config["links"][0]["impairments"] = json!({"loss": {"kind": "bernoulli", "p": 1.0}});
    config["flows"][0]["transport"]["syn_timeout_ns"] = json!(3 * SECOND);
    config["flows"][0]["transport"]["syn_tries"] = json!(3);
    config["flows"][0]["traffic"]["starts"] = json!([{"share": 1.0, "at_ns": 0}]);
    config["duration_ns"] = json!(22 * SECOND);
    config["users"]["periods"][0]["to_ns"] = json!(22 * SECOND);
    config["flows"][0]["stop_ns"] = json!(22 * SECOND);
    let output = simulate(&config);
    assert_eq!(run_mean(&output, "failed"), 20.0);
    assert_eq!(run_mean(&output, "connected"), 0.0);
    let syns = run_mean(&output, "syns");
    let again = run_mean(&output, "started") - 20.0;
    assert_eq!(syns, 60.0 + again);
}

/// 28,960 bytes at 96 kbit/s take more than two seconds; 1448 take a fraction of one.
#[test]
fn patience_ends_a_slow_transfer() {
    let mut config = network(20, 300);
    config["flows"][0]["transport"]["max_rate_bps"] = json!(96_000);
    config["flows"][0]["traffic"]["patience"] = json!({"kind": "constant", "value": 1.0});
    let output = simulate(&config);
    let files = names(&output, "transfers", "file");
    assert!(files.iter().all(|file| file == "small"), "{files:?}");
    let gave_up = run_mean(&output, "gave_up");
    assert!((gave_up / run_mean(&output, "started") - 0.1).abs() < 0.02, "{gave_up}");
}

/// What begins at once, what at a set time, and what begins by thinking.
#[test]
fn users_start_in_groups() {
    let mut config = network(1000, 10);
    let traffic = &mut config["flows"][0]["traffic"];
    traffic["starts"] = json!([{"share": 0.25, "at_ns": 0}, {"share": 0.10, "at_ns": 5 * SECOND}]);
    traffic["think"] = json!({"kind": "constant", "value": 100.0});
    config["users"]["series"] = json!(true);
    let output = simulate(&config);
    let t = reals(&output, "user_series", "t");
    let started = reals(&output, "user_series", "started");
    let between = |from: f64, to: f64| -> f64 {
        (0..t.len()).filter(|&row| from < t[row] && t[row] <= to).map(|row| started[row]).sum()
    };
    // Binomial: standard deviations 13.7 and 9.5 of a thousand.
    assert!((between(0.0, 1.0) - 250.0).abs() < 45.0, "{}", between(0.0, 1.0));
    assert!((between(4.9, 5.2) - 100.0).abs() < 35.0, "{}", between(4.9, 5.2));
    assert_eq!(between(0.0, 10.0), between(0.0, 1.0) + between(4.9, 5.2));
}

/// While a surge lasts, files on its class of paths are larger.
#[test]
fn surges_enlarge_files() {
    let mut config = network(100, 100);
    config["flows"][0]["traffic"]["surges"] =
        json!([{"from_ns": 0, "to_ns": 100 * SECOND, "class": 1, "factor": 10.0}]);
    let output = simulate(&config);
    let (files, classes) =
        (names(&output, "transfers", "file"), names(&output, "transfers", "class"));
    let (bytes, counts) =
        (reals(&output, "transfers", "bytes"), reals(&output, "transfers", "count"));
    for row in (0..files.len()).filter(|&row| files[row] == "small") {
        let factor = if classes[row] == "c" { 10.0 } else { 1.0 };
        assert_eq!(bytes[row] / counts[row], 1448.0 * factor);
    }
}

/// The host's interface: 8 Mbit/s of 1500-byte packets carry 8 x 1448/1500 Mbit/s of payload.
#[test]
fn a_flow_keeps_to_its_greatest_rate() {
    let mut config = path(100_000_000, fifo(1000), 20);
    flow(&mut config, "reno", 20, 0);
    config["warmup_ns"] = json!(2 * SECOND);
    config["flows"][0]["transport"]["max_rate_bps"] = json!(8_000_000);
    let output = simulate(&config);
    let goodput = output.summary.flows[0].goodput_bps;
    assert!((goodput / (8e6 * 1448.0 / 1500.0) - 1.0).abs() < 0.001, "{goodput}");
}
