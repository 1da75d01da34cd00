//! ECN at both ends: what the receiver echoes, which codepoint the sender's data carries, and what an
//! echo says of marks. The modes are those of [`EcnMode`].

use dumbbell_cc::EcnMode;
use dumbbell_queue::{Ecn, Packet as _};

use crate::{Packet, flags};

/// Marks after which the receiver acknowledges at once (RFC 9768 section 3.2.2.5.1: n = 2).
const CE_PER_ACK: u32 = 2;
/// Initial count of marked packets, modulo 8 (RFC 9768 section 3.2.1).
const INITIAL_CEP: u64 = 5;
/// Rounds of nothing but CE after which the path is taken to mangle ECN (RFC 9768 section 3.2.2.3:
/// three or four).
const CE_ROUNDS: u64 = 4;
/// Lengths of TCP options, and of IP and TCP headers without any.
const PLAIN_HEADER: u16 = 40;
const TIMESTAMPS: u16 = 10;
const ACCURATE: u16 = 11;

/// Counters of Accurate ECN as an ACK carries them: bytes and packets with CE, and which codepoints
/// have arrived. RFC 9768 tells the last by two more byte counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    bytes: u64,
    packets: u64,
    /// Bit n: codepoint n was seen.
    seen: u64,
}

impl Counters {
    const BYTES: u64 = u32::MAX as u64;
    const PACKETS: u64 = (1 << 24) - 1;

    fn pack(self) -> u64 {
        self.bytes & Self::BYTES | (self.packets & Self::PACKETS) << 32 | self.seen << 56
    }

    fn unpack(word: u64) -> Self {
        Self { bytes: word & Self::BYTES, packets: word >> 32 & Self::PACKETS, seen: word >> 56 }
    }
}

/// Growth of a counter of the given width; `None` if it went back, as from an ACK overtaken by
/// others.
fn growth(before: u64, after: u64, mask: u64) -> Option<u64> {
    let growth = after.wrapping_sub(before) & mask;
    (growth <= mask / 2).then_some(growth)
}

/// The receiver's end.
#[derive(Debug)]
pub(super) struct Echo {
    mode: EcnMode,
    /// ECE of the next ACK.
    ece: bool,
    /// ESCE of the next ACK.
    esce: bool,
    counters: Counters,
    /// Marks since the last ACK, and whether the last segment was marked.
    unreported: u32,
    after_ce: bool,
}

impl Echo {
    pub(super) fn new(mode: EcnMode) -> Self {
        Self {
            mode,
            ece: false,
            esce: false,
            counters: Counters::default(),
            unreported: 0,
            after_ce: false,
        }
    }

    fn counts(&self) -> bool {
        matches!(self.mode, EcnMode::Accurate | EcnMode::L4s)
    }

    /// SACK blocks for which an ACK has room.
    pub(super) fn sack_room(&self) -> usize {
        if self.counts() { 2 } else { 3 }
    }

    /// Whether data that waits for its ACK has another state than this segment.
    pub(super) fn changes(&self, packet: &Packet) -> bool {
        match self.mode {
            EcnMode::CeState => packet.is_ce() != self.ece,
            EcnMode::Sce => self.esce_after(packet) != self.esce,
            _ => false,
        }
    }

    /// CE leaves ESCE as it was.
    fn esce_after(&self, packet: &Packet) -> bool {
        match packet.ecn() {
            Ecn::Ect1 => true,
            Ecn::Ce => self.esce,
            Ecn::NotEct | Ecn::Ect0 => false,
        }
    }

