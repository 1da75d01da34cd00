use proptest::prelude::*;
use serde_json::json;

use super::receiver::Hole;
use crate::flow_testing::{
    Fate, MILLISECOND, Path, Run, SECOND, Way, any_steps, pair_of, survive, troubled,
};

/// The rules of the hole, worked by hand.
#[test]
fn holes() {
    let mut hole = Hole::default();
    for (seq, last, missed, before) in [
        (1, 1, 0, 0),
        (2, 2, 0, 0),
        (6, 6, 5, 2),
        (5, 6, 4, 2),
        (5, 6, 4, 2),
        (3, 6, 4, 3),
        (1, 6, 4, 3),
        (4, 6, 0, 0),
        (9, 9, 8, 6),
        (10, 10, 8, 6),
        (13, 13, 12, 10),
        (8, 13, 12, 10),
    ] {
        hole.update(seq);
        assert_eq!(hole, Hole { last, missed, before }, "after {seq}");
    }
    assert!(hole.has(13) && hole.has(10) && !hole.has(12) && !hole.has(11) && !hole.has(14));
    let mut late = Hole::default();
    late.update(3);
    assert_eq!(late, Hole { last: 3, missed: 2, before: 0 }, "the first packets are lost");
}

/// The first packet leaves at once, its ACK sets the gap to the round-trip time, and from the end of
/// the first assumed round trip, at 2 s, on the rate is one packet a round trip more each round trip:
/// 2 at 2 s, 102 after 100 round trips more.
#[test]
fn additive_increase() {
    let mut run = Run::greedy(pair_of("rap", json!({})), Path::delay(50 * MILLISECOND));
    run.until(SECOND);
    assert_eq!(run.forward.sent, 1);
    assert!((run.pair.sender.snapshot().window - 1.0).abs() < 1e-9);
    run.until(12 * SECOND + 50 * MILLISECOND);
    let snapshot = run.pair.sender.snapshot();
    assert!((snapshot.window - 102.0).abs() < 1e-6, "{snapshot:?}");
    assert!((snapshot.rate - 102.0 * 8000.0 / 0.1).abs() < 1.0, "{snapshot:?}");
    assert_eq!(snapshot.srtt, 100 * MILLISECOND);
}

/// Packets 1000 to 1000 + `lost` at about 44 packets a round trip: one halving, `lost` losses.
fn loses(lost: u64) -> (Run, Vec<f64>) {
    let path = Path::delay(50 * MILLISECOND).script(move |crossing| {
        let hit = crossing.way == Way::Forward && (1000..1000 + lost).contains(&crossing.number);
        if hit { Fate::Lose } else { Fate::Pass }
    });
    let mut run = Run::greedy(pair_of("rap", json!({})), path);
    let mut windows = Vec::new();
    for tick in 1..7000 {
        run.until(tick * MILLISECOND);
        windows.push(run.pair.sender.snapshot().window);
    }
    (run, windows)
}

/// With 1 and 5 packets lost an ACK tells, 3 and 5 gaps of 2.3 ms after a round trip; with 20 the
/// timeout, 20 ms after a round trip, is sooner.
#[test]
fn half_the_rate_upon_loss_once_for_a_cluster() {
    for (lost, by_ack, by_timeout) in [(1, 1, 0), (5, 1, 0), (20, 0, 1)] {
        let (run, windows) = loses(lost);
        let cuts: Vec<_> = windows.windows(2).filter(|w| w[1] < w[0] - 1.0).collect();
        assert_eq!(cuts.len(), 1, "{cuts:?}");
        assert!((cuts[0][1] / cuts[0][0] - 0.5).abs() < 1e-9, "{cuts:?}");
        assert_eq!(run.recorded("losses"), lost as f64);
        let stats = run.pair.sender.stats();
        assert_eq!((stats.recoveries, stats.timeouts), (by_ack, by_timeout));
    }
}

/// ACKs that are lost cost nothing where others follow before the timeout: they tell the same.
#[test]
fn lost_acks_are_no_losses() {
    let path = Path::delay(50 * MILLISECOND).script(|crossing| {
        let hit = crossing.way == Way::Back && crossing.number > 500 && crossing.number % 3 != 0;
        if hit { Fate::Lose } else { Fate::Pass }
    });
    let mut run = Run::greedy(pair_of("rap", json!({})), path);
    run.until(10 * SECOND);
    assert!(run.back.lost > 1000, "{}", run.back.lost);
    assert_eq!(run.recorded("losses"), 0.0);
}

