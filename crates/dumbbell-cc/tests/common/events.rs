//! Events of a transport in any order, for tests of all controllers.

use dumbbell_cc::{
    Ack, CaState, Congestion, CongestionKind, Controller, IdleRestart, Lost, RateSample, Rto, Undo,
    list,
};
use serde_json::{Map, json};

use super::MSS;

/// Which data of an ACK was marked.
#[derive(Clone, Copy, Debug)]
pub enum Marks {
    None,
    /// So much of it CE, in 1/255.
    Ce(u8),
    Sce,
    Failed,
    /// Not a mark: feedback of XCP's routers, bytes per second.
    Feedback(f64),
}

#[derive(Clone, Debug)]
pub enum Step {
    Ack {
        segments: u64,
        rtt: Option<u64>,
        state: u8,
        limited: bool,
        advances: bool,
        lost: u64,
        wait: u64,
        marks: Marks,
    },
    Congestion {
        ecn: bool,
    },
    Rto {
        first: bool,
    },
    Undo {
        timeout: bool,
    },
    Exit,
    Idle {
        idle: u64,
        app_limited: bool,
        restart: bool,
    },
}

#[derive(Default)]
pub struct World {
    now: u64,
    delivered: u64,
    lost: u64,
}

impl World {
    pub fn apply(&mut self, cc: &mut dyn Controller, step: &Step) {
        let mss = MSS;
        match *step {
            Step::Ack { segments, rtt, state, limited, advances, lost, wait, marks } => {
                let acked = segments * u64::from(mss);
                let lost = lost * u64::from(mss);
                let prior_delivered = self.delivered.saturating_sub(acked);
                self.now += wait;
                self.delivered += acked;
                self.lost += lost;
                if cc.wants_lost() {
                    for number in 1..=lost / u64::from(mss) {
                        cc.on_lost(&Lost {
                            now: self.now,
                            number: self.delivered / u64::from(mss) + number,
                            bytes: mss,
                            tx_in_flight: acked + lost,
                            lost: number * u64::from(mss),
                            delivered: self.delivered,
                            app_limited: !limited,
                        });
                    }
                }
                let ce_packets = match marks {
                    Marks::Ce(part) => segments * u64::from(part) / 255,
                    _ => 0,
                };
                cc.on_ack(&Ack {
                    now: self.now,
                    mss,
                    acked,
                    lost,
                    ce: ce_packets * u64::from(mss),
                    ce_packets,
                    ece: ce_packets > 0,
                    sce: if matches!(marks, Marks::Sce) { acked } else { 0 },
                    feedback: if let Marks::Feedback(change) = marks { change } else { 0.0 },
                    ecn_failed: matches!(marks, Marks::Failed),
                    rtt,
                    srtt: rtt.unwrap_or(0),
                    min_rtt: rtt.unwrap_or(0),
                    rate: RateSample {
                        delivered: acked,
                        interval: wait,
                        prior_delivered,
                        has_data: acked > 0,
                        app_limited: !limited,
                        tx_in_flight: acked,
                        lost,
                    },
                    delivered: self.delivered,
                    lost_total: self.lost,
                    inflight_before: if limited {
                        acked + lost
                    } else {
                        (acked + lost).min(cc.cwnd() / 2)
                    },
                    inflight: cc.cwnd() / 2,
                    snd_una: self.delivered,
                    snd_nxt: self.delivered + cc.cwnd(),
                    cwnd_limited: limited,
                    advances,
                    state: [
                        CaState::Open,
                        CaState::Disorder,
                        CaState::Cwr,
                        CaState::Recovery,
                        CaState::Loss,
                    ][usize::from(state)],
                    ..Ack::default()
                });
            }
            Step::Congestion { ecn } => cc.on_congestion(&Congestion {
                now: self.now,
                kind: if ecn { CongestionKind::Ecn } else { CongestionKind::Loss },
                mss,
                inflight: cc.cwnd() / 2,
                lost: u64::from(mss),
                srtt: 1_000_000,
                delivered: self.delivered,
                acked: 0,
            }),
            Step::Rto { first } => cc.on_rto(&Rto {
                now: self.now,
                mss,
                inflight: 0,
                first,
                delivered: self.delivered,
            }),
            Step::Undo { timeout } => cc.on_undo(&Undo { now: self.now, mss, timeout }),
            Step::Exit => cc.on_recovery_exit(self.now),
            Step::Idle { idle, app_limited, restart } => {
                self.now += idle;
                cc.on_idle_restart(&IdleRestart {
                    now: self.now,
                    mss,
                    idle,
                    app_limited,
                    restart_window: restart.then_some(10 * u64::from(mss)),
                    delivered: self.delivered,
                });
            }
        }
    }
}

/// Every controller, and variants of some.
pub fn variants() -> Vec<(String, Map<String, serde_json::Value>)> {
    let mut all: Vec<_> = list().into_iter().map(|i| (i.name.to_owned(), Map::new())).collect();
    for info in list().iter().filter(|info| info.params.iter().any(|p| p.name == "linux")) {
        all.push((info.name.into(), json!({"linux": false}).as_object().unwrap().clone()));
    }
    for params in [
        json!({"hystart": "hystart++", "basis": "inflight", "pacing": true}),
        json!({"c": 1000.0, "beta": 0.99, "hystart": "classic"}),
    ] {
        all.push(("cubic".into(), params.as_object().unwrap().clone()));
    }
    all.push((
        "reno".into(),
        json!({"hystart": "hystart", "pacing": true}).as_object().unwrap().clone(),
    ));
    all
}

/// What must hold of a controller after any event.
pub fn assert_usable(cc: &dyn Controller, kind: &str, step: &Step) {
    let mss = u64::from(MSS);
    assert!(cc.cwnd() >= mss, "{kind}: {step:?}");
    // No window beyond what any path holds, so no arithmetic on it can overflow.
    assert!(cc.cwnd() <= (1 << 31) * mss, "{kind}: {}", cc.cwnd());
    assert_eq!(cc.cwnd().is_multiple_of(mss), kind != "rate", "{kind}");
    assert!(cc.ssthresh() >= 2 * mss, "{kind}: {step:?}");
    if let Some(rate) = cc.pacing_rate() {
        assert!(rate.is_finite() && rate > 0.0, "{kind}: {rate}");
    }
}
