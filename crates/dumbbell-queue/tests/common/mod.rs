//! A packet and small links for the tests of queues.

// Each test binary uses a part of this.
#![allow(dead_code, unreachable_pub)]

pub mod laws;
pub mod shares;

use dumbbell_queue::{
    CongestionHeader, Dequeued, DropReason, Dropped, Ecn, Enqueued, Nanos, Packet, QueueDiscipline,
    build,
};
use serde_json::{Map, Value, json};

pub const MS: Nanos = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestPacket {
    pub flow: u32,
    pub seq: u64,
    /// Of the IP packet; the link adds nothing.
    pub bytes: u32,
    pub ecn: Ecn,
    pub at: Nanos,
    pub dscp: u8,
    pub source: u32,
    pub destination: u32,
    pub label: f32,
    pub xcp: Option<CongestionHeader>,
    pub ack: bool,
}

impl TestPacket {
    pub fn new(flow: u32, seq: u64, bytes: u32) -> Self {
        Self {
            flow,
            seq,
            bytes,
            ecn: Ecn::NotEct,
            at: 0,
            dscp: 0,
            source: flow,
            destination: flow,
            label: 0.0,
            xcp: None,
            ack: false,
        }
    }

    pub fn with_ecn(mut self, ecn: Ecn) -> Self {
        self.ecn = ecn;
        self
    }

    pub fn with_dscp(mut self, dscp: u8) -> Self {
        self.dscp = dscp;
        self
    }

    pub fn between(mut self, source: u32, destination: u32) -> Self {
        (self.source, self.destination) = (source, destination);
        self
    }
}

