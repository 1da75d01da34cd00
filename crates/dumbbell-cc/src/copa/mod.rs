//! Copa: steer towards the rate 1/(delta d_q) that the queueing delay d_q calls for (Arun and
//! Balakrishnan, NSDI 2018).
//!
//! Each ACK moves the window by v/(delta cwnd) towards that rate; the velocity v doubles each round
//! trip while the direction stays. Against flows that fill the buffer delta becomes smaller
//! ([`mode`]). Loss counts only there; the window is Copa's own in recovery too, and marks are not
//! asked for, since the paper has no answer to them.
//!
//! Beyond the paper: an ACK that asks for the other direction takes the velocity back at once, as in
//! mvfst, where the paper compares windows once a round trip and so turns a round trip too late; the
//! velocity never more than doubles the window in a round trip; a timeout begins slow start again at
//! the least window.

mod mode;
#[cfg(test)]
mod tests;

use crate::event::{Ack, Congestion, EcnMode, Nanos, Rto, Start, Undo};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::windowed_filter::WindowedFilter;
use crate::{Controller, RecoveryStyle, SSTHRESH_INFINITE};
use mode::{Mode, ModeSettings};

pub(crate) const NAME: &str = "copa";

/// Far above any path, far below an overflow.
const MAX_SEGMENTS: f64 = (1_u64 << 31) as f64;

pub(crate) fn info() -> ControllerInfo {
    ControllerInfo {
        name: NAME,
        summary: "steers by delay towards 1/delta segments queued; competes where buffers are kept full",
        source: "Arun & Balakrishnan, NSDI 2018",
        signals: &["rtt", "loss"],
        params: vec![
            ParamInfo::new(
                "delta",
                "number",
                0.5,
                (1e-3, 10.0),
                "1/delta segments are kept queued by a flow (section 2.1: 0.5)",
            ),
            ParamInfo::flag(
                "mode_switching",
                true,
                "smaller delta among flows that fill the buffer (section 2.2)",
            ),
            ParamInfo::new(
                "empty_rounds",
                "number",
                5.0,
                (1.0, 1000.0),
                "round trips without a nearly empty queue before competing (section 2.2: 5)",
            ),
            ParamInfo::new(
                "empty_part",
                "fraction",
                0.1,
                (0.001, 0.999),
                "part of the RTT's range of four round trips that is nearly empty (section 2.2: 0.1)",
            ),
            ParamInfo::new(
                "empty_segments",
                "number",
                1.5,
                (0.0, 1000.0),
                "so is a queue of this many own segments: delayed ACKs add one to all RTTs but the least",
            ),
            ParamInfo::new(
                "min_rtt_window",
                "time",
                10_000_000_000_u64,
                (1e6, 1e13),
                "time over which the least RTT counts as that of the empty path (section 2.1: 10 s)",
            ),
            ParamInfo::new(
                "standing_part",
                "number",
                0.5,
                (0.01, 10.0),
                "smoothed RTTs over which the standing RTT is the least (section 2.1: 0.5)",
            ),
            ParamInfo::new(
                "velocity_rounds",
                "count",
                3,
                (0.0, 1000.0),
                "round trips in one direction before the velocity doubles (section 2.1: 3)",
            ),
            ParamInfo::new(
                "pacing_gain",
                "number",
                2.0,
                (0.1, 100.0),
                "pacing rate over cwnd / standing RTT (section 2.1: 2)",
            ),
            ParamInfo::new("min_cwnd", "segments", 2, (1.0, 1e6), "least window"),
        ],
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    Box::new(Copa::new(params))
}

/// Round-trip times that Copa keeps.
#[derive(Clone, Copy, Debug)]
struct Rtts {
    min: WindowedFilter<Nanos>,
    /// Over part of a smoothed RTT: free of ACK compression and delayed ACKs.
    standing: WindowedFilter<Nanos>,
    /// Over four round trips.
    max: WindowedFilter<Nanos>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug)]
