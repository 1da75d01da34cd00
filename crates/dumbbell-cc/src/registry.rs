//! All controllers by name.

use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::params::{ParamInfo, Params};
use crate::{
    Controller, bbr, bbr3, bic, cdg, copa, ctcp, cubic, cubic_sce, dctcp, dctcp_sce, fast, fast_at,
    fixed, highspeed, htcp, hybla, illinois, ledbat, ledbat_pp, lp, nv, prague, rate, reno,
    reno_sce, scalable, scalable_classic, vegas, veno, vivace, westwood, xcp, yeah,
};

/// What a controller may steer by: loss; ECN marks as one congestion event a round trip, or the
/// fraction of data that is marked CE; SCE marks; routers' feedback in a congestion header; round-trip
/// times; delivery rates; nothing.
pub const SIGNALS: &[&str] =
    &["loss", "ecn", "ce-fraction", "sce", "feedback", "rtt", "delivery-rate", "none"];

/// What is known of a controller before it is built.
#[derive(Clone, Debug, Serialize)]
pub struct ControllerInfo {
    pub name: &'static str,
    pub summary: &'static str,
    /// RFC, draft, paper or implementation that defines it.
    pub source: &'static str,
    /// What it steers by, among [`SIGNALS`].
    pub signals: &'static [&'static str],
    pub params: Vec<ParamInfo>,
}

/// A controller that cannot be built as asked. `Display` is one line naming the key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    #[error("unknown congestion controller {kind:?}: {hint}")]
    UnknownKind { kind: String, hint: String },
    #[error("unknown coupling {kind:?}: {hint}")]
    UnknownCoupling { kind: String, hint: String },
    #[error("{kind}: its window cannot be set, so it cannot be shared by coupling {coupling:?}")]
    NotCoupled { kind: &'static str, coupling: &'static str },
    #[error("{kind}: unknown parameter {name:?}: {hint}")]
    UnknownParameter { kind: &'static str, name: String, hint: String },
    #[error("{kind}: {name} = {value}: expected {expected}")]
    Invalid { kind: &'static str, name: &'static str, value: String, expected: String },
}

impl BuildError {
    pub(crate) fn unknown_parameter<'a>(
        kind: &'static str,
        name: &str,
        nearest: Option<&str>,
        all: impl Iterator<Item = &'a str>,
    ) -> Self {
        Self::UnknownParameter { kind, name: name.into(), hint: hint(nearest, all) }
    }
}

/// Least Jaro-Winkler similarity at which a name is offered in place of a misspelt one.
const SIMILAR: f64 = 0.7;

/// The most similar of `names`, if any is similar at all.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    names
        .map(|name| (strsim::jaro_winkler(&wanted, name), name))
        .filter(|(score, _)| *score >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The entry of this name in a list of what there is.
///
/// # Errors
/// The end of an error line about an unknown name: the nearest one, or all there are.
pub fn find<'a, T>(
    entries: &'a [T],
    name: fn(&T) -> &'static str,
    wanted: &str,
) -> Result<&'a T, String> {
    let names = || entries.iter().map(name);
    let found = entries.iter().find(|entry| name(entry) == wanted);
    found.ok_or_else(|| hint(nearest(wanted, names()), names()))
}

fn hint<'a>(nearest: Option<&str>, all: impl Iterator<Item = &'a str>) -> String {
    nearest.map_or_else(
        || {
            let all: Vec<_> = all.collect();
            if all.is_empty() {
                "it takes none".into()
            } else {
                format!("expected one of {}", all.join(", "))
            }
        },
        |name| format!("did you mean {name:?}?"),
    )
}

struct Entry {
    name: &'static str,
    info: fn() -> ControllerInfo,
    build: fn(&Params, u64) -> Box<dyn Controller>,
}

