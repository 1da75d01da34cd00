//! Events as compiled controllers see them: C structs of 64-bit integers and doubles, without gaps.
//!
//! Python gets the names, types and offsets from here ([`layout_json`]) and never writes them down.

use std::mem::{offset_of, size_of};

use dumbbell_cc as cc;
use serde::Serialize;

/// Places in a controller's own array of doubles before the fields that it declares itself.
pub(crate) const STATE: [&str; 5] =
    ["cwnd", "ssthresh", "pacing_rate", "prior_cwnd", "prior_ssthresh"];
pub(crate) const CWND: usize = 0;
pub(crate) const SSTHRESH: usize = 1;
pub(crate) const PACING_RATE: usize = 2;
pub(crate) const PRIOR_CWND: usize = 3;
pub(crate) const PRIOR_SSTHRESH: usize = 4;

#[derive(Serialize)]
struct Field {
    name: &'static str,
    /// "int64" or "float64".
    kind: &'static str,
    offset: usize,
    doc: &'static str,
}

#[derive(Serialize)]
pub(crate) struct Struct {
    /// The method that gets it.
    method: &'static str,
    size: usize,
    fields: Vec<Field>,
}

trait Kind {
    const KIND: &'static str;
}

impl Kind for i64 {
    const KIND: &'static str = "int64";
}

impl Kind for f64 {
    const KIND: &'static str = "float64";
}

macro_rules! events {
    ($($name:ident for $method:literal { $($field:ident: $type:ty = $doc:literal,)* })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Serialize)]
            pub(crate) struct $name {
                $(pub(crate) $field: $type,)*
            }
        )*

        fn structs() -> Vec<Struct> {
            vec![$(Struct {
                method: $method,
                size: size_of::<$name>(),
                fields: vec![$(Field {
                    name: stringify!($field),
                    kind: <$type as Kind>::KIND,
                    offset: offset_of!($name, $field),
                    doc: $doc,
                },)*],
            },)*]
        }
    };
}

events! {
    Start for "on_start" {
        now: i64 = "ns",
        mss: i64 = "largest payload of a segment, bytes",
        initial_window: i64 = "bytes",
        rtt: i64 = "of the handshake, ns; 0 if it was retransmitted",
        ecn: i64 = "what both ends agreed on: ECN_OFF, ECN_CLASSIC, ...",
        seed: i64 = "the flow's own, for random numbers",
    }
    Ack for "on_ack" {
        now: i64 = "ns",
        mss: i64 = "bytes",
        acked: i64 = "bytes delivered for the first time",
        lost: i64 = "bytes marked lost meanwhile",
        ce: i64 = "bytes reported as CE-marked",
        ce_packets: i64 = "packets reported as CE-marked",
        sce: i64 = "bytes delivered under the ESCE flag",
        feedback: f64 = "change of the rate that XCP's routers ask for, bytes per second",
        ecn_failed: i64 = "1 if ECN does not work on this path",
        ece: i64 = "1 if the ACK carries ECE",
        rtt: i64 = "sample of this ACK, ns; 0 if there is none",
        srtt: i64 = "ns; 0 before the first sample",
        min_rtt: i64 = "windowed minimum, ns; 0 before the first sample",
        delivery_rate: f64 = "bytes per second; 0 without a valid sample",
        rate_delivered: i64 = "bytes of the delivery-rate sample",
        rate_interval: i64 = "ns",
        rate_prior_delivered: i64 = "delivered when the newest segment acked here was sent",
        rate_has_data: i64 = "1 if this ACK newly delivered a segment",
        rate_app_limited: i64 = "1 if that segment was sent while the application limited",
        rate_tx_in_flight: i64 = "bytes in flight just after it was sent",
        rate_lost: i64 = "bytes marked lost since it was sent",
        delivered: i64 = "bytes over the connection's life",
        lost_total: i64 = "bytes over the connection's life",
        inflight_before: i64 = "bytes in flight before this ACK was processed",
        inflight: i64 = "bytes in flight after it",
        snd_una: i64 = "first unacknowledged byte",
        snd_nxt: i64 = "next byte to be sent for the first time",
        round: i64 = "round trips so far",
        round_start: i64 = "1 if this ACK starts a round trip",
        cwnd_limited: i64 = "1 if the window limited what was sent in the last round",
        app_limited: i64 = "1 if the application limits now",
        advances: i64 = "1 if the ACK moves snd_una",
        maybe_delayed: i64 = "1 if the receiver may have delayed it",
        state: i64 = "OPEN, DISORDER, CWR, RECOVERY or LOSS",
    }
    Congestion for "on_congestion" {
        now: i64 = "ns",
        mss: i64 = "bytes",
        ecn: i64 = "1 for an ECN mark, 0 for loss",
        inflight: i64 = "bytes in flight when it was detected",
        lost: i64 = "bytes marked lost by the ACK that started it",
        srtt: i64 = "ns",
        delivered: i64 = "bytes over the connection's life",
        acked: i64 = "bytes delivered by the ACK that started it",
    }
    Rto for "on_rto" {
        now: i64 = "ns",
        mss: i64 = "bytes",
        inflight: i64 = "bytes still counted as in flight",
        first: i64 = "1 for the first timeout of this data",
        delivered: i64 = "bytes over the connection's life",
        cwnd: f64 = "before the timeout",
        ssthresh: f64 = "before the timeout",
    }
    Undo for "on_undo" {
        now: i64 = "ns",
        mss: i64 = "bytes",
        timeout: i64 = "1 if it was a timeout",
        cwnd: f64 = "before the undo",
        ssthresh: f64 = "before the undo",
    }
    RecoveryExit for "on_recovery_exit" {
        now: i64 = "ns",
    }
    IdleRestart for "on_idle_restart" {
        now: i64 = "ns",
        mss: i64 = "bytes",
        idle: i64 = "ns since the last transmission",
        app_limited: i64 = "1 if the application limits",
        restart_window: i64 = "bytes to restart from; 0 if the transport asks for no restart",
        delivered: i64 = "bytes over the connection's life",
        cwnd: f64 = "before the restart",
        ssthresh: f64 = "before the restart",
    }
    Sent for "on_sent" {
        now: i64 = "ns",
        size: i64 = "bytes",
        inflight: i64 = "bytes",
    }
}

