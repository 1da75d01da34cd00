//! Controllers that answer marks in proportion, and the laws of their steady states.
//!
//! Where marks are independent, a cut is allowed once a round trip counted from the last one: with v
//! marks a round trip there are v/(1 + v) cuts, and 1 - exp(-v) where the rounds are fixed.

use crate::common::{MS, MSS, S, controller, pipe::Pipe, recorded};
use dumbbell_cc::{Ack, CaState, Congestion, CongestionKind, Controller, EcnMode, Start};
use serde_json::{Value, json};

/// Rate (segments/s), mean window (segments) and signals a second, after settling.
struct Steady {
    rate: f64,
    window: f64,
    signals: f64,
}

/// On a link that never limits.
fn steady(kind: &str, params: &Value, rtt: u64, seconds: u64, set: impl Fn(&mut Pipe)) -> Steady {
    let mut pipe = Pipe::new(controller(kind, params), 1e11, rtt, usize::MAX);
    set(&mut pipe);
    pipe.run(seconds * S, |_| {});
    let (delivered, marks, lost, begin) = (pipe.delivered, pipe.marks, pipe.lost, pipe.now);
    let (mut area, mut last) = (0.0, begin);
    pipe.run(2 * seconds * S, |pipe| {
        area += (pipe.cc.cwnd() / u64::from(MSS)) as f64 * (pipe.now - last) as f64;
        last = pipe.now;
    });
    let elapsed = (pipe.now - begin) as f64 / 1e9;
    let lost = (pipe.lost - lost) / u64::from(MSS);
    Steady {
        rate: (pipe.delivered - delivered) as f64 / f64::from(MSS) / elapsed,
        // Reported in whole segments, which are half a segment less on average.
        window: area / (last - begin) as f64 + 0.5,
        signals: ((pipe.marks - marks) + lost) as f64 / elapsed,
    }
}

fn assert_within(value: f64, law: f64, part: f64, what: &str) {
    assert!((value / law - 1.0).abs() <= part, "{what}: {value} against {law}");
}

/// RFC 9332 equation 6: marks spread evenly hold a DCTCP sender at a window of 2/p.
#[test]
fn dctcp_settles_at_two_marks_a_round_trip() {
    for every in [10, 30, 100, 300, 1000] {
        let params = json!({"linux": false});
        let steady = steady("dctcp", &params, 20 * MS, 120, |pipe| pipe.ce_every = every);
        assert_within(steady.window, 2.0 * every as f64, 0.05, &format!("1 in {every}"));
    }
}

/// The same with independent marks: v (1 - exp(-v)) = 2 has the solution 2.22.
#[test]
fn dctcp_needs_a_little_more_where_marks_are_random() {
    for p in [0.001, 0.003, 0.01, 0.03] {
        let steady = steady("dctcp", &json!({"linux": false}), 20 * MS, 120, |pipe| pipe.ce = p);
        assert_within(steady.window * p, 2.22, 0.05, &format!("p = {p}"));
    }
}

/// RFC 8257 section 3.3: alpha moves by 1/16 of its distance once a window, in 1/1024 (Linux).
#[test]
fn alpha_steps() {
    let mut cc = started("dctcp", &json!({}), EcnMode::CeState, 100, MS);
    let alpha = |cc: &dyn Controller| (recorded(cc, "alpha") * 1024.0) as u64;
    let mut una = 0;
    let mut window = |cc: &mut Box<dyn Controller>, marked: u64| {
        una += 100 * SEGMENT;
        cc.on_ack(&Ack {
            mss: MSS,
            acked: 100 * SEGMENT,
            ce: marked * SEGMENT,
            snd_una: una,
            snd_nxt: una + 100 * SEGMENT - 1,
            state: CaState::Cwr,
            ..Ack::default()
        });
    };
    // 1024 less a sixteenth is 960, 900, 844, 792; a window with a half marked adds 32.
    for expected in [960, 900, 844, 792] {
        window(&mut cc, 0);
        assert_eq!(alpha(cc.as_ref()), expected);
    }
    window(&mut cc, 50);
    assert_eq!(alpha(cc.as_ref()), 792 - 49 + 32);
    // All marked: towards one and never above.
    for _ in 0..200 {
        window(&mut cc, 100);
        assert!(alpha(cc.as_ref()) <= 1024);
    }
    assert!(alpha(cc.as_ref()) >= 1024 - 15);
    // None marked: exactly zero in the end (a shift alone would stop at 15).
    for _ in 0..200 {
        window(&mut cc, 0);
    }
    assert_eq!(alpha(cc.as_ref()), 0);
}

