//! XCP's sender against section 3.3 of Katabi, Handley and Rohrs (SIGCOMM 2002).

use crate::common::{MS, MSS, Script, recorded};
use dumbbell_cc::{CaState, EcnMode};
use serde_json::json;

/// One ACK that brings `feedback` bytes per second.
fn answer(script: &mut Script, feedback: f64, limited: bool, state: CaState) {
    let mut ack = script.event(u64::from(MSS));
    (ack.feedback, ack.cwnd_limited, ack.state) = (feedback, limited, state);
    script.cc.on_ack(&ack);
}

/// 100 ms and 20 segments: as a window, 144,800 bytes/s are ten segments.
fn script() -> Script {
    Script::new("xcp", &json!({}), 100 * MS, 20)
}

const TEN: f64 = 144_800.0;

/// cwnd = max(cwnd + feedback, s), the feedback being a rate here.
#[test]
fn feedback_moves_the_window() {
    let mut script = script();
    answer(&mut script, TEN, true, CaState::Open);
    assert_eq!(script.segments(), 30);
    assert_eq!(recorded(script.cc.as_ref(), "feedback"), TEN * 8.0);
    answer(&mut script, -TEN / 2.0, true, CaState::Open);
    assert_eq!(script.segments(), 25);
    // Ten ACKs of a quarter of a segment each: two and a half.
    for _ in 0..10 {
        answer(&mut script, TEN / 40.0, true, CaState::Open);
    }
    assert_eq!(script.segments(), 27);
    answer(&mut script, -100.0 * TEN, true, CaState::Open);
    assert_eq!(script.segments(), 1);
    answer(&mut script, 0.0, true, CaState::Open);
    assert_eq!(script.segments(), 1);
}

/// A window that is not used up does not grow, nor one that is being reduced; both shrink.
#[test]
fn only_less_is_always_taken() {
    for (limited, state) in [(false, CaState::Open), (true, CaState::Recovery)] {
        let mut script = script();
        answer(&mut script, TEN, limited, state);
        assert_eq!(script.segments(), 20);
        answer(&mut script, -TEN, limited, state);
        assert_eq!(script.segments(), 10);
    }
}

/// Losses are answered as by TCP: half the window, or `beta` of it.
#[test]
fn losses_cut_the_window() {
    for (params, left) in [(json!({}), 10), (json!({"beta": 0.8}), 16)] {
        let mut script = Script::new("xcp", &params, 100 * MS, 20);
        script.lose();
        assert_eq!(script.segments(), left);
        assert_eq!(script.cc.ssthresh(), left * u64::from(MSS));
    }
}

/// The header asks for as much as there is, or the application's rate in bytes; marks are not used.
#[test]
fn asks_for_a_rate() {
    assert_eq!(script().cc.requested_rate(), Some(f64::INFINITY));
    let script = Script::new("xcp", &json!({"rate": 8e6}), 100 * MS, 20);
    assert_eq!(script.cc.requested_rate(), Some(1e6));
    assert_eq!(script.cc.ecn_mode(), EcnMode::Off);
}
