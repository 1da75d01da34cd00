//! BBR version 3 (draft-ietf-ccwg-bbr), with Linux's answer to ECN marks.
//!
//! As version 1 it models the path by bandwidth and propagation time, and adds bounds learnt from
//! loss: `inflight_longterm`, the data in flight that a bandwidth probe found safe, and short-term
//! bounds that follow the delivery process while not probing. Names are the draft's; sizes are
//! bytes, except where the transport wants whole segments.

mod aggregation;
mod bounds;
mod ecn;
mod output;
mod probe_bw;
mod probe_rtt;
mod recovery;
mod settings;
mod startup;

use aggregation::Aggregation;
use bounds::{Bounds, Latest, MaxBandwidth};
use ecn::Marks;
use probe_bw::Probe;
use probe_rtt::MinRtt;
use rand_pcg::Pcg32;
use recovery::Saved;
use settings::Settings;
pub(crate) use settings::info;
use startup::FullPipe;

use crate::event::{Ack, CaState, Congestion, EcnMode, IdleRestart, Lost, Nanos, Rto, Start, Undo};
use crate::params::Params;
use crate::quiet::QuietSpan;
use crate::{Controller, RecoveryStyle, SSTHRESH_INFINITE};

pub(crate) const NAME: &str = "bbr3";

/// A bound in bytes that is not set.
const UNBOUNDED: u64 = u64::MAX;
/// Windows stop growing here; far above any path, far below an overflow.
const MAX_SEGMENTS: u64 = 1 << 31;
/// Random stream of the waits between probes.
const STREAM: u64 = 0x6262_7233;

pub(crate) fn build(params: &Params, seed: u64) -> Box<dyn Controller> {
    Box::new(Bbr3::new(Settings::new(params), seed))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Accelerating: loss is expected, and judged by what it says of the long-term bound.
    fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// Packet-timed round trips.
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    count: u64,
    /// The ACK in hand starts one.
    start: bool,
    /// `delivered` that ends the present one.
    end: u64,
}

/// An ACK, and what is made of its rate sample.
#[derive(Clone, Copy)]
struct Sample<'a> {
    ack: &'a Ack,
    /// Bytes per second, 0 without a valid sample.
    rate: f64,
    /// The application limited it, or ProbeRTT did.
    app_limited: bool,
}

struct Bbr3 {
    settings: Settings,
    random: Pcg32,
    mss: u64,
    initial_window: u64,
    state: State,
    pacing_gain: f64,
    cwnd_gain: f64,

    cwnd: u64,
    prior_cwnd: u64,
    /// The pipe's size when Startup found it full; kept for recording, as Linux does.
    pipe: Option<u64>,
    pacing_rate: f64,
    has_seen_rtt: bool,
    ca_state: CaState,
    idle_restart: bool,

    rounds: Rounds,
    drain_start: u64,
    /// Bytes delivered, as last heard.
    delivered: u64,
    /// min(max_bw, bw_shortterm), bytes per second.
    bw: f64,
    max_bw: MaxBandwidth,
    min_rtt: MinRtt,
    quiet: QuietSpan,
    full_pipe: FullPipe,
    latest: Latest,
    bounds: Bounds,
    probe: Probe,
    aggregation: Aggregation,
    marks: Marks,
    saved: Option<Saved>,
    /// `saved` is that of the loss episode that lasts.
    in_episode: bool,
}

impl Bbr3 {
    fn new(settings: Settings, seed: u64) -> Self {
        Self {
            random: Pcg32::new(seed, STREAM),
            mss: 1,
            initial_window: 10,
            state: State::Startup,
            pacing_gain: settings.startup_gain,
            cwnd_gain: settings.cwnd_gain,
            cwnd: 10,
            prior_cwnd: 0,
            pipe: None,
            pacing_rate: 1.0,
            has_seen_rtt: false,
            ca_state: CaState::Open,
            idle_restart: false,
            rounds: Rounds::default(),
            drain_start: 0,
            delivered: 0,
            bw: 0.0,
            max_bw: MaxBandwidth::default(),
            min_rtt: MinRtt::default(),
            quiet: QuietSpan::default(),
            full_pipe: FullPipe::default(),
            latest: Latest::default(),
            bounds: Bounds::default(),
            probe: Probe::default(),
            aggregation: Aggregation::new(&settings),
            marks: Marks::default(),
            saved: None,
            in_episode: false,
            settings,
        }
    }

    fn min_pipe_cwnd(&self) -> u64 {
        self.settings.min_cwnd * self.mss
    }

    /// gain * bandwidth * propagation time, in bytes.
    fn bdp(&self, bw: f64, gain: f64) -> u64 {
        match self.min_rtt.seconds() {
            Some(seconds) => ((gain * bw * seconds).round() as u64).min(MAX_SEGMENTS * self.mss),
            None => self.initial_window,
        }
    }

    fn start_round(&mut self) {
        self.rounds.end = self.delivered;
    }

    fn update_round(&mut self, ack: &Ack) {
        self.rounds.start = ack.rate.has_data && ack.rate.prior_delivered >= self.rounds.end;
        if self.rounds.start {
            self.start_round();
            self.rounds.count += 1;
            self.probe.rounds_since_up += 1;
        }
    }
}

