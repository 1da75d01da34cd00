//! Whatever a transport reports, a controller's outputs stay usable.

use crate::common::MSS;
use crate::common::events::{Marks, Step, World, assert_usable, variants};
use dumbbell_cc::{EcnMode, RecoveryStyle, Start, build};
use proptest::prelude::*;

fn marks() -> impl Strategy<Value = Marks> {
    prop_oneof![
        6 => Just(Marks::None),
        2 => any::<u8>().prop_map(Marks::Ce),
        1 => Just(Marks::Sce),
        1 => Just(Marks::Failed),
        1 => (-1e13..1e13).prop_map(Marks::Feedback),
    ]
}

fn mode() -> impl Strategy<Value = EcnMode> {
    prop::sample::select(EcnMode::ALL.to_vec())
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

/// Controllers that in Linux grow without asking whether the window limited anything (Vegas), or have
/// a least window that grows (NV).
const UNCHECKED_IN_LINUX: &[&str] = &["nv", "vegas"];

proptest! {
    #[test]
    fn outputs_stay_usable(steps in prop::collection::vec(step(), 1..200), rtt in prop::option::of(1_u64..1_000_000_000), ecn in mode()) {
        let mss = u64::from(MSS);
        for (kind, params) in variants() {
            let mut cc = build(&kind, &params, 3).unwrap();
            cc.on_start(&Start { now: 0, mss: MSS, initial_window: 10 * mss, rtt, ecn });
            let mut world = World::default();
            let mut names = Vec::new();
            cc.record(&mut |name, _| names.push(name));
            for step in &steps {
                world.apply(cc.as_mut(), step);
                assert_usable(cc.as_ref(), &kind, step);
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
                let mut world = World::default();
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
            let mut world = World::default();
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
            let mut world = World::default();
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
