//! SCReAM (RFC 8298): a congestion window by queueing delay, and a target rate for the encoder.
//!
//! Version 1. Where the RFC's text leaves something open, as in the reference implementation
//! (github.com/EricssonResearch/scream). Delays are in seconds, as in the RFC.

mod delay_trend;
mod target_delay;
mod target_rate;

use dumbbell_cc::windowed_filter::WindowedFilter;
use dumbbell_cc::{ControllerInfo, ParamInfo, Params};
use dumbbell_queue::{Ecn, Nanos};

use self::delay_trend::DelayTrend;
use self::target_delay::TargetDelay;
use self::target_rate::{Congestion, Inputs, TargetRate};
use super::control::{Feedback, MediaController};
use super::controllers::{Limits, common_params, fraction, number, time};
use super::delay::{BaseDelay, one_way_delay};

pub(in crate::rtp) const NAME: &str = "scream";

pub(in crate::rtp) fn info() -> ControllerInfo {
    let bytes = |name, default: u64, doc| ParamInfo::new(name, "bytes", default, (100.0, 1e7), doc);
    let mut params = common_params(150e3, 0.5);
    params.extend([
        time("target", 100, 1, "least queueing delay aimed at (QDELAY_TARGET_LO: 0.1 s)"),
        time("target_max", 400, 1, "greatest one among other flows (QDELAY_TARGET_HI: 0.4 s)"),
        ParamInfo::flag(
            "adapt_target",
            true,
            "aim at more delay where loss-based flows compete (section 4.1.2.3, which lets it be \
             off, as the reference implementation has it)",
        ),
        fraction("delay_weight", 0.1, "weight of the newest delay (QDELAY_WEIGHT: 0.1)"),
        fraction("trend_high", 0.2, "trend that ends a fast increase (QDELAY_TREND_TH: 0.2)"),
        fraction("trend_low", 0.2, "trend below which it may resume (QDELAY_TREND_LO: 0.2)"),
        time("resume", 5000, 1, "time below it after which it does (T_RESUME_FAST_INCREASE: 5 s)"),
        bytes("min_cwnd", 3000, "least window (MIN_CWND: 3000)"),
        bytes("mss", 1000, "bytes of a packet that the window reckons with (MSS: 1000)"),
        number(
            "headroom",
            1.1,
            (1.0, 100.0),
            "window over the most bytes in flight (MAX_BYTES_IN_FLIGHT_HEAD_ROOM: 1.1)",
        ),
        time("in_flight_window", 5000, 1, "time over which bytes in flight are the most (5 s)"),
        number("gain", 1.0, (0.0, 100.0), "of the window by delay (GAIN: 1)"),
        fraction("beta_loss", 0.8, "factor of the window on loss (BETA_LOSS: 0.8)"),
        fraction("beta_ecn", 0.9, "factor of the window on a mark (BETA_ECN: 0.9)"),
        fraction("beta_rate", 0.9, "factor of the target rate on loss (BETA_R: 0.9)"),
        fraction(
            "beta_rate_ecn",
            0.9,
            "factor of the target rate on a mark (BETA_ECN: 0.9; reference implementation: 0.95)",
        ),
        ParamInfo::choice(
            "rate_control",
            &["reference", "rfc"],
            "reference",
            "how the target rate moves: as in the reference implementation, or by the pseudo-code \
             of section 4.1.3, which does not compare it with the throughput",
        ),
        time("adjust_interval", 200, 1, "between updates of it (RATE_ADJUST_INTERVAL: 0.2 s)"),
        ParamInfo::new(
            "ramp_up_speed",
            "rate",
            200e3,
            (1e3, 1e12),
            "greatest growth of the target rate in a second (RAMP_UP_SPEED: 200 kbit/s)",
        ),
        fraction("guard", 0.1, "share of the trend taken off it (PRE_CONGESTION_GUARD: 0.1)"),
        number(
            "queue_factor",
            1.0,
            (0.0, 100.0),
            "share of the sender's queue taken off it (TX_QUEUE_SIZE_FACTOR: 1; reference \
             implementation: 0.2)",
        ),
        time("queue_delay", 20, 0, "delay of that queue that slows it (RTP_QDELAY_TH: 20 ms)"),
        fraction("queue_scale", 0.95, "factor that does (TARGET_RATE_SCALE_RTP_QDELAY: 0.95)"),
        time(
            "discard_delay",
            1000,
            0,
            "delay of that queue from which on it is emptied; 0: never (section 4.1.3 names no \
             number: ours; the reference implementation's 100 ms freeze the picture where a key \
             frame takes longer than that)",
        )
        .default_where("rate_control", "rfc", 0),
        ParamInfo::new(
            "min_pacing_rate",
            "rate",
            50e3,
            (1e3, 1e12),
            "least pacing rate (RATE_PACE_MIN: 50 kbit/s)",
        ),
        time(
            "base_window",
            500_000,
            1,
            "time over which the least one-way delay is that of the empty path (reference \
             implementation: 50 times 10 s)",
        ),
    ]);
    ControllerInfo {
        name: NAME,
        summary: "self-clocked window by queueing delay, with a target rate for the encoder",
        source: "RFC 8298",
        signals: &["rtt", "loss", "ecn"],
        params,
    }
}

