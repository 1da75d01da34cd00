//! Packet-level simulation in virtual time.

mod build;
mod capacity;
mod check;
pub mod config;
mod connection;
mod coupling;
mod engine;
mod entry;
mod heap;
mod histogram;
mod impairment;
mod invariant;
mod link;
mod media;
mod output;
mod pipe;
mod probe;
mod random;
mod record;
mod ring;
mod run;
mod session;
mod traffic;
mod user_record;
mod users;

pub use config::Config;
pub use output::{
    Column, DropsByReason, Effective, EffectiveController, EffectiveOther, EffectiveTcp,
    FlowSummary, LinkSummary, MediaSummary, Output, ProbeSummary, Quantiles, Summary, Table,
    Totals,
};
pub use run::{CustomControllers, NoCustomControllers, Progress, RunError, run};
