//! Sends at the rate that the receiver's reports allow (RFC 5348 section 4).

use dumbbell_queue::{Ecn, Nanos};

use super::HEADER_BYTES;
use super::equation::throughput;
use super::limits::{FullUse, ReceiveRates};
use crate::flow::{Arrival, Calculated, Coupled, Ends, FlowSender, Snapshot};
use crate::random::Random;
use crate::tcp::SenderStats;
use crate::{Kind, Packet};

const SECOND: f64 = 1e9;
/// Longest time between packets (t_mbi), seconds.
const LONGEST_INTERVAL: f64 = 64.0;
/// Bytes a second; far above any path.
const GREATEST_RATE: f64 = 1e12;
/// No-feedback timer before the first feedback, seconds.
const INITIAL_TIMER: f64 = 2.0;
/// Bounds of samples of the round-trip time, seconds.
const LEAST_RTT: f64 = 1e-6;
const GREATEST_RTT: f64 = 1e4;
/// Weight of old samples in the round-trip time, and in its square root (sections 4.3 and 4.5).
const OLD: f64 = 0.9;
/// A packet may leave so much after its time without loss of rate, ns (section 4.6).
const LATENESS: Nanos = 500_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// IP bytes.
    pub(super) packet: u16,
    pub(super) damping: bool,
    /// Of a gap.
    pub(super) overhead: f64,
    pub(super) ecn: bool,
}

/// Round-trip time, seconds.
#[derive(Clone, Copy, Debug)]
struct RoundTrip {
    smoothed: f64,
    /// Average of its square root.
    root: f64,
    sample: f64,
}

pub(super) struct Sender {
    settings: Settings,
    ends: Ends,
    /// Bytes; [`u64::MAX`] never ends.
    unsent: u64,
    next: u64,
    /// All packets below it are reported of, or given up.
    settled: u64,
    sent_at: Option<Nanos>,
    /// When the next packet may leave.
    send_at: Nanos,
    /// Bytes a second (X).
    rate: f64,
    rtt: Option<RoundTrip>,
    last_sample: Option<Nanos>,
    loss_event_rate: f64,
    /// What the equation allows (X_Bps), infinite without losses.
    equation: f64,
    received: ReceiveRates,
    /// Of the last computation.
    limit: f64,
    /// When the rate was doubled last (tld).
    doubled: Nanos,
    full_use: FullUse,
    /// Sending time of the last packet reported of.
    reported: Option<Nanos>,
    /// The no-feedback timer, and whether anything was sent since it was set.
    timer: Nanos,
    active: bool,
    calculated: Option<Calculated>,
    /// When the next packet was to be sent, and at which rate, when that was not of the sender's own
    /// control alone: after the last packet, or since a rate was set.
    due: Nanos,
    paced: f64,
    random: Random,
    /// Of the gap's nominal length.
    spread: f64,
    stats: SenderStats,
}

fn nanos(seconds: f64) -> Nanos {
    (seconds * SECOND).round().max(1.0) as Nanos
}

impl Sender {
    pub(super) fn new(settings: Settings, ends: Ends) -> Self {
        Self {
            settings,
            ends,
            unsent: 0,
            next: 0,
            settled: 0,
            sent_at: None,
            send_at: 0,
            // A packet a second.
            rate: settings.packet.into(),
            rtt: None,
            last_sample: None,
            loss_event_rate: 0.0,
            equation: f64::INFINITY,
            received: ReceiveRates::default(),
            limit: f64::INFINITY,
            doubled: 0,
            full_use: FullUse::default(),
            reported: None,
            timer: Nanos::MAX,
            active: false,
            calculated: None,
            due: 0,
            paced: 0.0,
            random: Random::new(ends.seed),
            spread: 1.0,
            stats: SenderStats::default(),
        }
    }

    fn size(&self) -> f64 {
        self.settings.packet.into()
    }

    fn least_rate(&self) -> f64 {
        self.size() / LONGEST_INTERVAL
    }

    fn allow(&mut self, rate: f64) {
        self.rate = rate.max(self.least_rate()).min(GREATEST_RATE);
    }

