//! Packet-level simulation in virtual time.

pub mod config;
mod engine;
mod output;

pub use config::Config;
pub use engine::{CustomControllers, NoCustomControllers, Progress, RunError, run};
pub use output::{
    Column, FlowSummary, LinkSummary, Output, ProbeSummary, Quantiles, Summary, Table, Totals,
};
