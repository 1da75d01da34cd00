//! CoDel (RFC 8289): the state machine, apart from any queue so that FQ-CoDel can hold one per flow,
//! and the discipline that puts it on a single FIFO.

use serde_json::Value;

use crate::backlog::Backlog;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// RFC 8289 section 4.2: an acceptable standing delay, and a round trip that fits most paths.
const TARGET: Nanos = 5_000_000;
const INTERVAL: Nanos = 100_000_000;
/// One hour: keeps sums of times far from overflow.
const LONGEST: f64 = 3.6e12;

/// A dropping state entered later than this many intervals after the last scheduled drop starts
/// afresh (RFC 8289 section 5.5).
const MEMORY: u64 = 16;

/// Settings of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodelParams {
    pub(crate) target: Nanos,
    pub(crate) interval: Nanos,
    /// Mark ECN-capable packets in place of dropping them.
    pub(crate) ecn: bool,
    /// Mark every ECN-capable packet that waited longer than this, whatever the state.
    pub(crate) ce_threshold: Option<Nanos>,
}

impl CodelParams {
    pub(crate) fn from_values(values: &Values) -> Self {
        Self {
            target: values.whole("target"),
            interval: values.whole("interval"),
            ecn: values.flag("ecn"),
            ce_threshold: values.optional("ce_threshold"),
        }
    }

    /// Descriptions of these settings. Linux has `ecn` off in codel and on in fq_codel.
    pub(crate) fn info(ecn: bool) -> Vec<ParamInfo> {
        vec![
            ParamInfo::new(
                "target",
                Unit::Time,
                TARGET,
                "Standing delay that is acceptable; at least the time of one packet on the link",
            )
            .at_least(1.0)
            .at_most(LONGEST),
            ParamInfo::new(
                "interval",
                Unit::Time,
                INTERVAL,
                "Time above target before the first drop; about the longest usual round trip",
            )
            .at_least(1.0)
            .at_most(LONGEST),
            ParamInfo::new(
                "ecn",
                Unit::Bool,
                ecn,
                "Mark ECN-capable packets in place of dropping them",
            ),
            ParamInfo::new(
                "ce_threshold",
                Unit::Time,
                Value::Null,
                "Also mark every ECN-capable packet that waited longer than this",
            ),
        ]
    }
}

/// The queue that a [`Codel`] takes packets from.
pub(crate) trait Source<P> {
    fn pop(&mut self) -> Option<P>;
    /// Whether more than the largest packet seen is still waiting; less is no standing queue.
    fn standing(&self) -> bool;
}

