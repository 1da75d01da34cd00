//! A router of differentiated services: expedited forwarding goes first within a policed rate,
//! assured forwarding classes with three drop precedences share the rest with all other packets by
//! weighted or deficit round robin.

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use serde_json::{Value, json};

use crate::backlog::Backlog;
use crate::bucket::Bucket;
use crate::classes::{Classes, DSCPS};
use crate::drr::Drr;
use crate::meter::{Colour, Meter};
use crate::params::{ParamInfo, QueueInfo, Unit, Values, child_seed};
use crate::red::{Average, Curve, Signal, WEIGHT};
use crate::scheduler::scheduled;
use crate::verdict::Verdict;
use crate::wrr::Wrr;
use crate::{
    Amount, BuildError, Built, Counters, Dequeued, DropReason, Dropped, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

const COLOURS: [Colour; 3] = [Colour::Green, Colour::Yellow, Colour::Red];
/// Thresholds in packets and greatest probability of the curves of green, yellow and red packets.
const CURVES: [(u64, u64, f64); 3] = [(40, 70, 0.02), (30, 60, 0.05), (10, 40, 0.1)];

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "diffserv",
        summary: "Expedited forwarding first, assured forwarding with drop precedences, and the rest",
        source: "RFC 2474, RFC 2597, RFC 3246",
        params: vec![
            ParamInfo::new("bandwidth", Unit::LinkRate, 10_000_000, "Rate of the link")
                .at_least(1.0),
            ParamInfo::new("ef_dscp", Unit::Dscps, json!([46, 44]), "Packets of EF"),
            ParamInfo::new(
                "ef_rate",
                Unit::Rate,
                Value::Null,
                "Rate that EF is policed to; any where not given",
            )
            .at_least(1.0),
            ParamInfo::new("ef_burst", Unit::Bytes, 3000, "Burst of EF that the policer allows")
                .at_least(1.0),
            ParamInfo::new("ef_limit", Unit::Packets, 1000, "Most packets of EF held")
                .at_least(1.0),
            ParamInfo::choice(
                "scheduler",
                &["wrr", "drr"],
                "Whether weights count packets (wrr) or quanta of bytes (drr)",
            ),
            ParamInfo::new("quantum", Unit::Bytes, 1500, "Bytes for each unit of a weight in drr")
                .at_least(64.0)
                .at_most(1_048_576.0),
            weight("df_weight", "Weight of what is neither EF nor AF"),
            ParamInfo::child("df", "The queue of what is neither EF nor AF"),
            ParamInfo::new(
                "classes",
                Unit::Classes,
                json!([{"af": 1}, {"af": 2}, {"af": 3}, {"af": 4}]),
                "The AF classes",
            ),
        ],
        classes: class_info(),
    }
}

fn weight(name: &'static str, doc: &'static str) -> ParamInfo {
    ParamInfo::new(name, Unit::Count, 1, doc).at_least(1.0).at_most(65_536.0)
}

