//! The receiving end: reassembly, SACK generation (RFC 2018, 2883), delayed ACKs and ECN echo.

use dumbbell_cc::Nanos;

use super::{HEADER_BYTES, TIMESTAMP_OPTION_BYTES};
use crate::{IntervalSet, Kind, Packet, flags};

/// Segments acknowledged one by one at the start of a connection (Linux quick ACKs).
const QUICK_ACKS: u32 = 16;
/// Duplicate ACKs sent at once before SACKs are compressed (Linux).
const UNCOMPRESSED_DUP_ACKS: u32 = 3;
/// Most ACKs merged into one by SACK compression (Linux `tcp_comp_sack_nr`).
const COMPRESSED_MAX: u32 = 44;
/// Longest delay by SACK compression (Linux `tcp_comp_sack_delay_ns`); never above 5 % of the RTT.
const COMPRESSED_DELAY: Nanos = 1_000_000;

/// SACK blocks remembered; an ACK has room for three beside the timestamps (RFC 2018 section 3).
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
    pub ecn: bool,
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
    ece: bool,
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
            ece: false,
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
        let number = packet.seq;
        if self.config.ecn {
            if packet.flags & flags::CWR != 0 {
                self.ece = false;
            }
            if packet.is_ce() {
                if !self.ece {
                    // Linux acknowledges the first marks at once.
                    self.quick_acks = self.quick_acks.max(2);
                }
                self.ece = true;
            }
        }
        if number <= self.last_ack && packet.timestamp >= self.echo {
            self.echo = packet.timestamp;
        }
        self.rtt = packet.aux[1];
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
        (self.ack_due <= now).then(|| self.ack())
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
        if self.ece {
            packet.flags |= flags::ECE;
        }
        if self.duplicate.is_some() || !self.out_of_order.is_empty() {
            self.add_sack(&mut packet);
        }
        packet
    }

    fn header_bytes(&self) -> u16 {
        if self.config.timestamps { HEADER_BYTES } else { HEADER_BYTES - TIMESTAMP_OPTION_BYTES }
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
        let mut taken = [(0, 0); 3];
        for number in self.recent {
            if used == 3 || number <= self.next {
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
            ecn: true,
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
        marked.set_ecn(dumbbell_queue::Ecn::Ce);
        assert!(receiver.on_data(0, &marked).unwrap().flags & flags::ECE != 0);
        assert!(receiver.on_data(1, &data(1)).unwrap().flags & flags::ECE != 0);
        let mut reduced = data(2);
        reduced.flags |= flags::CWR;
        assert!(receiver.on_data(2, &reduced).unwrap().flags & flags::ECE == 0);
    }
}
