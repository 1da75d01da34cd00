//! A directed link: queue and transmitter. Propagation belongs to the network.

use dumbbell_queue::{
    Counters, Dequeued, DropReason, Dropped, FifoLimit, Packet as _, QueueDiscipline,
};
use dumbbell_transport::Packet;

use crate::capacity::{Trace, Transmitter};
use crate::config::{Cells, Framing};
use crate::histogram::Histogram;
use crate::impairment::Impairment;
use crate::ring::Ring;

/// A FIFO whose departures are computed on arrival: no packet is stored and no event is needed.
#[derive(Debug)]
pub(crate) struct ComputedFifo {
    transmitter: Transmitter,
    limit: FifoLimit,
    /// The packets that wait.
    waiting: Ring<Waiting>,
    waiting_bytes: u64,
    /// Size of the packet being transmitted.
    current: u32,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    start: u64,
    enqueued: u64,
    bytes: u32,
}

/// Sojourn times in a queue, recorded when packets leave it.
#[derive(Debug)]
pub(crate) struct SojournRecord {
    /// Before this time nothing counts for the summary.
    warmup: u64,
    pub(crate) histogram: Histogram,
    /// Of the current recording interval: sum, count and maximum.
    pub(crate) interval: (u64, u64, u64),
}

impl SojournRecord {
    #[inline]
    pub(crate) fn add(&mut self, left: u64, sojourn: u64) {
        let (sum, count, max) = &mut self.interval;
        *sum += sojourn;
        *count += 1;
        *max = (*max).max(sojourn);
        if left >= self.warmup {
            self.histogram.add(sojourn);
        }
    }
}

impl ComputedFifo {
    pub(crate) fn new(transmitter: Transmitter, limit: FifoLimit) -> Self {
        Self {
            transmitter,
            limit,
            waiting: Ring::default(),
            waiting_bytes: 0,
            current: 0,
            counters: Counters::default(),
        }
    }

    /// Bring the backlog up to `now`.
    #[inline]
    pub(crate) fn settle(&mut self, now: u64, sojourn: &mut SojournRecord) {
        while let Some(&Waiting { start, enqueued, bytes }) = self.waiting.front() {
            if start > now {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(bytes);
            self.current = bytes;
            self.counters.dequeued += 1;
            sojourn.add(start, start - enqueued);
        }
    }

    /// Offer a packet: when it has left, or `None` if it is dropped.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        now: u64,
        bytes: u32,
        sojourn: &mut SojournRecord,
    ) -> Option<u64> {
        self.settle(now, sojourn);
        self.counters.offered += 1;
        if self.transmitter.free_at() <= now {
            self.current = bytes;
            self.counters.dequeued += 1;
            sojourn.add(now, 0);
            return Some(self.transmitter.transmit(now, bytes).1);
        }
        let full = self.waiting.len() as u64 >= self.limit.packets
            || self.waiting_bytes + u64::from(bytes) > self.limit.bytes;
        if full {
            self.counters.dropped_overflow += 1;
            return None;
        }
        let (start, left) = self.transmitter.transmit(now, bytes);
        self.waiting.push_back(Waiting { start, enqueued: now, bytes });
        self.waiting_bytes += u64::from(bytes);
        Some(left)
    }

    /// A packet is on the line at `now` (after [`Self::settle`]).
    fn sending(&self, now: u64) -> bool {
        !self.transmitter.is_shaper()
            && self.transmitter.free_at() > now
            && self.counters.dequeued > 0
    }
}

/// Queue and transmitter with stored packets.
pub(crate) struct StoredQueue {
    pub(crate) queue: Box<dyn QueueDiscipline<Packet>>,
    pub(crate) server: Server,
}

pub(crate) enum Server {
    /// The packet in transmission (a shaper has none), and whether an event marks the end. While a
    /// queue that is a shaper itself holds its packets back, `retry_at` is when it is asked again.
    Constant { transmitter: Transmitter, sending: Option<Packet>, busy: bool, retry_at: u64 },
    /// The packet partly sent and what is left of it in bytes.
    Trace { trace: Trace, partial: Option<(Packet, u32)>, scheduled: bool },
}

pub(crate) enum Discipline {
    /// No queue and no transmission time.
    Unlimited,
    Computed(ComputedFifo),
    Stored(Box<StoredQueue>),
}

/// Counters of a link that the invariants are checked against.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkCounters {
    pub(crate) offered: u64,
    pub(crate) drops: u64,
    pub(crate) random_losses: u64,
    pub(crate) acks_thinned: u64,
    pub(crate) bytes_accepted: u64,
    /// Bytes and packets that left the transmitter (stored queues count as they go).
    pub(crate) bytes_out: u64,
    pub(crate) packets_out: u64,
}

