//! Controllers for media written in Python, as the engine sees them.

use dumbbell_queue::{Ecn, Nanos};
use dumbbell_transport::rtp::control::{self, Feedback, MediaController};
use pyo3::call::PyCallArgs;
use pyo3::intern;
use pyo3::prelude::*;

use crate::instance::{Cause, Instance, checked_base, keep, optional, overridden, positive};

/// What packets are paced at, over what the encoder is to produce, where the class does not say:
/// frames leave in two thirds of their interval.
const PACING: f64 = 1.5;

/// A packet as the sender knows it after a report.
#[pyclass(frozen, module = "dumbbell._core")]
pub(crate) struct PacketResult(control::PacketResult);

#[pymethods]
impl PacketResult {
    /// Sequence number, one for each packet sent.
    #[getter]
    fn seq(&self) -> u64 {
        self.0.seq
    }

    /// When it was sent, nanoseconds.
    #[getter]
    fn sent(&self) -> Nanos {
        self.0.sent
    }

    /// IP bytes.
    #[getter]
    fn size(&self) -> u32 {
        self.0.bytes
    }

    /// When it arrived by the receiver's clock, nanoseconds; None: it was lost.
    #[getter]
    fn arrival(&self) -> Option<Nanos> {
        self.0.arrival
    }