const CONTROLLERS: &[Entry] = &[
    Entry { name: bbr::NAME, info: bbr::info, build: bbr::build },
    Entry { name: bbr3::NAME, info: bbr3::info, build: bbr3::build },
    Entry { name: bic::NAME, info: bic::info, build: bic::build },
    Entry { name: cdg::NAME, info: cdg::info, build: cdg::build },
    Entry { name: copa::NAME, info: copa::info, build: copa::build },
    Entry { name: ctcp::NAME, info: ctcp::info, build: ctcp::build },
    Entry { name: cubic::NAME, info: cubic::info, build: cubic::build },
    Entry { name: cubic_sce::NAME, info: cubic_sce::info, build: cubic_sce::build },
    Entry { name: dctcp::NAME, info: dctcp::info, build: dctcp::build },
    Entry { name: dctcp_sce::NAME, info: dctcp_sce::info, build: dctcp_sce::build },
    Entry { name: fast::NAME, info: fast::info, build: fast::build },
    Entry { name: fast_at::NAME, info: fast_at::info, build: fast_at::build },
    Entry { name: fixed::NAME, info: fixed::info, build: fixed::build },
    Entry { name: highspeed::NAME, info: highspeed::info, build: highspeed::build },
    Entry { name: htcp::NAME, info: htcp::info, build: htcp::build },
    Entry { name: hybla::NAME, info: hybla::info, build: hybla::build },
    Entry { name: illinois::NAME, info: illinois::info, build: illinois::build },
    Entry { name: ledbat::NAME, info: ledbat::info, build: ledbat::build },
    Entry { name: ledbat_pp::NAME, info: ledbat_pp::info, build: ledbat_pp::build },
    Entry { name: lp::NAME, info: lp::info, build: lp::build },
    Entry { name: nv::NAME, info: nv::info, build: nv::build },
    Entry { name: prague::NAME, info: prague::info, build: prague::build },
    Entry { name: rate::NAME, info: rate::info, build: rate::build },
    Entry { name: reno::NAME, info: reno::info, build: reno::build },
    Entry { name: reno_sce::NAME, info: reno_sce::info, build: reno_sce::build },
    Entry { name: scalable::NAME, info: scalable::info, build: scalable::build },
    Entry {
        name: scalable_classic::NAME,
        info: scalable_classic::info,
        build: scalable_classic::build,
    },
    Entry { name: vegas::NAME, info: vegas::info, build: vegas::build },
    Entry { name: veno::NAME, info: veno::info, build: veno::build },
    Entry { name: vivace::NAME, info: vivace::info, build: vivace::build },
    Entry { name: westwood::NAME, info: westwood::info, build: westwood::build },
    Entry { name: xcp::NAME, info: xcp::info, build: xcp::build },
    Entry { name: yeah::NAME, info: yeah::info, build: yeah::build },
];

/// All controllers with their parameters, in the order of their names.
pub fn list() -> Vec<ControllerInfo> {
    CONTROLLERS.iter().map(|entry| (entry.info)()).collect()
}

/// A controller with checked parameters, to be built as often as connections open. `C` is what is
/// built; transports may have controllers of their own.
pub struct Recipe<C: ?Sized = dyn Controller> {
    params: Params,
    build: fn(&Params, u64) -> Box<C>,
}

impl Recipe {
    /// Check the parameters of the controller called `kind`: canonical numbers (ns, bytes, bit/s).
    ///
    /// # Errors
    /// An unknown kind or parameter (with the nearest known name), or a value outside its range.
    pub fn new(kind: &str, params: &Map<String, Value>) -> Result<Self, BuildError> {
        let entry = find(CONTROLLERS, |entry| entry.name, kind)
            .map_err(|hint| BuildError::UnknownKind { kind: kind.into(), hint })?;
        Ok(Self::of(Params::check(entry.name, &(entry.info)().params, params)?, entry.build))
    }
}

impl<C: ?Sized> Recipe<C> {
    /// What `build` makes of `params` and a seed.
    pub fn of(params: Params, build: fn(&Params, u64) -> Box<C>) -> Self {
        Self { params, build }
    }

    /// The parameters as the controller gets them, defaults filled in.
    pub fn params(&self) -> Map<String, Value> {
        self.params.all()
    }

    /// A controller whose own random stream, if it has one, starts from `seed`.
    pub fn build(&self, seed: u64) -> Box<C> {
        (self.build)(&self.params, seed)
    }
}

/// Build one controller: [`Recipe::new`], then [`Recipe::build`].
///
/// # Errors
/// As [`Recipe::new`].
pub fn build(
    kind: &str,
    params: &Map<String, Value>,
    seed: u64,
) -> Result<Box<dyn Controller>, BuildError> {
    Recipe::new(kind, params).map(|recipe| recipe.build(seed))
}
