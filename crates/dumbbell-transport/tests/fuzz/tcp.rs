//! TCP's end points, driven as those of the other transports are.

use std::collections::VecDeque;

use dumbbell_cc::{Controller, EcnMode};

use dumbbell_transport::Packet;
use dumbbell_transport::flow::{Arrival, FlowReceiver, FlowSender, Pair, Snapshot};
use dumbbell_transport::tcp::{
    Receiver, ReceiverConfig, Sender, SenderConfig, SenderStats, Window,
};

/// Bytes of the configuration of both ends.
pub(crate) type Code = [u8; 8];

pub(crate) fn pair(cc: Box<dyn Controller>, [bits, mode, a, b, c, d, e, f]: Code) -> Pair {
    let flag = |bit: u8| bits & (1 << bit) != 0;
    let mss = 100 + (u16::from(a) << (b % 8));
    let most = u64::from(c) << (d % 17);
    let ecn = EcnMode::ALL[usize::from(mode) % EcnMode::ALL.len()];
    let receiver = ReceiverConfig {
        flow: 0,
        generation: 0,
        dscp: 0,
        mss,
        ack_every: 1 + u32::from(b >> 4),
        delack: u64::from(e) << (e % 24),
        window: match d >> 5 {
            0 | 1 => Window::Fixed(most),
            2 | 3 => Window::Auto { initial: most / 4, max: most },
            _ => Window::Unlimited,
        },
        timestamps: flag(0),
        ecn,
        feedback: cc.requested_rate().is_some(),
    };
    let limited = !matches!(receiver.window, Window::Unlimited);
    let sender = SenderConfig {
        flow: 0,
        generation: 0,
        dscp: 0,
        mss,
        initial_window: 1 + u32::from(f),
        ecn,
        timestamps: flag(0),
        prr: flag(1),
        tlp: flag(2),
        idle_restart: flag(3),
        pacing: flag(4),
        max_rate: if flag(5) { 10_f64.powi((f % 13).into()) } else { f64::INFINITY },
        min_rto: 1 + (u64::from(mode) << (mode % 24)),
        window_scale: limited.then(|| receiver.window_scale()),
        initial_rwnd: most,
    };
    let handshake = flag(6).then(|| u64::from(e) << (f % 28));
    Pair {
        sender: Box::new(Sending { inner: Sender::new(sender, cc), handshake }),
        receiver: Box::new(Receiving { inner: Receiver::new(receiver), outgoing: VecDeque::new() }),
    }
}

/// Numbers and times of ACKs are believed, so those are forged only up to what a flow could reach.
fn possible(now: u64, ack: &Packet) -> Packet {
    Packet { seq: ack.seq % (1 << 48), timestamp: ack.timestamp.min(now), ..*ack }
}

struct Sending {
    inner: Sender,
    /// Round-trip time that the handshake gave.
    handshake: Option<u64>,
}

impl FlowSender for Sending {
    fn on_start(&mut self, now: u64) {
        self.inner.on_established(now, self.handshake);
    }

    fn write(&mut self, _now: u64, bytes: u64) {
        self.inner.write(bytes);
    }

    fn truncate(&mut self) {
        self.inner.truncate();
    }

    fn poll_transmit(&mut self, now: u64) -> Option<Packet> {
        self.inner.poll_transmit(now)
    }

    fn on_feedback(&mut self, now: u64, packet: &Packet, _report: &[Arrival]) {
        self.inner.on_ack(now, &possible(now, packet));
        assert!(self.inner.is_consistent(), "the scoreboard's counts are off");
    }

    fn next_timeout(&self) -> u64 {
        self.inner.next_timeout()
    }

    fn on_timeout(&mut self, now: u64) {
        self.inner.on_timeout(now);
        assert!(self.inner.is_consistent(), "the scoreboard's counts are off");
    }

    /// Nothing to do before the receiver opens its window counts as idle.
    fn is_idle(&self) -> bool {
        let inner = &self.inner;
        inner.packets_out() == 0 && (inner.unsent() == 0 || inner.is_rwnd_limited())
    }

    fn rtt_sample(&self) -> Option<u64> {
        self.inner.rtt_sample()
    }

    fn snapshot(&self) -> Snapshot {
        let cc = self.inner.controller();
        Snapshot {
            window: self.inner.window() as f64,
            ssthresh: cc.ssthresh() as f64,
            in_flight: self.inner.in_flight() as f64,
            rate: f64::NAN,
            srtt: self.inner.srtt(),
            phase: cc.phase(),
        }
    }

    fn stats(&self) -> SenderStats {
        *self.inner.stats()
    }
}

struct Receiving {
    inner: Receiver,
    outgoing: VecDeque<Packet>,
}

impl FlowReceiver for Receiving {
    fn on_packet(&mut self, now: u64, packet: &Packet) {
        self.outgoing.extend(self.inner.on_data(now, packet));
    }

    fn poll_transmit(&mut self, _now: u64) -> Option<Packet> {
        self.outgoing.pop_front()
    }

    fn next_timeout(&self) -> u64 {
        self.inner.next_timeout()
    }

    fn on_timeout(&mut self, now: u64) {
        self.outgoing.extend(self.inner.on_timeout(now));
    }

    fn delivered_bytes(&self) -> u64 {
        self.inner.bytes_in_order()
    }
}
