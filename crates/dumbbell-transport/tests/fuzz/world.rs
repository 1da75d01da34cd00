//! A driver that does anything to the two ends of a flow, and what must hold meanwhile.

use std::collections::VecDeque;

use dumbbell_queue::Ecn;
use dumbbell_transport::flow::{Arrival, Pair};
use dumbbell_transport::{Kind, Packet};

/// Packets kept on their way; what is sent beyond them is lost.
const LONGEST_WAY: usize = 256;
/// A case is over when so many packets have carried something new.
const MANY: u64 = 1 << 13;
/// Packets with nothing new at one instant after which an end is taken to send without end.
const STUCK: u32 = 1 << 16;
/// Timeouts at one instant after which a deadline is taken to stand still.
const TIMEOUTS: u32 = 100;
/// Two years.
const END_OF_TIME: u64 = 1 << 56;
/// A reliable transport with less than this to send is driven until all has arrived.
const LITTLE: u64 = 100_000;
/// What some do not have, or not yet: then it is NaN.
const ABSENT: &[&str] = &["window", "rate", "received_rate", "r_recv", "frame_delay_ms"];
/// One way, and events until then.
const DELAY: u64 = 10_000_000;
const EVENTS: u32 = 1 << 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the sender to the receiver.
    There,
    Back,
}

/// How a field of a forged packet differs from that of a real one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) how: u8,
    pub(crate) by: u64,
}

