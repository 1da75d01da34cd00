//! NADA (RFC 8698): one congestion signal from queueing delay, loss and marks, and a reference rate
//! that moves with it.
//!
//! What the RFC's receiver aggregates (queueing delay, loss and marking ratios, receiving rate) is
//! computed here from the results of packets, every `delta`, as the module of NADA for ns-3 does
//! (github.com/cisco/ns3-rmcat). Delays are in ms, as in the RFC.

use std::collections::VecDeque;

use dumbbell_cc::{ControllerInfo, ParamInfo, Params};
use dumbbell_queue::{Ecn, Nanos};

use crate::rtp::control::{Feedback, MediaController};
use crate::rtp::controllers::{Limits, common_params, fraction, number, time};
use crate::rtp::delay::{BaseDelay, millis, one_way_delay};
use crate::rtp::loss_intervals::LossIntervals;
use crate::rtp::receive_rate::ReceiveRate;

pub(in crate::rtp) const NAME: &str = "nada";

pub(in crate::rtp) fn info() -> ControllerInfo {
    let mut params = common_params(150e3, 0.5);
    params.extend([
        number("priority", 1.0, (1e-3, 1e3), "weight of the flow (PRIO: 1)"),
        time("xref", 10, 1, "reference congestion level (XREF: 10 ms)"),
        number("kappa", 0.5, (0.0, 100.0), "scale of the gradual update (KAPPA: 0.5)"),
        number("eta", 2.0, (0.0, 100.0), "weight of the signal's change (ETA: 2)"),
        time("tau", 500, 1, "upper bound of the RTT in the gradual update (TAU: 500 ms)"),
        time("delta", 100, 1, "least time between updates (DELTA: 100 ms)"),
        time("logwin", 500, 1, "time over which packets are summed up (LOGWIN: 500 ms)"),
        time("qeps", 10, 0, "queueing delay that ends the ramp-up (QEPS: 10 ms)"),
        time("dfilt", 120, 0, "bound of the filtering delay (DFILT: 120 ms)"),
        number("gamma_max", 0.5, (0.0, 10.0), "greatest increase of a ramp-up (GAMMA_MAX: 0.5)"),
        time("qbound", 50, 0, "greatest queueing delay that a ramp-up may cause (QBOUND: 50 ms)"),
        number(
            "multiloss",
            7.0,
            (0.0, 1e3),
            "mean loss intervals after which a loss is forgotten (MULTILOSS: 7)",
        ),
        time("qth", 50, 1, "queueing delay above which it is warped after losses (QTH: 50 ms)"),
        number("lambda", 0.5, (0.0, 100.0), "exponent of the warping (LAMBDA: 0.5)"),
        number("plr_ref", 0.01, (1e-6, 1.0), "reference loss ratio (PLRREF: 0.01)"),
        number("pmr_ref", 0.01, (1e-6, 1.0), "reference marking ratio (PMRREF: 0.01)"),
        time("dloss", 10, 0, "penalty at the reference loss ratio (DLOSS: 10 ms)"),
        time("dmark", 2, 0, "penalty at the reference marking ratio (DMARK: 2 ms)"),
        number("fps", 30.0, (1.0, 1e3), "frames a second (FPS: 30)"),
        number("beta_s", 0.1, (0.0, 10.0), "share of the queue that is sent sooner (BETA_S: 0.1)"),
        number("beta_v", 0.1, (0.0, 10.0), "share of the queue that is encoded less (BETA_V: 0.1)"),
        fraction(
            "shaping_limit",
            0.05,
            "share of the rate that either may be at most (RFC 8698 section 5.2.2: 0.05)",
        ),
        fraction("alpha", 0.1, "weight of the newest loss and marking ratios (ALPHA: 0.1)"),
        time("x_max", 500, 1, "greatest congestion signal (the ns-3 module: 500 ms)"),
        ParamInfo::new(
            "taps",
            "count",
            15,
            (1.0, 1000.0),
            "packets of the minimum filter of queueing delay, of logwin at most (RFC 8698 section \
             5.1.1: 15)",
        ),
        time(
            "base_window",
            600_000,
            1,
            "time over which the least one-way delay is that of the empty path (10 min: ours)",
        ),
    ]);
    ControllerInfo {
        name: NAME,
        summary: "one signal from queueing delay, loss and marks; gradual rate update",
        source: "RFC 8698",
        signals: &["loss", "ce-fraction", "rtt"],
        params,
    }
}

pub(in crate::rtp) fn build(params: &Params, _seed: u64) -> Box<dyn MediaController> {
    Box::new(Nada::new(params))
}

