//! What a controller is told: marks as the receiver counted them, whatever becomes of the ACKs, and
//! restarts from idle.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use dumbbell_cc::{
    Ack, CaState, Congestion, CongestionKind, Controller, EcnMode, IdleRestart, Rto, Start, Undo,
};
use dumbbell_queue::{Ecn, Packet as _};
use dumbbell_transport::tcp::{Receiver, ReceiverConfig, Sender, SenderConfig, Window};
use dumbbell_transport::{Packet, flags};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const MSS: u64 = 1000;

/// What reached the controller.
#[derive(Default)]
struct Log {
    acks: Vec<Ack>,
    marks: u32,
    restarts: Vec<IdleRestart>,
}

/// A constant window that writes down what it is told.
struct Witness {
    log: Arc<Mutex<Log>>,
    own_response: bool,
}

impl Controller for Witness {
    fn name(&self) -> &'static str {
        "witness"
    }

    fn on_start(&mut self, _: &Start) {}

    fn on_ack(&mut self, ack: &Ack) {
        self.log.lock().unwrap().acks.push(*ack);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.log.lock().unwrap().marks += u32::from(event.kind == CongestionKind::Ecn);
    }

    fn on_rto(&mut self, _: &Rto) {}

    fn on_undo(&mut self, _: &Undo) {}

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        self.log.lock().unwrap().restarts.push(*event);
    }

    fn responds_to_marks(&self) -> bool {
        self.own_response
    }

    fn cwnd(&self) -> u64 {
        20 * MSS
    }

    fn ssthresh(&self) -> u64 {
        20 * MSS
    }

    fn phase(&self) -> &'static str {
        ""
    }
}

fn ends(
    ecn: EcnMode,
    own_response: bool,
    idle_restart: bool,
) -> (Sender, Receiver, Arc<Mutex<Log>>) {
    let log = Arc::<Mutex<Log>>::default();
    let sender = SenderConfig {
        flow: 0,
        generation: 0,
        dscp: 0,
        mss: MSS as u16,
        initial_window: 10,
        ecn,
        timestamps: true,
        prr: true,
        tlp: true,
        idle_restart,
        pacing: false,
        min_rto: 200 * MS,
        window_scale: None,
        initial_rwnd: 0,
        max_rate: f64::INFINITY,
    };
    let receiver = ReceiverConfig {
        flow: 0,
        generation: 0,
        dscp: 0,
        mss: MSS as u16,
        ack_every: 2,
        delack: 40 * MS,
        window: Window::Unlimited,
        timestamps: true,
        ecn,
        feedback: false,
    };
    let witness = Witness { log: Arc::clone(&log), own_response };
    let mut sender = Sender::new(sender, Box::new(witness));
    sender.on_established(0, Some(20 * MS));
    (sender, Receiver::new(receiver), log)
}

/// One way takes 10 ms; `data` and `ack` decide what becomes of each packet (`None`: lost).
struct Path<D, A> {
    data: D,
    ack: A,
    forward: VecDeque<(u64, Packet)>,
    back: VecDeque<(u64, Packet)>,
}

impl<D: FnMut(Packet) -> Option<Packet>, A: FnMut(Packet) -> Option<Packet>> Path<D, A> {
    fn new(data: D, ack: A) -> Self {
        Self { data, ack, forward: VecDeque::new(), back: VecDeque::new() }
    }

    fn reply(&mut self, now: u64, ack: Option<Packet>) {
        if let Some(ack) = ack.and_then(&mut self.ack) {
            self.back.push_back((now + 10 * MS, ack));
        }
    }

