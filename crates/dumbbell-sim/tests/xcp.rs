//! XCP's router and senders together keep the promises of Katabi, Handley and Rohrs (SIGCOMM 2002).
//! As there, packets have 1000 bytes and the buffer holds one bandwidth-delay product.

use std::ops::ControlFlow;

use crate::common::{SECOND, fifo, flow, path, simulate};
use dumbbell_sim::{Column, Config, LinkSummary, NoCustomControllers, Output, run};
use serde_json::{Value, json};

/// Payload that makes a packet of 1000 bytes with headers of IP, TCP, timestamps and XCP.
const MSS: u64 = 928;

fn router(bps: u64, rtt_ms: u64) -> Value {
    let limit = bps / 8 * rtt_ms / 1000 / 1000;
    json!({"kind": "xcp", "params": {"rate": bps, "limit": limit}})
}

fn add(config: &mut Value, rtt_ms: u64, start_ms: u64) -> &mut Value {
    flow(config, "xcp", rtt_ms, start_ms);
    let flow = config["flows"].as_array_mut().unwrap().last_mut().unwrap();
    flow["transport"]["mss"] = json!(MSS);
    flow["transport"]["initial_window"] = json!(2);
    flow
}

/// Flows with these round-trip times on one link, started within a second; the first five seconds do not
/// count.
fn share(bps: u64, rtts: impl IntoIterator<Item = u64>) -> Output {
    let rtts: Vec<u64> = rtts.into_iter().collect();
    let mean = rtts.iter().sum::<u64>() / rtts.len() as u64;
    let mut config = path(bps, router(bps, mean), 30);
    config["warmup_ns"] = json!(5 * SECOND);
    for (n, rtt) in rtts.into_iter().enumerate() {
        add(&mut config, rtt, 7 * n as u64 % 1000);
    }
    simulate(&config)
}

#[track_caller]
fn assert_full_without_drops(link: &LinkSummary) {
    assert!(link.utilisation > 0.95, "{}", link.utilisation);
    assert_eq!(link.drops, 0);
}

