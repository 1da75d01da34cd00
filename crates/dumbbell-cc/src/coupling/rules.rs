//! How ways to share one window differ, and the options for it.

use crate::{Nanos, ParamInfo, Params};

/// What a member's controller sees as its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steers {
    Whole,
    Share,
}

/// Who starts again from one segment after a retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    /// All members.
    Whole,
    /// The member: the window loses what its share does.
    Share,
    /// The member, which leaves the others' window as it is and returns when it has reached its share.
    Alone,
}

/// How one way to share differs from another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) steers: Steers,
    /// Shares go by priority; otherwise they are equal.
    pub(super) weighted: bool,
    /// In avoidance, growth of a member counts for its part in the group only, so that all together grow
    /// as one connection.
    pub(super) grows_as_one: bool,
    /// A reduction of one member is one of the whole window, by the same factor.
    pub(super) cuts_whole: bool,
    pub(super) restart: Restart,
    /// What a member with nothing to send does not use is the others'.
    pub(super) lends: bool,
    /// The window outlives the last member.
    pub(super) keeps: bool,
    /// The window halves as often as this has passed without a member sending; 0: never.
    pub(super) idle_halving: Nanos,
    /// Segments by which a member's window may rise on an ACK beyond what it acknowledges; 0: any.
    pub(super) burst: u64,
}

pub(super) fn lend_option(default: bool) -> ParamInfo {
    ParamInfo::flag(
        "lend",
        default,
        "members that have nothing in flight and nothing to send leave their share to the others",
    )
}

pub(super) fn burst_option(default: u64) -> ParamInfo {
    ParamInfo::new(
        "burst",
        "segments",
        default,
        (0.0, 1000.0),
        "most by which an ACK may raise a member's window beyond what it acknowledges, so that a share that \
         has become larger is not sent as one burst; 0: no limit",
    )
}

/// Of [`one_connection`].
pub(super) fn one_connection_options() -> Vec<ParamInfo> {
    let mut options = vec![lend_option(true)];
    options.extend(keep_options());
    options.push(burst_option(0));
    options
}

fn keep_options() -> [ParamInfo; 2] {
    [
        ParamInfo::flag("keep", true, "the window outlives the last member, for those that follow"),
        ParamInfo::new(
            "idle_halving",
            "time",
            1_000_000_000_u64,
            (0.0, 3.6e12),
            "the window halves as often as this has passed without a packet, down to an initial window; 0: \
             never. A retransmission timeout's time in the design, here a constant",
        ),
    ]
}

impl Rules {
    /// Read what [`lend_option`], [`burst_option`] and, if there, [`keep_options`] describe.
    pub(super) fn options(mut self, params: &Params) -> Self {
        self.lends = params.flag("lend");
        self.burst = params.count("burst");
        if params.has("keep") {
            self.keeps = params.flag("keep");
            self.idle_halving = params.time("idle_halving");
        }
        self
    }
}
