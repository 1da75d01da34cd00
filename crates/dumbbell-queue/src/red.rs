//! RED, random early detection (Floyd and Jacobson 1993), on a single FIFO: the average queue length
//! and the curve of the drop probability over it, apart so that several curves can share an average.

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use serde_json::Value;

use crate::backlog::Backlog;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::random::uniform;
use crate::verdict::Verdict;
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// Weight of a new sample in the average (Floyd and Jacobson 1993 section 6; 0.002 in later papers).
pub(crate) const WEIGHT: f64 = 0.002;
/// Floyd, Gummadi and Shenker 2001, section 4: time between two adaptations of the probability, its
/// bounds, the largest step up and the factor down, and the band of the average that is aimed at.
const ADAPT_INTERVAL: Nanos = 500_000_000;
const ADAPT_BOUNDS: (f64, f64) = (0.01, 0.5);
const ADAPT_STEP: f64 = 0.01;
const ADAPT_FACTOR: f64 = 0.9;
const ADAPT_BAND: (f64, f64) = (0.4, 0.6);
/// Adaptations in a row that take any probability to either bound (50 steps up, 38 down); older ones
/// that fell due in a pause need not be made up for.
const ADAPT_MOST: u64 = 64;
/// Least threshold, in packets (Floyd, Gummadi and Shenker 2001 section 4.3).
const FEWEST_PACKETS: f64 = 5.0;

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "red",
        summary: "Random early detection: drops at random on arrival by the average queue length",
        source: "Floyd and Jacobson 1993; Floyd, Gummadi and Shenker 2001",
        params: vec![
            ParamInfo::new(
                "min",
                Unit::Bytes,
                7500,
                "Average queue from which on packets are dropped at random",
            )
            .at_least(1.0)
            .at_most(1e15),
            ParamInfo::new(
                "max",
                Unit::Bytes,
                Value::Null,
                "Average queue where `probability` is reached; 3 times min where not given",
            )
            .at_least(2.0)
            .at_most(1e15),
            ParamInfo::new(
                "target",
                Unit::Time,
                Value::Null,
                "Mean delay aimed at; sets min to half of it at `bandwidth`, or to 5 packets",
            )
            .at_least(1.0)
            .at_most(3.6e12),
            ParamInfo::new("probability", Unit::Fraction, 0.1, "Drop probability at max")
                .at_least(1e-6)
                .at_most(1.0),
            ParamInfo::new(
                "weight",
                Unit::Fraction,
                Value::Null,
                "Weight of a new sample in the average; 0.002, or by bandwidth where adaptive",
            )
            .at_least(1e-9)
            .at_most(1.0),
            ParamInfo::new("avpkt", Unit::Bytes, 1000, "Size of a mean packet")
                .at_least(1.0)
                .at_most(1e9),
            ParamInfo::new(
                "bandwidth",
                Unit::LinkRate,
                10_000_000,
                "Rate of the link, by which the average falls while the queue is idle",
            )
            .at_least(1.0),
            ParamInfo::new(
                "gentle",
                Unit::Bool,
                true,
                "Let the probability rise to one at twice max, not at max",
            ),
            ParamInfo::new(
                "adaptive",
                Unit::Bool,
                false,
                "Change the probability slowly so that the average stays halfway between min and max",
            ),
            ParamInfo::new(
                "bytemode",
                Unit::Bool,
                false,
                "Scale the probability by packet size over avpkt",
            ),
            ParamInfo::new("ecn", Unit::Bool, false, "Mark ECN-capable packets, not drop them"),
            ParamInfo::new(
                "harddrop",
                Unit::Bool,
                false,
                "Drop ECN-capable packets too where the average is above max",
            ),
            ParamInfo::new("limit", Unit::Packets, 1000, "Most packets held; tail drop")
                .at_least(1.0),
        ],
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let avpkt = values.whole("avpkt") as f64;
    let packet_time = avpkt * 8.0 / values.whole("bandwidth") as f64;
    let min = values.optional("target").map_or(values.whole("min") as f64, |target| {
        avpkt * (target as f64 / 1e9 / packet_time / 2.0).max(FEWEST_PACKETS)
    });
    let max = values.optional("max").map_or(3.0 * min, |max| max as f64);
    if max <= min {
        return Err(values.invalid("max", "more than min"));
    }
    let adaptive = values.flag("adaptive");
    let default = if adaptive { 1.0 - (-packet_time).exp() } else { WEIGHT };
    let weight = values.optional_number("weight").unwrap_or(default);
    Ok(Box::new(Red {
        average: Average::new(weight, packet_time),
        curve: Curve::new(min, max, values.number("probability"), values.flag("gentle")),
        next_adaptation: adaptive.then_some(ADAPT_INTERVAL),
        avpkt: values.flag("bytemode").then_some(avpkt),
        ecn: values.flag("ecn"),
        harddrop: values.flag("harddrop"),
        limit: values.whole("limit"),
        random: Pcg32::seed_from_u64(seed),
        backlog: Backlog::default(),
        counters: Counters::default(),
    }))
}

