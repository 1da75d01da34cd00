//! Slow start as an exchangeable part of a loss-based controller.
//!
//! The controller grows its window by [`SlowStart::growth`] on each ACK and leaves slow start, with
//! `ssthresh` = cwnd, where [`SlowStart::on_ack`] says so or where loss or a mark ends it.

pub(crate) mod careful_resume;
mod classic;
mod hystart;
mod hystart_plus_plus;
mod search;

pub use classic::Classic;
pub use hystart::{HyStart, HyStartSettings};
pub use hystart_plus_plus::{HyStartPlusPlus, HyStartPlusPlusSettings};
pub use search::{Search, SearchSettings};

use crate::event::{Ack, Nanos};
use crate::params::{ParamInfo, Params};

/// What slow start has to know of the controller that holds it.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Congestion window in segments, before this ACK's growth.
    pub cwnd: u64,
    /// Least round-trip time that the controller has seen, 0 if none.
    pub delay_min: Nanos,
    /// The sender is paced.
    pub paced: bool,
}

/// One way of doing slow start.
pub trait SlowStart: Send {
    /// An ACK arrived in slow start. `true`: leave it at the present window.
    fn on_ack(&mut self, ack: &Ack, view: &View) -> bool;

    /// Bytes by which the window grows for `acked` bytes.
    fn growth(&self, acked: u64, _mss: u64) -> u64 {
        acked
    }

    /// Bytes by which the window is too large where [`on_ack`](Self::on_ack) leaves slow start.
    fn excess(&self) -> u64 {
        0
    }

    /// Loss or a mark has ended slow start.
    fn on_congestion(&mut self) {}

    /// A timeout: slow start begins again.
    fn on_timeout(&mut self) {}

    /// Name of the phase, for recording.
    fn phase(&self) -> &'static str {
        "slow_start"
    }
}

/// Parameters of slow start, with `default` as the algorithm.
pub(crate) fn params(default: &'static str) -> Vec<ParamInfo> {
    vec![
        ParamInfo::choice(
            "hystart",
            &["classic", "hystart", "hystart++", "search"],
            default,
            "slow start: classic (RFC 5681), hystart (ACK train and delay, Linux), hystart++ (RFC 9406), search (draft-chung-ccwg-search)",
        ),
        ParamInfo::choice(
            "hystart_detect",
            &["both", "train", "delay"],
            "both",
            "hystart: which signals end slow start",
        ),
        ParamInfo::new(
            "hystart_low_window",
            "segments",
            16,
            (0.0, 1e9),
            "hystart: no exit below this window",
        ),
        ParamInfo::new(
            "hystart_ack_delta",
            "time",
            2_000_000,
            (0.0, 1e12),
            "hystart: largest spacing of the ACKs of a train",
        ),
        ParamInfo::new(
            "hystart_min_thresh",
            "time",
            4_000_000,
            (0.0, 1e12),
            "hystart and hystart++: least RTT increase that counts",
        ),
        ParamInfo::new(
            "hystart_max_thresh",
            "time",
            16_000_000,
            (0.0, 1e12),
            "hystart and hystart++: largest RTT increase needed",
        ),
        ParamInfo::new(
            "hystart_samples",
            "count",
            8,
            (1.0, 1e6),
            "hystart and hystart++: RTT samples of a round before its minimum counts",
        ),
        ParamInfo::new(
            "css_growth_divisor",
            "count",
            4,
            (2.0, 1e6),
            "hystart++: slow start's growth divided by this in CSS",
        ),
        ParamInfo::new(
            "css_rounds",
            "count",
            5,
            (1.0, 1e6),
            "hystart++: rounds of CSS before avoidance",
        ),
        ParamInfo::new(
            "hystart_l",
            "segments",
            8,
            (1.0, 1e9),
            "hystart++: growth per ACK at most, if not paced",
        ),
        ParamInfo::new(
            "search_window",
            "number",
            3.5,
            (0.1, 100.0),
            "search: first round-trip times over which delivery is compared (WINDOW_SIZE)",
        ),
        ParamInfo::new("search_bins", "count", 10, (2.0, 128.0), "search: bins of that window (W)"),
        ParamInfo::new(
            "search_extra_bins",
            "count",
            15,
            (1.0, 128.0),
            "search: bins kept beyond it, for RTTs up to that long (EXTRA_BINS)",
        ),
        ParamInfo::new(
            "search_threshold",
            "fraction",
            0.35,
            (0.01, 0.99),
            "search: shortfall from doubled delivery that ends slow start (THRESH)",
        ),
        ParamInfo::flag(
            "search_drain",
            true,
            "search: take back what was sent beyond the capacity (exit_slow_start of version 3)",
        ),
    ]
}

pub(crate) fn build(params: &Params) -> Box<dyn SlowStart> {
    match params.choice("hystart") {
        "hystart" => {
            let detect = params.choice("hystart_detect");
            Box::new(HyStart::new(HyStartSettings {
                train: detect != "delay",
                delay: detect != "train",
                low_window: params.count("hystart_low_window"),
                ack_delta: params.time("hystart_ack_delta"),
                min_thresh: params.time("hystart_min_thresh"),
                max_thresh: params.time("hystart_max_thresh"),
                samples: params.count("hystart_samples"),
            }))
        }
        "hystart++" => Box::new(HyStartPlusPlus::new(HyStartPlusPlusSettings {
            min_thresh: params.time("hystart_min_thresh"),
            max_thresh: params.time("hystart_max_thresh"),
            samples: params.count("hystart_samples"),
            css_growth_divisor: params.count("css_growth_divisor"),
            css_rounds: params.count("css_rounds"),
            l: params.count("hystart_l"),
        })),
        "search" => Box::new(Search::new(SearchSettings {
            window_factor: params.number("search_window"),
            bins: params.count("search_bins") as usize,
            extra_bins: params.count("search_extra_bins") as usize,
            threshold: params.number("search_threshold"),
            drain: params.flag("search_drain"),
        })),
        _ => Box::new(Classic),
    }
}

/// RTT increase that ends slow start for a base of `rtt`: an eighth of it within bounds.
fn rtt_threshold(rtt: Nanos, low: Nanos, high: Nanos) -> Nanos {
    (rtt / 8).min(high).max(low)
}
