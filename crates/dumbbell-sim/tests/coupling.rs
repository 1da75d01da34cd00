//! Coupled flows: what their exchange gives them, and which groups are found.

use std::collections::BTreeMap;

use crate::common::{SECOND, fifo, flow, path, simulate};
use dumbbell_sim::{Column, Output};
use serde_json::{Value, json};

const LINK: u64 = 10_000_000;

fn rap(config: &mut Value, link: u64, rtt_ms: u64, start_ms: u64) {
    flow(config, "reno", rtt_ms, start_ms);
    let rap = config["flows"].as_array_mut().unwrap().last_mut().unwrap();
    rap["route"] = json!([link]);
    rap["transport"] = json!({"kind": "other", "transport": "rap", "label": "rap"});
}

fn couple(config: &mut Value, algorithm: &str, priorities: &[f64]) {
    let members: Vec<Value> = priorities
        .iter()
        .enumerate()
        .map(|(flow, priority)| json!({"flow": flow, "priority": priority}))
        .collect();
    config["coupling"] = json!([{
        "id": "all",
        "kind": "fse",
        "options": {"algorithm": algorithm},
        "members": members,
    }]);
}

/// Recorded variables: by name, then time in ms, then flow.
type Variables = BTreeMap<String, BTreeMap<u64, BTreeMap<u32, f64>>>;

fn variables(output: &Output) -> Variables {
    let table = &output.tables.iter().find(|(name, _)| *name == "controller_series").unwrap().1;
    let column = |name: &str| &table.columns.iter().find(|(column, _)| column == name).unwrap().1;
    let (Column::F64(times), Column::F64(values)) = (column("t"), column("value")) else {
        panic!("times and values are numbers")
    };
    let (Column::Name { codes: flows, .. }, Column::Name { codes, names }) =
        (column("flow"), column("name"))
    else {
        panic!("flows and names are names")
    };
    let mut found = Variables::new();
    for row in 0..times.len() {
        let name = names[codes[row] as usize].clone();
        let time = (times[row] * 1e3).round() as u64;
        found.entry(name).or_default().entry(time).or_default().insert(flows[row], values[row]);
    }
    found
}

/// Conservation: what members are given is the sum of what their controls asked for, and no more, at
/// every instant recorded; and it is split by priority.
#[test]
fn rates_add_up_to_the_sum_by_priority() {
    for algorithm in ["active", "conservative"] {
        // The last sample is of the end, when the flows have stopped.
        let mut config = path(LINK, fifo(62), 60);
        let priorities = [1.0, 1.0, 2.0];
        for (flow, _) in priorities.iter().enumerate() {
            rap(&mut config, 0, 40 + 40 * flow as u64, 300 * flow as u64);
        }
        couple(&mut config, algorithm, &priorities);
        let found = variables(&simulate(&config));
        let mut seen = 0;
        for (time, rates) in found["fse_rate"].range(3_000..60_000) {
            let sum = found["fse_sum"][time][&0];
            assert!((rates.values().sum::<f64>() - sum).abs() < 1e-6 * sum, "{time} ms");
            for (flow, rate) in rates {
                let share = sum * priorities[*flow as usize] / 4.0;
                assert!((rate - share).abs() < 1e-6 * sum, "{time} ms: {rate} for {share}");
            }
            seen += 1;
        }
        assert!(seen > 500);
    }
}

/// Uncoupled, flows of 20 and 200 ms share unequally, as AIMD flows do (the one of the short round trip
/// has far more); coupled, equally.
#[test]
fn coupled_flows_share_equally_at_unequal_round_trips() {
    let shares = |algorithm: Option<&str>| {
        let mut config = path(LINK, fifo(62), 60);
        rap(&mut config, 0, 20, 0);
        rap(&mut config, 0, 200, 0);
        if let Some(algorithm) = algorithm {
            couple(&mut config, algorithm, &[1.0, 1.0]);
        }
        simulate(&config).summary.totals.jain
    };
    assert!(shares(None) < 0.8);
    assert!(shares(Some("conservative")) > 0.99);
}

/// A change of priority takes effect at the next update, and a flow that leaves goes on alone.
#[test]
fn changes_happen_when_they_should() {
    let mut config = path(LINK, fifo(62), 30);
    rap(&mut config, 0, 50, 0);
    rap(&mut config, 0, 50, 0);
    couple(&mut config, "conservative", &[1.0, 1.0]);
    config["coupling"][0]["changes"] = json!([
        {"at_ns": 10 * SECOND, "member": 0, "priority": 3.0},
        {"at_ns": 20 * SECOND, "member": 1, "coupled": false},
        {"at_ns": 25 * SECOND, "member": 1, "coupled": true},
    ]);
    let found = variables(&simulate(&config));
    let ratio = |time| found["fse_rate"][&time][&0] / found["fse_rate"][&time][&1];
    assert!((ratio(9_900) - 1.0).abs() < 1e-6);
    assert!((ratio(10_500) - 3.0).abs() < 1e-6);
    assert!(ratio(22_000).is_nan());
    let (rates, sums) = (&found["fse_rate"], &found["fse_sum"]);
    assert!((rates[&22_000][&0] - sums[&22_000][&0]).abs() < 1.0);
    assert!((ratio(26_000) - 3.0).abs() < 1e-6);
}