    /// Bytes a second over which packets are spaced (X_inst).
    fn instant_rate(&self) -> f64 {
        match self.rtt {
            Some(rtt) if self.settings.damping => {
                (self.rate * rtt.root / rtt.sample.sqrt()).max(self.least_rate())
            }
            _ => self.rate,
        }
    }

    /// A window of TCP's initial size in each round trip (RFC 3390).
    fn initial_rate(&self, rtt: &RoundTrip) -> f64 {
        let size = self.size();
        (4.0 * size).min((2.0 * size).max(4380.0)) / rtt.smoothed
    }

    fn set_timer(&mut self, now: Nanos, seconds: f64) {
        self.timer = now.saturating_add(nanos(seconds));
        self.active = false;
    }

    /// The timer's length: four round trips, but two packets at least.
    fn timeout(&self) -> f64 {
        let packets = 2.0 * self.size() / self.rate;
        self.rtt.map_or(INITIAL_TIMER, |rtt| 4.0 * rtt.smoothed).max(packets)
    }

    fn measure(&mut self, sample: Nanos) -> RoundTrip {
        self.last_sample = Some(sample);
        let sample = (sample as f64 / SECOND).clamp(LEAST_RTT, GREATEST_RTT);
        let average = |old: f64, new: f64| OLD * old + (1.0 - OLD) * new;
        let rtt =
            self.rtt.map_or(RoundTrip { smoothed: sample, root: sample.sqrt(), sample }, |rtt| {
                RoundTrip {
                    smoothed: average(rtt.smoothed, sample),
                    root: average(rtt.root, sample.sqrt()),
                    sample,
                }
            });
        self.rtt = Some(rtt);
        rtt
    }

    /// Take in a receive rate; the new limit of the sending rate (section 4.3 step 4).
    fn limit(
        &mut self,
        now: Nanos,
        received: f64,
        more_loss: bool,
        limited: bool,
        rtt: Nanos,
    ) -> f64 {
        if !limited {
            self.received.update(now, received, rtt);
            2.0 * self.received.greatest()
        } else if more_loss {
            self.received.halve();
            self.received.maximise(now, 0.85 * received);
            self.received.greatest()
        } else {
            self.received.maximise(now, received);
            2.0 * self.received.greatest()
        }
    }

    /// Compute the rate anew, at most `limit` (section 4.3 step 4).
    fn compute(&mut self, now: Nanos, limit: f64, rtt: &RoundTrip) {
        self.limit = limit;
        if self.loss_event_rate > 0.0 {
            self.equation = throughput(self.size(), rtt.smoothed, self.loss_event_rate);
            self.allow(self.equation.min(limit));
        } else if now - self.doubled >= nanos(rtt.smoothed) {
            self.allow((2.0 * self.rate).min(limit).max(self.initial_rate(rtt)));
            self.doubled = now;
        }
    }

    /// The rate has been set: tell those that share it, and space the next packet by it.
    fn apply(&mut self) {
        if let Some(rtt) = self.rtt {
            let rtt = nanos(rtt.smoothed);
            self.calculated =
                Some(Calculated { rate: 8.0 * self.rate, desired: f64::INFINITY, rtt });
        }
        self.space();
    }

    /// Until the next packet, ns.
    fn gap(&self) -> Nanos {
        nanos(self.size() / self.instant_rate() * self.spread)
    }

    fn space(&mut self) {
        if let Some(sent) = self.sent_at {
            self.send_at = sent.saturating_add(self.gap());
        }
    }

    /// No feedback for long (section 4.4). Whether the rate has changed.
    fn on_no_feedback(&mut self, now: Nanos) -> bool {
        let received = self.received.greatest();
        let Some(rtt) = self.rtt else {
            if self.active {
                self.allow(self.rate / 2.0);
            }
            return self.active;
        };
        let lossy = self.loss_event_rate > 0.0;
        let recover = self.initial_rate(&rtt);
        let slow = if lossy { received < recover } else { self.rate < 2.0 * recover };
        if slow && !self.active {
            return false;
        }
        if !lossy {
            self.allow(self.rate / 2.0);
            return true;
        }
        // 2 X_recv was the limit, or else the equation.
        let limit = if self.equation > 2.0 * received { received } else { self.equation / 2.0 };
        let limit = limit.max(self.least_rate());
        self.received.replace(now, limit / 2.0);
        self.compute(now, limit, &rtt);
        true
    }
}

