//! Marking above a step, as DCTCP asks of switches (RFC 8257 section 3.1): every ECN-capable packet
//! is marked while the queue, as it is and not on average, is above a threshold.

use serde_json::Value;

use crate::backlog::Backlog;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// RFC 9332 section 2.5.1.1 has 1 ms for the Internet.
const THRESHOLD_TIME: Nanos = 1_000_000;

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "step",
        summary: "Marks every ECN-capable packet above a threshold; tail drop for the rest",
        source: "Alizadeh et al., SIGCOMM 2010; RFC 8257",
        params: vec![
            ParamInfo::new(
                "threshold",
                Unit::Packets,
                Value::Null,
                "Mark a packet that finds more packets than this queued (K of DCTCP)",
            ),
            ParamInfo::new(
                "threshold_bytes",
                Unit::Bytes,
                Value::Null,
                "Mark a packet that finds more bytes than this queued",
            ),
            ParamInfo::new(
                "threshold_time",
                Unit::Time,
                Value::Null,
                "Mark a packet that waited longer than this; 1 ms where no threshold is given",
            ),
            ParamInfo::new("limit", Unit::Packets, 1000, "Most packets held; tail drop")
                .at_least(1.0),
        ],
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, _seed: u64) -> Built<P> {
    let packets = values.optional("threshold");
    let bytes = values.optional("threshold_bytes");
    let default_time = if packets.or(bytes).is_some() { Nanos::MAX } else { THRESHOLD_TIME };
    Ok(Box::new(Step {
        packets: packets.unwrap_or(u64::MAX),
        bytes: bytes.unwrap_or(u64::MAX),
        time: values.optional("threshold_time").unwrap_or(default_time),
        limit: values.whole("limit"),
        backlog: Backlog::default(),
        counters: Counters::default(),
    }))
}

#[derive(Debug)]
struct Step<P> {
    /// Thresholds; the first that is passed marks.
    packets: u64,
    bytes: u64,
    time: Nanos,
    limit: u64,
    backlog: Backlog<P>,
    counters: Counters,
}

impl<P: Packet + Send> QueueDiscipline<P> for Step<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        if self.backlog.packets() >= self.limit {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        let marked = self.counters.marked;
        if self.backlog.packets() > self.packets || self.backlog.bytes() > self.bytes {
            self.counters.mark_ce(&mut packet);
        }
        self.backlog.push(now, packet);
        if self.counters.marked > marked { Enqueued::Marked } else { Enqueued::Accepted }
    }

    fn dequeue(&mut self, now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        let Some(mut packet) = self.backlog.pop() else {
            return Dequeued::Empty;
        };
        if now.saturating_sub(packet.enqueued_at()) > self.time {
            self.counters.mark_ce(&mut packet);
        }
        self.counters.dequeued += 1;
        Dequeued::Packet(packet)
    }

    fn backlog(&self) -> Amount {
        self.backlog.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
