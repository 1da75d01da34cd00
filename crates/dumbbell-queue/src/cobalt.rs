//! COBALT, CoDel with BLUE as CAKE has it (Linux), with signals of SCE: the state machine, apart from
//! any queue, and the discipline that puts it on a single FIFO.
//!
//! CoDel is restated so that one schedule serves for all: it is at rest with a count of zero, speeds up
//! while the delay is over target, and slows down again in the same steps while it is not. BLUE drops
//! at random from flows that fill their queue and do not answer to the signals.

use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::backlog::Backlog;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::random::uniform;
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Ecn, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// As CoDel (RFC 8289 section 4.2).
const TARGET: Nanos = 5_000_000;
const INTERVAL: Nanos = 100_000_000;
/// Steps of BLUE's probability in CAKE.
pub(crate) const BLUE_INCREMENT: f64 = 1.0 / 256.0;
pub(crate) const BLUE_DECREMENT: f64 = 1.0 / 4096.0;
/// Delay from which on BLUE takes a queue for full: four intervals.
const BLUE_THRESHOLD: Nanos = 400_000_000;
/// A delay of so many packet times is none that senders could help; half of it for SCE by schedule.
const SPARED_PACKETS: u64 = 4;
const HOUR: f64 = 3.6e12;

/// How a [`Cobalt`] gives signals of SCE, to packets with ECT(0) only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sce {
    Off,
    /// At random, with a probability that rises with the delay.
    Ramp(Ramp),
    /// By a second schedule, with a target and an interval of its own.
    Schedule {
        target: Nanos,
        interval: Nanos,
    },
}

impl Sce {
    /// The schedule of `sce-thresh n` in the SCE kernel: half the target, and an interval n times
    /// shorter.
    pub(crate) fn schedule(target: Nanos, interval: Nanos, n: u64) -> Self {
        Self::Schedule { target: target / 2, interval: (interval / n).max(1) }
    }

    /// The parameter `sce_thresh`, of the queues that know SCE by schedule.
    pub(crate) fn info() -> ParamInfo {
        ParamInfo::new(
            "sce_thresh",
            Unit::Count,
            serde_json::Value::Null,
            "Also signal SCE, from half the target on and this many times as fast as CE",
        )
        .at_least(1.0)
        .at_most(1024.0)
    }
}

/// Probability of an SCE mark, by the delay: it rises from half the target to the `knee` at the target,
/// and from there to one at twice the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ramp {
    knee: f64,
}

impl Ramp {
    pub(crate) const NAMES: [&str; 3] = ["below", "straddling", "above"];

    /// Below: all of it up to the target. Above: all of it from the target on. Straddling: one in
    /// `n` at the target.
    pub(crate) fn named(name: &str, n: u64) -> Option<Self> {
        let knee = match name {
            "below" => 1.0,
            "straddling" => 1.0 / n as f64,
            "above" => 0.0,
            _ => return None,
        };
        Some(Self { knee })
    }

    /// The upper slope is for delays that COBALT takes for over target.
    fn probability(self, delay: Nanos, target: Nanos, over: bool) -> f64 {
        let (delay, target) = (delay as f64, target as f64);
        if over {
            self.knee + (delay - target) * (1.0 - self.knee) / target
        } else {
            (delay - target / 2.0).max(0.0) * self.knee / (target / 2.0)
        }
    }
}

/// Settings of the state machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CobaltParams {
    pub(crate) target: Nanos,
    pub(crate) interval: Nanos,
    /// Time that a packet of the largest size takes on the link.
    pub(crate) mtu_time: Nanos,
    /// Mark ECN-capable packets in place of dropping them. BLUE drops them all the same.
    pub(crate) ecn: bool,
    pub(crate) blue_increment: f64,
    pub(crate) blue_decrement: f64,
    /// A packet delayed for longer raises BLUE's probability as an overflow does.
    pub(crate) blue_threshold: Nanos,
    pub(crate) sce: Sce,
}

impl CobaltParams {
    /// Without SCE.
    pub(crate) fn from_values(values: &Values) -> Self {
        Self {
            target: values.whole("target"),
            interval: values.whole("interval"),
            mtu_time: values.whole("mtu_time"),
            ecn: values.flag("ecn"),
            blue_increment: values.number("blue_increment"),
            blue_decrement: values.number("blue_decrement"),
            blue_threshold: values.whole("blue_threshold"),
            sce: Sce::Off,
        }
    }

    /// With SCE by schedule where `sce_thresh` is given.
    pub(crate) fn with_schedule(values: &Values) -> Self {
        let params = Self::from_values(values);
        let sce = values
            .optional("sce_thresh")
            .map_or(Sce::Off, |n| Sce::schedule(params.target, params.interval, n));
        Self { sce, ..params }
    }

