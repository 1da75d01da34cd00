use serde_json::json;

use super::*;
use crate::event::{CongestionKind, RateSample};

const MSS: u32 = 1448;
const MS: Nanos = 1_000_000;

fn bbr_with(given: &serde_json::Value, seed: u64) -> Bbr {
    let params = Params::check(NAME, &info().params, given.as_object().unwrap()).unwrap();
    let mut bbr = Bbr::new(Settings::new(&params), seed);
    bbr.on_start(&Start {
        now: 0,
        mss: MSS,
        initial_window: 14_480,
        rtt: Some(40 * MS),
        ecn: crate::EcnMode::Off,
    });
    bbr
}

fn bbr() -> Bbr {
    bbr_with(&json!({}), 1)
}

/// ACKs of one round each: `rate` in bytes per second, `inflight` in bytes.
struct Rounds {
    now: Nanos,
    delivered: u64,
}

impl Rounds {
    fn new() -> Self {
        Self { now: 0, delivered: 0 }
    }

    fn ack(&mut self, rate: f64, inflight: u64) -> Ack {
        let prior_delivered = self.delivered;
        self.now += 40 * MS;
        let acked = (rate * 0.04) as u64;
        self.delivered += acked;
        Ack {
            now: self.now,
            mss: MSS,
            acked,
            rtt: Some(40 * MS),
            srtt: 40 * MS,
            min_rtt: 40 * MS,
            rate: RateSample {
                delivered: acked,
                interval: 40 * MS,
                prior_delivered,
                has_data: true,
                ..RateSample::default()
            },
            delivered: self.delivered,
            inflight_before: inflight,
            inflight,
            ..Ack::default()
        }
    }
}

/// 2/ln 2 and its inverse; ten segments per handshake RTT before anything is known (BBR-01).
#[test]
fn starts_at_two_over_ln_two() {
    let mut bbr = bbr();
    assert!((bbr.pacing_gain / 2.885 - 1.0).abs() < 0.002);
    let expected = 0.99 * 2.885 * 14_480.0 / 0.040;
    assert!((bbr.pacing_rate().unwrap() / expected - 1.0).abs() < 0.002);
    // Kernel trace: 4.14 Mbit/s with a handshake of 80 ms.
    bbr.on_start(&Start {
        now: 0,
        mss: MSS,
        initial_window: 14_480,
        rtt: Some(80 * MS),
        ecn: crate::EcnMode::Off,
    });
    assert!((bbr.pacing_rate().unwrap() * 8e-6 - 4.14).abs() < 0.01);
    bbr.mode = Mode::Drain;
    bbr.update_gains();
    assert!((bbr.pacing_gain / 0.3466 - 1.0).abs() < 0.01);
    assert!((bbr.cwnd_gain / 2.885 - 1.0).abs() < 0.002);
}

/// Without a handshake RTT the first rate is that of 1 ms, corrected at the first sample.
#[test]
fn the_first_rtt_sample_corrects_the_pacing_rate() {
    let mut bbr = bbr();
    bbr.has_seen_rtt = false;
    bbr.on_start(&Start {
        now: 0,
        mss: MSS,
        initial_window: 14_480,
        rtt: None,
        ecn: crate::EcnMode::Off,
    });
    assert!(bbr.pacing_rate().unwrap() > 30e6);
    let mut rounds = Rounds::new();
    let mut ack = rounds.ack(100_000.0, 10_000);
    ack.rate.interval = 0;
    bbr.on_ack(&ack);
    assert!(bbr.pacing_rate().unwrap() <= 3.0 * bbr.cwnd() as f64 / 0.040);
}

/// Startup ends after three rounds that grow by less than a quarter, not after two.
#[test]
fn the_pipe_is_full_after_three_flat_rounds() {
    let mut bbr = bbr();
    let mut rounds = Rounds::new();
    for rate in [1e6, 2e6, 4e6, 5e6] {
        bbr.on_ack(&rounds.ack(rate, 1_000_000));
        assert_eq!(bbr.full_bw_count, 0);
    }
    for (count, rate) in [(1, 5.5e6), (2, 6e6), (3, 6.2e6)] {
        assert_eq!(bbr.mode, Mode::Startup);
        bbr.on_ack(&rounds.ack(rate, 1_000_000));
        assert_eq!(bbr.full_bw_count, count);
    }
    assert_eq!(bbr.phase(), "drain");
    assert!(bbr.ssthresh() < u64::MAX);
    // Drained: 6.2 MB/s * 40 ms.
    bbr.on_ack(&rounds.ack(6.2e6, 248_000));
    assert_eq!(bbr.phase(), "probe_bw");
}

