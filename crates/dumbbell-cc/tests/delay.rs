//! LEDBAT, LEDBAT++, Copa and Vivace over one link; Careful Resume.

use crate::common::pipe::Pipe;
use crate::common::{MS, MSS, S, controller};
use dumbbell_cc::{Congestion, CongestionKind, Nanos};
use serde_json::{Value, json};

fn pipe(kind: &str, params: &Value, mbit: f64, rtt: Nanos, limit: usize) -> Pipe {
    Pipe::new(controller(kind, params), mbit * 1e6, rtt, limit)
}

/// Mean of `value` over time from `from` to `to`.
fn mean(pipe: &mut Pipe, from: Nanos, to: Nanos, value: impl Fn(&Pipe) -> f64) -> f64 {
    pipe.run(from, |_| {});
    let (mut last, mut sum) = (pipe.now, 0.0);
    let begin = last;
    pipe.run(to, |pipe| {
        sum += value(pipe) * (pipe.now - last) as f64;
        last = pipe.now;
    });
    sum / (last - begin) as f64
}

fn utilisation(pipe: &mut Pipe, from: Nanos, to: Nanos) -> f64 {
    pipe.run(from, |_| {});
    let (before, begin) = (pipe.delivered, pipe.now);
    pipe.run(to, |_| {});
    (pipe.delivered - before) as f64 * 8e9 / (pipe.now - begin) as f64 / pipe.rate
}

fn queueing_ms(pipe: &Pipe) -> f64 {
    pipe.queue() as f64 * f64::from(MSS) * 8e3 / pipe.rate
}

fn slowing_down(pipe: &Pipe) -> f64 {
    f64::from(u8::from(matches!(pipe.cc.phase(), "slowdown" | "ramp")))
}

/// RFC 6817: the queueing delay settles at TARGET.
#[test]
fn ledbat_holds_the_target() {
    for target in [25, 100] {
        let params = json!({"target": target * MS});
        let mut pipe = pipe("ledbat", &params, 10.0, 40 * MS, 1000);
        let queueing = mean(&mut pipe, 40 * S, 80 * S, queueing_ms);
        assert!((queueing - target as f64).abs() < 0.1 * target as f64, "{queueing} of {target}");
        assert!(pipe.cuts.is_empty());
    }
}

/// The draft, section 4.4: slowdowns cost a tenth of the time at most, whatever the RTT (public report
/// freenet/freenet-core#2532: one in every round trip at 137 ms).
#[test]
fn ledbat_plus_plus_slows_down_a_tenth_of_the_time() {
    for rtt in [1, 3, 10, 40, 100, 137, 300] {
        let mut pipe = pipe("ledbat++", &json!({}), 10.0, rtt * MS, 10_000);
        // After the first slowdown, which comes two round trips after slow start.
        let share = mean(&mut pipe, 20 * S, 140 * S, slowing_down);
        assert!(share > 0.01 && share <= 0.115, "{rtt} ms: {share}");
    }
}

#[test]
fn ledbat_plus_plus_comes_back_to_its_window() {
    let mut pipe = pipe("ledbat++", &json!({}), 20.0, 300 * MS, 10_000);
    let (mut before, mut phase, mut lowest, mut back) = (0, "", u64::MAX, Vec::new());
    pipe.run(120 * S, |pipe| {
        let now = pipe.cc.phase();
        if now == "slowdown" && phase != "slowdown" {
            before = pipe.cc.ssthresh();
        }
        if now == "slowdown" {
            lowest = lowest.min(pipe.cc.cwnd());
        }
        if now == "avoidance" && phase == "ramp" {
            back.push(pipe.cc.cwnd() as f64 / before as f64);
        }
        phase = now;
    });
    assert_eq!(lowest, 2 * u64::from(MSS));
    assert!(back.len() >= 3, "{back:?}");
    assert!(back.iter().all(|part| *part >= 0.95), "{back:?}");
}

/// Section 2.1 of the paper: 1/delta segments are queued, give or take the oscillation of up to
/// 2.5/delta that probes for it.
#[test]
fn copa_keeps_one_over_delta_segments_queued() {
    for delta in [0.5, 0.2, 0.1] {
        let mut pipe = pipe("copa", &json!({"delta": delta}), 20.0, 40 * MS, 1000);
        let queued = mean(&mut pipe, 10 * S, 40 * S, |pipe| pipe.queue() as f64);
        assert!(queued * delta > 0.5 && queued * delta < 2.0, "delta {delta}: {queued}");
        assert!(utilisation(&mut pipe, 40 * S, 60 * S) > 0.97, "delta {delta}");
        assert!(pipe.cuts.is_empty());
    }
}

