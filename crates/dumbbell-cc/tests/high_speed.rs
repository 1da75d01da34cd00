//! High-speed controllers against their response functions, each other and Reno.

use crate::common::{MS, MSS, S, Script, average_window, controller, pipe::Pipe};
use dumbbell_cc::{CaState, Congestion, CongestionKind, Rto};
use rand_core::{RngCore, SeedableRng};
use serde_json::{Value, json};

const RTT: u64 = 100 * MS;

fn assert_close(got: f64, expected: f64, relative: f64, what: &str) {
    assert!((got / expected - 1.0).abs() < relative, "{what}: {got:.2}, expected {expected:.2}");
}

/// RFC 3649 section 5: w = 0.12/p^0.835.
#[test]
fn highspeed_follows_its_response_function() {
    for p in [1e-4_f64, 1e-5, 1e-6, 1e-7] {
        let expected = 0.12 / p.powf(0.835);
        let got = average_window("highspeed", &json!({"linux": false}), RTT, p, expected as u64);
        assert_close(got, expected, 0.05, &format!("p = {p}"));
    }
}

/// Below the low window the response function is Reno's: sqrt(3/2p).
#[test]
fn highspeed_is_reno_at_high_loss() {
    for p in [3e-3_f64, 1e-2] {
        let got =
            average_window("highspeed", &json!({"linux": false, "low_window": 100}), RTT, p, 30);
        assert_close(got, (1.5 / p).sqrt(), 0.05, &format!("p = {p}"));
    }
}

/// From W/2 to W by alpha w^k a round trip: mean of that curve, a line of slope 0.8.
#[test]
fn ctcp_without_a_queue_follows_its_response_function() {
    for (p, expected, tolerance) in [
        // The first round after a cut, one of twelve and of 25, is Reno's: nothing is measured yet.
        (1e-3, 64.0, 0.1),
        (1e-4, 405.0, 0.06),
        (1e-5, 2553.0, 0.05),
        (1e-6, 16_107.0, 0.05),
        (1e-7, 101_630.0, 0.05),
        (1e-8, 641_250.0, 0.05),
    ] {
        let got = average_window("ctcp", &json!({"low_window": 20}), RTT, p, expected as u64);
        assert_close(got, expected, tolerance, &format!("p = {p}"));
    }
}

/// A loss every 1/p segments: 0.01 (1/p) segments are won between cuts of an eighth, so the window peaks
/// at 0.08/p, and its mean is 1/p segments over the 13.42 round trips of the recovery.
#[test]
fn scalable_follows_its_response_function() {
    let rounds = (1.0_f64 / 0.875).ln() / 1.01_f64.ln();
    for p in [1e-3, 1e-4, 1e-5, 1e-6] {
        let expected = 1.0 / p / rounds;
        let got = average_window("scalable", &json!({"linux": false}), RTT, p, (0.08 / p) as u64);
        assert_close(got, expected, 0.05, &format!("p = {p}"));
    }
}

/// Losses at random: gains and cuts balance where the window that the average segment meets is 0.08/p.
#[test]
fn scalable_at_random_loss_balances_at_the_closed_form() {
    for p in [1e-3, 1e-4, 1e-5, 1e-6] {
        let expected = 0.08 / p;
        let mut script =
            Script::settle("scalable", &json!({"linux": false}), RTT, (expected / 0.875) as u64);
        let mut random = rand_pcg::Pcg32::seed_from_u64(11);
        let mut until_loss = 0.0;
        let (mut sum, mut segments, mut losses) = (0.0, 0.0, 0);
        while losses < 12_000 {
            let step = (script.segments() / 16).max(1);
            let ack = script.event(step * u64::from(MSS));
            script.cc.on_ack(&ack);
            sum += step as f64 * script.segments() as f64;
            segments += step as f64;
            until_loss -= step as f64;
            while until_loss <= 0.0 {
                script.lose();
                losses += 1;
                let uniform = (f64::from(random.next_u32()) + 0.5) / 4_294_967_296.0;
                until_loss += -uniform.ln() / p;
            }
        }
        assert_close(sum / segments, expected, 0.05, &format!("p = {p}"));
    }
}

/// Round trips until the window is `target` again, to a fraction of a round; `acks` of a window each.
fn rounds_to(script: &mut Script, target: f64, acks: impl Fn(u64) -> u64) -> f64 {
    let mut rounds = 0.0;
    loop {
        let before = script.segments() as f64;
        script.round(acks(script.segments()));
        let after = script.segments() as f64;
        if after >= target {
            return rounds + (target - before) / (after - before);
        }
        rounds += 1.0;
        assert!(rounds < 1e6, "{before} of {target} segments after {rounds} round trips");
    }
}

/// ln(1/0.875)/ln 1.01 = 13.42 round trips at any window: 1.342 s at 100 ms.
#[test]
fn scalable_recovers_in_the_same_time_at_any_window() {
    for linux in [false, true] {
        for window in [1000_u64, 10_000, 100_000] {
            let mut script = Script::settle("scalable", &json!({"linux": linux}), RTT, window);
            assert_eq!(script.segments(), window * 7 / 8);
            let rounds = rounds_to(&mut script, window as f64, |_| 64);
            assert_close(rounds, 13.42, 0.01, &format!("{window} segments"));
        }
    }
}

