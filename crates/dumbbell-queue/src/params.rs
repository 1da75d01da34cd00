//! Parameters of queue disciplines: their description, and the check of what a user gave.

use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{Built, Packet, registry};

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
    /// Bits per second; where a scenario does not give it, the rate of the queue's own link.
    LinkRate,
    Fraction,
    Number,
    Count,
    Bool,
    Choice,
    /// A list of DSCPs, 0 to 63.
    Dscps,
    /// A queue inside this one: an object with `kind` and `params`.
    Queue,
    /// A list of objects, one for each class, whose keys are the queue's class parameters.
    Classes,
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

    /// One of some names; the first is the default.
    pub(crate) fn choice(name: &'static str, choices: &[&'static str], doc: &'static str) -> Self {
        let mut info = Self::new(name, Unit::Choice, choices[0], doc);
        info.choices = choices.to_vec();
        info
    }

    /// A queue inside this one, by default a plain FIFO.
    pub(crate) fn child(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Unit::Queue, serde_json::json!({"kind": "fifo", "params": {}}), doc)
    }

    pub(crate) fn at_most(mut self, maximum: f64) -> Self {
        self.maximum = Some(maximum);
        self
    }

    fn accepts(&self, value: &Value) -> bool {
        let right_type = match self.unit {
            Unit::Bool => return value.is_boolean(),
            Unit::Dscps => {
                let dscp = |v: &Value| v.as_u64().is_some_and(|v| v < 64);
                return value.as_array().is_some_and(|list| list.iter().all(dscp));
            }
            Unit::Queue => return value.get("kind").is_some_and(Value::is_string),
            Unit::Classes => {
                return value.as_array().is_some_and(|list| list.iter().all(Value::is_object));
            }
            Unit::Choice => return value.as_str().is_some_and(|v| self.choices.contains(&v)),
            Unit::Fraction | Unit::Number => value.is_number(),
            Unit::Time
            | Unit::Bytes
            | Unit::Packets
            | Unit::Segments
            | Unit::Rate
            | Unit::LinkRate
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
            Unit::Dscps => return "a list of DSCPs from 0 to 63".to_owned(),
            Unit::Queue => return "a queue with its kind".to_owned(),
            Unit::Classes => return "a list of classes".to_owned(),
            Unit::Time => "a whole number of nanoseconds",
            Unit::Bytes => "a whole number of bytes",
            Unit::Packets => "a whole number of packets",
            Unit::Segments => "a whole number of segments",
            Unit::Rate | Unit::LinkRate => "a whole number of bits per second",
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
    /// What each of its classes takes; empty where it has none.
    pub classes: Vec<ParamInfo>,
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
    /// In a queue or class inside another.
    #[error("{place}: {error}")]
    Within { place: String, error: Box<Self> },
}

impl BuildError {
    /// The key at fault, `kind` for an unknown queue.
    pub fn key(&self) -> &str {
        match self {
            Self::UnknownKind { .. } => "kind",
            Self::UnknownParameter { key, .. } => key,
            Self::InvalidValue { key, .. } => key,
            Self::Within { error, .. } => error.key(),
        }
    }

    pub(crate) fn within(self, place: String) -> Self {
        Self::Within { place, error: Box::new(self) }
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
#[derive(Clone, Debug)]
pub(crate) struct Values {
    kind: &'static str,
    values: Map<String, Value>,
}

impl Values {
    pub(crate) fn check(info: &QueueInfo, given: &Map<String, Value>) -> Result<Self, BuildError> {
        Self::check_against(info.name, &info.params, given)
    }

    fn check_against(
        kind: &'static str,
        params: &[ParamInfo],
        given: &Map<String, Value>,
    ) -> Result<Self, BuildError> {
        let mut values: Map<String, Value> =
            params.iter().map(|p| (p.name.to_owned(), p.default.clone())).collect();
        for (key, value) in given {
            let Some(param) = params.iter().find(|p| p.name == key) else {
                let names: Vec<&str> = params.iter().map(|p| p.name).collect();
                return Err(BuildError::UnknownParameter {
                    kind,
                    key: key.clone(),
                    hint: hint(key, &names),
                });
            };
            let switched_off = value.is_null() && param.default.is_null();
            if !switched_off && !param.accepts(value) {
                return Err(BuildError::InvalidValue {
                    kind,
                    key: param.name,
                    value: value.to_string(),
                    expected: param.expected(),
                });
            }
            values.insert(key.clone(), value.clone());
        }
        Ok(Self { kind, values })
    }

    /// The error that a value does not agree with another.
    pub(crate) fn invalid(&self, key: &'static str, expected: impl Into<String>) -> BuildError {
        let value = self.values.get(key).map_or_else(String::new, Value::to_string);
        BuildError::InvalidValue { kind: self.kind, key, value, expected: expected.into() }
    }

    /// `None` where the parameter is off.
    pub(crate) fn optional(&self, name: &str) -> Option<u64> {
        self.values.get(name).and_then(Value::as_u64)
    }

    /// A whole number whose default is not `null`.
    pub(crate) fn whole(&self, name: &str) -> u64 {
        self.optional(name).unwrap_or_default()
    }

    /// `None` where the parameter is off.
    pub(crate) fn optional_number(&self, name: &str) -> Option<f64> {
        self.values.get(name).and_then(Value::as_f64)
    }

    /// A number whose default is not `null`.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.optional_number(name).unwrap_or_default()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.values.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn choice(&self, name: &str) -> &str {
        self.values.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A list of DSCPs.
    pub(crate) fn dscps(&self, name: &str) -> Vec<u8> {
        let list = self.values.get(name).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_u64).map(|dscp| dscp as u8).collect()
    }

    /// The queue inside this one.
    pub(crate) fn child<P: Packet + Send + 'static>(&self, name: &str, seed: u64) -> Built<P> {
        let empty = Map::new();
        let value = self.values.get(name).unwrap_or(&Value::Null);
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or("fifo");
        let params = value.get("params").and_then(Value::as_object).unwrap_or(&empty);
        registry::build(kind, params, seed).map_err(|error| error.within(name.to_owned()))
    }

    /// The parameters of each class.
    pub(crate) fn classes(
        &self,
        name: &str,
        params: &[ParamInfo],
    ) -> Result<Vec<Self>, BuildError> {
        let list = self.values.get(name).and_then(Value::as_array);
        let objects = list.into_iter().flatten().filter_map(Value::as_object).enumerate();
        objects
            .map(|(index, given)| {
                Self::check_against(self.kind, params, given)
                    .map_err(|error| error.within(format!("{name}[{index}]")))
            })
            .collect()
    }
}

/// A seed of its own for a child, by its place (splitmix64).
pub(crate) fn child_seed(seed: u64, index: usize) -> u64 {
    let mut mixed = seed.wrapping_add((index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