#[test]
fn copa_does_not_take_random_loss_for_congestion() {
    let mut pipe = pipe("copa", &json!({}), 20.0, 40 * MS, 1000);
    pipe.loss = 0.01;
    let used = utilisation(&mut pipe, 5 * S, 30 * S);
    assert!(used > 0.9, "{used}");
}

#[test]
fn vivace_uses_nine_tenths_of_the_link() {
    let mut pipe = pipe("vivace", &json!({}), 100.0, 40 * MS, 1000);
    let used = utilisation(&mut pipe, 10 * S, 40 * S);
    assert!(used > 0.9, "{used}");
    let queueing = mean(&mut pipe, 40 * S, 60 * S, queueing_ms);
    assert!(queueing < 5.0, "{queueing}");
}

/// Public report PCCproject/PCC-Uspace#20: two equal trial rates on a path of next to no RTT.
#[test]
fn vivace_survives_a_round_trip_of_ten_microseconds() {
    let mut pipe = pipe("vivace", &json!({}), 100.0, 10_000, 100);
    let used = utilisation(&mut pipe, S, 10 * S);
    assert!(used > 0.5, "{used}");
}

fn window_at(pipe: &mut Pipe, time: Nanos) -> u64 {
    pipe.run(time, |_| {});
    pipe.cc.cwnd() / u64::from(MSS)
}

/// RFC 9959: half of the saved window once the initial window is acknowledged; what was sent stays.
#[test]
fn careful_resume_jumps_to_half_of_the_saved_window() {
    let params = json!({"resume_cwnd": 400, "resume_rtt": 100 * MS});
    let mut pipe = pipe("reno", &params, 50.0, 100 * MS, 1000);
    assert!(window_at(&mut pipe, 101 * MS) < 20);
    assert_eq!(window_at(&mut pipe, 110 * MS), 200);
    assert_eq!(pipe.cc.phase(), "unvalidated");
    let rate = pipe.cc.pacing_rate().unwrap();
    assert!((rate - 200.0 * f64::from(MSS) / 0.1).abs() < 0.05 * rate, "{rate}");
    pipe.run(230 * MS, |_| {});
    assert_eq!(pipe.cc.phase(), "validating");
    pipe.run(500 * MS, |_| {});
    assert_eq!(pipe.cc.phase(), "slow_start");
    assert!(pipe.cuts.is_empty());
}

/// RFC 9959: no jump where the round-trip time is less than half of the saved one, or ten times it.
#[test]
fn careful_resume_asks_for_the_same_path() {
    for saved in [250 * MS, 10 * MS] {
        let params = json!({"resume_cwnd": 400, "resume_rtt": saved});
        let mut pipe = pipe("reno", &params, 50.0, 100 * MS, 1000);
        assert!(window_at(&mut pipe, 130 * MS) <= 25, "{saved}");
        assert_eq!(pipe.cc.phase(), "slow_start");
    }
}

/// RFC 9959: congestion takes the window back to half of what has arrived.
#[test]
fn careful_resume_retreats() {
    let params = json!({"resume_cwnd": 400, "resume_rtt": 100 * MS});
    let mut pipe = pipe("reno", &params, 50.0, 100 * MS, 1000);
    pipe.run(150 * MS, |_| {});
    assert_eq!(pipe.cc.phase(), "unvalidated");
    let event = Congestion {
        now: pipe.now,
        kind: CongestionKind::Loss,
        mss: MSS,
        inflight: pipe.cc.cwnd(),
        lost: u64::from(MSS),
        srtt: 100 * MS,
        delivered: pipe.delivered,
        acked: u64::from(MSS),
    };
    pipe.cc.on_congestion(&event);
    assert_eq!(pipe.cc.phase(), "safe_retreat");
    // Ten segments of the initial window, and at most the ten acknowledged since.
    assert!(pipe.cc.cwnd() / u64::from(MSS) <= 15, "{}", pipe.cc.cwnd());
}
