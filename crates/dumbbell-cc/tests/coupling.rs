//! Windows shared between connections, against the definitions of those who proposed it.

use crate::common::events::{Marks, Step, World};
use crate::common::{MS, MSS, S, Script, controller};
use dumbbell_cc::coupling::{self, Group};
use dumbbell_cc::{
    Congestion, CongestionKind, Controller, EcnMode, IdleRestart, Rto, SSTHRESH_INFINITE, Start,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const RTT: u64 = 100 * MS;

fn group(kind: &str, options: &Value) -> Group {
    Group::new(kind, options.as_object().unwrap()).unwrap()
}

/// A connection in `group` that opens with a window of `initial` segments if nobody shares another.
fn member(group: &Group, cc: &str, params: &Value, priority: f64, initial: u64) -> Script {
    let mut cc = group.join(controller(cc, params), priority).unwrap();
    start(&mut *cc, initial);
    Script { cc, now: 0, rtt: RTT, una: 0, round: 0 }
}

fn start(cc: &mut dyn Controller, initial: u64) {
    cc.on_start(&Start {
        now: 0,
        mss: MSS,
        initial_window: initial * u64::from(MSS),
        rtt: Some(RTT),
        ecn: EcnMode::Off,
    });
}

/// Reno connections of equal priority that have left slow start at 40 segments together.
fn avoiding(group: &Group, count: usize) -> Vec<Script> {
    let params = json!({"initial_ssthresh": 40});
    (0..count).map(|_| member(group, "reno", &params, 1.0, 40)).collect()
}

fn segments(members: &[Script]) -> Vec<u64> {
    members.iter().map(Script::segments).collect()
}

fn sum(members: &[Script]) -> u64 {
    segments(members).iter().sum()
}

/// Each gets acknowledged what it had in flight at the start, a segment at a time, in turns.
fn round(members: &mut [Script]) {
    let sent = segments(members);
    for turn in 0..sent.iter().copied().max().unwrap_or(0) {
        for (member, _) in members.iter_mut().zip(&sent).filter(|&(_, &sent)| turn < sent) {
            member.now += RTT / 100;
            member.una += u64::from(MSS);
            let ack = member.event(u64::from(MSS));
            member.cc.on_ack(&ack);
        }
    }
}

fn rounds(members: &mut [Script], count: usize) {
    (0..count).for_each(|_| round(members));
}

fn lose(member: &mut Script) {
    member.cc.on_congestion(&Congestion {
        now: member.now,
        kind: CongestionKind::Loss,
        mss: MSS,
        inflight: member.cc.cwnd(),
        lost: u64::from(MSS),
        srtt: RTT,
        delivered: member.una,
        acked: 0,
    });
}

fn time_out(member: &mut Script) {
    let event = Rto { now: member.now, mss: MSS, inflight: 0, first: true, delivered: member.una };
    member.cc.on_rto(&event);
}

/// Eggert, Heidemann, Touch: the ensemble is as aggressive as one connection. In slow start, in
/// avoidance, on loss and on a timeout the sum of eight windows is the window of one Reno.
#[test]
fn an_ensemble_is_as_aggressive_as_one_connection() {
    let group = group("e-tcp", &json!({}));
    let mut eight: Vec<_> = (0..8).map(|_| member(&group, "reno", &json!({}), 1.0, 16)).collect();
    let mut one = Script::new("reno", &json!({}), RTT, 16);
    for step in 0..30 {
        assert!(sum(&eight).abs_diff(one.segments()) <= 1, "{step}: {:?}", segments(&eight));
        match step {
            // Several lose from one window of data: one reduction.
            4 | 12 => {
                eight[1..4].iter_mut().for_each(lose);
                eight[1..4].iter_mut().for_each(|member| member.cc.on_recovery_exit(member.now));
                one.lose();
            }
            _ => {
                round(&mut eight);
                let acks = one.segments();
                one.round(acks);
            }
        }
    }
    assert!(one.segments() > 30);
    time_out(&mut eight[5]);
    // The window is one segment; nobody can have less.
    assert_eq!(group.window(), Some(f64::from(MSS)));
    assert_eq!(segments(&eight), [1; 8]);
}

/// As of one connection, the window is cut once for all that was sent before a reduction: a loss that
/// another member finds after the first has recovered is no new event, unless it was sent since.
#[test]
fn a_window_of_data_is_cut_for_once() {
    let group = group("e-tcp", &json!({}));
    let mut members = avoiding(&group, 3);
    lose(&mut members[0]);
    members[0].cc.on_recovery_exit(0);
    assert_eq!(sum(&members), 20);
    // It has not had an ACK since.
    lose(&mut members[1]);
    members[1].cc.on_recovery_exit(0);
    assert_eq!(sum(&members), 20);
    // 13 segments were in flight when it heard of the reduction, with its next ACK.
    let flight = 13 * u64::from(MSS);
    let ack = dumbbell_cc::Ack { snd_una: 0, snd_nxt: flight, ..members[2].event(0) };
    members[2].cc.on_ack(&ack);
    lose(&mut members[2]);
    members[2].cc.on_recovery_exit(0);
    assert_eq!(sum(&members), 20);
    let ack = dumbbell_cc::Ack { snd_una: flight, snd_nxt: 2 * flight, ..ack };
    members[2].cc.on_ack(&ack);
    lose(&mut members[2]);
    assert_eq!(sum(&members), 10);
}

/// EFCM: each connection has S_cwnd / N and S_ssthresh / N.
#[test]
fn efcm_gives_all_the_mean_window() {
    for (signal, after) in [("all", 20), ("own", 35)] {
        let group = group("efcm", &json!({"signal": signal}));
        let mut members = avoiding(&group, 4);
        assert_eq!(segments(&members), [10; 4]);
        assert_eq!(members[0].cc.ssthresh(), 10 * u64::from(MSS));
        // Each grows by one segment a round trip: S_cwnd by four. A window that another's growth has
        // raised needs one ACK more, which costs less than a tenth.
        rounds(&mut members, 10);
        assert!((76..=80).contains(&sum(&members)), "{:?}", segments(&members));
        let mut members = avoiding(&self::group("efcm", &json!({"signal": signal})), 4);
        // The event of one halves all windows, or takes half of its quarter.
        lose(&mut members[2]);
        assert_eq!(sum(&members), after, "{signal}");
        assert!(segments(&members).iter().all(|&n| n == after / 4 || n == after / 4 + 1));
    }
}

/// draft-welzl-tcp-ccc: cwnd_c = P_c sum_cwnd / sum_P, for a connection that joins at once; the sum
/// stays as it is when one joins or leaves.
#[test]
fn ctrltcp_shares_by_priority() {
    let group = group("ctrltcp", &json!({"burst": 0}));
    let params = json!({"initial_ssthresh": 40});
    let mut members =
        vec![member(&group, "reno", &params, 1.0, 40), member(&group, "reno", &params, 3.0, 10)];
    assert_eq!(segments(&members), [10, 30]);
    members.push(member(&group, "reno", &params, 4.0, 10));
    assert_eq!(segments(&members), [5, 15, 20]);
    // It does not slow-start: its threshold is its share, too.
    assert_eq!(members[2].cc.ssthresh(), 20 * u64::from(MSS));
    members[2].cc.on_close(0);
    members.pop();
    assert_eq!(segments(&members), [10, 30]);
    // Fast recovery of one halves the sum, and losses of another in it do nothing more.
    lose(&mut members[0]);
    assert_eq!(segments(&members), [5, 15]);
    lose(&mut members[1]);
    assert_eq!(segments(&members), [5, 15]);
    // PRR aims at what the member is to have after the reduction.
    assert_eq!(members[1].cc.ssthresh(), 15 * u64::from(MSS));
    // Until it is over nobody grows; then each by one segment a round trip.
    members[1].cc.on_recovery_exit(0);
    round(&mut members[1..]);
    assert_eq!(sum(&members), 20);
    members[0].cc.on_recovery_exit(0);
    rounds(&mut members, 10);
    assert!((38..=40).contains(&sum(&members)), "{:?}", segments(&members));
}

/// Islam, Welzl, ANRW 2016: whoever gets a larger share does not send it as one burst, but with the ACKs.
#[test]
fn ctrltcp_keeps_the_ack_clock() {
    let group = group("ctrltcp", &json!({}));
    let mut members = avoiding(&group, 1);
    members.push(member(&group, "reno", &json!({}), 1.0, 10));
    // Its share is 20. It begins with an initial window, and each ACK of one segment adds one and four.
    assert_eq!(segments(&members), [20, 10]);
    let mut windows = vec![];
    for _ in 0..3 {
        let ack = members[1].event(u64::from(MSS));
        members[1].cc.on_ack(&ack);
        windows.push(members[1].segments());
    }
    assert_eq!(windows, [15, 20, 20]);
}

#[test]
fn ctrltcp_grows_as_one_connection_if_asked() {
    let group = group("ctrltcp", &json!({"growth": "one"}));
    let mut members = avoiding(&group, 4);
    rounds(&mut members, 20);
    assert!(sum(&members).abs_diff(60) <= 2, "{:?}", segments(&members));
}

/// Slow start is the group's and ends for all with the first that leaves it.
#[test]
fn ctrltcp_leaves_slow_start_together() {
    let group = group("ctrltcp", &json!({}));
    let mut members: Vec<_> = (0..2).map(|_| member(&group, "reno", &json!({}), 1.0, 10)).collect();
    assert_eq!(segments(&members), [5, 5]);
    round(&mut members);
    assert_eq!(segments(&members), [10, 10]);
    assert!(members.iter().all(|member| member.cc.ssthresh() == SSTHRESH_INFINITE));
    lose(&mut members[0]);
    members[0].cc.on_recovery_exit(0);
    rounds(&mut members, 5);
    assert!((18..=20).contains(&sum(&members)), "{:?}", segments(&members));
}

/// A timeout is the member's alone; it is back when its own slow start has ended.
#[test]
fn ctrltcp_lets_one_time_out_alone() {
    let group = group("ctrltcp", &json!({}));
    let mut members = avoiding(&group, 2);
    time_out(&mut members[0]);
    assert_eq!(segments(&members), [1, 20]);
    assert_eq!(group.window(), Some(40.0 * f64::from(MSS)));
    // 1, 2, 4, 8, 10: its threshold is half of what it had.
    let mut own = vec![];
    for _ in 0..4 {
        round(&mut members[..1]);
        own.push(members[0].segments());
    }
    assert_eq!(own[..3], [2, 4, 8]);
    // Of its 20 it has reached 10, and shares what the two have.
    assert_eq!(sum(&members), 30);
    assert_eq!(segments(&members), [15, 15]);
    // With all gone nobody knows the path: slow start from one segment for both, up to half.
    members.iter_mut().for_each(time_out);
    assert_eq!(group.window(), Some(f64::from(MSS)));
    assert_eq!(members[0].cc.ssthresh() + members[1].cc.ssthresh(), 15 * u64::from(MSS));
}

/// CUBIC multiplies by 0.7 (RFC 9438), and who did not lose hears of the reduction: its curve starts
/// from the same event.
#[test]
fn reductions_are_the_controllers_own() {
    let group = group("ctrltcp", &json!({}));
    let params = json!({"initial_ssthresh": 100});
    let mut members: Vec<_> = (0..2).map(|_| member(&group, "cubic", &params, 1.0, 100)).collect();
    lose(&mut members[0]);
    assert_eq!(sum(&members), 70);
    members[0].cc.on_recovery_exit(0);
    // K = cbrt(W_max 0.3 / C) = 3.35 s for 50 segments each and C = 0.4: after 30 round trips both are
    // close to W_max again, and neither runs ahead.
    rounds(&mut members, 30);
    assert!((90..=105).contains(&sum(&members)), "{:?}", segments(&members));
    let [a, b] = [members[0].segments(), members[1].segments()];
    assert!(a.abs_diff(b) <= 1);
}

/// RFC 3124 section 5.2: AIMD_CC; section 5.3: the shares of the scheduler.
#[test]
fn the_congestion_manager_is_aimd_on_one_window() {
    let group = group("cm", &json!({}));
    let params = json!({"initial_ssthresh": 40});
    let mut members: Vec<_> =
        [1.0, 2.0, 5.0].iter().map(|&p| member(&group, "reno", &params, p, 40)).collect();
    assert_eq!(segments(&members), [5, 10, 25]);
    // cwnd grows by nsent MTU / cwnd: one segment in a round trip of all.
    rounds(&mut members, 8);
    assert_eq!(sum(&members), 48);
    assert_eq!(segments(&members), [6, 12, 30]);
    // CM_LOSS_FEEDBACK: cwnd / 2.
    lose(&mut members[1]);
    assert_eq!(segments(&members), [3, 6, 15]);
    members[1].cc.on_recovery_exit(0);
    // CM_NO_FEEDBACK: 1 MTU, and slow start up to cwnd / 2.
    time_out(&mut members[2]);
    assert_eq!(group.window(), Some(f64::from(MSS)));
    let window = |group: &Group| (group.window().unwrap() / f64::from(MSS)) as u64;
    let mut windows = vec![];
    for _ in 0..14 {
        members[2].round(1);
        windows.push(window(&group));
    }
    // One ACK for all of the member's share: its 5/8 of the window are added until 12 are reached.
    assert!(windows.windows(2).all(|pair| pair[0] <= pair[1]) && windows.contains(&12));
    let equal = self::group("cm", &json!({"scheduler": "unweighted"}));
    let members: Vec<_> =
        [1.0, 2.0, 5.0, 8.0].iter().map(|&p| member(&equal, "reno", &params, p, 40)).collect();
    // RR_sched: 1/(number of streams in macroflow).
    assert_eq!(segments(&members), [10; 4]);
}

/// A stream without data takes no turns: the others have its share until it sends again.
#[test]
fn the_scheduler_lends() {
    let group = group("cm", &json!({}));
    let mut members = avoiding(&group, 2);
    let ack = dumbbell_cc::Ack {
        app_limited: true,
        cwnd_limited: false,
        inflight: 0,
        ..members[0].event(u64::from(MSS))
    };
    members[0].cc.on_ack(&ack);
    assert_eq!(segments(&members), [1, 40]);
    let restart = IdleRestart {
        now: 0,
        mss: MSS,
        idle: 0,
        app_limited: true,
        restart_window: None,
        delivered: 0,
    };
    members[0].cc.on_idle_restart(&restart);
    assert_eq!(segments(&members), [20, 20]);
}

/// A macroflow keeps its window when no stream is open, and halves it with time.
#[test]
fn what_is_kept_decays() {
    for (wait, expected) in [(0, 80), (999 * MS, 80), (S, 40), (2 * S, 20), (60 * S, 10)] {
        let group = group("cm", &json!({}));
        let mut first = member(&group, "reno", &json!({"initial_ssthresh": 80}), 1.0, 80);
        first.cc.on_close(0);
        let mut next = group.join(controller("reno", &json!({})), 1.0).unwrap();
        next.on_start(&Start {
            now: wait,
            mss: MSS,
            initial_window: 10 * u64::from(MSS),
            rtt: None,
            ecn: EcnMode::Off,
        });
        assert_eq!(next.cwnd(), expected * u64::from(MSS), "{wait}");
    }
}

/// RFC 9040 section 8: beside one connection of 40 segments two join, with 10 each (RFC 6928) if they
/// share nothing. With f = sum / (N + 1) they join with 40 / 2 and 60 / 3; sections 6.2 and 7.1 for f,
/// which the RFC leaves open. The first keeps its 40 (section 1: initialisation only).
#[test]
fn control_blocks_are_shared_by_ensembles() {
    let open = |options: Value| {
        let group = group("tcb", &options);
        let mut members = avoiding(&group, 1);
        for _ in 0..2 {
            members.push(member(&group, "reno", &json!({}), 1.0, 10));
        }
        // Those that made room know with their next ACK.
        let ack = members[0].event(0);
        members[0].cc.on_ack(&ack);
        let ack = members[1].event(0);
        members[1].cc.on_ack(&ack);
        segments(&members)
    };
    assert_eq!(open(json!({"sharing": "temporal"})), [40, 10, 10]);
    assert_eq!(open(json!({})), [40, 20, 20]);
    assert_eq!(open(json!({"share": "mean"})), [40, 40, 40]);
    assert_eq!(open(json!({"cwnd": false})), [40, 10, 10]);
    assert_eq!(open(json!({"make_room": true})), [13, 13, 13]);
    let group = group("tcb", &json!({}));
    let _first = avoiding(&group, 1);
    let second = member(&group, "reno", &json!({}), 1.0, 10);
    assert_eq!(second.cc.ssthresh(), 20 * u64::from(MSS));
}

/// RFC 9040 section 6.2: new = (1 - alpha) old + alpha new, and the first values as they are.
#[test]
fn control_blocks_are_cached() {
    for (alpha, expected) in [(0.0, 80), (0.25, 70), (0.5, 60), (1.0, 40)] {
        let group = group("tcb", &json!({"merge": alpha, "sharing": "temporal"}));
        for window in [80, 40] {
            let params = json!({"initial_ssthresh": window});
            let mut cc = group.join(controller("reno", &params), 1.0).unwrap();
            start(&mut *cc, window);
            // The second has begun with the first's, and ends at 40.
            if window == 40 {
                assert_eq!(cc.cwnd(), 80 * u64::from(MSS));
                let mut script = Script { cc, now: 0, rtt: RTT, una: 0, round: 0 };
                lose(&mut script);
                assert_eq!(script.segments(), 40);
            }
        }
        let next = member(&group, "reno", &json!({}), 1.0, 10);
        assert_eq!(next.segments(), expected, "{alpha}");
        assert_eq!(next.cc.ssthresh(), expected * u64::from(MSS), "{alpha}");
    }
    let group = group("tcb", &json!({"least_bytes": 1_000_000}));
    drop(avoiding(&group, 1));
    assert_eq!(member(&group, "reno", &json!({}), 1.0, 10).segments(), 10);
}

/// RFC 8699 over windows: rates by priority, and the sum shrinks by the factor of who backs off
/// (section 5.3.2). Round-trip times turn rates into windows: twice the RTT, twice the window.
#[test]
fn the_flow_state_exchange_shares_windows() {
    let group = group("fse-window", &json!({}));
    let params = json!({"initial_ssthresh": 30});
    let mut members =
        vec![member(&group, "reno", &params, 1.0, 30), member(&group, "reno", &params, 2.0, 30)];
    // The first growth divides the 61 segments that there are now.
    members[0].round(30);
    assert_eq!(segments(&members), [20, 41]);
    lose(&mut members[1]);
    assert_eq!(segments(&members), [10, 20]);
    // For two round trips after that the sum stays as it is.
    lose(&mut members[0]);
    assert_eq!(segments(&members), [10, 20]);
    members.iter_mut().for_each(|member| member.cc.on_recovery_exit(0));
    let group = self::group("fse-window", &json!({}));
    let mut members = avoiding(&group, 2);
    members[1].rtt = 2 * RTT;
    let acks = members[1].segments();
    members[1].round(acks);
    let (a, b) = (members[0].segments() as f64, members[1].segments() as f64);
    assert!((b / a - 2.0).abs() < 0.1, "{a} {b}");
}

#[test]
fn names_and_limits_are_checked() {
    let error = |kind: &str, options: Value| {
        Group::new(kind, options.as_object().unwrap()).err().unwrap().to_string()
    };
    assert_eq!(
        error("ctrl-tcp", json!({})),
        "unknown coupling \"ctrl-tcp\": did you mean \"ctrltcp\"?"
    );
    assert!(error("cm", json!({"schedule": "weighted"})).contains("did you mean \"scheduler\"?"));
    assert!(error("tcb", json!({"merge": 2})).contains("expected a fraction from 0 to 1"));
    let error = group("cm", &json!({})).join(controller("bbr", &json!({})), 1.0).err().unwrap();
    assert_eq!(
        error.to_string(),
        "bbr: its window cannot be set, so it cannot be shared by coupling \"cm\""
    );
    let windows: Vec<_> = coupling::list()
        .iter()
        .filter(|info| info.shares == "window")
        .map(|info| info.name)
        .collect();
    assert_eq!(windows, ["cm", "ctrltcp", "e-tcp", "efcm", "fse-window", "tcb"]);
}

#[derive(Clone, Debug)]
enum Event {
    Step(Step),
    Open(f64),
    Close,
}

fn event() -> impl Strategy<Value = Event> {
    let ack = (0_u64..50, 0_u8..5, any::<bool>(), any::<bool>(), 0_u64..200_000_000).prop_map(
        |(segments, state, limited, advances, wait)| Step::Ack {
            segments,
            rtt: Some(RTT),
            state,
            limited,
            advances,
            lost: 0,
            wait,
            marks: Marks::None,
        },
    );
    let step = prop_oneof![
        12 => ack,
        2 => any::<bool>().prop_map(|ecn| Step::Congestion { ecn }),
        1 => any::<bool>().prop_map(|first| Step::Rto { first }),
        1 => any::<bool>().prop_map(|timeout| Step::Undo { timeout }),
        2 => Just(Step::Exit),
        1 => (0_u64..10_000_000_000, any::<bool>(), any::<bool>())
            .prop_map(|(idle, app_limited, restart)| Step::Idle { idle, app_limited, restart }),
    ];
    prop_oneof![
        20 => step.prop_map(Event::Step),
        2 => (0.1_f64..10.0).prop_map(Event::Open),
        1 => Just(Event::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens to members: each has at least one segment, all together no more than the group
    /// (where it has a window of its own) or one segment each, and shares keep to priorities.
    #[test]
    fn shares_add_up(events in prop::collection::vec((0_usize..6, event()), 1..200)) {
        let mss = u64::from(MSS);
        for (kind, cc) in [
            ("cm", "reno"), ("e-tcp", "reno"), ("efcm", "reno"), ("ctrltcp", "reno"),
            ("ctrltcp", "cubic"), ("fse-window", "reno"), ("tcb", "cubic"), ("cm", "cubic"),
        ] {
            let burst = if kind == "efcm" { json!({"burst": 4}) } else { json!({}) };
            let group = group(kind, &burst);
            let mut members: Vec<(f64, Box<dyn Controller>)> = vec![];
            let mut world = World::default();
            for (index, event) in &events {
                match event {
                    Event::Open(priority) => {
                        let mut cc = group.join(controller(cc, &json!({})), *priority).unwrap();
                        start(&mut *cc, 10);
                        members.push((*priority, cc));
                    }
                    Event::Close if !members.is_empty() => {
                        members.remove(index % members.len());
                    }
                    Event::Step(step) if !members.is_empty() => {
                        let at = index % members.len();
                        world.apply(&mut *members[at].1, step);
                    }
                    _ => {}
                }
                let windows: Vec<_> = members.iter().map(|(_, cc)| cc.cwnd()).collect();
                for (&window, (_, cc)) in windows.iter().zip(&members) {
                    prop_assert!(window >= mss && window <= mss << 31, "{}: {:?}", kind, event);
                    prop_assert!(window.is_multiple_of(mss) && cc.ssthresh() >= mss);
                }
                let Some(whole) = group.window() else { continue };
                prop_assert!(whole.is_finite());
                let sum: u64 = windows.iter().sum();
                let least = windows.len() as u64 * mss;
                // Each of the floors of one segment may add to the others' shares.
                prop_assert!(sum as f64 <= whole + least as f64, "{}: {:?} of {}", kind, windows, whole);
            }
        }
    }
}
