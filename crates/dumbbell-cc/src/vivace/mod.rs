//! PCC Vivace: try rates in monitor intervals and climb the slope of a utility of rate, latency
//! gradient and loss (Dong et al., NSDI 2018).
//!
//! At the start the rate doubles with each interval whose utility is the best so far. Then pairs of
//! intervals at (1 + epsilon) and (1 - epsilon) of the rate, in random order, give the slope, and
//! [`ascent`] the step. While results are awaited the base rate is sent.
//!
//! A falling latency counts as none unless `reward_drain` asks for it: while a queue drains it would
//! reward the higher of two rates, and the flow would fill the queue again. What the paper leaves open: a timeout halves the rate; the window is a multiple of rate times
//! smoothed RTT, so that it only limits a flow whose ACKs stay away; a pair that the application or
//! the window kept from its rates says nothing and is tried again. Marks are not asked for.

mod ascent;
mod monitor;

use rand_core::RngCore;
use rand_pcg::Pcg32;

use crate::event::{Ack, Congestion, EcnMode, Nanos, Rto, Start, Undo};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::{Controller, RecoveryStyle, SSTHRESH_INFINITE};
use ascent::{Ascent, AscentSettings, Utility};
use monitor::{Monitor, Purpose, Report};

pub(crate) const NAME: &str = "vivace";

/// Stream of the generator that orders the trials.
const STREAM: u64 = 0x7669_7661_6365;
const MBIT: f64 = 1e6 / 8.0;
/// Far above any path, far below an overflow.
const MAX_SEGMENTS: f64 = (1_u64 << 31) as f64;
const MAX_RATE: f64 = 1e15;
/// An interval in which less than this part of its rate was sent says nothing about that rate.
const USED: f64 = 0.5;

pub(crate) fn info() -> ControllerInfo {
    ControllerInfo {
        name: NAME,
        summary: "climbs a utility of rate, latency gradient and loss that it measures by trial",
        source: "Dong et al., NSDI 2018",
        signals: &["rtt", "loss", "delivery-rate"],
        params: vec![
            ParamInfo::new(
                "exponent",
                "number",
                0.9,
                (0.01, 0.999),
                "t: utility of a rate of x Mbit/s is x^t (section 3: 0.9)",
            ),
            ParamInfo::new(
                "latency_coefficient",
                "number",
                900.0,
                (0.0, 1e6),
                "b: cost of a latency gradient (section 3: 900; 0 is Vivace-loss)",
            ),
            ParamInfo::new(
                "loss_coefficient",
                "number",
                11.35,
                (0.0, 1e6),
                "c: cost of loss (section 3: 11.35)",
            ),
            ParamInfo::new(
                "gradient_tolerance",
                "number",
                0.01,
                (0.0, 1.0),
                "latency gradients below this are taken for noise (section 4: 0.01)",
            ),
            ParamInfo::flag(
                "reward_drain",
                false,
                "count a falling latency for the rate, as the formula has it but not its reason",
            ),
            ParamInfo::new(
                "epsilon",
                "fraction",
                0.05,
                (0.001, 0.5),
                "trial rates differ from the base rate by this part (section 4: 0.05)",
            ),
            ParamInfo::new(
                "conversion",
                "number",
                1.0,
                (1e-6, 1e6),
                "theta_0: Mbit/s by which a slope of 1 a Mbit/s moves the rate (section 4: 1)",
            ),
            ParamInfo::new(
                "boundary",
                "fraction",
                0.05,
                (1e-4, 1.0),
                "omega_0: part of the rate by which a step moves it at most (section 4: 0.05)",
            ),
            ParamInfo::new(
                "boundary_step",
                "fraction",
                0.1,
                (1e-4, 1.0),
                "delta: how the boundary widens each time in a row that it binds (section 4: 0.1)",
            ),
            ParamInfo::new(
                "interval_packets",
                "segments",
                10,
                (1.0, 1e6),
                "a monitor interval is a round trip, but at least the time of this many segments",
            ),
            ParamInfo::new(
                "initial_packets",
                "segments",
                2,
                (1.0, 1e6),
                "segments a round trip at the start (PCC Allegro, NSDI 2015: 2)",
            ),
            ParamInfo::new("min_rate", "rate", 10_000.0, (1.0, 1e12), "least rate"),
            ParamInfo::new(
                "cwnd_gain",
                "number",
                2.0,
                (1.0, 100.0),
                "window over rate times smoothed RTT",
            ),
        ],
    }
}

