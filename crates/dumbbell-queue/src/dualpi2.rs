//! DualPI2 (RFC 9332): an L queue for scalable traffic with a shallow threshold of its own, a C queue
//! for classic traffic under PI2, whose probability is coupled to the L queue, and a scheduler that
//! prefers L without starving C.
//!
//! Signals are drawn at random as in Linux. The accumulators of RFC 9332 appendix A.1 (`recur`) give
//! evenly spaced signals, which the evenly spaced packets of a simulation would lock to.

use crate::backlog::Backlog;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::pi_controller::{self, PiController};
use crate::verdict::Verdict;
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Ecn, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// Size of a full frame, in which the scheduler's credit starts.
const FRAME: f64 = 1514.0;
const HOUR: f64 = 3.6e12;

pub(crate) fn info() -> QueueInfo {
    let mut params = pi_controller::info();
    params.extend([
        ParamInfo::choice("l_aqm", &["step", "ramp"], "Marks that the L queue makes of its own"),
        ParamInfo::new(
            "step_thresh",
            Unit::Time,
            1_000_000,
            "Delay in L above which all is marked",
        )
        .at_most(HOUR),
        ParamInfo::new("min_th", Unit::Time, 800_000, "Delay in L where the ramp of marks begins")
            .at_most(HOUR),
        ParamInfo::new("range", Unit::Time, 400_000, "Delay from there to where all is marked")
            .at_least(1.0)
            .at_most(HOUR),
        ParamInfo::new(
            "min_qlen_step",
            Unit::Packets,
            0,
            "No mark of L's own unless more packets than this are in it (RFC 9332: 1)",
        ),
        ParamInfo::choice(
            "ecn_mask",
            &["l4s_ect", "any_ect"],
            "Traffic of the L queue: ECT(1) and CE, or all that is ECN-capable",
        ),
        ParamInfo::new(
            "classic_ecn",
            Unit::Bool,
            true,
            "Mark ECN-capable packets in the C queue, not drop them",
        ),
        ParamInfo::choice(
            "scheduler",
            &["wrr", "tsfifo"],
            "Weighted round robin, or the longer delay first with a head start for L",
        ),
        ParamInfo::new(
            "c_protection",
            Unit::Fraction,
            0.1,
            "Share of the link that is left to C however much comes to L (wrr)",
        )
        .at_least(0.0)
        .at_most(1.0),
        ParamInfo::new("tshift", Unit::Time, 50_000_000, "Head start of L over C (tsfifo)")
            .at_most(HOUR),
        ParamInfo::new("limit", Unit::Packets, 10_000, "Most packets held by both; tail drop")
            .at_least(1.0),
        ParamInfo::new(
            "memory_limit",
            Unit::Bytes,
            serde_json::Value::Null,
            "Most bytes held by both; with limit, whichever is reached first",
        )
        .at_least(1.0),
    ]);
    QueueInfo {
        name: "dualpi2",
        summary: "Two coupled queues: marks at once for L4S traffic, PI2 for the rest",
        source: "RFC 9332",
        params,
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let native = if values.choice("l_aqm") == "ramp" {
        Native::Ramp { start: values.whole("min_th"), range: values.whole("range") as f64 }
    } else {
        Native::Step(values.whole("step_thresh"))
    };
    let scheduler = if values.choice("scheduler") == "tsfifo" {
        Scheduler::ShiftedFifo { shift: values.whole("tshift") }
    } else {
        Scheduler::round_robin(values.number("c_protection"))
    };
    Ok(Box::new(DualPi2 {
        controller: PiController::from_values(values, seed),
        native,
        min_qlen_step: values.whole("min_qlen_step"),
        any_ect: values.choice("ecn_mask") == "any_ect",
        classic_ecn: values.flag("classic_ecn"),
        scheduler,
        limit: values.whole("limit"),
        memory_limit: values.optional("memory_limit").unwrap_or(u64::MAX),
        l: Lane::default(),
        c: Lane::default(),
        counters: Counters::default(),
    }))
}

/// How the L queue marks by its own delay.
#[derive(Clone, Copy, Debug)]
enum Native {
    Step(Nanos),
    /// RFC 9332 figure 5: from no marks at `start` to all at `range` beyond.
    Ramp {
        start: Nanos,
        range: f64,
    },
}

impl Native {
    fn probability(self, delay: Nanos) -> f64 {
        match self {
            Self::Step(threshold) => f64::from(delay > threshold),
            Self::Ramp { start, range } => (delay.saturating_sub(start) as f64 / range).min(1.0),
        }
    }
}

/// Which queue sends next.
#[derive(Clone, Copy, Debug)]
enum Scheduler {
    /// Weighted round robin by credit, as in Linux: what L sends while C waits earns C credit in
    /// proportion to C's weight, what C sends while L waits costs it in proportion to L's. L sends
    /// first unless C has credit, so an L queue within its share never waits for C.
    RoundRobin { credit: f64, start: f64, c_weight: f64 },
    /// RFC 9332 section 4.2.2: the head that waited longer, with `shift` added for L.
    ShiftedFifo { shift: Nanos },
}

impl Scheduler {
    fn round_robin(c_weight: f64) -> Self {
        let start = FRAME * (2.0 * c_weight - 1.0);
        Self::RoundRobin { credit: start, start, c_weight }
    }

    /// Whether L sends next, by when the heads arrived; `None` where a queue is empty.
    fn picks_l(&self, l: Option<Nanos>, c: Option<Nanos>) -> bool {
        let (Some(l), Some(c)) = (l, c) else {
            return l.is_some();
        };
        match self {
            Self::RoundRobin { credit, .. } => *credit <= 0.0,
            Self::ShiftedFifo { shift } => l <= c.saturating_add(*shift),
        }
    }

    /// `bytes` left from L or C while the other queue was waiting or not.
    fn sent(&mut self, from_l: bool, bytes: u32, other_waits: bool) {
        if let Self::RoundRobin { credit, c_weight, .. } = self
            && other_waits
        {
            let bytes = f64::from(bytes);
            *credit += if from_l { *c_weight * bytes } else { (*c_weight - 1.0) * bytes };
        }
    }

    /// Both queues are empty.
    fn reset(&mut self) {
        if let Self::RoundRobin { credit, start, .. } = self {
            *credit = *start;
        }
    }
}

/// One of the two queues.
#[derive(Debug)]
struct Lane<P> {
    backlog: Backlog<P>,
    /// Delay of the packet that left last.
    delay: Nanos,
}

impl<P> Default for Lane<P> {
    fn default() -> Self {
        Self { backlog: Backlog::default(), delay: 0 }
    }
}

#[derive(Debug)]
struct DualPi2<P> {
    controller: PiController,
    native: Native,
    min_qlen_step: u64,
    any_ect: bool,
    classic_ecn: bool,
    scheduler: Scheduler,
    limit: u64,
    memory_limit: u64,
    l: Lane<P>,
    c: Lane<P>,
    counters: Counters,
}

impl<P: Packet> DualPi2<P> {
    fn catch_up(&mut self, now: Nanos) {
        let oldest = match (self.l.backlog.oldest(), self.c.backlog.oldest()) {
            (Some(l), Some(c)) => Some(l.min(c)),
            (l, c) => l.or(c),
        };
        self.controller.catch_up(now, oldest);
    }

    fn belongs_to_l(&self, packet: &P) -> bool {
        match packet.ecn() {
            Ecn::Ect1 | Ecn::Ce => true,
            Ecn::Ect0 => self.any_ect,
            Ecn::NotEct => false,
        }
    }

    fn judge(&mut self, from_l: bool) -> Verdict {
        let backlog = self.l.backlog.bytes() + self.c.backlog.bytes();
        if !from_l {
            return match self.controller.judge_classic(backlog) {
                Verdict::Mark if !self.classic_ecn => Verdict::Drop,
                verdict => verdict,
            };
        }
        // The packet itself has left the queue but counts.
        let native = if self.l.backlog.packets() < self.min_qlen_step {
            0.0
        } else {
            self.native.probability(self.l.delay)
        };
        self.controller.judge_scalable(backlog, native)
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for DualPi2<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        self.catch_up(now);
        let bytes = self.backlog_bytes() + u64::from(packet.bytes());
        if self.backlog_packets() >= self.limit || bytes > self.memory_limit {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        let lane = if self.belongs_to_l(&packet) { &mut self.l } else { &mut self.c };
        lane.backlog.push(now, packet);
        Enqueued::Accepted
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        self.catch_up(now);
        loop {
            let heads = (self.l.backlog.oldest(), self.c.backlog.oldest());
            let from_l = self.scheduler.picks_l(heads.0, heads.1);
            let (lane, other) =
                if from_l { (&mut self.l, &self.c) } else { (&mut self.c, &self.l) };
            let Some(packet) = lane.backlog.pop() else {
                self.scheduler.reset();
                return Dequeued::Empty;
            };
            lane.delay = now.saturating_sub(packet.enqueued_at());
            let (bytes, other_waits) = (packet.bytes(), !other.backlog.is_empty());
            let verdict = self.judge(from_l);
            if let Some((packet, _)) = verdict.carry_out(packet, &mut self.counters, dropped) {
                self.scheduler.sent(from_l, bytes, other_waits);
                self.counters.dequeued += 1;
                return Dequeued::Packet(packet);
            }
        }
    }

    fn backlog(&self) -> Amount {
        self.l.backlog.amount() + self.c.backlog.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        self.catch_up(now);
        self.controller.record(out);
        for (delay, backlog, lane) in [
            ("l_delay_ms", "l_backlog_packets", &self.l),
            ("c_delay_ms", "c_backlog_packets", &self.c),
        ] {
            out(delay, lane.delay as f64 / 1e6);
            out(backlog, lane.backlog.packets() as f64);
        }
    }
}
