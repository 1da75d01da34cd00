//! Strict priority.

use crate::common::shares::Saturated;
use crate::common::{MS, TestPacket, drain, offer, queue};
use dumbbell_queue::{Dequeued, Dropped};
use serde_json::json;

const EF: u8 = 46;
const LE: u8 = 1;
const CS1: u8 = 8;
const CS6: u8 = 48;
const AF11: u8 = 10;

/// The lower classes get nothing while the first always has packets, and the rest of the link otherwise.
#[test]
fn lower_classes_starve_under_overload() {
    let flows = [0, EF, LE].map(|dscp| TestPacket::new(u32::from(dscp), 0, 1000).with_dscp(dscp));
    let bytes = Saturated::new(queue("prio", json!({})), &flows).bytes(1000);
    assert_eq!(bytes.into_iter().collect::<Vec<_>>(), [(u32::from(EF), 1_000_000)]);
    let bytes = Saturated::new(queue("prio", json!({})), &flows[..1]).bytes(1000);
    assert_eq!(bytes[&0], 1_000_000);
}

/// The three bands: EF (RFC 3246) and network control first, LE (RFC 8622) and CS1 last.
#[test]
fn the_default_bands() {
    let mut q = queue("prio", json!({}));
    let dscps = [CS1, LE, AF11, 0, 63, CS6, EF];
    offer(&mut q, 0, dscps.map(|dscp| TestPacket::new(0, 0, 100).with_dscp(dscp)));
    let order: Vec<u8> = drain(&mut q, 0).iter().map(|p| p.dscp).collect();
    assert_eq!(order, [CS6, EF, AF11, 0, 63, CS1, LE]);
}

/// The classes' order is their priority; each has its own queue, and waits for it.
#[test]
fn classes_reach_the_queue() {
    let shaper = json!({"kind": "tbf", "params": {"rate": 8_000_000, "burst": 1000}});
    let mut q = queue(
        "prio",
        json!({"classes": [
            {"dscp": [LE], "queue": shaper},
            {"queue": {"kind": "fifo", "params": {"limit": 2}}},
        ]}),
    );
    offer(&mut q, 0, (0..3).map(|seq| TestPacket::new(1, seq, 1000).with_dscp(LE)));
    let (_, dropped) = offer(&mut q, 0, (0..3).map(|seq| TestPacket::new(2, seq, 1000)));
    assert_eq!(dropped.len(), 1);
    let flows: Vec<u32> = drain(&mut q, 0).iter().map(|p| p.flow).collect();
    assert_eq!(flows, [1, 2, 2]);
    assert_eq!(q.dequeue(0, &mut Dropped::new()), Dequeued::Wait(MS));
}
