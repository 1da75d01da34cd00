//! Controllers given as compiled functions: Numba's, or those of a C library.

use dumbbell_cc as cc;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use serde::Serialize;

use crate::attributes::{self, Attributes};
use crate::error::to_json;
use crate::ffi::{Callback, Functions};
use crate::instance::{Cause, keep, remember, traceback};
use crate::layout::{self, CWND, PACING_RATE, PRIOR_CWND, PRIOR_SSTHRESH, SSTHRESH, STATE};

/// Windows from here on are not whole numbers of bytes any more.
const LARGEST: f64 = (1_u64 << 53) as f64;

/// Adapter of one `dumbbell.compiled.CompiledControl`. Python is called only if something fails.
pub(crate) struct CompiledController {
    name: &'static str,
    /// Keeps the functions' code alive, and tells what went wrong in them.
    instance: Py<PyAny>,
    functions: Functions,
    /// The fields of [`STATE`], then the controller's own.
    state: Vec<f64>,
    /// `state` before the present call, to tell what went wrong in it.
    before: Vec<f64>,
    seed: u64,
    recorded: Vec<(&'static str, usize)>,
    attributes: Attributes,
    ca_state: cc::CaState,
    error: Option<String>,
    cause: Cause,
}

impl CompiledController {
    pub(crate) fn new(
        instance: &Bound<'_, PyAny>,
        kind: &str,
        seed: u64,
        cause: Cause,
    ) -> PyResult<Self> {
        let py = instance.py();
        let names: Vec<String> = instance.getattr(intern!(py, "fields"))?.extract()?;
        let state: Vec<f64> = instance.call_method0(intern!(py, "initial_state"))?.extract()?;
        if names.len() != state.len()
            || !names.iter().map(String::as_str).take(STATE.len()).eq(STATE)
        {
            return Err(PyValueError::new_err("fields do not match the initial state"));
        }
        let wanted: Vec<String> = instance.getattr(intern!(py, "record"))?.extract()?;
        let recorded = wanted
            .iter()
            .map(|name| {
                let place = names.iter().position(|known| known == name).ok_or_else(|| {
                    PyValueError::new_err(format!("record: there is no field {name:?}"))
                })?;
                Ok((keep(name)?, place))
            })
            .collect::<PyResult<_>>()?;
        Ok(Self {
            name: keep(kind)?,
            functions: Functions::read(&instance.call_method0(intern!(py, "addresses"))?)?,
            before: state.clone(),
            state,
            seed,
            recorded,
            attributes: attributes::read(instance)?,
            ca_state: cc::CaState::Open,
            error: None,
            instance: instance.clone().unbind(),
            cause,
        })
    }

    #[inline]
    fn call<E: Serialize>(&mut self, method: &str, function: Option<Callback<E>>, event: &E) {
        let Some(function) = function else {
            return;
        };
        if self.error.is_some() {
            return;
        }
        self.before.copy_from_slice(&self.state);
        let done = function.call(&mut self.state, event);
        if !done {
            self.explain(method, event);
        } else if let Some(complaint) = complaint(&self.state) {
            self.error = Some(format!("{method} of {} left {complaint}", self.name));
        }
        if self.error.is_some() {
            // The engine sends by these until it asks for the error.
            self.state.copy_from_slice(&self.before);
        }
    }

    /// Python goes through the call again and raises what went wrong.
    #[cold]
    fn explain<E: Serialize>(&mut self, method: &str, event: &E) {
        let text = Python::attach(|py| {
            let outcome = to_json(event).and_then(|event| {
                let arguments = (method, event, self.before.clone());
                self.instance.bind(py).call_method1(intern!(py, "explain"), arguments)
            });
            match outcome {
                Ok(_) => format!("{method} of {} failed", self.name),
                Err(error) => {
                    let text = traceback(py, &error);
                    remember(&self.cause, error);
                    text
                }
            }
        });
        self.error = Some(text);
    }

