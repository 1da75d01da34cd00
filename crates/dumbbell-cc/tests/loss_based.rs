//! Reno and CUBIC against the numbers of RFC 5681, RFC 9438 and Linux.

use crate::common::{MS, S, Script, average_window, controller, pipe::Pipe, recorded};
use dumbbell_cc::{CongestionKind, SSTHRESH_INFINITE};
use serde_json::json;

/// RFC 9438 section 5.1, tables 1 and 2 (C = 0.4): average window at loss rate p.
#[test]
fn average_window_follows_the_tables_of_rfc_9438() {
    for linux in [true, false] {
        let params = json!({"linux": linux, "fast_convergence": false, "hystart": "classic"});
        for (rtt, table) in [
            (
                100 * MS,
                [
                    (1e-2, 12.0),
                    (1e-3, 38.0),
                    (1e-4, 187.0),
                    (1e-5, 1054.0),
                    (1e-6, 5926.0),
                    (1e-7, 33325.0),
                ],
            ),
            (
                10 * MS,
                [
                    (1e-2, 12.0),
                    (1e-3, 38.0),
                    (1e-4, 120.0),
                    (1e-5, 379.0),
                    (1e-6, 1200.0),
                    (1e-7, 5926.0),
                ],
            ),
        ] {
            for (p, expected) in table {
                let got = average_window("cubic", &params, rtt, p, expected as u64);
                // Linux refreshes the step count every 1/32 s, here every third round.
                let tolerance = if linux && rtt < 31 * MS && expected < 20.0 { 0.2 } else { 0.15 };
                assert!(
                    (got / expected - 1.0).abs() < tolerance,
                    "linux={linux} rtt={rtt} p={p}: {got:.1}, expected {expected}"
                );
            }
        }
    }
}

#[test]
fn renos_average_window_is_1_22_over_root_p() {
    for (p, expected) in [(1e-2, 12.0), (1e-3, 38.0), (1e-4, 120.0), (1e-5, 379.0), (1e-6, 1200.0)]
    {
        let got = average_window("reno", &json!({}), 100 * MS, p, expected as u64);
        assert!((got / expected - 1.0).abs() < 0.1, "p={p}: {got:.1}, expected {expected}");
    }
}

/// CUBIC-05: one segment per round trip at any window.
#[test]
fn reno_grows_one_segment_per_round_at_any_window() {
    for window in [10, 1000, 100_000] {
        let mut script = Script::settle("reno", &json!({}), 10 * MS, 2 * window);
        let start = script.segments();
        for _ in 0..20 {
            let acks = (script.segments() / 2).min(5000);
            script.round(acks);
        }
        let growth = (script.segments() - start) as f64 / 20.0;
        assert!((0.9..=1.1).contains(&growth), "{growth} at {window}");
    }
}

/// CUBIC-04: doubling does not depend on how ACKs are batched.
#[test]
fn slow_start_doubles_with_any_batching() {
    for kind in ["reno", "cubic"] {
        for acks in [1, 3, 10] {
            let mut script = Script::new(kind, &json!({"hystart": "classic"}), 50 * MS, 10);
            for _ in 0..4 {
                script.round(acks);
            }
            assert_eq!(script.segments(), 160, "{kind}, {acks} ACKs");
            assert_eq!(script.cc.ssthresh(), SSTHRESH_INFINITE);
            assert_eq!(script.cc.phase(), "slow_start");
        }
    }
}

/// What slow start leaves over at `ssthresh` counts in avoidance.
#[test]
fn slow_start_stops_at_ssthresh() {
    let mut script = Script::settle("reno", &json!({}), 50 * MS, 100);
    script.cc.on_rto(&dumbbell_cc::Rto {
        now: script.now,
        mss: crate::common::MSS,
        inflight: 0,
        first: true,
        delivered: 0,
    });
    assert_eq!(script.segments(), 1);
    for expected in [2, 4, 8, 16, 25] {
        script.round(1);
        assert_eq!(script.segments(), expected);
    }
    script.round(25);
    assert_eq!(script.segments(), 26);
}

/// CUBIC-11: 0.5 and 717/1024; with a second loss below W_max CUBIC remembers 0.85 of the window.
#[test]
fn cuts_by_the_factor_of_the_rfc() {
    let mut reno = Script::new("reno", &json!({}), 50 * MS, 1000);
    reno.lose();
    assert_eq!(reno.segments(), 500);
    let mut cubic = Script::new("cubic", &json!({}), 50 * MS, 1000);
    cubic.lose();
    assert_eq!(cubic.segments(), 700);
    assert_eq!(w_max(&cubic), 1000.0);
    cubic.lose();
    assert_eq!(w_max(&cubic), 595.0);
    let mut plain = Script::new("cubic", &json!({"fast_convergence": false}), 50 * MS, 1000);
    plain.lose();
    plain.lose();
    assert_eq!(w_max(&plain), 700.0);
}

fn w_max(script: &Script) -> f64 {
    recorded(script.cc.as_ref(), "w_max")
}

