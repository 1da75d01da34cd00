//! Controllers written in Python, as the engine sees them.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use dumbbell_cc as cc;
use dumbbell_sim::CustomControllers;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use serde_json::{Map, Value};

use crate::attributes::{self, Attributes};
use crate::compiled::CompiledController;
use crate::event;

/// Phase names are kept for the life of the process, so a run may not invent them without end.
const MAX_NAMES: usize = 1024;

/// The exception that ended a run, shared by the controllers of that run.
pub(crate) type Cause = Arc<Mutex<Option<PyErr>>>;

/// Callables by name.
pub(crate) struct PythonControllers {
    factories: Py<PyDict>,
    cause: Cause,
}

impl PythonControllers {
    pub(crate) fn new(py: Python<'_>, mapping: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let factories = PyDict::new(py);
        if let Some(mapping) = mapping {
            factories.update(mapping.cast()?)?;
        }
        Ok(Self { factories: factories.unbind(), cause: Cause::default() })
    }

    /// Names of those whose code runs in the interpreter: all but the compiled ones.
    pub(crate) fn interpreted(&self, py: Python<'_>) -> PyResult<HashSet<String>> {
        let mut names = HashSet::new();
        for (name, factory) in self.factories.bind(py) {
            let compiled = factory.getattr_opt(intern!(py, "compiled"))?;
            if !compiled.map_or(Ok(false), |compiled| compiled.is_truthy())? {
                names.insert(name.extract()?);
            }
        }
        Ok(names)
    }

    pub(crate) fn take_cause(&self) -> Option<PyErr> {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn make(
        &self,
        factory: &Bound<'_, PyAny>,
        kind: &str,
        params: &Map<String, Value>,
        seed: u64,
    ) -> PyResult<Box<dyn cc::Controller>> {
        let py = factory.py();
        let text = Value::Object(params.clone()).to_string();
        let params = py.import(intern!(py, "json"))?.call_method1(intern!(py, "loads"), (text,))?;
        let instance = factory.call1((params,))?;
        let cause = Arc::clone(&self.cause);
        let compiled = instance.getattr_opt(intern!(py, "compiled"))?;
        if compiled.is_some_and(|compiled| compiled.is_truthy().unwrap_or(false)) {
            return Ok(Box::new(CompiledController::new(&instance, kind, seed, cause)?));
        }
        Ok(Box::new(PythonController::new(instance, kind, seed, cause)?))
    }
}

impl CustomControllers for PythonControllers {
    fn build(
        &self,
        kind: &str,
        params: &Map<String, Value>,
        seed: u64,
    ) -> Option<Result<Box<dyn cc::Controller>, String>> {
        Python::attach(|py| {
            let factory = self.factories.bind(py).get_item(kind).ok().flatten()?;
            Some(match self.make(&factory, kind, params, seed) {
                Ok(controller) => Ok(controller),
                Err(error) => Err(error.to_string()),
            })
        })
    }
}

/// Adapter of one instance.
struct PythonController {
    name: &'static str,
    instance: Py<PyAny>,
    methods: Methods,
    /// Values of the instance's attributes after the last call.
    cwnd: u64,
    ssthresh: u64,
    pacing_rate: Option<f64>,
    /// For the name of the phase where the instance gives none.
    state: cc::CaState,
    attributes: Attributes,
    recorded: Vec<(&'static str, Py<PyString>)>,
    /// Traceback of the exception that ends the run.
    error: RefCell<Option<String>>,
    cause: Cause,
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
    fn new(instance: Bound<'_, PyAny>, kind: &str, seed: u64, cause: Cause) -> PyResult<Self> {
        let py = instance.py();
        let base = py.import(intern!(py, "dumbbell.control"))?.getattr("CongestionControl")?;
        if !instance.is_instance(&base)? {
            return Err(PyTypeError::new_err(format!(
                "expected an instance of dumbbell.CongestionControl, got {}",
                instance.get_type().name()?
            )));
        }
        instance.setattr(intern!(py, "seed"), seed)?;
        let class = instance.get_type();
        let method = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let overridden = !class.getattr(name)?.is(&base.getattr(name)?);
            Ok(if overridden { Some(instance.getattr(name)?.unbind()) } else { None })
        };
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
            recorded: recorded(&instance)?,
            instance: instance.unbind(),
            error: RefCell::new(None),
            cause,
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
        if self.error.borrow().is_some() {
            return;
        }
        let outcome = Python::attach(|py| {
            method.bind(py).call1(arguments)?;
            let instance = self.instance.bind(py);
            Ok((
                window(&instance.getattr(intern!(py, "cwnd"))?, "cwnd")?,
                threshold(&instance.getattr(intern!(py, "ssthresh"))?)?,
                pacing(&instance.getattr(intern!(py, "pacing_rate"))?)?,
            ))
        });
        match outcome {
            Ok((cwnd, ssthresh, pacing_rate)) => {
                self.cwnd = cwnd;
                self.ssthresh = ssthresh;
                self.pacing_rate = pacing_rate;
            }
            Err(error) => self.fail(error),
        }
    }

