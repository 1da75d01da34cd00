//! Weighted round robin: queues in turn, each by as many packets as its weight, all in one visit or, when
//! interleaved, one in each of several visits. It counts packets, so that larger ones get more of the
//! link.

use crate::classes;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::scheduler::{self, Order, Queues, Scheduler};
use crate::{Built, Dequeued, Dropped, Nanos, Packet};

pub(crate) fn info() -> QueueInfo {
    let mut params = scheduler::info();
    params.push(ParamInfo::new(
        "interleaved",
        Unit::Bool,
        false,
        "Send a class's packets of a round one by one among those of the others",
    ));
    QueueInfo {
        name: "wrr",
        summary: "Weighted round robin of classes, flows or hosts, by packets",
        source: "Katevenis, Sidiropoulos and Courcoubetis, IEEE JSAC 1991",
        params,
        classes: class_info(),
    }
}

fn class_info() -> Vec<ParamInfo> {
    let mut params = classes::info();
    params.push(
        ParamInfo::new("weight", Unit::Packets, 1, "Packets that the class sends in a round")
            .at_least(1.0)
            .at_most(1e9),
    );
    params
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    scheduler::build(values, &class_info(), seed, |count, classes| {
        let weights = if classes.is_empty() {
            vec![1; count]
        } else {
            classes.iter().map(|class| class.whole("weight")).collect()
        };
        Wrr::new(weights, values.flag("interleaved"))
    })
}

/// What a queue may still send in a round.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    packets: u64,
    round: u64,
}

#[derive(Debug)]
pub(crate) struct Wrr {
    interleaved: bool,
    weights: Vec<u64>,
    shares: Vec<Share>,
    round: u64,
    order: Order,
    /// Interleaved: queues that hold packets and have sent their share of this round.
    done: Order,
}

impl Wrr {
    pub(crate) fn new(weights: Vec<u64>, interleaved: bool) -> Self {
        let count = weights.len();
        Self {
            interleaved,
            weights,
            shares: vec![Share::default(); count],
            round: 1,
            order: Order::new(count),
            done: Order::new(count),
        }
    }

    /// Puts a queue on the list that its share of this round gives it a place on.
    fn place(&mut self, index: usize) {
        let share = &mut self.shares[index];
        if !self.interleaved || share.round != self.round {
            *share = Share { packets: self.weights[index], round: self.round };
        }
        if share.packets > 0 {
            self.order.push(index);
        } else {
            self.done.push(index);
        }
    }

    /// Begins the next round, if queues wait for it.
    fn next_round(&mut self) -> bool {
        let waiting = self.done.len() > 0;
        self.round += u64::from(waiting);
        self.done.sort();
        while let Some(index) = self.done.first() {
            self.done.remove_first();
            self.place(index);
        }
        waiting
    }

    /// The first queue has sent a packet.
    fn count(&mut self, index: usize, empty: bool) {
        let share = &mut self.shares[index];
        share.packets -= 1;
        let over = share.packets == 0;
        if empty || self.interleaved && over {
            self.order.remove_first();
            if !empty {
                self.place(index);
            }
        } else if self.interleaved || over {
            if over {
                share.packets = self.weights[index];
            }
            self.order.move_first_to_end();
        }
    }
}

impl Scheduler for Wrr {
    fn activate(&mut self, index: usize) {
        if !self.order.contains(index) {
            self.place(index);
        }
    }

    fn dequeue<P: Packet, Q: Queues<P>>(
        &mut self,
        queues: &mut Q,
        now: Nanos,
        dropped: &mut Dropped<P>,
    ) -> Dequeued<P> {
        // How many in a row had to wait, and until when the first of them.
        let (mut waiting, mut until) = (0, Nanos::MAX);
        loop {
            let Some(index) = self.order.first().filter(|_| waiting < self.order.len()) else {
                if self.next_round() {
                    continue;
                }
                return if waiting > 0 { Dequeued::Wait(until) } else { Dequeued::Empty };
            };
            match queues.take(index, now, dropped) {
                Dequeued::Packet(packet) => {
                    self.count(index, queues.is_empty(index));
                    return Dequeued::Packet(packet);
                }
                Dequeued::Wait(time) => {
                    (waiting, until) = (waiting + 1, until.min(time));
                    self.order.move_first_to_end();
                }
                Dequeued::Empty => self.order.remove_first(),
            }
        }
    }
}