impl Change {
    pub(crate) fn of(self, field: u64) -> u64 {
        match self.how % 8 {
            0 => field.wrapping_add(self.by),
            1 => field.wrapping_sub(self.by),
            2 => self.by,
            3 => u64::MAX - self.by,
            4 => self.by << (self.how >> 2),
            5 => field.rotate_left((self.how >> 3).into()) ^ self.by,
            // A float of any size and sign.
            6 => self.by << 48,
            _ => field ^ 1 << (self.by % 64),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Wait(u64),
    /// Wait until an end wants to be called.
    NextTimeout,
    Write(u64),
    Truncate,
    /// A packet arrives, early or late, once or twice, marked, or never.
    Cross {
        way: Way,
        which: u8,
        fate: u8,
    },
    /// All packets arrive, those there, and after a while those back.
    Exchange {
        after: u64,
    },
    /// A packet that no end has sent arrives.
    Forge {
        way: Way,
        which: u8,
        fields: u8,
        change: Change,
    },
    /// Others set the rate of a flow that is coupled with theirs.
    SetRate(f64),
}

pub(crate) struct World {
    pair: Pair,
    /// All bytes that are sent arrive, once and in order.
    reliable: bool,
    /// Fields that are forged of packets to the receiver.
    forgeable: u8,
    now: u64,
    there: VecDeque<Packet>,
    back: VecDeque<Packet>,
    /// Packets that carried something new.
    fresh: u64,
    /// Bytes written and not taken back.
    written: u64,
    /// Payload: the end of a reliable transport's stream, the sum of others' packets.
    sent: u64,
    delivered: u64,
    /// Of all packets that the receiver was given.
    arrived: u64,
    forged_there: bool,
    forged_back: bool,
    /// Names of what was recorded last.
    recorded: Vec<&'static str>,
}

impl World {
    pub(crate) fn new(pair: Pair, reliable: bool) -> Self {
        Self {
            pair,
            reliable,
            forgeable: u8::MAX,
            now: 0,
            there: VecDeque::new(),
            back: VecDeque::new(),
            fresh: 0,
            written: 0,
            sent: 0,
            delivered: 0,
            arrived: 0,
            forged_there: false,
            forged_back: false,
            recorded: Vec::new(),
        }
    }

    /// The receiver believes numbers, byte offsets and lengths of data.
    pub(crate) fn believing(self) -> Self {
        Self { forgeable: !0b10_1010, ..self }
    }

    pub(crate) fn run(mut self, steps: impl Iterator<Item = Step>) {
        self.pair.sender.on_start(self.now);
        self.settle();
        for step in steps {
            self.take(step);
            self.settle();
            if self.fresh > MANY {
                return;
            }
        }
        if self.reliable && self.is_honest() && self.written.saturating_sub(self.delivered) < LITTLE
        {
            self.finish();
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Wait(by) => self.wait(by),
            Step::NextTimeout => match self.next_timeout() {
                u64::MAX => {}
                next => self.wait(next.saturating_sub(self.now)),
            },
            Step::Write(bytes) => {
                self.written = self.written.saturating_add(bytes);
                self.pair.sender.write(self.now, bytes);
            }
            Step::Truncate => {
                self.written = self.sent;
                self.pair.sender.truncate();
            }
            Step::Cross { way, which, fate } => self.cross(way, which, fate),
            Step::Exchange { after } => self.exchange(after),
            Step::Forge { way, which, fields, change } => self.forge(way, which, fields, change),
            Step::SetRate(rate) => {
                if let Some(coupled) = self.pair.sender.coupled() {
                    coupled.set_rate(self.now, rate);
                }
            }
        }
    }

    /// All that has arrived was sent.
    fn is_honest(&self) -> bool {
        !self.forged_there && !self.forged_back
    }

    fn wait(&mut self, by: u64) {
        self.now = self.now.saturating_add(by).min(END_OF_TIME);
    }

    fn next_timeout(&self) -> u64 {
        self.pair.sender.next_timeout().min(self.pair.receiver.next_timeout())
    }

    fn arrive(&mut self, way: Way, packet: &Packet) {
        match way {
            Way::There => {
                self.arrived = self.arrived.saturating_add(packet.payload.into());
                self.pair.receiver.on_packet(self.now, packet);
            }
            Way::Back => {
                let report = self.pair.receiver.report(packet);
                self.pair.sender.on_feedback(self.now, packet, report);
            }
        }
    }

    fn cross(&mut self, way: Way, which: u8, fate: u8) {
        let queue = match way {
            Way::There => &mut self.there,
            Way::Back => &mut self.back,
        };
        // Mostly the first.
        let index = usize::from(which.saturating_sub(128)) % queue.len().max(1);
        let Some(mut packet) = queue.get(index).copied() else { return };
        if fate % 8 != 1 {
            queue.remove(index);
        }
        match fate % 8 {
            0 => return,
            2 | 3 => packet.set_ecn(Ecn::Ce),
            4 => packet.set_ecn(Ecn::Ect1),
            _ => {}
        }
        self.arrive(way, &packet);
    }

    fn exchange(&mut self, after: u64) {
        for packet in std::mem::take(&mut self.there) {
            self.arrive(Way::There, &packet);
        }
        self.settle();
        self.wait(after);
        self.settle();
        for packet in std::mem::take(&mut self.back) {
            self.arrive(Way::Back, &packet);
        }
    }

    fn forge(&mut self, way: Way, which: u8, fields: u8, change: Change) {
        let queue = match way {
            Way::There => &self.there,
            Way::Back => &self.back,
        };
        let real = queue.get(usize::from(which) % queue.len().max(1));
        let mut packet = real.copied().unwrap_or_default();
        let report: Vec<_> = self.pair.receiver.report(&packet).to_vec();
        let fields = if way == Way::There { fields & self.forgeable } else { fields };
        let chosen = |field: u8| fields & 1 << field != 0;
        if chosen(0) {
            packet.kind = KINDS[usize::from(which) % KINDS.len()];
            packet.flags = change.of(packet.flags.into()) as u8;
        }
        if chosen(1) {
            packet.payload = change.of(packet.payload.into()) as u16;
        }
        if chosen(2) {
            packet.ip_bytes = change.of(packet.ip_bytes.into()) as u16;
        }
        for (field, value) in [(3, &mut packet.seq), (4, &mut packet.timestamp)] {
            if chosen(field) {
                *value = change.of(*value);
            }
        }
        for (field, value) in (5..).zip(&mut packet.aux) {
            if chosen(field) {
                *value = change.of(*value);
            }
        }
        match way {
            Way::There => {
                self.forged_there = true;
                self.arrive(way, &packet);
            }
            Way::Back => {
                self.forged_back = true;
                let report = forge_report(&report, &packet, fields, change);
                self.pair.sender.on_feedback(self.now, &packet, &report);
            }
        }
    }

    /// Do what a driver has to do after each call, and check the laws.
    fn settle(&mut self) {
        let (mut barren, mut timeouts) = (0, 0);
        while self.fresh <= MANY {
            assert!(barren < STUCK, "no end of packets at {}", self.now);
            assert!(timeouts < TIMEOUTS, "a timeout stands still at {}", self.now);
            barren += 1;
            let Pair { sender, receiver } = &mut self.pair;
            if let Some(packet) = sender.poll_transmit(self.now) {
                if self.on_sent(packet) {
                    barren = 0;
                }
            } else if let Some(packet) = receiver.poll_transmit(self.now) {
                if self.back.len() < LONGEST_WAY {
                    self.back.push_back(packet);
                }
            } else if sender.next_timeout() <= self.now {
                sender.on_timeout(self.now);
                timeouts += 1;
            } else if receiver.next_timeout() <= self.now {
                receiver.on_timeout(self.now);
                timeouts += 1;
            } else {
                break;
            }
        }
        if self.fresh > MANY {
            return;
        }
        self.check_bytes();
        self.check_numbers();
        let honest = self.is_honest();
        let sender = &mut self.pair.sender;
        if honest {
            let waits = !sender.is_idle() && sender.next_timeout() == u64::MAX;
            assert!(!waits, "data to send and no timer at {}", self.now);
        }
        if let Some(calculated) = sender.coupled().and_then(|coupled| coupled.take_calculated()) {
            let positive = calculated.rate > 0.0 && calculated.desired > 0.0;
            assert!(positive && calculated.rate.is_finite(), "{calculated:?}");
        }
    }

    /// Whether the packet carries something new.
    fn on_sent(&mut self, packet: Packet) -> bool {
        let before = self.sent;
        let payload = u64::from(packet.payload);
        self.sent = match self.reliable {
            true => before.max(packet.aux[0] + payload),
            false => before + payload,
        };
        if self.there.len() < LONGEST_WAY {
            self.there.push_back(packet);
        }
        self.fresh += u64::from(self.sent > before);
        self.sent > before
    }

    fn check_bytes(&mut self) {
        let sender = &self.pair.sender;
        // Media come from a source, not from writes.
        let captured: u64 = sender.captured().iter().map(|frame| u64::from(frame.bytes)).sum();
        assert!(self.sent <= self.written.max(captured), "{} > {}", self.sent, self.written);
        let delivered = self.pair.receiver.delivered_bytes();
        assert!(delivered >= self.delivered, "{delivered} < {}", self.delivered);
        self.delivered = delivered;
        if !self.forged_there {
            assert!(delivered <= self.sent, "{delivered} > {}", self.sent);
            assert!(delivered <= self.arrived, "{delivered} > {}", self.arrived);
        }
    }

    /// Names do not vary, and values are numbers.
    fn check_numbers(&mut self) {
        let mut recorded = Vec::new();
        let mut record = |name, value: f64| {
            assert!(
                value.is_finite() || value.is_nan() && ABSENT.contains(&name),
                "{name}: {value}"
            );
            recorded.push(name);
        };
        let snapshot = self.pair.sender.snapshot();
        record("window", snapshot.window);
        record("rate", snapshot.rate);
        record("in flight", snapshot.in_flight);
        self.pair.sender.record(&mut record);
        self.pair.receiver.record(&mut record);
        assert!(!(snapshot.rate <= 0.0 || snapshot.window < 0.0), "{snapshot:?}");
        assert!(self.recorded.is_empty() || self.recorded == recorded, "{recorded:?}");
        self.recorded = recorded;
    }

    /// On a path that loses nothing more, all that was written arrives.
    fn finish(&mut self) {
        for _ in 0..EVENTS {
            if self.now == END_OF_TIME || self.fresh > MANY {
                return;
            }
            if self.pair.sender.is_idle() {
                assert_eq!(self.delivered, self.sent);
                return;
            }
            self.exchange(DELAY);
            self.settle();
            if self.there.is_empty() && self.back.is_empty() && !self.pair.sender.is_idle() {
                let next = self.next_timeout();
                assert!(next < u64::MAX, "nothing happens any more");
                self.wait(next.saturating_sub(self.now));
                self.settle();
            }
        }
        panic!("{} of {} bytes have arrived by {}", self.delivered, self.written, self.now);
    }
}

const KINDS: [Kind; 6] =
    [Kind::Data, Kind::Ack, Kind::Payload, Kind::Report, Kind::LowPayload, Kind::StrongAck];

/// A report that no receiver has made: of packets that a real one may hold, some changed, or of the
/// packets that the forged announcement names.
fn forge_report(real: &[Arrival], packet: &Packet, fields: u8, change: Change) -> Vec<Arrival> {
    let mut report = real.to_vec();
    if report.is_empty() {
        let first = packet.aux[0];
        let of = |n: u64| Arrival {
            seq: first.wrapping_add(n),
            at: change.of(packet.timestamp).wrapping_add(n),
            ecn: Ecn::Ect0,
        };
        report.extend((0..change.by % 8).map(of));
    }
    for arrival in report.iter_mut().step_by(usize::from(fields % 4) + 1) {
        match fields % 3 {
            0 => arrival.seq = change.of(arrival.seq),
            1 => arrival.at = change.of(arrival.at),
            _ => arrival.ecn = Ecn::Ce,
        }
    }
    report
}