    fn is_over(&self, leaving: Leaving) -> bool {
        let spared = self.mtu_time * SPARED_PACKETS.max(2 * leaving.bulk_flows);
        leaving.weighed > self.target && leaving.sojourn > spared
    }

    pub(crate) fn info() -> Vec<ParamInfo> {
        let time = |name, default, doc| {
            ParamInfo::new(name, Unit::Time, default, doc).at_least(1.0).at_most(HOUR)
        };
        let step = |name, default: f64, doc| {
            ParamInfo::new(name, Unit::Fraction, default, doc).at_least(0.0).at_most(1.0)
        };
        vec![
            time("target", TARGET, "Standing delay that is acceptable"),
            time("interval", INTERVAL, "Time over target before the first signal"),
            ParamInfo::new(
                "mtu_time",
                Unit::Time,
                0,
                "Time of a full packet on the link; delays of less than four give no signal",
            )
            .at_most(HOUR),
            ParamInfo::new("ecn", Unit::Bool, true, "Mark ECN-capable packets, not drop them"),
            time("blue_threshold", BLUE_THRESHOLD, "Delay that raises BLUE's drop probability"),
            step("blue_increment", BLUE_INCREMENT, "Step up of BLUE's probability, once a target"),
            step("blue_decrement", BLUE_DECREMENT, "Step down of it, while the queue is empty"),
        ]
    }
}

/// When signals are due: at gaps of interval/sqrt(count).
#[derive(Clone, Copy, Debug, Default)]
struct Schedule {
    next: Nanos,
    count: u32,
    signalling: bool,
    /// The gap is still zero, see [`Cobalt::of_linux`].
    unset: bool,
}

/// What a [`Schedule`] says of the packet that leaves.
#[derive(Clone, Copy, Debug)]
struct Step {
    due: bool,
    /// The schedule lies in the past. As in Linux, what it was before `signalling` counts, so that a
    /// queue that comes back over target from a long pause is signalled without delay.
    late: bool,
}

impl Schedule {
    fn advance(&mut self, interval: Nanos) {
        let gap = match self.count {
            _ if self.unset => 0,
            0 | 1 => interval,
            count => (interval as f64 / f64::from(count).sqrt()) as Nanos,
        };
        self.next = self.next.saturating_add(gap);
    }

    /// A packet leaves whose delay is over the target, or not. Where a signal is due, the caller calls
    /// [`Self::signalled`] if it could give one, and then [`Self::rest`] in any case.
    fn step(&mut self, now: Nanos, interval: Nanos, over: bool) -> Step {
        let mut step = Step { due: self.count > 0 && now >= self.next, late: now > self.next };
        if over && !self.signalling {
            self.next = now;
            self.advance(interval);
        }
        self.signalling = over;
        if over {
            self.count = self.count.max(1);
        } else if step.due {
            step.late = self.calm(now, interval);
            step.due = false;
        }
        step
    }

    fn set_count(&mut self, count: u32, interval: Nanos) {
        self.count = count;
        self.unset = false;
        self.advance(interval);
    }

    /// Slows down by all the steps that fell due; tells whether it still lies in the past.
    fn calm(&mut self, now: Nanos, interval: Nanos) -> bool {
        while self.count > 0 && now >= self.next {
            self.set_count(self.count - 1, interval);
        }
        now > self.next
    }

    fn signalled(&mut self, now: Nanos, interval: Nanos) -> Step {
        self.set_count(self.count.saturating_add(1), interval);
        Step { due: false, late: now > self.next }
    }

    /// Keeps a schedule that has no count, or that nothing came of, from falling behind.
    fn rest(&mut self, now: Nanos, interval: Nanos, late: bool) {
        if self.count == 0 {
            self.next = now.saturating_add(interval);
        } else if late {
            self.next = now;
        }
    }

    /// The queue was found empty: at most one step down.
    fn idle(&mut self, now: Nanos, interval: Nanos) {
        self.signalling = false;
        if self.count > 0 && now >= self.next {
            self.set_count(self.count - 1, interval);
        }
    }
}

/// A packet about to leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub(crate) sojourn: Nanos,
    /// What is compared with the targets: the sojourn time, or more or less for flows with more or
    /// less than their share of the queue.
    pub(crate) weighed: Nanos,
    /// Bulk flows beside which the packet waited. It may wait for two packets of each; 0 where that
    /// does not count.
    pub(crate) bulk_flows: u64,
    /// The queue is empty behind it. It is not dropped then: it tells the receiver of earlier losses.
    pub(crate) last: bool,
}

