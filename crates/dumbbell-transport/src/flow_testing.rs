//! Two ends of a flow and a path between them in virtual time, for tests.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use dumbbell_queue::{Ecn, Nanos};
use proptest::prelude::*;
use serde_json::Value;

use crate::flow::{Arrival, Ends, FlowReceiver, FlowSender, Pair};
use crate::registry::Recipe;
use crate::{Kind, Packet};

pub(crate) const MILLISECOND: Nanos = 1_000_000;
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the sender to the receiver.
    Forward,
    Back,
}

/// What becomes of a packet beside the path's delay, rate and buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Lose,
    /// It arrives so much later than it would: later packets overtake it.
    Delay(Nanos),
    /// A copy arrives so much later.
    Duplicate(Nanos),
    /// Congestion experienced.
    Mark,
}

/// A packet that enters the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    pub(crate) at: Nanos,
    pub(crate) way: Way,
    /// How many went the same way before.
    pub(crate) number: u64,
    pub(crate) packet: Packet,
}

/// The path; by default an ideal one without delay.
pub(crate) struct Path {
    /// One-way delays.
    pub(crate) forward: Nanos,
    pub(crate) back: Nanos,
    /// Of the forward bottleneck, bits per second.
    pub(crate) rate: Option<f64>,
    /// Packets that wait behind the one in transmission; others are dropped.
    pub(crate) buffer: usize,
    /// Asked before the bottleneck.
    pub(crate) script: Box<dyn FnMut(&Crossing) -> Fate>,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            forward: 0,
            back: 0,
            rate: None,
            buffer: usize::MAX,
            script: Box::new(|_| Fate::Pass),
        }
    }
}

impl Path {
    /// The same delay each way.
    pub(crate) fn delay(one_way: Nanos) -> Self {
        Self { forward: one_way, back: one_way, ..Self::default() }
    }

    /// With a bottleneck on the way forward.
    pub(crate) fn bottleneck(self, rate: f64, buffer: usize) -> Self {
        Self { rate: Some(rate), buffer, ..self }
    }

    pub(crate) fn script(self, script: impl FnMut(&Crossing) -> Fate + 'static) -> Self {
        Self { script: Box::new(script), ..self }
    }
}

/// 4 Mbit/s with a short buffer, and losses, copies and late packets by a list that repeats; below 8 is
/// one of these.
pub(crate) fn troubled(fates: Vec<u8>) -> Path {
    Path::delay(20 * MILLISECOND).bottleneck(4e6, 10).script(move |crossing| {
        match fates[crossing.number as usize % fates.len()] {
            0 => Fate::Lose,
            1..4 => Fate::Duplicate(3 * MILLISECOND),
            4..8 => Fate::Delay(9 * MILLISECOND),
            _ => Fate::Pass,
        }
    })
}

/// What has happened to the packets that go one way.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) sent: u64,
    /// By the script and by the buffer together.
    pub(crate) lost: u64,
    /// By the buffer.
    pub(crate) overflows: u64,
    pub(crate) arrivals: Vec<(Nanos, Packet)>,
}

struct Flying {
    at: Nanos,
    order: u64,
    way: Way,
    packet: Packet,
}

impl Flying {
    fn key(&self) -> (Nanos, u64) {
        (self.at, self.order)
    }
}

