//! The Python module `dumbbell._core`: runs the engine, hands its tables over as Arrow, and lets
//! controllers be written in Python.

mod attributes;
mod compiled;
mod controller;
mod custom;
mod error;
mod event;
mod ffi;
mod instance;
mod layout;
mod media;
mod run;
mod table;

use pyo3::prelude::*;

// No state is shared between calls except behind locks, so free-threaded Python needs no GIL here.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::error::{ConfigError, ControllerError, InvariantError};
    #[pymodule_export]
    use super::event::{Ack, Congestion, IdleRestart, RateSample, Rto, Start, Undo};
    #[pymodule_export]
    use super::media::{MediaFeedback, PacketResult};
    #[pymodule_export]
    use super::run::{RunResult, run};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::{
        compiled_layout_json, controllers_json, couplings_json, detectors_json,
        media_controllers_json, queues_json, transports_json, version,
    };
}

/// The built-in controllers with their parameters, as a JSON array.
#[pyfunction]
fn controllers_json() -> PyResult<String> {
    error::to_json(&dumbbell_cc::list())
}

/// The built-in controllers for media with their parameters, as a JSON array.
#[pyfunction]
fn media_controllers_json() -> PyResult<String> {
    error::to_json(&dumbbell_transport::rtp::controllers::list())
}

/// The built-in queue disciplines with their parameters, as a JSON array.
#[pyfunction]
fn queues_json() -> PyResult<String> {
    error::to_json(&dumbbell_queue::list())
}

/// The transports beside TCP and plain datagrams with their options, as a JSON array.
#[pyfunction]
fn transports_json() -> PyResult<String> {
    error::to_json(&dumbbell_transport::registry::list())
}

/// The kinds of coupling with their options, as a JSON array.
#[pyfunction]
fn couplings_json() -> PyResult<String> {
    error::to_json(&dumbbell_cc::coupling::list())
}

/// What finds the groups of coupled flows, with its options, as a JSON array.
#[pyfunction]
fn detectors_json() -> PyResult<String> {
    error::to_json(&[dumbbell_transport::shared_bottleneck::info()])
}

/// What compiled controllers are handed, as a JSON object: `state`, the first places of their array
/// of doubles, and `events`, a C struct for each method.
#[pyfunction]
fn compiled_layout_json() -> PyResult<String> {
    error::to_json(&layout::layout())
}

/// Version of the engine.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
