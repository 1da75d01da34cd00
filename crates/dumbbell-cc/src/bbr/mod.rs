//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00) with the additions of Linux: ACK
//! aggregation ([`aggregation`]), policer detection ([`policer`]), a pacing margin.
//!
//! The path is modelled by its bottleneck bandwidth (maximum delivery rate of the last 10 rounds) and
//! its round-trip propagation time (minimum of the last 10 s); the window and the pacing rate are
//! multiples of these. Windows are whole segments and the gains are those of Linux's 8-bit fixed
//! point (2.887 and 0.344 for 2/ln 2 and ln 2 / 2).

mod aggregation;
mod policer;
mod settings;

use crate::quiet::QuietSpan;
use aggregation::Aggregation;
use policer::{Policer, Sample, Verdict};
use rand_core::RngCore;
use rand_pcg::Pcg32;
use settings::Settings;
pub(crate) use settings::info;

use crate::event::{Ack, CaState, Congestion, IdleRestart, Nanos, Rto, Start, Undo};
use crate::params::Params;
use crate::windowed_filter::WindowedFilter;
use crate::{Controller, RecoveryStyle, SSTHRESH_INFINITE};

pub(crate) const NAME: &str = "bbr";

const CYCLE: usize = 8;
/// Round-trip time assumed for the first pacing rate if the handshake gave none.
const NOMINAL_RTT: Nanos = 1_000_000;
/// Pacing rates below this (1.2 Mbit/s) send single segments, bytes/s.
const LOW_PACING_RATE: f64 = 150_000.0;
/// Share of a second that a burst may take at the pacing rate: 1/1024.
const BURST_SHARE: f64 = 1.0 / 1024.0;
/// Largest burst, bytes and segments.
const MAX_BURST: f64 = 65_536.0;
const MAX_BURST_SEGMENTS: u64 = 127;
/// Windows stop growing here; far above any path, far below an overflow.
const MAX_SEGMENTS: u64 = 1 << 31;
/// Random stream of the gain cycle's start.
const STREAM: u64 = 0x62_6272;

