//! Vegas, Westwood+, Illinois, Veno, YeAH, Hybla, TCP-LP, CDG and NV against the numbers of their papers
//! and of Linux.

use crate::common::{MS, MSS, S, Script, controller, pipe::Pipe};
use serde_json::{Value, json};

const ALL: [&str; 9] =
    ["cdg", "hybla", "illinois", "lp", "nv", "vegas", "veno", "westwood", "yeah"];

fn recorded(script: &Script, name: &str) -> f64 {
    let mut value = f64::NAN;
    script.cc.record(&mut |key, v| {
        if key == name {
            value = v;
        }
    });
    value
}

/// In avoidance at `window` segments, with 100 ms known as the least RTT.
fn avoiding(kind: &str, params: &Value, window: u64) -> Script {
    let mut params = params.clone();
    params["initial_ssthresh"] = json!(window);
    let mut script = Script::new(kind, &params, 100 * MS, window);
    let mut ack = script.event(0);
    ack.advances = false;
    script.cc.on_ack(&ack);
    script
}

/// One full round at `rtt` after one that begins the measurement; the window's change over it.
fn change(script: &mut Script, rtt: u64) -> i64 {
    script.rtt = rtt;
    script.round(10);
    let before = script.segments() as i64;
    script.round(10);
    script.segments() as i64 - before
}

/// Brakmo and Peterson: below alpha = 2 queued segments one more, above beta = 4 one fewer. At a window
/// of 100 and 100 ms a queued segment is 1 ms, by Linux's division too.
#[test]
fn vegas_keeps_two_to_four_segments_queued() {
    for linux in [true, false] {
        for (queued_ms, expected) in [(0, 1), (1, 1), (3, 0), (6, -1), (20, -1)] {
            let mut script = avoiding("vegas", &json!({"linux": linux}), 100);
            let got = change(&mut script, 100 * MS + queued_ms * MS);
            assert_eq!(got, expected, "linux={linux}, {queued_ms} ms");
        }
    }
}

/// Linux divides by the base: 100 segments at 100 -> 150 ms are 50 in the queue, by RTT 33.
#[test]
fn vegas_divides_by_the_base_in_linux_and_by_the_rtt_in_the_paper() {
    for (linux, expected) in [(true, 50.0), (false, 33.0)] {
        let mut script = avoiding("vegas", &json!({"linux": linux}), 100);
        change(&mut script, 150 * MS);
        let got = recorded(&script, "diff");
        assert!((got - expected).abs() <= 1.0, "linux={linux}: {got}");
    }
}

/// Shrinking must not look like slow start again: ssthresh goes down too.
#[test]
fn vegas_does_not_slow_start_after_it_has_shrunk() {
    let mut script = avoiding("vegas", &json!({}), 100);
    for _ in 0..20 {
        script.rtt = 150 * MS;
        script.round(10);
        assert!(script.cc.ssthresh() <= script.cc.cwnd(), "{}", script.segments());
    }
    assert!(script.segments() < 90);
}

/// Slow start ends with more than gamma = 1 segment queued, at cwnd base/RTT + 1.
#[test]
fn vegas_leaves_slow_start_with_a_queue_of_one() {
    let mut script = Script::new("vegas", &json!({}), 100 * MS, 10);
    for _ in 0..4 {
        script.round(10);
    }
    let window = script.segments();
    assert!(script.cc.ssthresh() > script.cc.cwnd());
    script.rtt = 125 * MS;
    script.round(10);
    script.round(10);
    assert!(script.cc.ssthresh() <= script.cc.cwnd(), "still in slow start");
    assert!(script.segments() <= 2 * window * 100 / 125 + 2, "{}", script.segments());
}