impl Packet for TestPacket {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow_hash(&self) -> u32 {
        self.flow
    }
    fn ip_bytes(&self) -> u32 {
        self.bytes
    }
    fn source(&self) -> u32 {
        self.source
    }
    fn destination(&self) -> u32 {
        self.destination
    }
    fn dscp(&self) -> u8 {
        self.dscp
    }
    fn set_dscp(&mut self, dscp: u8) {
        self.dscp = dscp;
    }
    fn mark_sce(&mut self) {
        assert_eq!(self.ecn, Ecn::Ect0);
        self.ecn = Ecn::Ect1;
    }
    fn label(&self) -> f32 {
        self.label
    }
    fn set_label(&mut self, label: f32) {
        self.label = label;
    }
    fn congestion_header(&self) -> Option<CongestionHeader> {
        self.xcp
    }
    fn set_feedback(&mut self, feedback: f32) {
        if let Some(header) = &mut self.xcp {
            header.feedback = feedback;
        }
    }
    fn is_superseded_by(&self, newer: &Self) -> bool {
        // The label stands for what an ACK says beside its number.
        let same = self.flow == newer.flow && self.label == newer.label;
        self.ack && newer.ack && same && self.seq < newer.seq
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn mark_ce(&mut self) {
        assert!(matches!(self.ecn, Ecn::Ect0 | Ecn::Ect1));
        self.ecn = Ecn::Ce;
    }
    fn enqueued_at(&self) -> Nanos {
        self.at
    }
    fn set_enqueued_at(&mut self, now: Nanos) {
        self.at = now;
    }
}

pub type Queue = Box<dyn QueueDiscipline<TestPacket>>;

/// Builds a queue from parameters written as a JSON object.
#[track_caller]
pub fn queue(kind: &str, params: Value) -> Queue {
    build(kind, &object(params), 1).unwrap()
}

pub fn object(params: Value) -> Map<String, Value> {
    let Value::Object(params) = params else { panic!("not an object: {params}") };
    params
}

/// What happened to the packets of [`overload`].
#[derive(Debug, Default, PartialEq)]
pub struct Trace {
    /// (time of the dequeue call, packet).
    pub delivered: Vec<(Nanos, TestPacket)>,
    pub dropped: Vec<(Nanos, TestPacket, DropReason)>,
}

impl Trace {
    pub fn dropped_seqs(&self) -> Vec<u64> {
        self.dropped.iter().map(|d| d.1.seq).collect()
    }
}

/// One packet of `packet`'s kind arrives every half millisecond while one leaves every millisecond,
/// from `start` to `end`.
pub fn overload(queue: &mut Queue, packet: TestPacket, start: Nanos, end: Nanos) -> Trace {
    let mut trace = Trace::default();
    let mut dropped = Dropped::new();
    let mut seq = 0;
    let mut now = start;
    while now < end {
        let arriving = TestPacket { seq, ..packet };
        queue.enqueue(now, arriving, &mut dropped);
        seq += 1;
        if (now - start).is_multiple_of(MS)
            && let Dequeued::Packet(packet) = queue.dequeue(now, &mut dropped)
        {
            trace.delivered.push((now, packet));
        }
        trace.dropped.extend(dropped.drain(..).map(|(p, reason)| (now, p, reason)));
        now += MS / 2;
    }
    trace
}

/// Takes everything out.
pub fn drain(queue: &mut Queue, now: Nanos) -> Vec<TestPacket> {
    let mut dropped = Dropped::new();
    std::iter::from_fn(|| match queue.dequeue(now, &mut dropped) {
        Dequeued::Packet(packet) => Some(packet),
        Dequeued::Wait(_) | Dequeued::Empty => None,
    })
    .collect()
}

/// Offers packets at one time; gives what came of each and what was dropped.
pub fn offer(
    queue: &mut Queue,
    now: Nanos,
    packets: impl IntoIterator<Item = TestPacket>,
) -> (Vec<Enqueued>, Vec<TestPacket>) {
    let mut dropped = Dropped::new();
    let outcomes =
        packets.into_iter().map(|packet| queue.enqueue(now, packet, &mut dropped)).collect();
    (outcomes, dropped.into_iter().map(|d| d.0).collect())
}

/// A variable as it was when the queue was last used.
#[track_caller]
pub fn recorded(queue: &mut Queue, wanted: &str) -> f64 {
    let mut found = None;
    queue.record(0, &mut |name, value| {
        if name == wanted {
            found = Some(value);
        }
    });
    found.unwrap()
}

/// Deficit round robin (RFC 8290 section 4.2): equal bytes for flows with unequal packets, to within two
/// quanta and a packet, which is what one flow may be ahead by.
#[track_caller]
pub fn assert_shares_in_bytes(kind: &str) {
    let mut q = queue(kind, json!({}));
    let packets = |flow, count, bytes| (0..count).map(move |seq| TestPacket::new(flow, seq, bytes));
    offer(&mut q, 0, packets(1, 400, 1500));
    offer(&mut q, 0, packets(2, 2000, 300));
    let mut dropped = Dropped::new();
    let mut bytes = [0_i64; 3];
    for _ in 0..1000 {
        if let Dequeued::Packet(p) = q.dequeue(0, &mut dropped) {
            bytes[p.flow as usize] += i64::from(p.bytes);
        }
    }
    assert!((bytes[1] - bytes[2]).abs() <= 2 * 1514 + 1500, "{bytes:?}");
}

/// CE marks, drops of the AQM, and whether there were SCE marks, in 300 ms of [`overload`] by one flow.
pub fn signals(kind: &str, params: Value) -> (u64, u64, bool) {
    let mut q = queue(kind, params);
    overload(&mut q, TestPacket::new(1, 0, 1500).with_ecn(Ecn::Ect0), 0, 300 * MS);
    let c = q.counters();
    (c.marked, c.dropped_aqm, c.marked_sce > 0)
}

/// The parameters of COBALT reach a queue of this kind.
#[track_caller]
pub fn assert_cobalt_parameters(kind: &str) {
    assert_eq!(signals(kind, json!({})), (4, 0, false));
    assert_eq!(signals(kind, json!({"target": 50 * MS})), (2, 0, false));
    assert_eq!(signals(kind, json!({"interval": 200 * MS})), (1, 0, false));
    assert_eq!(signals(kind, json!({"mtu_time": 20 * MS})), (1, 0, false));
    assert_eq!(signals(kind, json!({"ecn": false})), (0, 4, false));
    assert_eq!(signals(kind, json!({"sce_thresh": 4})), (4, 0, true));
}