pub(crate) struct Link {
    pub(crate) discipline: Discipline,
    pub(crate) framing: Framing,
    framing_cached: (u16, u16),
    pub(crate) delay: u64,
    pub(crate) impairment: Option<Box<Impairment>>,
    pub(crate) counters: LinkCounters,
    pub(crate) sojourn: SojournRecord,
    pub(crate) dropped: Dropped<Packet>,
}

impl Link {
    pub(crate) fn new(
        discipline: Discipline,
        framing: Framing,
        delay: u64,
        impairment: Option<Impairment>,
        warmup: u64,
    ) -> Self {
        Self {
            discipline,
            framing,
            framing_cached: (0, overhead(framing, 0)),
            delay,
            impairment: impairment.map(Box::new),
            counters: LinkCounters::default(),
            sojourn: SojournRecord { warmup, histogram: Histogram::default(), interval: (0, 0, 0) },
            dropped: Vec::new(),
        }
    }

    /// What this link adds to an IP packet.
    #[inline]
    pub(crate) fn overhead_for(&mut self, ip_bytes: u16) -> u16 {
        if self.framing_cached.0 != ip_bytes {
            self.framing_cached = (ip_bytes, overhead(self.framing, ip_bytes));
        }
        self.framing_cached.1
    }

    pub(crate) fn backlog(&mut self, now: u64) -> (u64, u64) {
        match &mut self.discipline {
            Discipline::Unlimited => (0, 0),
            Discipline::Computed(fifo) => {
                fifo.settle(now, &mut self.sojourn);
                (fifo.waiting.len() as u64, fifo.waiting_bytes)
            }
            Discipline::Stored(stored) => {
                (stored.queue.backlog_packets(), stored.queue.backlog_bytes())
            }
        }
    }

    /// Packets and bytes that left the transmitter until `now`.
    pub(crate) fn departed(&mut self, now: u64) -> (u64, u64) {
        let mut packets = self.counters.packets_out;
        let mut bytes = self.counters.bytes_out;
        if let Discipline::Computed(fifo) = &mut self.discipline {
            fifo.settle(now, &mut self.sojourn);
            packets = fifo.counters.offered - fifo.counters.dropped_overflow;
            bytes = self.counters.bytes_accepted;
            packets -= fifo.waiting.len() as u64;
            bytes -= fifo.waiting_bytes;
            if fifo.sending(now) {
                packets -= 1;
                bytes -= u64::from(fifo.current);
            }
        }
        (packets, bytes)
    }

    /// Packets inside queue and transmitter at `now`.
    pub(crate) fn held(&mut self, now: u64) -> u64 {
        let (waiting, _) = self.backlog(now);
        let sending = match &self.discipline {
            Discipline::Unlimited => false,
            Discipline::Computed(fifo) => fifo.sending(now),
            Discipline::Stored(stored) => match &stored.server {
                Server::Constant { sending, .. } => sending.is_some(),
                Server::Trace { partial, .. } => partial.is_some(),
            },
        };
        waiting + u64::from(sending)
    }

    pub(crate) fn queue_counters(&self) -> Counters {
        match &self.discipline {
            Discipline::Unlimited => Counters::default(),
            Discipline::Computed(fifo) => fifo.counters,
            Discipline::Stored(stored) => stored.queue.counters(),
        }
    }

    pub(crate) fn bps(&self) -> Option<u64> {
        match &self.discipline {
            Discipline::Unlimited => None,
            Discipline::Computed(fifo) => Some(fifo.transmitter.bps()),
            Discipline::Stored(stored) => match &stored.server {
                Server::Constant { transmitter, .. } => Some(transmitter.bps()),
                Server::Trace { trace, .. } => Some(trace.mean_bps() as u64),
            },
        }
    }
}

/// What [`StoredQueue::start`] did.
pub(crate) enum Start {
    /// This packet has left at the given time; until then it is held as `sending`.
    Packet(Packet, u64),
    /// Packets wait for a shaper's tokens until this time.
    Wait(u64),
    /// The queue gives nothing before this time, unless a packet arrives that may go at once.
    Retry(u64),
    /// The server is busy, or the queue has nothing to send.
    Nothing,
}

impl StoredQueue {
    /// Begin the next transmission on a constant-rate server that is free.
    pub(crate) fn start(&mut self, now: u64, dropped: &mut Dropped<Packet>) -> Start {
        let Server::Constant { transmitter, sending, busy, retry_at } = &mut self.server else {
            return Start::Nothing;
        };
        if *busy {
            return Start::Nothing;
        }
        if transmitter.free_at() > now {
            if self.queue.backlog_packets() == 0 {
                return Start::Nothing;
            }
            *busy = true;
            return Start::Wait(transmitter.free_at());
        }
        let packet = match self.queue.dequeue(now, dropped) {
            Dequeued::Packet(packet) => packet,
            Dequeued::Wait(until) if until > now && until != *retry_at => {
                *retry_at = until;
                return Start::Retry(until);
            }
            Dequeued::Wait(_) | Dequeued::Empty => return Start::Nothing,
        };
        let (_, left) = transmitter.transmit(now, packet.bytes());
        if left > now {
            (*sending, *busy) = (Some(packet), true);
        }
        Start::Packet(packet, left)
    }