/// Two to four segments stand in the queue of a link of its own, whatever the buffer.
#[test]
fn vegas_alone_keeps_its_queue() {
    let mut pipe = Pipe::new(controller("vegas", &json!({})), 20e6, 40 * MS, 1000);
    let (mut least, mut most) = (usize::MAX, 0);
    pipe.run(60 * S, |pipe| {
        if pipe.now > 30 * S {
            least = least.min(pipe.queue());
            most = most.max(pipe.queue());
        }
    });
    assert!(least >= 1 && most <= 6, "{least}..{most}");
}

/// Westwood+: after loss the window is bandwidth times least RTT. 20 Mbit/s of payload and 40 ms are
/// 69 segments; a random loss must not halve that.
#[test]
fn westwood_returns_to_what_the_path_carries() {
    for linux in [true, false] {
        let cc = controller("westwood", &json!({"linux": linux}));
        let mut pipe = Pipe::new(cc, 20e6, 40 * MS, 200);
        let mut after = Vec::new();
        let mut cuts = 0;
        pipe.run(120 * S, |pipe| {
            if pipe.cuts.len() > cuts && pipe.cc.phase() == "avoidance" {
                cuts = pipe.cuts.len();
                after.push(pipe.cc.cwnd() / u64::from(MSS));
            }
        });
        // Slow start's overshoot leaves a low estimate behind.
        let steady = &after[3..];
        assert!(steady.len() >= 2, "linux={linux}: {after:?}");
        for window in steady {
            assert!((62..=76).contains(window), "linux={linux}: {after:?}");
        }
    }
}

/// The filter starts from its first sample and moves an eighth of the way at each, twice in series in
/// Linux: 100 ms rounds of 100 segments are 1448 bytes a millisecond.
#[test]
fn westwoods_filter_starts_at_its_first_sample() {
    for linux in [true, false] {
        let mut script = avoiding("westwood", &json!({"linux": linux}), 100);
        script.round(50);
        script.round(50);
        let first = recorded(&script, "bandwidth");
        let rate = script.segments() as f64 * f64::from(MSS) * 8.0 / 0.1;
        assert!((first / rate - 1.0).abs() < 0.1, "linux={linux}: {first}, {rate}");
    }
}

/// Table of the specification notes, from the paper's equations: dm = 100 ms.
#[test]
fn illinois_alpha_and_beta_follow_the_queueing_delay() {
    for linux in [true, false] {
        for (da, alpha, beta) in [
            (1, 10.0, 0.125),
            (10, 2.54, 0.125),
            (45, 0.65, 0.3125),
            (50, 0.588, 0.339),
            (80, 0.371, 0.5),
            (100, 0.300, 0.5),
        ] {
            let mut script = avoiding("illinois", &json!({"linux": linux}), 1000);
            script.rtt = 200 * MS;
            script.round(10);
            script.rtt = 100 * MS + da * MS;
            script.round(10);
            script.round(10);
            // After a higher delay alpha stays for theta = 5 rounds of a low one.
            for _ in 0..5 {
                script.round(10);
            }
            let (got_alpha, got_beta) = (recorded(&script, "alpha"), recorded(&script, "beta"));
            // Linux has 38/128 for 0.3.
            let tolerance = if linux { 0.03 } else { 0.01 };
            assert!((got_alpha - alpha).abs() < tolerance, "linux={linux} {da}: {got_alpha}");
            assert!((got_beta - beta).abs() < 1.5 / 64.0, "linux={linux} {da}: {got_beta}");
        }
    }
}

/// The largest alpha returns only with the fifth low round after a higher one.
#[test]
fn illinois_waits_five_rounds_for_its_largest_alpha() {
    let mut script = avoiding("illinois", &json!({"linux": false}), 1000);
    script.rtt = 200 * MS;
    script.round(10);
    script.round(10);
    script.rtt = 100 * MS;
    let mut alphas = Vec::new();
    for _ in 0..8 {
        script.round(10);
        alphas.push(recorded(&script, "alpha"));
    }
    let low = alphas.iter().position(|alpha| *alpha == 10.0).expect("returns");
    assert!((4..=6).contains(&low), "{alphas:?}");
}