impl Leaving {
    pub(crate) fn new(packet: &impl Packet, now: Nanos, last: bool) -> Self {
        let sojourn = now.saturating_sub(packet.enqueued_at());
        Self { sojourn, weighed: sojourn, bulk_flows: 0, last }
    }
}

/// State of COBALT.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cobalt {
    ce: Schedule,
    sce: Schedule,
    blue_probability: f64,
    blue_changed: Nanos,
}

impl Cobalt {
    /// As in Linux's sch_cake, where the gap of a queue is zero until its count first changes: the first
    /// time that a queue is over target, its second packet is signalled.
    pub(crate) fn of_linux() -> Self {
        Self { ce: Schedule { unset: true, ..Schedule::default() }, ..Self::default() }
    }

    pub(crate) fn count(&self) -> u32 {
        self.ce.count
    }

    pub(crate) fn blue_probability(&self) -> f64 {
        self.blue_probability
    }

    /// Whether there is nothing left to decay.
    pub(crate) fn at_rest(&self, now: Nanos) -> bool {
        self.blue_probability == 0.0 && self.ce.count == 0 && now >= self.ce.next
    }

    /// Signals congestion with a packet about to leave: marks it, or says that it should be dropped.
    pub(crate) fn should_drop<P: Packet>(
        &mut self,
        now: Nanos,
        params: &CobaltParams,
        leaving: Leaving,
        packet: &mut P,
        counters: &mut Counters,
        random: &mut Pcg32,
    ) -> bool {
        let mut step = self.ce.step(now, params.interval, params.is_over(leaving));
        if leaving.weighed > params.blue_threshold {
            self.raise_blue(now, params);
        }
        // ECN does not help here: BLUE is for flows that do not respond.
        let blue = self.blue_probability > 0.0 && uniform(random) < self.blue_probability;
        let mut drop = blue;
        if step.due {
            let stays = leaving.last || !blue;
            drop |= !(params.ecn && stays && counters.mark_ce(packet));
            step = self.ce.signalled(now, params.interval);
        }
        self.ce.rest(now, params.interval, step.late && !drop);
        let drop = drop && !leaving.last;
        if !drop {
            self.mark_sce(now, params, leaving, packet, counters, random);
        }
        drop
    }

    fn mark_sce<P: Packet>(
        &mut self,
        now: Nanos,
        params: &CobaltParams,
        leaving: Leaving,
        packet: &mut P,
        counters: &mut Counters,
        random: &mut Pcg32,
    ) {
        match params.sce {
            Sce::Off => {}
            Sce::Ramp(ramp) => {
                let over = params.is_over(leaving);
                let probability = ramp.probability(leaving.weighed, params.target, over);
                if probability > 0.0 && packet.ecn() == Ecn::Ect0 && uniform(random) < probability {
                    counters.mark_sce(packet);
                }
            }
            Sce::Schedule { target, interval } => {
                let spared = params.mtu_time * SPARED_PACKETS / 2;
                let over = leaving.weighed > target && leaving.sojourn > spared;
                let mut step = self.sce.step(now, interval, over);
                if step.due && counters.mark_sce(packet) {
                    step = self.sce.signalled(now, interval);
                }
                self.sce.rest(now, interval, step.late);
            }
        }
    }

    /// A packet had to be dropped because the queue is full.
    pub(crate) fn queue_full(&mut self, now: Nanos, params: &CobaltParams) {
        self.raise_blue(now, params);
        self.ce.signalling = true;
        self.ce.next = now;
        self.ce.count = self.ce.count.max(1);
    }

    fn raise_blue(&mut self, now: Nanos, params: &CobaltParams) {
        if now.saturating_sub(self.blue_changed) > params.target {
            self.blue_probability = (self.blue_probability + params.blue_increment).min(1.0);
            self.blue_changed = now;
        }
    }

    /// The queue was served and had nothing.
    pub(crate) fn queue_empty(&mut self, now: Nanos, params: &CobaltParams) {
        if self.blue_probability > 0.0 && now.saturating_sub(self.blue_changed) > params.target {
            self.blue_probability = (self.blue_probability - params.blue_decrement).max(0.0);
            self.blue_changed = now;
        }
        self.ce.idle(now, params.interval);
        if let Sce::Schedule { interval, .. } = params.sce {
            self.sce.idle(now, interval);
        }
    }
}