fn class_info() -> Vec<ParamInfo> {
    let threshold = |name, packets, doc| {
        ParamInfo::new(name, Unit::Packets, packets, doc).at_least(0.0).at_most(1e9)
    };
    let probability = |name, value, doc| {
        ParamInfo::new(name, Unit::Fraction, value, doc).at_least(0.0).at_most(1.0)
    };
    vec![
        ParamInfo::new("af", Unit::Count, 1, "Which class: 1 for AF1x").at_least(1.0).at_most(4.0),
        weight("weight", "Weight among the AF classes and the rest"),
        ParamInfo::choice(
            "meter",
            &["none", "srtcm", "trtcm", "tswtcm"],
            "What sets the drop precedence; none leaves it",
        ),
        ParamInfo::new(
            "colour_aware",
            Unit::Bool,
            false,
            "Never better a packet's drop precedence",
        ),
        ParamInfo::new("cir", Unit::Rate, 1_000_000, "Committed rate (CIR; CTR of tswtcm)"),
        ParamInfo::new("cbs", Unit::Bytes, 15_000, "Committed burst size (CBS)"),
        ParamInfo::new("ebs", Unit::Bytes, 15_000, "Excess burst size of srtcm (EBS)"),
        ParamInfo::new("pir", Unit::Rate, 2_000_000, "Peak rate (PIR of trtcm, PTR of tswtcm)"),
        ParamInfo::new("pbs", Unit::Bytes, 15_000, "Peak burst size of trtcm (PBS)"),
        ParamInfo::new(
            "interval",
            Unit::Time,
            1_000_000_000,
            "What tswtcm averages the rate over (AVG_INTERVAL)",
        )
        .at_least(1.0),
        threshold("green_min", CURVES[0].0, "Average from which on green packets are dropped"),
        threshold("green_max", CURVES[0].1, "Average from which on all of them are"),
        probability("green_probability", CURVES[0].2, "Drop probability just below green_max"),
        threshold("yellow_min", CURVES[1].0, "The same for yellow packets"),
        threshold("yellow_max", CURVES[1].1, "The same for yellow packets"),
        probability("yellow_probability", CURVES[1].2, "The same for yellow packets"),
        threshold("red_min", CURVES[2].0, "The same for red packets"),
        threshold("red_max", CURVES[2].1, "The same for red packets"),
        probability("red_probability", CURVES[2].2, "The same for red packets"),
        ParamInfo::new(
            "red_weight",
            Unit::Fraction,
            WEIGHT,
            "Weight of a new sample in the averages",
        )
        .at_least(1e-9)
        .at_most(1.0),
        ParamInfo::new(
            "avpkt",
            Unit::Bytes,
            1500,
            "Size of a mean packet, by which the averages fall while idle",
        )
        .at_least(1.0)
        .at_most(1e9),
        ParamInfo::new(
            "coupled",
            Unit::Bool,
            false,
            "RIO: the average of a colour leaves out packets of worse ones",
        ),
        ParamInfo::new(
            "ecn",
            Unit::Bool,
            false,
            "Mark ECN-capable packets below the maximum, not drop them",
        ),
        ParamInfo::new("limit", Unit::Packets, 1000, "Most packets of the class held")
            .at_least(1.0),
    ]
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let given = values.classes("classes", &class_info())?;
    let rest = given.len() as u16;
    let mut by_dscp = [rest; DSCPS];
    let mut queues: Vec<Box<dyn QueueDiscipline<P>>> = Vec::new();
    let mut weights = Vec::new();
    for (index, class) in given.iter().enumerate() {
        let within = |error: BuildError| error.within(format!("classes[{index}]"));
        let number = class.whole("af") as u8;
        for colour in COLOURS {
            let place = &mut by_dscp[usize::from(dscp(number, colour))];
            if *place != rest {
                return Err(within(class.invalid("af", "an AF class only once")));
            }
            *place = index as u16;
        }
        let seed = child_seed(seed, index);
        let queue = AssuredQueue::new(class, values.whole("bandwidth"), seed).map_err(within)?;
        queues.push(Box::new(queue));
        weights.push(class.whole("weight"));
    }
    queues.push(values.child("df", child_seed(seed, given.len()))?);
    weights.push(values.whole("df_weight"));
    let classes = Classes::of_queues(queues, by_dscp);
    let quantum = values.whole("quantum");
    let rest = if values.choice("scheduler") == "drr" {
        let quanta = weights.iter().map(|weight| weight * quantum).collect();
        scheduled(classes, Drr::new(quanta))
    } else {
        scheduled(classes, Wrr::new(weights, false))
    };
    let mut expedited = [false; DSCPS];
    for dscp in values.dscps("ef_dscp") {
        expedited[usize::from(dscp)] = true;
    }
    let policer =
        values.optional("ef_rate").map(|rate| Bucket::new(rate, values.whole("ef_burst")));
    Ok(Box::new(Diffserv {
        expedited,
        ef: ExpeditedQueue {
            policer,
            limit: values.whole("ef_limit"),
            backlog: Backlog::default(),
            counters: Counters::default(),
        },
        rest,
    }))
}

/// RFC 2597 section 6: the codepoint of a class and drop precedence.
fn dscp(class: u8, colour: Colour) -> u8 {
    8 * class + 2 * (colour as u8 + 1)
}

/// The drop precedence of one of these codepoints.
fn colour(dscp: u8) -> Colour {
    match dscp & 6 {
        2 => Colour::Green,
        4 => Colour::Yellow,
        _ => Colour::Red,
    }
}

struct Diffserv<P> {
    /// Whether a DSCP belongs to EF.
    expedited: [bool; DSCPS],
    ef: ExpeditedQueue<P>,
    /// The AF classes and what belongs to none, under their scheduler.
    rest: Box<dyn QueueDiscipline<P>>,
}

impl<P: Packet + Send> QueueDiscipline<P> for Diffserv<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        if self.expedited[usize::from(packet.dscp()) % DSCPS] {
            self.ef.enqueue(now, packet, dropped)
        } else {
            self.rest.enqueue(now, packet, dropped)
        }
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Dropped<P>) -> Dequeued<P> {
        match self.ef.dequeue(now, dropped) {
            Dequeued::Packet(packet) => Dequeued::Packet(packet),
            Dequeued::Wait(_) | Dequeued::Empty => self.rest.dequeue(now, dropped),
        }
    }

    fn backlog(&self) -> Amount {
        self.ef.backlog() + self.rest.backlog()
    }

    fn counters(&self) -> Counters {
        self.ef.counters() + self.rest.counters()
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        out("ef.backlog_packets", self.ef.backlog_packets() as f64);
        self.rest.record(now, out);
    }
}

/// EF: a FIFO behind a policer.
#[derive(Debug)]
struct ExpeditedQueue<P> {
    policer: Option<Bucket>,
    limit: u64,
    backlog: Backlog<P>,
    counters: Counters,
}

impl<P: Packet + Send> QueueDiscipline<P> for ExpeditedQueue<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        if let Some(bucket) = &mut self.policer {
            bucket.fill(now);
            if !bucket.take_if_enough(packet.bytes()) {
                self.counters.drop(packet, DropReason::Policed, dropped);
                return Enqueued::Dropped;
            }
        }
        if self.backlog.packets() >= self.limit {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
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
}

