//! Sends at equal gaps and adapts them.

use dumbbell_queue::Nanos;

use super::HEADER_BYTES;
use super::history::History;
use super::receiver::Hole;
use crate::flow::{Arrival, Calculated, Coupled, Ends, FlowSender, Snapshot};
use crate::random::Random;
use crate::tcp::SenderStats;
use crate::{Kind, Packet};

/// Bounds of gaps, seconds.
pub(super) const LEAST_GAP: f64 = 1e-7;
pub(super) const GREATEST_GAP: f64 = 64.0;
/// Bounds of samples of the round-trip time, seconds.
const LEAST_RTT: f64 = 1e-6;
const GREATEST_RTT: f64 = 1e4;
/// Weight of a sample in the round-trip time and its variation.
const RTT_GAIN: f64 = 0.5;
/// Of the round-trip time and of its variation in the timeout.
const MU: f64 = 1.2;
const PHI: f64 = 4.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// IP bytes.
    pub(super) packet: u16,
    /// Seconds.
    pub(super) initial_gap: f64,
    pub(super) alpha: f64,
    pub(super) beta: f64,
    /// Part of the packets allowed.
    pub(super) threshold: f64,
    /// Of a gap.
    pub(super) overhead: f64,
    pub(super) fine_grain: bool,
    pub(super) fast_gain: f64,
    pub(super) slow_gain: f64,
}

/// Averages of the round-trip time, seconds.
#[derive(Clone, Copy, Debug)]
struct RoundTrip {
    smoothed: f64,
    variation: f64,
    /// After which a packet without an ACK is lost.
    timeout: f64,
    fast: f64,
    slow: f64,
    last: Option<Nanos>,
}

impl RoundTrip {
    fn assumed(seconds: f64) -> Self {
        Self {
            smoothed: seconds,
            variation: 0.0,
            timeout: seconds,
            fast: seconds,
            slow: seconds,
            last: None,
        }
    }

    fn update(&mut self, sample: Nanos, settings: &Settings) {
        let seconds = (sample as f64 / 1e9).clamp(LEAST_RTT, GREATEST_RTT);
        if self.last.is_none() {
            *self = Self::assumed(seconds);
        }
        self.last = Some(sample);
        let difference = seconds - self.smoothed;
        self.smoothed += RTT_GAIN * difference;
        self.variation += RTT_GAIN * (difference.abs() - self.variation);
        self.timeout = MU * self.smoothed + PHI * self.variation;
        self.fast += settings.fast_gain * (seconds - self.fast);
        self.slow += settings.slow_gain * (seconds - self.slow);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was written yet.
    New,
    Running,
    /// Nothing to send and nothing outstanding: the timers rest.
    Resting,
}

pub(super) struct Sender {
    settings: Settings,
    ends: Ends,
    state: State,
    /// Seconds between packets.
    gap: f64,
    rtt: RoundTrip,
    acknowledged: bool,
    history: History,
    /// Bytes; [`u64::MAX`] never ends.
    unsent: u64,
    /// The gap is over and a packet may go.
    due: bool,
    /// When the gap and the round trip end.
    gap_end: Nanos,
    round_end: Nanos,
    /// The gap that ends at `gap_end`, seconds.
    gap_now: f64,
    random: Random,
    /// Packets sent in this round trip.
    sent_in_round: u64,
    /// In the last round trip too little was sent for the rate to grow.
    limited: bool,
    calculated: Option<Calculated>,
    stats: SenderStats,
}

fn nanos(seconds: f64) -> Nanos {
    // At least one, so that no timer stands still.
    (seconds * 1e9).round().max(1.0) as Nanos
}

/// The first of `time`, `time + period` and so on that is not before `now`.
fn in_phase(time: Nanos, period: f64, now: Nanos) -> Nanos {
    let behind = now.saturating_sub(time);
    time.saturating_add(behind.div_ceil(nanos(period)).saturating_mul(nanos(period)))
}

impl Sender {
    pub(super) fn new(settings: Settings, ends: Ends) -> Self {
        Self {
            settings,
            ends,
            state: State::New,
            gap: settings.initial_gap,
            rtt: RoundTrip::assumed(settings.initial_gap),
            acknowledged: false,
            history: History::default(),
            unsent: 0,
            due: false,
            gap_end: 0,
            round_end: 0,
            gap_now: settings.initial_gap,
            random: Random::new(ends.seed),
            sent_in_round: 0,
            limited: false,
            calculated: None,
            stats: SenderStats::default(),
        }
    }

    /// Bits per second.
    fn rate(&self) -> f64 {
        f64::from(self.settings.packet) * 8.0 / self.gap
    }

    fn set_gap(&mut self, gap: f64) {
        self.gap = gap.clamp(LEAST_GAP, GREATEST_GAP);
    }

    /// The flow's own control sets the gap.
    fn adapt(&mut self, gap: f64) {
        self.set_gap(gap);
        self.calculated = Some(Calculated {
            rate: self.rate(),
            desired: f64::INFINITY,
            rtt: nanos(self.rtt.smoothed),
        });
    }

    /// What gaps are multiplied by.
    fn stretch(&self) -> f64 {
        if self.settings.fine_grain { self.rtt.fast / self.rtt.slow } else { 1.0 }
    }

    fn begin_round(&mut self, now: Nanos) {
        self.round_end = now.saturating_add(nanos(self.rtt.smoothed));
    }

