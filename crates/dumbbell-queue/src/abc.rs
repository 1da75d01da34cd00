//! Activity-based congestion management: fair shares for users by one FIFO without state per user.
//!
//! The edge of a network measures each user, the host that a packet comes from, and writes
//! its *activity* into the packet: its rate as a multiple of a reference rate. Every node averages the
//! activity of the packets that pass, and lets its AQM drop with a probability that is raised for
//! packets above the average and lowered for those below it.
//!
//! The authors' meter and formulas were not at hand: codings, burst tolerance and adjustments are
//! reconstructions from their talk at IETF 99, with their requirements as tests.

use std::collections::HashMap;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use serde_json::{Map, json};

use crate::backlog::Backlog;
use crate::bucket::Bucket;
use crate::classes::DSCPS;
use crate::params::{ParamInfo, QueueInfo, Unit, Values, child_seed};
use crate::pie::{self, Pie, PieParams};
use crate::profile::Profiles;
use crate::random::uniform;
use crate::verdict::Verdict;
use crate::{
    Amount, BuildError, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// The least activity, so that no average or quotient is zero.
const LEAST: f64 = 1.0 / 16.0;
/// The quantised coding: a logarithm in eighths, in eight bits.
const STEPS: f64 = 8.0;
const LARGEST_STEP: f64 = 255.0;

pub(crate) fn info() -> QueueInfo {
    let time =
        |name, default: u64, doc| ParamInfo::new(name, Unit::Time, default, doc).at_least(1.0);
    QueueInfo {
        name: "abc",
        summary: "Activity-based congestion management: fair to users without state for them",
        source: "Menth and Zeitler, NOMS 2016 and IEEE Access 2018; drop formulas and codings ours",
        params: vec![
            ParamInfo::new(
                "meter",
                Unit::Bool,
                false,
                "Measure each sending host and label its packets, as the edge of the network does",
            ),
            reference_rate(),
            ParamInfo::new("classes", Unit::Classes, json!([]), "Reference rates by DSCP"),
            time("memory", 300_000_000, "Memory of the measured rate"),
            ParamInfo::new(
                "burst",
                Unit::Bytes,
                0,
                "Bytes that a user may send beyond its reference rate with little activity",
            )
            .at_most(1e12),
            ParamInfo::choice(
                "burst_activity",
                &["least", "utilisation"],
                "Activity within the burst: the least, or the share of the tokens that were used",
            ),
            ParamInfo::choice(
                "coding",
                &["linear", "log", "quantised"],
                "Activity: rate over reference rate, its binary logarithm, or that in eighths",
            ),
            time("average_memory", 200_000_000, "Memory of the average activity"),
            ParamInfo::new(
                "gamma",
                Unit::Number,
                3.0,
                "How far users are told apart; 0 is a plain AQM",
            )
            .at_least(0.0)
            .at_most(100.0),
            ParamInfo::choice(
                "form",
                &["exponent", "product", "queue"],
                "What activity adjusts: the exponent of the drop probability, a factor of it, or \
                 the queueing delay from which on all is dropped",
            ),
            ParamInfo::choice("aqm", &["red", "pie"], "What gives the drop probability"),
            ParamInfo::choice(
                "measure",
                &["length", "delay"],
                "Delay from the queue's length at `rate`, or of the oldest packet",
            ),
            ParamInfo::new("rate", Unit::LinkRate, 10_000_000, "Rate of the link").at_least(1.0),
            time("min", 5_000_000, "Delay from which on red drops"),
            time("max", 50_000_000, "Delay from which on red drops with `probability`"),
            ParamInfo::new(
                "probability",
                Unit::Fraction,
                1.0,
                "Drop probability of red from max on",
            )
            .at_least(0.0)
            .at_most(1.0),
            time("target", 15_000_000, "Delay that pie aims at"),
            time("base", 20_000_000, "Delay from which on form queue drops at average activity"),
            ParamInfo::new(
                "priority_dscp",
                Unit::Dscps,
                json!([]),
                "Packets that are sent before others, for real-time users",
            ),
            ParamInfo::new(
                "priority_factor",
                Unit::Number,
                2.0,
                "How much such a packet counts in its user's activity, so that bulk gains nothing",
            )
            .at_least(1.0)
            .at_most(1000.0),
            ParamInfo::new("ecn", Unit::Bool, false, "Mark ECN-capable packets, not drop them"),
            ParamInfo::new("limit", Unit::Packets, 1000, "Most packets held; tail drop")
                .at_least(1.0),
        ],
        classes: Profiles::info(reference_rate()),
    }
}

fn reference_rate() -> ParamInfo {
    ParamInfo::new(
        "reference_rate",
        Unit::Rate,
        500_000,
        "Rate of a user whose activity is 1; well below its fair share",
    )
    .at_least(1.0)
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    if values.whole("max") <= values.whole("min") {
        return Err(values.invalid("max", "more than min"));
    }
    let aqm = if values.choice("form") == "queue" {
        Aqm::Threshold(values.number("base"))
    } else if values.choice("aqm") == "pie" {
        let given = Map::from_iter([("target".to_owned(), json!(values.whole("target")))]);
        let params = PieParams::from_values(&Values::check(&pie::info(), &given)?);
        Aqm::Pie {
            pie: Box::new(Pie::new(params, child_seed(seed, 0))),
            random: Pcg32::seed_from_u64(seed),
        }
    } else {
        Aqm::Red {
            min: values.number("min"),
            max: values.number("max"),
            probability: values.number("probability"),
            random: Pcg32::seed_from_u64(seed),
        }
    };
    let meter = Meter::from_values(values)?;
    let mut urgent = [false; DSCPS];
    for dscp in values.dscps("priority_dscp") {
        urgent[usize::from(dscp)] = true;
    }
    Ok(Box::new(Abc {
        urgent,
        factor: values.number("priority_factor"),
        meter: values.flag("meter").then_some(meter),
        average: Average::new(values.number("average_memory")),
        adjustment: Adjustment {
            gamma: values.number("gamma"),
            product: values.choice("form") == "product",
            logarithmic: values.choice("coding") != "linear",
        },
        aqm,
        byte_time: (values.choice("measure") == "length")
            .then(|| 8e9 / values.whole("rate") as f64),
        max: values.number("max"),
        ecn: values.flag("ecn"),
        limit: values.whole("limit"),
        first: Backlog::default(),
        backlog: Backlog::default(),
        counters: Counters::default(),
    }))
}

/// A sum that fades with time; what it holds loses all but 1/e in each memory (ns).
#[derive(Clone, Copy, Debug)]
struct Fading {
    sum: f64,
    updated: Nanos,
}

impl Fading {
    fn add(&mut self, now: Nanos, memory: f64, amount: f64) {
        let passed = now.saturating_sub(self.updated) as f64;
        self.updated = now;
        self.sum = self.sum * (-passed / memory).exp() + amount;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Linear,
    Logarithm,
    Quantised,
}

impl Coding {
    /// The activity of a rate, as a multiple of the reference rate.
    fn activity(self, multiple: f64) -> f64 {
        let activity = match self {
            Self::Linear => multiple,
            Self::Logarithm => multiple.log2(),
            Self::Quantised => (multiple.log2() * STEPS).round().clamp(0.0, LARGEST_STEP) / STEPS,
        };
        activity.max(LEAST)
    }
}

/// What the edge knows of a user.
#[derive(Clone, Debug)]
struct User {
    since: Nanos,
    bytes: Fading,
    bucket: Bucket,
    /// Tokens taken from the bucket.
    tokens: Fading,
}

/// The meter of the edge.
#[derive(Clone, Debug)]
struct Meter {
    references: Profiles,
    /// Nanoseconds.
    memory: f64,
    burst: u64,
    utilisation: bool,
    coding: Coding,
    users: HashMap<u32, User>,
}

impl Meter {
    fn from_values(values: &Values) -> Result<Self, BuildError> {
        Ok(Self {
            references: Profiles::from_values(values, reference_rate())?,
            memory: values.number("memory"),
            burst: values.whole("burst"),
            utilisation: values.choice("burst_activity") == "utilisation",
            coding: match values.choice("coding") {
                "log" => Coding::Logarithm,
                "quantised" => Coding::Quantised,
                _ => Coding::Linear,
            },
            users: HashMap::new(),
        })
    }

    /// The activity that a packet gets, which counts as so many bytes.
    fn measure(&mut self, now: Nanos, packet: &impl Packet, bytes: f64) -> f64 {
        // Bytes in a nanosecond.
        let reference = self.references.of(packet) / 8e9;
        let user = self.users.entry(packet.source()).or_insert_with(|| User {
            since: now,
            // The first packet starts the clock: the others came in the time since. Counted too, it
            // would make every rate too high at first.
            bytes: Fading { sum: -bytes, updated: now },
            bucket: Bucket::new(self.references.of(packet) as u64, self.burst),
            tokens: Fading { sum: 0.0, updated: now },
        });
        user.bytes.add(now, self.memory, bytes);
        // Menth and Hauser's unbiased time-exponentially-weighted moving average, TDRM-UTEMA: both the
        // bytes and the time that they came in fade. No packet counts for less than its time at the
        // reference rate, or a burst after a first packet would be an endless rate.
        let passed = now.saturating_sub(user.since) as f64;
        let time = -self.memory * (-passed / self.memory).exp_m1();
        let multiple = |sum: f64| sum / (time * reference).max(bytes);
        let tolerated = self.burst > 0 && {
            user.bucket.fill(now);
            user.bucket.take_if_enough(bytes as u32)
        };
        if self.utilisation {
            user.tokens.add(now, self.memory, if tolerated { bytes } else { 0.0 });
        }
        if !tolerated {
            self.coding.activity(multiple(user.bytes.sum))
        } else if self.utilisation {
            self.coding.activity(multiple(user.tokens.sum).min(1.0))
        } else {
            LEAST
        }
    }
}

/// The average activity of packets, weighted by bytes; both fade.
#[derive(Clone, Debug)]
struct Average {
    /// Nanoseconds.
    memory: f64,
    activity: f64,
    bytes: f64,
    updated: Nanos,
}

impl Average {
    fn new(memory: f64) -> Self {
        Self { memory, activity: 0.0, bytes: 0.0, updated: 0 }
    }

    fn add(&mut self, now: Nanos, activity: f64, bytes: f64) {
        let passed = now.saturating_sub(self.updated) as f64;
        let kept = (-passed / self.memory).exp();
        self.updated = now;
        self.activity = self.activity * kept + activity * bytes;
        self.bytes = self.bytes * kept + bytes;
    }

    /// Zero before the first packet.
    fn value(&self) -> f64 {
        if self.bytes > 0.0 { self.activity / self.bytes } else { 0.0 }
    }
}

/// How activity changes what the AQM would do.
#[derive(Clone, Copy, Debug)]
struct Adjustment {
    gamma: f64,
    product: bool,
    logarithmic: bool,
}

impl Adjustment {
    /// The drop probability of a packet whose activity is so many times the average.
    fn probability(self, base: f64, relative: f64) -> f64 {
        if base <= 0.0 {
            return 0.0;
        }
        let differentiation = relative.powf(self.gamma);
        if self.product {
            (base * differentiation).min(1.0)
        } else {
            base.powf(1.0 / differentiation)
        }
    }

    /// By how much a threshold of the queue is lower for a packet.
    fn threshold(self, activity: f64, average: f64) -> f64 {
        if self.logarithmic {
            (self.gamma * (average - activity)).exp2()
        } else {
            (average / activity).powf(self.gamma)
        }
    }
}

#[derive(Debug)]
enum Aqm {
    /// Linear in the present delay, which like the thresholds is in nanoseconds.
    Red { min: f64, max: f64, probability: f64, random: Pcg32 },
    /// Without PIE's spacing of drops, which knows no users.
    Pie { pie: Box<Pie>, random: Pcg32 },
    /// All or nothing, from this delay on.
    Threshold(f64),
}

#[derive(Debug)]
struct Abc<P> {
    /// Whether a DSCP goes first, and how much its packets count in the meter.
    urgent: [bool; DSCPS],
    factor: f64,
    meter: Option<Meter>,
    average: Average,
    adjustment: Adjustment,
    aqm: Aqm,
    /// Time of a byte on the link, where the delay is the queue's length.
    byte_time: Option<f64>,
    max: f64,
    ecn: bool,
    limit: u64,
    /// Packets that go first, and the others.
    first: Backlog<P>,
    backlog: Backlog<P>,
    counters: Counters,
}

/// Drop probability of linear RED.
fn linear(delay: f64, min: f64, max: f64, probability: f64) -> f64 {
    ((delay - min) / (max - min)).clamp(0.0, 1.0) * probability
}

impl<P: Packet> Abc<P> {
    /// What both queues hold.
    fn held(&self) -> Amount {
        self.first.amount() + self.backlog.amount()
    }

    /// Nanoseconds; of both queues, so that packets that go first are dropped too where they leave
    /// nothing for the others.
    fn delay(&self, now: Nanos) -> f64 {
        match self.byte_time {
            Some(byte_time) => self.held().bytes as f64 * byte_time,
            None => {
                let oldest =
                    [self.first.oldest(), self.backlog.oldest()].into_iter().flatten().min();
                oldest.map_or(0.0, |since| now.saturating_sub(since) as f64)
            }
        }
    }

    fn judge(&mut self, now: Nanos, activity: f64, average: f64) -> Verdict {
        let delay = self.delay(now);
        let bytes = self.held().bytes;
        let adjustment = self.adjustment;
        let relative = activity / average;
        let signal = match &mut self.aqm {
            Aqm::Red { min, max, probability, random } => {
                let base = linear(delay, *min, *max, *probability);
                uniform(random) < adjustment.probability(base, relative)
            }
            Aqm::Pie { pie, random } => {
                pie.catch_up(now, bytes);
                let base = pie.probability(bytes);
                uniform(random) < adjustment.probability(base, relative)
            }
            Aqm::Threshold(base) => {
                delay > *base * adjustment.threshold(activity, average) || delay > self.max
            }
        };
        match signal {
            false => Verdict::Pass,
            true if self.ecn => Verdict::Mark,
            true => Verdict::Drop,
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Abc<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        let urgent = self.urgent[usize::from(packet.dscp()) % DSCPS];
        if let Some(meter) = &mut self.meter {
            let factor = if urgent { self.factor } else { 1.0 };
            let bytes = f64::from(packet.bytes()) * factor;
            packet.set_label(meter.measure(now, &packet, bytes) as f32);
        }
        let label = f64::from(packet.label());
        if label > 0.0 {
            self.average.add(now, label, f64::from(packet.bytes()));
        }
        let average = self.average.value();
        // A packet from outside counts as average, and so does any before there is an average.
        let (activity, average) = match (label > 0.0, average > 0.0) {
            (true, true) => (label, average),
            (_, true) => (average, average),
            (_, false) => (1.0, 1.0),
        };
        if self.held().packets >= self.limit {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        let verdict = self.judge(now, activity, average);
        let Some((packet, outcome)) = verdict.carry_out(packet, &mut self.counters, dropped) else {
            return Enqueued::Dropped;
        };
        let queue = if urgent { &mut self.first } else { &mut self.backlog };
        queue.push(now, packet);
        outcome
    }

    fn dequeue(&mut self, now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        let backlog = self.held().bytes;
        if let Aqm::Pie { pie, .. } = &mut self.aqm {
            pie.catch_up(now, backlog);
        }
        let Some(packet) = self.first.pop().or_else(|| self.backlog.pop()) else {
            return Dequeued::Empty;
        };
        if let Aqm::Pie { pie, .. } = &mut self.aqm {
            let sojourn = now.saturating_sub(packet.enqueued_at());
            pie.on_dequeue(now, sojourn, u64::from(packet.bytes()), backlog);
        }
        self.counters.dequeued += 1;
        Dequeued::Packet(packet)
    }

    fn backlog(&self) -> Amount {
        self.held()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        out("average_activity", self.average.value());
        let backlog = self.backlog_bytes();
        if let Aqm::Pie { pie, .. } = &mut self.aqm {
            pie.catch_up(now, backlog);
            pie.record(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adjustment(gamma: f64, product: bool) -> Adjustment {
        Adjustment { gamma, product, logarithmic: false }
    }

    /// p^((A_avg/A)^gamma): a quarter to the power of a half, of two, and of a quarter.
    #[test]
    fn exponents_follow_activity() {
        assert_eq!(adjustment(1.0, false).probability(0.25, 2.0), 0.5);
        assert_eq!(adjustment(1.0, false).probability(0.25, 0.5), 0.0625);
        assert_eq!(adjustment(2.0, false).probability(0.25, 2.0), 0.25_f64.sqrt().sqrt());
        assert_eq!(adjustment(2.0, false).probability(1.0, 0.5), 1.0);
        assert_eq!(adjustment(2.0, false).probability(0.0, 1e300), 0.0);
    }

    /// p (A/A_avg)^gamma, one at most.
    #[test]
    fn products_follow_activity() {
        assert_eq!(adjustment(3.0, true).probability(0.0625, 2.0), 0.5);
        assert_eq!(adjustment(3.0, true).probability(0.25, 2.0), 1.0);
        assert_eq!(adjustment(1.0, true).probability(0.25, 0.5), 0.125);
    }

    /// Whatever gamma is, average activity leaves the probability and the threshold; whatever the
    /// activity is, gamma 0 does.
    #[test]
    fn average_activity_changes_nothing() {
        for product in [false, true] {
            assert_eq!(adjustment(3.0, product).probability(0.3, 1.0), 0.3);
            assert_eq!(adjustment(0.0, product).probability(0.3, 17.0), 0.3);
        }
        for logarithmic in [false, true] {
            let with = |gamma| Adjustment { gamma, product: false, logarithmic };
            assert_eq!(with(3.0).threshold(5.0, 5.0), 1.0);
            assert_eq!(with(0.0).threshold(5.0, 2.0), 1.0);
        }
    }

    /// Thresholds: (A_avg/A)^gamma, or of logarithms 2^(gamma (A_avg - A)).
    #[test]
    fn thresholds_follow_activity() {
        assert_eq!(adjustment(2.0, false).threshold(4.0, 2.0), 0.25);
        let logarithmic = Adjustment { gamma: 2.0, product: false, logarithmic: true };
        assert_eq!(logarithmic.threshold(2.0, 1.0), 0.25);
    }

    /// Five times the reference rate is 2.32 in binary logarithms, 19 eighths when rounded.
    #[test]
    fn codings() {
        assert_eq!(Coding::Linear.activity(5.0), 5.0);
        assert!((Coding::Logarithm.activity(5.0) - 2.3219).abs() < 1e-4);
        assert_eq!(Coding::Quantised.activity(5.0), 19.0 / 8.0);
        for coding in [Coding::Linear, Coding::Logarithm, Coding::Quantised] {
            assert_eq!(coding.activity(0.01), LEAST);
        }
    }

    /// p = 0 up to min, half of p_max halfway, p_max from max on.
    #[test]
    fn red_is_linear() {
        let at = |ms: f64| linear(ms * 1e6, 5e6, 50e6, 0.8);
        assert_eq!([4.0, 5.0, 27.5, 50.0, 99.0].map(at), [0.0, 0.0, 0.4, 0.8, 0.8]);
    }
}