/// Below 15 segments Illinois is Reno: same window after the same rounds, half after a loss.
#[test]
fn illinois_is_reno_in_small_windows() {
    let mut illinois = avoiding("illinois", &json!({}), 5);
    let mut reno = avoiding("reno", &json!({}), 5);
    illinois.round(5);
    reno.round(5);
    for _ in 0..7 {
        illinois.round(5);
        reno.round(5);
        assert!(illinois.segments().abs_diff(reno.segments()) <= 1);
    }
    let before = illinois.segments();
    assert!(before < 15);
    illinois.lose();
    assert_eq!(illinois.segments(), before.div_ceil(2));
}

/// Fu and Liew: fewer than 3 segments queued: 4/5; 3 or more: 1/2, and growth every other round.
#[test]
fn veno_cuts_by_its_backlog() {
    // At 100 segments and a base of 100 ms: backlog 100 (1 - 100/RTT).
    for (rtt, factor) in [(100, 0.8), (102, 0.8), (104, 0.5), (150, 0.5)] {
        let mut script = avoiding("veno", &json!({}), 100);
        script.rtt = rtt * MS;
        script.round(10);
        let before = script.segments();
        script.lose();
        assert_eq!(script.segments(), (before as f64 * factor) as u64, "{rtt} ms");
    }
}

#[test]
fn veno_grows_at_half_pace_with_a_queue() {
    for (rtt, expected) in [(100, 20), (120, 10)] {
        let mut script = avoiding("veno", &json!({}), 100);
        script.rtt = rtt * MS;
        script.round(50);
        let before = script.segments();
        for _ in 0..20 {
            script.round(50);
        }
        let grown = script.segments() - before;
        assert!(grown.abs_diff(expected) <= 1, "{rtt} ms: {grown}");
    }
}

/// Fast mode adds 1 for 100 segments; a queue beyond 80 is drained, not below Reno's estimate.
#[test]
fn yeah_is_fast_without_a_queue_and_drains_one() {
    let mut script = avoiding("yeah", &json!({}), 1000);
    script.round(100);
    let before = script.segments();
    script.round(100);
    let grown = script.segments() - before;
    assert!((9..=11).contains(&grown), "{grown}");
    assert_eq!(script.cc.phase(), "fast");

    script.rtt = 110 * MS;
    script.round(100);
    let before = script.segments();
    script.round(100);
    let after = script.segments();
    // 1000 (1 - 100/110) = 91 in the queue: all of them go.
    let queue = before as f64 * (1.0 - 100.0 / 110.0);
    assert!((before as f64 - queue - after as f64).abs() < 4.0, "{before} -> {after}");
    assert_eq!(script.cc.phase(), "reno");
}

/// A loss in fast mode takes an eighth (delta = 3); after 16 rounds in Reno mode half.
#[test]
fn yeah_cuts_an_eighth_in_fast_mode() {
    let mut script = avoiding("yeah", &json!({}), 400);
    script.round(10);
    script.round(10);
    let before = script.segments();
    script.lose();
    assert_eq!(script.segments(), before - before / 8);

    // 120 ms: a queue below 80 segments, but a delay beyond base/8.
    script.rtt = 120 * MS;
    for _ in 0..18 {
        script.round(10);
    }
    assert_eq!(script.cc.phase(), "reno");
    let before = script.segments();
    script.lose();
    assert_eq!(script.segments(), before - before / 2);
}

