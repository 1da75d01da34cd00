//! Westwood+ (Grieco and Mascolo, 2004): Reno, but after loss the window becomes what the path was
//! measured to carry instead of half.
//!
//! Bandwidth is sampled as bytes acknowledged over at least a round trip (and 50 ms) and smoothed.
//!
//! | | `linux = true` | `linux = false` |
//! | --- | --- | --- |
//! | in recovery | Reno's half; the estimate takes over when recovery ends | the estimate at once |
//! | smoothing | twice in series | once |
//! | arithmetic | bytes a millisecond, round-trip times rounded up to milliseconds | real numbers |

use crate::Controller;
use crate::event::{Ack, CaState, Nanos, Start};
use crate::loss_based::{self, Cause, Cut, Law, LossBased};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::window::Window;

pub(crate) const NAME: &str = "westwood";

const MILLISECOND: u64 = 1_000_000;
const LEAST_WINDOW: u64 = 2;

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::new(
            "filter_gain",
            "fraction",
            0.125,
            (0.001, 1.0),
            "weight of a new bandwidth sample (Westwood+ and Linux: 1/8)",
        ),
        ParamInfo::new(
            "least_interval",
            "time",
            50 * MILLISECOND,
            (0.0, 1e10),
            "a bandwidth sample spans at least this long and a round trip (Westwood+ and Linux: 50 ms)",
        ),
        ParamInfo::flag("linux", true, "as Linux computes it; false: as the paper says"),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "Reno that cuts to the measured bandwidth times the least round-trip time",
        source: "Grieco and Mascolo, ACM CCR 34(2), 2004 (Westwood+); Linux",
        signals: &["loss", "ecn", "rtt", "delivery-rate"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = Westwood {
        gain: params.number("filter_gain"),
        least_interval: params.time("least_interval"),
        linux: params.flag("linux"),
        estimate: None,
        acked: 0,
        since: 0,
        una: None,
        credited: 0,
        rtt: 0,
        rtt_min: 0,
        renew_minimum: true,
        phase: Phase::Open,
        before_cut: 0,
        mss: 1,
    };
    Box::new(LossBased::new(law, params))
}

/// Bandwidth in bytes per millisecond: smoothed once and twice.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    once: f64,
    twice: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Fast recovery or the answer to a mark.
    Reducing,
    /// It has just ended; the window is set with the ACK that ended it.
    Completing,
}

#[derive(Clone, Debug)]
struct Westwood {
    gain: f64,
    least_interval: Nanos,
    linux: bool,
    estimate: Option<Estimate>,
    /// Bytes acknowledged in the present sample, and when it began.
    acked: u64,
    since: Nanos,
    /// First unacknowledged byte at the last ACK.
    una: Option<u64>,
    /// Bytes counted for duplicate ACKs, which a cumulative ACK must not count again.
    credited: u64,
    /// Last and least RTT, 0 before the first sample.
    rtt: Nanos,
    rtt_min: Nanos,
    /// The next sample is the least (start, timeout).
    renew_minimum: bool,
    phase: Phase,
    before_cut: u64,
    mss: u64,
}

impl Westwood {
    /// Linux counts milliseconds and rounds round-trip times up.
    fn resolution(&self, time: Nanos) -> Nanos {
        if self.linux { time.div_ceil(MILLISECOND) * MILLISECOND } else { time }
    }

    fn smooth(&self, old: f64, new: f64) -> f64 {
        let value = old + (new - old) * self.gain;
        if self.linux { value.floor() } else { value }
    }

    /// Close the sample if it spans long enough.
    fn sample(&mut self, now: Nanos) {
        let now = if self.linux { now / MILLISECOND * MILLISECOND } else { now };
        let elapsed = now.saturating_sub(self.since);
        if self.rtt == 0 || elapsed <= self.rtt.max(self.least_interval) {
            return;
        }
        let sample = self.acked as f64 * MILLISECOND as f64 / elapsed as f64;
        let sample = if self.linux { sample.floor() } else { sample };
        self.estimate = Some(match self.estimate {
            Some(old) if old.once > 0.0 || old.twice > 0.0 => {
                let once = self.smooth(old.once, sample);
                let twice = if self.linux { self.smooth(old.twice, once) } else { once };
                Estimate { once, twice }
            }
            // A filter that starts from nothing would take many round trips to get there.
            _ => Estimate { once: sample, twice: sample },
        });
        self.acked = 0;
        self.since = now;
    }

    /// Bytes that this ACK says have arrived: a segment for a duplicate, and no byte twice.
    fn count(&mut self, ack: &Ack) -> u64 {
        let cumulative = ack.snd_una - self.una.unwrap_or(ack.snd_una).min(ack.snd_una);
        self.una = Some(ack.snd_una);
        let mss = u64::from(ack.mss);
        // Linux's fast path. The ACK that ends a recovery is not on it: the window that it announces has
        // changed (traces: else the estimate is 3 % too high and goodput at 0.5 % loss 14 %).
        if ack.state == CaState::Open && ack.advances && !ack.ece && self.credited == 0 {
            return cumulative;
        }
        if cumulative == 0 {
            self.credited += mss;
            return mss;
        }
        if cumulative <= mss {
            return cumulative;
        }
        if self.credited >= cumulative {
            self.credited -= cumulative;
            mss
        } else {
            cumulative - std::mem::take(&mut self.credited)
        }
    }

    /// Bandwidth times least RTT, segments.
    fn carried(&self) -> u64 {
        let bandwidth = self.estimate.map_or(0.0, |e| e.twice);
        let bytes = bandwidth * self.rtt_min as f64 / MILLISECOND as f64;
        ((bytes / self.mss as f64) as u64).max(LEAST_WINDOW)
    }
}

impl Law for Westwood {
    const NAME: &'static str = NAME;

    fn start(&mut self, event: &Start, _window: &mut Window) {
        self.since = event.now;
    }

    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        self.mss = u64::from(ack.mss.max(1));
        if let Some(rtt) = ack.rtt {
            self.rtt = self.resolution(rtt).max(1);
        }
        self.sample(ack.now);
        self.acked += self.count(ack);
        if self.renew_minimum {
            self.rtt_min = self.rtt;
            self.renew_minimum = self.rtt == 0;
        } else {
            self.rtt_min = self.rtt_min.min(self.rtt);
        }
        if self.phase == Phase::Completing {
            self.phase = Phase::Open;
            window.cut(self.carried());
        }
    }

    #[inline]
    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        window.avoid(window.segments(), acked);
    }

    fn cut(&mut self, cut: &Cut, window: &Window) -> u64 {
        if cut.cause == Cause::Timeout {
            self.phase = Phase::Open;
            return self.carried();
        }
        self.before_cut = window.segments();
        if !self.linux {
            return self.carried();
        }
        let base = if self.phase == Phase::Completing { self.carried() } else { cut.base };
        self.phase = Phase::Reducing;
        base / 2
    }

    fn window_after_cut(&self, ssthresh: u64) -> u64 {
        ssthresh.min(self.before_cut)
    }

    fn on_timeout(&mut self) {
        self.phase = Phase::Open;
        self.renew_minimum = true;
    }

    fn on_recovery_exit(&mut self, _now: Nanos, _window: &mut Window) {
        if self.phase == Phase::Reducing {
            self.phase = Phase::Completing;
        }
    }

    /// Bandwidth in bit/s, least RTT in milliseconds.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        out("bandwidth", self.estimate.map_or(0.0, |e| e.twice) * 8e3);
        out("rtt_min", self.rtt_min as f64 / 1e6);
    }
}