/// The RFC's constants, times in ms.
#[derive(Clone, Debug)]
struct Constants {
    priority: f64,
    xref: f64,
    kappa: f64,
    eta: f64,
    tau: f64,
    delta: f64,
    qeps: f64,
    dfilt: f64,
    gamma_max: f64,
    qbound: f64,
    multiloss: f64,
    qth: f64,
    lambda: f64,
    plr_ref: f64,
    pmr_ref: f64,
    dloss: f64,
    dmark: f64,
    fps: f64,
    beta_s: f64,
    beta_v: f64,
    shaping_limit: f64,
    alpha: f64,
    x_max: f64,
    timeout_factor: f64,
}

impl Constants {
    fn new(params: &Params) -> Self {
        let time = |name| millis(params.time(name));
        let number = |name| params.number(name);
        Self {
            priority: number("priority"),
            xref: time("xref"),
            kappa: number("kappa"),
            eta: number("eta"),
            tau: time("tau"),
            delta: time("delta"),
            qeps: time("qeps"),
            dfilt: time("dfilt"),
            gamma_max: number("gamma_max"),
            qbound: time("qbound"),
            multiloss: number("multiloss"),
            qth: time("qth"),
            lambda: number("lambda"),
            plr_ref: number("plr_ref"),
            pmr_ref: number("pmr_ref"),
            dloss: time("dloss"),
            dmark: time("dmark"),
            fps: number("fps"),
            beta_s: number("beta_s"),
            beta_v: number("beta_v"),
            shaping_limit: number("shaping_limit"),
            alpha: number("alpha"),
            x_max: time("x_max"),
            timeout_factor: number("timeout_factor"),
        }
    }

    /// Section 4.2, equation 1: once losses are seen, a long queue must be someone else's, and
    /// counts the less the longer it is.
    fn warped(&self, delay: f64) -> f64 {
        if delay < self.qth {
            delay
        } else {
            self.qth * (-self.lambda * (delay - self.qth) / self.qth).exp()
        }
    }

    /// Section 4.2, equation 2.
    fn signal(&self, delay: f64, loss: f64, marks: f64) -> f64 {
        let penalty = self.dloss * (loss / self.plr_ref).powi(2)
            + self.dmark * (marks / self.pmr_ref).powi(2);
        (delay + penalty).min(self.x_max)
    }

    /// Section 4.3, equation 3.
    fn gamma(&self, rtt: f64) -> f64 {
        (self.qbound / (rtt + self.delta + self.dfilt)).min(self.gamma_max)
    }

    /// Section 4.3, equations 5 to 7.
    fn gradual(&self, rate: f64, delta: f64, signal: f64, previous: f64, most: f64) -> f64 {
        let offset = signal - self.priority * self.xref * most / rate;
        let change = signal - previous;
        rate - self.kappa * (delta / self.tau) * (offset / self.tau) * rate
            - self.kappa * self.eta * (change / self.tau) * rate
    }
}

/// A packet of the last LOGWIN.
#[derive(Clone, Copy, Debug)]
struct Logged {
    sent: Nanos,
    /// `None`: lost.
    delay: Option<i64>,
    marked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    RampUp,
    Gradual,
}

pub(in crate::rtp) struct Nada {
    constants: Constants,
    limits: Limits,
    logwin: Nanos,
    taps: usize,
    base: BaseDelay,
    log: VecDeque<Logged>,
    received: ReceiveRate,
    intervals: LossIntervals,
    updated: Option<Nanos>,
    loss: f64,
    marks: f64,
    queueing: f64,
    signal: f64,
    mode: Mode,
    /// r_ref.
    rate: f64,
    /// L, of the rate-shaping buffer.
    queued: u64,
    calculated: Option<f64>,
}

impl Nada {
    fn new(params: &Params) -> Self {
        let limits = Limits::new(params);
        Self {
            constants: Constants::new(params),
            limits,
            logwin: params.time("logwin"),
            taps: params.count("taps") as usize,
            base: BaseDelay::new(params.time("base_window")),
            log: VecDeque::new(),
            received: ReceiveRate::new(params.time("logwin")),
            intervals: LossIntervals::new(),
            updated: None,
            loss: 0.0,
            marks: 0.0,
            queueing: 0.0,
            signal: 0.0,
            mode: Mode::RampUp,
            rate: limits.clip(params.number("start_rate")),
            queued: 0,
            calculated: None,
        }
    }

    fn take_down(&mut self, feedback: &Feedback) {
        for result in feedback.results {
            let delay = result.arrival.map(|arrival| {
                self.received.add(arrival, result.bytes);
                one_way_delay(result.sent, arrival)
            });
            match delay {
                Some(delay) => {
                    self.base.add(feedback.now, delay);
                    self.intervals.received();
                }
                None => self.intervals.lost(result.sent, feedback.srtt),
            }
            let marked = result.ecn == Ecn::Ce;
            self.log.push_back(Logged { sent: result.sent, delay, marked });
        }
        let newest = self.log.back().map_or(0, |logged| logged.sent);
        while self
            .log
            .front()
            .is_some_and(|logged| newest.saturating_sub(logged.sent) > self.logwin)
        {
            self.log.pop_front();
        }
    }