/// rho = RTT/25 ms: at 100 ms 4, so +15 for an ACK in slow start and +16 a round in avoidance.
#[test]
fn hybla_grows_as_at_25_ms() {
    for (rtt, rho) in [(10, 1.0), (25, 1.0), (40, 1.5), (100, 4.0), (550, 22.0)] {
        let script = Script::new("hybla", &json!({}), rtt * MS, 10);
        assert_eq!(recorded(&script, "rho"), rho, "{rtt} ms");
    }
    for linux in [true, false] {
        let mut script = Script::new("hybla", &json!({"linux": linux}), 100 * MS, 10);
        let before = script.segments();
        let ack = script.event(u64::from(MSS));
        script.cc.on_ack(&ack);
        assert_eq!(script.segments(), before + 15, "linux={linux}");

        let params = json!({"linux": linux, "initial_ssthresh": 400});
        let mut script = Script::new("hybla", &params, 100 * MS, 10);
        while script.cc.cwnd() < script.cc.ssthresh() {
            script.round(script.segments());
        }
        let before = script.segments();
        assert!((400..=402).contains(&before), "{before}");
        // One ACK for each segment.
        script.round(before);
        let grown = script.segments() - before;
        assert!(grown.abs_diff(16) <= 2, "linux={linux}: {before} + {grown}");
    }
}

/// Fractions of rho: at 40 ms 12/8, so that eight ACKs of slow start add 8 (2^1.5 - 1) = 14.6.
#[test]
fn hybla_counts_fractions() {
    let mut script = Script::new("hybla", &json!({}), 40 * MS, 10);
    let before = script.segments();
    for _ in 0..8 {
        let ack = script.event(u64::from(MSS));
        script.cc.on_ack(&ack);
    }
    assert_eq!(script.segments() - before, 14);
}

/// As Linux runs it TCP-LP is Reno, segment for segment.
#[test]
fn lp_in_linux_is_reno() {
    let run = |kind: &str| {
        let mut pipe = Pipe::new(controller(kind, &json!({})), 20e6, 40 * MS, 70);
        let mut windows = Vec::new();
        pipe.run(20 * S, |pipe| windows.push(pipe.cc.cwnd()));
        windows
    };
    assert_eq!(run("lp"), run("reno"));
}

/// As published: the first sign halves, a second within three round trips leaves one segment, and
/// nothing grows until they are over.
#[test]
fn lp_yields_to_delay() {
    let mut script = avoiding("lp", &json!({"linux": false}), 100);
    script.rtt = 200 * MS;
    let mut ack = script.event(u64::from(MSS));
    ack.cwnd_limited = false;
    // Smoothed 112.5 ms in a range of 100..200: below 115.
    script.cc.on_ack(&ack);
    assert_eq!(script.segments(), 100);
    ack.now += MS;
    script.cc.on_ack(&ack);
    assert_eq!(script.segments(), 50);
    // What was sent before the cut says nothing new, for a round trip.
    ack.now += 199 * MS;
    script.cc.on_ack(&ack);
    assert_eq!(script.segments(), 50);
    ack.now += MS;
    ack.snd_una = ack.snd_nxt + 1;
    script.cc.on_ack(&ack);
    assert_eq!(script.segments(), 1);
    // Low delay again, but within the inference phase.
    ack.rtt = Some(100 * MS);
    ack.cwnd_limited = true;
    for _ in 0..20 {
        ack.now += 10 * MS;
        script.cc.on_ack(&ack);
    }
    let quiet = script.segments();
    for _ in 0..300 {
        ack.now += 10 * MS;
        script.cc.on_ack(&ack);
    }
    assert_eq!(quiet, 1);
    assert!(script.segments() > 1);
}

/// Alone it fills the link and leaves most of the buffer free.
#[test]
fn lp_alone_uses_the_link() {
    let cc = controller("lp", &json!({"linux": false}));
    let mut pipe = Pipe::new(cc, 20e6, 40 * MS, 200);
    let (mut before, mut most) = (0, 0);
    pipe.run(60 * S, |pipe| {
        if pipe.now < 20 * S {
            before = pipe.delivered;
        } else {
            most = most.max(pipe.queue());
        }
    });
    let rate = (pipe.delivered - before) as f64 * 8.0 / 40.0;
    assert!(rate > 0.7 * 20e6, "{rate}");
    assert!(most < 100, "{most}");
}