    fn save_window(&mut self) {
        self.state[PRIOR_CWND] = self.state[CWND];
        self.state[PRIOR_SSTHRESH] = self.state[SSTHRESH];
    }
}

/// What is wrong with the fields that the engine reads.
#[inline]
fn complaint(state: &[f64]) -> Option<String> {
    let (cwnd, ssthresh, pacing) = (state[CWND], state[SSTHRESH], state[PACING_RATE]);
    if !(1.0..LARGEST).contains(&cwnd) {
        Some(format!("cwnd at {cwnd}: expected a number of bytes, 1 or more"))
    } else if ssthresh.is_nan() || ssthresh < 1.0 {
        Some(format!("ssthresh at {ssthresh}: expected a number of bytes, 1 or more"))
    } else if !pacing.is_finite() || pacing < 0.0 {
        Some(format!("pacing_rate at {pacing}: expected bytes per second, or 0 for none"))
    } else {
        None
    }
}

/// As the built-in Reno (RFC 5681 section 3.1).
fn after_timeout(state: &mut [f64], event: &cc::Rto) {
    let mss = u64::from(event.mss.max(1));
    if event.first {
        state[SSTHRESH] = ((state[CWND] as u64 / mss / 2).max(2) * mss) as f64;
    }
    state[CWND] = ((event.inflight.div_ceil(mss) + 1) * mss) as f64;
}

/// As the built-in Reno (RFC 5681 section 4.1, RFC 2861 section 3.1).
fn after_idle(state: &mut [f64], event: &cc::IdleRestart) {
    let Some(restart) = event.restart_window else {
        return;
    };
    let mss = u64::from(event.mss.max(1));
    let segments = state[CWND] as u64 / mss;
    if state[SSTHRESH] < f64::INFINITY {
        state[SSTHRESH] = state[SSTHRESH].max(((segments / 2 + segments / 4) * mss) as f64);
    }
    state[CWND] = state[CWND].min(((restart / mss).max(1) * mss) as f64);
}

impl cc::Controller for CompiledController {
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_start(&mut self, event: &cc::Start) {
        self.state[CWND] = event.initial_window as f64;
        let seed = self.seed;
        self.call("on_start", self.functions.on_start, &layout::Start::new(event, seed));
    }

    #[inline]
    fn on_ack(&mut self, ack: &cc::Ack) {
        self.ca_state = ack.state;
        self.call("on_ack", self.functions.on_ack, &layout::Ack::from(ack));
    }

    fn on_congestion(&mut self, event: &cc::Congestion) {
        self.ca_state = match event.kind {
            cc::CongestionKind::Loss => cc::CaState::Recovery,
            cc::CongestionKind::Ecn => cc::CaState::Cwr,
        };
        self.save_window();
        self.call("on_congestion", self.functions.on_congestion, &event.into());
    }

    fn on_rto(&mut self, event: &cc::Rto) {
        self.ca_state = cc::CaState::Loss;
        let told = layout::Rto::new(event, &self.state);
        if event.first {
            self.save_window();
        }
        after_timeout(&mut self.state, event);
        self.call("on_rto", self.functions.on_rto, &told);
    }

    fn on_undo(&mut self, event: &cc::Undo) {
        self.ca_state = cc::CaState::Open;
        let told = layout::Undo::new(event, &self.state);
        if self.state[PRIOR_CWND] > 0.0 {
            self.state[CWND] = self.state[CWND].max(self.state[PRIOR_CWND]);
            self.state[SSTHRESH] = self.state[PRIOR_SSTHRESH];
        }
        self.state[PRIOR_CWND] = 0.0;
        self.state[PRIOR_SSTHRESH] = 0.0;
        self.call("on_undo", self.functions.on_undo, &told);
    }

    fn on_recovery_exit(&mut self, now: cc::Nanos) {
        self.ca_state = cc::CaState::Open;
        let function = self.functions.on_recovery_exit;
        self.call("on_recovery_exit", function, &layout::RecoveryExit::new(now));
    }

    fn on_idle_restart(&mut self, event: &cc::IdleRestart) {
        let told = layout::IdleRestart::new(event, &self.state);
        after_idle(&mut self.state, event);
        self.call("on_idle_restart", self.functions.on_idle_restart, &told);
    }

    fn on_sent(&mut self, now: cc::Nanos, bytes: u32, inflight: u64) {
        self.call("on_sent", self.functions.on_sent, &layout::Sent::new(now, bytes, inflight));
    }

    fn wants_sent(&self) -> bool {
        self.functions.on_sent.is_some()
    }

    fn ecn_mode(&self) -> cc::EcnMode {
        self.attributes.ecn
    }

    fn responds_to_marks(&self) -> bool {
        self.attributes.responds_to_marks
    }

    fn requested_rate(&self) -> Option<f64> {
        self.attributes.requested_rate
    }

    fn cwnd(&self) -> u64 {
        self.state[CWND] as u64
    }

    fn ssthresh(&self) -> u64 {
        // Infinity becomes the largest number, which stands for none.
        self.state[SSTHRESH] as u64
    }

    fn pacing_rate(&self) -> Option<f64> {
        Some(self.state[PACING_RATE]).filter(|rate| *rate > 0.0)
    }

    fn recovery_style(&self) -> cc::RecoveryStyle {
        self.attributes.recovery_style
    }

    fn phase(&self) -> &'static str {
        match self.ca_state {
            cc::CaState::Recovery => "recovery",
            cc::CaState::Cwr => "cwr",
            _ if self.state[CWND] < self.state[SSTHRESH] => "slow_start",
            _ => "avoidance",
        }
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        for (name, place) in &self.recorded {
            out(name, self.state[*place]);
        }
    }

    fn take_error(&mut self) -> Option<String> {
        self.error.take()
    }
}
