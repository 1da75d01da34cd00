//! Constants of BBR version 1, all parameters.

use super::NAME;
use crate::event::Nanos;
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;

/// 2/ln 2 and its inverse in the 8-bit fixed point of Linux: 739/256 and 88/256.
const STARTUP_GAIN: f64 = 739.0 / 256.0;
const DRAIN_GAIN: f64 = 88.0 / 256.0;

pub(crate) fn info() -> ControllerInfo {
    let gain = (0.01, 100.0);
    let time = (0.0, 1e15);
    ControllerInfo {
        name: NAME,
        summary: "model of bottleneck bandwidth and propagation time (BBR version 1)",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00, Linux",
        signals: &["delivery-rate", "rtt", "loss"],
        params: vec![
            ParamInfo::new(
                "startup_gain",
                "number",
                STARTUP_GAIN,
                gain,
                "pacing and window gain in Startup",
            ),
            ParamInfo::new("drain_gain", "number", DRAIN_GAIN, gain, "pacing gain in Drain"),
            ParamInfo::new("cwnd_gain", "number", 2.0, gain, "window gain in ProbeBW"),
            ParamInfo::new(
                "probe_up_gain",
                "number",
                1.25,
                gain,
                "pacing gain of the probing phase",
            ),
            ParamInfo::new(
                "probe_down_gain",
                "number",
                0.75,
                gain,
                "pacing gain of the draining phase",
            ),
            ParamInfo::new(
                "bw_window",
                "count",
                10,
                (1.0, 1e6),
                "rounds over which the bandwidth is a maximum",
            ),
            ParamInfo::new(
                "min_rtt_window",
                "time",
                10_000_000_000_u64,
                time,
                "time after which the minimum RTT is measured again",
            ),
            ParamInfo::new(
                "probe_rtt_duration",
                "time",
                200_000_000,
                time,
                "time at the smallest window in ProbeRTT; 0: no ProbeRTT",
            ),
            ParamInfo::new("min_cwnd", "segments", 4, (1.0, 1e6), "smallest window"),
            ParamInfo::new(
                "full_bw_growth",
                "number",
                1.25,
                (1.0, 100.0),
                "growth of bandwidth per round below which the pipe may be full",
            ),
            ParamInfo::new(
                "full_bw_rounds",
                "count",
                3,
                (1.0, 1e6),
                "rounds without such growth that end Startup",
            ),
            ParamInfo::new(
                "pacing_margin",
                "fraction",
                0.01,
                (0.0, 0.9),
                "pace this much below gain * bandwidth",
            ),
            ParamInfo::new(
                "extra_acked_gain",
                "number",
                1.0,
                (0.0, 100.0),
                "share of the ACK aggregation added to the window",
            ),
            ParamInfo::new(
                "extra_acked_window",
                "count",
                5,
                (1.0, 1e6),
                "rounds after which half the aggregation window is forgotten",
            ),
            ParamInfo::new(
                "extra_acked_max",
                "time",
                100_000_000,
                time,
                "aggregation at most, as time at the bandwidth",
            ),
            ParamInfo::flag(
                "policer",
                true,
                "detect a policer and hold its rate (long-term bandwidth)",
            ),
            ParamInfo::new(
                "policer_min_rounds",
                "count",
                4,
                (1.0, 1e6),
                "rounds of a sampling interval at least; four times that at most",
            ),
            ParamInfo::new(
                "policer_loss",
                "fraction",
                50.0 / 256.0,
                (0.0, 1.0),
                "lost/delivered of an interval that looks policed",
            ),
            ParamInfo::new(
                "policer_ratio",
                "fraction",
                0.125,
                (0.0, 1.0),
                "relative difference of two intervals at most",
            ),
            ParamInfo::new(
                "policer_difference",
                "rate",
                4000.0,
                (0.0, 1e15),
                "or absolute difference at most",
            ),
            ParamInfo::new(
                "policer_rounds",
                "count",
                48,
                (1.0, 1e6),
                "rounds to hold the rate found",
            ),
        ],
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) startup_gain: f64,
    pub(super) drain_gain: f64,
    pub(super) cwnd_gain: f64,
    pub(super) probe_up_gain: f64,
    pub(super) probe_down_gain: f64,
    pub(super) bw_window: u64,
    pub(super) min_rtt_window: Nanos,
    pub(super) probe_rtt_duration: Nanos,
    /// Segments.
    pub(super) min_cwnd: u64,
    pub(super) full_bw_growth: f64,
    pub(super) full_bw_rounds: u64,
    pub(super) pacing_margin: f64,
    pub(super) extra_acked_gain: f64,
    pub(super) extra_acked_window: u64,
    pub(super) extra_acked_max: Nanos,
    pub(super) policer: bool,
    pub(super) policer_min_rounds: u64,
    pub(super) policer_loss: f64,
    pub(super) policer_ratio: f64,
    /// Bytes per second.
    pub(super) policer_difference: f64,
    pub(super) policer_rounds: u64,
}

impl Settings {
    pub(super) fn new(params: &Params) -> Self {
        Self {
            startup_gain: params.number("startup_gain"),
            drain_gain: params.number("drain_gain"),
            cwnd_gain: params.number("cwnd_gain"),
            probe_up_gain: params.number("probe_up_gain"),
            probe_down_gain: params.number("probe_down_gain"),
            bw_window: params.count("bw_window"),
            min_rtt_window: params.time("min_rtt_window"),
            probe_rtt_duration: params.time("probe_rtt_duration"),
            min_cwnd: params.count("min_cwnd"),
            full_bw_growth: params.number("full_bw_growth"),
            full_bw_rounds: params.count("full_bw_rounds"),
            pacing_margin: params.number("pacing_margin"),
            extra_acked_gain: params.number("extra_acked_gain"),
            extra_acked_window: params.count("extra_acked_window"),
            extra_acked_max: params.time("extra_acked_max"),
            policer: params.flag("policer"),
            policer_min_rounds: params.count("policer_min_rounds"),
            policer_loss: params.number("policer_loss"),
            policer_ratio: params.number("policer_ratio"),
            policer_difference: params.number("policer_difference") / 8.0,
            policer_rounds: params.count("policer_rounds"),
        }
    }
}