pub(in crate::rtp) fn build(params: &Params, _seed: u64) -> Box<dyn MediaController> {
    Box::new(Scream::new(params))
}

pub(super) fn seconds(time: Nanos) -> f64 {
    time as f64 / 1e9
}

/// A smoothed RTT below this is none (reference implementation: 1 ms).
const LEAST_RTT: Nanos = 1_000_000;
/// Bytes in flight count as so many times more when asked whether the window is used (section
/// 4.1.2.2).
const USED_FAST: f64 = 1.5;
const USED: f64 = 1.25;
/// The trend is worth something after this long (reference implementation).
const TREND_AFTER: Nanos = 2_000_000_000;

pub(in crate::rtp) struct Scream {
    limits: Limits,
    trend_high: f64,
    trend_low: f64,
    resume: Nanos,
    min_cwnd: f64,
    mss: f64,
    headroom: f64,
    gain: f64,
    beta_loss: f64,
    beta_ecn: f64,
    timeout_factor: f64,
    min_pacing_rate: f64,
    discard_delay: Nanos,

    base: BaseDelay,
    trend: DelayTrend,
    target: TargetDelay,
    rate: TargetRate,
    most_in_flight: WindowedFilter<u64>,
    started: Nanos,
    srtt: Nanos,
    queueing: f64,
    cwnd: f64,
    fast_increase: bool,
    /// Since when the trend has been low without congestion.
    calm: Nanos,
    congested: Option<Nanos>,
    calculated: Option<f64>,
}

impl Scream {
    fn new(params: &Params) -> Self {
        let limits = Limits::new(params);
        let min_cwnd = params.count("min_cwnd") as f64;
        Self {
            limits,
            trend_high: params.number("trend_high"),
            trend_low: params.number("trend_low"),
            resume: params.time("resume"),
            min_cwnd,
            mss: params.count("mss") as f64,
            headroom: params.number("headroom"),
            gain: params.number("gain"),
            beta_loss: params.number("beta_loss"),
            beta_ecn: params.number("beta_ecn"),
            timeout_factor: params.number("timeout_factor"),
            min_pacing_rate: params.number("min_pacing_rate"),
            discard_delay: params.time("discard_delay"),
            base: BaseDelay::new(params.time("base_window")),
            trend: DelayTrend::new(params.number("delay_weight")),
            target: TargetDelay::new(params),
            rate: TargetRate::new(params, limits),
            most_in_flight: WindowedFilter::max(params.time("in_flight_window"), 0, 0),
            started: 0,
            srtt: 0,
            queueing: 0.0,
            cwnd: min_cwnd,
            fast_increase: true,
            calm: 0,
            congested: None,
            calculated: None,
        }
    }

    /// At most once a smoothed round trip.
    fn congestion(&mut self, feedback: &Feedback) -> Option<Congestion> {
        let lost = feedback.results.iter().any(|r| r.arrival.is_none());
        let marked = feedback.results.iter().any(|r| r.ecn == Ecn::Ce && r.arrival.is_some());
        self.target.count(feedback.now, self.srtt, lost);
        let congestion = match (lost, marked) {
            (true, _) => Congestion::Loss,
            (_, true) => Congestion::Mark,
            _ => return None,
        };
        let past = self.congested.map(|at| feedback.now.saturating_sub(at));
        if past.is_some_and(|past| past <= self.srtt) {
            return None;
        }
        self.congested = Some(feedback.now);
        Some(congestion)
    }

    fn cut(&mut self, congestion: Congestion) {
        let beta = match congestion {
            Congestion::Loss => self.beta_loss,
            Congestion::Mark => self.beta_ecn,
        };
        self.fast_increase = false;
        self.cwnd = (self.cwnd * beta).max(self.min_cwnd);
    }

