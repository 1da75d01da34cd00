//! Core-stateless fair queueing (Stoica, Shenker and Zhang, SIGCOMM 1998): fair shares by one FIFO
//! without state per flow.
//!
//! The edge of a network measures the rate of each sender and writes it into the packets. Every node
//! estimates the fair share of its link from three totals, and drops a packet with the probability
//! that leaves the fair share of the rate on its label.

use std::collections::HashMap;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use serde_json::json;

use crate::backlog::Backlog;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::profile::Profiles;
use crate::random::uniform;
use crate::{
    Amount, BuildError, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// What a packet that finds no room takes off the fair share, and the most that may be taken so in a
/// window (the paper's section 3: by a small amount each time, no more than a quarter in all).
const OVERFLOW_CUT: f64 = 0.01;
const OVERFLOW_CUT_MOST: f64 = 0.25;

pub(crate) fn info() -> QueueInfo {
    let time =
        |name, default: u64, doc| ParamInfo::new(name, Unit::Time, default, doc).at_least(1.0);
    QueueInfo {
        name: "csfq",
        summary: "Core-stateless fair queueing: drops what exceeds the fair share of the labelled rate",
        source: "Stoica, Shenker and Zhang, SIGCOMM 1998",
        params: vec![
            ParamInfo::new(
                "edge",
                Unit::Bool,
                false,
                "Measure each sending host and label its packets, as the edge of the network does",
            ),
            ParamInfo::new("rate", Unit::LinkRate, 10_000_000, "Rate of the link").at_least(1.0),
            weight(),
            ParamInfo::new("classes", Unit::Classes, json!([]), "Weights by DSCP"),
            time("averaging", 100_000_000, "Averaging constant of a sender's rate (K)"),
            time("link_averaging", 200_000_000, "Averaging constant of the link's rates (K_alpha)"),
            time("window", 100_000_000, "Time between changes of the fair share (K_c)"),
            ParamInfo::new(
                "threshold",
                Unit::Bytes,
                16_000,
                "The link is not congested while less is queued",
            ),
            ParamInfo::new("limit_bytes", Unit::Bytes, 64_000, "Most bytes held; tail drop")
                .at_least(1.0),
        ],
        classes: Profiles::info(weight()),
    }
}

fn weight() -> ParamInfo {
    ParamInfo::new("weight", Unit::Number, 1.0, "Share of a sender relative to others")
        .at_least(1e-3)
        .at_most(1e3)
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let edge = Edge::from_values(values)?;
    Ok(Box::new(Csfq {
        edge: values.flag("edge").then_some(edge),
        share: FairShare::new(values),
        random: Pcg32::seed_from_u64(seed),
        limit: values.whole("limit_bytes"),
        backlog: Backlog::default(),
        counters: Counters::default(),
    }))
}

/// A rate averaged exponentially with the time between packets (the paper's equation 3), in bit/s.
#[derive(Clone, Copy, Debug)]
struct Rate {
    value: f64,
    last: Nanos,
}

impl Rate {
    /// `constant` is in nanoseconds.
    fn add(&mut self, now: Nanos, constant: f64, bytes: u32) {
        let bits = f64::from(bytes) * 8e9;
        let passed = now.saturating_sub(self.last) as f64;
        self.last = now;
        let gone = -(-passed / constant).exp_m1();
        // With packets at the same time, the limit for a short one.
        let weight = if passed > 0.0 { gone / passed } else { 1.0 / constant };
        self.value = weight * bits + (1.0 - gone) * self.value;
    }
}

/// The rates of senders.
#[derive(Clone, Debug)]
struct Edge {
    weights: Profiles,
    averaging: f64,
    senders: HashMap<u32, Rate>,
}

impl Edge {
    fn from_values(values: &Values) -> Result<Self, BuildError> {
        Ok(Self {
            weights: Profiles::from_values(values, weight())?,
            averaging: values.number("averaging"),
            senders: HashMap::new(),
        })
    }

    /// The label of a packet: its sender's rate over its weight.
    fn label(&mut self, now: Nanos, packet: &impl Packet) -> f64 {
        let unknown = Rate { value: 0.0, last: now };
        let rate = self.senders.entry(packet.source()).or_insert(unknown);
        rate.add(now, self.averaging, packet.bytes());
        rate.value / self.weights.of(packet)
    }
}

/// The estimate of the fair share, apart from the queue. Rates are in bit/s, times in nanoseconds.
#[derive(Clone, Debug)]
struct FairShare {
    link: f64,
    averaging: f64,
    window: Nanos,
    threshold: u64,
    arrived: Rate,
    accepted: Rate,
    alpha: f64,
    congested: bool,
    window_start: Nanos,
    /// The largest label of the window, while not congested.
    largest: f64,
    /// The least that overflows may make of alpha in this window.
    floor: f64,
}

impl FairShare {
    fn new(values: &Values) -> Self {
        let link = values.whole("rate") as f64;
        Self {
            link,
            averaging: values.number("link_averaging"),
            window: values.whole("window"),
            threshold: values.whole("threshold"),
            arrived: Rate { value: 0.0, last: 0 },
            accepted: Rate { value: 0.0, last: 0 },
            alpha: link,
            congested: false,
            window_start: 0,
            largest: 0.0,
            floor: link * (1.0 - OVERFLOW_CUT_MOST),
        }
    }

    /// The probability to drop a packet, with so many bytes queued. While the link is not congested,
    /// the largest label of a window is no bound for senders whose rate rises in the next one.
    fn excess(&self, label: f64, backlog: u64) -> f64 {
        let judged = self.congested || backlog >= self.threshold;
        if judged && label > self.alpha { 1.0 - self.alpha / label } else { 0.0 }
    }

    /// Counts a packet that was accepted or not, with so many bytes queued before it, and brings the
    /// fair share up to date (figure 3 of the paper).
    fn update(&mut self, now: Nanos, label: f64, bytes: u32, accepted: bool, backlog: u64) {
        self.arrived.add(now, self.averaging, bytes);
        if accepted {
            self.accepted.add(now, self.averaging, bytes);
        }
        let over = now.saturating_sub(self.window_start) > self.window;
        let full = self.arrived.value >= self.link;
        if full && (self.congested || backlog >= self.threshold) {
            if !self.congested {
                self.congested = true;
                self.begin(now);
            } else if over {
                if self.accepted.value > 0.0 {
                    self.alpha = (self.alpha * self.link / self.accepted.value).min(self.link);
                }
                self.begin(now);
            }
        } else if self.congested {
            self.congested = false;
            self.begin(now);
        } else {
            self.largest = self.largest.max(label);
            if over {
                if self.largest > 0.0 {
                    self.alpha = self.largest;
                }
                self.begin(now);
            }
        }
    }

    fn begin(&mut self, now: Nanos) {
        self.window_start = now;
        self.largest = 0.0;
        self.floor = self.alpha * (1.0 - OVERFLOW_CUT_MOST);
    }

    /// A packet found no room.
    fn overflow(&mut self) {
        self.alpha = (self.alpha * (1.0 - OVERFLOW_CUT)).max(self.floor);
    }
}

#[derive(Debug)]
struct Csfq<P> {
    edge: Option<Edge>,
    share: FairShare,
    random: Pcg32,
    limit: u64,
    backlog: Backlog<P>,
    counters: Counters,
}

impl<P: Packet + Send> QueueDiscipline<P> for Csfq<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        if let Some(edge) = &mut self.edge {
            packet.set_label(edge.label(now, &packet) as f32);
        }
        let label = f64::from(packet.label());
        let bytes = packet.bytes();
        let chosen = uniform(&mut self.random) < self.share.excess(label, self.backlog.bytes());
        self.share.update(now, label, bytes, !chosen, self.backlog.bytes());
        if chosen {
            self.counters.drop(packet, DropReason::Aqm, dropped);
            return Enqueued::Dropped;
        }
        if self.backlog.bytes() + u64::from(bytes) > self.limit {
            self.share.overflow();
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        if label > self.share.alpha {
            packet.set_label(self.share.alpha as f32);
        }
        self.backlog.push(now, packet);
        Enqueued::Accepted
    }

    fn dequeue(&mut self, _now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        self.counters.deliver(self.backlog.pop())
    }

    fn backlog(&self) -> Amount {
        self.backlog.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, _now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        out("fair_share_bps", self.share.alpha);
        out("arrival_rate_bps", self.share.arrived.value);
        out("accepted_rate_bps", self.share.accepted.value);
    }
}