impl PartialEq for Flying {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Flying {}

impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flying {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// A flow under way.
pub(crate) struct Run {
    pub(crate) pair: Pair,
    pub(crate) path: Path,
    pub(crate) now: Nanos,
    pub(crate) forward: Log,
    pub(crate) back: Log,
    flying: BinaryHeap<Reverse<Flying>>,
    order: u64,
    /// When the packets in the bottleneck will have left it.
    departures: VecDeque<Nanos>,
}

/// Packets or timeouts at one instant after which an end is taken to be stuck.
const STUCK: u32 = 100_000;

impl Run {
    /// A variable that the sender records, NaN if there is none of this name.
    pub(crate) fn recorded(&self, wanted: &str) -> f64 {
        let mut found = f64::NAN;
        self.pair.sender.record(&mut |name, value| {
            if name == wanted {
                found = value;
            }
        });
        found
    }

    /// A flow that begins at 0; nothing is written yet.
    pub(crate) fn new(mut pair: Pair, path: Path) -> Self {
        pair.sender.on_start(0);
        let mut run = Self {
            pair,
            path,
            now: 0,
            forward: Log::default(),
            back: Log::default(),
            flying: BinaryHeap::new(),
            order: 0,
            departures: VecDeque::new(),
        };
        run.transmit();
        run
    }

    /// A flow with an endless supply of data.
    pub(crate) fn greedy(pair: Pair, path: Path) -> Self {
        let mut run = Self::new(pair, path);
        run.write(u64::MAX);
        run
    }

    /// The application writes.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.pair.sender.write(self.now, bytes);
        self.transmit();
    }

    /// Go on until `end`, what happens then included.
    pub(crate) fn until(&mut self, end: Nanos) {
        let mut repeated = 0;
        loop {
            let arrival = self.flying.peek().map_or(Nanos::MAX, |Reverse(f)| f.at);
            let sender = self.pair.sender.next_timeout().max(self.now);
            let receiver = self.pair.receiver.next_timeout().max(self.now);
            let next = arrival.min(sender).min(receiver);
            if next > end || next == Nanos::MAX {
                self.now = self.now.max(end);
                return;
            }
            repeated = if next == self.now { repeated + 1 } else { 0 };
            assert!(repeated < STUCK, "time stands still at {next}");
            self.now = next;
            if arrival == next {
                self.arrive();
            } else if sender == next {
                self.pair.sender.on_timeout(next);
            } else {
                self.pair.receiver.on_timeout(next);
            }
            self.transmit();
        }
    }

    /// Bits per second of payload that have arrived between two times.
    pub(crate) fn goodput(&self, from: Nanos, to: Nanos) -> f64 {
        let arrived = self.forward.arrivals.iter().filter(|(at, _)| (from..to).contains(at));
        let bytes: u64 = arrived.map(|(_, packet)| u64::from(packet.payload)).sum();
        bytes as f64 * 8e9 / (to - from) as f64
    }

    /// Bytes delivered are those of the distinct packets that have arrived, `payload` in each.
    pub(crate) fn assert_each_once(&self, payload: u64) {
        let arrived: BTreeSet<_> = self.forward.arrivals.iter().map(|(_, p)| p.seq).collect();
        assert!(arrived.len() > 5);
        assert_eq!(self.pair.receiver.delivered_bytes(), payload * arrived.len() as u64);
    }

    /// Gaps between arrivals, in ms: all within bounds, their mean, and the variance of numbers that are
    /// uniform in a range of width `width`.
    pub(crate) fn assert_gaps(&self, (least, most): (f64, f64), mean: f64, width: f64) {
        let at: Vec<_> = self.forward.arrivals.iter().map(|&(at, _)| at as f64 / 1e6).collect();
        let gaps: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let n = gaps.len() as f64;
        assert!(n > 500.0 && gaps.iter().all(|gap| (least - 1e-5..most + 1e-5).contains(gap)));
        let found = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - found).powi(2)).sum::<f64>() / n;
        // Four standard errors of the mean; of the variance, width^4 / 180 over n.
        assert!((found - mean).abs() < 4.0 * width / (12.0 * n).sqrt(), "{found}");
        let error = 4.0 * width.powi(2) / (180.0 * n).sqrt();
        assert!((variance - width.powi(2) / 12.0).abs() < error, "{variance}");
    }

    fn arrive(&mut self) {
        let Some(Reverse(Flying { way, packet, .. })) = self.flying.pop() else { return };
        match way {
            Way::Forward => {
                self.forward.arrivals.push((self.now, packet));
                self.pair.receiver.on_packet(self.now, &packet);
            }
            Way::Back => {
                self.back.arrivals.push((self.now, packet));
                let report = self.pair.receiver.report(&packet);
                self.pair.sender.on_feedback(self.now, &packet, report);
            }
        }
    }

    fn transmit(&mut self) {
        for _ in 0..STUCK {
            let (way, packet) = if let Some(packet) = self.pair.sender.poll_transmit(self.now) {
                (Way::Forward, packet)
            } else if let Some(packet) = self.pair.receiver.poll_transmit(self.now) {
                (Way::Back, packet)
            } else {
                return;
            };
            self.cross(way, packet);
        }
        panic!("no end of packets at {}", self.now);
    }

    fn log(&mut self, way: Way) -> &mut Log {
        match way {
            Way::Forward => &mut self.forward,
            Way::Back => &mut self.back,
        }
    }

    fn cross(&mut self, way: Way, mut packet: Packet) {
        let number = self.log(way).sent;
        self.log(way).sent += 1;
        let fate = (self.path.script)(&Crossing { at: self.now, way, number, packet });
        let mut later = 0;
        match fate {
            Fate::Lose => {
                self.log(way).lost += 1;
                return;
            }
            Fate::Delay(by) => later = by,
            Fate::Mark => packet.set_ecn(Ecn::Ce),
            Fate::Pass | Fate::Duplicate(_) => {}
        }
        let leaves = match (way, self.path.rate) {
            (Way::Forward, Some(rate)) => {
                let Some(leaves) = self.queue(rate, &packet) else {
                    self.forward.lost += 1;
                    self.forward.overflows += 1;
                    return;
                };
                leaves
            }
            _ => self.now,
        };
        let delay = match way {
            Way::Forward => self.path.forward,
            Way::Back => self.path.back,
        };
        let at = leaves + delay + later;
        self.fly(at, way, packet);
        if let Fate::Duplicate(by) = fate {
            self.fly(at + by, way, packet);
        }
    }

    fn fly(&mut self, at: Nanos, way: Way, packet: Packet) {
        self.flying.push(Reverse(Flying { at, order: self.order, way, packet }));
        self.order += 1;
    }

    /// When a packet leaves the bottleneck; none if it is dropped.
    fn queue(&mut self, rate: f64, packet: &Packet) -> Option<Nanos> {
        while self.departures.front().is_some_and(|&at| at <= self.now) {
            self.departures.pop_front();
        }
        if self.departures.len() > self.path.buffer {
            return None;
        }
        let begins = self.departures.back().map_or(self.now, |&at| at.max(self.now));
        let leaves = begins + (f64::from(packet.ip_bytes) * 8e9 / rate) as Nanos;
        self.departures.push_back(leaves);
        Some(leaves)
    }
}

