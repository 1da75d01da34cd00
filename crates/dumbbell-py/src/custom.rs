//! Controllers that a run was handed, by name: what the engine asks for those that are not built in.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use dumbbell_cc as cc;
use dumbbell_sim::CustomControllers;
use dumbbell_transport::rtp::control::MediaController;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value};

use crate::compiled::CompiledController;
use crate::controller::PythonController;
use crate::instance::Cause;
use crate::media::PythonMedia;

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

    /// What `build` makes of the callable of this name, if there is one. Errors are one line.
    fn with_factory<T>(
        &self,
        kind: &str,
        build: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<Result<T, String>> {
        Python::attach(|py| {
            let factory = self.factories.bind(py).get_item(kind).ok().flatten()?;
            Some(build(&factory).map_err(|error| error.to_string()))
        })
    }

    fn make(
        &self,
        factory: &Bound<'_, PyAny>,
        kind: &str,
        params: &Map<String, Value>,
        seed: u64,
    ) -> PyResult<Box<dyn cc::Controller>> {
        let py = factory.py();
        let instance = instantiate(factory, params)?;
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
        self.with_factory(kind, |factory| self.make(factory, kind, params, seed))
    }

    fn build_media(
        &self,
        kind: &str,
        params: &Map<String, Value>,
        seed: u64,
    ) -> Option<Result<Box<dyn MediaController>, String>> {
        self.with_factory(kind, |factory| {
            let instance = instantiate(factory, params)?;
            let built = PythonMedia::new(instance, kind, seed, Arc::clone(&self.cause))?;
            Ok(Box::new(built) as Box<dyn MediaController>)
        })
    }
}

fn instantiate<'py>(
    factory: &Bound<'py, PyAny>,
    params: &Map<String, Value>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = factory.py();
    let text = Value::Object(params.clone()).to_string();
    let params = py.import(intern!(py, "json"))?.call_method1(intern!(py, "loads"), (text,))?;
    factory.call1((params,))
}