/// The average queue length in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Average {
    weight: f64,
    /// Seconds that a mean packet takes on the link.
    packet_time: f64,
    value: f64,
    /// Since when the queue is empty.
    idle_since: Option<Nanos>,
}

impl Average {
    pub(crate) fn new(weight: f64, packet_time: f64) -> Self {
        Self { weight, packet_time, value: 0.0, idle_since: Some(0) }
    }

    /// A packet arrives at a queue of `backlog` bytes. An idle time counts as so many small packets
    /// as the link could have sent in it (Floyd and Jacobson 1993 section 4). Where the packet is
    /// dropped the queue stays idle, or it would drop all that come one at a time for ever.
    pub(crate) fn on_arrival(&mut self, now: Nanos, backlog: u64) {
        match self.idle_since {
            Some(since) if backlog == 0 => {
                if self.value > 0.0 {
                    self.value = self.after_idle(now.saturating_sub(since));
                }
                self.idle_since = Some(now);
            }
            _ => {
                self.value += self.weight * (backlog as f64 - self.value);
                self.idle_since = None;
            }
        }
    }

    /// The queue became empty.
    pub(crate) fn on_empty(&mut self, now: Nanos) {
        self.idle_since = Some(now);
    }

    pub(crate) fn value(&self) -> f64 {
        self.value
    }

    /// The average as it will be or was at a time of the present idle period, or as it is.
    fn at(&self, time: Nanos) -> f64 {
        self.idle_since.map_or(self.value, |since| self.after_idle(time.saturating_sub(since)))
    }

    fn after_idle(&self, idle: Nanos) -> f64 {
        self.value * (1.0 - self.weight).powf(idle as f64 / 1e9 / self.packet_time)
    }
}

/// What RED does to an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    None,
    /// Drop or mark at random, with the average between the thresholds.
    Early,
    /// Drop or mark with the average above the upper threshold.
    Forced,
}

/// The drop probability over the average queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Curve {
    /// Thresholds in bytes.
    min: f64,
    max: f64,
    /// Probability at the upper threshold.
    probability: f64,
    gentle: bool,
    /// Packets that passed since the last signal, with the average above the lower threshold.
    count: u64,
}

impl Curve {
    /// `max` must be above `min`.
    pub(crate) fn new(min: f64, max: f64, probability: f64, gentle: bool) -> Self {
        Self { min, max, probability, gentle, count: 0 }
    }

    /// The probability before it is spread over packets (p_b).
    pub(crate) fn probability(&self, average: f64) -> f64 {
        if average < self.min {
            0.0
        } else if average < self.max {
            self.probability * (average - self.min) / (self.max - self.min)
        } else if self.gentle {
            // Floyd 2000, "On recommending the use of the gentle variant of RED".
            let above = (average - self.max) / self.max;
            (self.probability + (1.0 - self.probability) * above).min(1.0)
        } else {
            1.0
        }
    }

