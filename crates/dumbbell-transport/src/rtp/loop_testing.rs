//! Controllers in a closed loop with an ideal encoder, a pacer and a drop-tail bottleneck, in
//! virtual time, for tests.

use std::collections::VecDeque;

use dumbbell_queue::{Ecn, Nanos};
use serde_json::{Map, Value};

use super::control::{Feedback, MediaController, PacketResult};
use super::controllers::recipe;

pub(super) const MS: Nanos = 1_000_000;
pub(super) const SECOND: Nanos = 1_000 * MS;
const TICK: Nanos = MS;

/// A controller with its defaults but for these parameters, a JSON object.
pub(super) fn controller(kind: &str, params: Value) -> Box<dyn MediaController> {
    let params = match params {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    recipe(kind, &params).unwrap_or_else(|error| panic!("{error}")).build(0)
}

struct Flow {
    controller: Box<dyn MediaController>,
    begins: Nanos,
    next_frame: Nanos,
    /// Bits that the encoder owes, less than a byte's.
    fraction: f64,
    /// Capture time and bytes of packets that wait.
    queue: VecDeque<(Nanos, u32)>,
    may_send: Nanos,
    next_seq: u64,
    in_flight: u64,
    sent: VecDeque<PacketResult>,
    reports: VecDeque<(Nanos, Vec<PacketResult>)>,
    srtt: Option<Nanos>,
    delivered: u64,
}

/// The path, and all flows over it.
pub(super) struct Loop {
    pub(super) capacity: f64,
    /// Longest queueing delay; packets that would wait longer are dropped.
    pub(super) buffer: Nanos,
    pub(super) one_way: Nanos,
    pub(super) report_every: Nanos,
    /// By how much the receiver's clock is ahead.
    pub(super) offset: Nanos,
    /// Of the encoders, and bytes of the largest packet.
    pub(super) frame_every: Nanos,
    pub(super) largest_packet: u32,
    flows: Vec<Flow>,
    now: Nanos,
    free: Nanos,
    lost: u64,
    entered: u64,
    /// Sum of queueing delays of packets that entered, and the bits of those that left.
    queueing: f64,
}

/// What was seen from one call of [`Loop::measure`] to its end.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Of each flow, bits per second.
    pub(super) throughput: Vec<f64>,
    pub(super) utilisation: f64,
    /// Mean of packets, ms.
    pub(super) queueing: f64,
    pub(super) loss: f64,
}

impl Loop {
    /// 50 ms each way and a buffer of 300 ms (RFC 8867 section 5.1), feedback every 100 ms.
    pub(super) fn new(capacity: f64) -> Self {
        Self {
            capacity,
            buffer: 300 * MS,
            one_way: 50 * MS,
            report_every: 100 * MS,
            offset: 0,
            frame_every: SECOND / 30,
            largest_packet: 1200,
            flows: Vec::new(),
            now: SECOND,
            free: 0,
            lost: 0,
            entered: 0,
            queueing: 0.0,
        }
    }

    /// Small packets at short intervals, nearly a fluid.
    pub(super) fn fluid(capacity: f64) -> Self {
        Self { frame_every: 5 * MS, largest_packet: 250, ..Self::new(capacity) }
    }

    /// A flow that begins so much later.
    pub(super) fn with(mut self, later: Nanos, controller: Box<dyn MediaController>) -> Self {
        let begins = self.now + later;
        self.flows.push(Flow {
            controller,
            begins,
            next_frame: begins,
            fraction: 0.0,
            queue: VecDeque::new(),
            may_send: begins,
            next_seq: 0,
            in_flight: 0,
            sent: VecDeque::new(),
            reports: VecDeque::new(),
            srtt: None,
            delivered: 0,
        });
        self
    }

    pub(super) fn rate(&self, flow: usize) -> f64 {
        self.flows[flow].controller.target_rate()
    }

    pub(super) fn run(&mut self, time: Nanos) {
        let end = self.now + time;
        while self.now < end {
            for flow in 0..self.flows.len() {
                if self.now >= self.flows[flow].begins {
                    self.step(flow);
                }
            }
            self.now += TICK;
        }
    }

    pub(super) fn measure(&mut self, time: Nanos) -> Measured {
        self.lost = 0;
        self.entered = 0;
        self.queueing = 0.0;
        for flow in &mut self.flows {
            flow.delivered = 0;
        }
        self.run(time);
        let seconds = time as f64 / 1e9;
        let throughput: Vec<f64> =
            self.flows.iter().map(|flow| flow.delivered as f64 * 8.0 / seconds).collect();
        Measured {
            utilisation: throughput.iter().sum::<f64>() / self.capacity,
            throughput,
            queueing: self.queueing / (self.entered - self.lost).max(1) as f64,
            loss: self.lost as f64 / self.entered.max(1) as f64,
        }
    }

    /// Mean of a recorded variable, ten times a second.
    pub(super) fn mean_recorded(&mut self, flow: usize, name: &str, time: Nanos) -> f64 {
        let samples = time / (100 * MS);
        let mut sum = 0.0;
        for _ in 0..samples {
            self.run(100 * MS);
            self.flows[flow].controller.record(&mut |recorded, value| {
                if recorded == name {
                    sum += value;
                }
            });
        }
        sum / samples as f64
    }