/// Both ends of a transport that takes no controller, with some options (a JSON object).
pub(crate) fn pair_of(kind: &str, options: Value) -> Pair {
    let options = options.as_object().cloned().unwrap_or_default();
    Recipe::new(kind, &options, None).unwrap().build(&Ends::default())
}

/// What a driver may do to the two ends of a flow.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Wait(Nanos),
    Write(u64),
    Truncate,
    /// Whatever the network may bring.
    ToReceiver(Packet),
    ToSender(Packet, Vec<Arrival>),
    /// Deliver what was sent last, there or back.
    Pass(Way),
}

/// Small numbers, any numbers, and the ends of the range.
fn any_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..20_u64,
        2 => 0..SECOND,
        1 => any::<u64>(),
        1 => any::<f64>().prop_map(f64::to_bits),
        1 => (u64::MAX - 5)..=u64::MAX,
    ]
}

prop_compose! {
    pub(crate) fn any_packet()(
        kind in prop::sample::select(
            &[Kind::Payload, Kind::Report, Kind::LowPayload, Kind::StrongAck, Kind::Data][..]
        ),
        (flags, ip_bytes, payload) in any::<(u8, u16, u16)>(),
        (seq, timestamp) in (any_word(), any_word()),
        aux in [any_word(), any_word(), any_word()],
    ) -> Packet {
        Packet { kind, flags, ip_bytes, payload, seq, timestamp, aux, ..Packet::default() }
    }
}

prop_compose! {
    fn any_arrival()(seq in any_word(), at in any_word(), ce in any::<bool>()) -> Arrival {
        Arrival { seq, at, ecn: if ce { Ecn::Ce } else { Ecn::Ect0 } }
    }
}

pub(crate) fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..SECOND).prop_map(Step::Wait),
        1 => any_word().prop_map(Step::Wait),
        2 => any_word().prop_map(Step::Write),
        1 => Just(Step::Truncate),
        3 => any_packet().prop_map(Step::ToReceiver),
        3 => (any_packet(), prop::collection::vec(any_arrival(), 0..5))
            .prop_map(|(packet, report)| Step::ToSender(packet, report)),
        2 => Just(Step::Pass(Way::Forward)),
        2 => Just(Step::Pass(Way::Back)),
    ];
    prop::collection::vec(step, 0..80)
}

/// 292 years.
const END_OF_TIME: Nanos = Nanos::MAX / 2;

/// Take the steps: time goes on, the allowed rate stays a positive number, and neither end sends or
/// times out without end at one instant.
pub(crate) fn survive(mut pair: Pair, steps: Vec<Step>) {
    let mut now: Nanos = 0;
    let (mut there, mut back) = (None, None);
    pair.sender.on_start(now);
    for step in steps {
        match step {
            Step::Wait(by) => now = now.saturating_add(by).min(END_OF_TIME),
            Step::Write(bytes) => pair.sender.write(now, bytes),
            Step::Truncate => pair.sender.truncate(),
            Step::ToReceiver(packet) => pair.receiver.on_packet(now, &packet),
            Step::ToSender(packet, report) => pair.sender.on_feedback(now, &packet, &report),
            Step::Pass(Way::Forward) => {
                if let Some(packet) = there.take() {
                    pair.receiver.on_packet(now, &packet);
                }
            }
            Step::Pass(Way::Back) => {
                if let Some(packet) = back.take() {
                    let report = pair.receiver.report(&packet);
                    pair.sender.on_feedback(now, &packet, report);
                }
            }
        }
        for turn in 0.. {
            assert!(turn < STUCK, "no end of packets and timeouts at {now}");
            if let Some(packet) = pair.sender.poll_transmit(now) {
                there = Some(packet);
            } else if let Some(packet) = pair.receiver.poll_transmit(now) {
                back = Some(packet);
            } else if pair.sender.next_timeout() <= now {
                pair.sender.on_timeout(now);
            } else if pair.receiver.next_timeout() <= now {
                pair.receiver.on_timeout(now);
            } else {
                break;
            }
        }
        let snapshot = pair.sender.snapshot();
        assert!(snapshot.rate > 0.0 && snapshot.rate.is_finite(), "{snapshot:?}");
        if let Some(calculated) = pair.sender.coupled().and_then(|c| c.take_calculated()) {
            assert!(calculated.rate > 0.0 && calculated.rate.is_finite(), "{calculated:?}");
        }
    }
}