/// W/2 round trips.
#[test]
fn reno_recovers_in_half_its_window() {
    for window in [100_u64, 1000, 8333] {
        let mut script = Script::settle("reno", &json!({}), RTT, window);
        let rounds = rounds_to(&mut script, window as f64, |_| 4);
        assert_close(rounds, window as f64 / 2.0, 0.03, &format!("{window} segments"));
    }
}

/// (W^0.25 - (W/2)^0.25)/(0.25 0.125) round trips while there is no queue: 28.6 and 50.9.
#[test]
fn ctcp_recovers_along_its_power_law() {
    for (window, expected) in [(1000_u64, 28.6), (10_000, 50.9)] {
        let mut script = Script::settle("ctcp", &json!({}), RTT, window);
        let rounds = rounds_to(&mut script, window as f64, |_| 16);
        // The first round after the cut is Reno's: there is no measurement yet.
        assert_close(rounds, expected + 1.0, 0.02, &format!("{window} segments"));
    }
}

/// The integral of alpha(t)/RTT from the cut on covers what was cut: here half.
#[test]
fn htcp_recovers_when_the_integral_of_its_growth_covers_the_cut() {
    for linux in [false, true] {
        for window in [200_u64, 2000, 8000] {
            let params = json!({"linux": linux, "adaptive_backoff": false});
            let mut script = Script::settle("htcp", &params, RTT, window);
            // Linux grows by a segment an ACK at most.
            let acks = |window| if linux { window } else { 64 };
            let rounds = rounds_to(&mut script, window as f64, acks);
            let (mut covered, mut seconds) = (0.0, 0.0);
            while covered < window as f64 / 2.0 {
                seconds += 1e-3;
                let past = f64::max(seconds - 1.0, 0.0);
                covered += (1.0 + 10.0 * past + 0.25 * past * past) * 1e-3 / 0.1;
            }
            // In Linux one ACK for each segment of growth does not count.
            let tolerance = if linux { 0.08 } else { 0.02 };
            assert_close(rounds * 0.1, seconds, tolerance, &format!("{linux} {window} segments"));
        }
    }
}

