//! BBR version 3 on a link.

use crate::common::{MS, MSS, S, controller, pipe::Pipe, recorded};
use serde_json::json;

const RATE: f64 = 47.82e6;

/// log2(83 333/10) = 13 rounds find 10 Gbit/s at 100 ms.
#[test]
fn startup_doubles_each_round() {
    let mut pipe = Pipe::new(controller("bbr3", &json!({})), 10e9, 100 * MS, 1_000_000);
    let mut found = None;
    pipe.run(1600 * MS, |pipe| {
        if found.is_none() && recorded(pipe.cc.as_ref(), "max_bw_bps") > 0.95 * 10e9 {
            found = Some(recorded(pipe.cc.as_ref(), "round"));
        }
    });
    let rounds = found.unwrap();
    assert!((12.0..=15.0).contains(&rounds), "{rounds}");
}

/// (0.2 s x 0.5 + 4.8 s)/5 s = 0.98 of the bandwidth is left by ProbeRTT.
#[test]
fn probe_rtt_costs_two_percent() {
    let delivered = |params| {
        let mut pipe = Pipe::new(controller("bbr3", &params), RATE, 40 * MS, 10_000);
        pipe.run(3 * S, |_| {});
        let start = pipe.delivered;
        pipe.run(63 * S, |_| {});
        (pipe.delivered - start) as f64
    };
    let share = delivered(json!({})) / delivered(json!({"probe_rtt_duration": 0}));
    assert!((share - 0.98).abs() < 0.01, "{share}");
}

/// A shallow buffer sets the long-term bound; loss stays far below that of version 1.
#[test]
fn a_shallow_buffer_is_learnt() {
    let mut pipe = Pipe::new(controller("bbr3", &json!({})), RATE, 40 * MS, 40);
    pipe.run(4 * S, |_| {});
    let (delivered, lost) = (pipe.delivered, pipe.lost);
    pipe.run(34 * S, |_| {});
    let bdp = RATE / 8.0 * 0.04 / f64::from(MSS);
    let bound = recorded(pipe.cc.as_ref(), "inflight_longterm") / bdp;
    assert!((1.0..1.4).contains(&bound), "{bound}");
    let goodput = (pipe.delivered - delivered) as f64 * 8.0 / 30.0;
    assert!(goodput / RATE > 0.93, "{}", goodput / RATE);
    let loss = (pipe.lost - lost) as f64 / (pipe.delivered - delivered) as f64;
    assert!(loss < 0.01, "{loss}");
}

/// The design tolerates 1 % (draft section "High-Level Design Goals"); 2 % a round is the limit while probing,
/// where version 1 bears a fifth.
#[test]
fn random_loss_of_one_percent_is_tolerated() {
    let share = |loss: f64| {
        let mut pipe = Pipe::new(controller("bbr3", &json!({})), RATE, 40 * MS, 10_000);
        pipe.loss = loss;
        pipe.run(60 * S, |_| {});
        pipe.delivered as f64 * 8.0 / 60.0 / (RATE * (1.0 - loss))
    };
    let (one, ten) = (share(0.01), share(0.10));
    assert!(one > 0.7, "{one}");
    assert!(ten < 0.5, "{ten}");
}
