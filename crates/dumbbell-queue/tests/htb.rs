//! Hierarchical token bucket: who gets what, of 10 Mbit/s.

use std::collections::BTreeMap;

use crate::common::shares::Saturated;
use crate::common::{MS, TestPacket, object, queue};
use dumbbell_queue::{Nanos, build};
use serde_json::{Value, json};

const SECOND: Nanos = 1000 * MS;
const RATE: u64 = 10_000_000;
const MBIT: u64 = 1_000_000;
/// A full frame.
const FRAME: u64 = 1514;

fn flow(flow: u32) -> TestPacket {
    TestPacket::new(flow, 0, 1500).with_dscp(flow as u8)
}

fn htb(classes: &Value) -> Value {
    json!({"rate": RATE, "classes": classes})
}

/// Bytes of each flow in ten seconds.
fn bytes(params: Value, flows: &[u32]) -> BTreeMap<u32, u64> {
    let flows: Vec<_> = flows.iter().copied().map(flow).collect();
    Saturated::new(queue("htb", params), &flows).bytes_until(10 * SECOND)
}

/// Asserts a rate in bit/s over ten seconds: short of it by less than a frame, above it by a burst (1 ms at
/// the rate, at least two frames) and the frame that goes into debt.
#[track_caller]
fn assert_rate(bytes: u64, rate: u64) {
    let come = rate * 10 / 8;
    let burst = (rate / 8000).max(2 * FRAME);
    assert!(bytes + FRAME > come, "{bytes} of {come}");
    assert!(bytes <= come + burst + FRAME, "{bytes} of {come}");
}

/// Asserts the root's rate over ten seconds. Beyond its burst, each of two classes may be ahead by its own
/// burst and a frame, since it needs no tokens of the root for its own rate.
#[track_caller]
fn assert_total(sent: &BTreeMap<u32, u64>, rate: u64) {
    let (sum, come) = (sent.values().sum::<u64>(), rate * 10 / 8);
    assert!(sum + FRAME > come, "{sum} of {come}");
    assert!(sum <= come + 3 * (2 * FRAME + FRAME), "{sum} of {come}");
}

/// A class alone borrows all of the root's rate; its ceiling holds it back.
#[test]
fn a_class_borrows_up_to_its_ceiling() {
    let alone = bytes(htb(&json!([{"rate": MBIT}, {"rate": MBIT}])), &[1]);
    assert_rate(alone[&1], RATE);
    let alone = bytes(htb(&json!([{"rate": MBIT, "ceil": 3 * MBIT}])), &[1]);
    assert_rate(alone[&1], 3 * MBIT);
    let alone = bytes(htb(&json!([{"rate": MBIT, "ceil": MBIT}])), &[1]);
    assert_rate(alone[&1], MBIT);
}

/// Each has its rate, and the 2 Mbit/s that are left are shared by the quanta: 1:1, and 1:3.
#[test]
fn what_is_left_is_shared_by_quanta() {
    for (quanta, excess) in
        [([3000, 3000], [1_000_000, 1_000_000]), ([3000, 9000], [500_000, 1_500_000])]
    {
        let classes = json!([
            {"dscp": [1], "rate": 6 * MBIT, "quantum": quanta[0]},
            {"rate": 2 * MBIT, "quantum": quanta[1]},
        ]);
        let sent = bytes(htb(&classes), &[1, 2]);
        assert_total(&sent, RATE);
        for (flow, rate) in [(1, 6 * MBIT + excess[0]), (2, 2 * MBIT + excess[1])] {
            // The shares of what is left are exact to a turn of each.
            assert!(sent[&flow].abs_diff(rate * 10 / 8) <= 9000 + 3 * FRAME, "{sent:?}");
        }
    }
}

/// The lowest `prio` borrows first, but takes nothing of the rate of others.
#[test]
fn priority_decides_who_borrows() {
    let classes = json!([
        {"dscp": [1], "rate": 3 * MBIT, "prio": 1},
        {"dscp": [2], "rate": 2 * MBIT, "prio": 0},
    ]);
    let sent = bytes(htb(&classes), &[1, 2]);
    assert_rate(sent[&1], 3 * MBIT);
    assert_rate(sent[&2], 7 * MBIT);
}

/// What one class does not use, by its ceiling, the others get.
#[test]
fn a_ceiling_leaves_the_rest_to_others() {
    let classes = json!([
        {"dscp": [1], "rate": MBIT, "ceil": 2 * MBIT},
        {"dscp": [2], "rate": MBIT},
    ]);
    let sent = bytes(htb(&classes), &[1, 2]);
    assert_rate(sent[&1], 2 * MBIT);
    assert_rate(sent[&2], 8 * MBIT);
}

/// The bursts of rate, ceiling and root bound what leaves at once: each is in debt after a frame more than
/// it has tokens for.
#[test]
fn bursts_leave_at_once() {
    let at_once = |root: u64, burst: u64, cburst: u64| {
        let params = json!({"rate": RATE, "burst": root, "classes": [
            {"rate": MBIT, "burst": burst, "cburst": cburst}]});
        bytes_at_once(params)
    };
    // Own rate: root tokens play no part.
    assert_eq!(at_once(3000, 15_000, 30_000), 16_500);
    assert_eq!(at_once(3000, 30_000, 15_000), 16_500);
    // Own tokens are used up with the third frame; the root's 9000 with it and four more.
    assert_eq!(at_once(9000, 3000, 30_000), 10_500);
}

fn bytes_at_once(params: Value) -> u64 {
    Saturated::new(queue("htb", params), &[flow(1)]).bytes_until(0)[&1]
}

/// Without rates the classes have equal parts.
#[test]
fn each_parameter_reaches_the_queue() {
    let order = |params| Saturated::new(queue("htb", params), &[flow(1), flow(2)]).order(300);
    let class = |extra: Value| {
        let mut first = object(json!({"dscp": [1], "rate": 4 * MBIT, "quantum": 3000}));
        first.extend(object(extra));
        htb(&json!([first, {"rate": 4 * MBIT, "quantum": 3000}]))
    };
    let plain = order(class(json!({})));
    for extra in [
        json!({"dscp": [2]}),
        json!({"rate": 2 * MBIT}),
        json!({"ceil": 5 * MBIT}),
        json!({"burst": 20_000}),
        json!({"cburst": 1500, "ceil": 6 * MBIT}),
        json!({"prio": 3}),
        json!({"quantum": 20_000}),
        json!({"queue": {"kind": "tbf", "params": {"rate": 1_000_000}}}),
    ] {
        assert_ne!(order(class(extra.clone())), plain, "{extra}");
    }
    let sent = bytes(json!({"rate": 8 * MBIT, "classes": [{"dscp": [1]}, {}]}), &[1, 2]);
    assert_total(&sent, 8 * MBIT);
    assert!(sent[&1].abs_diff(sent[&2]) <= 2 * FRAME, "{sent:?}");
}

#[test]
fn values_that_do_not_go_together_are_refused() {
    let message =
        |params| build::<TestPacket>("htb", &object(params), 1).err().unwrap().to_string();
    assert_eq!(
        message(htb(&json!([{"rate": 8 * MBIT}, {"rate": 3 * MBIT}]))),
        "queue htb: rate = 10000000: expected at least the rates of the classes together, 11000000"
    );
    assert_eq!(
        message(htb(&json!([{"rate": 8 * MBIT, "ceil": MBIT}]))),
        "queue htb: ceil = 1000000: expected at least the rate"
    );
    assert_eq!(message(htb(&json!([]))), "queue htb: classes = []: expected at least one class");
}
