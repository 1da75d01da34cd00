//! Cost of an ACK in each controller: the same sequence of ACKs for all, nanoseconds an ACK on standard
//! output as one JSON object. Arguments: names of controllers; default: all.
//!
//! The sequence is that of a paced flow on 100 Mbit/s and 40 ms, an ACK for each segment: rounds of
//! about 330 ACKs, a loss every 30 rounds.

use std::hint::black_box;
use std::time::Instant;

use dumbbell_cc::{
    Ack, CaState, Congestion, CongestionKind, Controller, EcnMode, Lost, RateSample, Start, build,
    list,
};
use serde_json::{Map, json};

const MSS: u32 = 1448;
const BYTES: u64 = MSS as u64;
const RTT: u64 = 40_000_000;
/// Segments in flight.
const FLIGHT: u64 = 330;
const LOSS_EVERY: u64 = 30 * FLIGHT;
const ACKS: u64 = 1_000_000;
/// Best of so many runs.
const RUNS: usize = 5;

fn start(cc: &mut dyn Controller) {
    cc.on_start(&Start {
        now: 0,
        mss: MSS,
        initial_window: 10 * BYTES,
        rtt: Some(RTT),
        ecn: EcnMode::Accurate,
    });
}

fn ack(number: u64) -> Ack {
    let gap = RTT / FLIGHT;
    let delivered = (number + 1) * BYTES;
    let prior = delivered.saturating_sub(FLIGHT * BYTES);
    let queueing = number % FLIGHT * 10_000;
    Ack {
        now: RTT + number * gap,
        mss: MSS,
        acked: BYTES,
        rtt: Some(RTT + queueing),
        srtt: RTT + queueing,
        min_rtt: RTT,
        rate: RateSample {
            delivered: delivered - prior,
            interval: RTT,
            prior_delivered: prior,
            has_data: true,
            tx_in_flight: FLIGHT * BYTES,
            ..RateSample::default()
        },
        delivered,
        inflight_before: FLIGHT * BYTES,
        inflight: (FLIGHT - 1) * BYTES,
        snd_una: delivered,
        snd_nxt: delivered + FLIGHT * BYTES,
        round: number / FLIGHT,
        round_start: number.is_multiple_of(FLIGHT),
        cwnd_limited: true,
        advances: true,
        ..Ack::default()
    }
}

fn lose(cc: &mut dyn Controller, ack: &Ack) {
    if cc.wants_lost() {
        cc.on_lost(&Lost {
            now: ack.now,
            number: ack.delivered / BYTES,
            bytes: MSS,
            tx_in_flight: FLIGHT * BYTES,
            lost: BYTES,
            delivered: ack.delivered,
            app_limited: false,
        });
    }
    cc.on_congestion(&Congestion {
        now: ack.now,
        kind: CongestionKind::Loss,
        mss: MSS,
        inflight: FLIGHT * BYTES,
        lost: BYTES,
        srtt: ack.srtt,
        delivered: ack.delivered,
        acked: BYTES,
    });
}

/// Seconds for all ACKs, and a digest of the outputs so that none is left out.
fn run(cc: &mut dyn Controller) -> (f64, u64) {
    start(cc);
    let began = Instant::now();
    let mut digest = 0_u64;
    for number in 0..ACKS {
        let mut event = ack(number);
        let since = number % LOSS_EVERY;
        if number >= LOSS_EVERY && since < FLIGHT {
            event.state = CaState::Recovery;
            if since == 0 {
                event.lost = BYTES;
                lose(cc, &event);
            }
        } else if number >= LOSS_EVERY && since == FLIGHT {
            cc.on_recovery_exit(event.now);
        }
        cc.on_ack(black_box(&event));
        let rate = cc.pacing_rate().map_or(0, f64::to_bits);
        digest = digest.wrapping_add(cc.cwnd() ^ rate);
    }
    (began.elapsed().as_secs_f64(), digest)
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut costs = Map::new();
    for info in list() {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == info.name) {
            continue;
        }
        let best = (0..RUNS)
            .filter_map(|_| build(info.name, &Map::new(), 1).ok())
            .map(|mut cc| {
                let (seconds, digest) = run(cc.as_mut());
                black_box(digest);
                seconds
            })
            .fold(f64::INFINITY, f64::min);
        costs.insert(info.name.into(), json!((best / ACKS as f64 * 1e10).round() / 10.0));
    }
    println!("{}", json!(costs));
}
