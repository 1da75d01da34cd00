use serde_json::json;

use super::*;
use crate::event::{CongestionKind, RateSample};

const MSS: u64 = 1448;
const MS: Nanos = 1_000_000;

/// Without ProbeRTT: the data in flight of a script does not follow the window.
fn bbr_with(given: &serde_json::Value, seed: u64) -> Bbr3 {
    let mut given = given.as_object().unwrap().clone();
    given.entry("probe_rtt_duration").or_insert(json!(0));
    let params = Params::check(NAME, &info().params, &given).unwrap();
    let mut bbr = Bbr3::new(Settings::new(&params), seed);
    bbr.on_start(&start(EcnMode::CeState));
    bbr
}

fn start(ecn: EcnMode) -> Start {
    Start { now: 0, mss: MSS as u32, initial_window: 10 * MSS, rtt: Some(40 * MS), ecn }
}

/// ACKs of one round each: `rate` in bytes per second, `inflight` in bytes.
struct Rounds {
    now: Nanos,
    delivered: u64,
    rtt: Nanos,
}

impl Rounds {
    fn new() -> Self {
        Self { now: 0, delivered: 0, rtt: 40 * MS }
    }

    fn ack(&mut self, rate: f64, inflight: u64) -> Ack {
        let prior_delivered = self.delivered;
        self.now += self.rtt;
        let acked = (rate * self.rtt as f64 * 1e-9).round() as u64;
        self.delivered += acked;
        Ack {
            now: self.now,
            mss: MSS as u32,
            acked,
            rtt: Some(self.rtt),
            srtt: self.rtt,
            min_rtt: self.rtt,
            rate: RateSample {
                delivered: acked,
                interval: self.rtt,
                prior_delivered,
                has_data: true,
                tx_in_flight: inflight,
                ..RateSample::default()
            },
            delivered: self.delivered,
            inflight_before: inflight,
            inflight,
            ..Ack::default()
        }
    }

    fn lost(&self, number: u64, tx_in_flight: u64, lost: u64) -> Lost {
        Lost {
            now: self.now,
            number,
            bytes: MSS as u32,
            tx_in_flight,
            lost,
            delivered: self.delivered,
            app_limited: false,
        }
    }
}

/// 100 segments a round: 3.62 MB/s at 40 ms.
const RATE: f64 = 100.0 * 1448.0 / 0.04;

/// In CRUISE with a pipe of 100 segments.
fn cruising(given: &serde_json::Value) -> (Bbr3, Rounds) {
    let mut bbr = bbr_with(given, 1);
    let mut rounds = Rounds::new();
    for _ in 0..5 {
        bbr.on_ack(&rounds.ack(RATE, 150 * MSS));
    }
    for _ in 0..3 {
        bbr.on_ack(&rounds.ack(RATE, 90 * MSS));
    }
    assert_eq!(bbr.phase(), "probe_bw_cruise");
    (bbr, rounds)
}

fn until(bbr: &mut Bbr3, state: State, mut step: impl FnMut(&mut Bbr3)) {
    for _ in 0..1000 {
        if bbr.state == state {
            return;
        }
        step(bbr);
    }
    panic!("no {state:?} in a thousand steps");
}

/// In UP, after the wait and REFILL.
fn probing(given: &serde_json::Value) -> (Bbr3, Rounds) {
    let (mut bbr, mut rounds) = cruising(given);
    until(&mut bbr, State::Refill, |bbr| bbr.on_ack(&rounds.ack(RATE, 90 * MSS)));
    bbr.on_ack(&rounds.ack(RATE, 100 * MSS));
    assert_eq!(bbr.state, State::Up);
    (bbr, rounds)
}