/// K = (0.3 W / 0.4)^(1/3): 5 s at 100 Mbit/s and 10 s at 800 Mbit/s with 20 ms, that is 250 and 500
/// round trips.
#[test]
fn k_is_the_cube_root_of_the_distance() {
    for linux in [true, false] {
        for (rate, k) in [(100e6, 5.0), (800e6, 10.0)] {
            let window = (rate * 0.020 / 8.0 / 1500.0) as u64;
            let mut script = Script::settle(
                "cubic",
                &json!({"linux": linux, "reno_friendly": false}),
                20 * MS,
                window,
            );
            script.round(8);
            let got = recorded(script.cc.as_ref(), "k");
            assert!((got / k - 1.0).abs() < 0.01, "{rate}: K = {got}, expected {k}");
            // The window is back at W_max then.
            let rounds = (k / 0.020) as u64;
            for _ in 0..rounds {
                script.round(8);
            }
            let back = script.segments() as f64 / window as f64;
            assert!((0.98..1.01).contains(&back), "{rate}: {back}");
        }
    }
}

/// CUBIC-02: the window follows W_cubic(t) within a segment per round.
#[test]
fn the_window_follows_the_cubic() {
    let mut script = Script::settle("cubic", &json!({"reno_friendly": false}), 50 * MS, 1000);
    let start = script.now;
    let k = (300.0_f64 / 0.4).cbrt();
    for _ in 0..300 {
        script.round(16);
        let t = (script.now - start) as f64 * 1e-9;
        let cubic = 0.4 * (t - k).powi(3) + 1000.0;
        let got = script.segments() as f64;
        let slope = 3.0 * 0.4 * (t - k) * (t - k) * 0.05;
        assert!((got - cubic).abs() <= 2.0 + 1.5 * slope, "t={t:.2}: {got} against {cubic:.1}");
    }
}

/// CUBIC-10: in the Reno-friendly region no slower than Reno with the same cut.
#[test]
fn cubic_is_no_slower_than_reno_in_a_small_window() {
    for linux in [true, false] {
        let mut cubic = Script::settle("cubic", &json!({"linux": linux}), 40 * MS, 20);
        // The window of AIMD(0.529, 0.7).
        let mut reno = Script::settle("reno", &json!({"beta": 0.7, "alpha": 0.529}), 40 * MS, 20);
        for round in 0..100 {
            cubic.round(7);
            reno.round(7);
            assert!(cubic.segments() + 1 >= reno.segments(), "linux={linux}, round {round}");
        }
    }
}

/// CUBIC-08: alpha stays 3 (1 - beta)/(1 + beta) up to the window before the cut, then 1 (RFC only).
#[test]
fn renos_pace_returns_only_at_the_window_before_the_cut() {
    let mut script = Script::settle("cubic", &json!({"linux": false}), MS, 100);
    let mut previous = recorded(script.cc.as_ref(), "w_est");
    for round in 0..200 {
        script.round(1);
        let w_est = recorded(script.cc.as_ref(), "w_est");
        if round > 0 {
            let expected = if previous >= 100.0 { 1.0 } else { 9.0 / 17.0 };
            let growth = w_est - previous;
            assert!((growth / expected - 1.0).abs() < 0.05, "{previous}: {growth}");
        }
        previous = w_est;
    }
    assert!(previous > 110.0);
}

/// CUBIC-01: no jump after an idle or under-used period.
#[test]
fn a_pause_does_not_count_in_the_epoch() {
    for linux in [true, false] {
        let mut script = Script::settle("cubic", &json!({"linux": linux}), 50 * MS, 300);
        for _ in 0..40 {
            script.round(16);
        }
        let mut twin = Script::settle("cubic", &json!({"linux": linux}), 50 * MS, 300);
        for _ in 0..40 {
            twin.round(16);
        }
        script.now += 30 * S;
        script.cc.on_idle_restart(&dumbbell_cc::IdleRestart {
            now: script.now,
            mss: crate::common::MSS,
            idle: 30 * S,
            app_limited: true,
            restart_window: None,
            delivered: script.una,
        });
        for _ in 0..20 {
            script.round(16);
            twin.round(16);
            assert!(script.segments().abs_diff(twin.segments()) <= 1);
        }
    }
}

/// RFC 9438 section 5.8, and growth only when the window is used up (CUBIC-03).
#[test]
fn an_underused_window_neither_grows_nor_ages() {
    let mut script = Script::settle("cubic", &json!({"linux": false}), 50 * MS, 300);
    for _ in 0..40 {
        script.round(16);
    }
    let before = script.segments();
    for _ in 0..600 {
        script.now += 50 * MS;
        let mut ack = script.event(1448);
        ack.cwnd_limited = false;
        script.cc.on_ack(&ack);
    }
    assert_eq!(script.segments(), before);
    script.round(16);
    assert!(script.segments() <= before + 5, "{before} -> {}", script.segments());
}

