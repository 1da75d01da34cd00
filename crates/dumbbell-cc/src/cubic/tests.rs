use serde_json::json;

use super::*;
use crate::event::{CaState, Congestion, CongestionKind, Rto, Start, Undo};

const MSS: u32 = 1000;
const MS: Nanos = 1_000_000;

fn cubic(linux: bool) -> LossBased<Cubic> {
    let given = json!({"linux": linux});
    let params = Params::check(NAME, &info().params, given.as_object().unwrap()).unwrap();
    let mut cubic = LossBased::new(Cubic::new(&params), &params);
    cubic.on_start(&Start {
        now: 0,
        mss: MSS,
        initial_window: 500_000,
        rtt: Some(50 * MS),
        ecn: crate::EcnMode::Off,
    });
    cubic
}

fn ack(now: Nanos, segments: u64) -> Ack {
    Ack {
        now,
        mss: MSS,
        acked: segments * u64::from(MSS),
        rtt: Some(50 * MS),
        srtt: 50 * MS,
        min_rtt: 50 * MS,
        cwnd_limited: true,
        advances: true,
        ..Ack::default()
    }
}

fn congestion(now: Nanos) -> Congestion {
    Congestion {
        now,
        kind: CongestionKind::Loss,
        mss: MSS,
        inflight: 500_000,
        lost: 1000,
        srtt: 50 * MS,
        delivered: 0,
        acked: 1000,
    }
}

/// A cut and some seconds of growth.
fn grown(linux: bool) -> LossBased<Cubic> {
    let mut cubic = cubic(linux);
    cubic.on_congestion(&congestion(0));
    cubic.on_recovery_exit(0);
    for i in 1..4000 {
        cubic.on_ack(&ack(i * MS, 10));
    }
    cubic
}

/// CUBIC-16: every field comes back, from a spurious recovery and from a spurious timeout.
#[test]
fn undo_restores_all_state() {
    for linux in [true, false] {
        for timeout in [true, false] {
            let mut cubic = grown(linux);
            let window = format!("{:?}", (cubic.window.segments(), cubic.window.ssthresh()));
            let growth = format!("{:?}", cubic.law.growth);
            let delay_min = cubic.law.delay_min;
            if timeout {
                cubic.on_rto(&Rto {
                    now: 4000 * MS,
                    mss: MSS,
                    inflight: 0,
                    first: true,
                    delivered: 0,
                });
                assert_eq!(cubic.window.segments(), 1);
            } else {
                cubic.on_congestion(&congestion(4000 * MS));
            }
            for i in 4001..4020 {
                cubic.on_ack(&Ack {
                    state: CaState::Recovery,
                    rtt: Some(60 * MS),
                    ..ack(i * MS, 1)
                });
            }
            assert_ne!(format!("{:?}", cubic.law.growth), growth);
            assert!(!linux || !timeout || cubic.law.delay_min != delay_min);
            cubic.on_undo(&Undo { now: 4020 * MS, mss: MSS, timeout });
            assert_eq!(format!("{:?}", (cubic.window.segments(), cubic.window.ssthresh())), window);
            match (&cubic.law.growth, linux) {
                (Growth::Linux(_), true) => assert_eq!(format!("{:?}", cubic.law.growth), growth),
                (Growth::Rfc(_), false) => assert_eq!(format!("{:?}", cubic.law.growth), growth),
                _ => panic!("variant changed"),
            }
            assert_eq!(cubic.law.delay_min, delay_min);
            assert_eq!(cubic.phase(), "avoidance");
        }
    }
}

#[test]
fn an_event_is_undone_once() {
    let mut cubic = grown(true);
    cubic.on_congestion(&congestion(4000 * MS));
    cubic.on_undo(&Undo { now: 4001 * MS, mss: MSS, timeout: false });
    cubic.window.cut(100);
    cubic.on_undo(&Undo { now: 4002 * MS, mss: MSS, timeout: false });
    assert_eq!(cubic.window.segments(), 100);
}

/// RFC 9438 section 4.8: a timeout cuts `ssthresh` by beta, and the next avoidance begins at its plateau.
/// A repeated timeout of the same data leaves `ssthresh` alone (RFC 5681 section 3.1).
#[test]
fn a_timeout_starts_again_with_k_zero() {
    for linux in [true, false] {
        let mut cubic = cubic(linux);
        let timeout = |first| Rto { now: 0, mss: MSS, inflight: 0, first, delivered: 0 };
        cubic.on_rto(&timeout(true));
        assert_eq!((cubic.window.segments(), cubic.window.ssthresh()), (1, 350));
        cubic.on_rto(&timeout(false));
        assert_eq!((cubic.window.segments(), cubic.window.ssthresh()), (1, 350));
        let mut now = 0;
        while cubic.window.in_slow_start() {
            now += 50 * MS;
            cubic.on_ack(&ack(now, cubic.window.segments()));
        }
        cubic.on_ack(&ack(now + MS, 1));
        let (_, k, w_est) = match &cubic.law.growth {
            Growth::Linux(growth) => growth.record(),
            Growth::Rfc(growth) => growth.record(),
        };
        assert_eq!(k, 0.0);
        assert!((350.0..352.0).contains(&w_est), "{w_est}");
    }
}

/// CUBIC-07: K against f64 arithmetic over the whole range, without overflow.
#[test]
fn k_is_exact_from_one_segment_to_a_thousand_seconds() {
    let settings = Settings {
        beta: linux::quantised(0.7),
        c: linux::quantised(0.4),
        fast_convergence: false,
        reno_friendly: true,
    };
    for exponent in 1..=9 {
        let w_max = 10_u64.pow(exponent);
        let mut window = Window::new();
        window.start(&Start {
            now: 0,
            mss: 1448,
            initial_window: w_max * 7 / 10 * 1448,
            rtt: None,
            ecn: crate::EcnMode::Off,
        });
        let cwnd = window.segments();
        let mut growth = Linux::new(settings);
        growth.on_congestion(w_max);
        let count = growth.update(0, &window, 1448, 50 * MS);
        assert!(count >= 2);
        let (_, k, _) = growth.record();
        let expected = ((w_max - cwnd) as f64 / (410.0 / 1024.0)).powf(1.0 / 3.0);
        assert!((k - expected).abs() <= 1.0 / 1024.0, "{w_max}: {k} against {expected}");
        // Far beyond the plateau the step count stays within its bounds.
        for seconds in [1, 1000, 1_000_000, 1_000_000_000] {
            window.grow(1);
            assert!(growth.update(seconds * 1_000_000_000, &window, 1448, 50 * MS) >= 2);
        }
    }
}

/// Linux's fixed point: 0.7 is 717/1024 and C is 410/1024; the Reno estimate grows by 8/15 per round.
#[test]
fn constants_are_those_of_the_kernel() {
    assert_eq!(linux::quantised(0.7), 717.0 / 1024.0);
    assert_eq!(linux::quantised(0.4), 410.0 / 1024.0);
    let mut cubic = cubic(true);
    cubic.on_congestion(&congestion(0));
    assert_eq!(cubic.window.segments(), 350);
    cubic.on_ack(&ack(MS, 10));
    for round in 1..=150 {
        cubic.on_ack(&ack(MS + round * 50 * MS, cubic.window.segments()));
    }
    let Growth::Linux(growth) = &cubic.law.growth else { panic!() };
    let w_est = growth.record().2;
    assert!((w_est - 350.0 - 80.0).abs() < 4.0, "{w_est}");
}