/// When all is lost from 5 s on, the first packet without an ACK was sent at 4.95 s. The timeout is 1.2
/// srtt + 4 var = 120 ms at a constant round-trip time. From then on the rate is halved each timeout and
/// grows by a packet or two in between, since the increase waits for no ACKs: it cannot stay above 4
/// packets a round trip.
#[test]
fn silence_is_a_loss() {
    let path = Path::delay(50 * MILLISECOND)
        .script(|crossing| if crossing.at >= 5 * SECOND { Fate::Lose } else { Fate::Pass });
    let mut run = Run::greedy(pair_of("rap", json!({})), path);
    run.until(5 * SECOND);
    let before = run.pair.sender.snapshot().window;
    assert!((run.recorded("timeout_ms") - 120.0).abs() < 1e-3);
    run.until(5 * SECOND + 69 * MILLISECOND);
    assert_eq!(run.pair.sender.stats().timeouts, 0);
    run.until(5 * SECOND + 76 * MILLISECOND);
    assert_eq!(run.pair.sender.stats().timeouts, 1);
    assert!(run.pair.sender.snapshot().window < 0.6 * before);
    run.until(60 * SECOND);
    let window = run.pair.sender.snapshot().window;
    assert!((1.0..4.0).contains(&window), "{window}");
}

/// AIMD between W/2 and W delivers 3/4 of W on average (Rejaie et al. section 2). With a buffer of 5
/// packets W is the 125 packets that the path holds, and a few more.
#[test]
fn sawtooth_over_a_shallow_buffer() {
    let path = Path::delay(50 * MILLISECOND).bottleneck(10e6, 5);
    let mut run = Run::greedy(pair_of("rap", json!({})), path);
    run.until(200 * SECOND);
    let used = run.goodput(20 * SECOND, 200 * SECOND) / (10e6 * 956.0 / 1000.0);
    assert!((0.74..0.80).contains(&used), "{used}");
}

/// Alone at C = 1250 packets a second and R = 100 ms with a buffer of B = 62, half of what the path holds.
/// The rate grows by 1 / R^2 = 100 packets a second in a second. Above C it fills the buffer in sqrt(2 B
/// R^2) = 1.114 s, and for the round trip of 150 ms in which the loss becomes known it goes on, to 1376; it
/// halves, to 688, and takes 5.62 s back to C, the first 62 packets of which are in the buffer. Of 6.88
/// s the link is used for 1.264 C + 62 + (688 + 1250) / 2 * 5.62 packets: 82.4 %.
#[test]
fn sawtooth_over_half_a_pipe_of_buffer() {
    let path = Path::delay(50 * MILLISECOND).bottleneck(10e6, 62);
    let mut run = Run::greedy(pair_of("rap", json!({})), path);
    run.until(300 * SECOND);
    let used = run.goodput(20 * SECOND, 300 * SECOND) / (10e6 * 956.0 / 1000.0);
    assert!((used - 0.824).abs() < 0.02, "{used}");
}

/// A round-trip time that goes from 100 to 115 ms: after one sample the fast average is 0.1 x 100 + 0.9 x
/// 115 = 113.5 ms, the slow one 0.99 x 100 + 0.01 x 115 = 100.15 ms; gaps grow by 13.3 %. As the slow
/// average follows, they come back.
#[test]
fn fine_grain_adaptation_follows_the_delay() {
    let run = |fine: bool| {
        let path = Path::delay(50 * MILLISECOND).script(|crossing| {
            let late = crossing.way == Way::Forward && crossing.at >= 5 * SECOND;
            if late { Fate::Delay(15 * MILLISECOND) } else { Fate::Pass }
        });
        let mut run = Run::greedy(pair_of("rap", json!({ "fine_grain": fine })), path);
        let mut at = 5 * SECOND;
        while run.back.arrivals.last().is_none_or(|(_, ack)| ack.timestamp < 5 * SECOND) {
            at += 10_000;
            run.until(at);
        }
        let ratio = run.recorded("fine_grain");
        let sent = run.forward.sent;
        run.until(at + 200 * MILLISECOND);
        (ratio, run.forward.sent - sent)
    };
    let (ratio, fine) = run(true);
    assert!((ratio - 113.5 / 100.15).abs() < 1e-9, "{ratio}");
    let (_, coarse) = run(false);
    let slower = coarse as f64 / fine as f64;
    assert!((1.03..1.14).contains(&slower), "{fine} {coarse}");
}