/// A cut of a fifth: linear steps of 16, then the search, which is at the old maximum after 30 more.
#[test]
fn bic_approaches_the_old_maximum_along_a_concave_curve() {
    let window = 2000_u64;
    let mut script = Script::settle("bic", &json!({}), RTT, window);
    let cut = script.segments();
    assert_eq!(cut, window * 819 / 1024);
    let mut growth = Vec::new();
    while script.segments() < window - 16 {
        let before = script.segments();
        // Two segments an ACK: what Linux assumes at first.
        script.round(before / 2);
        growth.push(script.segments() - before);
    }
    let bound = (window - cut) as f64 / 16.0 + 30.0;
    assert!((growth.len() as f64) < bound, "{} round trips, bound {bound}", growth.len());
    assert!(growth.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{growth:?}");
    assert!(*growth.last().unwrap() < growth[0] / 2, "{growth:?}");
}

/// Windows and thresholds of `kind` and of Reno under the same events, the window held to `most`
/// segments by losses; also random losses and timeouts.
fn same_as_reno(kind: &str, params: &Value, most: u64, end: u64) {
    let mut pair =
        [Script::new(kind, params, 10 * MS, 4), Script::new("reno", &json!({}), 10 * MS, 4)];
    let mut random = rand_pcg::Pcg32::seed_from_u64(5);
    let (mut losses, mut timeouts, mut grown) = (0, 0, 0);
    while pair[0].now < end {
        let window = pair[0].segments();
        let dice = random.next_u32() % 1000;
        for script in &mut pair {
            script.now += 10 * MS / window;
            let acked = u64::from(MSS) * (1 + u64::from(dice % 2));
            script.una += acked;
            if dice == 0 {
                let rto = Rto { now: script.now, mss: MSS, inflight: 0, first: true, delivered: 0 };
                script.cc.on_rto(&rto);
            } else if dice < 10 || window + 2 > most {
                script.cc.on_congestion(&Congestion {
                    now: script.now,
                    kind: CongestionKind::Loss,
                    mss: MSS,
                    inflight: script.cc.cwnd(),
                    lost: u64::from(MSS),
                    srtt: script.rtt,
                    delivered: script.una,
                    acked,
                });
                let mut ack = script.event(acked);
                ack.state = CaState::Recovery;
                script.cc.on_ack(&ack);
                script.cc.on_recovery_exit(script.now);
            } else {
                let ack = script.event(acked);
                script.cc.on_ack(&ack);
            }
        }
        losses += u64::from(dice > 0 && (dice < 10 || window + 2 > most));
        timeouts += u64::from(dice == 0);
        grown += u64::from(pair[0].segments() > window);
        assert_eq!(pair[0].cc.cwnd(), pair[1].cc.cwnd(), "{kind} {params} at {}", pair[0].now);
        assert_eq!(pair[0].cc.ssthresh(), pair[1].cc.ssthresh(), "{kind} {params}");
    }
    assert!(losses > 3 && grown > 20, "{kind}: {losses} losses, {grown} increases");
    assert!(end < 2 * S || timeouts > 3, "{kind}: {timeouts} timeouts");
}

/// Below its trigger each is Reno, bit for bit.
#[test]
fn below_the_trigger_each_is_reno() {
    same_as_reno("bic", &json!({}), 14, 30 * S);
    same_as_reno("bic", &json!({"linux": false}), 14, 30 * S);
    same_as_reno("scalable", &json!({"linux": false}), 16, 30 * S);
    same_as_reno("scalable", &json!({"low_window": 16}), 16, 30 * S);
    same_as_reno("highspeed", &json!({"linux": false}), 38, 30 * S);
    same_as_reno("highspeed", &json!({"linux": false, "low_window": 31}), 31, 30 * S);
    same_as_reno("ctcp", &json!({}), 37, 30 * S);
    same_as_reno("ctcp", &json!({"low_window": 41}), 40, 30 * S);
    // The trigger is a second without loss; the cut is a matter of its own.
    same_as_reno("htcp", &json!({"linux": false, "adaptive_backoff": false}), 14, S);
}

/// Two flows at 10:1 that lose together: MIMD keeps the ratio, AIMD evens it out.
#[test]
fn scalable_is_unfair_to_late_comers() {
    let ratio = |kind: &str, params: &Value| {
        let mut pair = [10_000, 1000].map(|window| Script::settle(kind, params, RTT, window));
        for _ in 0..40 {
            for script in &mut pair {
                for _ in 0..14 {
                    script.round(8);
                }
                script.lose();
            }
        }
        pair[0].segments() as f64 / pair[1].segments() as f64
    };
    for linux in [false, true] {
        assert_close(ratio("scalable", &json!({"linux": linux})), 10.0, 0.02, "Scalable");
    }
    assert!(ratio("reno", &json!({})) < 1.2);
}

/// Segments queued and relative deviation of the window from 40 to 60 s of a FAST flow.
fn fast(kind: &str, params: &Value, rate: f64, limit: usize) -> (f64, f64) {
    let mut pipe = Pipe::new(controller(kind, params), rate, RTT, limit);
    let (mut queue, mut window, mut square, mut n) = (0.0, 0.0, 0.0, 0.0);
    pipe.run(60 * S, |pipe| {
        if pipe.now >= 40 * S {
            let cwnd = (pipe.cc.cwnd() / u64::from(MSS)) as f64;
            queue += pipe.queue() as f64;
            window += cwnd;
            square += cwnd * cwnd;
            n += 1.0;
        }
    });
    let mean = window / n;
    (queue / n, (square / n - mean * mean).max(0.0).sqrt() / mean)
}

/// Jin, Wei, Low 2004: alpha segments queued, whatever the rate.
#[test]
fn fast_keeps_alpha_segments_queued() {
    for alpha in [50.0, 200.0] {
        for rate in [20e6, 60e6] {
            let (queue, deviation) = fast("fast", &json!({"alpha": alpha}), rate, 600);
            assert!((queue - alpha).abs() < 0.05 * alpha + 2.0, "{queue} queued, alpha {alpha}");
            assert!(deviation < 0.02, "{deviation}");
        }
    }
}

/// With less buffer than alpha, halving and fast growth take turns for ever.
#[test]
fn fast_oscillates_where_the_buffer_is_smaller_than_alpha() {
    let (_, steady) = fast("fast", &json!({}), 20e6, 400);
    let (_, swinging) = fast("fast", &json!({}), 20e6, 50);
    assert!(swinging > 0.1 && swinging > 10.0 * steady, "{swinging} against {steady}");
}

/// 60 Mbit/s are 5180 segments/s: from 200 to 20; 6 Mbit/s are 518: to 8.
#[test]
fn fast_at_queues_what_its_throughput_allows() {
    for (rate, alpha) in [(60e6, 20.0), (6e6, 8.0)] {
        let (queue, _) = fast("fast-at", &json!({}), rate, 300);
        assert!((queue - alpha).abs() < 0.05 * alpha + 2.0, "{queue} queued, alpha {alpha}");
    }
}

/// Under extreme loss windows stay below all triggers.
#[test]
fn under_extreme_loss_windowed_triggers_leave_reno() {
    let delivered = |kind: &str, params: &Value, loss: f64| {
        let mut pipe = Pipe::new(controller(kind, params), 50e6, RTT, 400);
        pipe.loss = loss;
        pipe.run(200 * S, |_| {});
        pipe.delivered as f64
    };
    for loss in [0.1, 0.3, 0.5] {
        let reno = delivered("reno", &json!({}), loss);
        for (kind, params) in [
            ("bic", json!({})),
            ("ctcp", json!({})),
            ("highspeed", json!({"linux": false})),
            ("scalable", json!({"linux": false})),
        ] {
            let got = delivered(kind, &params, loss);
            assert_close(got, reno, 0.05, &format!("{kind} at {loss}"));
        }
    }
}