pub(crate) fn info() -> QueueInfo {
    let mut params = CobaltParams::info();
    params.extend([
        Sce::info(),
        ParamInfo::new("limit", Unit::Packets, 10_240, "Most packets held; tail drop")
            .at_least(1.0),
    ]);
    QueueInfo {
        name: "cobalt",
        summary: "CoDel that decays as it grew, with BLUE against flows that do not respond",
        source: "Linux sch_cake; Hoiland-Jorgensen, Taht and Morton 2018",
        params,
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    Ok(Box::new(CobaltQueue {
        params: CobaltParams::with_schedule(values),
        limit: values.whole("limit"),
        cobalt: Cobalt::default(),
        backlog: Backlog::default(),
        random: Pcg32::seed_from_u64(seed),
        counters: Counters::default(),
    }))
}

/// A FIFO under COBALT.
#[derive(Debug)]
struct CobaltQueue<P> {
    params: CobaltParams,
    limit: u64,
    cobalt: Cobalt,
    backlog: Backlog<P>,
    random: Pcg32,
    counters: Counters,
}

impl<P: Packet + Send> QueueDiscipline<P> for CobaltQueue<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        if self.backlog.packets() >= self.limit {
            self.cobalt.queue_full(now, &self.params);
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        self.backlog.push(now, packet);
        Enqueued::Accepted
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        while let Some(mut packet) = self.backlog.pop() {
            let drop = self.cobalt.should_drop(
                now,
                &self.params,
                Leaving::new(&packet, now, self.backlog.is_empty()),
                &mut packet,
                &mut self.counters,
                &mut self.random,
            );
            if !drop {
                self.counters.dequeued += 1;
                return Dequeued::Packet(packet);
            }
            self.counters.drop(packet, DropReason::Aqm, dropped);
        }
        self.cobalt.queue_empty(now, &self.params);
        Dequeued::Empty
    }

    fn backlog(&self) -> Amount {
        self.backlog.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, _now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        out("cobalt_count", f64::from(self.cobalt.count()));
        out("sce_count", f64::from(self.cobalt.sce.count));
        out("blue_probability", self.cobalt.blue_probability());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn probability(name: &str, n: u64, delay: Nanos) -> f64 {
        let target = 5 * MS;
        Ramp::named(name, n).unwrap().probability(delay, target, delay > target)
    }

    /// The three ramps of the SCE kernel's CAKE, at a target of 5 ms: 0 at T/2, 1/N at T and 1 at 2T,
    /// with N = 1 (below), N (straddling) and infinity (above).
    #[test]
    fn ramps_rise_from_half_the_target_to_the_knee_and_to_twice_the_target() {
        let delays = [2_500_000, 3_750_000, 5_000_000, 7_500_000, 10_000_000];
        for (name, n, expected) in [
            ("below", 7, [0.0, 0.5, 1.0, 1.0, 1.0]),
            ("straddling", 4, [0.0, 0.125, 0.25, 0.625, 1.0]),
            ("straddling", 64, [0.0, 1.0 / 128.0, 1.0 / 64.0, 65.0 / 128.0, 1.0]),
            ("above", 7, [0.0, 0.0, 0.0, 0.5, 1.0]),
        ] {
            for (delay, expected) in delays.into_iter().zip(expected) {
                let got = probability(name, n, delay);
                assert!((got - expected).abs() < 1e-12, "{name} {n} {delay}: {got}");
            }
            assert_eq!(probability(name, n, 0), 0.0);
        }
    }

    /// A schedule with count 3 slows down at the gaps at which it would have sped up: the count falls
    /// 100/sqrt(2), 100 and 100 ms apart (counts 2, 1 and 0), wherever it is looked at.
    #[test]
    fn the_schedule_decays_as_it_grew() {
        let busy = Schedule { next: 1000 * MS, count: 3, signalling: true, unset: false };
        let count_at = |now| {
            let mut schedule = busy;
            assert!(!schedule.step(now, 100 * MS, false).due);
            schedule.count
        };
        assert_eq!(count_at(1000 * MS - 1), 3);
        assert_eq!(count_at(1000 * MS), 2);
        assert_eq!((count_at(1070 * MS), count_at(1071 * MS)), (2, 1));
        assert_eq!((count_at(1170 * MS), count_at(1171 * MS)), (1, 0));
        assert_eq!(count_at(u64::MAX), 0);
    }

    /// A schedule at rest waits for a full interval from the last packet that was not over target.
    #[test]
    fn a_schedule_without_a_count_is_always_an_interval_away() {
        let mut schedule = Schedule::default();
        let step = schedule.step(500 * MS, 100 * MS, false);
        schedule.rest(500 * MS, 100 * MS, step.late);
        assert_eq!((schedule.next, schedule.count), (600 * MS, 0));
    }
}
