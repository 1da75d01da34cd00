//! Exceptions, and the engine's errors turned into them.

use dumbbell_sim::RunError;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::run::RunResult;

create_exception!(
    dumbbell._core,
    ConfigError,
    PyValueError,
    "The configuration cannot be run. `key` names the entry, `message` says what was expected."
);
create_exception!(
    dumbbell._core,
    InvariantError,
    PyRuntimeError,
    "An invariant of the simulation does not hold: a defect of dumbbell. `now_ns` is the simulated time."
);
create_exception!(
    dumbbell._core,
    ControllerError,
    PyRuntimeError,
    "A controller written in Python raised an exception, which is `__cause__`. `flow`, `now_ns` \
     (simulated time), `traceback` (text) and `partial` (RunResult up to there) are set."
);

pub(crate) fn config_error(py: Python<'_>, key: &str, message: &str) -> PyErr {
    let error = ConfigError::new_err(format!("{key}: {message}"));
    with_attributes(py, error, |value| {
        value.setattr("key", key)?;
        value.setattr("message", message)
    })
}

/// `cause` is the exception that a controller raised, if one did.
pub(crate) fn from_run_error(py: Python<'_>, error: RunError, cause: Option<PyErr>) -> PyErr {
    match error {
        RunError::Config { key, message } => config_error(py, &key, &message),
        RunError::Invariant { now_ns, .. } => {
            let text = error.to_string();
            with_attributes(py, InvariantError::new_err(text), |value| {
                value.setattr("now_ns", now_ns)
            })
        }
        RunError::Controller { flow, now_ns, message, partial } => {
            let seconds = now_ns as f64 / 1e9;
            let error = ControllerError::new_err(format!(
                "controller of flow {flow} failed at {seconds:.6} s of simulated time\n{message}"
            ));
            error.set_cause(py, cause);
            with_attributes(py, error, |value| {
                value.setattr("flow", flow)?;
                value.setattr("now_ns", now_ns)?;
                value.setattr("traceback", message)?;
                value.setattr("partial", RunResult::new(*partial)?.into_pyobject(py)?)
            })
        }
    }
}

pub(crate) fn to_json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

fn with_attributes(
    py: Python<'_>,
    error: PyErr,
    set: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>,
) -> PyErr {
    match set(error.value(py).as_any()) {
        Ok(()) => error,
        Err(failure) => failure,
    }
}
