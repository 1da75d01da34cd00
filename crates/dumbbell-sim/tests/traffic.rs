//! Sources do what their parameters say.

use crate::common::{fifo, flow, path, simulate};
use serde_json::json;

/// A client that thinks for 3 s after each page asks at most every 3 s: in 20 s at 100 ms and
/// 10 Mbit/s, where a page of 20 kB takes some 0.3 s, for six or seven pages.
#[test]
fn clients_think_between_requests() {
    let mut config = path(10_000_000, fifo(100), 20);
    flow(&mut config, "cubic", 100, 0);
    config["flows"][0]["traffic"] = json!({
        "kind": "request_response",
        "request": {"kind": "constant", "value": 300.0},
        "response": {"kind": "constant", "value": 20000.0},
        "think": {"kind": "constant", "value": 3.0},
    });
    let summary = simulate(&config).summary;
    let client = &summary.flows[0];
    assert!((6..=7).contains(&client.completed), "{} pages", client.completed);
    // A page under way at the end may have arrived in part.
    let whole = client.completed * 20_000;
    assert!((whole..whole + 20_000).contains(&client.delivered_bytes));
}

/// Duplicated segments do not complete a page again: each is answered once, in order.
#[test]
fn duplicates_complete_nothing_twice() {
    let mut config = path(10_000_000, fifo(100), 20);
    flow(&mut config, "cubic", 40, 0);
    config["links"][0]["impairments"] = json!({"duplicate": 0.5});
    config["flows"][0]["traffic"] = json!({
        "kind": "request_response",
        "request": {"kind": "constant", "value": 300.0},
        "response": {"kind": "constant", "value": 20000.0},
        "think": {"kind": "constant", "value": 0.5},
    });
    let summary = simulate(&config).summary;
    let client = &summary.flows[0];
    assert!(client.completed > 10);
    let whole = client.completed * 20_000;
    assert!((whole..whole + 20_000).contains(&client.delivered_bytes));
}
