//! Entry point: check the configuration, build the engine, run it.

use std::ops::ControlFlow;

use dumbbell_cc::Controller;
use dumbbell_transport::rtp::control::MediaController;
use serde_json::{Map, Value};

use crate::config::Config;
use crate::engine::Engine;
use crate::output::Output;

/// Controllers that are not in the registry (written in Python).
pub trait CustomControllers: Sync {
    /// A controller for `kind`, or `None` if this is not a custom name. Errors are shown to the user.
    fn build(
        &self,
        kind: &str,
        params: &Map<String, Value>,
        seed: u64,
    ) -> Option<Result<Box<dyn Controller>, String>>;

    /// As [`Self::build`], of a transport for media.
    fn build_media(
        &self,
        _kind: &str,
        _params: &Map<String, Value>,
        _seed: u64,
    ) -> Option<Result<Box<dyn MediaController>, String>> {
        None
    }
}

/// Only the built-in controllers.
pub struct NoCustomControllers;

impl CustomControllers for NoCustomControllers {
    fn build(
        &self,
        _kind: &str,
        _params: &Map<String, Value>,
        _seed: u64,
    ) -> Option<Result<Box<dyn Controller>, String>> {
        None
    }
}

/// Where a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub now_ns: u64,
    pub duration_ns: u64,
    pub events: u64,
}

/// Why a run did not give a result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The user's input: key and what was expected.
    #[error("{key}: {message}")]
    Config { key: String, message: String },
    /// An invariant of the simulation does not hold: a defect of dumbbell, never hidden.
    #[error("invariant violated at {now_ns} ns: {message}")]
    Invariant { now_ns: u64, message: String },
    /// A controller raised an error; `partial` is what was recorded before.
    #[error("controller of flow {flow} failed at {now_ns} ns: {message}")]
    Controller { flow: String, now_ns: u64, message: String, partial: Box<Output> },
}

impl RunError {
    pub(crate) fn config(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Config { key: key.into(), message: message.into() }
    }
}

/// Run a scenario. `progress` is called at most ten times a wall-clock second; `Break` ends the run
/// there and keeps what was recorded.
///
/// # Errors
/// See [`RunError`].
pub fn run(
    config: &Config,
    custom: &dyn CustomControllers,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Output, RunError> {
    config.check()?;
    Engine::build(config, custom)?.run(progress)
}
