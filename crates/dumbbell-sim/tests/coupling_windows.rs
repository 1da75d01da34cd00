//! Connections that share windows, in the engine: who takes part, from when until when.

use std::ops::ControlFlow;

use crate::common::{SECOND, fifo, flow, path, simulate};
use dumbbell_sim::{Column, Config, NoCustomControllers, Output, run};
use serde_json::{Value, json};

const LINK: u64 = 10_000_000;

fn couple(config: &mut Value, kind: &str) {
    let flows = config["flows"].as_array().unwrap().len();
    let members: Vec<_> = (0..flows).map(|flow| json!({"flow": flow})).collect();
    config["coupling"] = json!([{"id": "host", "kind": kind, "members": members}]);
}

fn column<'a>(output: &'a Output, table: &str, name: &str) -> &'a Column {
    let table = &output.tables.iter().find(|(found, _)| *found == table).unwrap().1;
    &table.columns.iter().find(|(found, _)| found == name).unwrap().1
}

fn numbers<'a>(output: &'a Output, table: &str, name: &str) -> &'a [f64] {
    let Column::F64(values) = column(output, table, name) else { panic!("{name}: numbers") };
    values
}

fn is(output: &Output, table: &str, name: &str, wanted: &str) -> Vec<bool> {
    let Column::Name { codes, names } = column(output, table, name) else {
        panic!("{name}: names")
    };
    codes.iter().map(|&code| names[code as usize] == wanted).collect()
}

/// The first flow's part of the window of its group in the second before `until`, mean.
fn part_of_first(output: &Output, until: f64) -> f64 {
    let mean = |table: &str, value: &str, chosen: Vec<bool>| {
        let (t, values) = (numbers(output, table, "t"), numbers(output, table, value));
        let late: Vec<_> = (0..t.len())
            .filter(|&row| chosen[row] && t[row] > until - 1.0 && t[row] <= until)
            .map(|row| values[row])
            .collect();
        assert!(!late.is_empty());
        late.iter().sum::<f64>() / late.len() as f64
    };
    let ours = is(output, "controller_series", "flow", "flow0");
    let window = is(output, "controller_series", "name", "group_window_bytes");
    let both = ours.iter().zip(window).map(|(&a, b)| a && b).collect();
    let group = mean("controller_series", "value", both);
    let own = mean("flow_series", "cwnd", is(output, "flow_series", "flow", "flow0"));
    own * 1448.0 / group
}

/// A connection has a part of the window while it is open; what others leave behind is the last one's,
/// up to the rounding of its window to segments.
#[test]
fn members_take_part_while_they_are_open() {
    for kind in ["cm", "e-tcp", "efcm", "ctrltcp"] {
        let mut config = path(LINK, fifo(83), 40);
        (0..3).for_each(|_| flow(&mut config, "reno", 100, 0));
        // About six and twelve seconds at a third of the link each.
        for (flow, bytes) in [(1, 2_500_000), (2, 2_500_000)] {
            config["flows"][flow]["traffic"] = json!({"kind": "size", "bytes": bytes});
        }
        couple(&mut config, kind);
        let output = simulate(&config);
        let flows = &output.summary.flows;
        assert!(flows[1].completion_s.is_some() && flows[2].completion_s.is_some(), "{kind}");
        let (early, late) = (part_of_first(&output, 4.0), part_of_first(&output, 39.0));
        assert!((early - 1.0 / 3.0).abs() < 0.03, "{kind}: {early}");
        assert!((late - 1.0).abs() < 0.02, "{kind}: {late}");
    }
}

/// Hundreds of connections that come and go: the engine's invariants hold, and none is left waiting.
#[test]
fn connections_come_and_go() {
    for kind in ["cm", "e-tcp", "efcm", "ctrltcp", "fse-window", "tcb"] {
        let mut config = path(LINK, fifo(83), 30);
        flow(&mut config, "cubic", 40, 0);
        flow(&mut config, "reno", 40, 0);
        config["flows"][0]["traffic"] = json!({
            "kind": "poisson",
            "rate_hz": 15.0,
            "size": {"kind": "constant", "value": 30_000.0},
        });
        couple(&mut config, kind);
        let summary = simulate(&config).summary;
        let churn = &summary.flows[0];
        assert!(churn.connections > 350, "{kind}: {}", churn.connections);
        assert!(churn.completed + 30 > churn.connections, "{kind}: {}", churn.completed);
        assert!(summary.links[0].utilisation > 0.8, "{kind}");
    }
}

#[test]
fn what_cannot_share_its_window_is_refused() {
    let complaint = |change: fn(&mut Value)| {
        let mut config = path(LINK, fifo(83), 1);
        flow(&mut config, "bbr", 100, 0);
        couple(&mut config, "e-tcp");
        change(&mut config);
        let config: Config = serde_json::from_value(config).unwrap();
        let result = run(&config, &NoCustomControllers, &mut |_| ControlFlow::Continue(()));
        result.map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(
        complaint(|_| ()),
        "flows.flow0: bbr: its window cannot be set, so it cannot be shared by coupling \"e-tcp\""
    );
    let change = |config: &mut Value| {
        config["coupling"][0]["changes"] = json!([{"at_ns": SECOND, "member": 0, "priority": 2.0}]);
    };
    assert!(complaint(change).contains("windows are shared by fixed groups"));
}