/// Six falls in delay in a row: no back-off.
#[test]
fn cdg_never_backs_off_from_falling_delay() {
    for seed in 0..50 {
        let mut cc = dumbbell_cc::build("cdg", &serde_json::Map::new(), seed).unwrap();
        cc.on_start(&dumbbell_cc::Start {
            now: 0,
            mss: MSS,
            initial_window: 100 * u64::from(MSS),
            rtt: Some(200 * MS),
            ecn: dumbbell_cc::EcnMode::Off,
        });
        let mut script = Script { cc, now: 0, rtt: 200 * MS, una: 0, round: 0 };
        script.lose();
        for step in 0..10 {
            script.rtt = (200 - 5 * step) * MS;
            script.round(20);
            assert_eq!(script.cc.phase(), "avoidance");
        }
    }
}

/// A delay back-off takes the window to 724/1024 over one round trip, step by step.
#[test]
fn cdg_spreads_its_back_off_over_a_round_trip() {
    let mut pipe = Pipe::new(controller("cdg", &json!({})), 20e6, 40 * MS, 1000);
    let (mut start, mut steps, mut ends) = (0, 0, Vec::new());
    let mut last = 0;
    pipe.run(60 * S, |pipe| {
        let window = pipe.cc.cwnd() / u64::from(MSS);
        if pipe.cc.phase() == "backoff" {
            if start == 0 {
                (start, steps) = (window, 0);
            }
            assert!(window <= start);
            steps += u64::from(window < last);
        } else if start > 0 {
            ends.push((start, window, steps));
            start = 0;
        }
        last = window;
    });
    assert!(ends.len() > 5, "{}", ends.len());
    for (from, to, steps) in ends {
        let target = (from as f64 * 724.0 / 1024.0) as u64;
        assert!(to.abs_diff(target) <= 1, "{from} -> {to}");
        assert!(steps + 2 >= (from - target) / 2, "{from} -> {to} in {steps}");
    }
}

/// NV's ceiling is what the rate needs and 10 more: with the window used up and no queue that is the
/// window and 10; a loss leaves 819/1024.
#[test]
fn nv_keeps_ten_segments_of_room() {
    let mut pipe = Pipe::new(controller("nv", &json!({})), 20e6, 40 * MS, 1000);
    let (mut least, mut most) = (u64::MAX, 0);
    pipe.run(6 * S, |pipe| {
        if pipe.now > 5 * S {
            least = least.min(pipe.cc.cwnd() / u64::from(MSS));
            most = most.max(pipe.cc.cwnd() / u64::from(MSS));
        }
    });
    // 69 segments are in flight without a queue.
    assert!(least >= 65 && most <= 105, "{least}..{most}");

    let mut script = Script::new("nv", &json!({}), 100 * MS, 1000);
    script.lose();
    assert_eq!(script.segments(), 799);
}

/// None grows on ACKs of a flow that its application holds back, Vegas in Linux excepted.
#[test]
fn an_unused_window_rests() {
    for kind in ALL {
        let params = if kind == "vegas" { json!({"linux": false}) } else { json!({}) };
        let mut script = avoiding(kind, &params, 100);
        let before = script.segments();
        for _ in 0..5 {
            for _ in 0..50 {
                script.now += 2 * MS;
                script.una += 2 * u64::from(MSS);
                let mut ack = script.event(2 * u64::from(MSS));
                ack.cwnd_limited = false;
                script.cc.on_ack(&ack);
            }
        }
        assert!(script.segments() <= before, "{kind}: {before} -> {}", script.segments());
    }
}

/// A spurious cut is taken back in full.
#[test]
fn a_spurious_cut_is_undone() {
    for kind in ALL {
        let mut script = avoiding(kind, &json!({}), 100);
        script.round(10);
        let (window, threshold) = (script.cc.cwnd(), script.cc.ssthresh());
        script.lose();
        script.cc.on_undo(&dumbbell_cc::Undo { now: script.now, mss: MSS, timeout: false });
        assert!(script.cc.cwnd() >= window, "{kind}");
        assert!(script.cc.ssthresh() >= threshold, "{kind}");
    }
}
