//! New Vegas (Brakmo, 2010; Linux): Vegas for networks that batch packets and ACKs.
//!
//! The window that the present rate would need at the least RTT, plus a pad of 10 segments, is the
//! ceiling. Decisions need many ACKs, so that aggregation does not look like a queue. Beyond the
//! ceiling the window loses 30 % of the excess; 2 segments below it, it grows as Reno's.
//!
//! The rate is the most of data delivered during an RTT over the smoothed RTT; the least RTT is renewed
//! every 5 s, give or take a quarter at random. NV exists only in Linux, so this is what Linux does.

use rand_core::RngCore;
use rand_pcg::Pcg32;

use crate::Controller;
use crate::event::{Ack, CaState, Nanos, Start};
use crate::loss_based::{self, Cause, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::round_trip::microseconds;
use crate::slow_start::SlowStart;
use crate::window::Window;

pub(crate) const NAME: &str = "nv";

/// Of the random numbers.
const STREAM: u64 = 0x6e76;
const SECOND: Nanos = 1_000_000_000;
/// Until the least RTT is renewed for the first time.
const FIRST_PERIOD: Nanos = 2 * SECOND;
const LEAST_WINDOW: u64 = 4;
/// Windows that one burst of segmentation offload covers: within, one ACK a round trip is no sign.
const OFFLOAD_WINDOW: u64 = 81;
/// Such a window is taken to grow by this.
const OFFLOAD_STEP: u64 = 2;
/// Rates are in units of 100 bit/s: bytes per microsecond times this.
const RATE_SCALE: u64 = 80_000;
const NO_RTT: u64 = u32::MAX as u64;
const MOST_CALLS: u64 = 255;
/// The window grows no slower than once in 2^8 round trips, and no faster than once in 4 segments.
const SLOWEST: i32 = -8;
const FASTEST_COUNT: u64 = 4;
const FASTEST: i32 = 31;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "pad",
            "segments",
            10,
            (0.0, 1e6),
            "segments above what the rate needs before there is congestion (Linux 10)",
        ),
        ParamInfo::new(
            "pad_buffer",
            "segments",
            2,
            (0.0, 1e6),
            "segments below that ceiling where the window rests (Linux 2)",
        ),
        ParamInfo::new(
            "reset_period",
            "time",
            5 * SECOND,
            (1e6, 1e12),
            "the least RTT is renewed this often, within a quarter (Linux 5 s)",
        ),
        ParamInfo::new(
            "cong_dec_mult",
            "fraction",
            38.0 / 128.0,
            (0.0, 1.0),
            "part of the excess that is cut (Linux 38/128, 30 %)",
        ),
        ParamInfo::new(
            "ssthresh_factor",
            "number",
            1.0,
            (0.01, 100.0),
            "ssthresh over the ceiling at a decrease (Linux 8/8)",
        ),
        ParamInfo::new(
            "rtt_factor",
            "fraction",
            0.5,
            (0.0, 1.0),
            "weight of a new RTT sample (Linux 128/256); 0: no smoothing",
        ),
        ParamInfo::new(
            "loss_dec_factor",
            "fraction",
            819.0 / 1024.0,
            (0.01, 0.99),
            "factor for a loss (Linux 819/1024)",
        ),
        ParamInfo::new(
            "growth_rate_neg",
            "count",
            8,
            (0.0, 1e6),
            "decisions without congestion before growth slowed by timeouts recovers one step (Linux 8)",
        ),
        ParamInfo::new(
            "growth_rate_pos",
            "count",
            0,
            (0.0, 1e6),
            "the same before growth doubles beyond Reno's; 0: it does not (Linux 0)",
        ),
        ParamInfo::new(
            "dec_eval_min_calls",
            "count",
            100,
            (0.0, 255.0),
            "ACKs needed for a decrease (Linux 100)",
        ),
        ParamInfo::new(
            "inc_eval_min_calls",
            "count",
            20,
            (0.0, 255.0),
            "ACKs needed for an increase (Linux 20)",
        ),
        ParamInfo::new(
            "ssthresh_eval_min_calls",
            "count",
            30,
            (0.0, 255.0),
            "ACKs needed to end the first slow start (Linux 30)",
        ),
        ParamInfo::new(
            "stop_rtt_cnt",
            "count",
            10,
            (0.0, 255.0),
            "round trips of congestion after which growth stops for want of ACKs (Linux 10)",
        ),
        ParamInfo::new(
            "rtt_min_cnt",
            "count",
            2,
            (0.0, 255.0),
            "round trips needed for a decrease (Linux 2)",
        ),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "Vegas with decisions over many ACKs and a pad of ten segments",
        source: "Brakmo, TCP-NV, Linux Plumbers 2010; Linux",
        signals: &["loss", "ecn", "rtt", "delivery-rate"],
        params,
    }
}