#[test]
fn constants_are_the_drafts_or_linuxs_unless_given() {
    let draft = bbr_with(&json!({}), 1).settings;
    assert!((draft.startup_gain - 2.77).abs() < 0.005);
    assert_eq!((draft.drain_gain, draft.probe_down_gain), (0.5, 0.9));
    assert_eq!((draft.drain_rounds, draft.extra_acked_window), (3, 10));
    let linux = bbr_with(&json!({"constants": "linux"}), 1).settings;
    assert!((linux.drain_gain - 0.347).abs() < 0.001);
    assert_eq!((linux.probe_down_gain, linux.extra_acked_window), (0.91, 5));
    let given = bbr_with(&json!({"constants": "linux", "probe_down_gain": 0.9}), 1).settings;
    assert_eq!((given.probe_down_gain, given.extra_acked_window), (0.9, 5));
}

/// The first pacing rate is 2.77 IW/RTT; without a handshake RTT that of 1 ms, until the first sample.
#[test]
fn the_first_rtt_sample_corrects_the_pacing_rate() {
    let mut bbr = bbr_with(&json!({}), 1);
    assert!((bbr.pacing_rate().unwrap() / (2.7726 * 14_480.0 / 0.04) - 1.0).abs() < 1e-4);
    bbr.has_seen_rtt = false;
    bbr.on_start(&Start { rtt: None, ..start(EcnMode::Off) });
    assert!((bbr.pacing_rate().unwrap() / (2.7726 * 14_480.0 / 0.001) - 1.0).abs() < 1e-4);
    let mut ack = Rounds::new().ack(100_000.0, 10_000);
    ack.rate.interval = 0;
    bbr.on_ack(&ack);
    assert!((bbr.pacing_rate().unwrap() / (2.7726 * 14_480.0 / 0.04) - 1.0).abs() < 1e-4);
}

#[test]
fn the_pipe_is_full_after_three_flat_rounds() {
    let mut bbr = bbr_with(&json!({}), 1);
    let mut rounds = Rounds::new();
    for rate in [1e6, 2e6, 4e6, 5e6] {
        bbr.on_ack(&rounds.ack(rate, 1_000_000));
        assert_eq!(bbr.full_pipe.count, 0);
    }
    for (count, rate) in [(1, 5.5e6), (2, 6e6), (3, 6.2e6)] {
        assert_eq!(bbr.state, State::Startup);
        bbr.on_ack(&rounds.ack(rate, 1_000_000));
        assert_eq!(bbr.full_pipe.count, count);
    }
    assert!(bbr.full_pipe.now && bbr.full_pipe.reached);
    assert_eq!((bbr.phase(), bbr.pacing_gain), ("drain", 0.5));
    assert!(bbr.ssthresh() < u64::MAX);
    // More than the draft's three rounds, and still a queue.
    for _ in 0..3 {
        bbr.on_ack(&rounds.ack(6.2e6, 1_000_000));
        assert_eq!(bbr.phase(), "drain");
    }
    bbr.on_ack(&rounds.ack(6.2e6, 1_000_000));
    assert_eq!((bbr.phase(), bbr.pacing_gain), ("probe_bw_down", 0.9));
}

/// Each of the three conditions is needed: more than 2 %, six ranges, a round in fast recovery.
#[test]
fn startup_ends_on_six_losses_in_a_round() {
    let end = |ranges: u64, lost: u64, state: CaState| {
        let mut bbr = bbr_with(&json!({}), 1);
        let mut rounds = Rounds::new();
        bbr.on_ack(&rounds.ack(RATE, 100 * MSS));
        for i in 0..ranges {
            bbr.on_lost(&rounds.lost(3 * i, 100 * MSS, (i + 1) * MSS));
        }
        let mut ack = rounds.ack(RATE, 100 * MSS);
        ack.rate.app_limited = true;
        ack.rate.lost = lost;
        ack.state = state;
        bbr.on_ack(&ack);
        bbr
    };
    let left = end(6, 6 * MSS, CaState::Recovery);
    assert!(left.full_pipe.now && left.full_pipe.reached && left.state != State::Startup);
    // max(bdp, inflight_latest) of 100 segments.
    assert_eq!(left.bounds.inflight_longterm, 100 * MSS);
    for stays in [
        end(5, 6 * MSS, CaState::Recovery),
        end(6, 2 * MSS, CaState::Recovery),
        end(6, 6 * MSS, CaState::Open),
    ] {
        assert_eq!(stays.state, State::Startup);
    }
    // Neighbours are one range.
    let mut bbr = bbr_with(&json!({}), 1);
    for i in 0..9 {
        bbr.on_lost(&Rounds::new().lost(i, 100 * MSS, MSS));
    }
    assert_eq!(bbr.probe.lost_ranges, 1);
}

