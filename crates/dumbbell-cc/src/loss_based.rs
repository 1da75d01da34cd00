//! The frame of window-based controllers that grow on ACKs and cut on congestion events.
//!
//! Slow start, pacing, undo, idle restart and ABE are the same for all of them; what makes one differ
//! from another is its [`Law`]: how it grows in congestion avoidance and how far it cuts.

use crate::Controller;
use crate::event::{
    Ack, CaState, Congestion, CongestionKind, EcnMode, IdleRestart, Nanos, Rto, Start, Undo,
};
use crate::params::{ParamInfo, Params};
use crate::slow_start::careful_resume::{self, CarefulResume};
use crate::slow_start::{self, SlowStart, View};
use crate::window::Window;
use crate::window_pacing::WindowPacing;

/// What a law cuts from, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) now: Nanos,
    pub(crate) cause: Cause,
    /// Segments that a factor multiplies: cwnd or the data in flight, as `basis` says. After a timeout
    /// always cwnd: by then what was in flight is marked lost.
    pub(crate) base: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Loss,
    Ecn,
    Timeout,
}

impl Cause {
    fn of(kind: CongestionKind) -> Self {
        match kind {
            CongestionKind::Loss => Self::Loss,
            CongestionKind::Ecn => Self::Ecn,
        }
    }

    /// State of the sender from here on.
    pub(crate) fn state(self) -> CaState {
        match self {
            Self::Loss => CaState::Recovery,
            Self::Ecn => CaState::Cwr,
            Self::Timeout => CaState::Loss,
        }
    }
}

/// Where the pacing rate comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// The frame's parameters: off unless asked for.
    Frame,
    /// Bytes per second.
    Rate(f64),
}

/// How a controller grows and cuts. Cloned before each cut, so that a spurious one can be undone.
pub(crate) trait Law: Clone + Send {
    const NAME: &'static str;
    /// See [`Controller::ecn_mode`].
    const ECN: EcnMode = EcnMode::Classic;

    /// See [`Controller::responds_to_marks`].
    fn responds_to_marks(&self) -> bool {
        false
    }

    /// The connection starts; the window is at its initial value.
    fn start(&mut self, _event: &Start, _window: &mut Window) {}

    /// Every ACK, in any state, before anything grows.
    #[inline]
    fn observe(&mut self, _ack: &Ack, _window: &mut Window) {}

    /// Least RTT for the slow-start plug-in; `None` keeps this ACK from it.
    #[inline]
    fn slow_start_delay(&self, ack: &Ack) -> Option<Nanos> {
        Some(ack.min_rtt)
    }

    /// The ACK advances and no reduction is under way: grow. As a rule the window grows only if it
    /// limited what was sent; slow start first, what it leaves counts in avoidance.
    #[inline]
    fn grow(&mut self, ack: &Ack, window: &mut Window, slow_start: &mut dyn SlowStart) {
        grow(self, ack, window, slow_start);
    }

    /// Whether what slow start leaves of an ACK counts in avoidance.
    fn spills_over(&self) -> bool {
        true
    }

    /// Congestion avoidance: `acked` bytes count.
    fn avoid(&mut self, ack: &Ack, acked: u64, window: &mut Window);

    /// The window after a congestion event, in segments; also `ssthresh` after a timeout. Not called
    /// for a timeout that repeats another.
    fn cut(&mut self, cut: &Cut, window: &Window) -> u64;

    /// Window after a loss or mark if not `ssthresh`, which [`cut`](Self::cut) returned.
    fn window_after_cut(&self, ssthresh: u64) -> u64 {
        ssthresh
    }

    /// A timeout, after [`cut`](Self::cut).
    fn on_timeout(&mut self) {}

    /// The window cut by a timeout or congestion event is restored; `self` is as before the event.
    fn on_undo(&mut self, _now: Nanos) {}

    fn on_recovery_exit(&mut self, _now: Nanos, _window: &mut Window) {}

    /// Sending starts again with nothing in flight after `idle`.
    fn on_idle(&mut self, _now: Nanos, _idle: Nanos) {}

    /// Pacing of its own; by default that of the frame's parameters.
    fn pace(&self, _window: &Window) -> Pace {
        Pace::Frame
    }