struct Velocity {
    value: f64,
    direction: Direction,
    /// Round trips for which the direction has been the same.
    rounds: u64,
    /// Window at the start of this round trip.
    from: f64,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    mode: ModeSettings,
    min_rtt_window: Nanos,
    standing_part: f64,
    velocity_rounds: u64,
    pacing_gain: f64,
    min_cwnd: f64,
}

struct Copa {
    settings: Settings,
    mss: u64,
    /// Segments.
    cwnd: f64,
    slow_start: bool,
    velocity: Velocity,
    mode: Mode,
    rtts: Option<Rtts>,
    handshake_rtt: Option<Nanos>,
    /// Window and whether it was in slow start, before a timeout.
    saved: Option<(f64, bool)>,
}

impl Copa {
    fn new(params: &Params) -> Self {
        let settings = Settings {
            mode: ModeSettings {
                enabled: params.flag("mode_switching"),
                default_delta: params.number("delta"),
                empty_rounds: params.number("empty_rounds"),
                empty_part: params.number("empty_part"),
                empty_segments: params.number("empty_segments"),
            },
            min_rtt_window: params.time("min_rtt_window"),
            standing_part: params.number("standing_part"),
            velocity_rounds: params.count("velocity_rounds"),
            pacing_gain: params.number("pacing_gain"),
            min_cwnd: params.count("min_cwnd") as f64,
        };
        Self {
            settings,
            mss: 1,
            cwnd: settings.min_cwnd,
            slow_start: true,
            velocity: Velocity { value: 1.0, direction: Direction::Up, rounds: 0, from: 0.0 },
            mode: Mode::new(settings.mode, 0),
            rtts: None,
            handshake_rtt: None,
            saved: None,
        }
    }

    fn update_rtts(&mut self, now: Nanos, srtt: Nanos, rtt: Nanos) {
        let standing = (self.settings.standing_part * srtt as f64) as Nanos;
        let rtts = self.rtts.get_or_insert_with(|| Rtts {
            min: WindowedFilter::min(self.settings.min_rtt_window, now, rtt),
            standing: WindowedFilter::min(standing, now, rtt),
            max: WindowedFilter::max(4 * srtt, now, rtt),
        });
        rtts.min.update(now, rtt);
        rtts.standing.set_window(standing);
        rtts.standing.update(now, rtt);
        rtts.max.set_window(srtt.saturating_mul(4));
        rtts.max.update(now, rtt);
    }

    /// d_q.
    fn queueing(&self) -> Nanos {
        self.rtts.map_or(0, |rtts| rtts.standing.get().saturating_sub(rtts.min.get()))
    }

    /// The rate cwnd / RTT_standing is at most the target 1/(delta d_q).
    fn below_target(&self) -> bool {
        let standing = self.rtts.map_or(0, |rtts| rtts.standing.get());
        self.cwnd * self.mode.delta() * self.queueing() as f64 <= standing as f64
    }

    /// Once a round trip: the velocity doubles while the direction stays.
    fn update_velocity(&mut self) {
        let direction =
            if self.cwnd > self.velocity.from { Direction::Up } else { Direction::Down };
        let velocity = &mut self.velocity;
        if direction == velocity.direction {
            velocity.rounds += 1;
            if velocity.rounds >= self.settings.velocity_rounds {
                // So that the window doubles in a round trip at most.
                let bound = (self.mode.delta() * self.cwnd).max(1.0);
                velocity.value = (2.0 * velocity.value).min(bound);
            }
        } else {
            velocity.value = 1.0;
            velocity.rounds = 0;
            velocity.direction = direction;
        }
        velocity.from = self.cwnd;
    }

    /// The window has to turn: not with the velocity that it has gathered.
    fn turn(&mut self, direction: Direction) {
        self.velocity = Velocity { value: 1.0, direction, rounds: 0, from: self.cwnd };
    }

