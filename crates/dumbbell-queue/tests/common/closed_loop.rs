//! Window-controlled flows over one link: the least that responds to a queue's signals.

// Each test binary uses a part of this.
#![allow(dead_code, unreachable_pub)]

use std::collections::VecDeque;

use dumbbell_queue::{Dequeued, Dropped, Ecn, Nanos};

use super::common::{MS, Queue, TestPacket};

/// Time of a packet of 1500 bytes on the link: 60 Mbit/s.
pub const SLOT: Nanos = 200_000;
/// Round-trip time without the queue.
pub const BASE_RTT: Nanos = 40 * MS;

/// Response to signals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Control {
    /// Halves at most once a round trip: mean window 1.22/sqrt(p).
    Reno(Ecn),
    /// Half a packet less for each mark, with ECT(1): mean window 2(1 - p)/p.
    Scalable,
}

/// What a flow got in the time that counts.
#[derive(Debug)]
pub struct Flow {
    control: Control,
    window: f64,
    in_flight: u64,
    cut_until: Nanos,
    sent: u64,
    pub delivered: u64,
    pub delays: Vec<Nanos>,
}

impl Flow {
    fn ecn(&self) -> Ecn {
        match self.control {
            Control::Reno(ecn) => ecn,
            Control::Scalable => Ecn::Ect1,
        }
    }

    fn on_feedback(&mut self, now: Nanos, rtt: Nanos, lost: bool, marked: bool) {
        self.in_flight -= 1;
        if !lost && !marked {
            self.window += 1.0 / self.window;
        } else if self.control == Control::Scalable && !lost {
            self.window -= 0.5;
        } else if now >= self.cut_until {
            self.window /= 2.0;
            self.cut_until = now + rtt;
        }
        self.window = self.window.max(2.0);
    }

    /// Mean queueing delay in ms.
    pub fn mean_delay_ms(&self) -> f64 {
        self.delays.iter().sum::<Nanos>() as f64 / self.delays.len() as f64 / MS as f64
    }
}

/// Runs flows for some seconds; the second half counts.
pub fn run(queue: &mut Queue, controls: &[Control], seconds: u64) -> Vec<Flow> {
    let mut flows: Vec<Flow> = controls
        .iter()
        .map(|&control| Flow {
            control,
            window: 10.0,
            in_flight: 0,
            cut_until: 0,
            sent: 0,
            delivered: 0,
            delays: Vec::new(),
        })
        .collect();
    let mut feedback = VecDeque::<(Nanos, TestPacket, bool)>::new();
    let mut dropped = Dropped::new();
    let end = seconds * 1000 * MS;
    for now in (0..end).step_by(SLOT as usize) {
        while feedback.front().is_some_and(|f| f.0 <= now) {
            let (at, packet, lost) = feedback.pop_front().unwrap();
            let flow = &mut flows[packet.flow as usize];
            flow.on_feedback(at, at - packet.at, lost, packet.ecn == Ecn::Ce);
        }
        for (index, flow) in flows.iter_mut().enumerate() {
            while (flow.in_flight as f64) < flow.window.floor() {
                let packet = TestPacket::new(index as u32, flow.sent, 1500).with_ecn(flow.ecn());
                queue.enqueue(now, TestPacket { at: now, ..packet }, &mut dropped);
                flow.sent += 1;
                flow.in_flight += 1;
            }
        }
        if let Dequeued::Packet(packet) = queue.dequeue(now, &mut dropped) {
            let flow = &mut flows[packet.flow as usize];
            if now >= end / 2 {
                flow.delivered += 1;
                flow.delays.push(now - packet.at);
            }
            feedback.push_back((now + BASE_RTT, packet, false));
        }
        for (packet, _) in dropped.drain(..) {
            feedback.push_back((now + BASE_RTT, packet, true));
        }
    }
    flows
}

/// Share of the link that was used in the time that counts.
pub fn utilisation(flows: &[Flow], seconds: u64) -> f64 {
    let delivered: u64 = flows.iter().map(|flow| flow.delivered).sum();
    (delivered * SLOT) as f64 / (seconds * 500 * MS) as f64
}