/// RFC 8257 section 3.3: the cut is alpha/2, and at the start alpha is one; loss halves (3.5).
#[test]
fn the_first_mark_halves_and_so_does_a_loss() {
    for kind in [CongestionKind::Ecn, CongestionKind::Loss] {
        let mut cc = started("dctcp", &json!({}), EcnMode::CeState, 100, MS);
        cc.on_congestion(&Congestion {
            now: 0,
            kind,
            mss: MSS,
            inflight: 100 * SEGMENT,
            lost: 0,
            srtt: MS,
            delivered: 0,
            acked: 0,
        });
        assert_eq!(cc.cwnd(), 50 * SEGMENT);
    }
}

/// Growth of 1 - p a round trip (scaled with the virtual RTT) against cuts of p W/2, v/(1 + v) a
/// virtual round trip: v^2 = 2 (1 - p) (1 + v). Rates are the same at all RTTs up to 25 ms, and above
/// go with 1/RTT.
#[test]
fn prague_is_independent_of_the_rtt_below_25_ms() {
    for p in [0.003, 0.01, 0.03] {
        let growth: f64 = 1.0 - p;
        let marks = growth + (growth * growth + 2.0 * growth).sqrt();
        for rtt in [10, 25, 50] {
            let seconds = if rtt == 50 { 120 } else { 60 };
            let steady = steady("prague", &json!({}), rtt * MS, seconds, |pipe| pipe.ce = p);
            let law = marks / (p * rtt.max(25) as f64 / 1e3);
            assert_within(steady.rate, law, 0.05, &format!("{rtt} ms, p = {p}"));
        }
    }
}

/// Without scaling the rate goes with 1/RTT.
#[test]
fn prague_without_scaling_depends_on_the_rtt() {
    let rate = |rtt| {
        let params = json!({"rtt_scaling": "none"});
        steady("prague", &params, rtt * MS, 60, |pipe| pipe.ce = 0.01).rate
    };
    assert_within(rate(5) / rate(20), 4.0, 0.1, "5 ms against 20 ms");
}

/// Growth (1 - m) against m sqrt(W)/2, with the root rounded down: floor(sqrt(W)) = 2/m - 2.
#[test]
fn reno_sce_settles_where_its_cuts_balance() {
    for (m, root) in [(0.05, 38.0), (0.1, 18.0), (0.2, 8.0)] {
        let window = steady("reno-sce", &json!({}), 20 * MS, 120, |pipe| pipe.sce = m).window;
        let (low, high) = (root * root, (root + 1.0) * (root + 1.0));
        assert!((0.95 * low..1.05 * high).contains(&window), "{m}: {window}, {low} to {high}");
    }
}

/// Growth (1 - m) against m W/2: two marks a round trip.
#[test]
fn dctcp_sce_settles_at_two_marks_a_round_trip() {
    for m in [0.003, 0.01, 0.03, 0.1] {
        let window = steady("dctcp-sce", &json!({}), 20 * MS, 120, |pipe| pipe.sce = m).window;
        assert_within(window, 2.0 * (1.0 - m) / m, 0.05, &format!("{m}"));
    }
}

/// The numbers of the talk: 24 signals a second at and below 1 %, 30 Mbit/s (2440 segments/s) at 1 %,
/// at any RTT from 5 ms on; above 1 % Reno's root law at 5 ms. Whether loss or marks tell.
#[test]
fn scalable_classic_keeps_its_signals() {
    for rtt in [5, 20, 100] {
        for p in [0.03_f64, 0.01, 0.003, 0.001, 0.0003] {
            for loss in [true, false] {
                // Short round trips are cheap to run, and few signals vary much.
                let seconds = if rtt == 5 { 60 } else { 10 };
                let steady = steady("scalable-classic", &json!({}), rtt * MS, seconds, |pipe| {
                    if loss { pipe.loss = p } else { pipe.ce = p }
                });
                let law = 1.2247 / 0.005 * if p >= 0.01 { p.powf(-0.5) } else { 0.1 / p };
                let what = format!("{rtt} ms, p = {p}, loss: {loss}");
                let ratio = steady.rate / law;
                assert!((0.65..1.2).contains(&ratio), "{what}: ratio {ratio}");
                if p <= 0.01 {
                    assert!((20.0..28.0).contains(&steady.signals), "{what}: {}", steady.signals);
                }
            }
        }
    }
}

