//! Both ends together over paths that lose, starve, repeat and reorder.

use std::collections::HashMap;

use dumbbell_queue::Nanos;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::high::OPTION_BYTES;
use super::sender::LOW_HEADER_BYTES;
use crate::flow::{Ends, Pair};
use crate::flow_testing::{Crossing, Fate, MILLISECOND, Path, Run, SECOND, Way};
use crate::registry::Recipe;
use crate::tcp::HEADER_BYTES;
use crate::{Kind, Packet};

fn pair(options: Value) -> Pair {
    let Value::Object(given) = options else { panic!("a table of options") };
    let mut all: Map<String, Value> = given;
    all.insert("packet".into(), json!(1000 + HEADER_BYTES + OPTION_BYTES));
    Recipe::new("plt", &all, None).unwrap().build(&Ends { flow: 7, ..Ends::default() })
}

fn recorded(run: &Run) -> HashMap<&'static str, f64> {
    let mut all = HashMap::new();
    run.pair.sender.record(&mut |name, value| {
        all.insert(name, value);
    });
    run.pair.receiver.record(&mut |name, value| {
        all.insert(name, value);
    });
    all
}

fn is_low(crossing: &Crossing) -> bool {
    crossing.packet.kind == Kind::LowPayload
}

/// What a path does to the packets of each kind.
#[derive(Clone, Copy, Debug)]
struct Harm {
    seed: u64,
    /// Per cent.
    low_loss: u64,
    high_loss: u64,
    strong_ack_loss: u64,
    report_loss: u64,
    delayed: u64,
    duplicated: u64,
    /// From this millisecond on, for so many, the low class gets nothing through.
    starving: (u64, u64),
}

/// Uniform below 100, by the finaliser of SplitMix64.
fn percent(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31) % 100
}

impl Harm {
    fn fate(&self, crossing: &Crossing) -> Fate {
        let way = u64::from(crossing.way == Way::Back);
        let draw = |n| percent(self.seed ^ crossing.number << 8 ^ way << 4 ^ n);
        let (from, length) = self.starving;
        let starves = (from..from + length).contains(&(crossing.at / MILLISECOND));
        let loss = match crossing.packet.kind {
            Kind::LowPayload if starves => 100,
            Kind::LowPayload => self.low_loss,
            Kind::Payload => self.high_loss,
            Kind::StrongAck => self.strong_ack_loss,
            _ => self.report_loss,
        };
        if draw(0) < loss {
            Fate::Lose
        } else if draw(1) < self.delayed {
            Fate::Delay(draw(2) * MILLISECOND / 2)
        } else if draw(3) < self.duplicated {
            Fate::Duplicate(draw(2) * MILLISECOND)
        } else {
            Fate::Pass
        }
    }
}

fn harm() -> impl Strategy<Value = Harm> {
    let low_loss = prop_oneof![0u64..30, Just(100u64)];
    let strong_ack_loss = prop_oneof![0u64..60, Just(100u64)];
    let rates = (low_loss, 0u64..20, strong_ack_loss, 0u64..20, 0u64..20, 0u64..10);
    (any::<u64>(), rates, (0u64..500, 0u64..20_000)).prop_map(
        |(
            seed,
            (low_loss, high_loss, strong_ack_loss, report_loss, delayed, duplicated),
            starving,
        )| {
            Harm {
                seed,
                low_loss,
                high_loss,
                strong_ack_loss,
                report_loss,
                delayed,
                duplicated,
                starving,
            }
        },
    )
}