pub(crate) fn build(params: &Params, seed: u64) -> Box<dyn Controller> {
    Box::new(Vivace::new(params, seed))
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    utility: Utility,
    ascent: AscentSettings,
    epsilon: f64,
    interval_packets: f64,
    initial_packets: f64,
    /// Bytes per second.
    min_rate: f64,
    cwnd_gain: f64,
}

/// The utilities of a pair, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    higher: Option<f64>,
    lower: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Doubling; the best utility so far, 0 being that of sending nothing.
    Starting {
        best: f64,
    },
    Learning(Pair),
}

struct Vivace {
    settings: Settings,
    random: Pcg32,
    mss: u64,
    /// Base rate and that of the present interval, bytes per second; 0 before there is an RTT.
    rate: f64,
    sending: f64,
    srtt: Nanos,
    state: State,
    monitor: Option<Monitor>,
    ascent: Ascent,
    /// Trials that are still to be sent, the next one last.
    trials: Vec<Purpose>,
    app_limited: bool,
    initial_segments: f64,
    utility: f64,
    gradient: f64,
    saved_rate: Option<f64>,
}

impl Vivace {
    fn new(params: &Params, seed: u64) -> Self {
        let settings = Settings {
            utility: Utility {
                exponent: params.number("exponent"),
                latency: params.number("latency_coefficient"),
                loss: params.number("loss_coefficient"),
                tolerance: params.number("gradient_tolerance"),
                reward_drain: params.flag("reward_drain"),
            },
            ascent: AscentSettings {
                conversion: params.number("conversion"),
                boundary: params.number("boundary"),
                boundary_step: params.number("boundary_step"),
            },
            epsilon: params.number("epsilon"),
            interval_packets: params.count("interval_packets") as f64,
            initial_packets: params.count("initial_packets") as f64,
            min_rate: params.number("min_rate") / 8.0,
            cwnd_gain: params.number("cwnd_gain"),
        };
        Self {
            settings,
            random: Pcg32::new(seed, STREAM),
            mss: 1,
            rate: 0.0,
            sending: 0.0,
            srtt: 0,
            state: State::Starting { best: 0.0 },
            monitor: None,
            ascent: Ascent::new(settings.ascent),
            trials: Vec::with_capacity(2),
            app_limited: false,
            initial_segments: 1.0,
            utility: 0.0,
            gradient: 0.0,
            saved_rate: None,
        }
    }

    fn set_rate(&mut self, rate: f64) {
        self.rate = rate.clamp(self.settings.min_rate, MAX_RATE);
    }

    /// The first RTT gives a rate.
    fn first_rtt(&mut self, now: Nanos, rtt: Nanos) {
        self.srtt = rtt.max(1);
        self.set_rate(self.settings.initial_packets * self.mss as f64 * 1e9 / self.srtt as f64);
        self.sending = self.rate;
        self.monitor = Some(Monitor::new(now, Purpose::Start, self.rate));
    }

    fn begin(&mut self, now: Nanos, purpose: Purpose) {
        self.sending = match purpose {
            Purpose::Higher => self.rate * (1.0 + self.settings.epsilon),
            Purpose::Lower => self.rate * (1.0 - self.settings.epsilon),
            Purpose::Start | Purpose::Wait => self.rate,
        };
        if let Some(monitor) = &mut self.monitor {
            monitor.begin(now, purpose, self.sending);
        }
    }

    fn begin_pair(&mut self, now: Nanos) {
        self.state = State::Learning(Pair::default());
        self.trials.clear();
        self.trials.extend([Purpose::Higher, Purpose::Lower]);
        if self.random.next_u32() & 1 == 1 {
            self.trials.swap(0, 1);
        }
        self.next_trial(now);
    }

    fn next_trial(&mut self, now: Nanos) {
        let purpose = self.trials.pop().unwrap_or(Purpose::Wait);
        self.begin(now, purpose);
    }

    /// Length of the present interval.
    fn interval(&self) -> Nanos {
        let packets = self.settings.interval_packets * self.mss as f64 * 1e9 / self.sending;
        self.srtt.max(packets as Nanos)
    }

    /// End the present interval if it has lasted long enough.
    fn tick(&mut self, now: Nanos) {
        let Some((start, purpose)) = self.monitor.as_ref().and_then(Monitor::present) else {
            return;
        };
        if now.saturating_sub(start) < self.interval() {
            return;
        }
        match purpose {
            Purpose::Wait => {}
            Purpose::Start => self.begin(now, Purpose::Wait),
            Purpose::Higher | Purpose::Lower => self.next_trial(now),
        }
    }

