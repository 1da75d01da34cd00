//! Constants of BBR version 3, all parameters: those of the draft, or of Linux where they differ.

use super::NAME;
use crate::event::Nanos;
use crate::params::{ParamInfo, Params};
use crate::registry::ControllerInfo;

/// 4 ln 2.
const STARTUP_GAIN: f64 = 4.0 * std::f64::consts::LN_2;

const GAIN: (f64, f64) = (0.01, 100.0);
const FRACTION: (f64, f64) = (0.0, 1.0);
const TIME: (f64, f64) = (0.0, 1e15);
const COUNT: (f64, f64) = (1.0, 1e6);

pub(crate) fn info() -> ControllerInfo {
    let mut params = vec![ParamInfo::choice(
        "constants",
        &["draft", "linux"],
        "draft",
        "whose constants are the defaults of the other parameters",
    )];
    params.extend(gains());
    params.extend(windows());
    params.extend(losses());
    params.extend(marks());
    ControllerInfo {
        name: NAME,
        summary: "model of bandwidth, propagation time and safe data in flight (BBR version 3)",
        source: "draft-ietf-ccwg-bbr; ECN: Linux (BBRv3)",
        signals: &["delivery-rate", "rtt", "loss", "ce-fraction"],
        params,
    }
}

fn gains() -> Vec<ParamInfo> {
    vec![
        ParamInfo::new("startup_gain", "number", STARTUP_GAIN, GAIN, "pacing gain in Startup"),
        ParamInfo::new("drain_gain", "number", 0.5, GAIN, "pacing gain in Drain; Linux: ln 2 / 2")
            .default_where("constants", "linux", 1000.0 / 2885.0),
        ParamInfo::new(
            "drain_rounds",
            "count",
            3,
            (0.0, 1e6),
            "rounds after which Drain ends in any case; 0: never, as in Linux",
        )
        .default_where("constants", "linux", 0),
        ParamInfo::new("cwnd_gain", "number", 2.0, GAIN, "window gain in all states but these"),
        ParamInfo::new("probe_up_cwnd_gain", "number", 2.25, GAIN, "window gain in ProbeBW_UP"),
        ParamInfo::new("probe_up_gain", "number", 1.25, GAIN, "pacing gain in ProbeBW_UP"),
        ParamInfo::new(
            "probe_down_gain",
            "number",
            0.9,
            GAIN,
            "pacing gain in ProbeBW_DOWN; Linux: 0.91",
        )
        .default_where("constants", "linux", 0.91),
        ParamInfo::new(
            "probe_rtt_cwnd_gain",
            "number",
            0.5,
            GAIN,
            "data in flight in ProbeRTT, in bandwidth-delay products",
        ),
        ParamInfo::new(
            "pacing_margin",
            "fraction",
            0.01,
            (0.0, 0.9),
            "pace this much below gain * bandwidth",
        ),
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
            COUNT,
            "rounds without such growth that end Startup and ProbeBW_UP",
        ),
    ]
}

fn windows() -> Vec<ParamInfo> {
    vec![
        ParamInfo::new(
            "min_cwnd",
            "segments",
            4,
            COUNT,
            "smallest window that keeps the pipe busy",
        ),
        ParamInfo::new(
            "offload_quanta",
            "count",
            3,
            COUNT,
            "bursts that the window holds at least: 3 for TCP, 1 for QUIC",
        ),
        ParamInfo::new(
            "min_rtt_window",
            "time",
            10_000_000_000_u64,
            TIME,
            "time over which the RTT is a minimum",
        ),
        ParamInfo::new(
            "probe_rtt_interval",
            "time",
            5_000_000_000_u64,
            TIME,
            "time without a new least RTT after which ProbeRTT comes",
        ),
        ParamInfo::new(
            "probe_rtt_duration",
            "time",
            200_000_000,
            TIME,
            "time in ProbeRTT at least; 0: no ProbeRTT",
        ),
        ParamInfo::new(
            "probe_wait",
            "time",
            2_000_000_000_u64,
            TIME,
            "time between bandwidth probes at least",
        ),
        ParamInfo::new(
            "probe_wait_spread",
            "time",
            1_000_000_000,
            TIME,
            "and at random up to this much more",
        ),
        ParamInfo::new(
            "probe_max_rounds",
            "count",
            63,
            COUNT,
            "rounds between bandwidth probes at most, for the sake of Reno flows",
        ),
        ParamInfo::new(
            "extra_acked_window",
            "count",
            10,
            COUNT,
            "rounds over which ACK aggregation is a maximum, after Startup; Linux: 5",
        )
        .default_where("constants", "linux", 5),
        ParamInfo::new(
            "extra_acked_max",
            "time",
            0,
            TIME,
            "aggregation at most, as time at the bandwidth; 0: any; Linux: 100 ms",
        )
        .default_where("constants", "linux", 100_000_000),
    ]
}

fn losses() -> Vec<ParamInfo> {
    vec![
        ParamInfo::new(
            "loss_threshold",
            "fraction",
            0.02,
            FRACTION,
            "loss rate of a round that is too high",
        ),
        ParamInfo::new(
            "beta",
            "fraction",
            0.7,
            FRACTION,
            "least share of a bound that is left after a cut",
        ),
        ParamInfo::new(
            "headroom",
            "fraction",
            0.15,
            FRACTION,
            "share of inflight_longterm left free while cruising",
        ),
        ParamInfo::new(
            "startup_full_loss_count",
            "count",
            6,
            COUNT,
            "ranges lost in a round that may end Startup",
        ),
    ]
}