/// Linux's per-round bound: the window grows by half at most however far the target is.
#[test]
fn growth_is_at_most_half_the_window_per_round() {
    let mut script = Script::settle("cubic", &json!({}), 2 * S, 100);
    for _ in 0..30 {
        let before = script.segments();
        script.round(16);
        assert!(script.segments() as f64 <= 1.5 * before as f64 + 1.0);
    }
}

/// Sawtooth on a link of 165 packets with a buffer of one BDP, as the Linux kernel runs it: exit from
/// slow start by the ACK train, cuts at BDP + buffer, growth from 0.7 of that.
#[test]
fn cubic_on_a_drop_tail_link() {
    let mut pipe = Pipe::new(controller("cubic", &json!({})), 47.82e6, 40 * MS, 165);
    let mut exit = None;
    pipe.run(60 * S, |pipe| {
        if exit.is_none() && pipe.cc.ssthresh() != SSTHRESH_INFINITE {
            exit = Some(pipe.cc.ssthresh() / 1448);
        }
    });
    // Kernel: 246.
    let exit = exit.unwrap();
    assert!((230..=260).contains(&exit), "{exit}");
    // Kernel: 10 cuts in 60 s (the first at 0.8 s), each near 330 to 346.
    assert!((8..=12).contains(&pipe.cuts.len()), "{:?}", pipe.cuts);
    for (_, window) in &pipe.cuts {
        assert!((325..=350).contains(window), "{:?}", pipe.cuts);
    }
}

/// SS-05: pacing gains by phase.
#[test]
fn pacing_follows_cwnd_over_srtt() {
    let mut script = Script::new("reno", &json!({"pacing": true}), 50 * MS, 10);
    let ratio = |script: &Script| script.cc.pacing_rate().unwrap() * 0.05 / script.cc.cwnd() as f64;
    assert!((ratio(&script) - 2.0).abs() < 1e-9);
    script.round(4);
    script.lose();
    script.round(4);
    assert!((ratio(&script) - 1.2).abs() < 1e-9);
    assert!(Script::new("reno", &json!({}), 50 * MS, 10).cc.pacing_rate().is_none());
}

/// No growth in recovery, and none from ACKs that do not move `snd_una`.
#[test]
fn the_window_rests_in_recovery_and_on_duplicate_acks() {
    for kind in ["reno", "cubic"] {
        let mut script = Script::settle(kind, &json!({}), 50 * MS, 100);
        let before = script.segments();
        for i in 0..1000 {
            script.now += MS;
            let mut ack = script.event(1448);
            ack.state =
                if i % 2 == 0 { dumbbell_cc::CaState::Recovery } else { dumbbell_cc::CaState::Cwr };
            script.cc.on_ack(&ack);
            let mut duplicate = script.event(1448);
            duplicate.advances = false;
            duplicate.state = dumbbell_cc::CaState::Disorder;
            script.cc.on_ack(&duplicate);
        }
        assert_eq!(script.segments(), before, "{kind}");
    }
}

/// A spurious event gives Reno back its window and threshold, once.
#[test]
fn reno_takes_back_a_spurious_cut() {
    let mut script = Script::settle("reno", &json!({}), 50 * MS, 200);
    for _ in 0..10 {
        script.round(10);
    }
    let (window, ssthresh) = (script.cc.cwnd(), script.cc.ssthresh());
    script.lose();
    assert!(script.cc.cwnd() < window);
    let undo = dumbbell_cc::Undo { now: script.now, mss: crate::common::MSS, timeout: false };
    script.cc.on_undo(&undo);
    assert_eq!((script.cc.cwnd(), script.cc.ssthresh()), (window, ssthresh.max(window / 2)));
    script.lose();
    let cut = script.cc.cwnd();
    script.cc.on_undo(&undo);
    assert_eq!(script.cc.cwnd(), window);
    script.lose();
    script.cc.on_recovery_exit(script.now);
    assert_eq!(script.cc.cwnd(), cut);
}

/// ECN-04, RFC 8511 section 3: a mark in avoidance multiplies by beta_ecn; in slow start and for loss
/// all is as without ABE.
#[test]
fn abe_cuts_less_in_avoidance_only() {
    for (kind, loss, mark) in [("reno", 500, 800), ("cubic", 700, 850)] {
        let cut = |slow_start: bool, ecn: bool| {
            let params = if slow_start {
                json!({"abe": true})
            } else {
                json!({"abe": true, "initial_ssthresh": 2})
            };
            let mut script = Script::new(kind, &params, 50 * MS, 1000);
            script.cc.on_congestion(&dumbbell_cc::Congestion {
                now: script.now,
                kind: if ecn { CongestionKind::Ecn } else { CongestionKind::Loss },
                mss: crate::common::MSS,
                inflight: script.cc.cwnd(),
                lost: 0,
                srtt: script.rtt,
                delivered: script.una,
                acked: 0,
            });
            script.segments()
        };
        assert_eq!(cut(false, true), mark, "{kind}");
        assert_eq!(cut(true, true), loss, "{kind} in slow start");
        assert_eq!(cut(false, false), loss, "{kind}, loss");
    }
}