pub(crate) fn build(params: &Params, seed: u64) -> Box<dyn Controller> {
    Box::new(Bbr::new(Settings::new(params), seed))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

struct Bbr {
    settings: Settings,
    random: Pcg32,
    mss: u64,
    /// All windows in segments.
    initial_window: u64,
    cwnd: u64,
    prior_cwnd: u64,
    /// The pipe's size when it was found full; kept for recording, as Linux does.
    ssthresh: Option<u64>,
    /// Bytes acked that do not fill a segment yet.
    acked_part: u64,
    pacing_rate: f64,
    has_seen_rtt: bool,

    mode: Mode,
    pacing_gain: f64,
    cwnd_gain: f64,

    /// Bytes per second over rounds.
    max_bw: WindowedFilter<f64>,
    round: u64,
    round_start: bool,
    /// `delivered` that ends the round.
    next_round_delivered: u64,

    min_rtt: Option<Nanos>,
    min_rtt_stamp: Nanos,
    probe_rtt_done: Option<Nanos>,
    probe_rtt_round_done: bool,
    quiet: QuietSpan,

    full_bw: f64,
    full_bw_count: u64,
    full_bw_reached: bool,

    cycle_index: usize,
    cycle_stamp: Nanos,

    previous_state: CaState,
    packet_conservation: bool,
    idle_restart: bool,

    aggregation: Aggregation,
    policer: Policer,
}

impl Bbr {
    fn new(settings: Settings, seed: u64) -> Self {
        Self {
            random: Pcg32::new(seed, STREAM),
            mss: 1,
            initial_window: 10,
            cwnd: 10,
            prior_cwnd: 0,
            ssthresh: None,
            acked_part: 0,
            pacing_rate: 1.0,
            has_seen_rtt: false,
            mode: Mode::Startup,
            pacing_gain: settings.startup_gain,
            cwnd_gain: settings.startup_gain,
            max_bw: WindowedFilter::max(settings.bw_window, 0, 0.0),
            round: 0,
            round_start: false,
            next_round_delivered: 0,
            min_rtt: None,
            min_rtt_stamp: 0,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            quiet: QuietSpan::default(),
            full_bw: 0.0,
            full_bw_count: 0,
            full_bw_reached: false,
            cycle_index: 0,
            cycle_stamp: 0,
            previous_state: CaState::Open,
            packet_conservation: false,
            idle_restart: false,
            aggregation: Aggregation::new(&settings),
            policer: Policer::new(&settings),
            settings,
        }
    }

    fn to_segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.mss)
    }

    /// Estimated bottleneck bandwidth, bytes per second.
    fn bw(&self) -> f64 {
        self.policer.bw().unwrap_or_else(|| self.max_bw.get())
    }

    /// gain * bandwidth * propagation time, rounded up to a segment.
    fn bdp(&self, bw: f64, gain: f64) -> u64 {
        let Some(min_rtt) = self.min_rtt else {
            return self.initial_window;
        };
        let segments = gain * bw * (min_rtt as f64 * 1e-9) / self.mss as f64;
        // Products that are whole but for rounding must not gain a segment.
        ((segments * (1.0 - 1e-9)).ceil() as u64).min(MAX_SEGMENTS)
    }

    /// Segments sent in one burst at the present pacing rate.
    fn send_quantum(&self) -> u64 {
        let least = if self.pacing_rate < LOW_PACING_RATE { 1 } else { 2 };
        let bytes = (self.pacing_rate * BURST_SHARE).min(MAX_BURST);
        ((bytes / self.mss as f64) as u64).clamp(least, MAX_BURST_SEGMENTS)
    }

    /// Room for bursts at the sender, in the network and at the receiver; an even number, since
    /// delayed ACKs come for pairs; more in the probing phase, so that 1.25 BDP is reached at small
    /// windows.
    fn with_bursts(&self, segments: u64) -> u64 {
        let even = (segments + 3 * self.send_quantum()).next_multiple_of(2);
        if self.mode == Mode::ProbeBw && self.cycle_index == 0 { even + 2 } else { even }
    }

    /// In flight for `gain` at the maximum bandwidth.
    fn inflight_target(&self, gain: f64) -> u64 {
        self.with_bursts(self.bdp(self.max_bw.get(), gain))
    }

    /// In flight when what is being sent now has left: while probing, one more burst (Linux, earliest
    /// departure time).
    fn inflight_at_departure(&self, inflight: u64) -> u64 {
        let burst = if self.pacing_gain > 1.0 { self.send_quantum() } else { 0 };
        self.to_segments(inflight) + burst
    }

    fn paced(&self, bw: f64, gain: f64) -> f64 {
        (bw * gain * (1.0 - self.settings.pacing_margin)).max(1.0)
    }

    fn init_pacing_rate(&mut self, rtt: Option<Nanos>) {
        self.has_seen_rtt |= rtt.is_some();
        let rtt = rtt.unwrap_or(NOMINAL_RTT).max(1);
        let bw = (self.cwnd * self.mss) as f64 * 1e9 / rtt as f64;
        self.pacing_rate = self.paced(bw, self.settings.startup_gain);
    }

    fn set_pacing_rate(&mut self, bw: f64, gain: f64) {
        let rate = self.paced(bw, gain);
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn start_round(&mut self, delivered: u64) {
        self.next_round_delivered = delivered;
    }

    fn update_bandwidth(&mut self, ack: &Ack) {
        self.round_start = false;
        let (true, Some(rate)) = (ack.rate.has_data, ack.rate.rate()) else {
            return;
        };
        if ack.rate.prior_delivered >= self.next_round_delivered {
            self.start_round(ack.delivered);
            self.round += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        let app_limited = self.app_limited(ack);
        self.sample_policer(Sample {
            now: ack.now,
            delivered: ack.delivered,
            lost: ack.lost_total,
            loss: ack.lost > 0,
            app_limited,
            round_start: self.round_start,
            probe_bw: self.mode == Mode::ProbeBw,
        });
        // A sample that the application limited can only show that there is more bandwidth.
        if !app_limited || rate >= self.max_bw.get() {
            self.max_bw.update(self.round, rate);
        }
    }

    fn app_limited(&self, ack: &Ack) -> bool {
        ack.rate.app_limited || self.quiet.covers(ack.rate.prior_delivered)
    }

    fn sample_policer(&mut self, sample: Sample) {
        match self.policer.sample(&sample) {
            Verdict::None => {}
            Verdict::Adopt => self.pacing_gain = 1.0,
            Verdict::Release => self.enter_probe_bw(sample.now),
        }
    }

    fn enter_probe_bw(&mut self, now: Nanos) {
        self.mode = Mode::ProbeBw;
        // Any phase but the draining one, so that flows do not probe in step.
        let phases = (CYCLE - 1) as u64;
        let skip = (u64::from(self.random.next_u32()) * phases) >> 32;
        self.cycle_index = CYCLE - 1 - skip as usize;
        self.advance_cycle(now);
    }

    fn advance_cycle(&mut self, now: Nanos) {
        self.cycle_index = (self.cycle_index + 1) % CYCLE;
        self.cycle_stamp = now;
    }

    fn update_cycle(&mut self, ack: &Ack) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let full_length =
            ack.now.saturating_sub(self.cycle_stamp) > self.min_rtt.unwrap_or(Nanos::MAX);
        let inflight = || self.inflight_at_departure(ack.inflight_before);
        let next = if self.pacing_gain == 1.0 {
            full_length
        } else if self.pacing_gain > 1.0 {
            // Until the pipe holds what is being probed for, or it overflows.
            full_length && (ack.lost > 0 || inflight() >= self.inflight_target(self.pacing_gain))
        } else {
            full_length || inflight() <= self.inflight_target(1.0)
        };
        if next {
            self.advance_cycle(ack.now);
        }
    }

    fn check_full_pipe(&mut self, ack: &Ack) {
        if self.full_bw_reached || !self.round_start || self.app_limited(ack) {
            return;
        }
        let bw = self.max_bw.get();
        if bw >= self.full_bw * self.settings.full_bw_growth {
            self.full_bw = bw;
            self.full_bw_count = 0;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_reached = self.full_bw_count >= self.settings.full_bw_rounds;
    }

    fn check_drain(&mut self, ack: &Ack) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            self.ssthresh = Some(self.inflight_target(1.0));
        }
        if self.mode == Mode::Drain
            && self.inflight_at_departure(ack.inflight) <= self.inflight_target(1.0)
        {
            self.enter_probe_bw(ack.now);
        }
    }

    fn update_min_rtt(&mut self, ack: &Ack) {
        let expired = ack.now > self.min_rtt_stamp.saturating_add(self.settings.min_rtt_window);
        if let Some(rtt) = ack.rtt
            && (self.min_rtt.is_none_or(|min| rtt < min) || (expired && !ack.maybe_delayed))
        {
            self.min_rtt = Some(rtt.max(1));
            self.min_rtt_stamp = ack.now;
        }
        if expired
            && self.settings.probe_rtt_duration > 0
            && !self.idle_restart
            && self.mode != Mode::ProbeRtt
        {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_done = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(ack);
        }
        if ack.acked > 0 {
            self.idle_restart = false;
        }
    }

    fn probe_rtt(&mut self, ack: &Ack) {
        self.quiet.extend(ack.delivered, ack.inflight);
        if self.probe_rtt_done.is_none() {
            if self.to_segments(ack.inflight) <= self.settings.min_cwnd {
                self.probe_rtt_done = Some(ack.now + self.settings.probe_rtt_duration);
                self.probe_rtt_round_done = false;
                self.start_round(ack.delivered);
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(ack.now);
        }
    }

    fn check_probe_rtt_done(&mut self, now: Nanos) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt_stamp = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.full_bw_reached {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        let settings = &self.settings;
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (settings.startup_gain, settings.startup_gain),
            Mode::Drain => (settings.drain_gain, settings.startup_gain),
            Mode::ProbeBw => {
                let pacing = match self.cycle_index {
                    _ if self.policer.bw().is_some() => 1.0,
                    0 => settings.probe_up_gain,
                    1 => settings.probe_down_gain,
                    _ => 1.0,
                };
                (pacing, settings.cwnd_gain)
            }
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }

    /// Keep the window for after recovery or ProbeRTT; the larger one if these overlap.
    fn save_cwnd(&mut self) {
        let disturbed = matches!(self.previous_state, CaState::Recovery | CaState::Loss)
            || self.mode == Mode::ProbeRtt;
        self.prior_cwnd = if disturbed { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    /// Window in and after recovery. `true`: it is settled, by packet conservation.
    fn recover_or_restore(&mut self, ack: &Ack, acked: u64) -> bool {
        if ack.lost > 0 {
            self.cwnd = self.cwnd.saturating_sub(self.to_segments(ack.lost)).max(1);
        }
        let in_recovery = |state| matches!(state, CaState::Recovery | CaState::Loss);
        if ack.state == CaState::Recovery && self.previous_state != CaState::Recovery {
            self.packet_conservation = true;
            self.start_round(ack.delivered);
            self.cwnd = self.to_segments(ack.inflight) + acked;
        } else if in_recovery(self.previous_state) && !in_recovery(ack.state) {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.previous_state = ack.state;
        if self.packet_conservation {
            self.cwnd = self.cwnd.max(self.to_segments(ack.inflight) + acked);
        }
        self.packet_conservation
    }

    fn set_cwnd(&mut self, ack: &Ack, acked: u64, bw: f64) {
        if ack.acked > 0 && !self.recover_or_restore(ack, acked) {
            let mut target = self.bdp(bw, self.cwnd_gain);
            if self.full_bw_reached {
                target += self.aggregation.extra(bw / self.mss as f64);
            }
            let target = self.with_bursts(target);
            if self.full_bw_reached {
                self.cwnd = (self.cwnd + acked).min(target);
            } else if self.cwnd < target || ack.delivered < self.initial_window * self.mss {
                self.cwnd += acked;
            }
            self.cwnd = self.cwnd.max(self.settings.min_cwnd);
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(self.settings.min_cwnd);
        }
        self.cwnd = self.cwnd.min(MAX_SEGMENTS);
    }
}

impl Controller for Bbr {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_start(&mut self, event: &Start) {
        self.mss = u64::from(event.mss.max(1));
        self.initial_window = (event.initial_window / self.mss).max(1);
        self.cwnd = self.initial_window;
        self.min_rtt = event.rtt;
        self.min_rtt_stamp = event.now;
        self.aggregation.restart(event.now);
        self.init_pacing_rate(event.rtt);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.mss = u64::from(ack.mss.max(1));
        let total = self.acked_part + ack.acked;
        let acked = total / self.mss;
        self.acked_part = total % self.mss;
        self.quiet.on_delivered(ack.delivered);

        self.update_bandwidth(ack);
        if ack.acked > 0 && ack.rate.has_data && ack.rate.interval > 0 {
            let bw = self.bw() / self.mss as f64;
            self.aggregation.update(ack.now, acked, bw, self.cwnd, self.round_start);
        }
        self.update_cycle(ack);
        self.check_full_pipe(ack);
        self.check_drain(ack);
        self.update_min_rtt(ack);
        self.update_gains();

        let bw = self.bw();
        if !self.has_seen_rtt && ack.srtt > 0 {
            self.init_pacing_rate(Some(ack.srtt));
        }
        self.set_pacing_rate(bw, self.pacing_gain);
        self.set_cwnd(ack, acked, bw);
    }

    /// Neither loss nor marks are a rate signal; recovery itself is seen in [`Ack::state`].
    fn on_congestion(&mut self, _event: &Congestion) {
        self.save_cwnd();
    }

    fn on_rto(&mut self, event: &Rto) {
        if event.first {
            self.save_cwnd();
        }
        self.cwnd = self.to_segments(event.inflight) + 1;
        self.previous_state = CaState::Loss;
        self.full_bw = 0.0;
        self.round_start = true;
        let lost = self.policer.last_lost();
        self.sample_policer(Sample {
            now: event.now,
            delivered: event.delivered,
            lost,
            loss: true,
            app_limited: false,
            round_start: true,
            probe_bw: self.mode == Mode::ProbeBw,
        });
    }

    /// The window is restored when the state returns to Open; the model starts afresh.
    fn on_undo(&mut self, _event: &Undo) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.full_bw = 0.0;
        self.full_bw_count = 0;
        self.policer.reset();
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        if !event.app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(event.now);
        match self.mode {
            // No burst above the bottleneck's rate into an empty pipe.
            Mode::ProbeBw => self.set_pacing_rate(self.bw(), 1.0),
            Mode::ProbeRtt => self.check_probe_rtt_done(event.now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn cwnd(&self) -> u64 {
        self.cwnd * self.mss
    }

    fn ssthresh(&self) -> u64 {
        self.ssthresh.map_or(SSTHRESH_INFINITE, |segments| segments * self.mss)
    }

    fn pacing_rate(&self) -> Option<f64> {
        Some(self.pacing_rate)
    }

    fn recovery_style(&self) -> RecoveryStyle {
        RecoveryStyle::Own
    }

    fn phase(&self) -> &'static str {
        match self.mode {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::ProbeBw => "probe_bw",
            Mode::ProbeRtt => "probe_rtt",
        }
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        out("bw_bps", self.bw() * 8.0);
        out("min_rtt_ms", self.min_rtt.map_or(f64::NAN, |rtt| rtt as f64 * 1e-6));
        out("pacing_gain", self.pacing_gain);
        out("cwnd_gain", self.cwnd_gain);
        out("extra_acked", self.aggregation.max() as f64);
    }
}

#[cfg(test)]
mod tests;