/// Marks in one round trip of a CUBIC-SCE window take off its root, and the curve goes on flat.
#[test]
fn cubic_sce_takes_the_root_off_in_a_round_of_marks() {
    let mut cc = started("cubic-sce", &json!({}), EcnMode::Sce, 400, 20 * MS);
    for i in 0..400 {
        cc.on_ack(&Ack {
            now: i * MS / 20,
            mss: MSS,
            acked: SEGMENT,
            sce: SEGMENT,
            rtt: Some(20 * MS),
            srtt: 20 * MS,
            min_rtt: 20 * MS,
            snd_una: (i + 1) * SEGMENT,
            snd_nxt: (i + 400) * SEGMENT,
            cwnd_limited: true,
            advances: true,
            ..Ack::default()
        });
    }
    // 20 segments for a window of 400; a little less as the window shrinks, a little more in turn.
    let left = cc.cwnd() / SEGMENT;
    assert!((379..=381).contains(&left), "{left}");
}

/// A controller that starts with `window` segments.
fn started(kind: &str, params: &Value, ecn: EcnMode, window: u64, rtt: u64) -> Box<dyn Controller> {
    let mut cc = controller(kind, params);
    cc.on_start(&Start { now: 0, mss: MSS, initial_window: window * SEGMENT, rtt: Some(rtt), ecn });
    cc
}

/// A sender with a window of its own data, fed ACK by ACK.
struct Sender {
    cc: Box<dyn Controller>,
    now: u64,
    una: u64,
    round: u64,
    round_end: u64,
}

const SEGMENT: u64 = MSS as u64;
const RTT: u64 = 20 * MS;

impl Sender {
    /// In avoidance with `window` segments.
    fn new(kind: &str, mode: EcnMode, window: u64) -> Self {
        let cc = started(kind, &json!({"initial_ssthresh": 2}), mode, window, RTT);
        Self { cc, now: 0, una: 0, round: 0, round_end: 0 }
    }

    fn segments(&self) -> u64 {
        self.cc.cwnd() / SEGMENT
    }

    /// One segment is acknowledged.
    fn ack(&mut self, change: impl FnOnce(&mut Ack)) {
        let window = self.cc.cwnd();
        self.now += RTT * SEGMENT / window;
        self.una += SEGMENT;
        let round_start = self.una > self.round_end;
        if round_start {
            self.round += 1;
            self.round_end = self.una + window;
        }
        let mut ack = Ack {
            now: self.now,
            mss: MSS,
            acked: SEGMENT,
            rtt: Some(RTT),
            srtt: RTT,
            min_rtt: RTT,
            snd_una: self.una,
            snd_nxt: self.una + window,
            round: self.round,
            round_start,
            cwnd_limited: true,
            advances: true,
            ..Ack::default()
        };
        change(&mut ack);
        self.cc.on_ack(&ack);
    }

    fn acks(&mut self, count: u64, mut change: impl FnMut(&mut Ack)) {
        for _ in 0..count {
            self.ack(&mut change);
        }
    }

    fn loss(&mut self) {
        self.cc.on_congestion(&Congestion {
            now: self.now,
            kind: CongestionKind::Loss,
            mss: MSS,
            inflight: self.cc.cwnd(),
            lost: SEGMENT,
            srtt: RTT,
            delivered: self.una,
            acked: SEGMENT,
        });
    }
}

fn ce(ack: &mut Ack) {
    (ack.ce, ack.ce_packets, ack.ece) = (ack.acked, 1, true);
}