    fn step(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        if now == flow.begins {
            flow.controller.on_start(now);
        }
        while flow.reports.front().is_some_and(|(due, _)| *due <= now) {
            let (_, results) = flow.reports.pop_front().unwrap();
            flow.feed(now, &results);
        }
        if now >= flow.next_frame {
            flow.capture(now, self.frame_every, self.largest_packet);
        }
        while let Some(&(_, bytes)) = flow.queue.front() {
            let fits = flow
                .controller
                .window()
                .is_none_or(|window| flow.in_flight + u64::from(bytes) <= window);
            if now < flow.may_send || !fits {
                break;
            }
            flow.queue.pop_front();
            let pause = f64::from(bytes) * 8e9 / flow.controller.send_rate();
            // Up to a tick late counts as on time.
            flow.may_send = flow.may_send.max(now - TICK) + pause as Nanos;
            flow.in_flight += u64::from(bytes);
            flow.controller.on_sent(now, bytes, flow.in_flight);

            let wait = self.free.saturating_sub(now);
            let dropped = wait > self.buffer;
            self.entered += 1;
            let mut arrival = None;
            if dropped {
                self.lost += 1;
            } else {
                self.queueing += wait as f64 / 1e6;
                self.free = self.free.max(now) + (f64::from(bytes) * 8e9 / self.capacity) as Nanos;
                arrival = Some(self.free + self.one_way);
            }
            let result = PacketResult {
                seq: flow.next_seq,
                sent: now,
                bytes,
                arrival,
                ecn: Ecn::Ect0,
                probe: None,
            };
            flow.next_seq += 1;
            flow.sent.push_back(result);
        }
        if (now - flow.begins).is_multiple_of(self.report_every) {
            flow.report(now, now + self.one_way, self.offset);
        }
    }
}

impl Flow {
    fn capture(&mut self, now: Nanos, frame_every: Nanos, largest_packet: u32) {
        self.next_frame += frame_every;
        let bits = self.controller.target_rate() * frame_every as f64 / 1e9 + self.fraction;
        let mut bytes = (bits / 8.0) as u32;
        self.fraction = bits - f64::from(bytes) * 8.0;
        while bytes > 0 {
            let packet = bytes.min(largest_packet);
            self.queue.push_back((now, packet));
            bytes -= packet;
        }
    }

    /// The receiver reports all that has arrived; what was sent before the last of it and has not
    /// is lost.
    fn report(&mut self, now: Nanos, due: Nanos, offset: Nanos) {
        let arrived = |result: &PacketResult| result.arrival.is_some_and(|at| at <= now);
        let Some(last) = self.sent.iter().rposition(arrived) else { return };
        let results = self
            .sent
            .drain(..=last)
            .map(|r| PacketResult { arrival: r.arrival.map(|at| at + offset), ..r })
            .collect();
        self.reports.push_back((due, results));
    }

    fn feed(&mut self, now: Nanos, results: &[PacketResult]) {
        let bytes: u64 = results.iter().map(|r| u64::from(r.bytes)).sum();
        let received = results.iter().filter(|r| r.arrival.is_some());
        self.delivered += received.map(|r| u64::from(r.bytes)).sum::<u64>();
        self.in_flight -= bytes;
        let rtt = now - results[results.len() - 1].sent;
        let srtt = self.srtt.map_or(rtt, |srtt| (7 * srtt + rtt) / 8);
        self.srtt = Some(srtt);
        let newest = self.queue.back().map(|p| p.0);
        let queued = |all: bool| {
            let counted = self.queue.iter().filter(|p| all || Some(p.0) != newest);
            counted.map(|p| u64::from(p.1)).sum()
        };
        self.controller.on_feedback(&Feedback {
            now,
            results,
            rtt,
            srtt,
            in_flight: self.in_flight,
            queued: queued(true),
            backlog: queued(false),
            queue_delay: self.queue.front().map_or(0, |p| now - p.0),
        });
    }
}

/// Feed reports of packets sent every `interval` that arrive after delays given in ms; `None`: lost.
/// One report for each `per_report` packets, `delay` after its last one was sent.
pub(super) fn feed(
    controller: &mut dyn MediaController,
    begin: Nanos,
    interval: Nanos,
    bytes: u32,
    per_report: usize,
    delays: &[Option<u64>],
) {
    let results: Vec<PacketResult> = delays
        .iter()
        .enumerate()
        .map(|(seq, delay)| {
            let sent = begin + seq as u64 * interval;
            let arrival = delay.map(|delay| sent + delay * MS);
            PacketResult { seq: seq as u64, sent, bytes, arrival, ecn: Ecn::NotEct, probe: None }
        })
        .collect();
    for results in results.chunks(per_report) {
        let now = results[results.len() - 1].sent + 100 * MS;
        let (rtt, srtt) = (100 * MS, 100 * MS);
        controller.on_feedback(&Feedback {
            now,
            results,
            rtt,
            srtt,
            in_flight: 0,
            queued: 0,
            backlog: 0,
            queue_delay: 0,
        });
    }
}
