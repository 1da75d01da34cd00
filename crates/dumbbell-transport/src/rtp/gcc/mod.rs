//! Google Congestion Control (draft-ietf-rmcat-gcc-02): a rate by the trend of delay, and one by
//! loss; the lesser counts.
//!
//! All of it runs at the sender, on the results of packets, as in libwebrtc. Delay's trend is
//! libwebrtc's trendline or, as an option, the draft's Kalman filter.

mod aimd;
mod arrival;
mod detector;
mod kalman;
mod loss;
mod probe;
mod trendline;

use dumbbell_cc::{ControllerInfo, ParamInfo, Params};
use dumbbell_queue::Nanos;

use self::aimd::{Aimd, State};
use self::arrival::{Groups, Variation};
use self::detector::{Detector, Signal, Thresholds};
use self::kalman::Kalman;
use self::loss::LossControl;
use self::probe::{Limited, ProbeControl, ProbeEstimator};
use self::trendline::Trendline;
use crate::rtp::control::{Feedback, MediaController, Probe};
use crate::rtp::controllers::{Limits, common_params, fraction, number, time};
use crate::rtp::delay::millis;
use crate::rtp::receive_rate::ReceiveRate;

pub(in crate::rtp) const NAME: &str = "gcc";

const KALMAN: (&str, &str) = ("estimator", "kalman");
const LIBWEBRTC: (&str, &str) = ("overuse", "libwebrtc");
/// A probe below the rate lowers it to this share of the measured one at most (libwebrtc).
const LEAST_PROBED: f64 = 0.85;
/// Nothing is known of the path after so long without packets (libwebrtc: 2 s).
const FORGET_AFTER: Nanos = 2_000_000_000;

pub(in crate::rtp) fn info() -> ControllerInfo {
    let count = |name, default: u64, doc| ParamInfo::new(name, "count", default, (1.0, 1e4), doc);
    let mut params = common_params(300e3, 0.8);
    params.extend([
        ParamInfo::choice(
            "estimator",
            &["trendline", "kalman"],
            "trendline",
            "filter of delay variation: libwebrtc's, or the draft's of section 5.3",
        ),
        time("burst_time", 5, 0, "packets sent within it are one group (section 5.2: 5 ms)"),
        count("trend_window", 20, "groups of the trendline (libwebrtc: 20)"),
        fraction("trend_smoothing", 0.9, "weight of the delay before (libwebrtc: 0.9)"),
        number("trend_gain", 4.0, (1e-3, 1e3), "factor of the trendline's slope (libwebrtc: 4)")
            .default_where(KALMAN.0, KALMAN.1, 1.0),
        count(
            "deltas",
            60,
            "the estimate is multiplied by the number of groups, up to this one (libwebrtc: 60; \
             the draft's text has no such factor: 1)",
        ),
        number("q", 1e-3, (0.0, 1e3), "state noise of the Kalman filter (section 5.6: 0.001)"),
        number("e0", 0.1, (0.0, 1e3), "its first error variance (section 5.6: 0.1)"),
        number(
            "chi",
            0.01,
            (1e-4, 0.5),
            "weight of its newest noise (section 5.6: 0.001 to 0.1; within that: ours)",
        ),
        count("noise_groups", 30, "groups of which the highest rate counts (K; number: ours)"),
        ParamInfo::new(
            "threshold",
            "time",
            12_500_000,
            (6e6, 600e6),
            "first threshold of over-use (section 5.6: 12.5 ms)",
        ),
        ParamInfo::choice(
            "overuse",
            &["draft", "libwebrtc"],
            "draft",
            "how the threshold follows and when over-use cuts the rate: by the draft's gains, \
             a round trip after the last cut at the earliest (ours; the draft names no time), \
             or by libwebrtc's, a round trip after any move of the rate",
        ),
        number("k_up", 0.01, (0.0, 1.0), "its gain upwards per ms (section 5.6, K_u: 0.01)")
            .default_where(LIBWEBRTC.0, LIBWEBRTC.1, 0.0087),
        number("k_down", 0.00018, (0.0, 1.0), "downwards (section 5.6, K_d: 0.00018)")
            .default_where(LIBWEBRTC.0, LIBWEBRTC.1, 0.039),
        time(
            "overuse_time",
            10,
            0,
            "time above the threshold that is over-use (section 5.6: 10 ms)",
        ),
        fraction("beta", 0.85, "factor of the measured rate on over-use (section 5.6: 0.85)"),
        number("eta", 1.08, (1.0, 10.0), "growth in a second far from convergence (1.08)"),
        time("response", 100, 0, "of the over-use estimator, beside the RTT (section 5.5: 100 ms)"),
        number("headroom", 1.5, (1.0, 100.0), "rate over the measured one at most (1.5)"),
        time("rate_window", 500, 10, "over which the rate is measured (section 5.6: 0.5 s to 1 s)"),
        fraction("loss_low", 0.02, "loss ratio below which the rate grows (section 6: 0.02)"),
        fraction("loss_high", 0.1, "loss ratio above which it is cut (section 6: 0.1)"),
        number("loss_increase", 1.05, (1.0, 10.0), "factor of that growth (section 6: 1.05)"),
        fraction("loss_decrease", 0.5, "share of the loss ratio that a cut takes (section 6: 0.5)"),
        count("loss_packets", 20, "packets that a loss ratio is told of (libwebrtc: 20)"),
        time("loss_interval", 300, 0, "between cuts, beside an RTT (libwebrtc: 300 ms)"),
        ParamInfo::flag(
            "probing",
            true,
            "send bursts at more than the start rate at first, and more as long as they get \
             through (libwebrtc; the draft has no probes)",
        ),
        number("probe_first", 3.0, (0.0, 100.0), "start rates of the first (libwebrtc: 3)"),
        number("probe_second", 6.0, (0.0, 100.0), "and of the second; 0: none (libwebrtc: 6)"),
        number("probe_step", 2.0, (1.0, 100.0), "rates of a further one (libwebrtc: 2)"),
        fraction(
            "probe_threshold",
            0.7,
            "share of a probe's rate above which a further one follows (libwebrtc: 0.7)",
        ),
        count("probe_packets", 5, "packets of a probe at least (libwebrtc: 5)"),
        ParamInfo::new(
            "probe_time",
            "time",
            15_000_000,
            (1e6, 1e9),
            "and its least length (libwebrtc: 15 ms)",
        ),
        ParamInfo::flag(
            "limited_probing",
            false,
            "probe also while the source leaves part of the rate unused (libwebrtc: for shared \
             screens)",
        ),
        time("limited_interval", 5000, 100, "between such probes (libwebrtc: 5 s)"),
        number(
            "pacing_factor",
            2.5,
            (1.0, 100.0),
            "pacing over target rate (libwebrtc: 2.5; with the Kalman filter, which takes bursts \
             for noise, 1.2: ours; the draft's 1 never empties the sender's queue)",
        )
        .default_where(KALMAN.0, KALMAN.1, 1.2),
    ]);
    ControllerInfo {
        name: NAME,
        summary: "rate by the trend of delay, and by loss",
        source: "draft-ietf-rmcat-gcc-02, libwebrtc",
        signals: &["rtt", "loss"],
        params,
    }
}

