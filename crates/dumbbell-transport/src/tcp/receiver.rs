//! The receiving end: reassembly, SACK generation (RFC 2018, 2883), delayed ACKs and ECN echo.

use dumbbell_cc::{EcnMode, Nanos};

use super::ecn::Echo;
use super::header_bytes;
use super::xcp::Feedback;
use crate::{IntervalSet, Kind, Packet, flags};

/// Segments acknowledged one by one at the start of a connection (Linux quick ACKs).
const QUICK_ACKS: u32 = 16;
/// Duplicate ACKs sent at once before SACKs are compressed (Linux).
const UNCOMPRESSED_DUP_ACKS: u32 = 3;
/// Most ACKs merged into one by SACK compression (Linux `tcp_comp_sack_nr`).
const COMPRESSED_MAX: u32 = 44;
/// Longest delay by SACK compression (Linux `tcp_comp_sack_delay_ns`); never above 5 % of the RTT.
const COMPRESSED_DELAY: Nanos = 1_000_000;

/// SACK blocks remembered; an ACK has room for three beside the timestamps (RFC 2018 section 3), for
/// two with the counters of Accurate ECN or XCP's feedback as well.
const REMEMBERED_BLOCKS: usize = 4;

/// Receive window policy. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Window {
    Unlimited,
    Fixed(u64),
    /// Grows to twice what arrives in a round trip plus 16 segments, never above the maximum.
    Auto {
        initial: u64,
        max: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct ReceiverConfig {
    pub flow: u32,
    pub generation: u16,
    pub dscp: u8,
    pub mss: u16,
    /// An ACK at least every so many segments, and at the latest after `delack`.
    pub ack_every: u32,
    pub delack: Nanos,
    pub window: Window,
    pub timestamps: bool,
    pub ecn: EcnMode,
    /// Return the feedback of congestion headers (XCP).
    pub feedback: bool,
}

impl ReceiverConfig {
    /// Window scale (RFC 7323) that fits the largest window into 16 bits.
    pub fn window_scale(&self) -> u32 {
        let max = match self.window {
            Window::Unlimited => 0,
            Window::Fixed(bytes) => bytes,
            Window::Auto { max, .. } => max,
        };
        (max >> 16).checked_ilog2().map_or(0, |log| log + 1)
    }
}

/// One receiver of data.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    next: u64,
    bytes: u64,
    out_of_order: IntervalSet,
    /// A member of each range reported lately, newest first.
    recent: [u64; REMEMBERED_BLOCKS],
    /// In-order segments not acknowledged yet.
    pending: u32,
    ack_due: Nanos,
    quick_acks: u32,
    dup_acks: u32,
    compressed: u32,
    compressed_at: u64,
    last_ack: u64,
    echo: Nanos,
    duplicate: Option<u64>,
    /// Neither marks nor feedback go back.
    plain: bool,
    marks: Echo,
    feedback: Option<Feedback>,
    /// An ACK that leaves behind the one returned, at the same instant.
    held: Option<Packet>,
    scale: u32,
    window: u64,
    rtt: Nanos,
    space_start: Nanos,
    space_bytes: u64,
    space_last: u64,
}