    /// Remembers the window for `on_undo` of the base class.
    fn save_window(&self) {
        let saved = Python::attach(|py| -> PyResult<()> {
            let instance = self.instance.bind(py);
            let cwnd = instance.getattr(intern!(py, "cwnd"))?;
            instance.setattr(intern!(py, "prior_cwnd"), cwnd)?;
            let ssthresh = instance.getattr(intern!(py, "ssthresh"))?;
            instance.setattr(intern!(py, "prior_ssthresh"), ssthresh)
        });
        if let Err(error) = saved {
            self.fail(error);
        }
    }

    /// The first exception counts.
    fn fail(&self, error: PyErr) {
        let mut text = self.error.borrow_mut();
        if text.is_none() {
            *text = Some(Python::attach(|py| traceback(py, &error)));
            remember(&self.cause, error);
        }
    }
}

/// Keeps the exception that ends a run for its caller; the first one counts.
pub(crate) fn remember(cause: &Cause, error: PyErr) {
    cause.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
}

impl cc::Controller for PythonController {
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_start(&mut self, event: &cc::Start) {
        self.cwnd = event.initial_window;
        let set = Python::attach(|py| {
            self.instance.bind(py).setattr(intern!(py, "cwnd"), event.initial_window)
        });
        if let Err(error) = set {
            self.fail(error);
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
        let phase = Python::attach(|py| -> PyResult<Option<&'static str>> {
            let phase = self.instance.bind(py).getattr(intern!(py, "phase"))?;
            phase.extract::<Option<String>>()?.map(|phase| keep(&phase)).transpose()
        });
        match phase {
            Ok(Some(phase)) => return phase,
            Ok(None) => {}
            Err(error) => self.fail(error),
        }
        match self.state {
            cc::CaState::Recovery => "recovery",
            cc::CaState::Cwr => "cwr",
            _ if self.cwnd < self.ssthresh => "slow_start",
            _ => "avoidance",
        }
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        if self.recorded.is_empty() {
            return;
        }
        Python::attach(|py| {
            for (name, attribute) in &self.recorded {
                let value = self.instance.bind(py).getattr(attribute.bind(py));
                match value.and_then(|value| value.extract::<f64>()) {
                    Ok(value) => out(name, value),
                    Err(error) => self.fail(error),
                }
            }
        });
    }

    fn take_error(&mut self) -> Option<String> {
        self.error.get_mut().take()
    }
}

pub(crate) fn traceback(py: Python<'_>, error: &PyErr) -> String {
    let value = error.value(py);
    let formatted = value
        // Python 3.11 keeps the traceback beside the exception until it is raised again.
        .setattr("__traceback__", error.traceback(py))
        .and_then(|()| py.import("traceback")?.call_method1("format_exception", (value,)))
        .and_then(|lines| lines.extract::<Vec<String>>());
    formatted.map_or_else(|_| error.to_string(), |lines| lines.concat().trim_end().to_owned())
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

fn pacing(value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if value.is_none() {
        return Ok(None);
    }
    match number(value) {
        Some(rate) if rate > 0.0 && rate.is_finite() => Ok(Some(rate)),
        _ => Err(PyValueError::new_err(format!(
            "pacing_rate must be None or a positive number of bytes per second, not {}",
            value.repr()?
        ))),
    }
}

/// Python's truth values are integers too, but never meant as one here.
fn number(value: &Bound<'_, PyAny>) -> Option<f64> {
    if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() }
}

fn recorded(instance: &Bound<'_, PyAny>) -> PyResult<Vec<(&'static str, Py<PyString>)>> {
    let record = instance.getattr("record")?;
    let names: Vec<String> = record.extract().map_err(|_| {
        PyTypeError::new_err("record must be a tuple of attribute names, such as ('alpha', 'beta')")
    })?;
    names
        .iter()
        .map(|name| Ok((keep(name)?, PyString::intern(instance.py(), name).unbind())))
        .collect()
}

/// The engine names things by `&'static str`: each distinct name is kept once.
pub(crate) fn keep(name: &str) -> PyResult<&'static str> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return Ok(known);
    }
    if names.len() >= MAX_NAMES {
        return Err(PyValueError::new_err(format!(
            "more than {MAX_NAMES} different names of phases and recorded attributes"
        )));
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(kept);
    Ok(kept)
}
