//! Congestion controllers written in Python, as the engine sees them.

use dumbbell_cc as cc;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

use crate::attributes::{self, Attributes};
use crate::event;
use crate::instance::{Cause, Instance, checked_base, keep, number, optional, overridden};

/// What the attribute may be.
const PACING_RATE: &str = "None or a positive number of bytes per second";

/// Adapter of one instance.
pub(crate) struct PythonController {
    name: &'static str,
    instance: Instance,
    methods: Methods,
    /// Values of the instance's attributes after the last call.
    cwnd: u64,
    ssthresh: u64,
    pacing_rate: Option<f64>,
    /// For the name of the phase where the instance gives none.
    state: cc::CaState,
    attributes: Attributes,
}

/// Bound methods, looked up once. Those that do nothing unless overridden are left out then.
struct Methods {
    on_start: Option<Py<PyAny>>,
    on_ack: Option<Py<PyAny>>,
    on_congestion: Option<Py<PyAny>>,
    on_rto: Option<Py<PyAny>>,
    on_undo: Option<Py<PyAny>>,
    on_recovery_exit: Option<Py<PyAny>>,
    on_idle_restart: Option<Py<PyAny>>,
    on_sent: Option<Py<PyAny>>,
}

impl PythonController {
    pub(crate) fn new(
        instance: Bound<'_, PyAny>,
        kind: &str,
        seed: u64,
        cause: Cause,
    ) -> PyResult<Self> {
        let base = checked_base(&instance, "dumbbell.control", "CongestionControl")?;
        let method = |name: &str| overridden(&instance, &base, name);
        Ok(Self {
            name: keep(kind)?,
            methods: Methods {
                on_start: method("on_start")?,
                on_ack: method("on_ack")?,
                on_congestion: method("on_congestion")?,
                on_rto: Some(instance.getattr("on_rto")?.unbind()),
                on_undo: Some(instance.getattr("on_undo")?.unbind()),
                on_recovery_exit: method("on_recovery_exit")?,
                on_idle_restart: Some(instance.getattr("on_idle_restart")?.unbind()),
                on_sent: method("on_sent")?,
            },
            cwnd: 0,
            ssthresh: cc::SSTHRESH_INFINITE,
            pacing_rate: None,
            state: cc::CaState::Open,
            attributes: attributes::read(&instance)?,
            instance: Instance::new(instance, seed, cause)?,
        })
    }

    /// Calls a method, if there is one to call, and reads back what it set.
    fn call<A>(&mut self, pick: impl FnOnce(&Methods) -> &Option<Py<PyAny>>, arguments: A)
    where
        A: for<'py> PyCallArgs<'py>,
    {
        let Some(method) = pick(&self.methods) else {
            return;
        };
        if self.instance.has_failed() {
            return;
        }
        let outcome = Python::attach(|py| {
            method.bind(py).call1(arguments)?;
            let instance = self.instance.object.bind(py);
            Ok((
                window(&instance.getattr(intern!(py, "cwnd"))?, "cwnd")?,
                threshold(&instance.getattr(intern!(py, "ssthresh"))?)?,
                optional(
                    &instance.getattr(intern!(py, "pacing_rate"))?,
                    "pacing_rate",
                    PACING_RATE,
                )?,
            ))
        });
        match outcome {
            Ok((cwnd, ssthresh, pacing_rate)) => {
                self.cwnd = cwnd;
                self.ssthresh = ssthresh;
                self.pacing_rate = pacing_rate;
            }
            Err(error) => self.instance.fail(error),
        }
    }

    /// Remembers the window for `on_undo` of the base class.
    fn save_window(&self) {
        let saved = Python::attach(|py| -> PyResult<()> {
            let instance = self.instance.object.bind(py);
            let cwnd = instance.getattr(intern!(py, "cwnd"))?;
            instance.setattr(intern!(py, "prior_cwnd"), cwnd)?;
            let ssthresh = instance.getattr(intern!(py, "ssthresh"))?;
            instance.setattr(intern!(py, "prior_ssthresh"), ssthresh)
        });
        if let Err(error) = saved {
            self.instance.fail(error);
        }
    }
}

impl cc::Controller for PythonController {
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_start(&mut self, event: &cc::Start) {
        self.cwnd = event.initial_window;
        let set = Python::attach(|py| {
            self.instance.object.bind(py).setattr(intern!(py, "cwnd"), event.initial_window)
        });
        if let Err(error) = set {
            self.instance.fail(error);
        }
        self.call(|methods| &methods.on_start, (event::Start(*event),));
    }

    fn on_ack(&mut self, ack: &cc::Ack) {
        self.state = ack.state;
        self.call(|methods| &methods.on_ack, (event::Ack(*ack),));
    }

    fn on_congestion(&mut self, event: &cc::Congestion) {
        self.state = match event.kind {
            cc::CongestionKind::Loss => cc::CaState::Recovery,
            cc::CongestionKind::Ecn => cc::CaState::Cwr,
        };
        self.save_window();
        self.call(|methods| &methods.on_congestion, (event::Congestion(*event),));
    }

    fn on_rto(&mut self, event: &cc::Rto) {
        self.state = cc::CaState::Loss;
        if event.first {
            self.save_window();
        }
        self.call(|methods| &methods.on_rto, (event::Rto(*event),));
    }

    fn on_undo(&mut self, event: &cc::Undo) {
        self.state = cc::CaState::Open;
        self.call(|methods| &methods.on_undo, (event::Undo(*event),));
    }

    fn on_recovery_exit(&mut self, now: cc::Nanos) {
        self.state = cc::CaState::Open;
        self.call(|methods| &methods.on_recovery_exit, (now,));
    }

    fn on_idle_restart(&mut self, event: &cc::IdleRestart) {
        self.call(|methods| &methods.on_idle_restart, (event::IdleRestart(*event),));
    }

    fn on_sent(&mut self, now: cc::Nanos, bytes: u32, inflight: u64) {
        self.call(|methods| &methods.on_sent, (now, bytes, inflight));
    }

    fn wants_sent(&self) -> bool {
        self.methods.on_sent.is_some()
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.pacing_rate
    }

    fn recovery_style(&self) -> cc::RecoveryStyle {
        self.attributes.recovery_style
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

    fn phase(&self) -> &'static str {
        if let Some(phase) = self.instance.phase() {
            return phase;
        }
        match self.state {
            cc::CaState::Recovery => "recovery",
            cc::CaState::Cwr => "cwr",
            _ if self.cwnd < self.ssthresh => "slow_start",
            _ => "avoidance",
        }
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        self.instance.record(out);
    }

    fn take_error(&mut self) -> Option<String> {
        self.instance.take_error()
    }
}

/// A positive number of bytes; a fraction of a byte does not count yet.
fn window(value: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    let whole = value.cast_exact::<PyInt>().ok().and_then(|int| int.extract::<u64>().ok());
    match whole {
        Some(bytes) if bytes > 0 => return Ok(bytes),
        _ => {}
    }
    match number(value) {
        Some(bytes) if bytes >= 1.0 && bytes.is_finite() => Ok(bytes as u64),
        _ => Err(PyValueError::new_err(format!(
            "{name} must be a number of bytes, 1 or more, not {}",
            value.repr()?
        ))),
    }
}

/// As [`window`]; None and infinity mean no threshold yet.
fn threshold(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    let infinite = value.is_none()
        || value.cast_exact::<PyFloat>().is_ok_and(|float| float.value() == f64::INFINITY);
    if infinite { Ok(cc::SSTHRESH_INFINITE) } else { window(value, "ssthresh") }
}