    fn take(&mut self, now: Nanos, report: &Report) {
        if report.purpose == Purpose::Wait {
            return;
        }
        if report.actual < USED * report.rate {
            // What kept it from the rate: the application, or a window that the rate is far above?
            if !self.app_limited && report.actual > 0.0 {
                self.set_rate(report.actual);
            }
            self.restart_trials(now);
            return;
        }
        let mbit = report.rate / MBIT;
        self.utility = self.settings.utility.of(mbit, report.gradient, report.loss);
        match &mut self.state {
            State::Starting { best } => {
                if self.utility > *best {
                    *best = self.utility;
                    self.set_rate(2.0 * self.rate);
                    self.begin(now, Purpose::Start);
                } else {
                    self.set_rate(self.rate / 2.0);
                    self.begin_pair(now);
                }
            }
            State::Learning(pair) => {
                match report.purpose {
                    Purpose::Higher => pair.higher = Some(self.utility),
                    _ => pair.lower = Some(self.utility),
                }
                if let (Some(higher), Some(lower)) = (pair.higher, pair.lower) {
                    let base = self.rate / MBIT;
                    self.gradient = (higher - lower) / (2.0 * self.settings.epsilon * base);
                    let step = self.ascent.step(base, self.gradient);
                    self.set_rate((base + step) * MBIT);
                    self.begin_pair(now);
                }
            }
        }
    }

    fn restart_trials(&mut self, now: Nanos) {
        if let Some(monitor) = &mut self.monitor {
            monitor.forget();
        }
        match self.state {
            State::Starting { .. } => self.begin(now, Purpose::Start),
            State::Learning(_) => self.begin_pair(now),
        }
    }
}

impl Controller for Vivace {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_start(&mut self, event: &Start) {
        self.mss = u64::from(event.mss.max(1));
        self.initial_segments = (event.initial_window as f64 / self.mss as f64).max(1.0);
        if let Some(rtt) = event.rtt {
            self.first_rtt(event.now, rtt);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.mss = u64::from(ack.mss.max(1));
        self.app_limited = ack.app_limited;
        if ack.srtt > 0 {
            self.srtt = ack.srtt;
        }
        if self.monitor.is_none()
            && let Some(rtt) = ack.rtt
        {
            self.first_rtt(ack.now, rtt);
        }
        let Some(monitor) = &mut self.monitor else {
            return;
        };
        if let Some(rtt) = ack.rtt {
            monitor.on_rtt(ack.now, rtt);
        }
        monitor.on_lost(ack.lost_total);
        while let Some(report) = self.monitor.as_mut().and_then(|m| m.next_report(ack.inflight)) {
            self.take(ack.now, &report);
        }
        self.tick(ack.now);
    }

    fn wants_sent(&self) -> bool {
        true
    }

    fn on_sent(&mut self, now: Nanos, _bytes: u32, _inflight: u64) {
        self.tick(now);
        // Whole segments, as the data in flight is counted.
        let bytes = self.mss;
        if let Some(monitor) = &mut self.monitor {
            monitor.on_sent(bytes);
        }
    }

    /// Loss counts in the utility.
    fn on_congestion(&mut self, _event: &Congestion) {}

    fn on_rto(&mut self, event: &Rto) {
        if event.first {
            self.saved_rate = Some(self.rate);
        }
        if self.monitor.is_some() {
            self.set_rate(self.rate / 2.0);
            self.state = State::Learning(Pair::default());
            self.restart_trials(event.now);
        }
    }

    fn on_undo(&mut self, event: &Undo) {
        if let Some(rate) = self.saved_rate.take_if(|_| event.timeout) {
            self.set_rate(self.rate.max(rate));
            self.restart_trials(event.now);
        }
    }

    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Off
    }

    fn cwnd(&self) -> u64 {
        // Of the highest rate that is tried, so that trials do not move it.
        let rate = self.rate * (1.0 + self.settings.epsilon);
        let segments = self.settings.cwnd_gain * rate * self.srtt as f64 / 1e9 / self.mss as f64;
        segments.ceil().clamp(self.initial_segments.min(10.0), MAX_SEGMENTS) as u64 * self.mss
    }

    /// There is none.
    fn ssthresh(&self) -> u64 {
        SSTHRESH_INFINITE
    }

    fn pacing_rate(&self) -> Option<f64> {
        (self.sending > 0.0).then_some(self.sending)
    }

    fn recovery_style(&self) -> RecoveryStyle {
        RecoveryStyle::Own
    }

    fn phase(&self) -> &'static str {
        match self.state {
            State::Starting { .. } => "starting",
            State::Learning(_) => "learning",
        }
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        out("rate_bps", self.rate * 8.0);
        out("utility", self.utility);
        out("utility_gradient", self.gradient);
        out("amplifier", self.ascent.amplifier());
        out("boundary", self.ascent.boundary());
    }
}