/// Application-limited rounds neither end Startup nor lower the bandwidth (BBR-02).
#[test]
fn application_limited_rounds_say_nothing_about_the_pipe() {
    let mut bbr = bbr();
    let mut rounds = Rounds::new();
    bbr.on_ack(&rounds.ack(4e6, 100_000));
    for _ in 0..50 {
        let mut ack = rounds.ack(1e5, 3000);
        ack.rate.app_limited = true;
        bbr.on_ack(&ack);
    }
    assert_eq!(bbr.mode, Mode::Startup);
    assert_eq!(bbr.bw(), 4e6);
    let mut faster = rounds.ack(8e6, 3000);
    faster.rate.app_limited = true;
    bbr.on_ack(&faster);
    assert_eq!(bbr.bw(), 8e6);
}

fn in_probe_bw(seed: u64) -> (Bbr, Rounds) {
    let mut bbr = bbr_with(&json!({}), seed);
    let mut rounds = Rounds::new();
    for _ in 0..4 {
        bbr.on_ack(&rounds.ack(6e6, 1_000_000));
    }
    bbr.on_ack(&rounds.ack(6e6, 100_000));
    assert_eq!(bbr.mode, Mode::ProbeBw);
    (bbr, rounds)
}

/// 1.25, 0.75, then six phases at 1; the start is any phase but the draining one.
#[test]
fn gains_cycle_through_eight_phases() {
    let mut seen = [false; CYCLE];
    for seed in 0..200 {
        seen[in_probe_bw(seed).0.cycle_index] = true;
    }
    assert_eq!(seen, [true, false, true, true, true, true, true, true]);

    let (mut bbr, mut rounds) = in_probe_bw(1);
    let mut gains = Vec::new();
    for _ in 0..24 {
        rounds.now += MS;
        bbr.on_ack(&rounds.ack(6e6, 400_000));
        gains.push(bbr.pacing_gain);
    }
    let up = gains.iter().position(|g| *g == 1.25).unwrap();
    assert_eq!(gains[up..up + 9], [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.25]);
}

/// The probing phase lasts until 1.25 BDP is in flight, or something is lost.
#[test]
fn probing_goes_on_until_the_pipe_holds_it() {
    let (mut bbr, mut rounds) = in_probe_bw(1);
    bbr.cycle_index = 0;
    bbr.update_gains();
    for _ in 0..5 {
        rounds.now += MS;
        bbr.on_ack(&rounds.ack(6e6, 240_000));
        assert_eq!(bbr.cycle_index, 0);
    }
    let mut ack = rounds.ack(6e6, 240_000);
    ack.lost = u64::from(MSS);
    bbr.on_ack(&ack);
    assert_eq!(bbr.cycle_index, 1);
    // 6 MB/s * 40 ms is drained to at once.
    bbr.on_ack(&rounds.ack(6e6, 240_000));
    assert_eq!(bbr.cycle_index, 2);
}

/// Windows of the kernel's 50 Mbit/s, 40 ms trace: 334 segments of 2 BDP with 3, 4 and 2 segments of
/// quantum at gains 1, 1.25 and 0.75.
#[test]
fn targets_are_those_of_the_kernel_trace() {
    let mut bbr = bbr();
    bbr.mode = Mode::ProbeBw;
    for (index, gain, expected) in [(3, 1.0, 344), (0, 1.25, 348), (1, 0.75, 340)] {
        bbr.cycle_index = index;
        bbr.pacing_rate = bbr.paced(47.82e6 / 8.0, gain);
        assert_eq!(bbr.with_bursts(334), expected);
    }
}

#[test]
fn send_quantum_depends_on_the_pacing_rate() {
    let mut bbr = bbr();
    for (mbit, expected) in [(1.0, 1), (1.3, 2), (20.0, 2), (100.0, 8), (100_000.0, 45)] {
        bbr.pacing_rate = mbit * 1e6 / 8.0;
        assert_eq!(bbr.send_quantum(), expected, "{mbit} Mbit/s");
    }
}