pub(in crate::rtp) fn build(params: &Params, _seed: u64) -> Box<dyn MediaController> {
    Box::new(Gcc::new(params))
}

#[derive(Clone, Debug)]
enum Estimator {
    Trendline(Trendline),
    Kalman(Kalman),
}

impl Estimator {
    fn new(params: &Params) -> Self {
        if params.choice("estimator") == "kalman" {
            Self::Kalman(Kalman::new(
                params.number("q"),
                params.number("e0"),
                params.number("chi"),
                params.count("noise_groups") as usize,
            ))
        } else {
            Self::Trendline(Trendline::new(
                params.count("trend_window") as usize,
                params.number("trend_smoothing"),
            ))
        }
    }

    fn update(&mut self, variation: &Variation) -> f64 {
        match self {
            Self::Trendline(trendline) => trendline.update(variation),
            Self::Kalman(kalman) => kalman.update(variation),
        }
    }
}

/// From arrivals to over-use.
#[derive(Clone, Debug)]
struct Filter {
    groups: Groups,
    estimator: Estimator,
    gain: f64,
    deltas: u64,
    most_deltas: u64,
    /// m(i), ms.
    estimate: f64,
    detector: Detector,
}

impl Filter {
    fn new(params: &Params) -> Self {
        let thresholds = Thresholds {
            start: millis(params.time("threshold")),
            least: 6.0,
            most: 600.0,
            up: params.number("k_up"),
            down: params.number("k_down"),
            reach: 15.0,
            overuse_time: millis(params.time("overuse_time")),
        };
        Self {
            groups: Groups::new(params.time("burst_time")),
            estimator: Estimator::new(params),
            gain: params.number("trend_gain"),
            deltas: 0,
            most_deltas: params.count("deltas"),
            estimate: 0.0,
            detector: Detector::new(thresholds),
        }
    }

    fn add(&mut self, sent: Nanos, arrival: Nanos) {
        let Some(variation) = self.groups.add(sent, arrival) else { return };
        self.deltas = (self.deltas + 1).min(self.most_deltas);
        self.estimate = self.estimator.update(&variation) * self.gain * self.deltas as f64;
        self.detector.update(self.estimate, variation.departure, variation.arrival);
    }
}

pub(in crate::rtp) struct Gcc {
    limits: Limits,
    filter: Filter,
    /// As it begins.
    fresh: Filter,
    heard: Option<Nanos>,
    aimd: Aimd,
    loss: LossControl,
    received: ReceiveRate,
    probes: ProbeControl,
    probe_estimator: ProbeEstimator,
    limited: Limited,
    pacing_factor: f64,
    timeout_factor: f64,
    calculated: Option<f64>,
}

