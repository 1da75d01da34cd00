//! Parameters of queue disciplines: their description, and the check of what a user gave.

use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

/// What a parameter is measured in; decides which JSON value it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Whole nanoseconds.
    Time,
    Bytes,
    Packets,
    Segments,
    /// Bits per second.
    Rate,
    Fraction,
    Number,
    Count,
    Bool,
    Choice,
}

/// One parameter of a discipline.
#[derive(Clone, Debug, Serialize)]
pub struct ParamInfo {
    pub name: &'static str,
    pub unit: Unit,
    /// In canonical numbers; `null` where the feature is off unless a value is given.
    pub default: Value,
    pub doc: &'static str,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub choices: Vec<&'static str>,
}

impl ParamInfo {
    pub(crate) fn new(
        name: &'static str,
        unit: Unit,
        default: impl Into<Value>,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            unit,
            default: default.into(),
            doc,
            minimum: None,
            maximum: None,
            choices: Vec::new(),
        }
    }

    pub(crate) fn at_least(mut self, minimum: f64) -> Self {
        self.minimum = Some(minimum);
        self
    }

    pub(crate) fn at_most(mut self, maximum: f64) -> Self {
        self.maximum = Some(maximum);
        self
    }

    fn accepts(&self, value: &Value) -> bool {
        let right_type = match self.unit {
            Unit::Bool => return value.is_boolean(),
            Unit::Choice => return value.as_str().is_some_and(|v| self.choices.contains(&v)),
            Unit::Fraction | Unit::Number => value.is_number(),
            Unit::Time
            | Unit::Bytes
            | Unit::Packets
            | Unit::Segments
            | Unit::Rate
            | Unit::Count => value.is_u64(),
        };
        right_type
            && value.as_f64().is_some_and(|v| {
                self.minimum.is_none_or(|m| v >= m) && self.maximum.is_none_or(|m| v <= m)
            })
    }

    fn expected(&self) -> String {
        let what = match self.unit {
            Unit::Bool => return "true or false".to_owned(),
            Unit::Choice => return format!("one of {}", self.choices.join(", ")),
            Unit::Time => "a whole number of nanoseconds",
            Unit::Bytes => "a whole number of bytes",
            Unit::Packets => "a whole number of packets",
            Unit::Segments => "a whole number of segments",
            Unit::Rate => "a whole number of bits per second",
            Unit::Count => "a whole number",
            Unit::Fraction | Unit::Number => "a number",
        };
        match (self.minimum, self.maximum) {
            (Some(low), Some(high)) => format!("{what} from {low} to {high}"),
            (Some(low), None) => format!("{what}, at least {low}"),
            (None, Some(high)) => format!("{what}, at most {high}"),
            (None, None) => what.to_owned(),
        }
    }
}

/// A discipline, for listings and for the check of its parameters.
#[derive(Clone, Debug, Serialize)]
pub struct QueueInfo {
    pub name: &'static str,
    pub summary: &'static str,
    /// RFC or paper.
    pub source: &'static str,
    pub params: Vec<ParamInfo>,
}

/// Why a queue could not be built. Each displays as one line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BuildError {
    #[error("unknown queue \"{kind}\": {hint}")]
    UnknownKind { kind: String, hint: String },
    #[error("queue {kind}: unknown parameter \"{key}\": {hint}")]
    UnknownParameter { kind: &'static str, key: String, hint: String },
    #[error("queue {kind}: {key} = {value}: expected {expected}")]
    InvalidValue { kind: &'static str, key: &'static str, value: String, expected: String },
}

impl BuildError {
    /// The key at fault, `kind` for an unknown queue.
    pub fn key(&self) -> &str {
        match self {
            Self::UnknownKind { .. } => "kind",
            Self::UnknownParameter { key, .. } => key,
            Self::InvalidValue { key, .. } => key,
        }
    }
}

/// The nearest of `names`, or all of them where none is near.
pub(crate) fn hint(given: &str, names: &[&str]) -> String {
    let nearest = names
        .iter()
        .map(|name| (strsim::jaro_winkler(given, name), name))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((similarity, name)) if similarity >= 0.75 => format!("did you mean \"{name}\"?"),
        Some(_) => format!("expected one of {}", names.join(", ")),
        None => "it takes none".to_owned(),
    }
}

/// A user's parameters after the check, with defaults filled in.
pub(crate) struct Values(Map<String, Value>);

impl Values {
    pub(crate) fn check(info: &QueueInfo, given: &Map<String, Value>) -> Result<Self, BuildError> {
        let mut values: Map<String, Value> =
            info.params.iter().map(|p| (p.name.to_owned(), p.default.clone())).collect();
        for (key, value) in given {
            let Some(param) = info.params.iter().find(|p| p.name == key) else {
                let names: Vec<&str> = info.params.iter().map(|p| p.name).collect();
                return Err(BuildError::UnknownParameter {
                    kind: info.name,
                    key: key.clone(),
                    hint: hint(key, &names),
                });
            };
            let switched_off = value.is_null() && param.default.is_null();
            if !switched_off && !param.accepts(value) {
                return Err(BuildError::InvalidValue {
                    kind: info.name,
                    key: param.name,
                    value: value.to_string(),
                    expected: param.expected(),
                });
            }
            values.insert(key.clone(), value.clone());
        }
        Ok(Self(values))
    }

    /// `None` where the parameter is off.
    pub(crate) fn optional(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    /// A whole number whose default is not `null`.
    pub(crate) fn whole(&self, name: &str) -> u64 {
        self.optional(name).unwrap_or_default()
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        self.0[name].as_f64().unwrap_or_default()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }
}