    /// It was marked CE.
    #[getter]
    fn ce(&self) -> bool {
        self.0.ecn == Ecn::Ce
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// One report of the receiver (RFC 8888), joined with what was sent.
#[pyclass(frozen, module = "dumbbell._core")]
pub(crate) struct MediaFeedback {
    /// Nanoseconds.
    #[pyo3(get)]
    now: Nanos,
    /// The packets that this report newly covers, by sequence number; never empty.
    #[pyo3(get)]
    results: Vec<Py<PacketResult>>,
    /// Round-trip time of the newest packet that arrived, nanoseconds.
    #[pyo3(get)]
    rtt: Nanos,
    /// Smoothed.
    #[pyo3(get)]
    srtt: Nanos,
    /// IP bytes in flight after this report.
    #[pyo3(get)]
    in_flight: u64,
    /// Bytes that wait in the sender's own queue.
    #[pyo3(get)]
    queued: u64,
    /// Of them, those of frames before the newest.
    #[pyo3(get)]
    backlog: u64,
    /// How long the first of them has waited, nanoseconds.
    #[pyo3(get)]
    queue_delay: Nanos,
}

impl MediaFeedback {
    fn new(py: Python<'_>, feedback: &Feedback) -> PyResult<Self> {
        let results = feedback.results.iter().map(|&result| Py::new(py, PacketResult(result)));
        Ok(Self {
            now: feedback.now,
            results: results.collect::<PyResult<_>>()?,
            rtt: feedback.rtt,
            srtt: feedback.srtt,
            in_flight: feedback.in_flight,
            queued: feedback.queued,
            backlog: feedback.backlog,
            queue_delay: feedback.queue_delay,
        })
    }
}

/// Adapter of one instance.
pub(crate) struct PythonMedia {
    name: &'static str,
    instance: Instance,
    on_start: Option<Py<PyAny>>,
    on_feedback: Option<Py<PyAny>>,
    on_feedback_timeout: Py<PyAny>,
    on_rate: Py<PyAny>,
    on_sent: Option<Py<PyAny>>,
    /// Values of the instance's attributes after the last call.
    attributes: Attributes,
    /// The rate has been computed and nobody has asked for it.
    calculated: bool,
}

#[derive(Clone, Copy)]
struct Attributes {
    target_rate: f64,
    send_rate: f64,
    window: Option<u64>,
    max_queue_delay: Option<Nanos>,
}

impl Attributes {
    fn read(instance: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = instance.py();
        let target = instance.getattr(intern!(py, "target_rate"))?;
        let target_rate = positive(&target, "target_rate", "a positive number of bits per second")?;
        let expected = "None or a positive number of bits per second";
        let send = instance.getattr(intern!(py, "send_rate"))?;
        let send_rate = optional(&send, "send_rate", expected)?;
        let window = instance.getattr(intern!(py, "window"))?;
        let window = optional(&window, "window", "None or a positive number of bytes")?;
        let delay = instance.getattr(intern!(py, "max_queue_delay"))?;
        let delay = optional(&delay, "max_queue_delay", "None or a positive number of ns")?;
        Ok(Self {
            target_rate,
            send_rate: send_rate.unwrap_or(PACING * target_rate),
            window: window.map(|bytes| bytes as u64),
            max_queue_delay: delay.map(|delay| delay as Nanos),
        })
    }
}

impl PythonMedia {
    pub(crate) fn new(
        instance: Bound<'_, PyAny>,
        kind: &str,
        seed: u64,
        cause: Cause,
    ) -> PyResult<Self> {
        let base = checked_base(&instance, "dumbbell.media", "MediaControl")?;
        Ok(Self {
            name: keep(kind)?,
            on_start: overridden(&instance, &base, "on_start")?,
            on_feedback: overridden(&instance, &base, "on_feedback")?,
            on_feedback_timeout: instance.getattr("on_feedback_timeout")?.unbind(),
            on_rate: instance.getattr("on_rate")?.unbind(),
            on_sent: overridden(&instance, &base, "on_sent")?,
            attributes: Attributes::read(&instance)?,
            calculated: false,
            instance: Instance::new(instance, seed, cause)?,
        })
    }

    /// Calls a method, if there is one to call, and reads back what it set.
    fn call<A>(
        &mut self,
        pick: impl FnOnce(&Self) -> Option<&Py<PyAny>>,
        arguments: impl FnOnce(Python<'_>) -> PyResult<A>,
    ) where
        A: for<'py> PyCallArgs<'py>,
    {
        if self.instance.has_failed() {
            return;
        }
        let outcome = Python::attach(|py| {
            let Some(method) = pick(self) else { return Ok(None) };
            method.bind(py).call1(arguments(py)?)?;
            Attributes::read(self.instance.object.bind(py)).map(Some)
        });
        match outcome {
            Ok(None) => {}
            Ok(Some(attributes)) => self.attributes = attributes,
            Err(error) => self.instance.fail(error),
        }
    }
}

impl MediaController for PythonMedia {
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_start(&mut self, now: Nanos) {
        self.call(|this| this.on_start.as_ref(), |_| Ok((now,)));
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        let event = |py: Python<'_>| Ok((MediaFeedback::new(py, feedback)?,));
        self.call(|this| this.on_feedback.as_ref(), event);
        self.calculated = true;
    }

    fn on_sent(&mut self, now: Nanos, bytes: u32, in_flight: u64) {
        if self.on_sent.is_some() {
            self.call(|this| this.on_sent.as_ref(), |_| Ok((now, bytes, in_flight)));
        }
    }

    fn on_feedback_timeout(&mut self, now: Nanos) {
        self.call(|this| Some(&this.on_feedback_timeout), |_| Ok((now,)));
        self.calculated = true;
    }

    fn target_rate(&self) -> f64 {
        self.attributes.target_rate
    }

    fn send_rate(&self) -> f64 {
        self.attributes.send_rate
    }

    fn window(&self) -> Option<u64> {
        self.attributes.window
    }

    fn max_queue_delay(&self) -> Option<Nanos> {
        self.attributes.max_queue_delay
    }

    fn take_calculated(&mut self) -> Option<f64> {
        std::mem::take(&mut self.calculated).then_some(self.attributes.target_rate)
    }

    fn set_rate(&mut self, now: Nanos, rate: f64) {
        self.call(|this| Some(&this.on_rate), |_| Ok((now, rate)));
    }

    fn phase(&self) -> &'static str {
        self.instance.phase().unwrap_or("steady")
    }

    fn take_error(&mut self) -> Option<String> {
        self.instance.take_error()
    }

    fn record(&self, out: &mut dyn FnMut(&'static str, f64)) {
        self.instance.record(out);
    }
}