    /// The test of an arriving packet, whose size is `size` times that of a mean one (1 where sizes
    /// do not count).
    pub(crate) fn judge(&mut self, average: f64, size: f64, random: &mut Pcg32) -> Signal {
        if average < self.min {
            self.count = 0;
            return Signal::None;
        }
        let probability = self.probability(average);
        if probability < 1.0 {
            // Evenly spread gaps, not bunches (Floyd and Jacobson 1993 section 7): the probability
            // grows with each packet that passes, to one in the end.
            let scaled = probability * size;
            let left = 1.0 - self.count as f64 * scaled;
            if left > scaled && uniform(random) >= scaled / left {
                self.count += 1;
                return Signal::None;
            }
        }
        self.count = 0;
        if average < self.max { Signal::Early } else { Signal::Forced }
    }

    /// Adaptive RED: one step of the probability, by where the average is.
    fn adapt(&mut self, average: f64) {
        let place = (average - self.min) / (self.max - self.min);
        if place > ADAPT_BAND.1 && self.probability <= ADAPT_BOUNDS.1 {
            self.probability += (self.probability / 4.0).min(ADAPT_STEP);
        } else if place < ADAPT_BAND.0 && self.probability >= ADAPT_BOUNDS.0 {
            self.probability *= ADAPT_FACTOR;
        }
    }
}

/// A FIFO under RED.
#[derive(Debug)]
struct Red<P> {
    average: Average,
    curve: Curve,
    /// When the probability is to be adapted.
    next_adaptation: Option<Nanos>,
    /// Size of a mean packet, where the probability goes by size.
    avpkt: Option<f64>,
    ecn: bool,
    harddrop: bool,
    limit: u64,
    random: Pcg32,
    backlog: Backlog<P>,
    counters: Counters,
}