/// Goodput of a flow from one second to another.
fn goodput(output: &Output, flow: u32, from: f64, to: f64) -> f64 {
    let (_, table) = output.tables.iter().find(|(name, _)| *name == "flow_series").unwrap();
    let column = |name| &table.columns.iter().find(|(known, _)| known == name).unwrap().1;
    let (Column::F64(t), Column::Name { codes, .. }, Column::F64(bps)) =
        (column("t"), column("flow"), column("goodput_bps"))
    else {
        panic!("other columns")
    };
    let rows = (0..t.len()).filter(|&row| codes[row] == flow && t[row] > from && t[row] <= to);
    let values: Vec<f64> = rows.map(|row| bps[row]).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Section 5.2: full use, fair shares, almost no queue and no drops, whatever the capacity, the delay and
/// the number of flows. Every second packet is acknowledged.
#[test]
fn flows_share_a_full_link_with_almost_no_queue() {
    for (flows, bps, rtt_ms) in
        [(5, 45_000_000, 40), (10, 100_000_000, 40), (50, 150_000_000, 80), (2, 1_000_000_000, 80)]
    {
        let summary = share(bps, vec![rtt_ms; flows]).summary;
        let link = &summary.links[0];
        assert_full_without_drops(link);
        assert!(link.queue_delay_ms.mean.unwrap() < rtt_ms as f64 / 50.0, "{flows} flows");
        let goodput = || summary.flows.iter().map(|flow| flow.goodput_bps);
        let mean = goodput().sum::<f64>() / flows as f64;
        for rate in goodput() {
            assert!((rate / mean - 1.0).abs() < 0.02, "{rate} of {mean}, {flows} flows");
        }
    }
}

/// Figure 8-b: 30 flows on 30 Mbit/s with round-trip times from 40 to 330 ms get about the same.
#[test]
fn round_trip_times_make_no_difference() {
    let summary = share(30_000_000, (0..30).map(|n| 40 + 10 * n)).summary;
    assert_full_without_drops(&summary.links[0]);
    assert!(summary.totals.jain > 0.99, "{}", summary.totals.jain);
}

/// Figure 10: five flows on 45 Mbit/s and 40 ms, two seconds apart. A second (25 round-trip times) after
/// each has joined, all have the same share of a full link.
#[test]
fn a_flow_that_joins_gets_its_share() {
    let mut config = path(45_000_000, router(45_000_000, 40), 10);
    config["warmup_ns"] = json!(SECOND);
    for n in 0..5 {
        add(&mut config, 40, 2000 * n);
    }
    let output = simulate(&config);
    assert_full_without_drops(&output.summary.links[0]);
    for flows in 1..=5 {
        let start = f64::from(2 * (flows - 1));
        let fair = 45e6 / f64::from(flows) * MSS as f64 / 1014.0;
        for flow in 0..flows {
            let rate = goodput(&output, flow, start + 1.0, start + 2.0);
            assert!((rate / fair - 1.0).abs() < 0.05, "{rate} of {fair}, {flows} flows");
        }
    }
}

/// Figure 11: 100 flows join 10 on 100 Mbit/s and 40 ms at 4 s and leave at 8 s. Nothing is dropped, and
/// those that stay have the link again within a second.
#[test]
fn a_crowd_comes_and_goes_without_a_drop() {
    let mut config = path(100_000_000, router(100_000_000, 40), 12);
    config["warmup_ns"] = json!(SECOND);
    for n in 0..110 {
        let start = if n < 10 { n } else { 4000 };
        let flow = add(&mut config, 40, start);
        if n >= 10 {
            flow["stop_ns"] = json!(8 * SECOND);
        }
    }
    let output = simulate(&config);
    assert_full_without_drops(&output.summary.links[0]);
    let sum = |flows: std::ops::Range<u32>, from, to| -> f64 {
        flows.map(|flow| goodput(&output, flow, from, to)).sum()
    };
    let all = 100e6 * MSS as f64 / 1014.0;
    let crowd = sum(10..110, 6.0, 8.0) / all;
    assert!((crowd - 10.0 / 11.0).abs() < 0.02, "{crowd}");
    let after = sum(0..10, 9.0, 10.0) / all;
    assert!(after > 0.95, "{after}");
}

/// The least of all routers' feedback counts, and what one flow leaves goes to the other (section 5.2
/// grants routers before the narrowest link the loss of a few percent to shuffling).
#[test]
fn shares_are_max_min_fair_over_two_links() {
    let mut config = path(10_000_000, router(10_000_000, 40), 30);
    config["warmup_ns"] = json!(5 * SECOND);
    let mut narrow = config["links"][0].clone();
    narrow["id"] = json!("narrow");
    narrow["capacity"]["bps"] = json!(3_000_000);
    narrow["queue"] = router(3_000_000, 40);
    config["links"].as_array_mut().unwrap().push(narrow);
    add(&mut config, 40, 0)["route"] = json!([0, 1]);
    add(&mut config, 40, 100);
    let summary = simulate(&config).summary;
    let rates = [0, 1].map(|n| summary.flows[n].goodput_bps / 1e6 * 1014.0 / MSS as f64);
    assert!((rates[0] / 3.0 - 1.0).abs() < 0.05, "{rates:?}");
    assert!((6.3..7.0).contains(&rates[1]), "{rates:?}");
    assert!(summary.links.iter().all(|link| link.drops == 0));
}

/// Section 3.3: a sender that wants a certain rate gets it within a few round-trip times, and no more; the
/// rest is the other's.
#[test]
fn a_requested_rate_is_kept() {
    let mut config = path(45_000_000, router(45_000_000, 40), 10);
    config["warmup_ns"] = json!(2 * SECOND);
    add(&mut config, 40, 0)["transport"]["cc"]["params"] = json!({"rate": 5_000_000});
    add(&mut config, 40, 0);
    let output = simulate(&config);
    assert_full_without_drops(&output.summary.links[0]);
    let rate = output.summary.flows[0].goodput_bps;
    assert!((rate / 5e6 - 1.0).abs() < 0.05, "{rate}");
}

/// Where no router answers the window stays as it was: 2 segments in 40 ms.
#[test]
fn no_router_no_change() {
    let mut config = path(45_000_000, fifo(225), 10);
    config["warmup_ns"] = json!(SECOND);
    add(&mut config, 40, 0);
    let rate = simulate(&config).summary.flows[0].goodput_bps;
    let expected = 2.0 * MSS as f64 * 8.0 / 0.04;
    assert!((0.95..=1.0).contains(&(rate / expected)), "{rate} of {expected}");
}

/// Both would need the same word of an ACK.
#[test]
fn ecn_is_refused() {
    let mut config = path(45_000_000, router(45_000_000, 40), 1);
    add(&mut config, 40, 0)["transport"]["ecn"] = json!("accurate");
    let config: Config = serde_json::from_value(config).unwrap();
    let error = run(&config, &NoCustomControllers, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(error.to_string().contains("xcp: its congestion header excludes ECN"), "{error}");
}
