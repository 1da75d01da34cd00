use super::*;
use serde_json::Map;

const MS: Nanos = 1_000_000;
const MSS: u64 = 1000;

fn copa(segments: u64) -> Copa {
    let params = Params::check(NAME, &info().params, &Map::new()).unwrap();
    let mut copa = Copa::new(&params);
    copa.on_start(&Start {
        now: 0,
        mss: MSS as u32,
        initial_window: segments * MSS,
        rtt: Some(40 * MS),
        ecn: EcnMode::Off,
    });
    copa
}

/// A round trip of one-segment ACKs.
fn round(copa: &mut Copa, now: &mut Nanos, rtt: Nanos) {
    let acks = copa.cwnd() / MSS;
    for ack in 0..acks {
        *now += rtt / acks;
        copa.on_ack(&Ack {
            now: *now,
            mss: MSS as u32,
            acked: MSS,
            rtt: Some(rtt),
            srtt: rtt,
            round_start: ack == 0,
            cwnd_limited: true,
            advances: true,
            ..Ack::default()
        });
    }
}

/// 100 segments over 40 ms with delta = 0.5: the target is passed where d_q > 40/(0.5 * 100) = 0.8 ms.
#[test]
fn slow_start_ends_where_the_target_is_passed() {
    let mut copa = copa(10);
    let mut now = 0;
    for segments in [20, 40, 80] {
        round(&mut copa, &mut now, 40 * MS);
        assert_eq!(copa.cwnd(), segments * MSS);
        assert_eq!(copa.phase(), "slow_start");
    }
    round(&mut copa, &mut now, 43 * MS);
    assert_eq!(copa.phase(), "default");
}

#[test]
fn velocity_doubles_after_three_round_trips_in_one_direction() {
    let mut copa = copa(100);
    copa.slow_start = false;
    let mut now = 0;
    let mut velocities = Vec::new();
    for _ in 0..7 {
        round(&mut copa, &mut now, 40 * MS);
        velocities.push(copa.velocity.value);
    }
    // The first comparison is with the window at the start, which has not grown yet.
    assert_eq!(velocities, [1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 8.0]);
    // Two segments a round trip for a velocity of one.
    let before = copa.cwnd;
    copa.velocity.value = 1.0;
    copa.velocity.rounds = 0;
    round(&mut copa, &mut now, 40 * MS);
    assert!((copa.cwnd - before - 2.0).abs() < 0.1, "{}", copa.cwnd - before);
    // An ACK from over a queue: down, with a velocity of one at once.
    copa.velocity.value = 8.0;
    round(&mut copa, &mut now, 60 * MS);
    assert_eq!((copa.velocity.value, copa.velocity.direction), (1.0, Direction::Down));
}

#[test]
fn pacing_is_twice_the_window_a_standing_rtt() {
    let mut copa = copa(10);
    assert_eq!(copa.pacing_rate(), Some(2.0 * 10_000.0 / 0.04));
    let mut now = 0;
    round(&mut copa, &mut now, 50 * MS);
    assert_eq!(copa.pacing_rate(), Some(2.0 * 20_000.0 / 0.05));
}