    /// A segment arrived. Returns how many ACKs are to leave without delay.
    pub(super) fn on_data(&mut self, packet: &Packet) -> u32 {
        let ce = packet.is_ce();
        match self.mode {
            EcnMode::Off => 0,
            EcnMode::Classic | EcnMode::Sce => {
                if self.mode == EcnMode::Sce {
                    self.esce = self.esce_after(packet);
                }
                if packet.flags & flags::CWR != 0 {
                    self.ece = false;
                }
                // Linux acknowledges the first marks at once.
                let at_once = if ce && !self.ece { 2 } else { 0 };
                self.ece |= ce;
                at_once
            }
            EcnMode::CeState => {
                let changed = ce != self.ece;
                self.ece = ce;
                u32::from(changed)
            }
            EcnMode::Accurate | EcnMode::L4s => {
                self.counters.seen |= 1 << packet.ecn() as u8;
                let changed = ce && !self.after_ce;
                self.after_ce = ce;
                if ce {
                    self.counters.packets += 1;
                    self.counters.bytes += u64::from(packet.payload);
                    self.unreported += 1;
                }
                u32::from(changed || self.unreported >= CE_PER_ACK)
            }
        }
    }

    /// Write the echo into an ACK that has its SACK blocks.
    pub(super) fn stamp(&mut self, ack: &mut Packet, timestamps: bool) {
        if !self.counts() {
            ack.flags |= if self.ece { flags::ECE } else { 0 };
            ack.flags |= if self.esce { flags::AE } else { 0 };
            return;
        }
        self.unreported = 0;
        let ace = self.counters.packets + INITIAL_CEP;
        for (bit, flag) in [flags::ECE, flags::CWR, flags::AE].into_iter().enumerate() {
            ack.flags |= if ace >> bit & 1 == 1 { flag } else { 0 };
        }
        let blocks = ack.aux[..2].iter().filter(|&&block| block != 0).count() as u16;
        let sack = if blocks > 0 { 2 + 8 * blocks } else { 0 };
        let options = if timestamps { TIMESTAMPS } else { 0 } + ACCURATE + sack;
        ack.ip_bytes = PLAIN_HEADER + options.next_multiple_of(4);
        ack.flags |= flags::COUNTERS;
        ack.aux[2] = self.counters.pack();
    }
}

/// What one ACK says of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) ce: u64,
    pub(super) ce_packets: u64,
    pub(super) sce: u64,
    pub(super) ece: bool,
}

/// The sender's end.
#[derive(Debug)]
pub(super) struct Marking {
    mode: EcnMode,
    /// The controller answers marks itself.
    own_response: bool,
    /// What new data and retransmissions carry. RFC 3168 section 6.1.5 keeps retransmissions Not-ECT;
    /// RFC 8311 section 4.3 lets experiments mark them, which Linux does for DCTCP and Accurate ECN.
    pub(super) new: Ecn,
    pub(super) retransmission: Ecn,
    /// ECN does not work on this path.
    pub(super) failed: bool,
    /// Nothing but CE has come back: marks mean nothing.
    deaf: bool,
    last: Counters,
    /// The next CWR waits until the segments before this one are acknowledged.
    next_cwr: u64,
    send_cwr: bool,
}

impl Marking {
    pub(super) fn new(mode: EcnMode, own_response: bool) -> Self {
        let (new, retransmission) = match mode {
            EcnMode::Off => (Ecn::NotEct, Ecn::NotEct),
            EcnMode::Classic | EcnMode::Sce => (Ecn::Ect0, Ecn::NotEct),
            EcnMode::CeState | EcnMode::Accurate => (Ecn::Ect0, Ecn::Ect0),
            EcnMode::L4s => (Ecn::Ect1, Ecn::Ect1),
        };
        Self {
            mode,
            own_response,
            new,
            retransmission,
            failed: false,
            deaf: false,
            last: Counters::default(),
            next_cwr: 0,
            send_cwr: false,
        }
    }

    /// Whether the transport has to cut the window for these marks.
    #[inline]
    pub(super) fn cuts(&self, marks: Marks) -> bool {
        marks.ece && !self.own_response
    }

    /// The window is being reduced: tell the receiver (RFC 3168 section 6.1.2; RFC 8257 section 3.3).
    pub(super) fn on_reduction(&mut self) {
        self.send_cwr = matches!(self.mode, EcnMode::Classic | EcnMode::CeState | EcnMode::Sce);
    }