    /// Section 5.1: what the receiver would report, all of it of LOGWIN: where packets are few, 15 of
    /// them would reach back for seconds.
    fn aggregate(&mut self) {
        let newest = self.log.iter().rev().filter_map(|logged| logged.delay).take(self.taps);
        if let Some(least) = newest.min() {
            self.queueing = millis(self.base.queueing(least));
        }
        if self.log.is_empty() {
            return;
        }
        let lost = self.log.iter().filter(|logged| logged.delay.is_none()).count();
        let marked = self.log.iter().filter(|l| l.marked && l.delay.is_some()).count();
        let sent = self.log.len() as f64;
        let arrived = (self.log.len() - lost).max(1) as f64;
        self.loss += self.constants.alpha * (lost as f64 / sent - self.loss);
        self.marks += self.constants.alpha * (marked as f64 / arrived - self.marks);
    }

    /// Section 4.2: queueing delay is warped while losses are recent, and by and by less over one
    /// more loss interval.
    fn delay_signal(&self) -> f64 {
        let plain = self.queueing;
        let Some(mean) = self.intervals.mean() else { return plain };
        let past = self.intervals.open() / mean.max(1.0) - self.constants.multiloss;
        let share = past.clamp(0.0, 1.0);
        share * plain + (1.0 - share) * self.constants.warped(plain)
    }

    /// Section 4.2: ramp up only without loss and without a queue in LOGWIN.
    fn may_ramp_up(&self) -> bool {
        self.log.iter().all(|logged| {
            logged
                .delay
                .is_some_and(|delay| millis(self.base.queueing(delay)) < self.constants.qeps)
        })
    }

    fn update(&mut self, delta: f64, rtt: f64) {
        self.aggregate();
        let previous = self.signal;
        self.signal = self.constants.signal(self.delay_signal(), self.loss, self.marks);
        let rate = if self.may_ramp_up() {
            self.mode = Mode::RampUp;
            let received = self.received.get().unwrap_or(0.0);
            self.rate.max((1.0 + self.constants.gamma(rtt)) * received)
        } else {
            self.mode = Mode::Gradual;
            // Nothing is known of more than an interval of the model: ours.
            let delta = delta.min(self.constants.tau);
            self.constants.gradual(self.rate, delta, self.signal, previous, self.limits.most)
        };
        self.rate = self.limits.clip(rate);
        self.calculated = Some(self.rate);
    }

    /// Bits per second that a share of the rate-shaping buffer stands for (section 5.2.2, equations
    /// 11 and 12).
    fn of_queue(&self, share: f64) -> f64 {
        let most = self.constants.shaping_limit * self.rate;
        (share * 8.0 * self.queued as f64 * self.constants.fps).min(most)
    }
}

impl MediaController for Nada {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_start(&mut self, now: Nanos) {
        self.updated = Some(now);
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        self.queued = feedback.queued;
        self.take_down(feedback);
        let delta = millis(feedback.now.saturating_sub(self.updated.unwrap_or(feedback.now)));
        if self.updated.is_none() {
            self.updated = Some(feedback.now);
        } else if delta >= self.constants.delta {
            self.update(delta, millis(feedback.rtt));
            self.updated = Some(feedback.now);
        }
    }

    fn on_feedback_timeout(&mut self, _now: Nanos) {
        self.rate = self.limits.clip(self.rate * self.constants.timeout_factor);
        self.calculated = Some(self.rate);
    }

    /// r_vin.
    fn target_rate(&self) -> f64 {
        self.limits.clip(self.rate - self.of_queue(self.constants.beta_v))
    }

    /// r_send.
    fn send_rate(&self) -> f64 {
        self.limits.clip(self.rate + self.of_queue(self.constants.beta_s))
    }

    fn take_calculated(&mut self) -> Option<f64> {
        self.calculated.take()
    }

    fn set_rate(&mut self, _now: Nanos, rate: f64) {
        self.rate = self.limits.clip(rate);
    }

    fn phase(&self) -> &'static str {
        match self.mode {
            Mode::RampUp => "ramp-up",
            Mode::Gradual => "gradual",
        }
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        out("r_ref", self.rate);
        out("x_curr_ms", self.signal);
        out("d_queue_ms", self.queueing);
        out("p_loss", self.loss);
        out("p_mark", self.marks);
        out("r_recv", self.received.get().unwrap_or(f64::NAN));
    }
}

#[cfg(test)]
mod tests;