/// Draft: with L lost among I in flight before a segment, the threshold is crossed (0.02 I - L)/0.98
/// into it; what is left is no less than 0.7 of the target.
#[test]
fn the_threshold_is_crossed_inside_a_segment() {
    let bbr = bbr_with(&json!({}), 1);
    let event = Lost { bytes: 10_000, ..Rounds::new().lost(0, 110_000, 11_000) };
    // (2000 - 1000)/0.98 = 1020.4 bytes into it.
    assert_eq!(bbr.inflight_at_loss(&event), 101_020);
    let late = Lost { lost: 15_000, ..event };
    assert_eq!(bbr.inflight_at_loss(&late), 100_000);

    let (mut bbr, rounds) = probing(&json!({}));
    bbr.on_lost(&rounds.lost(0, 120 * MSS, 2 * MSS));
    assert_eq!(bbr.state, State::Up);
    bbr.on_lost(&rounds.lost(7, 120 * MSS, 3 * MSS));
    assert_eq!((bbr.state, bbr.pacing_gain), (State::Down, 0.9));
    // 119 segments before, of which 2 lost: (2.38 - 2)/0.98 of a segment more, in whole segments.
    assert_eq!(bbr.bounds.inflight_longterm, 119 * MSS);
    assert!(bbr.probe.prev_too_high && !bbr.probe.is_sample);

    let (mut bbr, rounds) = probing(&json!({}));
    bbr.on_lost(&rounds.lost(0, 20 * MSS, 10 * MSS));
    let target = bbr.target_inflight();
    assert_eq!(bbr.bounds.inflight_longterm, bbr.whole((0.7 * target as f64) as u64));
}

#[test]
fn an_application_limited_probe_ends_on_loss() {
    let (mut bbr, mut rounds) = probing(&json!({}));
    for _ in 0..30 {
        let mut ack = rounds.ack(RATE / 10.0, 10 * MSS);
        ack.rate.app_limited = true;
        bbr.on_ack(&ack);
        assert_eq!(bbr.state, State::Up);
    }
    bbr.on_lost(&Lost { app_limited: true, ..rounds.lost(0, 10 * MSS, MSS) });
    assert_eq!(bbr.state, State::Down);
    assert_eq!(bbr.bounds.inflight_longterm, UNBOUNDED);
    assert_eq!(bbr.max_bw.get(), RATE);
}

/// 1, 2, 4, 8, ... segments a round while the bound limits the flow.
#[test]
fn the_long_term_bound_grows_by_powers_of_two() {
    let (mut bbr, mut rounds) = probing(&json!({}));
    bbr.bounds.inflight_longterm = 100 * MSS;
    bbr.cwnd = 100 * MSS;
    bbr.probe.up_rounds = 0;
    let mut steps = Vec::new();
    for _ in 0..7 {
        let before = bbr.bounds.inflight_longterm;
        // A window's worth, in ACKs of two segments, of which the first starts the round.
        let window = bbr.cwnd / MSS;
        for i in 0..window / 2 {
            let mut ack = rounds.ack(2.0 * 1448.0 / 0.04, 90 * MSS);
            ack.cwnd_limited = true;
            if i > 0 {
                ack.rate.prior_delivered = 0;
            }
            rounds.now -= 40 * MS - 1;
            bbr.on_ack(&ack);
            assert_eq!(bbr.state, State::Up);
        }
        steps.push((bbr.bounds.inflight_longterm - before) / MSS);
    }
    for (step, expected) in steps.iter().zip([1_u64, 2, 4, 8, 16, 32, 64]) {
        assert!(step.abs_diff(expected) <= expected.div_ceil(4), "{steps:?}");
    }
}