/// Number of bytes from 0 on without a hole, in what has arrived.
fn prefix(run: &Run) -> u64 {
    let mut ranges: Vec<_> = run
        .forward
        .arrivals
        .iter()
        .map(|(_, packet)| (packet.aux[0], packet.aux[0] + u64::from(packet.payload)))
        .collect();
    ranges.sort_unstable();
    ranges.iter().fold(0, |end, &(from, to)| if from <= end { to.max(end) } else { end })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What was written arrives, once, in order and completely, whatever the low class loses or
    /// starves: at any time the application has the bytes before the first hole in what has arrived,
    /// and in the end all.
    #[test]
    fn delivers_everything_once_and_in_order(
        harm in harm(), bytes in 1u64..400_000, window in 20u64..200, rexmt: bool, tail: bool,
        every in 1u64..4, auto: bool, unblocks in 0.0f64..1.0,
    ) {
        let pair = pair(json!({
            "lcm_rexmt_on_lcm": rexmt, "tail_duplication": tail, "strong_ack_every": every,
            "unblock_below": unblocks, "rwnd": window * 1000, "shutdown": if auto { "auto" } else { "off" },
        }));
        let path = Path::delay(20 * MILLISECOND).bottleneck(20e6, 50);
        let mut run = Run::new(pair, path.script(move |crossing| harm.fate(crossing)));
        run.write(bytes);
        let mut ends = (0..200).map(|n| n * 50 * MILLISECOND).chain((10..3000).map(|n| n * SECOND));
        while !run.pair.sender.is_idle() {
            let Some(end) = ends.next() else { break };
            run.until(end);
            prop_assert_eq!(run.pair.receiver.delivered_bytes(), prefix(&run));
        }
        prop_assert!(run.pair.sender.is_idle(), "stuck: {:?}", recorded(&run));
        prop_assert_eq!(run.pair.receiver.delivered_bytes(), bytes);
        // Every packet that arrived beyond the bytes' own was counted as a duplicate.
        let all: u64 = run.forward.arrivals.iter().map(|(_, p)| u64::from(p.payload)).sum();
        let duplicates = recorded(&run)["lcm_duplicates"] + recorded(&run)["hcm_duplicates"];
        prop_assert!(all >= bytes && (all - bytes) as f64 <= duplicates * 1000.0);
    }

    /// Packets that nobody sent, at both ends, with the times that drivers may have.
    #[test]
    fn arbitrary_packets_do_no_harm(packets in prop::collection::vec(arbitrary_packet(), 1..60)) {
        let options = json!({"lcm_iw": 20, "rwnd": 60_000, "shutdown": "auto", "tail_duplication": true});
        let Pair { mut sender, mut receiver } = pair(options);
        sender.on_start(0);
        sender.write(0, 200_000);
        let mut now = 0;
        for (wait, packet) in packets {
            now += wait;
            for _ in 0..500 {
                if sender.poll_transmit(now).is_none() {
                    break;
                }
            }
            sender.on_feedback(now, &packet, &[]);
            if sender.next_timeout() <= now {
                sender.on_timeout(now);
            }
            receiver.on_packet(now, &packet);
            if receiver.next_timeout() <= now {
                receiver.on_timeout(now);
            }
            while receiver.poll_transmit(now).is_some() {}
            sender.snapshot();
            sender.record(&mut |name, value| assert!(!value.is_nan(), "{name}"));
        }
    }
}

fn arbitrary_packet() -> impl Strategy<Value = (Nanos, Packet)> {
    let number = || prop_oneof![0u64..60, 0u64..60_000, any::<u64>()];
    let kind = prop_oneof![
        Just(Kind::Payload),
        Just(Kind::Report),
        Just(Kind::LowPayload),
        Just(Kind::StrongAck),
        Just(Kind::Data)
    ];
    let wait = prop_oneof![0u64..1000, 0..SECOND, 0..1000 * SECOND];
    let words = (number(), number(), number(), number(), number());
    (wait, kind, any::<u8>(), any::<u16>(), words).prop_map(
        |(wait, kind, flags, payload, (seq, timestamp, a, b, c))| {
            let aux = [a, b, c];
            (wait, Packet { kind, flags, payload, seq, timestamp, aux, ..Packet::default() })
        },
    )
}