    fn move_window(&mut self, ack: &Ack) {
        let acked = ack.acked as f64 / self.mss as f64;
        let up = self.below_target();
        let direction = if up { Direction::Up } else { Direction::Down };
        if self.slow_start {
            if up {
                if ack.cwnd_limited {
                    self.cwnd += acked;
                }
                return;
            }
            self.slow_start = false;
            self.turn(direction);
        } else if self.velocity.value > 1.0 && direction != self.velocity.direction {
            self.turn(direction);
        }
        let step = self.velocity.value * acked / (self.mode.delta() * self.cwnd);
        if !up {
            self.cwnd -= step;
        } else if ack.cwnd_limited {
            self.cwnd += step.min(acked);
        }
    }
}

impl Controller for Copa {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_start(&mut self, event: &Start) {
        self.mss = u64::from(event.mss.max(1));
        self.cwnd = (event.initial_window as f64 / self.mss as f64)
            .clamp(self.settings.min_cwnd, MAX_SEGMENTS);
        self.velocity.from = self.cwnd;
        self.handshake_rtt = event.rtt;
        self.mode = Mode::new(self.settings.mode, event.now);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.mss = u64::from(ack.mss.max(1));
        if let Some(rtt) = ack.rtt {
            self.update_rtts(ack.now, ack.srtt, rtt);
        }
        let Some(rtts) = self.rtts else {
            return;
        };
        let range = rtts.max.get().saturating_sub(rtts.min.get());
        let segment = rtts.standing.get() as f64 / self.cwnd;
        self.mode.observe(ack.now, ack.srtt, self.queueing(), range, segment);
        if ack.round_start {
            self.mode.round();
            if !self.slow_start {
                self.update_velocity();
            }
        }
        if ack.acked > 0 {
            self.move_window(ack);
            self.cwnd = self.cwnd.clamp(self.settings.min_cwnd, MAX_SEGMENTS);
        }
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        self.mode.loss();
    }

    fn on_rto(&mut self, event: &Rto) {
        if event.first {
            self.saved = Some((self.cwnd, self.slow_start));
        }
        self.mode.loss();
        self.cwnd = self.settings.min_cwnd;
        self.slow_start = true;
        self.velocity.value = 1.0;
        self.velocity.rounds = 0;
    }

    fn on_undo(&mut self, event: &Undo) {
        if let Some((cwnd, slow_start)) = self.saved.take_if(|_| event.timeout) {
            self.cwnd = self.cwnd.max(cwnd);
            self.slow_start = slow_start;
        }
    }

    fn ecn_mode(&self) -> EcnMode {
        EcnMode::Off
    }

    fn cwnd(&self) -> u64 {
        self.cwnd as u64 * self.mss
    }

    /// There is none.
    fn ssthresh(&self) -> u64 {
        SSTHRESH_INFINITE
    }

    fn pacing_rate(&self) -> Option<f64> {
        let rtt = self.rtts.map(|rtts| rtts.standing.get()).or(self.handshake_rtt)?;
        (rtt > 0)
            .then(|| self.settings.pacing_gain * self.cwnd * self.mss as f64 * 1e9 / rtt as f64)
    }

    fn recovery_style(&self) -> RecoveryStyle {
        RecoveryStyle::Own
    }

    fn phase(&self) -> &'static str {
        if self.slow_start {
            "slow_start"
        } else if self.mode.competitive {
            "competitive"
        } else {
            "default"
        }
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        let ms = |value: Option<Nanos>| value.unwrap_or(0) as f64 / 1e6;
        out("queueing_delay_ms", self.queueing() as f64 / 1e6);
        out("standing_rtt_ms", ms(self.rtts.map(|rtts| rtts.standing.get())));
        out("min_rtt_ms", ms(self.rtts.map(|rtts| rtts.min.get())));
        out("delta", self.mode.delta());
        out("velocity", self.velocity.value);
    }
}