impl FlowSender for Sender {
    fn on_start(&mut self, now: Nanos) {
        self.send_at = now;
    }

    fn write(&mut self, _now: Nanos, bytes: u64) {
        self.unsent = self.unsent.saturating_add(bytes);
    }

    fn truncate(&mut self) {
        self.unsent = 0;
    }

    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        if self.unsent == 0 || now < self.send_at {
            return None;
        }
        let full = self.settings.packet - HEADER_BYTES;
        let payload = self.unsent.min(full.into()) as u16;
        if self.unsent != u64::MAX {
            self.unsent -= u64::from(payload);
        }
        let mut packet = self.ends.packet(Kind::Payload, HEADER_BYTES, payload, now);
        packet.seq = self.next;
        packet.aux[2] = self.rtt.map_or(0, |rtt| nanos(rtt.smoothed));
        if self.settings.ecn {
            packet.set_ecn(Ecn::Ect0);
        }
        self.next += 1;
        self.stats.sent += 1;
        self.full_use.on_sent(now, self.unsent > 0);
        // Times kept closely are kept exactly on average.
        let nominal = self.send_at.max(now.saturating_sub(LATENESS));
        let overhead = self.settings.overhead;
        self.spread = 1.0 + overhead * (self.random.uniform() - 0.5);
        let interval = self.gap();
        self.sent_at = Some(nominal);
        self.send_at = nominal.saturating_add(interval).max(now.saturating_add(interval / 2));
        self.due = self.send_at;
        self.paced = self.instant_rate();
        if self.timer == Nanos::MAX {
            let seconds = self.timeout();
            self.set_timer(now, seconds);
        }
        self.active = true;
        Some(packet)
    }

    fn on_feedback(&mut self, now: Nanos, packet: &Packet, _report: &[Arrival]) {
        let [delay, received, p] = packet.aux;
        let (received, p) = (f64::from_bits(received), f64::from_bits(p));
        if packet.kind != Kind::Report
            || packet.seq >= self.next
            || !(0.0..=GREATEST_RATE).contains(&received)
            || !(0.0..=1.0).contains(&p)
        {
            return;
        }
        let first = self.rtt.is_none();
        let rtt = self.measure(now.saturating_sub(packet.timestamp).saturating_sub(delay));
        let timeout = self.timeout();
        let more_loss = p > self.loss_event_rate;
        self.stats.recoveries += u64::from(more_loss);
        self.loss_event_rate = p;
        self.settled = self.settled.max(packet.seq + 1);
        if first {
            self.received.replace(now, f64::INFINITY);
            self.allow(self.initial_rate(&rtt));
            self.doubled = now;
        }
        let limited = !self.full_use.within(self.reported, packet.timestamp);
        self.reported = self.reported.max(Some(packet.timestamp.min(now)));
        let limit = self.limit(now, received, more_loss, limited, nanos(rtt.smoothed));
        self.compute(now, limit, &rtt);
        self.apply();
        self.set_timer(now, timeout);
    }

    fn next_timeout(&self) -> Nanos {
        if self.unsent > 0 { self.send_at.min(self.timer) } else { self.timer }
    }

    fn on_timeout(&mut self, now: Nanos) {
        if now < self.timer {
            return;
        }
        let idle = self.unsent == 0 && !self.active;
        if idle {
            self.settled = self.next;
        }
        let slower = self.on_no_feedback(now);
        if slower {
            self.stats.timeouts += 1;
            self.apply();
        }
        if idle && !slower {
            // Nor would it be later.
            self.timer = Nanos::MAX;
        } else {
            let seconds = self.timeout();
            self.set_timer(now, seconds);
        }
    }

    fn is_idle(&self) -> bool {
        self.unsent == 0 && self.settled == self.next
    }

    fn rtt_sample(&self) -> Option<Nanos> {
        self.last_sample
    }

    fn snapshot(&self) -> Snapshot {
        let srtt = self.rtt.map(|rtt| rtt.smoothed);
        Snapshot {
            window: srtt.map_or(f64::NAN, |rtt| self.rate * rtt / self.size()),
            ssthresh: f64::NAN,
            in_flight: (self.next - self.settled) as f64,
            rate: 8.0 * self.rate,
            srtt: srtt.map_or(0, nanos),
            phase: if srtt.is_none() {
                "start"
            } else if self.loss_event_rate == 0.0 {
                "slow-start"
            } else if self.limit < self.equation {
                "limited"
            } else {
                "equation"
            },
        }
    }

    fn stats(&self) -> SenderStats {
        self.stats
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        out("loss_event_rate", self.loss_event_rate);
        let received = self.received.newest();
        out("receive_rate_bps", if received.is_finite() { 8.0 * received } else { 0.0 });
    }

    fn coupled(&mut self) -> Option<&mut dyn Coupled> {
        Some(self)
    }
}

