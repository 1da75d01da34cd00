//! A controller that is an object of Python: what is recorded of it, and the exception that ends the run.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

/// Phase names are kept for the life of the process, so a run may not invent them without end.
const MAX_NAMES: usize = 1024;

/// The exception that ended a run, shared by the controllers of that run.
pub(crate) type Cause = Arc<Mutex<Option<PyErr>>>;

pub(crate) struct Instance {
    pub(crate) object: Py<PyAny>,
    recorded: Vec<(&'static str, Py<PyString>)>,
    /// Traceback of the exception that ends the run.
    error: RefCell<Option<String>>,
    cause: Cause,
}

impl Instance {
    pub(crate) fn new(object: Bound<'_, PyAny>, seed: u64, cause: Cause) -> PyResult<Self> {
        object.setattr(intern!(object.py(), "seed"), seed)?;
        let recorded = recorded(&object)?;
        Ok(Self { object: object.unbind(), recorded, error: RefCell::new(None), cause })
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.error.borrow().is_some()
    }

    /// The first exception counts.
    pub(crate) fn fail(&self, error: PyErr) {
        let mut text = self.error.borrow_mut();
        if text.is_none() {
            *text = Some(Python::attach(|py| traceback(py, &error)));
            remember(&self.cause, error);
        }
    }

    pub(crate) fn take_error(&mut self) -> Option<String> {
        self.error.get_mut().take()
    }

    /// The attribute `phase`, if it is not None.
    pub(crate) fn phase(&self) -> Option<&'static str> {
        let phase = Python::attach(|py| -> PyResult<Option<&'static str>> {
            let phase = self.object.bind(py).getattr(intern!(py, "phase"))?;
            phase.extract::<Option<String>>()?.map(|phase| keep(&phase)).transpose()
        });
        phase.unwrap_or_else(|error| {
            self.fail(error);
            None
        })
    }

    pub(crate) fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        if self.recorded.is_empty() {
            return;
        }
        Python::attach(|py| {
            for (name, attribute) in &self.recorded {
                let value = self.object.bind(py).getattr(attribute.bind(py));
                match value.and_then(|value| value.extract::<f64>()) {
                    Ok(value) => out(name, value),
                    Err(error) => self.fail(error),
                }
            }
        });
    }
}

/// The class of dumbbell that controllers of this kind derive from.
///
/// # Errors
/// `instance` does not.
pub(crate) fn checked_base<'py>(
    instance: &Bound<'py, PyAny>,
    module: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let base = instance.py().import(module)?.getattr(name)?;
    if !instance.is_instance(&base)? {
        return Err(PyTypeError::new_err(format!(
            "expected an instance of dumbbell.{name}, got {}",
            instance.get_type().name()?
        )));
    }
    Ok(base)
}

/// The bound method of this name, if it is not the base class's.
pub(crate) fn overridden(
    instance: &Bound<'_, PyAny>,
    base: &Bound<'_, PyAny>,
    name: &str,
) -> PyResult<Option<Py<PyAny>>> {
    let theirs = instance.get_type().getattr(name)?;
    Ok(if theirs.is(&base.getattr(name)?) { None } else { Some(instance.getattr(name)?.unbind()) })
}

/// Keeps the exception that ends a run for its caller; the first one counts.
pub(crate) fn remember(cause: &Cause, error: PyErr) {
    cause.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
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

/// Python's truth values are integers too, but never meant as one here.
pub(crate) fn number(value: &Bound<'_, PyAny>) -> Option<f64> {
    if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() }
}

/// A number above 0 and finite, or the line that says so.
pub(crate) fn positive(value: &Bound<'_, PyAny>, name: &str, expected: &str) -> PyResult<f64> {
    match number(value) {
        Some(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => {
            Err(PyValueError::new_err(format!("{name} must be {expected}, not {}", value.repr()?)))
        }
    }
}

/// As [`positive`]; None is none.
pub(crate) fn optional(
    value: &Bound<'_, PyAny>,
    name: &str,
    expected: &str,
) -> PyResult<Option<f64>> {
    if value.is_none() { Ok(None) } else { positive(value, name, expected).map(Some) }
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