impl<P> Red<P> {
    /// Make the adaptations that fell due by `now`; nothing arrived in between.
    fn catch_up(&mut self, now: Nanos) {
        let Some(mut next) = self.next_adaptation else {
            return;
        };
        if now < next {
            return;
        }
        let due = (now - next) / ADAPT_INTERVAL + 1;
        next += due.saturating_sub(ADAPT_MOST) * ADAPT_INTERVAL;
        while next <= now {
            self.curve.adapt(self.average.at(next));
            next += ADAPT_INTERVAL;
        }
        self.next_adaptation = Some(next);
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Red<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        self.catch_up(now);
        self.average.on_arrival(now, self.backlog.bytes());
        if self.backlog.packets() >= self.limit {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        let size = self.avpkt.map_or(1.0, |avpkt| f64::from(packet.bytes()) / avpkt);
        let signal = self.curve.judge(self.average.value(), size, &mut self.random);
        let verdict = match signal {
            Signal::None => Verdict::Pass,
            Signal::Early if self.ecn => Verdict::Mark,
            Signal::Forced if self.ecn && !self.harddrop => Verdict::Mark,
            Signal::Early | Signal::Forced => Verdict::Drop,
        };
        let Some((packet, outcome)) = verdict.carry_out(packet, &mut self.counters, dropped) else {
            return Enqueued::Dropped;
        };
        self.backlog.push(now, packet);
        outcome
    }

    fn dequeue(&mut self, now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        let Some(packet) = self.backlog.pop() else {
            return Dequeued::Empty;
        };
        self.counters.dequeued += 1;
        if self.backlog.is_empty() {
            self.average.on_empty(now);
        }
        Dequeued::Packet(packet)
    }

    fn backlog(&self) -> Amount {
        self.backlog.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        self.catch_up(now);
        let average = self.average.at(now);
        out("average_bytes", average);
        out("drop_probability", self.curve.probability(average));
        out("max_probability", self.curve.probability);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The curve by hand, in packets: 5 to 15 with 10 % at the top, and the gentle part to 30 (Floyd
    /// 2000: from max_p at max to one at twice that).
    #[test]
    fn the_curve_is_the_papers() {
        let gentle = Curve::new(5.0, 15.0, 0.1, true);
        for (average, probability) in [
            (4.9, 0.0),
            (5.0, 0.0),
            (10.0, 0.05),
            (15.0, 0.1),
            (22.5, 0.55),
            (30.0, 1.0),
            (99.0, 1.0),
        ] {
            assert!((gentle.probability(average) - probability).abs() < 1e-12, "{average}");
        }
        let hard = Curve::new(5.0, 15.0, 0.1, false);
        assert!((hard.probability(14.999) - 0.1).abs() < 1e-4);
        assert_eq!(hard.probability(15.0), 1.0);
    }

    /// Section 7 of the 1993 paper: gaps between signals are evenly spread over 1 to 1/p_b, with a
    /// mean of 1/(2 p_b) + 1/2; for p_b = 2 % at most 50 and 25.5.
    #[test]
    fn signals_are_evenly_spread() {
        let mut curve = Curve::new(5.0, 15.0, 0.04, true);
        let mut random = Pcg32::seed_from_u64(1);
        let mut seen = [0_u32; 51];
        let (mut gap, mut signals) = (0, 0);
        for _ in 0..1_000_000 {
            gap += 1;
            if curve.judge(10.0, 1.0, &mut random) == Signal::Early {
                seen[gap.min(50)] += 1;
                signals += 1;
                gap = 0;
            }
        }
        let mean = 1e6 / f64::from(signals);
        assert!((mean - 25.5).abs() < 0.3, "{mean}");
        let expected = f64::from(signals) / 50.0;
        // Five standard deviations of a count of about 784.
        assert!(seen[1..].iter().all(|&n| (f64::from(n) - expected).abs() < 140.0), "{seen:?}");
    }

    /// In byte mode a packet of twice the mean size is signalled twice as often.
    #[test]
    fn byte_mode_scales_the_probability() {
        let mut random = Pcg32::seed_from_u64(1);
        let mut first = |size| {
            let signalled = |_: &u32| {
                let mut curve = Curve::new(5.0, 15.0, 0.1, true);
                curve.judge(10.0, size, &mut random) == Signal::Early
            };
            (0..100_000).filter(signalled).count() as f64
        };
        assert!((first(1.0) - 5000.0).abs() < 280.0);
        assert!((first(2.0) - 10_000.0).abs() < 380.0);
    }

    /// Section 4 of the 2001 paper: max_p rises by the smaller of 0.01 and a fourth, up to 0.5, with the
    /// average above 60 % of the way; falls by a tenth, down to 0.01, below 40 %; stays in between.
    #[test]
    fn the_probability_adapts_as_in_the_paper() {
        let mut curve = Curve::new(10.0, 20.0, 0.1, true);
        let mut step = |start, average| {
            curve.probability = start;
            curve.adapt(average);
            curve.probability
        };
        assert_eq!(step(0.1, 16.1), 0.1 + 0.01);
        assert_eq!(step(0.02, 16.1), 0.02 + 0.005);
        assert_eq!(step(0.51, 16.1), 0.51);
        assert_eq!(step(0.1, 13.9), 0.1 * 0.9);
        assert_eq!(step(0.009, 13.9), 0.009);
        assert_eq!(step(0.1, 15.0), 0.1);
    }

    /// Floyd and Jacobson 1993 section 4: an idle time of m packets takes (1 - w)^m of the average,
    /// also after an arrival that was dropped at the empty queue. Here m is 2, then 3.
    #[test]
    fn average_falls_while_idle_though_arrivals_are_dropped() {
        let mut average = Average::new(0.5, 0.001);
        average.on_arrival(0, 0);
        average.on_arrival(0, 3000);
        assert_eq!(average.value(), 1500.0);
        average.on_empty(0);
        average.on_arrival(2_000_000, 0);
        assert_eq!(average.value(), 1500.0 / 4.0);
        average.on_arrival(5_000_000, 0);
        assert_eq!(average.value(), 1500.0 / 32.0);
    }
}