/// Two flows behind one queue, one behind another, and cross traffic in both: the two are one group.
#[test]
fn flows_are_grouped_by_their_bottleneck() {
    let mut config = path(LINK, fifo(100), 60);
    let mut second = config["links"][0].clone();
    second["id"] = json!("second");
    config["links"].as_array_mut().unwrap().push(second);
    for link in [0, 0, 1] {
        rap(&mut config, link, 40, 0);
    }
    for link in [0, 1] {
        rap(&mut config, link, 100, 0);
        let flows = config["flows"].as_array_mut().unwrap();
        flows.last_mut().unwrap()["transport"] = json!({"kind": "udp", "payload_bytes": 972});
        flows.last_mut().unwrap()["traffic"] = json!({"kind": "constant_rate", "bps": 7_000_000 - 1_500_000 * link, "chunk_bytes": 972});
    }
    couple(&mut config, "conservative", &[1.0, 1.0, 1.0]);
    config["coupling"][0]["detect"] = json!({});
    let found = variables(&simulate(&config));
    let groups = &found["sbd_group"];
    let late: Vec<_> = groups.iter().filter(|(time, _)| **time > 20_000).collect();
    let right = |groups: &BTreeMap<u32, f64>| groups[&0] == groups[&1] && groups[&0] != groups[&2];
    let hits = late.iter().filter(|(_, groups)| right(groups)).count();
    assert!(hits as f64 > 0.9 * late.len() as f64, "{hits} of {}", late.len());
    let skewness = &found["sbd_skewness"];
    assert!(skewness.values().flat_map(|flows| flows.values()).all(|s| (-1.0..=1.0).contains(s)));
}

fn complaint(change: impl Fn(&mut Value)) -> String {
    let mut config = path(LINK, fifo(62), 1);
    rap(&mut config, 0, 50, 0);
    couple(&mut config, "active", &[1.0]);
    change(&mut config);
    let config = serde_json::from_value(config).unwrap();
    let none = &dumbbell_sim::NoCustomControllers;
    let result = dumbbell_sim::run(&config, none, &mut |_| std::ops::ControlFlow::Continue(()));
    result.map(|_| ()).unwrap_err().to_string()
}

/// A flow that has stopped, wherever between two intervals its last packets were lost, is one of which
/// nothing is known: what it had lost is no loss of a later one.
#[test]
fn losses_end_with_their_session() {
    for stop in (10_000..11_000).step_by(50) {
        let mut config = path(1_000_000, fifo(5), 15);
        rap(&mut config, 0, 40, 0);
        config["flows"][0]["stop_ns"] = json!(stop * 1_000_000);
        couple(&mut config, "active", &[1.0]);
        config["coupling"][0]["detect"] = json!({});
        let found = variables(&simulate(&config));
        let lost: f64 = found["sbd_loss"].range(..10_000).map(|(_, flows)| flows[&0]).sum();
        assert!(lost > 0.0);
        for (time, flows) in found["sbd_loss"].range(stop + 100..) {
            assert_eq!(flows[&0], 0.0, "stopped at {stop} ms, {time} ms");
        }
    }
}

#[test]
fn what_cannot_be_coupled_is_refused() {
    let tcp = |config: &mut Value| {
        config["flows"][0]["transport"] = json!({"kind": "tcp", "cc": {"kind": "reno"}});
    };
    let expected = "flows.flow0: coupling of kind fse: expected a transport whose rate can be \
                    set: rap, tfrc or rtp (fse-window has tcp as well)";
    assert_eq!(complaint(tcp), expected);
    let window = |config: &mut Value| config["coupling"][0]["kind"] = json!("efcm");
    assert!(complaint(window).contains("algorithm"), "an option of another kind");
    let twice = |config: &mut Value| {
        let again = config["coupling"][0].clone();
        config["coupling"].as_array_mut().unwrap().push(again);
    };
    assert_eq!(complaint(twice), "flows.flow0: a flow can be in one coupling only");
    let zero = |config: &mut Value| config["coupling"][0]["members"][0]["priority"] = json!(0.0);
    assert_eq!(complaint(zero), "coupling.all: expected a priority above 0");
    let option = |config: &mut Value| config["coupling"][0]["options"]["algorithm"] = json!("x");
    assert!(complaint(option).starts_with("coupling.all.options: fse: algorithm = \"x\""));
}