/// All data marked: a first cut by half (alpha is one), and no other before a round trip is over.
#[test]
fn prague_cuts_once_a_round() {
    let mut sender = Sender::new("prague", EcnMode::L4s, 100);
    sender.acks(49, ce);
    assert_eq!(sender.segments(), 50);
    sender.acks(10, ce);
    assert_eq!(sender.segments(), 25);
}

/// 100 segments, a mark halves them, then a loss: the loss halves what there was before the mark.
#[test]
fn prague_does_not_stack_a_loss_on_a_mark() {
    let mut sender = Sender::new("prague", EcnMode::L4s, 100);
    sender.ack(ce);
    assert_eq!(sender.segments(), 50);
    sender.loss();
    assert_eq!(sender.segments(), 50);
    // Without a mark before it, or long after.
    sender.acks(200, |_| {});
    let before = sender.segments();
    sender.loss();
    assert_eq!(sender.segments(), before / 2);
}

/// RFC 9331 section 4.3: without accurate feedback, or once ECN has failed, one segment a round, half
/// on loss, and nothing for what ECE may say.
#[test]
fn prague_is_reno_without_accurate_feedback() {
    for failed in [false, true] {
        let mode = if failed { EcnMode::L4s } else { EcnMode::Classic };
        let mut sender = Sender::new("prague", mode, 100);
        let change = |ack: &mut Ack| ack.ecn_failed = failed;
        sender.acks(101, change);
        assert_eq!(sender.segments(), 101);
        sender.loss();
        assert_eq!(sender.segments(), 50);
    }
}

/// cwnd/srtt, and twice that while the window may still double below ssthresh.
#[test]
fn prague_is_paced() {
    let mut sender = Sender::new("prague", EcnMode::L4s, 100);
    sender.acks(2, |_| {});
    let per_second = |sender: &Sender| sender.cc.pacing_rate().unwrap() / f64::from(MSS);
    assert_within(per_second(&sender), 100.0 / 0.02, 0.001, "in avoidance");
    let cc = started("prague", &json!({}), EcnMode::L4s, 10, RTT);
    sender.cc = cc;
    assert_within(per_second(&sender), 2.0 * 10.0 / 0.02, 0.001, "in slow start");
}

/// A round trip of ECE: a quarter off 100 segments; an eighth where SCE came just before.
#[test]
fn reno_sce_answers_ce_by_a_quarter_or_an_eighth() {
    let ece = |ack: &mut Ack| ack.ece = true;
    let mut sender = Sender::new("reno-sce", EcnMode::Sce, 100);
    sender.acks(100, ece);
    assert_eq!(sender.segments(), 75);
    let mut sender = Sender::new("reno-sce", EcnMode::Sce, 100);
    sender.ack(|ack| ack.sce = ack.acked);
    sender.acks(100, ece);
    assert_eq!(sender.segments(), 87);
}

/// 100 segments: nothing while the episode lasts, a quarter (an eighth) at its end.
#[test]
fn dctcp_sce_cuts_at_the_end_of_the_episode() {
    for (recent, left) in [(false, 75), (true, 87)] {
        let mut sender = Sender::new("dctcp-sce", EcnMode::Sce, 100);
        if recent {
            sender.ack(|ack| ack.sce = ack.acked);
        }
        sender.acks(99, |ack| ack.ece = true);
        assert!((99..=100).contains(&sender.segments()));
        sender.acks(2, |ack| ack.ece = true);
        assert_eq!(sender.segments(), left, "recent: {recent}");
    }
}

/// CUBIC's 0.7, and 7/8 where SCE came within the last round trip.
#[test]
fn cubic_sce_cuts_less_where_sce_was_recent() {
    for (recent, left) in [(false, 700), (true, 875)] {
        let mut sender = Sender::new("cubic-sce", EcnMode::Sce, 1000);
        if recent {
            sender.ack(|ack| ack.sce = ack.acked);
        }
        sender.ack(|ack| ack.ece = true);
        assert!(sender.segments().abs_diff(left) <= 1, "recent: {recent}: {}", sender.segments());
    }
}

#[test]
fn sce_controllers_halve_on_loss() {
    for kind in ["reno-sce", "dctcp-sce"] {
        let mut sender = Sender::new(kind, EcnMode::Sce, 100);
        sender.loss();
        assert_eq!(sender.segments(), 50, "{kind}");
    }
}
