//! What classes of controllers say of themselves, the same for Python and compiled ones.

use dumbbell_cc as cc;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;

#[derive(Clone, Copy)]
pub(crate) struct Attributes {
    pub(crate) recovery_style: cc::RecoveryStyle,
    pub(crate) ecn: cc::EcnMode,
    pub(crate) responds_to_marks: bool,
    pub(crate) requested_rate: Option<f64>,
}

const RECOVERY_STYLES: [(&str, cc::RecoveryStyle); 2] =
    [("prr", cc::RecoveryStyle::Prr), ("own", cc::RecoveryStyle::Own)];

pub(crate) fn read(instance: &Bound<'_, PyAny>) -> PyResult<Attributes> {
    let marks = instance.getattr(intern!(instance.py(), "responds_to_marks"))?;
    let responds_to_marks = marks.extract().map_err(|_| {
        PyValueError::new_err(format!("responds_to_marks must be True or False, not {marks:?}"))
    })?;
    let rate = instance.getattr(intern!(instance.py(), "requested_rate"))?;
    let requested_rate = rate.extract::<Option<f64>>().ok();
    let requested_rate = requested_rate.filter(|rate| rate.is_none_or(|rate| rate > 0.0));
    let requested_rate = requested_rate.ok_or_else(|| {
        PyValueError::new_err(format!("requested_rate must be None or above 0, not {rate:?}"))
    })?;
    Ok(Attributes {
        recovery_style: choice(instance, "recovery_style", &RECOVERY_STYLES)?,
        ecn: choice(instance, "ecn", &cc::EcnMode::ALL.map(|mode| (mode.name(), mode)))?,
        responds_to_marks,
        requested_rate,
    })
}

fn choice<T: Copy>(instance: &Bound<'_, PyAny>, name: &str, known: &[(&str, T)]) -> PyResult<T> {
    let value = instance.getattr(name)?;
    let text = value.extract::<String>().ok();
    known
        .iter()
        .find(|(word, _)| Some(*word) == text.as_deref())
        .map(|(_, meant)| *meant)
        .ok_or_else(|| {
            let words: Vec<_> = known.iter().map(|(word, _)| format!("'{word}'")).collect();
            PyValueError::new_err(format!("{name} must be {}, not {value:?}", words.join(" or ")))
        })
}