impl Controller for Bbr3 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_start(&mut self, event: &Start) {
        self.mss = u64::from(event.mss.max(1));
        self.initial_window = event.initial_window.max(self.mss);
        self.cwnd = self.initial_window;
        self.min_rtt.start(event.now, event.rtt);
        self.aggregation.restart(event.now);
        self.marks.start(&self.settings, event.ecn);
        self.init_pacing_rate(event.rtt);
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        self.delivered = ack.delivered;
        self.quiet.on_delivered(ack.delivered);
        let sample = Sample {
            ack,
            rate: ack.rate.rate().unwrap_or(0.0),
            app_limited: ack.rate.app_limited || self.quiet.covers(ack.rate.prior_delivered),
        };
        self.update_latest_signals(&sample);
        self.update_congestion_signals(&sample);
        self.update_aggregation(ack);
        self.check_full_bw_reached(&sample);
        self.check_startup_done(ack);
        self.check_drain_done(ack);
        self.update_probe_bw(&sample);
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack);
        self.latest.advance(&sample);
        self.bw = self.max_bw.get().min(self.bounds.bw_shortterm);
        self.ca_state = ack.state;

        if !self.has_seen_rtt && ack.srtt > 0 {
            self.init_pacing_rate(Some(ack.srtt));
        }
        self.set_pacing_rate(self.pacing_gain);
        self.set_cwnd(ack);
    }

    fn on_lost(&mut self, event: &Lost) {
        self.handle_lost(event);
    }

    fn wants_lost(&self) -> bool {
        true
    }

    /// Loss is answered segment by segment; what is left here is the loss that a tail probe repaired.
    fn on_congestion(&mut self, event: &Congestion) {
        self.delivered = event.delivered;
        if event.lost > 0 {
            self.save_state();
        }
        self.note_loss();
    }

    fn on_rto(&mut self, event: &Rto) {
        self.delivered = event.delivered;
        if event.first {
            self.save_state();
        }
        self.save_cwnd();
        self.note_loss();
        self.ca_state = CaState::Loss;
        self.cwnd = (event.inflight + self.mss).min(MAX_SEGMENTS * self.mss);
    }

    fn on_undo(&mut self, _event: &Undo) {
        self.undo();
    }

    fn on_recovery_exit(&mut self, _now: Nanos) {
        self.end_episode();
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        if !event.app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(event.now);
        if self.state.is_probe_bw() {
            // No burst above the bottleneck's rate into an empty pipe.
            self.set_pacing_rate(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(event.now);
        }
    }

    fn ecn_mode(&self) -> EcnMode {
        if self.settings.ecn { EcnMode::CeState } else { EcnMode::Off }
    }

    fn responds_to_marks(&self) -> bool {
        true
    }

    fn cwnd(&self) -> u64 {
        (self.cwnd / self.mss).max(1) * self.mss
    }

    /// At most the window: above it the transport would judge whether the window limits the flow by
    /// the laxer rule of slow start.
    fn ssthresh(&self) -> u64 {
        match self.pipe {
            Some(pipe) => pipe.min(self.cwnd()).max(2 * self.mss),
            None => SSTHRESH_INFINITE,
        }
    }

    fn pacing_rate(&self) -> Option<f64> {
        Some(self.pacing_rate)
    }

    fn recovery_style(&self) -> RecoveryStyle {
        RecoveryStyle::Own
    }

    fn phase(&self) -> &'static str {
        match self.state {
            State::Startup => "startup",
            State::Drain => "drain",
            State::Down => "probe_bw_down",
            State::Cruise => "probe_bw_cruise",
            State::Refill => "probe_bw_refill",
            State::Up => "probe_bw_up",
            State::ProbeRtt => "probe_rtt",
        }
    }

    /// Bounds that are not set are NaN.
    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        let segments = |bytes: u64| {
            if bytes == UNBOUNDED { f64::NAN } else { bytes as f64 / self.mss as f64 }
        };
        let bw_shortterm = self.bounds.bw_shortterm;
        out("max_bw_bps", self.max_bw.get() * 8.0);
        out("bw_bps", self.bw * 8.0);
        out(
            "bw_shortterm_bps",
            if bw_shortterm.is_finite() { bw_shortterm * 8.0 } else { f64::NAN },
        );
        out("min_rtt_ms", self.min_rtt.seconds().map_or(f64::NAN, |seconds| seconds * 1e3));
        out("inflight_longterm", segments(self.bounds.inflight_longterm));
        out("inflight_shortterm", segments(self.bounds.inflight_shortterm));
        out("extra_acked", segments(self.aggregation.extra()));
        out("probe_rtt_cwnd", segments(self.min_rtt.probe_cwnd()));
        out("pacing_gain", self.pacing_gain);
        out("cwnd_gain", self.cwnd_gain);
        out("round", self.rounds.count as f64);
        out("full_bw_count", self.full_pipe.count as f64);
        out("full_bw_reached", f64::from(u8::from(self.full_pipe.reached)));
        out("ecn_alpha", self.marks.alpha());
    }
}

#[cfg(test)]
mod tests;
