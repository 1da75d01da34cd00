//! PIE, proportional integral controller enhanced (RFC 8033), on a single FIFO.
//!
//! The delay is that of the packet dequeued last, by its timestamp (RFC 8033 section 5.2 allows it, and
//! it is Linux's default), or the backlog over an estimated departure rate. Updates that fall due
//! while nothing happens are made up for at the next packet, with the state that held in between, so
//! that no timer is needed.

use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::backlog::Backlog;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::random::uniform;
use crate::verdict::Verdict;
use crate::{
    Amount, Built, Counters, Dequeued, DropReason, Dropped, Ecn, Enqueued, Nanos, Packet,
    QueueDiscipline,
};

/// No drop while no more than this is queued (RFC 8033 section 4.1: twice MEAN_PKTSIZE; Linux: less
/// than two full frames of 1514 bytes).
const FEW_BYTES: u64 = 2 * 1500;
/// Below this probability a short queue is spared (RFC 8033 section 4.1).
const SAFE_PROBABILITY: f64 = 0.2;
/// Bounds of the accumulated probability (RFC 8033 section 5.1): no drop below, a sure one from.
const ACCUMULATED_LOW: f64 = 0.85;
const ACCUMULATED_HIGH: f64 = 8.5;
/// From this probability on an update raises it by no more than the step (section 5.5).
const CAPPED_FROM: f64 = 0.1;
const CAPPED_STEP: f64 = 0.02;
/// Decay with an idle queue: RFC 8033 section 4.2, and Linux.
const DECAY: f64 = 0.98;
const DECAY_LINUX: f64 = 1.0 - 1.0 / 64.0;
/// Linux raises the probability by 2 % an update above this delay.
const LONG_DELAY: Nanos = 250_000_000;
/// A probability decayed this far is none.
const NEGLIGIBLE: f64 = 1e-12;
/// Departure-rate estimator (section 5.3): bytes of a measurement, and the weight of a new one.
const RATE_BYTES: u64 = 16_384;
const RATE_WEIGHT: f64 = 0.25;
const HOUR: f64 = 3.6e12;