/// Entry: one packet out per packet delivered, for a round; exit: the window from before.
#[test]
fn recovery_conserves_packets_and_restores_the_window() {
    let (mut bbr, mut rounds) = in_probe_bw(1);
    let before = bbr.cwnd;
    bbr.on_congestion(&Congestion {
        now: rounds.now,
        kind: CongestionKind::Loss,
        mss: MSS,
        inflight: 144_800,
        lost: u64::from(MSS),
        srtt: 40 * MS,
        delivered: rounds.delivered,
        acked: u64::from(MSS),
    });
    let mut entry = rounds.ack(6e6, 144_800);
    entry.state = CaState::Recovery;
    entry.lost = u64::from(MSS);
    entry.acked = 2 * u64::from(MSS);
    entry.delivered = rounds.delivered;
    bbr.on_ack(&entry);
    assert_eq!(bbr.cwnd, 102);
    assert!(bbr.packet_conservation);
    let mut inside = rounds.ack(6e6, 144_800);
    inside.rate.prior_delivered = 0;
    inside.state = CaState::Recovery;
    inside.acked = u64::from(MSS);
    bbr.on_ack(&inside);
    assert_eq!(bbr.cwnd, 102);
    let mut exit = rounds.ack(6e6, 144_800);
    exit.acked = u64::from(MSS);
    bbr.on_ack(&exit);
    assert!(bbr.cwnd >= before, "{} < {before}", bbr.cwnd);
    assert!(!bbr.packet_conservation);
}

/// RTO: one segment beyond what is in flight, the full-pipe estimate starts over.
#[test]
fn a_timeout_leaves_one_segment_and_restores_later() {
    let (mut bbr, mut rounds) = in_probe_bw(1);
    let before = bbr.cwnd;
    bbr.on_rto(&Rto {
        now: rounds.now,
        mss: MSS,
        inflight: 0,
        first: true,
        delivered: rounds.delivered,
    });
    assert_eq!(bbr.cwnd(), u64::from(MSS));
    assert_eq!(bbr.full_bw, 0.0);
    let mut lost = rounds.ack(1e5, 1448);
    lost.state = CaState::Loss;
    bbr.on_ack(&lost);
    assert!(bbr.cwnd >= 4 && bbr.cwnd < before);
    bbr.on_ack(&rounds.ack(1e5, 1448));
    assert!(bbr.cwnd >= before);
}

/// BBR-04: after an application-limited pause, one round at the bottleneck's rate and no ProbeRTT.
#[test]
fn idle_restart_paces_at_the_bottleneck_and_skips_probe_rtt() {
    let (mut bbr, mut rounds) = in_probe_bw(1);
    bbr.cycle_index = 0;
    bbr.update_gains();
    rounds.now += 11_000 * MS;
    bbr.on_idle_restart(&IdleRestart {
        now: rounds.now,
        mss: MSS,
        idle: 11_000 * MS,
        app_limited: true,
        restart_window: None,
        delivered: rounds.delivered,
    });
    assert!((bbr.pacing_rate / (0.99 * 6e6) - 1.0).abs() < 1e-9);
    bbr.on_ack(&rounds.ack(1e6, 14_480));
    assert_eq!(bbr.mode, Mode::ProbeBw);
}

/// Samples of ProbeRTT's tiny window do not lower the bandwidth, however many rounds it takes.
#[test]
fn probe_rtt_samples_count_as_application_limited() {
    let (mut bbr, mut rounds) = in_probe_bw(1);
    rounds.now += 10_001 * MS;
    bbr.on_ack(&rounds.ack(6e6, 240_000));
    assert_eq!(bbr.phase(), "probe_rtt");
    assert_eq!(bbr.cwnd, 4);
    let started = rounds.now;
    let mut ended = None;
    for _ in 0..400 {
        // Rounds of 1 ms: far more than the ten of the bandwidth filter.
        let mut ack = rounds.ack(145_000.0, 4 * u64::from(MSS));
        rounds.now -= 39 * MS;
        ack.now = rounds.now;
        bbr.on_ack(&ack);
        if bbr.mode != Mode::ProbeRtt {
            ended = Some(rounds.now);
            break;
        }
    }
    let lasted = ended.unwrap() - started;
    assert!((200 * MS..205 * MS).contains(&lasted), "{lasted}");
    assert_eq!(bbr.bw(), 6e6);
    // Two BDP of 6 MB/s and 40 ms at once.
    assert!(bbr.cwnd >= 332, "{}", bbr.cwnd);
}