impl Coupled for Sender {
    fn take_calculated(&mut self) -> Option<Calculated> {
        self.calculated.take()
    }

    /// What is left of the gap passes at the new rate. Counted from the last packet anew, it would end at
    /// the same moment for all flows that share a rate, whenever that rises.
    fn set_rate(&mut self, now: Nanos, rate: f64) {
        if rate.is_finite() {
            self.allow(rate / 8.0);
            let left = self.due.saturating_sub(now) as f64 * self.paced / self.instant_rate();
            self.paced = self.instant_rate();
            self.due = now.saturating_add(left as Nanos);
            self.send_at = self.due;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Nanos = 1_000_000;

    fn sender(damping: bool) -> Sender {
        Sender::new(Settings { packet: 1000, damping, overhead: 0.0, ecn: false }, Ends::default())
    }

    /// At a packet a second, half a second is left when the rate doubles: a quarter. At 600 ms, 150 ms are
    /// left of it when the rate doubles again: 75.
    #[test]
    fn a_rate_that_is_set_counts_for_what_is_left_of_the_gap() {
        let mut sender = sender(false);
        sender.on_start(0);
        sender.write(0, u64::MAX);
        assert!(sender.poll_transmit(0).is_some());
        sender.set_rate(500 * MILLISECOND, 16_000.0);
        assert_eq!(sender.send_at, 750 * MILLISECOND);
        sender.set_rate(600 * MILLISECOND, 32_000.0);
        assert_eq!(sender.send_at, 675 * MILLISECOND);
    }

    /// R = 0.9 * 100 + 0.1 * 200 = 110 ms. With sqrt(0.1) = 0.316228 and sqrt(0.2) = 0.447214, X_inst is
    /// X times (0.9 * 0.316228 + 0.1 * 0.447214) / 0.447214 = 0.736396.
    #[test]
    fn damping_follows_the_round_trip_time() {
        for (damping, factor) in [(true, 0.736_396), (false, 1.0)] {
            let mut sender = sender(damping);
            sender.measure(100 * MILLISECOND);
            let rtt = sender.measure(200 * MILLISECOND);
            assert!((rtt.smoothed - 0.11).abs() < 1e-12);
            assert!((sender.instant_rate() / sender.rate - factor).abs() < 1e-6);
        }
    }

    /// Section 4.3 step 4, R = 100 ms: rates count for 200 ms, the initial infinity as the others. In
    /// intervals that the application limited only the greatest is kept, halved upon more loss, when 0.85
    /// of the new rate competes with it.
    #[test]
    fn receive_rates_limit_the_rate() {
        let mut sender = sender(false);
        for (at, received, more_loss, limited, limit) in [
            (200, 1000.0, false, false, f64::INFINITY),
            (250, 1000.0, false, false, 2000.0),
            (300, 3000.0, false, false, 6000.0),
            (480, 500.0, true, false, 6000.0),
            (510, 500.0, false, false, 1000.0),
            (600, 2000.0, false, true, 4000.0),
            (700, 1000.0, true, true, 1000.0),
            (800, 4000.0, true, true, 3400.0),
        ] {
            let found =
                sender.limit(at * MILLISECOND, received, more_loss, limited, 100 * MILLISECOND);
            assert_eq!(found, limit, "at {at} ms");
        }
    }
}