pub(crate) fn info() -> QueueInfo {
    QueueInfo {
        name: "pie",
        summary: "Drops at random on arrival, by a controller that holds the delay at a target",
        source: "RFC 8033",
        params: vec![
            ParamInfo::new("target", Unit::Time, 15_000_000, "Delay aimed at (QDELAY_REF)")
                .at_least(1.0)
                .at_most(HOUR),
            ParamInfo::new(
                "tupdate",
                Unit::Time,
                15_000_000,
                "Time between updates of the drop probability (T_UPDATE)",
            )
            .at_least(100_000.0)
            .at_most(HOUR),
            ParamInfo::new("alpha", Unit::Number, 0.125, "Gain of the error, per second")
                .at_least(0.0),
            ParamInfo::new("beta", Unit::Number, 1.25, "Gain of the trend, per second")
                .at_least(0.0),
            ParamInfo::new(
                "max_burst",
                Unit::Time,
                150_000_000,
                "No drops for so long after an idle time (MAX_BURST)",
            )
            .at_most(HOUR),
            ParamInfo::new("ecn", Unit::Bool, false, "Mark ECN-capable packets, not drop them"),
            ParamInfo::new(
                "ecn_threshold",
                Unit::Fraction,
                0.1,
                "Drop ECN-capable packets too above this probability (MARK_ECNTH)",
            )
            .at_least(0.0)
            .at_most(1.0),
            ParamInfo::new(
                "bytemode",
                Unit::Bool,
                false,
                "Scale the probability by packet size over 1500 bytes",
            ),
            ParamInfo::new(
                "rate_estimator",
                Unit::Bool,
                false,
                "Delay from backlog and departure rate, not from timestamps",
            ),
            ParamInfo::new(
                "linux",
                Unit::Bool,
                false,
                "Linux: 2 % more an update above 250 ms of delay, decay by 1/64",
            ),
            ParamInfo::new("limit", Unit::Packets, 1000, "Most packets held; tail drop")
                .at_least(1.0),
        ],
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    Ok(Box::new(PieQueue {
        pie: Pie::new(PieParams::from_values(values), seed),
        limit: values.whole("limit"),
        backlog: Backlog::default(),
        counters: Counters::default(),
    }))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PieParams {
    target: Nanos,
    tupdate: Nanos,
    alpha: f64,
    beta: f64,
    max_burst: Nanos,
    ecn: bool,
    ecn_threshold: f64,
    bytemode: bool,
    rate_estimator: bool,
    linux: bool,
}

impl PieParams {
    /// From the parameters that [`info`] lists.
    pub(crate) fn from_values(values: &Values) -> Self {
        Self {
            target: values.whole("target"),
            tupdate: values.whole("tupdate"),
            alpha: values.number("alpha"),
            beta: values.number("beta"),
            max_burst: values.whole("max_burst"),
            ecn: values.flag("ecn"),
            ecn_threshold: values.number("ecn_threshold"),
            bytemode: values.flag("bytemode"),
            rate_estimator: values.flag("rate_estimator"),
            linux: values.flag("linux"),
        }
    }
}

/// The controller, apart from any queue.
#[derive(Clone, Debug)]
pub(crate) struct Pie {
    params: PieParams,
    random: Pcg32,
    probability: f64,
    /// Sum of probabilities since the last drop (RFC 8033 section 5.1).
    accumulated: f64,
    burst_left: Nanos,
    /// Delay now and at the last update.
    delay: Nanos,
    delay_before: Nanos,
    next_update: Nanos,
    /// Bytes and start of the present measurement of the departure rate, and the rate (bytes/s).
    measured: Option<(u64, Nanos)>,
    rate: f64,
}

impl Pie {
    pub(crate) fn new(params: PieParams, seed: u64) -> Self {
        Self {
            params,
            random: Pcg32::seed_from_u64(seed),
            probability: 0.0,
            accumulated: 0.0,
            burst_left: params.max_burst,
            delay: 0,
            delay_before: 0,
            next_update: params.tupdate,
            measured: None,
            rate: 0.0,
        }
    }

    /// Make the updates that fell due by `now`, with `backlog` bytes since the last event.
    pub(crate) fn catch_up(&mut self, now: Nanos, backlog: u64) {
        while self.next_update <= now {
            let before = self.state();
            self.update(backlog);
            self.next_update += self.params.tupdate;
            if self.state() == before && self.next_update <= now {
                // Nor do all further updates of this time change anything.
                let behind = (now - self.next_update) / self.params.tupdate + 1;
                self.next_update += behind * self.params.tupdate;
            }
        }
    }

    /// What an update changes.
    fn state(&self) -> (f64, Nanos, Nanos, Nanos) {
        (self.probability, self.delay, self.delay_before, self.burst_left)
    }

    /// RFC 8033 section 4.2, with the gains scaled by the probability.
    fn update(&mut self, backlog: u64) {
        if self.params.rate_estimator {
            self.delay =
                if self.rate > 0.0 { (backlog as f64 / self.rate * 1e9) as Nanos } else { 0 };
        } else if backlog == 0 {
            self.delay = 0;
        }
        let seconds = |nanos: Nanos| nanos as f64 / 1e9;
        let (delay, before) = (seconds(self.delay), seconds(self.delay_before));
        let mut change = self.params.alpha * (delay - seconds(self.params.target))
            + self.params.beta * (delay - before);
        change /= gain_divisor(self.probability);
        if self.probability >= CAPPED_FROM {
            change = change.min(CAPPED_STEP);
        }
        self.probability += change;
        if self.params.linux && self.delay > LONG_DELAY {
            self.probability += CAPPED_STEP;
        }
        if self.delay == 0 && self.delay_before == 0 {
            self.probability *= if self.params.linux { DECAY_LINUX } else { DECAY };
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        if self.probability < NEGLIGIBLE {
            self.probability = 0.0;
        }
        self.burst_left = self.burst_left.saturating_sub(self.params.tupdate);
        let half = self.params.target / 2;
        if self.probability == 0.0 && self.delay < half && self.delay_before < half {
            self.burst_left = self.params.max_burst;
        }
        self.delay_before = self.delay;
    }

    /// RFC 8033 section 4.1: no early drop in a burst, with little delay or with little queued.
    fn spares(&self, backlog_bytes: u64) -> bool {
        self.burst_left > 0
            || self.delay_before < self.params.target / 2 && self.probability < SAFE_PROBABILITY
            || backlog_bytes <= FEW_BYTES
    }

    /// The drop probability of an arriving packet, for queues that draw themselves.
    pub(crate) fn probability(&self, backlog_bytes: u64) -> f64 {
        if self.spares(backlog_bytes) { 0.0 } else { self.probability }
    }

    /// RFC 8033 sections 4.1 and 5.1: the test of an arriving packet.
    pub(crate) fn judge(&mut self, packet: &impl Packet, backlog_bytes: u64) -> Verdict {
        if self.spares(backlog_bytes) {
            return Verdict::Pass;
        }
        let mut probability = self.probability;
        if self.params.bytemode {
            probability = (probability * f64::from(packet.bytes()) / 1500.0).min(1.0);
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += probability;
        if self.accumulated < ACCUMULATED_LOW {
            return Verdict::Pass;
        }
        if self.accumulated < ACCUMULATED_HIGH && uniform(&mut self.random) >= probability {
            return Verdict::Pass;
        }
        self.accumulated = 0.0;
        let capable = packet.ecn() != Ecn::NotEct;
        if self.params.ecn && capable && self.probability < self.params.ecn_threshold {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    /// A packet of `bytes` leaves after `sojourn`; `backlog` bytes were queued with it.
    pub(crate) fn on_dequeue(&mut self, now: Nanos, sojourn: Nanos, bytes: u64, backlog: u64) {
        if !self.params.rate_estimator {
            self.delay = sojourn;
            return;
        }
        // RFC 8033 section 5.3: measure while there is enough queued to keep the link busy.
        if self.measured.is_none() && backlog >= RATE_BYTES {
            self.measured = Some((0, now));
        }
        if let Some((count, start)) = &mut self.measured {
            *count += bytes;
            if *count >= RATE_BYTES {
                let rate = *count as f64 * 1e9 / (now - *start).max(1) as f64;
                self.rate = if self.rate == 0.0 {
                    rate
                } else {
                    (1.0 - RATE_WEIGHT) * self.rate + RATE_WEIGHT * rate
                };
                self.measured = None;
            }
        }
    }

    pub(crate) fn record(&self, out: &mut dyn FnMut(&str, f64)) {
        out("drop_probability", self.probability);
        out("delay_estimate_ms", self.delay as f64 / 1e6);
        out("burst_allowance_ms", self.burst_left as f64 / 1e6);
    }
}

/// By what the gains are divided (RFC 8033 section 4.2 and its table).
fn gain_divisor(probability: f64) -> f64 {
    match probability {
        p if p < 1e-6 => 2048.0,
        p if p < 1e-5 => 512.0,
        p if p < 1e-4 => 128.0,
        p if p < 1e-3 => 32.0,
        p if p < 1e-2 => 8.0,
        p if p < 0.1 => 2.0,
        _ => 1.0,
    }
}

/// A FIFO under PIE.
#[derive(Debug)]
struct PieQueue<P> {
    pie: Pie,
    limit: u64,
    backlog: Backlog<P>,
    counters: Counters,
}

impl<P: Packet + Send> QueueDiscipline<P> for PieQueue<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, dropped: &mut Dropped<P>) -> Enqueued {
        self.counters.offered += 1;
        self.pie.catch_up(now, self.backlog.bytes());
        if self.backlog.packets() >= self.limit {
            self.counters.drop(packet, DropReason::Overflow, dropped);
            return Enqueued::Dropped;
        }
        let verdict = self.pie.judge(&packet, self.backlog.bytes());
        let Some((packet, outcome)) = verdict.carry_out(packet, &mut self.counters, dropped) else {
            return Enqueued::Dropped;
        };
        self.backlog.push(now, packet);
        outcome
    }

    fn dequeue(&mut self, now: Nanos, _dropped: &mut Dropped<P>) -> Dequeued<P> {
        let backlog = self.backlog.bytes();
        self.pie.catch_up(now, backlog);
        let Some(packet) = self.backlog.pop() else {
            return Dequeued::Empty;
        };
        self.counters.dequeued += 1;
        let sojourn = now.saturating_sub(packet.enqueued_at());
        self.pie.on_dequeue(now, sojourn, u64::from(packet.bytes()), backlog);
        Dequeued::Packet(packet)
    }

    fn backlog(&self) -> Amount {
        self.backlog.amount()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn record(&mut self, now: Nanos, out: &mut dyn FnMut(&str, f64)) {
        self.pie.catch_up(now, self.backlog.bytes());
        self.pie.record(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn pie() -> Pie {
        let params = PieParams {
            target: 15 * MS,
            tupdate: 15 * MS,
            alpha: 0.125,
            beta: 1.25,
            max_burst: 150 * MS,
            ecn: false,
            ecn_threshold: 0.1,
            bytemode: false,
            rate_estimator: false,
            linux: false,
        };
        Pie::new(params, 1)
    }

    /// RFC 8033 section 4.2: one step of the controller from p = 5 % (gains halved) with a delay that
    /// rose from 20 to 30 ms: (0.125 * 15 ms + 1.25 * 10 ms)/2 = 0.0071875.
    #[test]
    fn the_controller_steps_as_the_rfc_says() {
        let mut pie = pie();
        (pie.probability, pie.delay_before, pie.delay) = (0.05, 20 * MS, 30 * MS);
        pie.update(1);
        assert!((pie.probability - 0.057_187_5).abs() < 1e-12, "{}", pie.probability);
        assert_eq!(pie.delay_before, 30 * MS);
    }

    /// Section 5.5: from 10 % on, no more than 2 % a step, so that 10 % to 100 % takes 45 updates.
    #[test]
    fn steps_are_capped_above_ten_percent() {
        let mut pie = pie();
        (pie.probability, pie.delay) = (0.1, 10_000 * MS);
        let mut updates = 0;
        while pie.probability < 1.0 {
            pie.delay_before = 0;
            pie.update(1);
            updates += 1;
        }
        assert!((45..=46).contains(&updates), "{updates}");
    }

    /// The gain table is monotone: each band has four times the gain of the one below it (the lowest
    /// pair and the highest: by four and two).
    #[test]
    fn the_gains_rise_with_the_probability() {
        let bands = [5e-7, 5e-6, 5e-5, 5e-4, 5e-3, 5e-2, 0.5].map(gain_divisor);
        assert_eq!(bands, [2048.0, 512.0, 128.0, 32.0, 8.0, 2.0, 1.0]);
    }

    /// Section 4.2: with an empty queue p falls by 2 % an update; the burst allowance comes back with
    /// p = 0. A long idle time takes no longer to make up for than that.
    #[test]
    fn an_idle_queue_forgets() {
        let mut pie = pie();
        pie.probability = 0.1;
        pie.burst_left = 0;
        // The proportional term also falls by 0.125 * 15 ms each update.
        pie.update(0);
        assert!((pie.probability - (0.1 - 0.001_875) * 0.98).abs() < 1e-12);
        pie.catch_up(u64::MAX / 2, 0);
        assert_eq!((pie.probability, pie.burst_left), (0.0, 150 * MS));
        assert!(pie.next_update > u64::MAX / 2);
    }

    /// Section 4.2 by its recursion: in a second without packets (66 updates, the first of which also
    /// sees the delay fall by 30 ms) p goes on falling, though nothing calls the queue.
    #[test]
    fn the_probability_decays_in_a_pause() {
        let mut pie = pie();
        (pie.probability, pie.delay, pie.delay_before) = (0.4, 30 * MS, 30 * MS);
        let mut expected = 0.4 - 0.125 * 0.015 - 1.25 * 0.030;
        for _ in 1..66 {
            let divisor = match expected {
                p if p >= 0.1 => 1.0,
                p if p >= 0.01 => 2.0,
                p if p >= 0.001 => 8.0,
                _ => unreachable!(),
            };
            expected = (expected - 0.125 * 0.015 / divisor) * 0.98;
        }
        pie.catch_up(1000 * MS, 0);
        assert!((pie.probability - expected).abs() < 1e-12, "{} {expected}", pie.probability);
        assert!(expected < 0.1);
    }

    /// Section 4.1: the bypass counts bytes. Thirty packets of 100 bytes are no standing queue.
    #[test]
    fn a_few_bytes_are_spared() {
        let mut pie = pie();
        (pie.probability, pie.burst_left) = (1.0, 0);
        assert!(pie.spares(3000));
        assert!(!pie.spares(3001));
    }
}
