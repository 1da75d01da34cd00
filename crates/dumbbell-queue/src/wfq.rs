//! Weighted fair queueing by virtual time, as start-time fair queueing (Goyal, Vin and Cheng 1997): a
//! packet's start tag is the later of the virtual time and the finish tag of the packet before it in its
//! queue, its finish tag is its size over the weight later, and the smallest start tag goes first. The
//! virtual time is the start tag of the packet in service.
//!
//! It needs no size of a packet before that is sent, so that an AQM inside a class judges each packet when
//! it leaves; fairness is that of tags by finish times (SCFQ).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::classes;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::scheduler::{self, Queues, Scheduler};
use crate::{Built, Dequeued, Dropped, Nanos, Packet};

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "wfq",
        summary: "Weighted fair queueing of classes, flows or hosts, by virtual time",
        source: "Goyal, Vin and Cheng, IEEE/ACM Transactions on Networking 1997",
        params: scheduler::info(),
        classes: class_info(),
    }
}

fn class_info() -> Vec<ParamInfo> {
    let mut params = classes::info();
    params.push(
        ParamInfo::new("weight", Unit::Number, 1.0, "Share of the link over that of the others")
            .at_least(1e-3)
            .at_most(1e6),
    );
    params
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    scheduler::build(values, &class_info(), seed, |count, classes| Wfq {
        weights: if classes.is_empty() {
            vec![1.0; count]
        } else {
            classes.iter().map(|class| class.number("weight")).collect()
        },
        finish: vec![0.0; count],
        listed: vec![false; count],
        heads: BinaryHeap::new(),
        arrivals: 0,
        virtual_time: 0.0,
        last_finish: 0.0,
    })
}

/// The first packet of a queue.
#[derive(Clone, Copy, Debug)]
struct Tagged {
    start: f64,
    /// Breaks ties: first come, first served.
    arrival: u64,
    index: u32,
}

/// The greatest goes first: that with the smallest start tag.
impl Ord for Tagged {
    fn cmp(&self, other: &Self) -> Ordering {
        other.start.total_cmp(&self.start).then(other.arrival.cmp(&self.arrival))
    }
}

impl PartialOrd for Tagged {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Tagged {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Tagged {}

/// Tags and the virtual time are in bytes over weight.
#[derive(Debug)]
struct Wfq {
    weights: Vec<f64>,
    /// Finish tag of the packet that each queue sent last.
    finish: Vec<f64>,
    /// Queues that have an entry in `heads`.
    listed: Vec<bool>,
    heads: BinaryHeap<Tagged>,
    arrivals: u64,
    virtual_time: f64,
    /// The largest finish tag.
    last_finish: f64,
}

impl Wfq {
    fn push(&mut self, index: usize) {
        self.listed[index] = true;
        self.arrivals += 1;
        let start = self.virtual_time.max(self.finish[index]);
        self.heads.push(Tagged { start, arrival: self.arrivals, index: index as u32 });
    }
}

impl Scheduler for Wfq {
    fn activate(&mut self, index: usize) {
        if self.listed[index] {
            return;
        }
        if self.heads.is_empty() {
            // A busy period ends with the largest finish tag (section II of the paper).
            self.virtual_time = self.last_finish;
        }
        self.push(index);
    }

    fn dequeue<P: Packet, Q: Queues<P>>(
        &mut self,
        queues: &mut Q,
        now: Nanos,
        dropped: &mut Dropped<P>,
    ) -> Dequeued<P> {
        let mut waiting = Vec::new();
        let mut result = Dequeued::Empty;
        while let Some(head) = self.heads.pop() {
            let index = head.index as usize;
            match queues.take(index, now, dropped) {
                Dequeued::Packet(packet) => {
                    // A queue that had to wait for its own shaper may be behind.
                    self.virtual_time = self.virtual_time.max(head.start);
                    let cost = f64::from(packet.bytes()) / self.weights[index];
                    self.finish[index] = self.virtual_time + cost;
                    self.last_finish = self.last_finish.max(self.finish[index]);
                    self.listed[index] = false;
                    if !queues.is_empty(index) {
                        self.push(index);
                    }
                    result = Dequeued::Packet(packet);
                    break;
                }
                Dequeued::Wait(until) => {
                    waiting.push(head);
                    result = match result {
                        Dequeued::Wait(earlier) => Dequeued::Wait(earlier.min(until)),
                        _ => Dequeued::Wait(until),
                    };
                }
                Dequeued::Empty => self.listed[index] = false,
            }
        }
        self.heads.extend(waiting);
        result
    }
}
