//! A sender and a receiver joined by a bad path: whatever is lost, delayed, doubled or overtaken,
//! every byte arrives in order and the sender ends idle.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dumbbell_cc::{EcnMode, build};
use dumbbell_transport::tcp::{Receiver, ReceiverConfig, Sender, SenderConfig, Window};
use dumbbell_transport::{Kind, Packet};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

struct Path {
    state: u64,
    loss: u64,
    jitter: u64,
    duplicate: u64,
}

impl Path {
    /// SplitMix64.
    fn draw(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below.max(1)
    }
}

fn ends(cc: &str) -> (Sender, Receiver) {
    let sender = SenderConfig {
        flow: 0,
        generation: 0,
        dscp: 0,
        mss: 1000,
        initial_window: 10,
        ecn: EcnMode::Off,
        timestamps: true,
        prr: true,
        tlp: true,
        idle_restart: true,
        pacing: false,
        min_rto: 200 * MS,
        window_scale: None,
        initial_rwnd: 0,
        max_rate: f64::INFINITY,
    };
    let cc = build(cc, &serde_json::Map::new(), 1).unwrap();
    let receiver = ReceiverConfig {
        flow: 0,
        generation: 0,
        dscp: 0,
        mss: 1000,
        ack_every: 2,
        delack: 40 * MS,
        window: Window::Unlimited,
        timestamps: true,
        ecn: EcnMode::Off,
        feedback: cc.requested_rate().is_some(),
    };
    (Sender::new(sender, cc), Receiver::new(receiver))
}

/// Packets on their way: (arrival, sequence), and the packet.
#[derive(Default)]
struct Network {
    order: BinaryHeap<Reverse<(u64, usize)>>,
    packets: Vec<Packet>,
}

impl Network {
    fn send(&mut self, now: u64, packet: Packet, path: &mut Path) {
        let copies = 1 + u64::from(path.draw(1000) < path.duplicate);
        for _ in 0..copies {
            if path.draw(1000) >= path.loss {
                let at = now + 10 * MS + path.draw(path.jitter);
                self.order.push(Reverse((at, self.packets.len())));
                self.packets.push(packet);
            }
        }
    }

    fn next(&self) -> u64 {
        self.order.peek().map_or(u64::MAX, |entry| entry.0.0)
    }

    fn take(&mut self, now: u64) -> Option<Packet> {
        (self.next() <= now).then(|| self.order.pop())?.map(|entry| self.packets[entry.0.1])
    }
}

/// Drive a transfer of `bytes`; returns when it ended, or `None` if it did not within an hour.
fn transfer(cc: &str, bytes: u64, path: &mut Path) -> Option<u64> {
    let (mut sender, mut receiver) = ends(cc);
    let mut network = Network::default();
    let mut now = MS;
    sender.on_established(now, Some(20 * MS));
    sender.write(bytes);
    while now < 3_600_000 * MS {
        while let Some(packet) = sender.poll_transmit(now) {
            network.send(now, packet, path);
        }
        if sender.is_idle() {
            assert_eq!(receiver.bytes_in_order(), bytes);
            return Some(now);
        }
        let timeout = sender.next_timeout().min(receiver.next_timeout());
        let next = network.next().min(timeout);
        assert!(next != u64::MAX, "stalled: data outstanding and nothing to wait for");
        assert!(next >= now, "time runs backwards");
        assert!(sender.is_consistent(), "the scoreboard's counts are off");
        now = next;
        if let Some(packet) = network.take(now) {
            if packet.kind == Kind::Data {
                if let Some(ack) = receiver.on_data(now, &packet) {
                    network.send(now, ack, path);
                }
            } else {
                sender.on_ack(now, &packet);
            }
        } else {
            if let Some(ack) = receiver.on_timeout(now) {
                network.send(now, ack, path);
            }
            sender.on_timeout(now);
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_byte_arrives(
        cc in prop_oneof![Just("reno"), Just("cubic"), Just("bbr"), Just("fixed")],
        bytes in 1u64..600_000,
        state in any::<u64>(),
        loss in prop_oneof![Just(0u64), 1u64..250],
        jitter in prop_oneof![Just(0u64), 0u64..30 * MS],
        duplicate in prop_oneof![Just(0u64), 0u64..100],
    ) {
        let mut path = Path { state, loss, jitter, duplicate };
        prop_assert!(transfer(cc, bytes, &mut path).is_some(), "no end within an hour");
    }
}

/// RFC 6298 rule 5.5: on a dead path the timeout doubles each time.
#[test]
fn retransmissions_back_off_by_doubling() {
    let (mut sender, _) = ends("reno");
    sender.on_established(0, Some(100 * MS));
    sender.write(1000);
    let mut sent = Vec::new();
    let mut now = 0;
    while sent.len() < 8 {
        while sender.poll_transmit(now).is_some() {
            sent.push(now);
        }
        now = sender.next_timeout();
        sender.on_timeout(now);
    }
    // RTO = 100 + max(200, 4 * 50) = 300 ms, running from the first transmission.
    let gaps: Vec<u64> = sent.windows(2).map(|pair| (pair[1] - pair[0]) / MS).collect();
    assert_eq!(gaps, [300, 600, 1200, 2400, 4800, 9600, 19200]);
}
