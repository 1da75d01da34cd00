//! One run: configuration in, result out.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use dumbbell_sim::config::Transport;
use dumbbell_sim::{Config, Output, Progress, RunError, Summary};
use pyo3::exceptions::{PyKeyError, PyKeyboardInterrupt};
use pyo3::prelude::*;

use crate::custom::PythonControllers;
use crate::error::{config_error, from_run_error, to_json};
use crate::table::{Table, arrow_error, record_batch};

/// Spacing of calls into Python for progress and signals.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Result of a run: a summary and tables of columns.
#[pyclass(frozen, module = "dumbbell._core")]
pub(crate) struct RunResult {
    summary: Summary,
    tables: Vec<(&'static str, RecordBatch)>,
}

impl RunResult {
    pub(crate) fn new(output: Output) -> PyResult<Self> {
        let tables = output
            .tables
            .into_iter()
            .map(|(name, table)| Ok((name, record_batch(table).map_err(arrow_error)?)))
            .collect::<PyResult<_>>()?;
        Ok(Self { summary: output.summary, tables })
    }
}

#[pymethods]
impl RunResult {
    /// The summary as a JSON object with `flows`, `links`, `probes` and `totals`.
    fn summary_json(&self) -> PyResult<String> {
        to_json(&self.summary)
    }

    /// Names of the tables.
    fn tables(&self) -> Vec<&'static str> {
        self.tables.iter().map(|(name, _)| *name).collect()
    }

    /// A table by name. Raises KeyError if there is none of that name.
    fn table(&self, name: &str) -> PyResult<Table> {
        self.tables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, batch)| Table::new(batch.clone()))
            .ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }
}

/// Run a canonical configuration (JSON text).
///
/// `controllers` maps names to callables that take a dict of parameters and return a
/// `dumbbell.CongestionControl`, a `dumbbell.compiled.CompiledControl` or, for media, a
/// `dumbbell.MediaControl`. `progress(fraction, events)` is called at most five times a
/// wall-clock second; False ends the run there and keeps what was recorded, as Ctrl-C does.
///
/// The GIL is released unless a flow's controller is written in Python and not compiled; a callable
/// says that it makes compiled ones by a true attribute `compiled`.
///
/// Raises ConfigError, ControllerError, InvariantError, and what `progress` raises.
#[pyfunction]
#[pyo3(signature = (config_json, controllers=None, progress=None))]
pub(crate) fn run(
    py: Python<'_>,
    config_json: &str,
    controllers: Option<Bound<'_, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<RunResult> {
    let config: Config = serde_json::from_str(config_json)
        .map_err(|error| config_error(py, "config", &error.to_string()))?;
    let custom = PythonControllers::new(py, controllers.as_ref())?;
    let mut watch = Watch { progress, last: Instant::now(), failure: None };
    let outcome = if uses_python(&config, &custom.interpreted(py)?) {
        // Attaching for each ACK would cost more than the controller; Python's own switching lets
        // other threads in while a controller's code runs.
        run_engine(&config, &custom, &mut watch)
    } else {
        py.detach(|| run_engine(&config, &custom, &mut watch))
    };
    if let Some(failure) = watch.failure {
        return Err(failure);
    }
    let cause = custom.take_cause();
    let interrupted =
        cause.as_ref().is_some_and(|cause| cause.is_instance_of::<PyKeyboardInterrupt>(py));
    match outcome {
        Ok(result) => result,
        Err(RunError::Controller { partial, .. }) if interrupted => RunResult::new(*partial),
        Err(error) => Err(from_run_error(py, error, cause)),
    }
}

fn run_engine(
    config: &Config,
    custom: &PythonControllers,
    watch: &mut Watch,
) -> Result<PyResult<RunResult>, RunError> {
    let output = dumbbell_sim::run(config, custom, &mut |progress| watch.look(progress))?;
    Ok(RunResult::new(output))
}

fn uses_python(config: &Config, names: &HashSet<String>) -> bool {
    config.flows.iter().any(|flow| match &flow.transport {
        Transport::Tcp(tcp) => names.contains(&tcp.cc.kind),
        Transport::Other(other) => other.cc.as_ref().is_some_and(|cc| names.contains(&cc.kind)),
        Transport::Udp { .. } => false,
    })
}

/// Shows progress and looks for signals, a few times a second.
struct Watch {
    progress: Option<Py<PyAny>>,
    last: Instant,
    /// What `progress` raised.
    failure: Option<PyErr>,
}

impl Watch {
    fn look(&mut self, at: Progress) -> ControlFlow<()> {
        if self.last.elapsed() < PROGRESS_INTERVAL {
            return ControlFlow::Continue(());
        }
        self.last = Instant::now();
        Python::attach(|py| match self.report(py, at) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
                    self.failure = Some(error);
                }
                ControlFlow::Break(())
            }
        })
    }

    /// Whether to go on.
    fn report(&self, py: Python<'_>, at: Progress) -> PyResult<bool> {
        py.check_signals()?;
        let Some(progress) = &self.progress else {
            return Ok(true);
        };
        let fraction = at.now_ns as f64 / at.duration_ns.max(1) as f64;
        let answer = progress.bind(py).call1((fraction, at.events))?;
        Ok(answer.is_none() || answer.is_truthy()?)
    }
}