impl Gcc {
    fn new(params: &Params) -> Self {
        let limits = Limits::new(params);
        let filter = Filter::new(params);
        let aimd = aimd::Constants {
            beta: params.number("beta"),
            eta: params.number("eta"),
            response: millis(params.time("response")),
            headroom: params.number("headroom"),
            patient: params.choice("overuse") == "libwebrtc",
        };
        let loss = loss::Constants {
            low: params.number("loss_low"),
            high: params.number("loss_high"),
            increase: params.number("loss_increase"),
            decrease: params.number("loss_decrease"),
            packets: params.count("loss_packets"),
            interval: params.time("loss_interval"),
        };
        Self {
            limits,
            filter: filter.clone(),
            fresh: filter,
            heard: None,
            aimd: Aimd::new(aimd, limits, params.number("start_rate")),
            loss: LossControl::new(loss, limits),
            received: ReceiveRate::new(params.time("rate_window")),
            probes: ProbeControl::new(params, limits),
            probe_estimator: ProbeEstimator::new(params),
            limited: Limited::new(),
            pacing_factor: params.number("pacing_factor"),
            timeout_factor: params.number("timeout_factor"),
            calculated: None,
        }
    }

    /// Neither delay nor loss holds the rate down.
    fn is_free(&self) -> bool {
        self.filter.detector.signal() == Signal::Normal && self.loss.rate() >= self.aimd.rate()
    }
}

impl MediaController for Gcc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_start(&mut self, now: Nanos) {
        let rate = self.aimd.rate();
        self.aimd.set_rate(now, rate);
        self.probes.start(now, rate);
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        let mut lost = 0;
        let mut probed = None;
        let mut recovered = false;
        if self.heard.is_some_and(|at| feedback.now.saturating_sub(at) > FORGET_AFTER) {
            self.filter = self.fresh.clone();
        }
        for result in feedback.results {
            let Some(arrival) = result.arrival else {
                lost += 1;
                continue;
            };
            self.heard = Some(feedback.now);
            self.received.add(arrival, result.bytes);
            let before = self.filter.detector.signal();
            self.filter.add(result.sent, arrival);
            let after = self.filter.detector.signal();
            recovered |= (before, after) == (Signal::Under, Signal::Normal);
            if let Some(tag) = result.probe
                && let Some(rate) = self.probe_estimator.add(tag.cluster, tag.bytes, result)
            {
                probed = Some(rate);
            }
        }
        let in_use = self.target_rate();
        let packets = feedback.results.len() as u64;
        self.loss.update(feedback.now, packets, lost, in_use, feedback.rtt);
        let (signal, measured) = (self.filter.detector.signal(), self.received.get());
        match probed {
            Some(probed) if signal != Signal::Over => {
                let least = measured.map_or(0.0, |m| (LEAST_PROBED * m).min(self.aimd.rate()));
                self.aimd.probed(feedback.now, probed.max(least));
            }
            _ => {
                self.aimd.update(feedback.now, signal, measured, millis(feedback.srtt));
            }
        }
        self.calculated = Some(self.aimd.rate());
        self.probes.on_estimate(feedback.now, self.target_rate(), self.is_free());
        if recovered && self.is_free() && self.limited.is_recent(feedback.now) {
            self.probes.on_recovery(feedback.now);
        }
    }

    fn on_sent(&mut self, now: Nanos, bytes: u32, _in_flight: u64) {
        self.limited.sent(now, bytes, self.target_rate());
    }

    fn take_probe(&mut self, now: Nanos) -> Option<Probe> {
        if let Some(since) = self.limited.since() {
            self.probes.on_limited(now, since, self.target_rate(), self.is_free());
        }
        self.probes.take()
    }

    fn on_feedback_timeout(&mut self, now: Nanos) {
        let rate = self.aimd.rate() * self.timeout_factor;
        self.aimd.set_rate(now, rate);
        self.calculated = Some(self.aimd.rate());
    }

    fn target_rate(&self) -> f64 {
        self.limits.clip(self.aimd.rate().min(self.loss.rate()))
    }

    fn send_rate(&self) -> f64 {
        self.pacing_factor * self.target_rate()
    }

    fn take_calculated(&mut self) -> Option<f64> {
        self.calculated.take()
    }

    fn set_rate(&mut self, now: Nanos, rate: f64) {
        self.aimd.set_rate(now, rate);
    }

    fn phase(&self) -> &'static str {
        match self.aimd.state() {
            State::Hold => "hold",
            State::Increase => "increase",
            State::Decrease => "decrease",
        }
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        out("delay_rate", self.aimd.rate());
        out("loss_rate", self.loss.rate());
        out("loss_ratio", self.loss.ratio());
        out("received_rate", self.received.get().unwrap_or(f64::NAN));
        out("estimate_ms", self.filter.estimate);
        out("threshold_ms", self.filter.detector.threshold());
    }
}

#[cfg(test)]
mod tests;