    /// New data leaves.
    pub(super) fn stamp(&mut self, data: &mut Packet) {
        data.set_ecn(self.new);
        if self.send_cwr {
            data.flags |= flags::CWR;
            self.send_cwr = false;
        }
    }

    /// Read the echo of an ACK that delivers `bytes` in `segments`; `una` and `nxt` as they are after
    /// it, `round` as it was before.
    pub(super) fn read(
        &mut self,
        ack: &Packet,
        (bytes, segments): (u64, u64),
        (una, nxt): (u64, u64),
        round: u64,
    ) -> Marks {
        if ack.flags & flags::COUNTERS != 0 {
            return self.read_counters(ack, round);
        }
        let ece = ack.flags & flags::ECE != 0;
        let esce = self.mode == EcnMode::Sce && ack.flags & flags::AE != 0;
        // The controller reduces, and nobody else would stop the ECE.
        if ece && self.own_response && self.mode != EcnMode::CeState && una >= self.next_cwr {
            self.send_cwr = true;
            // What the segment with CWR clears is known once it is acknowledged.
            self.next_cwr = nxt + 1;
        }
        Marks {
            ce: if ece { bytes } else { 0 },
            ce_packets: if ece { segments } else { 0 },
            sce: if esce { bytes } else { 0 },
            ece,
        }
    }

    fn read_counters(&mut self, ack: &Packet, round: u64) -> Marks {
        let now = Counters::unpack(ack.aux[2]);
        let packets = growth(self.last.packets, now.packets, Counters::PACKETS);
        let bytes = growth(self.last.bytes, now.bytes, Counters::BYTES);
        let (Some(ce_packets), Some(ce)) = (packets, bytes) else {
            return Marks::default();
        };
        self.last = now;
        if !self.failed {
            self.validate(now, round);
        }
        if self.deaf {
            return Marks::default();
        }
        Marks { ce, ce_packets, sce: 0, ece: ce_packets > 0 }
    }

    /// ECN validation: data sent ECT must not arrive Not-ECT (RFC 9768 section 3.2.2.3), nor as the
    /// other ECT (RFC 9000 section 13.4.2.1), nor always with CE. Marks still count after the first
    /// two, for they may be real.
    fn validate(&mut self, counters: Counters, round: u64) {
        let seen = |ecn: Ecn| counters.seen >> ecn as u8 & 1 == 1;
        let other = if self.new == Ecn::Ect1 { Ecn::Ect0 } else { Ecn::Ect1 };
        self.deaf = round >= CE_ROUNDS && counters.seen == 1 << Ecn::Ce as u8;
        if self.deaf || seen(Ecn::NotEct) || seen(other) {
            self.failed = true;
            (self.new, self.retransmission) = (Ecn::NotEct, Ecn::NotEct);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters wrap; one that went back belongs to an ACK that was overtaken.
    #[test]
    fn growth_across_the_wrap() {
        assert_eq!(growth(Counters::PACKETS - 1, 3, Counters::PACKETS), Some(5));
        assert_eq!(growth(7, 7, Counters::BYTES), Some(0));
        assert_eq!(growth(3, Counters::PACKETS - 1, Counters::PACKETS), None);
        let counters = Counters { bytes: 0xffff_fffe, packets: 0xff_fffd, seen: 0b1011 };
        assert_eq!(Counters::unpack(counters.pack()), counters);
    }

    /// An overtaken ACK neither adds marks nor takes any back.
    #[test]
    fn overtaken_acks_report_nothing() {
        let ack = |packets: u64| Packet {
            flags: flags::COUNTERS,
            aux: [0, 0, Counters { bytes: packets * 1000, packets, seen: 1 << 1 }.pack()],
            ..Packet::default()
        };
        let mut marking = Marking::new(EcnMode::L4s, true);
        let mut told = [2, 5, 3, 6].map(|n| marking.read(&ack(n), (0, 0), (0, 0), 1).ce_packets);
        told.reverse();
        assert_eq!(told, [1, 0, 3, 2]);
    }
}