impl Receiver {
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            config,
            next: 0,
            bytes: 0,
            out_of_order: IntervalSet::default(),
            recent: [0; REMEMBERED_BLOCKS],
            pending: 0,
            ack_due: Nanos::MAX,
            quick_acks: QUICK_ACKS,
            dup_acks: 0,
            compressed: 0,
            compressed_at: 0,
            last_ack: 0,
            echo: 0,
            duplicate: None,
            plain: config.ecn == EcnMode::Off && !config.feedback,
            marks: Echo::new(config.ecn),
            feedback: config.feedback.then(Feedback::default),
            held: None,
            scale: config.window_scale(),
            window: match config.window {
                Window::Unlimited => u64::MAX,
                Window::Fixed(bytes) => bytes,
                Window::Auto { initial, max } => initial.min(max),
            },
            rtt: 0,
            space_start: 0,
            space_bytes: 0,
            space_last: 0,
        }
    }

    /// Payload bytes received in order.
    pub fn bytes_in_order(&self) -> u64 {
        self.bytes
    }

    /// When an ACK is due without further data; `Nanos::MAX` if never.
    pub fn next_timeout(&self) -> Nanos {
        self.ack_due
    }

    /// Data arrived. Returns an ACK if one has to leave now.
    #[inline]
    pub fn on_data(&mut self, now: Nanos, packet: &Packet) -> Option<Packet> {
        if self.plain { self.accept(now, packet) } else { self.on_echoed_data(now, packet) }
    }

    /// Data of which the ACKs tell more than that it arrived.
    #[inline(never)]
    fn on_echoed_data(&mut self, now: Nanos, packet: &Packet) -> Option<Packet> {
        if let Some(feedback) = &mut self.feedback {
            feedback.on_data(packet);
            return self.accept(now, packet);
        }
        self.on_ecn_data(now, packet)
    }

    /// Data on a connection with ECN. Where ACKs tell a state, one that tells the old state leaves for
    /// what waits (RFC 8257 section 3.2), and the ACK of this segment follows.
    fn on_ecn_data(&mut self, now: Nanos, packet: &Packet) -> Option<Packet> {
        // While an ACK is held nothing else waits.
        let mut first = self.held.take();
        if self.pending > 0 && self.marks.changes(packet) {
            first = Some(self.ack());
            self.quick_acks = self.quick_acks.max(1);
        }
        self.quick_acks = self.quick_acks.max(self.marks.on_data(packet));
        let ack = self.accept(now, packet);
        if first.is_none() {
            return ack;
        }
        self.held = ack;
        if self.held.is_some() {
            self.ack_due = now;
        }
        first
    }

    #[inline]
    fn accept(&mut self, now: Nanos, packet: &Packet) -> Option<Packet> {
        let number = packet.seq;
        if number <= self.last_ack && packet.timestamp >= self.echo {
            self.echo = packet.timestamp;
        }
        self.rtt = packet.rtt();
        if number == self.next && self.out_of_order.is_empty() {
            self.next += 1;
            self.bytes = packet.aux[0] + u64::from(packet.payload);
            self.pending += 1;
            self.tune_window(now);
            let push = packet.flags & flags::PUSH != 0;
            if self.quick_acks > 0 || self.pending >= self.config.ack_every || push {
                return Some(self.ack());
            }
            if self.ack_due == Nanos::MAX {
                self.ack_due = now + self.config.delack;
            }
            return None;
        }
        self.on_disorder(now, packet)
    }

    fn on_disorder(&mut self, now: Nanos, packet: &Packet) -> Option<Packet> {
        let number = packet.seq;
        if number < self.next || self.out_of_order.contains(number) {
            self.duplicate = Some(number);
            // Linux acknowledges one by one for a while after a needless retransmission.
            self.quick_acks = QUICK_ACKS;
            return Some(self.ack());
        }
        let end_byte = packet.aux[0] + u64::from(packet.payload);
        if number == self.next {
            self.next += 1;
            self.bytes = end_byte;
            if let Some((end, bytes)) = self.out_of_order.pop_reached(self.next) {
                self.next = end;
                self.bytes = bytes;
            }
            self.pending += 1;
            self.tune_window(now);
            if self.out_of_order.is_empty() {
                // RFC 5681 section 4.2: at once when a gap closes.
                return Some(self.ack());
            }
            return self.compress(now);
        }
        // A block that nobody has been told of must not fall out of the list: tell now (Linux).
        let told = (self.compressed > 0 && self.needs_room(number)).then(|| self.ack());
        self.out_of_order.insert(number, number + 1, end_byte, |_, _| {});
        self.remember(number);
        if told.is_some() {
            self.compressed = 1;
            self.ack_due = now + COMPRESSED_DELAY.min(self.rtt / 20);
            return told;
        }
        self.compress(now)
    }

    /// SACK compression as Linux does it: a few duplicate ACKs leave at once, later ones are merged.
    fn compress(&mut self, now: Nanos) -> Option<Packet> {
        if self.quick_acks > 0 {
            return Some(self.ack());
        }
        if self.compressed_at != self.next {
            self.compressed_at = self.next;
            self.dup_acks = 0;
        }
        if self.dup_acks < UNCOMPRESSED_DUP_ACKS || self.config.ack_every <= 1 {
            self.dup_acks += 1;
            return Some(self.ack());
        }
        self.compressed += 1;
        if self.compressed >= COMPRESSED_MAX {
            return Some(self.ack());
        }
        let due = now + COMPRESSED_DELAY.min(self.rtt / 20);
        self.ack_due = self.ack_due.min(due);
        None
    }

    /// Whether `number` starts a new block while the list of blocks is full.
    fn needs_room(&self, number: u64) -> bool {
        let full = self.recent.iter().all(|&other| other > self.next);
        let extends = self.out_of_order.contains(number.saturating_sub(1))
            || self.out_of_order.contains(number + 1);
        full && !extends
    }

    fn remember(&mut self, number: u64) {
        let range = self.out_of_order.range_of(number);
        let mut kept = [number, 0, 0, 0];
        let mut used = 1;
        for &other in &self.recent {
            if used < REMEMBERED_BLOCKS
                && other > self.next
                && self.out_of_order.range_of(other) != range
            {
                kept[used] = other;
                used += 1;
            }
        }
        self.recent = kept;
    }

    /// The delayed-ACK or compression timer. Returns the ACK that is due.
    pub fn on_timeout(&mut self, now: Nanos) -> Option<Packet> {
        if self.ack_due > now {
            return None;
        }
        if let Some(held) = self.held.take() {
            self.ack_due = Nanos::MAX;
            return Some(held);
        }
        Some(self.ack())
    }

    /// Linux dynamic right-sizing in outline: once a round trip compare what arrived.
    fn tune_window(&mut self, now: Nanos) {
        let Window::Auto { max, .. } = self.config.window else {
            return;
        };
        if self.space_start == 0 {
            (self.space_start, self.space_bytes) = (now, self.bytes);
            return;
        }
        if self.rtt == 0 || now - self.space_start < self.rtt {
            return;
        }
        let copied = self.bytes - self.space_bytes;
        if copied > self.space_last {
            let base = 2 * copied + 16 * u64::from(self.config.mss);
            let grow =
                (base * (copied - self.space_last)).checked_div(self.space_last).unwrap_or(0);
            self.window = self.window.max((base + grow).min(max));
            self.space_last = copied;
        }
        (self.space_start, self.space_bytes) = (now, self.bytes);
    }

    #[inline]
    fn ack(&mut self) -> Packet {
        self.pending = 0;
        self.ack_due = Nanos::MAX;
        self.compressed = 0;
        self.quick_acks = self.quick_acks.saturating_sub(1);
        self.last_ack = self.next;
        let mut packet = Packet {
            flow: self.config.flow,
            generation: self.config.generation,
            kind: Kind::Ack,
            ip_bytes: self.header_bytes(),
            payload: if self.window == u64::MAX {
                u16::MAX
            } else {
                (self.window >> self.scale).min(u64::from(u16::MAX)) as u16
            },
            dscp: self.config.dscp,
            seq: self.next,
            timestamp: self.echo,
            ..Packet::default()
        };
        if self.duplicate.is_some() || !self.out_of_order.is_empty() {
            self.add_sack(&mut packet);
        }
        if !self.plain {
            match &mut self.feedback {
                Some(feedback) => feedback.stamp(&mut packet),
                None => self.marks.stamp(&mut packet, self.config.timestamps),
            }
        }
        packet
    }

    fn header_bytes(&self) -> u16 {
        header_bytes(self.config.timestamps)
    }

    fn add_sack(&mut self, packet: &mut Packet) {
        let mut used = 0;
        if let Some(number) = self.duplicate.take() {
            // Below the cumulative ACK the offset cannot be told; the sender only needs to know that
            // a duplicate arrived and which, so the distance is kept in place of the start.
            packet.flags |= flags::DSACK;
            packet.aux[0] = number.abs_diff(self.next) << 32 | 1;
            used = 1;
        }
        let room = if self.feedback.is_some() { 2 } else { self.marks.sack_room() };
        let mut taken = [(0, 0); 3];
        for number in self.recent {
            if used == room || number <= self.next {
                continue;
            }
            let Some(range) = self.out_of_order.range_of(number) else {
                continue;
            };
            if taken.contains(&range) {
                continue;
            }
            taken[used] = range;
            packet.aux[used] = (range.0 - self.next) << 32 | (range.1 - range.0);
            used += 1;
        }
        packet.ip_bytes += (4 + 8 * used as u16).min(40);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbbell_queue::Ecn;

    fn receiver(ack_every: u32) -> Receiver {
        let mut receiver = Receiver::new(ReceiverConfig {
            flow: 0,
            generation: 0,
            dscp: 0,
            mss: 1000,
            ack_every,
            delack: 40_000_000,
            window: Window::Unlimited,
            timestamps: true,
            ecn: EcnMode::Classic,
            feedback: false,
        });
        receiver.quick_acks = 0;
        receiver
    }

    fn data(number: u64) -> Packet {
        Packet {
            seq: number,
            payload: 1000,
            timestamp: number + 1,
            aux: [number * 1000, 0, 0],
            ..Packet::default()
        }
    }

    #[test]
    fn acknowledges_every_second_segment_or_after_the_delay() {
        let mut receiver = receiver(2);
        assert!(receiver.on_data(0, &data(0)).is_none());
        assert_eq!(receiver.next_timeout(), 40_000_000);
        assert_eq!(receiver.on_data(5, &data(1)).unwrap().seq, 2);
        assert_eq!(receiver.next_timeout(), Nanos::MAX);
        assert!(receiver.on_data(10, &data(2)).is_none());
        assert_eq!(receiver.on_timeout(40_000_010).unwrap().seq, 3);
    }

    /// RFC 2018 section 4: the first block holds the segment that triggered the ACK.
    #[test]
    fn reports_the_newest_block_first() {
        let mut receiver = receiver(1);
        receiver.on_data(0, &data(0));
        receiver.on_data(1, &data(2));
        receiver.on_data(2, &data(4));
        let ack = receiver.on_data(3, &data(6)).unwrap();
        assert_eq!(ack.sack_blocks().collect::<Vec<_>>(), [(6, 7), (4, 5), (2, 3)]);
        let ack = receiver.on_data(4, &data(3)).unwrap();
        assert_eq!(ack.sack_blocks().collect::<Vec<_>>(), [(2, 5), (6, 7)]);
        assert_eq!(ack.ip_bytes, 52 + 4 + 16);
        let ack = receiver.on_data(5, &data(1)).unwrap();
        assert_eq!((ack.seq, receiver.bytes_in_order()), (5, 5000));
        let ack = receiver.on_data(6, &data(5)).unwrap();
        assert_eq!((ack.seq, ack.sack_blocks().count()), (7, 0));
        assert_eq!(receiver.bytes_in_order(), 7000);
    }

    /// RFC 7323 section 4.3: a hole filled by a retransmission echoes its timestamp, and segments
    /// beyond a hole do not change the echo.
    #[test]
    fn echoes_the_timestamp_that_advanced_the_window() {
        let mut receiver = receiver(1);
        receiver.on_data(0, &data(0));
        let ack = receiver.on_data(1, &data(2)).unwrap();
        assert_eq!(ack.timestamp, 1);
        let mut retransmission = data(1);
        retransmission.timestamp = 77;
        assert_eq!(receiver.on_data(2, &retransmission).unwrap().timestamp, 77);
    }

    #[test]
    fn reports_duplicates_by_dsack() {
        let mut receiver = receiver(1);
        receiver.on_data(0, &data(0));
        let ack = receiver.on_data(1, &data(0)).unwrap();
        assert!(ack.flags & flags::DSACK != 0);
        assert_eq!(ack.sack_blocks().count(), 0);
    }

    /// RFC 3168 section 6.1.3: ECE from the first CE until a CWR arrives.
    #[test]
    fn echoes_congestion_until_cwr() {
        let mut receiver = receiver(1);
        let mut marked = data(0);
        marked.set_ecn(Ecn::Ce);
        assert!(receiver.on_data(0, &marked).unwrap().flags & flags::ECE != 0);
        assert!(receiver.on_data(1, &data(1)).unwrap().flags & flags::ECE != 0);
        let mut reduced = data(2);
        reduced.flags |= flags::CWR;
        assert!(receiver.on_data(2, &reduced).unwrap().flags & flags::ECE == 0);
    }

    /// Segments of the given codepoints, and the ACKs that follow each at once: cumulative ACK, ECE and
    /// ESCE.
    fn echoes(mode: EcnMode, ack_every: u32, codepoints: &[Ecn]) -> Vec<Vec<(u64, bool, bool)>> {
        let config = ReceiverConfig { ecn: mode, ..receiver(ack_every).config };
        let mut receiver = Receiver::new(config);
        receiver.quick_acks = 0;
        let echo = |ack: Packet| (ack.seq, ack.flags & flags::ECE != 0, ack.flags & flags::AE != 0);
        let mut all = Vec::new();
        for (number, &codepoint) in codepoints.iter().enumerate() {
            let now = number as u64;
            let mut segment = data(now);
            segment.set_ecn(codepoint);
            let mut acks: Vec<_> = receiver.on_data(now, &segment).map(echo).into_iter().collect();
            while receiver.next_timeout() <= now {
                acks.extend(receiver.on_timeout(now).map(echo));
            }
            all.push(acks);
        }
        all
    }

    /// RFC 8257 section 3.2, figure 1: an ACK for what waits, with the state that it had, when the
    /// state changes, and (as in Linux) one at once with the new state; delayed ACKs within a state.
    #[test]
    fn tells_each_change_of_ce_state() {
        let (clear, ce) = (Ecn::Ect0, Ecn::Ce);
        let acks =
            echoes(EcnMode::CeState, 2, &[clear, clear, clear, ce, ce, ce, clear, clear, ce, ce]);
        let told = |seq, ece| (seq, ece, false);
        assert_eq!(
            acks[..4],
            [vec![], vec![told(2, false)], vec![], vec![told(3, false), told(4, true)]]
        );
        assert_eq!(acks[4..6], [vec![], vec![told(6, true)]]);
        assert_eq!(acks[6..8], [vec![told(7, false)], vec![]]);
        assert_eq!(acks[8..], [vec![told(8, false), told(9, true)], vec![]]);
    }

    /// draft-grimes-tcpm-tcpsce: ESCE as the CE state of RFC 8257, while CE is echoed until CWR and
    /// leaves ESCE alone; without an ACK waiting a change causes none.
    #[test]
    fn tells_each_change_of_sce() {
        let (clear, sce, ce) = (Ecn::Ect0, Ecn::Ect1, Ecn::Ce);
        let acks = echoes(EcnMode::Sce, 2, &[clear, sce, sce, sce, clear, clear, ce, sce]);
        let told = |seq, ece, esce| (seq, ece, esce);
        assert_eq!(acks[..2], [vec![], vec![told(1, false, false), told(2, false, true)]]);
        assert_eq!(acks[2..4], [vec![], vec![told(4, false, true)]]);
        assert_eq!(acks[4..6], [vec![], vec![told(6, false, false)]]);
        // Two quick ACKs after the first CE.
        assert_eq!(acks[6..], [vec![told(7, true, false)], vec![told(8, true, true)]]);
    }

    /// RFC 9768 section 3.2.2.5.1: at once when CE follows another codepoint and after every two marks.
    /// The ACE field counts from 5.
    #[test]
    fn counts_marks() {
        let (clear, ce) = (Ecn::Ect1, Ecn::Ce);
        let config = ReceiverConfig { ecn: EcnMode::L4s, ..receiver(8).config };
        let mut receiver = Receiver::new(config);
        receiver.quick_acks = 0;
        let mut acks = Vec::new();
        for (number, codepoint) in [clear, ce, ce, ce, ce, clear, ce].into_iter().enumerate() {
            let mut segment = data(number as u64);
            segment.set_ecn(codepoint);
            acks.extend(receiver.on_data(number as u64, &segment));
        }
        let told: Vec<_> =
            acks.iter().map(|ack| (ack.seq, ack.aux[2] & 0xff_ffff_ffff_ffff)).collect();
        let counters = |packets: u64| (packets << 32) | (packets * 1000);
        assert_eq!(told, [(2, counters(1)), (4, counters(3)), (7, counters(5))]);
        let ace = |ack: &Packet| {
            let bit = |flag, value| if ack.flags & flag == 0 { 0 } else { value };
            bit(flags::ECE, 1) + bit(flags::CWR, 2) + bit(flags::AE, 4)
        };
        assert_eq!(acks.iter().map(ace).collect::<Vec<_>>(), [6, 0, 2]);
        // 40 bytes of headers, timestamps 10, counters 11, rounded up to 4.
        assert_eq!(acks[0].ip_bytes, 64);
        let mut blocks = Vec::new();
        for number in [9, 11, 13] {
            blocks = receiver.on_data(20, &data(number)).unwrap().sack_blocks().collect();
        }
        assert_eq!(blocks, [(13, 14), (11, 12)]);
    }
}
