//! What holds for every queue, whatever it is told.

use std::collections::BTreeMap;

use dumbbell_queue::{Dequeued, Dropped, Ecn, Enqueued, Nanos};

use super::{Queue, TestPacket};

/// Waits after which a queue that holds packets has to have given one.
const MOST_WAITS: u32 = 1000;
/// A wait that is not sat out: four seconds.
const LONG: Nanos = 1 << 32;
/// No run gets so far.
const END: Nanos = 1 << 62;

/// A queue under observation: each packet offered is at any time dequeued, dropped or in the backlog, in
/// packets and bytes; packets of one kind leave in order; ECN is marked only where it may be, and marks
/// are counted; what the queue returns says what happened.
pub struct Observed {
    queue: Queue,
    /// For messages.
    name: String,
    /// Order holds only among packets of one codepoint (DualPI2 puts CE into its L queue).
    by_codepoint: bool,
    /// Most packets held.
    limit: u64,
    pub now: Nanos,
    dropped: Dropped<TestPacket>,
    /// Packets in the queue, as they came.
    held: BTreeMap<(u32, u64), TestPacket>,
    next_seq: BTreeMap<u32, u64>,
    /// Last packet that left, for each flow, DSCP and codepoint.
    last: BTreeMap<(u32, u8, u8), u64>,
    offered: u64,
    dequeued: u64,
    bytes: u64,
    marked: u64,
    marked_sce: u64,
    /// Of those that got CE and were ECT(0): SCE may have come before.
    perhaps_sce: u64,
}

impl Observed {
    pub fn new(name: impl Into<String>, queue: Queue, limit: Option<u64>) -> Self {
        let name = name.into();
        Self {
            queue,
            by_codepoint: name.contains("dualpi2"),
            name,
            limit: limit.unwrap_or(u64::MAX),
            now: 0,
            dropped: Dropped::new(),
            held: BTreeMap::new(),
            next_seq: BTreeMap::new(),
            last: BTreeMap::new(),
            offered: 0,
            dequeued: 0,
            bytes: 0,
            marked: 0,
            marked_sce: 0,
            perhaps_sce: 0,
        }
    }

    pub fn wait(&mut self, time: Nanos) {
        self.now = self.now.saturating_add(time).min(END);
    }

    /// The packet gets the next sequence number of its flow.
    pub fn offer(&mut self, packet: TestPacket) {
        let seq = self.next_seq.entry(packet.flow).or_insert(1);
        let packet = TestPacket { seq: *seq, ..packet };
        let key = (packet.flow, packet.seq);
        *seq += 1;
        self.offered += 1;
        self.bytes += u64::from(packet.bytes);
        self.held.insert(key, packet);
        let outcome = self.queue.enqueue(self.now, packet, &mut self.dropped);
        let lost = self.dropped.iter().any(|d| (d.0.flow, d.0.seq) == key);
        assert_eq!(lost, outcome == Enqueued::Dropped, "{}", self.name);
        assert!(outcome != Enqueued::Marked || packet.ecn != Ecn::NotEct, "{}", self.name);
        self.check();
    }

    /// Asks for a packet; gives what the queue says.
    pub fn take(&mut self) -> Dequeued<TestPacket> {
        let backlog = self.queue.backlog_packets();
        let result = self.queue.dequeue(self.now, &mut self.dropped);
        match result {
            Dequeued::Packet(packet) => {
                self.dequeued += 1;
                let came = self.leave(packet);
                let codepoint = if self.by_codepoint { came.ecn as u8 } else { 0 };
                let last = self.last.entry((came.flow, came.dscp, codepoint)).or_default();
                assert!(packet.seq > *last, "{}: {packet:?} after {last}", self.name);
                *last = packet.seq;
            }
            Dequeued::Wait(until) => {
                assert!(until > self.now, "{}: waits for the past", self.name);
                assert!(backlog > self.dropped.len() as u64, "{}: waits for nothing", self.name);
            }
            Dequeued::Empty => {
                assert_eq!(backlog, self.dropped.len() as u64, "{}: not empty", self.name);
            }
        }
        self.check();
        result
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes everything out, waiting where the queue asks for it. A long wait ends it.
    pub fn drain(&mut self) {
        let mut waits = 0;
        loop {
            match self.take() {
                Dequeued::Packet(_) => waits = 0,
                Dequeued::Wait(until) if until < self.now + LONG => {
                    self.now = until;
                    waits += 1;
                    assert!(waits < MOST_WAITS, "{}: gives nothing", self.name);
                }
                Dequeued::Wait(_) => return,
                Dequeued::Empty => break,
            }
        }
        assert!(self.held.is_empty(), "{}", self.name);
        assert_eq!((self.queue.backlog_packets(), self.queue.backlog_bytes()), (0, 0));
        let counters = self.queue.counters();
        assert_eq!(counters.marked, self.marked, "{}", self.name);
        let sce = self.marked_sce..=self.marked_sce + self.perhaps_sce;
        assert!(sce.contains(&counters.marked_sce), "{}: {sce:?} {counters:?}", self.name);
    }

    /// Check a packet that leaves, dropped or not, against what came.
    fn leave(&mut self, packet: TestPacket) -> TestPacket {
        let came = self.held.remove(&(packet.flow, packet.seq));
        let came = came.unwrap_or_else(|| panic!("{}: {packet:?} from nowhere", self.name));
        self.bytes -= u64::from(packet.bytes);
        assert_eq!(packet.bytes, came.bytes);
        match (came.ecn, packet.ecn) {
            (before, after) if before == after => {}
            (Ecn::Ect0 | Ecn::Ect1, Ecn::Ce) => {
                self.marked += 1;
                self.perhaps_sce += u64::from(came.ecn == Ecn::Ect0);
            }
            (Ecn::Ect0, Ecn::Ect1) => self.marked_sce += 1,
            (before, after) => panic!("{}: {before:?} became {after:?}", self.name),
        }
        came
    }

    fn check(&mut self) {
        for (packet, _) in std::mem::take(&mut self.dropped) {
            self.leave(packet);
        }
        let (packets, counters) = (self.held.len() as u64, self.queue.counters());
        assert_eq!(self.queue.backlog_packets(), packets, "{}", self.name);
        assert_eq!(self.queue.backlog_bytes(), self.bytes, "{}", self.name);
        assert!(packets <= self.limit, "{}: {packets} packets", self.name);
        assert_eq!(counters.offered, self.offered, "{}", self.name);
        assert_eq!(counters.dequeued, self.dequeued, "{}", self.name);
        let dropped = self.offered - self.dequeued - packets;
        assert_eq!(counters.dropped(), dropped, "{}", self.name);
        assert!(counters.marked >= self.marked, "{}", self.name);
        assert!(counters.marked_sce >= self.marked_sce, "{}", self.name);
        self.queue.record(self.now, &mut |variable, value| {
            assert!(value.is_finite(), "{}: {variable} = {value}", self.name);
        });
    }
}