fn marks() -> Vec<ParamInfo> {
    vec![
        ParamInfo::choice(
            "ecn",
            &["scaled", "loss", "off"],
            "scaled",
            "answer to marks: cut by their share (Linux), as to a loss, or not ECN-capable",
        ),
        ParamInfo::new(
            "ecn_max_rtt",
            "time",
            5_000_000,
            TIME,
            "largest least RTT at which the answer is scaled; 0: any",
        ),
        ParamInfo::choice(
            "ecn_beyond",
            &["loss", "ignore"],
            "loss",
            "marks beyond that RTT: as a loss, for the draft wants an answer; Linux: ignore",
        )
        .default_where("constants", "linux", "ignore"),
        ParamInfo::new(
            "ecn_threshold",
            "fraction",
            0.5,
            FRACTION,
            "share of marked data that is too high",
        ),
        ParamInfo::new(
            "ecn_factor",
            "fraction",
            1.0 / 3.0,
            FRACTION,
            "cut of inflight_shortterm in a round with marks, times alpha",
        ),
        ParamInfo::new(
            "ecn_alpha_gain",
            "fraction",
            1.0 / 16.0,
            FRACTION,
            "weight of a round in alpha, the mean share of marked data",
        ),
        ParamInfo::new(
            "ecn_startup_rounds",
            "count",
            2,
            COUNT,
            "rounds in a row above the threshold that end Startup",
        ),
        ParamInfo::new(
            "ecn_reprobe_gain",
            "fraction",
            0.5,
            FRACTION,
            "first growth of a probe after marks cease, in inflight_longterm; 0: no such probe",
        ),
    ]
}

/// What marks call for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkResponse {
    Scaled,
    AsLoss,
    Nothing,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) startup_gain: f64,
    pub(super) drain_gain: f64,
    pub(super) drain_rounds: u64,
    pub(super) cwnd_gain: f64,
    pub(super) probe_up_cwnd_gain: f64,
    pub(super) probe_up_gain: f64,
    pub(super) probe_down_gain: f64,
    pub(super) probe_rtt_cwnd_gain: f64,
    pub(super) pacing_margin: f64,
    pub(super) full_bw_growth: f64,
    pub(super) full_bw_rounds: u64,
    /// Segments.
    pub(super) min_cwnd: u64,
    pub(super) offload_quanta: u64,
    pub(super) min_rtt_window: Nanos,
    pub(super) probe_rtt_interval: Nanos,
    pub(super) probe_rtt_duration: Nanos,
    pub(super) probe_wait: Nanos,
    pub(super) probe_wait_spread: Nanos,
    pub(super) probe_max_rounds: u64,
    pub(super) extra_acked_window: u64,
    pub(super) extra_acked_max: Nanos,
    pub(super) loss_threshold: f64,
    pub(super) beta: f64,
    pub(super) headroom: f64,
    pub(super) startup_full_loss_count: u64,
    /// Data may be ECN-capable.
    pub(super) ecn: bool,
    /// Answer at an RTT of at most `ecn_max_rtt`, and beyond.
    pub(super) ecn_near: MarkResponse,
    pub(super) ecn_beyond: MarkResponse,
    pub(super) ecn_max_rtt: Nanos,
    pub(super) ecn_threshold: f64,
    pub(super) ecn_factor: f64,
    pub(super) ecn_alpha_gain: f64,
    pub(super) ecn_startup_rounds: u64,
    pub(super) ecn_reprobe_gain: f64,
}

impl Settings {
    pub(super) fn new(params: &Params) -> Self {
        let near = match params.choice("ecn") {
            "scaled" => MarkResponse::Scaled,
            "loss" => MarkResponse::AsLoss,
            _ => MarkResponse::Nothing,
        };
        let beyond = match (near, params.choice("ecn_beyond")) {
            (MarkResponse::Scaled, "ignore") | (MarkResponse::Nothing, _) => MarkResponse::Nothing,
            _ => MarkResponse::AsLoss,
        };
        Self {
            startup_gain: params.number("startup_gain"),
            drain_gain: params.number("drain_gain"),
            drain_rounds: params.count("drain_rounds"),
            cwnd_gain: params.number("cwnd_gain"),
            probe_up_cwnd_gain: params.number("probe_up_cwnd_gain"),
            probe_up_gain: params.number("probe_up_gain"),
            probe_down_gain: params.number("probe_down_gain"),
            probe_rtt_cwnd_gain: params.number("probe_rtt_cwnd_gain"),
            pacing_margin: params.number("pacing_margin"),
            full_bw_growth: params.number("full_bw_growth"),
            full_bw_rounds: params.count("full_bw_rounds"),
            min_cwnd: params.count("min_cwnd"),
            offload_quanta: params.count("offload_quanta"),
            min_rtt_window: params.time("min_rtt_window"),
            probe_rtt_interval: params.time("probe_rtt_interval"),
            probe_rtt_duration: params.time("probe_rtt_duration"),
            probe_wait: params.time("probe_wait"),
            probe_wait_spread: params.time("probe_wait_spread"),
            probe_max_rounds: params.count("probe_max_rounds"),
            extra_acked_window: params.count("extra_acked_window"),
            extra_acked_max: params.time("extra_acked_max"),
            loss_threshold: params.number("loss_threshold"),
            beta: params.number("beta"),
            headroom: params.number("headroom"),
            startup_full_loss_count: params.count("startup_full_loss_count"),
            ecn: near != MarkResponse::Nothing,
            ecn_near: near,
            ecn_beyond: beyond,
            ecn_max_rtt: params.time("ecn_max_rtt"),
            ecn_threshold: params.number("ecn_threshold"),
            ecn_factor: params.number("ecn_factor"),
            ecn_alpha_gain: params.number("ecn_alpha_gain"),
            ecn_startup_rounds: params.count("ecn_startup_rounds"),
            ecn_reprobe_gain: params.number("ecn_reprobe_gain"),
        }
    }
}