/// State of CoDel (RFC 8289 section 5.2).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Codel {
    /// When the delay will have been above target for an interval; 0 while it is not.
    first_above: Nanos,
    drop_next: Nanos,
    /// Drops since the dropping state was entered, and that number when it was.
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl Codel {
    /// Drops that others made from the same queue raise the signal too, as in Linux fq_codel.
    pub(crate) fn add_drops(&mut self, drops: u32) {
        self.count = self.count.saturating_add(drops);
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn dropping(&self) -> bool {
        self.dropping
    }

    /// Whether this head packet may be dropped: the delay stayed above target for an interval.
    fn above_for_interval<P: Packet>(
        &mut self,
        now: Nanos,
        params: &CodelParams,
        head: Option<&P>,
        standing: bool,
    ) -> bool {
        let above =
            head.is_some_and(|p| standing && now.saturating_sub(p.enqueued_at()) >= params.target);
        if !above {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now.saturating_add(params.interval);
            return false;
        }
        now >= self.first_above
    }

    /// RFC 8289 section 3.2.2: drops come closer as the inverse square root of their number.
    fn gap(&self, params: &CodelParams) -> Nanos {
        (params.interval as f64 / f64::from(self.count).sqrt()) as Nanos
    }

    /// Takes the next packet to send, dropping or marking on the way.
    pub(crate) fn dequeue<P: Packet>(
        &mut self,
        now: Nanos,
        params: &CodelParams,
        source: &mut impl Source<P>,
        counters: &mut Counters,
        dropped: &mut Dropped<P>,
    ) -> Option<P> {
        let mut packet = source.pop();
        if self.above_for_interval(now, params, packet.as_ref(), source.standing()) {
            packet = self.act(now, params, packet, source, counters, dropped);
        } else {
            self.dropping = false;
        }
        if let (Some(packet), Some(threshold)) = (&mut packet, params.ce_threshold)
            && now.saturating_sub(packet.enqueued_at()) > threshold
        {
            counters.mark_ce(packet);
        }
        packet
    }

    /// The delay has been above target for an interval: drops or marks what is due.
    #[inline(never)]
    fn act<P: Packet>(
        &mut self,
        now: Nanos,
        params: &CodelParams,
        mut packet: Option<P>,
        source: &mut impl Source<P>,
        counters: &mut Counters,
        dropped: &mut Dropped<P>,
    ) -> Option<P> {
        if self.dropping {
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                packet = signal(params, packet, counters, dropped);
                if packet.is_some() {
                    self.drop_next += self.gap(params);
                    break;
                }
                packet = source.pop();
                if self.above_for_interval(now, params, packet.as_ref(), source.standing()) {
                    // From the schedule, not from now: late service must not slow the drops down.
                    self.drop_next += self.gap(params);
                } else {
                    self.dropping = false;
                }
            }
        } else {
            packet = signal(params, packet, counters, dropped);
            if packet.is_none() {
                packet = source.pop();
                self.above_for_interval(now, params, packet.as_ref(), source.standing());
            }
            self.dropping = true;
            let recent =
                now.saturating_sub(self.drop_next) < params.interval.saturating_mul(MEMORY);
            let delta = self.count.saturating_sub(self.last_count);
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.last_count = self.count;
            self.drop_next = now + self.gap(params);
        }
        packet
    }
}

/// Gives the packet back marked, or drops it and gives nothing.
fn signal<P: Packet>(
    params: &CodelParams,
    packet: Option<P>,
    counters: &mut Counters,
    dropped: &mut Dropped<P>,
) -> Option<P> {
    let mut packet = packet?;
    if params.ecn && counters.mark_ce(&mut packet) {
        return Some(packet);
    }
    counters.drop(packet, DropReason::Aqm, dropped);
    None
}

pub(crate) fn info() -> QueueInfo {
    let mut params = CodelParams::info(false);
    params.push(
        ParamInfo::new("limit", Unit::Packets, 1000, "Most packets held; tail drop").at_least(1.0),
    );
    QueueInfo {
        name: "codel",
        summary: "Controlled delay: drops at the head when the delay stays above target",
        source: "RFC 8289",
        params,
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, _seed: u64) -> Built<P> {
    Ok(Box::new(CodelQueue {
        params: CodelParams::from_values(values),
        limit: values.whole("limit"),
        codel: Codel::default(),
        waiting: Waiting { backlog: Backlog::default(), largest: 0 },
        counters: Counters::default(),
    }))
}

/// A FIFO under CoDel.
#[derive(Debug)]
struct CodelQueue<P> {
    params: CodelParams,
    limit: u64,
    codel: Codel,
    waiting: Waiting<P>,
    counters: Counters,
}

#[derive(Debug)]
struct Waiting<P> {
    backlog: Backlog<P>,
    /// Bytes of the largest packet seen.
    largest: u32,
}

impl<P: Packet> Source<P> for Waiting<P> {
    fn pop(&mut self) -> Option<P> {
        self.backlog.pop()
    }

    fn standing(&self) -> bool {
        self.backlog.bytes() > u64::from(self.largest)
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for CodelQueue<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        if self.backlog_packets() >= self.limit {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        self.waiting.largest = self.waiting.largest.max(packet.bytes());
        self.waiting.backlog.push(now, packet);
        Enqueued::Accepted
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        let packet =
            self.codel.dequeue(now, &self.params, &mut self.waiting, &mut self.counters, dropped);
        self.counters.deliver(packet)
    }

    fn backlog(&self) -> Amount {
        self.waiting.backlog.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, _now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        out("codel_count", f64::from(self.codel.count()));
        out("codel_dropping", f64::from(self.codel.dropping()));
    }
}