/// A flow that has a packet to send each 100 ms, less than half of what the rate allows from 5 packets
/// a round trip on, does not raise it further. It rests in between and takes up the timers in phase.
#[test]
fn a_flow_that_sends_little_does_not_speed_up() {
    let mut run = Run::new(pair_of("rap", json!({})), Path::delay(50 * MILLISECOND));
    for tick in 0..300 {
        run.until(tick * 100 * MILLISECOND);
        run.write(956);
    }
    run.until(40 * SECOND);
    assert_eq!(run.forward.arrivals.len(), 300);
    assert!(run.pair.sender.is_idle());
    assert_eq!(run.pair.sender.next_timeout(), u64::MAX);
    let snapshot = run.pair.sender.snapshot();
    assert!((2.0..=21.0).contains(&snapshot.window), "{snapshot:?}");
    assert_eq!(snapshot.phase, "limited");
    assert_eq!(run.pair.receiver.delivered_bytes(), 300 * 956);
}

#[test]
fn a_coupled_rate_replaces_its_own() {
    let mut run = Run::greedy(pair_of("rap", json!({})), Path::delay(50 * MILLISECOND));
    run.until(SECOND);
    let coupled = run.pair.sender.coupled().unwrap();
    let calculated = coupled.take_calculated().unwrap();
    assert_eq!((calculated.rate, calculated.rtt), (80_000.0, 100 * MILLISECOND));
    assert_eq!(coupled.take_calculated(), None);
    coupled.set_rate(SECOND, 8e6);
    assert_eq!(run.pair.sender.snapshot().rate, 8e6);
    run.until(3 * SECOND);
    let sent = run.forward.sent;
    run.until(3 * SECOND + 100 * MILLISECOND);
    assert!((run.forward.sent - sent).abs_diff(110) <= 2, "1 ms a packet, and a little more");
}

/// The first gap ends at 2 s. At 1 s, half of it is left when the rate doubles, from 4 to 8 kbit/s: half a
/// second. At 1.3 s, 200 ms are left of it when the rate doubles again: 100.
#[test]
fn a_rate_that_is_set_counts_for_what_is_left_of_the_gap() {
    let mut run = Run::greedy(pair_of("rap", json!({})), Path::delay(2 * SECOND));
    run.until(SECOND);
    run.pair.sender.coupled().unwrap().set_rate(SECOND, 8e3);
    assert_eq!(run.pair.sender.next_timeout(), 1500 * MILLISECOND);
    run.until(1300 * MILLISECOND);
    run.pair.sender.coupled().unwrap().set_rate(1300 * MILLISECOND, 16e3);
    assert_eq!(run.pair.sender.next_timeout(), 1400 * MILLISECOND);
}

/// Gaps of 1 ms, a fifth of it more or less: 1 ms on average, a variance of 0.4^2 / 12.
#[test]
fn overhead_varies_gaps_at_random() {
    let mut run = Run::greedy(pair_of("rap", json!({ "overhead": 0.4 })), Path::delay(SECOND));
    run.pair.sender.coupled().unwrap().set_rate(0, 8e6);
    run.until(3 * SECOND);
    run.assert_gaps((0.8, 1.2), 1.0, 0.4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn delivers_each_packet_once(fates in prop::collection::vec(0_u8..40, 50)) {
        let mut run = Run::greedy(pair_of("rap", json!({ "initial_gap": 50_000_000 })), troubled(fates));
        run.until(5 * SECOND);
        run.assert_each_once(956);
    }

    #[test]
    fn any_packets_leave_both_ends_usable(steps in any_steps(), fine in any::<bool>()) {
        survive(pair_of("rap", json!({ "fine_grain": fine })), steps);
    }
}