pub(crate) fn build(params: &Params, seed: u64) -> Box<dyn Controller> {
    let settings = Settings {
        pad: params.count("pad"),
        pad_buffer: params.count("pad_buffer"),
        reset_period: params.time("reset_period"),
        cong_dec_mult: params.number("cong_dec_mult"),
        ssthresh_factor: params.number("ssthresh_factor"),
        rtt_factor: params.number("rtt_factor"),
        loss_dec_factor: params.number("loss_dec_factor"),
        growth_rate: (params.count("growth_rate_neg"), params.count("growth_rate_pos")),
        dec_calls: params.count("dec_eval_min_calls"),
        inc_calls: params.count("inc_eval_min_calls"),
        ssthresh_calls: params.count("ssthresh_eval_min_calls"),
        stop_rounds: params.count("stop_rtt_cnt"),
        least_rounds: params.count("rtt_min_cnt"),
    };
    Box::new(LossBased::new(Nv::new(settings, seed), params))
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    pad: u64,
    pad_buffer: u64,
    reset_period: Nanos,
    cong_dec_mult: f64,
    ssthresh_factor: f64,
    rtt_factor: f64,
    loss_dec_factor: f64,
    growth_rate: (u64, u64),
    dec_calls: u64,
    inc_calls: u64,
    ssthresh_calls: u64,
    stop_rounds: u64,
    least_rounds: u64,
}

#[derive(Clone, Debug)]
struct Nv {
    settings: Settings,
    random: Pcg32,
    state: CaState,
    /// Measuring starts again when the sender is `Open`.
    reset: bool,
    may_grow: bool,
    /// Smoothed RTT, microseconds, 0 before the first sample.
    rtt: u64,
    /// Least smoothed RTT now, and since the last renewal.
    least: u64,
    least_next: u64,
    renew_at: Nanos,
    /// Largest rate since the last decision, 100 bit/s.
    rate: u64,
    /// ACKs and round trips since the last decision.
    calls: u64,
    rounds: u64,
    /// The round ends when data beyond this byte is acknowledged.
    round_end: u64,
    una: u64,
    /// Windows below this are kept; it grows where offloading leaves one ACK a round trip.
    least_window: u64,
    /// Growth is Reno's times 2 to this power.
    growth: i32,
    /// Decisions without congestion in a row.
    calm: u64,
    ceiling: u64,
}

impl Nv {
    fn new(settings: Settings, seed: u64) -> Self {
        Self {
            settings,
            random: Pcg32::new(seed, STREAM),
            state: CaState::Open,
            reset: false,
            may_grow: true,
            rtt: 0,
            least: NO_RTT,
            least_next: NO_RTT,
            renew_at: FIRST_PERIOD,
            rate: 0,
            calls: 0,
            rounds: 0,
            round_end: 0,
            una: 0,
            least_window: LEAST_WINDOW,
            growth: 0,
            calm: 0,
            ceiling: 0,
        }
    }

    fn measure_anew(&mut self) {
        self.reset = false;
        self.calm = 0;
        self.rounds = 0;
        self.rtt = 0;
        self.rate = 0;
        self.calls = 0;
        self.round_end = self.una;
    }

    fn set_state(&mut self, state: CaState) {
        self.state = state;
        match state {
            CaState::Open if self.reset => self.measure_anew(),
            CaState::Open | CaState::Disorder => {}
            CaState::Cwr | CaState::Recovery | CaState::Loss => {
                self.reset = true;
                self.may_grow = false;
            }
        }
    }

    /// Take the RTT and rate of an ACK.
    fn measure(&mut self, now: Nanos, rtt: u64, in_flight: u64) {
        let weight = self.settings.rtt_factor;
        let rtt = if weight == 0.0 {
            rtt
        } else if self.rtt > 0 {
            (rtt as f64 * weight + self.rtt as f64 * (1.0 - weight)) as u64
        } else {
            self.least = 2 * rtt;
            rtt
        };
        self.rtt = rtt;
        self.rate = self.rate.max(in_flight.saturating_mul(RATE_SCALE) / rtt.max(1));
        self.calls = (self.calls + 1).min(MOST_CALLS);
        self.least = self.least.min(rtt);
        self.least_next = self.least_next.min(rtt);
        if now >= self.renew_at {
            self.least = self.least_next;
            self.least_next = NO_RTT;
            // 384 to 639 of 512ths of the period.
            let part = 384 + u64::from(self.random.next_u32() >> 24);
            self.renew_at = now.saturating_add(self.settings.reset_period / 512 * part);
            self.least_window = (self.least_window / 2).max(LEAST_WINDOW);
        }
    }

