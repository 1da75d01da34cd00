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
mod trendline;

use dumbbell_cc::{ControllerInfo, ParamInfo, Params};
use dumbbell_queue::Nanos;

use self::aimd::{Aimd, State};
use self::arrival::{Groups, Variation};
use self::detector::{Detector, Thresholds};
use self::kalman::Kalman;
use self::loss::LossControl;
use self::trendline::Trendline;
use crate::rtp::control::{Feedback, MediaController};
use crate::rtp::controllers::{Limits, common_params, fraction, number, time};
use crate::rtp::delay::millis;
use crate::rtp::receive_rate::ReceiveRate;

pub(in crate::rtp) const NAME: &str = "gcc";

const DRAFT: (&str, &str) = ("estimator", "kalman");

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
            .default_where(DRAFT.0, DRAFT.1, 1.0),
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
        number("k_up", 0.0087, (0.0, 1.0), "its gain upwards per ms (libwebrtc; draft: 0.01)")
            .default_where(DRAFT.0, DRAFT.1, 0.01),
        number("k_down", 0.039, (0.0, 1.0), "downwards (libwebrtc; draft: 0.00018)")
            .default_where(DRAFT.0, DRAFT.1, 0.00018),
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
        number(
            "pacing_factor",
            2.5,
            (1.0, 100.0),
            "pacing over target rate (libwebrtc: 2.5; with the Kalman filter, which takes bursts \
             for noise, 1.2: ours; the draft's 1 never empties the sender's queue)",
        )
        .default_where(DRAFT.0, DRAFT.1, 1.2),
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

pub(in crate::rtp) struct Gcc {
    limits: Limits,
    groups: Groups,
    estimator: Estimator,
    gain: f64,
    deltas: u64,
    most_deltas: u64,
    /// m(i), ms.
    estimate: f64,
    detector: Detector,
    aimd: Aimd,
    loss: LossControl,
    received: ReceiveRate,
    pacing_factor: f64,
    timeout_factor: f64,
    calculated: Option<f64>,
}

impl Gcc {
    fn new(params: &Params) -> Self {
        let limits = Limits::new(params);
        let thresholds = Thresholds {
            start: millis(params.time("threshold")),
            least: 6.0,
            most: 600.0,
            up: params.number("k_up"),
            down: params.number("k_down"),
            reach: 15.0,
            overuse_time: millis(params.time("overuse_time")),
        };
        let aimd = aimd::Constants {
            beta: params.number("beta"),
            eta: params.number("eta"),
            response: millis(params.time("response")),
            headroom: params.number("headroom"),
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
            groups: Groups::new(params.time("burst_time")),
            estimator: Estimator::new(params),
            gain: params.number("trend_gain"),
            deltas: 0,
            most_deltas: params.count("deltas"),
            estimate: 0.0,
            detector: Detector::new(thresholds),
            aimd: Aimd::new(aimd, limits, params.number("start_rate")),
            loss: LossControl::new(loss, limits),
            received: ReceiveRate::new(params.time("rate_window")),
            pacing_factor: params.number("pacing_factor"),
            timeout_factor: params.number("timeout_factor"),
            calculated: None,
        }
    }

    fn detect(&mut self, variation: &Variation) {
        self.deltas = (self.deltas + 1).min(self.most_deltas);
        let estimate = self.estimator.update(variation);
        self.estimate = estimate * self.gain * self.deltas as f64;
        self.detector.update(self.estimate, variation.departure, variation.arrival);
    }
}

impl MediaController for Gcc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_start(&mut self, now: Nanos) {
        let rate = self.aimd.rate();
        self.aimd.set_rate(now, rate);
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        let mut lost = 0;
        for result in feedback.results {
            let Some(arrival) = result.arrival else {
                lost += 1;
                continue;
            };
            self.received.add(arrival, result.bytes);
            if let Some(variation) = self.groups.add(result.sent, arrival) {
                self.detect(&variation);
            }
        }
        let in_use = self.target_rate();
        let packets = feedback.results.len() as u64;
        self.loss.update(feedback.now, packets, lost, in_use, feedback.rtt);
        let rate = self.aimd.update(
            feedback.now,
            self.detector.signal(),
            self.received.get(),
            millis(feedback.srtt),
        );
        self.calculated = Some(rate);
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
        out("estimate_ms", self.estimate);
        out("threshold_ms", self.detector.threshold());
    }
}

#[cfg(test)]
mod tests;
