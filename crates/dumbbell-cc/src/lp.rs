//! TCP-LP (Kuzmanovic and Knightly, 2003): takes only what others leave, by the one-way delay.
//!
//! Early congestion is a smoothed delay above its minimum by 15 % of its range. The first sign halves
//! the window and starts an inference phase of three round trips without growth; a sign within that
//! phase leaves one segment. A sign counts once a round trip, since the answer to it
//! takes that long, and smoothing begins anew with what was sent after it.
//!
//! In Linux (`linux = true`, the default as for all controllers that Linux has) the delay comes from
//! TCP timestamps, whose origin each end draws at random since Linux 4.10. The difference then passes
//! the arithmetic of seven connections in eight, no sign is ever seen, and the controller is Reno: so
//! our kernel reference traces show it. `linux = false` is the algorithm as published, with the
//! round-trip time for the one-way delay: a queue on the way back counts too.

use crate::Controller;
use crate::event::{Ack, Nanos};
use crate::loss_based::{self, Cut, Law, LossBased, in_reduction};
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;
use crate::slow_start::SlowStart;
use crate::window::Window;

pub(crate) const NAME: &str = "lp";

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![
        ParamInfo::flag(
            "linux",
            true,
            "as Linux runs today, where random timestamps make it Reno; false: as published",
        ),
        ParamInfo::new(
            "delta",
            "fraction",
            0.15,
            (0.0, 1.0),
            "part of the range of delays beyond which there is early congestion (paper, Linux: 0.15)",
        ),
        ParamInfo::new(
            "gamma",
            "fraction",
            0.125,
            (0.001, 1.0),
            "weight of a new delay sample (paper, Linux: 1/8)",
        ),
        ParamInfo::new(
            "inference",
            "number",
            3.0,
            (0.0, 1000.0),
            "round trips without growth after a sign of congestion (paper, Linux: 3)",
        ),
    ];
    params.extend(loss_based::abe_params(0.8));
    params.extend(loss_based::params("classic"));
    ControllerInfo {
        name: NAME,
        summary: "low priority by early signs of delay (linux = false); as Linux runs it today, Reno",
        source: "Kuzmanovic and Knightly, INFOCOM 2003; Linux",
        signals: &["loss", "ecn", "rtt"],
        params,
    }
}

pub(crate) fn build(params: &Params, _seed: u64) -> Box<dyn Controller> {
    let law = Lp {
        linux: params.flag("linux"),
        delta: params.number("delta"),
        gamma: params.number("gamma"),
        inference: params.number("inference"),
        delay: None,
        quiet_until: 0,
        awaits_answer: false,
        answer_beyond: 0,
        early: 0,
    };
    Box::new(LossBased::new(law, params))
}

/// Delays in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Delay {
    smoothed: f64,
    least: f64,
    most: f64,
}

#[derive(Clone, Debug)]
struct Lp {
    linux: bool,
    delta: f64,
    gamma: f64,
    inference: f64,
    delay: Option<Delay>,
    /// End of the inference phase.
    quiet_until: Nanos,
    /// Only ACKs beyond this byte, of data sent since the last sign, tell what the answer to it did.
    awaits_answer: bool,
    answer_beyond: u64,
    /// Signs of early congestion so far.
    early: u64,
}

impl Lp {
    /// Take a sample; whether it tells of early congestion.
    fn sample(&mut self, rtt: Nanos) -> bool {
        let rtt = rtt as f64;
        let delay = self.delay.get_or_insert(Delay { smoothed: rtt, least: rtt, most: rtt });
        delay.smoothed += (rtt - delay.smoothed) * self.gamma;
        delay.least = delay.least.min(rtt);
        delay.most = delay.most.max(rtt);
        delay.smoothed > delay.least + self.delta * (delay.most - delay.least)
    }
}

impl Law for Lp {
    const NAME: &'static str = NAME;

    #[inline]
    fn observe(&mut self, ack: &Ack, window: &mut Window) {
        if self.linux {
            return;
        }
        let Some(rtt) = ack.rtt else { return };
        if self.awaits_answer && ack.snd_una > self.answer_beyond {
            self.awaits_answer = false;
            if let Some(delay) = &mut self.delay {
                delay.smoothed = rtt as f64;
            }
        }
        if !self.sample(rtt) || in_reduction(ack.state) || self.awaits_answer {
            return;
        }
        self.early += 1;
        if ack.now < self.quiet_until {
            window.set(1);
        } else {
            // As after a loss, so that what follows is avoidance and not another slow start.
            window.reduce(window.segments() / 2);
        }
        self.awaits_answer = true;
        self.answer_beyond = ack.snd_nxt;
        self.quiet_until = ack.now.saturating_add((self.inference * rtt as f64) as Nanos);
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        if ack.now >= self.quiet_until {
            crate::reno::grow(ack, window, slow_start);
        }
    }

    fn avoid(&mut self, _ack: &Ack, acked: u64, window: &mut Window) {
        window.avoid(window.segments(), acked);
    }

    fn cut(&mut self, cut: &Cut, _window: &Window) -> u64 {
        cut.base / 2
    }

    /// Least, largest and smoothed delay in milliseconds; signs of early congestion.
    fn record(&self, _window: &Window, out: &mut dyn FnMut(&'static str, f64)) {
        let delay = self.delay.unwrap_or(Delay { smoothed: 0.0, least: 0.0, most: 0.0 });
        out("delay_min", delay.least / 1e6);
        out("delay_max", delay.most / 1e6);
        out("delay", delay.smoothed / 1e6);
        out("early", self.early as f64);
    }
}