    /// Run until the sender has nothing left to do, or until `end`; returns the time.
    fn run(&mut self, sender: &mut Sender, receiver: &mut Receiver, start: u64, end: u64) -> u64 {
        let mut now = start;
        loop {
            while let Some(packet) = sender.poll_transmit(now) {
                if let Some(packet) = (self.data)(packet) {
                    self.forward.push_back((now + 10 * MS, packet));
                }
            }
            let head = |queue: &VecDeque<(u64, Packet)>| queue.front().map_or(u64::MAX, |e| e.0);
            let (forward, back) = (head(&self.forward), head(&self.back));
            let timers = sender.next_timeout().min(receiver.next_timeout());
            let next = forward.min(back).min(timers);
            if next > end || sender.is_idle() && self.forward.is_empty() && self.back.is_empty() {
                return now;
            }
            now = next;
            if forward == now {
                let (_, packet) = self.forward.pop_front().unwrap();
                let ack = receiver.on_data(now, &packet);
                self.reply(now, ack);
            } else if receiver.next_timeout() == now {
                let ack = receiver.on_timeout(now);
                self.reply(now, ack);
            } else if back == now {
                let (_, packet) = self.back.pop_front().unwrap();
                sender.on_ack(now, &packet);
            } else {
                sender.on_timeout(now);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With counters, what is reported adds up to what was marked: exactly, although ACKs are lost,
    /// data is lost and marked twice.
    #[test]
    fn counters_are_exact_under_loss(
        fates in prop::collection::vec((any::<u8>(), any::<u8>()), 256),
        marking in 0u8..200,
        loss in 0u8..40,
        ack_loss in 0u8..150,
        l4s in any::<bool>(),
        own_response in any::<bool>(),
    ) {
        let mode = if l4s { EcnMode::L4s } else { EcnMode::Accurate };
        let (mut sender, mut receiver, log) = ends(mode, own_response, true);
        let (mut n, mut m) = (0, 0);
        let (mut marked, mut through) = (0u64, (0, 0));
        let data = |mut packet: Packet| {
            n += 1;
            let (fate, mark) = fates[n % 256];
            assert_eq!(packet.ecn(), if l4s { Ecn::Ect1 } else { Ecn::Ect0 });
            if mark < marking {
                packet.mark_ce();
            }
            (fate >= loss).then_some(packet)
        };
        let ack = |packet: Packet| {
            m += 1;
            assert!(packet.ip_bytes <= 80 && packet.flags & flags::COUNTERS != 0);
            let passes = fates[m % 256].0.reverse_bits() >= ack_loss;
            marked = packet.aux[2] >> 32 & 0xff_ffff;
            if passes {
                through = (marked, packet.aux[2] & 0xffff_ffff);
            }
            passes.then_some(packet)
        };
        let mut path = Path::new(data, ack);
        sender.write(400 * MSS);
        path.run(&mut sender, &mut receiver, 0, u64::MAX - 1);
        prop_assert!(sender.is_idle());
        drop(path);
        let log = log.lock().unwrap();
        let packets: u64 = log.acks.iter().map(|ack| ack.ce_packets).sum();
        let bytes: u64 = log.acks.iter().map(|ack| ack.ce).sum();
        prop_assert_eq!((packets, bytes), through);
        prop_assert_eq!(packets * MSS, bytes);
        prop_assert!(log.acks.iter().all(|ack| ack.ece == (ack.ce_packets > 0) && !ack.ecn_failed));
        prop_assert!(!own_response || log.marks == 0);
        // Only a reduction for loss answers a mark too.
        let reduced = |ack: &Ack| matches!(ack.state, CaState::Recovery | CaState::Loss);
        let covered = log.acks.iter().all(|ack| !ack.ece || reduced(ack));
        prop_assert!(own_response || log.marks > 0 || covered);
    }
}

/// Every tenth segment marked: each mode tells it in its own way.
fn marks(mode: EcnMode, own_response: bool, mark: Ecn) -> (Vec<Ack>, u32, Vec<u64>) {
    let (mut sender, mut receiver, log) = ends(mode, own_response, true);
    let mut reduced = Vec::new();
    let data = |mut packet: Packet| {
        if packet.flags & flags::CWR != 0 {
            reduced.push(packet.seq);
        }
        if packet.seq % 100 == 50 {
            packet.set_ecn(mark);
        }
        Some(packet)
    };
    let mut path = Path::new(data, Some);
    sender.write(400 * MSS);
    path.run(&mut sender, &mut receiver, 0, u64::MAX - 1);
    drop(path);
    let log = log.lock().unwrap();
    (log.acks.clone(), log.marks, reduced)
}

/// RFC 3168 section 6.1.3: one mark is one reduction, however many ACKs carry the ECE of its round
/// trip; CWR goes out with the next new data.
#[test]
fn classic_marks_reduce_once() {
    let (acks, marks, reduced) = marks(EcnMode::Classic, false, Ecn::Ce);
    assert_eq!((marks, reduced.len()), (4, 4));
    assert!(acks.iter().filter(|ack| ack.ece).count() > 4);
}

/// A controller that answers marks itself is not told to cut, and the ECE ends nevertheless.
#[test]
fn own_response_stops_the_echo() {
    for mode in [EcnMode::Classic, EcnMode::Sce] {
        let (acks, marks, reduced) = self::marks(mode, true, Ecn::Ce);
        assert_eq!((marks, reduced.len()), (0, 4));
        let echoed: u64 = acks.iter().map(|ack| ack.ce).sum();
        // About one round trip of 20 segments for each mark.
        assert!((4 * 15 * MSS..=4 * 25 * MSS).contains(&echoed), "{echoed}");
        assert!(!acks.last().unwrap().ece);
    }
}

/// RFC 8257: exactly the marked bytes are reported when each change of state is acknowledged.
#[test]
fn ce_state_is_exact() {
    for own_response in [false, true] {
        let (acks, marks, _) = marks(EcnMode::CeState, own_response, Ecn::Ce);
        assert_eq!(acks.iter().map(|ack| ack.ce).sum::<u64>(), 4 * MSS);
        assert_eq!(acks.iter().map(|ack| ack.ce_packets).sum::<u64>(), 4);
        assert_eq!(marks, if own_response { 0 } else { 4 });
    }
}

/// SCE is told exactly and is no congestion event.
#[test]
fn sce_is_exact() {
    let (acks, marks, reduced) = marks(EcnMode::Sce, true, Ecn::Ect1);
    assert_eq!(acks.iter().map(|ack| ack.sce).sum::<u64>(), 4 * MSS);
    assert_eq!(acks.iter().map(|ack| ack.ce).sum::<u64>(), 0);
    assert_eq!((marks, reduced.len()), (0, 0));
}

/// RFC 9768 section 3.2.2.3 and RFC 9000 section 13.4.2.1: a path that clears the ECN field, turns one
/// ECT into the other or marks everything is found out, and data is Not-ECT from then on. Data on a
/// sound path, also one that marks much, is not.
#[test]
fn broken_paths_are_found_out() {
    type Fault = fn(Ecn) -> Ecn;
    let cases: [(EcnMode, Fault, bool); 6] = [
        (EcnMode::L4s, |_| Ecn::NotEct, true),
        (EcnMode::Accurate, |_| Ecn::NotEct, true),
        (EcnMode::L4s, |ecn| if ecn == Ecn::Ect1 { Ecn::Ect0 } else { ecn }, true),
        (EcnMode::Accurate, |ecn| if ecn == Ecn::Ect0 { Ecn::Ect1 } else { ecn }, true),
        (EcnMode::L4s, |ecn| if ecn == Ecn::NotEct { ecn } else { Ecn::Ce }, true),
        (EcnMode::L4s, |ecn| ecn, false),
    ];
    for (mode, fault, found) in cases {
        let (mut sender, mut receiver, log) = ends(mode, true, true);
        let mut last = Ecn::Ce;
        let data = |mut packet: Packet| {
            last = packet.ecn();
            packet.set_ecn(fault(last));
            if packet.seq % 2 == 1 && packet.ecn() == Ecn::Ect1 {
                packet.mark_ce();
            }
            Some(packet)
        };
        let mut path = Path::new(data, Some);
        sender.write(400 * MSS);
        path.run(&mut sender, &mut receiver, 0, u64::MAX - 1);
        drop(path);
        assert_eq!(last == Ecn::NotEct, found, "{mode:?}");
        assert_eq!(sender.stats().ecn_failed, u64::from(found));
        let log = log.lock().unwrap();
        assert_eq!(log.acks.last().unwrap().ecn_failed, found);
        let first = log.acks.iter().position(|ack| ack.ecn_failed);
        let after = first.map_or(&[][..], |first| &log.acks[first..]);
        assert!(after.iter().all(|ack| ack.ecn_failed));
    }
}

/// The controller learns of each restart from idle and how long it lasted, whether or not the
/// transport asks for a smaller window.
#[test]
fn restarts_from_idle_are_told() {
    for idle_restart in [true, false] {
        let (mut sender, mut receiver, log) = ends(EcnMode::Off, false, idle_restart);
        let mut path = Path::new(Some, Some);
        let mut now = 0;
        for pause in [0, 30, 1000, 50] {
            let start = now + pause * MS;
            sender.write(4 * MSS);
            // RTO = 20 + max(200, 4 * 10) = 220 ms, more than the round trip.
            now = path.run(&mut sender, &mut receiver, start, u64::MAX - 1);
        }
        let log = log.lock().unwrap();
        // Data and ACK take 20 ms; the last write, of four segments, is acknowledged at once (PUSH).
        let idle: Vec<u64> = log.restarts.iter().map(|restart| restart.idle / MS).collect();
        assert_eq!(idle, [0, 50, 1020, 70]);
        assert!(log.restarts.iter().all(|restart| restart.app_limited));
        let windows: Vec<_> = log.restarts.iter().map(|restart| restart.restart_window).collect();
        let asked = idle_restart.then_some(10 * MSS);
        assert_eq!(windows, [None, None, asked, None]);
    }
}