    /// One delivery opportunity at `now`: packets that leave completely are pushed to `out`.
    pub(crate) fn use_opportunity(
        &mut self,
        now: u64,
        dropped: &mut Dropped<Packet>,
        out: &mut Vec<Packet>,
    ) {
        let Server::Trace { trace, partial, .. } = &mut self.server else {
            return;
        };
        let mut budget = trace.mtu;
        while budget > 0 {
            let (packet, left) = match partial.take() {
                Some(partly) => partly,
                None => match self.queue.dequeue(now, dropped) {
                    Dequeued::Packet(packet) => (packet, packet.bytes()),
                    Dequeued::Wait(_) | Dequeued::Empty => break,
                },
            };
            if left > budget {
                *partial = Some((packet, left - budget));
                break;
            }
            budget -= left;
            out.push(packet);
        }
    }
}

fn overhead(framing: Framing, ip_bytes: u16) -> u16 {
    let ip = u32::from(ip_bytes);
    let frame = (ip + framing.overhead).max(framing.mpu);
    let wire = match framing.cells {
        Cells::None => frame,
        Cells::Atm => frame.div_ceil(48) * 53,
        Cells::Ptm => frame + frame.div_ceil(64),
    };
    (wire - ip).min(u32::from(u16::MAX)) as u16
}

/// A drop in the record of packets.
pub(crate) fn drop_event(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Overflow => "drop-overflow",
        DropReason::Aqm => "drop-aqm",
        DropReason::Policed => "drop-policed",
        DropReason::AckFilter => "drop-ack-filter",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tc-stab`/CAKE arithmetic: ATM rounds up to 53-byte cells of 48 (dtaht/sch_cake#51 for the
    /// overhead), PTM adds 1 in 64.
    #[test]
    fn framing_adds_what_the_link_counts() {
        let framing = |overhead, mpu, cells| Framing { overhead, mpu, cells };
        assert_eq!(overhead(framing(14, 0, Cells::None), 1500), 14);
        assert_eq!(overhead(framing(38, 84, Cells::None), 40), 44);
        assert_eq!(overhead(framing(48, 0, Cells::Atm), 1500), 1548u16.div_ceil(48) * 53 - 1500);
        assert_eq!(overhead(framing(30, 0, Cells::Ptm), 1500), 30 + 1530u16.div_ceil(64));
    }

    #[test]
    fn computed_fifo_drops_beyond_its_limit() {
        let limit = FifoLimit { packets: 2, bytes: u64::MAX };
        let mut fifo = ComputedFifo::new(Transmitter::new(8_000_000, None), limit);
        let histogram = Histogram::default();
        let mut sojourn = SojournRecord { warmup: 0, histogram, interval: (0, 0, 0) };
        // 1000 bytes take 1 ms; the first is in service, two wait, the fourth is dropped.
        let ms = 1_000_000;
        assert_eq!(fifo.offer(0, 1000, &mut sojourn), Some(ms));
        assert_eq!(fifo.offer(0, 1000, &mut sojourn), Some(2 * ms));
        assert_eq!(fifo.offer(0, 1000, &mut sojourn), Some(3 * ms));
        assert_eq!(fifo.offer(0, 1000, &mut sojourn), None);
        assert_eq!(fifo.offer(ms, 1000, &mut sojourn), Some(4 * ms));
        assert_eq!(sojourn.interval, (ms, 2, ms));
    }

    fn trace_link(sizes: &[u16]) -> StoredQueue {
        let params = serde_json::Map::new();
        let mut queue = dumbbell_queue::build::<Packet>("fifo", &params, 1).unwrap();
        for &ip_bytes in sizes {
            queue.enqueue(0, Packet { ip_bytes, ..Packet::default() }, &mut Vec::new());
        }
        let trace = Trace::new(vec![1], 1504);
        StoredQueue { queue, server: Server::Trace { trace, partial: None, scheduled: false } }
    }

    /// Mahimahi: an opportunity of 1504 bytes carries two packets of 700 bytes; of two of 800 bytes
    /// the second continues in the next. A full packet takes one.
    #[test]
    fn packets_share_and_span_opportunities() {
        for (sizes, leaving) in [
            (&[700, 700][..], &[2][..]),
            (&[800, 800], &[1, 1]),
            (&[1500, 1500], &[1, 1]),
            (&[100, 1500, 1300], &[1, 2]),
        ] {
            let mut link = trace_link(sizes);
            for (index, &expected) in leaving.iter().enumerate() {
                let mut out = Vec::new();
                link.use_opportunity(index as u64, &mut Vec::new(), &mut out);
                assert_eq!(out.len(), expected, "{sizes:?}, opportunity {index}");
            }
            assert_eq!(link.queue.backlog_packets(), 0);
        }
    }
}
