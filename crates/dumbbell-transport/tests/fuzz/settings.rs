//! Options and parameters from a few bytes, each within its range.

use std::sync::Arc;

use dumbbell_cc::ParamInfo;
use dumbbell_transport::rtp::source::SourceConfig;
use serde_json::{Map, Value, json};

/// Which parameter, how its value is chosen, and the value.
pub(crate) type Choice = (u8, u8, u16);

/// Numbers of things that take memory and time are drawn up to here.
const MOST_PACKETS: f64 = 4096.0;
const MOST_BYTES: f64 = 16_777_216.0;

/// The lowest value allowed, the highest, or one between: evenly, or by orders of magnitude.
fn number(info: &ParamInfo, how: u8, word: u16) -> f64 {
    let most = match info.unit {
        "packets" | "segments" | "count" => MOST_PACKETS,
        "bytes" => MOST_BYTES,
        _ => f64::INFINITY,
    };
    let low = info.minimum.unwrap_or(0.0);
    let high = info.maximum.unwrap_or(1e12).min(most).max(low);
    let part = f64::from(word) / f64::from(u16::MAX);
    match how % 4 {
        0 => low,
        1 => high,
        2 => low + (high - low) * part,
        _ => (low + (high - low) * 10_f64.powf(-12.0 * part)).min(high),
    }
}

fn value(info: &ParamInfo, how: u8, word: u16) -> Value {
    match info.unit {
        "bool" => json!(word % 2 == 1),
        "choice" => json!(info.choices[usize::from(word) % info.choices.len()]),
        "fraction" | "number" | "rate" => json!(number(info, how, word)),
        _ => json!(number(info, how, word) as u64),
    }
}

/// Values of some of the parameters.
pub(crate) fn chosen(infos: &[ParamInfo], choices: &[Choice]) -> Map<String, Value> {
    let mut values = Map::new();
    for &(which, how, word) in choices.iter().filter(|_| !infos.is_empty()) {
        let info = &infos[usize::from(which) % infos.len()];
        values.insert(info.name.to_owned(), value(info, how, word));
    }
    values
}

/// One of some sources of media.
pub(crate) fn source(which: u8) -> Arc<SourceConfig> {
    let sources = [
        r#"{"source": {"model": "video"}}"#,
        r#"{"source": {"model": "video", "fps": 1000, "max_bps": 1e8, "largest_step": 0.1},
            "pauses_ns": [[0, 5], [1000000, 3000000000]]}"#,
        r#"{"source": {"model": "content"}}"#,
        r#"{"source": {"model": "audio"}}"#,
        r#"{"source": {"model": "trace", "levels": [
            {"bps": 1e5, "bytes": [0, 400, 70000], "interval_ns": [1, 40000000, 1]},
            {"bps": 2e5, "bytes": [1, 800, 90000], "interval_ns": [1, 40000000, 7]}]}}"#,
    ];
    let config = sources[usize::from(which >> 4) % sources.len()];
    let config: SourceConfig = serde_json::from_str(config).expect("it is a source");
    config.check().expect("it is a valid source");
    Arc::new(config)
}