/// Sharing with Reno: whatever the time, a probe comes after 62 or 63 rounds, or as many as the pipe
/// holds segments.
#[test]
fn probes_come_as_often_as_reno_loses() {
    let mut seen = std::collections::BTreeSet::new();
    for (segments, seed) in (0..20).map(|i| (1000, i)).chain((0..20).map(|i| (30, i))) {
        let mut bbr = bbr_with(&json!({"probe_wait": 1_000_000_000_000_u64}), seed);
        let mut rounds = Rounds { rtt: MS, ..Rounds::new() };
        let rate = segments as f64 * 1448.0 / 0.001;
        let mut count = None;
        for _ in 0..200 {
            bbr.on_ack(&rounds.ack(rate, segments * MSS));
            match (bbr.state, count) {
                (State::Down, None) => count = Some(0),
                (State::Refill, Some(count)) => {
                    seen.insert((segments, count + 1));
                    break;
                }
                (_, Some(so_far)) => count = Some(so_far + 1),
                _ => {}
            }
        }
    }
    let expected = [(30, 29), (30, 30), (1000, 62), (1000, 63)];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

/// Loss while cruising: 0.7 at most, or what the round delivered.
#[test]
fn short_term_bounds_follow_the_delivery() {
    let (mut bbr, mut rounds) = cruising(&json!({}));
    bbr.on_lost(&rounds.lost(0, 90 * MSS, MSS));
    bbr.on_ack(&rounds.ack(0.9 * RATE, 80 * MSS));
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
    // The best of the rounds in hand is still that of before.
    close(bbr.bounds.bw_shortterm, RATE);
    bbr.on_lost(&rounds.lost(9, 90 * MSS, MSS));
    bbr.on_ack(&rounds.ack(0.2 * RATE, 80 * MSS));
    close(bbr.bounds.bw_shortterm, 0.9 * RATE);
    bbr.on_lost(&rounds.lost(19, 90 * MSS, MSS));
    bbr.on_ack(&rounds.ack(0.2 * RATE, 80 * MSS));
    close(bbr.bounds.bw_shortterm, 0.63 * RATE);
    close(bbr.bw, 0.63 * RATE);
    assert_eq!(bbr.max_bw.get(), RATE);
    until(&mut bbr, State::Refill, |bbr| bbr.on_ack(&rounds.ack(0.2 * RATE, 80 * MSS)));
    assert_eq!(bbr.bw, RATE);
}

/// Undo restores all bounds exactly, and the state that the loss has ended.
#[test]
fn a_spurious_recovery_restores_bounds_and_state() {
    let (mut bbr, rounds) = probing(&json!({}));
    bbr.bounds.inflight_longterm = 140 * MSS;
    let (cwnd, before) = (bbr.cwnd, bbr.bounds);
    bbr.on_lost(&rounds.lost(0, 100 * MSS, 20 * MSS));
    assert_eq!(bbr.state, State::Down);
    assert!(bbr.bounds.inflight_longterm < before.inflight_longterm);
    bbr.bounds.inflight_shortterm = 50 * MSS;
    bbr.bounds.bw_shortterm = 1e5;
    bbr.cwnd = 50 * MSS;
    bbr.on_undo(&Undo { now: rounds.now, mss: MSS as u32, timeout: false });
    assert_eq!(bbr.state, State::Refill);
    assert_eq!(bbr.cwnd, cwnd);
    assert_eq!(bbr.bounds.inflight_longterm, before.inflight_longterm);
    assert_eq!(bbr.bounds.inflight_shortterm, UNBOUNDED);
    assert!(bbr.bounds.bw_shortterm.is_infinite());
    // It is taken back once.
    bbr.bounds.inflight_longterm = 10 * MSS;
    bbr.on_undo(&Undo { now: rounds.now, mss: MSS as u32, timeout: false });
    assert_eq!(bbr.bounds.inflight_longterm, 10 * MSS);

    let mut bbr = bbr_with(&json!({}), 1);
    let mut rounds = Rounds::new();
    bbr.on_ack(&rounds.ack(RATE, 100 * MSS));
    for i in 0..6 {
        bbr.on_lost(&rounds.lost(3 * i, 100 * MSS, (i + 1) * MSS));
    }
    let mut ack = rounds.ack(RATE, 150 * MSS);
    (ack.rate.lost, ack.state) = (6 * MSS, CaState::Recovery);
    bbr.on_ack(&ack);
    assert_eq!(bbr.state, State::Drain);
    bbr.on_undo(&Undo { now: rounds.now, mss: MSS as u32, timeout: false });
    assert_eq!((bbr.state, bbr.full_pipe.reached), (State::Startup, false));
    assert_eq!(bbr.bounds.inflight_longterm, UNBOUNDED);
}

#[test]
fn a_spurious_timeout_restores_the_window() {
    let (mut bbr, rounds) = cruising(&json!({}));
    let cwnd = bbr.cwnd();
    bbr.on_lost(&rounds.lost(0, 90 * MSS, MSS));
    bbr.on_rto(&Rto {
        now: rounds.now,
        mss: MSS as u32,
        inflight: 3 * MSS,
        first: true,
        delivered: rounds.delivered,
    });
    assert_eq!(bbr.cwnd(), 4 * MSS);
    bbr.on_undo(&Undo { now: rounds.now, mss: MSS as u32, timeout: true });
    assert_eq!(bbr.cwnd(), cwnd);
    assert!(bbr.bounds.bw_shortterm.is_infinite() && !bbr.latest.loss_in_round);
}

/// A loss that a tail probe repaired comes without a segment marked lost, and counts.
#[test]
fn a_repaired_tail_loss_counts() {
    let (mut bbr, mut rounds) = cruising(&json!({}));
    bbr.on_congestion(&Congestion {
        now: rounds.now,
        kind: CongestionKind::Loss,
        mss: MSS as u32,
        inflight: 0,
        lost: 0,
        srtt: 40 * MS,
        delivered: rounds.delivered,
        acked: 0,
    });
    bbr.on_ack(&rounds.ack(RATE, 90 * MSS));
    assert!(bbr.bounds.bw_shortterm.is_finite());
}

/// Alpha is 1 at first and moves by 1/16 a round; a round with marks cuts by a third of it.
#[test]
fn marks_cut_by_their_share_at_short_rtts() {
    let (mut bbr, mut rounds) = cruising(&json!({}));
    assert_eq!(bbr_with(&json!({}), 1).marks.alpha(), 1.0);
    bbr.settings.ecn_max_rtt = 40 * MS;
    let (cwnd, before) = (bbr.cwnd, bbr.marks.alpha());
    let mut marked = |bbr: &mut Bbr3, share: f64| {
        let mut ack = rounds.ack(RATE, 90 * MSS);
        ack.ce = (share * ack.acked as f64) as u64;
        bbr.on_ack(&ack);
    };
    marked(&mut bbr, 0.5);
    let alpha = before + (0.5 - before) / 16.0;
    assert!((bbr.marks.alpha() - alpha).abs() < 1e-6);
    let cut = (cwnd as f64 * (1.0 - alpha / 3.0)) as u64;
    assert_eq!(bbr.bounds.inflight_shortterm, cut);
    assert!(bbr.bounds.bw_shortterm.is_infinite());
    marked(&mut bbr, 0.0);
    assert!((bbr.marks.alpha() - alpha * 15.0 / 16.0).abs() < 1e-6);
    // Marks, no loss, and no more marks: a probe at once, that begins with half the window.
    assert_eq!(bbr.state, State::Refill);
    let half = (cut / MSS / 2).ilog2();
    assert_eq!(bbr.probe.up_rounds, half);
}

/// Beyond 5 ms marks count as losses (draft: as congestion), or for nothing (Linux).
#[test]
fn marks_count_as_losses_at_long_rtts() {
    for (constants, bounded) in [("draft", true), ("linux", false)] {
        let (mut bbr, mut rounds) = cruising(&json!({"constants": constants}));
        let mut ack = rounds.ack(RATE, 90 * MSS);
        ack.ce = MSS;
        bbr.on_ack(&ack);
        bbr.on_ack(&rounds.ack(RATE, 90 * MSS));
        assert_eq!(bbr.bounds.bw_shortterm.is_finite(), bounded, "{constants}");
    }
    let mut off = bbr_with(&json!({"ecn": "off"}), 1);
    assert_eq!(off.ecn_mode(), EcnMode::Off);
    off.on_start(&start(EcnMode::Accurate));
    off.on_ack(&Ack { ce: MSS, ..Rounds::new().ack(RATE, 90 * MSS) });
    assert!(!off.latest.loss_in_round);
}

/// Two rounds with half the data marked end Startup.
#[test]
fn marks_end_startup_after_two_rounds() {
    let mut bbr = bbr_with(&json!({"ecn_max_rtt": 0}), 1);
    bbr.on_start(&start(EcnMode::CeState));
    let mut rounds = Rounds::new();
    for (rate, left) in [(1e6, false), (2e6, false), (4e6, true)] {
        let mut ack = rounds.ack(rate, 500 * MSS);
        ack.ce = if rate > 1e6 { ack.acked / 2 + 1 } else { 0 };
        bbr.on_ack(&ack);
        assert_eq!(bbr.state != State::Startup, left, "{rate}");
    }
}

/// The careful probe after one that was too much stops at the bound, and goes on if nothing is lost.
#[test]
fn a_probe_after_too_much_is_careful() {
    let (mut bbr, mut rounds) = probing(&json!({}));
    bbr.on_lost(&rounds.lost(0, 120 * MSS, 3 * MSS));
    for _ in 0..4 {
        bbr.on_ack(&rounds.ack(RATE, 90 * MSS));
    }
    until(&mut bbr, State::Up, |bbr| bbr.on_ack(&rounds.ack(RATE, 90 * MSS)));
    bbr.on_ack(&rounds.ack(RATE, 118 * MSS));
    assert_eq!(bbr.state, State::Up);
    bbr.on_ack(&rounds.ack(RATE, 119 * MSS));
    assert!(bbr.state == State::Down && bbr.probe.prev_precautionary);
    bbr.on_ack(&rounds.ack(RATE, 119 * MSS));
    assert_eq!(bbr.state, State::Refill);
}

/// After a pause: the bottleneck's own rate, and no ProbeRTT though the interval is over.
#[test]
fn idle_restart_paces_at_the_bottleneck_and_skips_probe_rtt() {
    let (mut bbr, mut rounds) = probing(&json!({}));
    rounds.now += 11_000 * MS;
    bbr.on_idle_restart(&IdleRestart {
        now: rounds.now,
        mss: MSS as u32,
        idle: 11_000 * MS,
        app_limited: true,
        restart_window: None,
        delivered: rounds.delivered,
    });
    assert!((bbr.pacing_rate / (0.99 * RATE) - 1.0).abs() < 1e-9);
    bbr.on_ack(&rounds.ack(RATE / 4.0, 10 * MSS));
    assert!(bbr.state.is_probe_bw());
}

/// In CRUISE 15 % of the bound is left free.
#[test]
fn cruising_leaves_headroom() {
    let (mut bbr, mut rounds) = cruising(&json!({}));
    bbr.bounds.inflight_longterm = 100 * MSS;
    bbr.on_ack(&rounds.ack(RATE, 80 * MSS));
    assert_eq!(bbr.cwnd(), 85 * MSS);
    bbr.bounds.inflight_longterm = 4 * MSS;
    assert_eq!(bbr.inflight_with_headroom(), 4 * MSS);
}

/// draft: 1 ms at the pacing rate, from 2 segments to 64 KiB.
#[test]
fn send_quantum_is_a_millisecond() {
    let mut bbr = bbr_with(&json!({}), 1);
    for (rate, expected) in [(1e5, 2 * MSS), (1e7, 10_000), (1e9, 65_536)] {
        bbr.pacing_rate = rate;
        assert_eq!(bbr.send_quantum(), expected);
    }
}
