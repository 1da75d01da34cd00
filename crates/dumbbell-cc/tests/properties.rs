//! Whatever a transport reports, a controller's outputs stay usable.

mod common;

use dumbbell_cc::{
    Ack, CaState, Congestion, CongestionKind, Controller, IdleRestart, RateSample, Rto, Start,
    Undo, build, list,
};
use proptest::prelude::*;
use serde_json::{Map, json};

const MSS: u32 = 1448;

#[derive(Clone, Debug)]
enum Step {
    Ack {
        segments: u64,
        rtt: Option<u64>,
        state: u8,
        limited: bool,
        advances: bool,
        lost: u64,
        wait: u64,
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

fn step() -> impl Strategy<Value = Step> {
    let ack = (
        0_u64..2000,
        prop::option::weighted(0.8, prop_oneof![0_u64..2_000_000_000, Just(u64::MAX / 4)]),
        0_u8..5,
        any::<bool>(),
        any::<bool>(),
        0_u64..50,
        prop_oneof![0_u64..50_000_000, Just(20_000_000_000)],
    )
        .prop_map(|(segments, rtt, state, limited, advances, lost, wait)| Step::Ack {
            segments,
            rtt,
            state,
            limited,
            advances,
            lost,
            wait,
        });
    prop_oneof![
        12 => ack,
        1 => any::<bool>().prop_map(|ecn| Step::Congestion { ecn }),
        1 => any::<bool>().prop_map(|first| Step::Rto { first }),
        1 => any::<bool>().prop_map(|timeout| Step::Undo { timeout }),
        1 => Just(Step::Exit),
        1 => (0_u64..100_000_000_000, any::<bool>(), any::<bool>())
            .prop_map(|(idle, app_limited, restart)| Step::Idle { idle, app_limited, restart }),
    ]
}

struct World {
    now: u64,
    delivered: u64,
    lost: u64,
}

impl World {
    fn apply(&mut self, cc: &mut dyn Controller, step: &Step) {
        let mss = MSS;
        match *step {
            Step::Ack { segments, rtt, state, limited, advances, lost, wait } => {
                let acked = segments * u64::from(mss);
                let lost = lost * u64::from(mss);
                let prior_delivered = self.delivered.saturating_sub(acked);
                self.now += wait;
                self.delivered += acked;
                self.lost += lost;
                cc.on_ack(&Ack {
                    now: self.now,
                    mss,
                    acked,
                    lost,
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
                    inflight_before: acked + lost,
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

fn variants() -> Vec<(String, Map<String, serde_json::Value>)> {
    let mut all: Vec<_> = list().into_iter().map(|i| (i.name.to_owned(), Map::new())).collect();
    for params in [
        json!({"linux": false}),
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

proptest! {
    #[test]
    fn outputs_stay_usable(steps in prop::collection::vec(step(), 1..200), rtt in prop::option::of(1_u64..1_000_000_000)) {
        let mss = u64::from(MSS);
        for (kind, params) in variants() {
            let mut cc = build(&kind, &params, 3).unwrap();
            cc.on_start(&Start { now: 0, mss: MSS, initial_window: 10 * mss, rtt, ecn: dumbbell_cc::EcnMode::Off });
            let mut world = World { now: 0, delivered: 0, lost: 0 };
            let mut names = Vec::new();
            cc.record(&mut |name, _| names.push(name));
            for step in &steps {
                world.apply(cc.as_mut(), step);
                prop_assert!(cc.cwnd() >= mss, "{kind}: {step:?}");
                // No window beyond what any path holds, so no arithmetic on it can overflow.
                prop_assert!(cc.cwnd() <= (1 << 31) * mss, "{kind}: {}", cc.cwnd());
                prop_assert_eq!(cc.cwnd().is_multiple_of(mss), kind != "rate");
                prop_assert!(cc.ssthresh() >= 2 * mss, "{kind}: {step:?}");
                if let Some(rate) = cc.pacing_rate() {
                    prop_assert!(rate.is_finite() && rate > 0.0, "{kind}: {rate}");
                }
                let mut again = Vec::new();
                cc.record(&mut |name, _| again.push(name));
                prop_assert_eq!(&again, &names);
            }
        }
    }

    /// The same events and seed give the same outputs.
    #[test]
    fn runs_repeat(steps in prop::collection::vec(step(), 1..100)) {
        for (kind, params) in variants() {
            let run = || {
                let mut cc = build(&kind, &params, 9).unwrap();
                cc.on_start(&Start { now: 0, mss: MSS, initial_window: 14_480, rtt: Some(1_000_000), ecn: dumbbell_cc::EcnMode::Off });
                let mut world = World { now: 0, delivered: 0, lost: 0 };
                steps
                    .iter()
                    .map(|step| {
                        world.apply(cc.as_mut(), step);
                        (cc.cwnd(), cc.ssthresh(), cc.pacing_rate().map(f64::to_bits), cc.phase())
                    })
                    .collect::<Vec<_>>()
            };
            prop_assert_eq!(run(), run());
        }
    }
}
