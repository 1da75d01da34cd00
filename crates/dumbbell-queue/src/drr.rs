//! Deficit round robin (Shreedhar and Varghese 1995): queues in turn, each by as many bytes as its
//! quantum, where what a packet did not fit in is kept for the next round.

use crate::classes;
use crate::flow_queue::quantum_info;
use crate::params::{ParamInfo, QueueInfo, Values};
use crate::scheduler::{self, Head, Order, Queues, Scheduler};
use crate::{Built, Dequeued, Dropped, Nanos, Packet};

pub(crate) fn info() -> QueueInfo {
    let mut params = scheduler::info();
    params.push(ParamInfo {
        doc: "Without classes: bytes that a queue sends in a round",
        ..quantum_info()
    });
    QueueInfo {
        name: "drr",
        summary: "Deficit round robin of classes, flows or hosts, by bytes",
        source: "Shreedhar and Varghese, SIGCOMM 1995; Linux sch_drr",
        params,
        classes: class_info(),
    }
}

fn class_info() -> Vec<ParamInfo> {
    let mut params = classes::info();
    params.push(ParamInfo { doc: "Bytes that the class sends in a round", ..quantum_info() });
    params
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    scheduler::build(values, &class_info(), seed, |count, classes| {
        Drr::new(if classes.is_empty() {
            vec![values.whole("quantum"); count]
        } else {
            classes.iter().map(|class| class.whole("quantum")).collect()
        })
    })
}

#[derive(Debug)]
pub(crate) struct Drr {
    quanta: Vec<u64>,
    /// Bytes that each queue may still send in this round.
    deficits: Vec<u64>,
    order: Order,
}

impl Drr {
    pub(crate) fn new(quanta: Vec<u64>) -> Self {
        let count = quanta.len();
        Self { quanta, deficits: vec![0; count], order: Order::new(count) }
    }
}

impl Scheduler for Drr {
    fn activate(&mut self, index: usize) {
        if self.order.push(index) {
            self.deficits[index] = self.quanta[index];
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
        while let Some(index) = self.order.first() {
            match queues.head(index, now, dropped) {
                Head::Bytes(bytes) if u64::from(bytes) <= self.deficits[index] => {
                    self.deficits[index] -= u64::from(bytes);
                    let packet = queues.take(index, now, dropped);
                    if queues.is_empty(index) {
                        self.order.remove_first();
                    }
                    return packet;
                }
                Head::Bytes(_) => {
                    self.deficits[index] += self.quanta[index];
                    self.order.move_first_to_end();
                    waiting = 0;
                }
                Head::Wait(time) => {
                    (waiting, until) = (waiting + 1, until.min(time));
                    self.order.move_first_to_end();
                }
                Head::Empty => self.order.remove_first(),
            }
            if waiting > 0 && waiting >= self.order.len() {
                return Dequeued::Wait(until);
            }
        }
        Dequeued::Empty
    }
}