mod tests {
    use super::*;
    use crate::flow::Snapshot;
    use crate::tcp::SenderStats;

    /// Sends `left` packets of 1000 bytes at once.
    struct Burst {
        left: u64,
        next: u64,
    }

    impl FlowSender for Burst {
        fn on_start(&mut self, _now: Nanos) {}
        fn write(&mut self, _now: Nanos, bytes: u64) {
            self.left += bytes / 972;
        }
        fn truncate(&mut self) {}
        fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
            self.left = self.left.checked_sub(1)?;
            self.next += 1;
            let packet = Ends::default().packet(Kind::Payload, 28, 972, now);
            Some(Packet { seq: self.next - 1, ..packet })
        }
        fn on_feedback(&mut self, _: Nanos, _: &Packet, _: &[Arrival]) {}
        fn next_timeout(&self) -> Nanos {
            Nanos::MAX
        }
        fn on_timeout(&mut self, _now: Nanos) {}
        fn is_idle(&self) -> bool {
            self.left == 0
        }
        fn rtt_sample(&self) -> Option<Nanos> {
            None
        }
        fn snapshot(&self) -> Snapshot {
            let nan = f64::NAN;
            Snapshot { window: nan, ssthresh: nan, in_flight: nan, rate: nan, srtt: 0, phase: "" }
        }
        fn stats(&self) -> SenderStats {
            SenderStats::default()
        }
    }

    /// Answers each packet.
    #[derive(Default)]
    struct Echo(VecDeque<Packet>);

    impl FlowReceiver for Echo {
        fn on_packet(&mut self, _now: Nanos, packet: &Packet) {
            self.0.push_back(Packet { kind: Kind::Report, ip_bytes: 28, payload: 0, ..*packet });
        }
        fn poll_transmit(&mut self, _now: Nanos) -> Option<Packet> {
            self.0.pop_front()
        }
        fn next_timeout(&self) -> Nanos {
            Nanos::MAX
        }
        fn on_timeout(&mut self, _now: Nanos) {}
        fn delivered_bytes(&self) -> u64 {
            0
        }
    }

    fn pair() -> Pair {
        Pair { sender: Box::new(Burst { left: 0, next: 0 }), receiver: Box::<Echo>::default() }
    }

    /// 1000 bytes at 8 Mbit/s take 1 ms; of 10 packets at once, the buffer of 3 holds 3 behind the one
    /// in transmission. Number 1 is lost before the buffer, number 2 comes twice, number 3 late.
    #[test]
    fn path_delays_queues_loses_duplicates_and_reorders() {
        let path = Path { forward: 10 * MILLISECOND, back: 5 * MILLISECOND, ..Path::default() }
            .bottleneck(8e6, 3)
            .script(|crossing| match (crossing.way, crossing.number) {
                (Way::Forward, 1) => Fate::Lose,
                (Way::Forward, 2) => Fate::Duplicate(0),
                (Way::Forward, 3) => Fate::Delay(7 * MILLISECOND),
                (Way::Back, 0) => Fate::Mark,
                _ => Fate::Pass,
            });
        let mut run = Run::new(pair(), path);
        run.write(9720);
        run.until(SECOND);
        let log: Vec<_> =
            run.forward.arrivals.iter().map(|(at, p)| (at / MILLISECOND, p.seq)).collect();
        assert_eq!(log, [(11, 0), (12, 2), (12, 2), (14, 4), (20, 3)]);
        assert_eq!((run.forward.sent, run.forward.lost, run.forward.overflows), (10, 6, 5));
        let back = run.back.arrivals.iter().map(|(at, p)| (at / MILLISECOND, p.is_ce()));
        assert_eq!(back.collect::<Vec<_>>()[..2], [(16, true), (17, false)]);
        assert_eq!(run.goodput(0, 13 * MILLISECOND), 3.0 * 972.0 * 8.0 / 0.013);
    }
}