#[derive(Serialize)]
pub(crate) struct Layout {
    state: [&'static str; STATE.len()],
    events: Vec<Struct>,
}

pub(crate) fn layout() -> Layout {
    Layout { state: STATE, events: structs() }
}

/// No count of bytes or nanoseconds comes near the sign bit.
fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn ecn_code(mode: cc::EcnMode) -> i64 {
    match mode {
        cc::EcnMode::Off => 0,
        cc::EcnMode::Classic => 1,
        cc::EcnMode::CeState => 2,
        cc::EcnMode::Accurate => 3,
        cc::EcnMode::L4s => 4,
        cc::EcnMode::Sce => 5,
    }
}

fn state_code(state: cc::CaState) -> i64 {
    match state {
        cc::CaState::Open => 0,
        cc::CaState::Disorder => 1,
        cc::CaState::Cwr => 2,
        cc::CaState::Recovery => 3,
        cc::CaState::Loss => 4,
    }
}

impl Start {
    pub(crate) fn new(event: &cc::Start, seed: u64) -> Self {
        Self {
            now: whole(event.now),
            mss: event.mss.into(),
            initial_window: whole(event.initial_window),
            rtt: whole(event.rtt.unwrap_or(0)),
            ecn: ecn_code(event.ecn),
            // All bits are kept; the sign says nothing.
            seed: seed.cast_signed(),
        }
    }
}

impl From<&cc::Ack> for Ack {
    #[inline]
    fn from(ack: &cc::Ack) -> Self {
        Self {
            now: whole(ack.now),
            mss: ack.mss.into(),
            acked: whole(ack.acked),
            lost: whole(ack.lost),
            ce: whole(ack.ce),
            ce_packets: whole(ack.ce_packets),
            sce: whole(ack.sce),
            feedback: ack.feedback,
            ecn_failed: ack.ecn_failed.into(),
            ece: ack.ece.into(),
            rtt: whole(ack.rtt.unwrap_or(0)),
            srtt: whole(ack.srtt),
            min_rtt: whole(ack.min_rtt),
            delivery_rate: ack.rate.rate().unwrap_or(0.0),
            rate_delivered: whole(ack.rate.delivered),
            rate_interval: whole(ack.rate.interval),
            rate_prior_delivered: whole(ack.rate.prior_delivered),
            rate_has_data: ack.rate.has_data.into(),
            rate_app_limited: ack.rate.app_limited.into(),
            rate_tx_in_flight: whole(ack.rate.tx_in_flight),
            rate_lost: whole(ack.rate.lost),
            delivered: whole(ack.delivered),
            lost_total: whole(ack.lost_total),
            inflight_before: whole(ack.inflight_before),
            inflight: whole(ack.inflight),
            snd_una: whole(ack.snd_una),
            snd_nxt: whole(ack.snd_nxt),
            round: whole(ack.round),
            round_start: ack.round_start.into(),
            cwnd_limited: ack.cwnd_limited.into(),
            app_limited: ack.app_limited.into(),
            advances: ack.advances.into(),
            maybe_delayed: ack.maybe_delayed.into(),
            state: state_code(ack.state),
        }
    }
}

impl From<&cc::Congestion> for Congestion {
    fn from(event: &cc::Congestion) -> Self {
        Self {
            now: whole(event.now),
            mss: event.mss.into(),
            ecn: (event.kind == cc::CongestionKind::Ecn).into(),
            inflight: whole(event.inflight),
            lost: whole(event.lost),
            srtt: whole(event.srtt),
            delivered: whole(event.delivered),
            acked: whole(event.acked),
        }
    }
}

impl Rto {
    pub(crate) fn new(event: &cc::Rto, state: &[f64]) -> Self {
        Self {
            now: whole(event.now),
            mss: event.mss.into(),
            inflight: whole(event.inflight),
            first: event.first.into(),
            delivered: whole(event.delivered),
            cwnd: state[CWND],
            ssthresh: state[SSTHRESH],
        }
    }
}

impl Undo {
    pub(crate) fn new(event: &cc::Undo, state: &[f64]) -> Self {
        Self {
            now: whole(event.now),
            mss: event.mss.into(),
            timeout: event.timeout.into(),
            cwnd: state[CWND],
            ssthresh: state[SSTHRESH],
        }
    }
}

impl IdleRestart {
    pub(crate) fn new(event: &cc::IdleRestart, state: &[f64]) -> Self {
        Self {
            now: whole(event.now),
            mss: event.mss.into(),
            idle: whole(event.idle),
            app_limited: event.app_limited.into(),
            restart_window: whole(event.restart_window.unwrap_or(0)),
            delivered: whole(event.delivered),
            cwnd: state[CWND],
            ssthresh: state[SSTHRESH],
        }
    }
}

impl RecoveryExit {
    pub(crate) fn new(now: cc::Nanos) -> Self {
        Self { now: whole(now) }
    }
}

impl Sent {
    pub(crate) fn new(now: cc::Nanos, size: u32, inflight: u64) -> Self {
        Self { now: whole(now), size: size.into(), inflight: whole(inflight) }
    }
}