    /// Name of the phase in avoidance.
    fn phase(&self) -> &'static str {
        "avoidance"
    }

    /// Name of the phase below `ssthresh`, if not the slow-start plug-in's.
    fn phase_in_slow_start(&self) -> Option<&'static str> {
        None
    }

    fn record(&self, _window: &Window, _out: &mut dyn FnMut(&'static str, f64)) {}
}

/// Slow start, if the window limited what was sent. Returns the bytes that count in avoidance.
#[inline]
pub(crate) fn after_slow_start(
    ack: &Ack,
    window: &mut Window,
    slow_start: &mut dyn SlowStart,
) -> u64 {
    if !ack.cwnd_limited {
        0
    } else if window.in_slow_start() {
        window.slow_start(slow_start.growth(ack.acked, window.mss()))
    } else {
        ack.acked
    }
}

/// What [`Law::grow`] does as a rule, for laws that do more.
#[inline]
pub(crate) fn grow<L: Law>(
    law: &mut L,
    ack: &Ack,
    window: &mut Window,
    slow_start: &mut dyn SlowStart,
) {
    let counts = law.spills_over() || !window.in_slow_start();
    let acked = after_slow_start(ack, window, slow_start);
    if acked > 0 && counts {
        law.avoid(ack, acked, window);
    }
}

/// The window is being reduced by the transport and must not grow.
pub(crate) fn in_reduction(state: CaState) -> bool {
    matches!(state, CaState::Cwr | CaState::Recovery)
}

/// Parameters of the frame, after those of the law. `slow_start` is the default plug-in.
pub(crate) fn params(slow_start: &'static str) -> Vec<ParamInfo> {
    let mut params = vec![
        ParamInfo::choice(
            "basis",
            &["cwnd", "inflight"],
            "cwnd",
            "what a congestion event multiplies: cwnd (Linux) or the data in flight (RFC 5681, RFC 9438)",
        ),
        ParamInfo::new(
            "initial_ssthresh",
            "segments",
            0,
            (0.0, 1e9),
            "slow-start threshold before the first congestion event; 0: none (NIST study: 100, 2^31/2)",
        ),
    ];
    params.extend(slow_start::params(slow_start));
    params.extend(careful_resume::params());
    params.extend(WindowPacing::params());
    params
}

/// Parameters of ABE, for laws that answer a mark as RFC 3168 asks; `beta_ecn` is what RFC 8511 gives.
pub(crate) fn abe_params(beta_ecn: f64) -> [ParamInfo; 2] {
    [
        ParamInfo::flag(
            "abe",
            false,
            "smaller cut for ECN marks than for loss in avoidance (RFC 8511)",
        ),
        ParamInfo::new(
            "beta_ecn",
            "fraction",
            beta_ecn,
            (0.01, 0.99),
            "factor by which a mark multiplies the window with abe (RFC 8511: 0.8, CUBIC 0.85)",
        ),
    ]
}

pub(crate) struct LossBased<L> {
    pub(crate) law: L,
    from_inflight: bool,
    /// Factor for marks in avoidance, with ABE.
    beta_ecn: Option<f64>,
    /// 0: none.
    initial_ssthresh: u64,
    pub(crate) window: Window,
    slow_start: Box<dyn SlowStart>,
    resume: Option<CarefulResume>,
    pacing: WindowPacing,
    state: CaState,
    /// Window and law before the last cut.
    saved: Option<(Window, L)>,
}

impl<L: Law> LossBased<L> {
    pub(crate) fn new(law: L, params: &Params) -> Self {
        Self {
            law,
            from_inflight: params.choice("basis") == "inflight",
            beta_ecn: (params.has("abe") && params.flag("abe")).then(|| params.number("beta_ecn")),
            initial_ssthresh: params.count("initial_ssthresh"),
            window: Window::new(),
            slow_start: slow_start::build(params),
            resume: CarefulResume::new(params),
            pacing: WindowPacing::new(params),
            state: CaState::Open,
            saved: None,
        }
    }

    #[inline]
    fn grow(&mut self, ack: &Ack) {
        if self.window.in_slow_start()
            && let Some(delay_min) = self.law.slow_start_delay(ack)
        {
            let view =
                View { cwnd: self.window.segments(), delay_min, paced: self.pacing.enabled() };
            if self.slow_start.on_ack(ack, &view) {
                let excess = self.slow_start.excess() / self.window.mss();
                if excess > 0 {
                    self.window.set(self.window.segments().saturating_sub(excess).max(2));
                }
                self.window.exit_slow_start();
            }
        }
        if ack.advances {
            self.law.grow(ack, &mut self.window, self.slow_start.as_mut());
        }
    }

    /// What a congestion event multiplies, segments.
    fn base(&self, inflight: u64) -> u64 {
        if self.from_inflight { self.window.to_segments(inflight) } else { self.window.segments() }
    }

    fn save(&mut self) {
        self.saved = Some((self.window.clone(), self.law.clone()));
    }
}

impl<L: Law> Controller for LossBased<L> {
    fn name(&self) -> &'static str {
        L::NAME
    }

    fn on_start(&mut self, event: &Start) {
        self.window.start(event);
        if self.initial_ssthresh > 0 {
            self.window.set_ssthresh(self.initial_ssthresh);
        }
        if let Some(resume) = &mut self.resume {
            resume.start(event.initial_window);
        }
        self.pacing.set_srtt(event.rtt.unwrap_or(0));
        self.law.start(event, &mut self.window);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.window.set_mss(ack.mss);
        self.pacing.set_srtt(ack.srtt);
        self.state = ack.state;
        self.law.observe(ack, &mut self.window);
        if !in_reduction(ack.state) && !self.resume.as_ref().is_some_and(CarefulResume::holds) {
            self.grow(ack);
        }
        if let Some(resume) = &mut self.resume {
            resume.on_ack(ack, &mut self.window);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let cause = Cause::of(event.kind);
        self.state = cause.state();
        self.save();
        let base = self.base(event.inflight);
        let avoiding = !self.window.in_slow_start();
        let cut = Cut { now: event.now, cause, base };
        let mut reduced = self.law.cut(&cut, &self.window);
        if let Some(beta) = self.beta_ecn
            && cause == Cause::Ecn
            && avoiding
        {
            reduced = (base as f64 * beta) as u64;
        }
        if let Some(resume) = &mut self.resume {
            reduced = resume.on_congestion(&self.window).unwrap_or(reduced);
        }
        self.window.cut(reduced);
        let after = self.law.window_after_cut(self.window.ssthresh());
        self.window.set(after);
        self.slow_start.on_congestion();
    }

    fn on_rto(&mut self, event: &Rto) {
        self.state = CaState::Loss;
        let ssthresh = event.first.then(|| {
            self.save();
            let cut = Cut { now: event.now, cause: Cause::Timeout, base: self.window.segments() };
            self.law.cut(&cut, &self.window)
        });
        self.law.on_timeout();
        if let Some(resume) = &mut self.resume {
            resume.on_timeout();
        }
        self.window.timeout(ssthresh, event.inflight);
        self.slow_start.on_timeout();
    }

    fn on_undo(&mut self, event: &Undo) {
        if let Some((window, law)) = self.saved.take() {
            self.window.undo(&window);
            self.law = law;
            self.law.on_undo(event.now);
        }
        self.state = CaState::Open;
    }

    fn on_recovery_exit(&mut self, now: Nanos) {
        self.state = CaState::Open;
        self.law.on_recovery_exit(now, &mut self.window);
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        self.law.on_idle(event.now, event.idle);
        if let Some(restart) = event.restart_window {
            self.window.restart(restart);
        }
    }

    fn ecn_mode(&self) -> EcnMode {
        L::ECN
    }

    fn responds_to_marks(&self) -> bool {
        self.law.responds_to_marks()
    }

    fn cwnd(&self) -> u64 {
        self.window.bytes()
    }

    fn ssthresh(&self) -> u64 {
        self.window.ssthresh_bytes()
    }

    fn takes_window(&self) -> bool {
        true
    }

    fn set_window(&mut self, cwnd: u64, ssthresh: u64) {
        self.window.adopt(cwnd, ssthresh);
    }

    fn counted(&self) -> u64 {
        self.window.towards_increase()
    }

    fn set_counted(&mut self, bytes: u64) {
        self.window.set_towards_increase(bytes);
    }

    fn on_shared_congestion(&mut self, event: &Congestion) {
        let cause = Cause::of(event.kind);
        let cut = Cut { now: event.now, cause, base: self.base(event.inflight) };
        let _ = self.law.cut(&cut, &self.window);
        self.slow_start.on_congestion();
    }

    fn pacing_rate(&self) -> Option<f64> {
        match self.law.pace(&self.window) {
            Pace::Frame if self.resume.as_ref().is_some_and(CarefulResume::paces) => {
                self.pacing.rate_of(&self.window, 1.0)
            }
            Pace::Frame => self.pacing.rate(&self.window),
            Pace::Rate(rate) => Some(rate),
        }
    }

    fn phase(&self) -> &'static str {
        if let Some(phase) = self.resume.as_ref().and_then(CarefulResume::phase) {
            return phase;
        }
        match self.state {
            CaState::Recovery => "recovery",
            CaState::Cwr => "cwr",
            _ if self.window.in_slow_start() => {
                self.law.phase_in_slow_start().unwrap_or_else(|| self.slow_start.phase())
            }
            _ => self.law.phase(),
        }
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        self.law.record(&self.window, out);
    }
}