/// 30 % of the low class's packets are lost: the high class neither recovers nor times out, and its
/// window grows as if alone.
#[test]
fn the_high_class_does_not_see_losses_of_the_low_one() {
    let path = || Path::delay(20 * MILLISECOND);
    let lossy = |crossing: &Crossing| {
        let lost = is_low(crossing) && percent(crossing.number) < 30;
        if lost { Fate::Lose } else { Fate::Pass }
    };
    let alone = |crossing: &Crossing| if is_low(crossing) { Fate::Lose } else { Fate::Pass };
    let options = json!({"rwnd": 2_000_000, "lcm_iw": 100});
    let mut run = Run::greedy(pair(options.clone()), path().script(lossy));
    let mut reference = Run::greedy(pair(options), path().script(alone));
    run.until(200 * MILLISECOND);
    reference.until(200 * MILLISECOND);
    let stats = run.pair.sender.stats();
    assert_eq!((stats.recoveries, stats.timeouts), (0, 0));
    assert!(recorded(&run)["lcm_lost"] > 20.0);
    let (window, alone) =
        (run.pair.sender.snapshot().window, reference.pair.sender.snapshot().window);
    assert!(window >= 0.8 * alone && alone > 100.0, "{window} {alone}");
}

/// 8 Mbit/s and 40 ms, and the low class gets nothing through for 2 to 6 s: it parks (three timeouts:
/// at least 200 + 400 + 800 ms), sends no more than a packet each round trip, and is back within a few
/// round trips of the path's recovery.
#[test]
fn starvation_parks_the_low_class() {
    let starves = |at: Nanos| (2 * SECOND..6 * SECOND).contains(&at);
    let script = move |crossing: &Crossing| {
        if is_low(crossing) && starves(crossing.at) { Fate::Lose } else { Fate::Pass }
    };
    let path = Path::delay(20 * MILLISECOND).bottleneck(8e6, 100).script(script);
    let mut run = Run::greedy(pair(json!({"rwnd": 1_000_000, "lcm_iw": 20})), path);
    run.until(5 * SECOND);
    assert_eq!(run.pair.sender.snapshot().phase, "parked");
    assert_eq!(recorded(&run)["lcm_cwnd"], 1.0);
    let sent = recorded(&run)["lcm_sent"];
    run.until(5 * SECOND + 900 * MILLISECOND);
    let probes = recorded(&run)["lcm_sent"] - sent;
    assert!((4.0..=23.0).contains(&probes), "{probes}");
    run.until(6 * SECOND + 500 * MILLISECOND);
    assert_ne!(run.pair.sender.snapshot().phase, "parked");
    assert!(recorded(&run)["lcm_cwnd"] > 1.0);
}

/// 8 Mbit/s, 40 ms, one FIFO of 100 packets for both classes, which TCP fills: after at least ten trains
/// the low class is given up.
#[test]
fn a_fifo_shuts_the_low_class_down() {
    let path = Path::delay(20 * MILLISECOND).bottleneck(8e6, 100);
    let mut run = Run::greedy(pair(json!({"shutdown": "auto"})), path);
    run.until(10 * SECOND);
    assert_eq!(recorded(&run)["priority"], -1.0, "{:?}", recorded(&run));
    assert_eq!(run.pair.sender.snapshot().phase, "hcm-only");
    assert!(recorded(&run)["probe_trains"] >= 10.0);
    let sent = recorded(&run)["lcm_sent"];
    run.until(12 * SECOND);
    assert_eq!(recorded(&run)["lcm_sent"], sent);
}

/// Strong ACKs give the low class's DSCP no part of theirs: they travel in the high class, as do the
/// reports; the low class's data has DSCP 1.
#[test]
fn classes_carry_their_dscps() {
    let mut run = Run::new(pair(json!({})), Path::delay(10 * MILLISECOND));
    run.write(100_000);
    run.until(SECOND);
    for (_, packet) in &run.forward.arrivals {
        let low = packet.kind == Kind::LowPayload;
        assert_eq!(packet.dscp, u8::from(low));
        let header = if low { LOW_HEADER_BYTES } else { HEADER_BYTES + OPTION_BYTES };
        assert_eq!(packet.ip_bytes, packet.payload + header);
    }
    assert!(run.back.arrivals.iter().all(|(_, packet)| packet.dscp == 0));
    // 10 segments of the initial window, the rest at once in the low class.
    assert_eq!(run.forward.arrivals.len(), 100);
    assert!(run.forward.arrivals.iter().all(|&(at, _)| at == 10 * MILLISECOND));
}