    /// Once a round trip: compare the window with its ceiling.
    fn decide(&mut self, window: &mut Window) {
        let s = self.settings;
        let cwnd = window.segments();
        let needed = self.rate as f64 * self.least as f64 / (RATE_SCALE * window.mss()) as f64;
        self.ceiling = (needed as u64).saturating_add(s.pad);
        if cwnd > self.ceiling {
            if self.rounds < s.least_rounds {
                return;
            }
            if window.ssthresh() == u64::MAX {
                if self.calls < s.ssthresh_calls {
                    return;
                }
            } else if self.calls < s.dec_calls {
                if self.may_grow && self.rounds > s.stop_rounds {
                    self.may_grow = false;
                }
                return;
            }
            self.decrease(window);
        } else if cwnd + s.pad_buffer <= self.ceiling {
            if self.calls < s.inc_calls {
                return;
            }
            self.may_grow = true;
            self.speed_up();
        } else {
            return;
        }
        self.calls = 0;
        self.rounds = 0;
        self.rate = 0;
        window.set(window.segments().max(self.least_window));
    }

    fn decrease(&mut self, window: &mut Window) {
        let s = self.settings;
        let excess = window.segments() - self.ceiling;
        self.may_grow = false;
        window.set_ssthresh((self.ceiling as f64 * s.ssthresh_factor) as u64);
        if excess > 2 {
            let dropped = ((excess as f64 * s.cong_dec_mult) as u64).max(2);
            window.set(window.segments() - dropped);
        } else if s.cong_dec_mult > 0.0 {
            window.set(self.ceiling);
        }
        self.growth = self.growth.min(0);
        self.calm = 0;
    }

    fn speed_up(&mut self) {
        let (slow, fast) = self.settings.growth_rate;
        let needed = if self.growth < 0 { slow } else { fast };
        self.calm += 1;
        if needed > 0 && self.calm > needed && self.growth < FASTEST {
            self.growth += 1;
            self.calm = 0;
        }
    }

    fn on_sample(&mut self, ack: &Ack, rtt: Nanos, window: &mut Window) {
        let acked = ack.snd_una.saturating_sub(self.una);
        self.una = ack.snd_una;
        // Linux counts what this ACK delivers only after it has told the controller.
        let before = ack.delivered.saturating_sub(ack.acked);
        let in_flight = before.saturating_sub(ack.rate.prior_delivered);
        if in_flight == 0 || !ack.rate.has_data {
            return;
        }
        self.measure(ack.now, microseconds(rtt), in_flight);
        if self.round_end >= ack.snd_una {
            return;
        }
        self.round_end = ack.snd_nxt;
        self.rounds = (self.rounds + 1).min(MOST_CALLS);
        let mss = window.mss();
        if self.calls == 1
            && acked >= (self.least_window - 1) * mss
            && self.least_window < OFFLOAD_WINDOW
        {
            self.least_window = (self.least_window + OFFLOAD_STEP).min(OFFLOAD_WINDOW);
            self.round_end += self.least_window * mss;
            self.calls = 0;
            self.may_grow = true;
            return;
        }
        self.decide(window);
    }
}

impl Law for Nv {
    const NAME: &'static str = NAME;

    fn start(&mut self, event: &Start, _window: &mut Window) {
        self.renew_at = event.now + FIRST_PERIOD;
    }

    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        if let Some(rtt) = ack.rtt
            && matches!(self.state, CaState::Open | CaState::Disorder)
        {
            self.on_sample(ack, rtt, window);
        }
        if ack.state != self.state {
            if ack.state == CaState::Open {
                // What recovery delivered is not the work of one ACK.
                self.una = ack.snd_una;
            }
            self.set_state(ack.state);
        }
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        if self.may_grow {
            loss_based::grow(self, ack, window, slow_start);
        }
    }

    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        let cwnd = window.segments();
        let count = if self.growth < 0 {
            cwnd << self.growth.unsigned_abs()
        } else {
            (cwnd >> self.growth.unsigned_abs()).max(FASTEST_COUNT)
        };
        window.avoid(count, acked);
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        self.set_state(match cut.cause {
            Cause::Loss => CaState::Recovery,
            Cause::Ecn => CaState::Cwr,
            Cause::Timeout => CaState::Loss,
        });
        (cut.base as f64 * self.settings.loss_dec_factor) as u64
    }

    fn on_timeout(&mut self) {
        self.set_state(CaState::Loss);
        self.growth = self.growth.min(0);
        if self.settings.growth_rate.0 > 0 && self.growth > SLOWEST {
            self.growth -= 1;
        }
    }

    fn phase(&self) -> &'static str {
        if self.may_grow { "avoidance" } else { "hold" }
    }

    /// Ceiling in segments, least RTT in milliseconds, power of two of the growth.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("ceiling", self.ceiling as f64);
        out("rtt_min", if self.least == NO_RTT { 0.0 } else { self.least as f64 / 1e3 });
        out("growth", f64::from(self.growth));
    }
}
