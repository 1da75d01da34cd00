//! Whatever a transport reports, a controller's outputs stay usable.

mod common;

use dumbbell_cc::{
    Ack, CaState, Congestion, CongestionKind, Controller, EcnMode, IdleRestart, RateSample,
    RecoveryStyle, Rto, Start, Undo, build, list,
};
use proptest::prelude::*;
use serde_json::{Map, json};

const MSS: u32 = 1448;

/// Which data of an ACK was marked.
#[derive(Clone, Copy, Debug)]
enum Marks {
    None,
    /// So much of it CE, in 1/255.
    Ce(u8),
    Sce,
    Failed,
}

fn marks() -> impl Strategy<Value = Marks> {
    prop_oneof![
        6 => Just(Marks::None),
        2 => any::<u8>().prop_map(Marks::Ce),
        1 => Just(Marks::Sce),
        1 => Just(Marks::Failed),
    ]
}

fn mode() -> impl Strategy<Value = EcnMode> {
    prop::sample::select(vec![
        EcnMode::Off,
        EcnMode::Classic,
        EcnMode::CeState,
        EcnMode::Accurate,
        EcnMode::L4s,
        EcnMode::Sce,
    ])
}

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

fn step() -> impl Strategy<Value = Step> {
    let ack =
        (
            0_u64..2000,
            prop::option::weighted(0.8, prop_oneof![0_u64..2_000_000_000, Just(u64::MAX / 4)]),
            0_u8..5,
            any::<bool>(),
            any::<bool>(),
            0_u64..50,
            prop_oneof![0_u64..50_000_000, Just(20_000_000_000)],
            marks(),
        )
            .prop_map(|(segments, rtt, state, limited, advances, lost, wait, marks)| {
                Step::Ack { segments, rtt, state, limited, advances, lost, wait, marks }
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
            Step::Ack { segments, rtt, state, limited, advances, lost, wait, marks } => {
                let acked = segments * u64::from(mss);
                let lost = lost * u64::from(mss);
                let prior_delivered = self.delivered.saturating_sub(acked);
                self.now += wait;
                self.delivered += acked;
                self.lost += lost;
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

/// Controllers that in Linux grow without asking whether the window limited anything (Vegas), or have
/// a least window that grows (NV).
const UNCHECKED_IN_LINUX: &[&str] = &["nv", "vegas"];

fn variants() -> Vec<(String, Map<String, serde_json::Value>)> {
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

proptest! {
    #[test]
    fn outputs_stay_usable(steps in prop::collection::vec(step(), 1..200), rtt in prop::option::of(1_u64..1_000_000_000), ecn in mode()) {
        let mss = u64::from(MSS);
        for (kind, params) in variants() {
            let mut cc = build(&kind, &params, 3).unwrap();
            cc.on_start(&Start { now: 0, mss: MSS, initial_window: 10 * mss, rtt, ecn });
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
    fn runs_repeat(steps in prop::collection::vec(step(), 1..100), ecn in mode()) {
        for (kind, params) in variants() {
            let run = || {
                let mut cc = build(&kind, &params, 9).unwrap();
                cc.on_start(&Start { now: 0, mss: MSS, initial_window: 14_480, rtt: Some(1_000_000), ecn });
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

    /// A cut that was a mistake leaves no trace: threshold and window are as before it, also after a
    /// few ACKs in recovery. (A controller with a window of its own restores at least the window.)
    #[test]
    fn undo_restores(steps in prop::collection::vec(step(), 1..60), timeout in any::<bool>(), ecn in mode()) {
        for (kind, params) in variants() {
            let mut cc = build(&kind, &params, 3).unwrap();
            cc.on_start(&Start { now: 0, mss: MSS, initial_window: 14_480, rtt: Some(1_000_000), ecn });
            let mut world = World { now: 0, delivered: 0, lost: 0 };
            for step in &steps {
                world.apply(cc.as_mut(), step);
            }
            world.apply(cc.as_mut(), &Step::Exit);
            let (cwnd, ssthresh) = (cc.cwnd(), cc.ssthresh());
            if timeout {
                world.apply(cc.as_mut(), &Step::Rto { first: true });
            } else {
                world.apply(cc.as_mut(), &Step::Congestion { ecn: false });
            }
            world.apply(cc.as_mut(), &Step::Undo { timeout });
            if cc.recovery_style() == RecoveryStyle::Prr {
                // A cut never leaves less than two segments, and undoing it takes none away.
                let cwnd = cwnd.max(2 * u64::from(MSS));
                prop_assert_eq!((cc.cwnd().max(2 * u64::from(MSS)), cc.ssthresh()), (cwnd, ssthresh), "{}", kind);
            } else {
                prop_assert!(cc.cwnd() >= cwnd, "{kind}: {} after {cwnd}", cc.cwnd());
            }
        }
    }

    /// What the window did not limit says nothing about a larger window (RFC 7661 section 4.3).
    #[test]
    fn no_growth_while_the_application_limits(steps in prop::collection::vec(step(), 1..60), segments in 1_u64..100, ecn in mode()) {
        for (kind, params) in variants() {
            let mut cc = build(&kind, &params, 3).unwrap();
            let linux = !params.contains_key("linux") && UNCHECKED_IN_LINUX.contains(&kind.as_str());
            if cc.recovery_style() == RecoveryStyle::Own || linux {
                continue;
            }
            cc.on_start(&Start { now: 0, mss: MSS, initial_window: 14_480, rtt: Some(1_000_000), ecn });
            let mut world = World { now: 0, delivered: 0, lost: 0 };
            for step in &steps {
                world.apply(cc.as_mut(), step);
            }
            world.apply(cc.as_mut(), &Step::Exit);
            for i in 0..20 {
                // Some never leave less than four segments.
                let cwnd = cc.cwnd().max(4 * u64::from(MSS));
                let rtt = Some(1_000_000);
                world.apply(cc.as_mut(), &Step::Ack { segments, rtt, state: 0, limited: false, advances: true, lost: 0, wait: 1_000_000, marks: Marks::None });
                // The first of them may complete a reduction, at a window that the controller sets anew.
                prop_assert!(i == 0 || cc.cwnd() <= cwnd, "{kind}: {} after {cwnd}", cc.cwnd());
            }
        }
    }
}
