//! PI2 (De Schepper et al., CoNEXT 2016) on a single FIFO: classic packets are dropped or marked with
//! the square of the controller's probability, scalable ones marked in proportion to it.

use crate::backlog::Backlog;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::pi_controller::{self, PiController};
use crate::verdict::Verdict;
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Ecn, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

pub(crate) fn info() -> QueueInfo {
    let mut params = pi_controller::info();
    params.extend([
        ParamInfo::new(
            "ecn",
            Unit::Bool,
            true,
            "Mark classic ECN-capable packets (ECT(0)), not drop them; ECT(1) is always marked",
        ),
        ParamInfo::new("limit", Unit::Packets, 10_000, "Most packets held; tail drop")
            .at_least(1.0),
    ]);
    QueueInfo {
        name: "pi2",
        summary: "Holds the delay at a target; squares the probability for classic traffic",
        source: "De Schepper et al., CoNEXT 2016; RFC 9332 appendix A",
        params,
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    Ok(Box::new(Pi2 {
        controller: PiController::from_values(values, seed),
        ecn: values.flag("ecn"),
        limit: values.whole("limit"),
        backlog: Backlog::default(),
        counters: Counters::default(),
    }))
}

/// A FIFO under PI2.
#[derive(Debug)]
struct Pi2<P> {
    controller: PiController,
    ecn: bool,
    limit: u64,
    backlog: Backlog<P>,
    counters: Counters,
}

impl<P: Packet + Send> QueueDiscipline<P> for Pi2<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        self.controller.catch_up(now, self.backlog.oldest());
        if self.backlog.packets() >= self.limit {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        let backlog = self.backlog.bytes();
        let verdict = match packet.ecn() {
            Ecn::Ect1 | Ecn::Ce => self.controller.judge_scalable(backlog, 0.0),
            Ecn::NotEct | Ecn::Ect0 => match self.controller.judge_classic(backlog) {
                Verdict::Mark if !self.ecn => Verdict::Drop,
                verdict => verdict,
            },
        };
        let Some((packet, outcome)) = verdict.carry_out(packet, &mut self.counters, dropped) else {
            return Enqueued::Dropped;
        };
        self.backlog.push(now, packet);
        outcome
    }

    fn dequeue(&mut self, now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        self.controller.catch_up(now, self.backlog.oldest());
        self.counters.deliver(self.backlog.pop())
    }

    fn backlog(&self) -> Amount {
        self.backlog.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        self.controller.catch_up(now, self.backlog.oldest());
        self.controller.record(out);
    }
}
