//! Parameters of controllers and transports: their description, and checked values built from it.
//!
//! The description is the table of ranges: a value is accepted if and only if it fits its
//! [`ParamInfo`], so that whoever is built from it can read what it needs without checking again.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::event::Nanos;
use crate::registry::{BuildError, nearest};

/// One parameter.
#[derive(Clone, Debug, Serialize)]
pub struct ParamInfo {
    pub name: &'static str,
    /// "time" (ns), "bytes", "packets", "segments", "rate" (bit/s), "fraction", "number", "count",
    /// "bool" or "choice".
    pub unit: &'static str,
    pub default: Value,
    pub doc: &'static str,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub choices: Vec<&'static str>,
    /// Other default, where another parameter (a choice) has this value.
    #[serde(skip)]
    pub(crate) default_where: Option<DefaultWhere>,
}

#[derive(Clone, Debug)]
pub(crate) struct DefaultWhere {
    param: &'static str,
    choice: &'static str,
    default: Value,
}

impl ParamInfo {
    /// A parameter with values in `range` (infinite: no bound).
    pub fn new(
        name: &'static str,
        unit: &'static str,
        default: impl Into<Value>,
        range: (f64, f64),
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            unit,
            default: default.into(),
            doc,
            minimum: range.0.is_finite().then_some(range.0),
            maximum: range.1.is_finite().then_some(range.1),
            choices: Vec::new(),
            default_where: None,
        }
    }

    /// The default is another one where the parameter called `param` is `choice`.
    pub fn default_where(
        mut self,
        param: &'static str,
        choice: &'static str,
        default: impl Into<Value>,
    ) -> Self {
        self.default_where = Some(DefaultWhere { param, choice, default: default.into() });
        self
    }

    /// True or false.
    pub fn flag(name: &'static str, default: bool, doc: &'static str) -> Self {
        Self::new(name, "bool", default, (f64::NEG_INFINITY, f64::INFINITY), doc)
    }

    /// One of some words.
    pub fn choice(
        name: &'static str,
        choices: &[&'static str],
        default: &'static str,
        doc: &'static str,
    ) -> Self {
        Self {
            choices: choices.to_vec(),
            ..Self::new(name, "choice", default, (f64::NEG_INFINITY, f64::INFINITY), doc)
        }
    }

    fn is_integer(&self) -> bool {
        matches!(self.unit, "time" | "bytes" | "packets" | "segments" | "count")
    }

    fn accepts(&self, value: &Value) -> bool {
        match self.unit {
            "bool" => value.is_boolean(),
            "choice" => value.as_str().is_some_and(|s| self.choices.contains(&s)),
            _ => value.as_f64().is_some_and(|v| {
                v.is_finite()
                    && self.minimum.is_none_or(|m| v >= m)
                    && self.maximum.is_none_or(|m| v <= m)
                    && (!self.is_integer() || v.fract() == 0.0)
            }),
        }
    }

    /// What a value has to be, for the one line of an error.
    fn expected(&self) -> String {
        let what = match self.unit {
            "bool" => return "true or false".into(),
            "choice" => return format!("one of {}", self.choices.join(", ")),
            "time" => "a time in whole nanoseconds",
            "rate" => "a rate in bit/s",
            "fraction" => "a fraction",
            "number" => "a number",
            "count" => "a whole number",
            other => return self.with_range(&format!("a whole number of {other}")),
        };
        self.with_range(what)
    }

    fn with_range(&self, what: &str) -> String {
        match (self.minimum, self.maximum) {
            (Some(low), Some(high)) => format!("{what} from {low} to {high}"),
            (Some(low), None) => format!("{what} of at least {low}"),
            (None, Some(high)) => format!("{what} of at most {high}"),
            (None, None) => what.into(),
        }
    }
}

/// Checked values of all parameters, defaults filled in. Reading one that was not described, or one of
/// another kind, is a slip in the reader.
#[derive(Clone, Debug)]
pub struct Params(BTreeMap<&'static str, Value>);

impl Params {
    /// # Errors
    /// An unknown parameter (with the nearest known name), or a value outside its range.
    pub fn check(
        kind: &'static str,
        infos: &[ParamInfo],
        given: &Map<String, Value>,
    ) -> Result<Self, BuildError> {
        let mut values: BTreeMap<_, _> =
            infos.iter().map(|i| (i.name, i.default.clone())).collect();
        for (key, value) in given {
            let Some(info) = infos.iter().find(|i| i.name == key) else {
                return Err(BuildError::unknown_parameter(
                    kind,
                    key,
                    nearest(key, infos.iter().map(|i| i.name)),
                    infos.iter().map(|i| i.name),
                ));
            };
            if !info.accepts(value) {
                return Err(BuildError::Invalid {
                    kind,
                    name: info.name,
                    value: value.to_string(),
                    expected: info.expected(),
                });
            }
            values.insert(info.name, value.clone());
        }
        for info in infos.iter().filter(|info| !given.contains_key(info.name)) {
            if let Some(other) = &info.default_where
                && values.get(other.param).and_then(Value::as_str) == Some(other.choice)
            {
                values.insert(info.name, other.default.clone());
            }
        }
        Ok(Self(values))
    }

    /// All values by name.
    pub fn all(&self) -> Map<String, Value> {
        self.0.iter().map(|(&name, value)| (name.to_owned(), value.clone())).collect()
    }

    fn value(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or_else(|| panic!("parameter {name:?} is not described"))
    }

    /// Whether the controller has described such a parameter.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A "fraction", "number" or "rate".
    pub fn number(&self, name: &str) -> f64 {
        self.value(name).as_f64().unwrap_or(f64::NAN)
    }

    /// A whole number.
    pub fn count(&self, name: &str) -> u64 {
        let value = self.value(name);
        value.as_u64().unwrap_or_else(|| value.as_f64().unwrap_or(0.0) as u64)
    }

    /// Nanoseconds.
    pub fn time(&self, name: &str) -> Nanos {
        self.count(name)
    }

    /// A "bool".
    pub fn flag(&self, name: &str) -> bool {
        self.value(name).as_bool().unwrap_or(false)
    }

    /// A "choice".
    pub fn choice(&self, name: &str) -> &str {
        self.value(name).as_str().unwrap_or("")
    }
}