/// One AF class: a FIFO, so that nothing is reordered, behind a meter that sets the drop precedence and
/// a RED curve for each.
#[derive(Debug)]
struct AssuredQueue<P> {
    class: u8,
    meter: Option<Meter>,
    colour_aware: bool,
    curves: [Curve; 3],
    /// In packets: of each colour with the better ones (RIO), or the last of all packets.
    averages: [Average; 3],
    coupled: bool,
    /// Packets held of each colour.
    held: [u64; 3],
    ecn: bool,
    limit: u64,
    random: Pcg32,
    backlog: Backlog<P>,
    counters: Counters,
}

impl<P: Packet> AssuredQueue<P> {
    fn new(values: &Values, bandwidth: u64, seed: u64) -> Result<Self, BuildError> {
        let curve = |min: &'static str, max: &'static str, probability| {
            let (low, high) = (values.number(min), values.number(max));
            if high <= low {
                return Err(values.invalid(max, format!("more than {min}")));
            }
            Ok(Curve::new(low, high, values.number(probability), false))
        };
        let (cir, pir) = (values.whole("cir"), values.whole("pir"));
        let (cbs, ebs, pbs) = (values.whole("cbs"), values.whole("ebs"), values.whole("pbs"));
        let kind = values.choice("meter");
        if matches!(kind, "trtcm" | "tswtcm") && pir < cir {
            return Err(values.invalid("pir", "at least cir"));
        }
        let meter = match kind {
            "srtcm" => Some(Meter::single_rate(cir, cbs, ebs)),
            "trtcm" => Some(Meter::two_rate(cir, cbs, pir, pbs)),
            "tswtcm" => {
                let interval = values.whole("interval");
                Some(Meter::sliding_window(cir as f64, pir as f64, interval, child_seed(seed, 0)))
            }
            _ => None,
        };
        let packet_time = values.number("avpkt") * 8.0 / bandwidth as f64;
        let average = Average::new(values.number("red_weight"), packet_time);
        Ok(Self {
            class: values.whole("af") as u8,
            meter,
            colour_aware: values.flag("colour_aware"),
            curves: [
                curve("green_min", "green_max", "green_probability")?,
                curve("yellow_min", "yellow_max", "yellow_probability")?,
                curve("red_min", "red_max", "red_probability")?,
            ],
            averages: [average; 3],
            coupled: values.flag("coupled"),
            held: [0; 3],
            ecn: values.flag("ecn"),
            limit: values.whole("limit"),
            random: Pcg32::seed_from_u64(seed),
            backlog: Backlog::default(),
            counters: Counters::default(),
        })
    }

    /// Sets the drop precedence.
    fn mark(&mut self, now: Nanos, packet: &mut P) -> Colour {
        let came = colour(packet.dscp());
        let Some(meter) = &mut self.meter else {
            return came;
        };
        let before = if self.colour_aware { came } else { Colour::Green };
        let colour = meter.colour(now, packet.bytes(), before);
        packet.set_dscp(dscp(self.class, colour));
        colour
    }

    /// Packets held of a colour and the better ones.
    fn held_up_to(&self, colour: Colour) -> u64 {
        self.held[..=colour as usize].iter().sum()
    }

    /// The average that judges a packet, after its arrival.
    fn average(&mut self, now: Nanos, colour: Colour) -> f64 {
        for of in COLOURS.into_iter().skip(colour as usize) {
            let held = self.held_up_to(of);
            self.averages[of as usize].on_arrival(now, held);
        }
        let judging = if self.coupled { colour } else { Colour::Red };
        self.averages[judging as usize].value()
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for AssuredQueue<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        let colour = self.mark(now, &mut packet);
        let average = self.average(now, colour);
        if self.backlog.packets() >= self.limit {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        let signal = self.curves[colour as usize].judge(average, 1.0, &mut self.random);
        let verdict = match signal {
            Signal::None => Verdict::Pass,
            Signal::Early if self.ecn => Verdict::Mark,
            Signal::Early | Signal::Forced => Verdict::Drop,
        };
        let Some((packet, outcome)) = verdict.carry_out(packet, &mut self.counters, dropped) else {
            return Enqueued::Dropped;
        };
        self.held[colour as usize] += 1;
        self.backlog.push(now, packet);
        outcome
    }

    fn dequeue(&mut self, now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        let Some(packet) = self.backlog.pop() else {
            return Dequeued::Empty;
        };
        let colour = colour(packet.dscp());
        self.held[colour as usize] -= 1;
        for of in COLOURS.into_iter().skip(colour as usize) {
            if self.held_up_to(of) == 0 {
                self.averages[of as usize].on_empty(now);
            }
        }
        self.counters.dequeued += 1;
        Dequeued::Packet(packet)
    }

    fn backlog(&self) -> Amount {
        self.backlog.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, _now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        out("average_packets", self.averages[Colour::Red as usize].value());
        for (name, held) in ["green", "yellow", "red"].into_iter().zip(self.held) {
            out(name, held as f64);
        }
    }
}
