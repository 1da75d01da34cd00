//! All transports beside TCP and plain datagrams, by name.

use std::sync::Arc;

use dumbbell_cc::{Controller, ParamInfo, Params, find};
use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::flow::{Ends, Pair};
use crate::plt;
use crate::rap;
use crate::rtp::control::MediaController;
use crate::rtp::controllers::{MediaRecipe, recipe as media_recipe};
use crate::rtp::source::SourceConfig;
use crate::rtp::transport as rtp;
use crate::tfrc;

/// What is known of a transport before it is built.
#[derive(Clone, Debug, Serialize)]
pub struct TransportInfo {
    pub name: &'static str,
    pub summary: &'static str,
    /// RFC, draft, paper or implementation that defines it.
    pub source: &'static str,
    /// Which controllers it takes: "window" (those of TCP), "media", or "none".
    pub controllers: &'static str,
    pub options: Vec<ParamInfo>,
}

/// A transport that cannot be built as asked. `Display` is one line naming the key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    #[error("unknown transport {kind:?}: {hint}")]
    UnknownKind { kind: String, hint: String },
    #[error(transparent)]
    Option(#[from] dumbbell_cc::BuildError),
}

/// What a transport is built from, checked.
pub struct Parts {
    pub options: Params,
    /// Of PLT's high-priority module.
    pub window: Option<dumbbell_cc::Recipe>,
    /// Of a transport for media, always.
    pub media: Option<MediaRecipe>,
    pub source: Arc<SourceConfig>,
}

/// A controller of one flow that is not built in. A transport that takes none ignores it.
pub enum Given {
    Nothing,
    Window(Box<dyn Controller>),
    Media(Box<dyn MediaController>),
}

struct Entry {
    name: &'static str,
    info: fn() -> TransportInfo,
    build: fn(&Parts, &Ends, Given) -> Pair,
}

const TRANSPORTS: &[Entry] = &[
    Entry { name: plt::NAME, info: plt::info, build: plt::build },
    Entry { name: rap::NAME, info: rap::info, build: rap::build },
    Entry { name: rtp::NAME, info: rtp::info, build: rtp::build },
    Entry { name: tfrc::NAME, info: tfrc::info, build: tfrc::build },
];

/// All transports with their options, in the order of their names.
pub fn list() -> Vec<TransportInfo> {
    TRANSPORTS.iter().map(|entry| (entry.info)()).collect()
}

/// A controller as a scenario names it.
#[derive(Clone, Copy, Debug)]
pub struct ControllerChoice<'a> {
    pub kind: &'a str,
    pub params: &'a Map<String, Value>,
}

/// Which controllers a transport takes ([`TransportInfo::controllers`]); "none" if it is unknown.
pub fn controllers_of(kind: &str) -> &'static str {
    let entry = TRANSPORTS.iter().find(|entry| entry.name == kind);
    entry.map_or("none", |entry| (entry.info)().controllers)
}

/// A transport with checked options, to be built as often as flows begin.
pub struct Recipe {
    parts: Parts,
    build: fn(&Parts, &Ends, Given) -> Pair,
}

impl Recipe {
    /// Check the options of the transport called `kind`, and its controller: canonical numbers (ns,
    /// bytes, bit/s).
    ///
    /// # Errors
    /// An unknown kind, option, controller or parameter (with the nearest known name), or a value
    /// outside its range.
    pub fn new(
        kind: &str,
        options: &Map<String, Value>,
        controller: Option<ControllerChoice>,
    ) -> Result<Self, BuildError> {
        let entry = find(TRANSPORTS, |entry| entry.name, kind)
            .map_err(|hint| BuildError::UnknownKind { kind: kind.into(), hint })?;
        let info = (entry.info)();
        let options = Params::check(entry.name, &info.options, options)?;
        let (mut window, mut media) = (None, None);
        match (info.controllers, controller) {
            ("window", Some(cc)) => window = Some(dumbbell_cc::Recipe::new(cc.kind, cc.params)?),
            ("media", cc) => {
                let default = Map::new();
                let default = ControllerChoice { kind: "nada", params: &default };
                let cc = cc.unwrap_or(default);
                media = Some(media_recipe(cc.kind, cc.params)?);
            }
            _ => {}
        }
        let parts = Parts { options, window, media, source: Arc::default() };
        Ok(Self { parts, build: entry.build })
    }

    /// What media come from; without it, synthetic video.
    pub fn with_source(mut self, source: Arc<SourceConfig>) -> Self {
        self.parts.source = source;
        self
    }

    /// The options as the transport gets them, defaults filled in.
    pub fn options(&self) -> Map<String, Value> {
        self.parts.options.all()
    }

    /// The parameters of the controller, if it takes one, defaults filled in.
    pub fn params(&self) -> Map<String, Value> {
        let window = self.parts.window.as_ref().map(dumbbell_cc::Recipe::params);
        window.or_else(|| self.parts.media.as_ref().map(MediaRecipe::params)).unwrap_or_default()
    }

    /// Both ends of a flow.
    pub fn build(&self, ends: &Ends) -> Pair {
        self.build_with(ends, Given::Nothing)
    }

    /// Both ends of a flow whose controller is not built in.
    pub fn build_with(&self, ends: &Ends, given: Given) -> Pair {
        (self.build)(&self.parts, ends, given)
    }
}