    fn on_round_end(&mut self, now: Nanos) {
        let allowed = self.rtt.smoothed / self.gap;
        self.limited = (self.sent_in_round as f64) < self.settings.threshold * allowed;
        if !self.limited {
            let srtt = self.rtt.smoothed;
            self.adapt(self.gap * srtt / (self.settings.alpha * self.gap + srtt));
        }
        self.sent_in_round = 0;
        self.begin_round(now);
    }

    fn on_gap_end(&mut self, now: Nanos) {
        let expired = now.checked_sub(nanos(self.rtt.timeout));
        if expired.is_some_and(|time| self.history.expire(time)) {
            self.stats.timeouts += 1;
            self.on_loss(now);
        } else if self.unsent > 0 {
            self.due = true;
        } else if self.history.outstanding() == 0 && self.sent_in_round == 0 {
            self.state = State::Resting;
        }
        self.gap_now = self.gap;
        let spread = 1.0 + self.settings.overhead * (self.random.uniform() - 0.5);
        let wait = (self.gap * self.stretch() * spread).clamp(LEAST_GAP, GREATEST_GAP);
        self.gap_end = now.saturating_add(nanos(wait));
    }

    fn on_loss(&mut self, now: Nanos) {
        self.adapt(self.gap / self.settings.beta);
        self.history.answer();
        self.begin_round(now);
    }
}

impl FlowSender for Sender {
    fn on_start(&mut self, _now: Nanos) {}

    fn write(&mut self, now: Nanos, bytes: u64) {
        self.unsent = self.unsent.saturating_add(bytes);
        if self.unsent == 0 {
            return;
        }
        match self.state {
            State::New => {
                self.begin_round(now);
                self.on_gap_end(now);
            }
            State::Running => {}
            State::Resting => {
                let wait = (self.gap * self.stretch()).clamp(LEAST_GAP, GREATEST_GAP);
                self.gap_end = in_phase(self.gap_end, wait, now);
                self.round_end = in_phase(self.round_end, self.rtt.smoothed, now);
            }
        }
        self.state = State::Running;
    }

    fn truncate(&mut self) {
        self.unsent = 0;
    }

    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        if !std::mem::take(&mut self.due) || self.unsent == 0 {
            return None;
        }
        let full = self.settings.packet - HEADER_BYTES;
        let payload = self.unsent.min(full.into()) as u16;
        if self.unsent != u64::MAX {
            self.unsent -= u64::from(payload);
        }
        let seq = self.history.next();
        self.history.push(now);
        self.sent_in_round += 1;
        self.stats.sent += 1;
        Some(Packet { seq, ..self.ends.packet(Kind::Payload, HEADER_BYTES, payload, now) })
    }

    fn on_feedback(&mut self, now: Nanos, packet: &Packet, _report: &[Arrival]) {
        if packet.kind != Kind::Report || packet.seq >= self.history.next() {
            return;
        }
        if let Some(sent) = self.history.settle(packet.seq) {
            self.rtt.update(now.saturating_sub(sent), &self.settings);
        }
        if !self.acknowledged && self.rtt.last.is_some() {
            self.acknowledged = true;
            self.adapt(self.rtt.smoothed);
        }
        let [last, missed, before] = packet.aux;
        if self.history.acknowledge(&Hole { last, missed, before }) {
            self.stats.recoveries += 1;
            self.on_loss(now);
        }
    }

    fn next_timeout(&self) -> Nanos {
        match self.state {
            State::Running => self.gap_end.min(self.round_end),
            State::New | State::Resting => Nanos::MAX,
        }
    }

    fn on_timeout(&mut self, now: Nanos) {
        if self.state != State::Running {
            return;
        }
        if self.round_end <= now {
            self.on_round_end(now);
        }
        if self.gap_end <= now {
            self.on_gap_end(now);
        }
    }

    fn is_idle(&self) -> bool {
        self.unsent == 0 && self.history.outstanding() == 0
    }

    fn rtt_sample(&self) -> Option<Nanos> {
        self.rtt.last
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            window: self.rtt.smoothed / self.gap,
            ssthresh: f64::NAN,
            in_flight: self.history.outstanding() as f64,
            rate: self.rate(),
            srtt: if self.acknowledged { nanos(self.rtt.smoothed) } else { 0 },
            phase: match (self.acknowledged, self.limited) {
                (false, _) => "start",
                (true, true) => "limited",
                (true, false) => "increase",
            },
        }
    }

    fn stats(&self) -> SenderStats {
        self.stats
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        out("ipg_ms", 1e3 * self.gap);
        out("timeout_ms", 1e3 * self.rtt.timeout);
        out("fine_grain", self.rtt.fast / self.rtt.slow);
        out("losses", self.history.losses() as f64);
    }

    fn coupled(&mut self) -> Option<&mut dyn Coupled> {
        Some(self)
    }
}

impl Coupled for Sender {
    fn take_calculated(&mut self) -> Option<Calculated> {
        self.calculated.take()
    }

    /// What is left of the gap passes at the new rate. Otherwise flows that share a rate would come
    /// together: all gaps that are under way when it is halved still end within an old one, half a new one.
    fn set_rate(&mut self, now: Nanos, rate: f64) {
        let gap = f64::from(self.settings.packet) * 8.0 / rate;
        if gap.is_finite() {
            self.set_gap(gap);
            if self.state == State::Running {
                let left = self.gap_end.saturating_sub(now) as f64 * self.gap / self.gap_now;
                self.gap_now = self.gap;
                self.gap_end = now.saturating_add(left as Nanos);
            }
        }
    }
}