    /// Section 4.1.2.2, update_cwnd.
    fn move_window(&mut self, newly_acked: f64, in_flight: f64) {
        if self.fast_increase {
            if self.trend.value() < self.trend_high {
                if in_flight * USED_FAST + newly_acked > self.cwnd {
                    self.cwnd += newly_acked;
                }
                return;
            }
            self.fast_increase = false;
        }
        let target = self.target.seconds();
        let off = (target - self.queueing) / target;
        let used = in_flight * USED + newly_acked > self.cwnd;
        if off <= 0.0 || used {
            self.cwnd += self.gain * off * newly_acked * self.mss / self.cwnd;
        }
        let most = self.most_in_flight.get() as f64 * self.headroom;
        self.cwnd = self.cwnd.min(most).max(self.min_cwnd);
    }

    /// Section 4.1.2.7.
    fn maybe_resume(&mut self, now: Nanos, congested: bool) {
        if congested || self.fast_increase || self.trend.value() >= self.trend_low {
            self.calm = now;
        } else if now.saturating_sub(self.calm) >= self.resume {
            self.fast_increase = true;
        }
    }
}

impl MediaController for Scream {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_start(&mut self, now: Nanos) {
        self.started = now;
        self.calm = now;
        self.trend.start(now);
        self.rate.start(now);
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        let now = feedback.now;
        self.srtt = feedback.srtt.max(LEAST_RTT);
        let mut acked = 0u64;
        let mut received = 0u64;
        let mut newest = None;
        for result in feedback.results {
            // Lost ones count, too: they are no longer in flight (section 4.1.2).
            acked += u64::from(result.bytes);
            if let Some(arrival) = result.arrival {
                received += u64::from(result.bytes);
                let delay = one_way_delay(result.sent, arrival);
                self.base.add(now, delay);
                newest = Some(delay);
            }
        }
        if let Some(delay) = newest {
            self.queueing = seconds(self.base.queueing(delay));
            let sampled = self.trend.update(now, self.queueing / self.target.seconds());
            if sampled {
                self.target.update(self.queueing);
            }
            if now.saturating_sub(self.started) < TREND_AFTER {
                self.trend.forget();
            }
        }
        let congestion = self.congestion(feedback);
        match congestion {
            Some(congestion) => self.cut(congestion),
            None => self.move_window(acked as f64, feedback.in_flight as f64),
        }
        self.maybe_resume(now, congestion.is_some());
        let inputs = Inputs {
            now,
            received,
            queued: feedback.queued,
            backlog: feedback.backlog,
            congestion,
            fast_increase: self.fast_increase,
            trend: self.trend.value(),
            trend_memory: self.trend.memory(),
            competing: self.target.competing(),
        };
        if self.rate.update(&inputs) {
            self.calculated = Some(self.rate.get());
        }
    }

    fn on_sent(&mut self, now: Nanos, bytes: u32, in_flight: u64) {
        self.most_in_flight.update(now, in_flight);
        self.rate.sent(bytes);
    }

    fn on_feedback_timeout(&mut self, now: Nanos) {
        self.fast_increase = false;
        self.calm = now;
        self.cwnd = (self.cwnd * self.timeout_factor).max(self.min_cwnd);
        self.rate.set(self.rate.get() * self.timeout_factor);
        self.calculated = Some(self.rate.get());
    }

    fn target_rate(&self) -> f64 {
        self.rate.get()
    }

    /// Section 4.1.2.6.
    fn send_rate(&self) -> f64 {
        let srtt = if self.srtt == 0 { return self.rate.get() } else { seconds(self.srtt) };
        (self.cwnd * 8.0 / srtt).max(self.min_pacing_rate)
    }

    /// Section 4.1.2.5: one packet more while the queue is short.
    fn window(&self) -> Option<u64> {
        let slack = if self.queueing <= self.target.seconds() { self.mss } else { 0.0 };
        Some((self.cwnd + slack) as u64)
    }

    fn max_queue_delay(&self) -> Option<Nanos> {
        (self.discard_delay > 0).then_some(self.discard_delay)
    }

    fn take_calculated(&mut self) -> Option<f64> {
        self.calculated.take()
    }

    fn set_rate(&mut self, _now: Nanos, rate: f64) {
        let rate = self.limits.clip(rate);
        // What is in flight goes with the rate (RFC 8699: rate = cwnd / RTT).
        self.cwnd = (self.cwnd * rate / self.rate.get()).max(self.min_cwnd);
        self.rate.set(rate);
    }

    fn phase(&self) -> &'static str {
        if self.fast_increase { "fast increase" } else { "normal" }
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        out("cwnd", self.cwnd);
        out("target_rate", self.rate.get());
        out("qdelay_s", self.queueing);
        out("qdelay_target_s", self.target.seconds());
        out("qdelay_trend", self.trend.value());
    }
}

#[cfg(test)]
mod tests;
