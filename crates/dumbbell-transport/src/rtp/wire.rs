//! What media packets and reports carry, and how long they are.

use dumbbell_queue::Nanos;

use super::SECOND;
use crate::Packet;
use crate::flow::DATAGRAM_HEADER_BYTES;

/// RTP header without extensions (RFC 3550), beside those of IP and UDP.
const RTP_HEADER_BYTES: u16 = 12;
/// Headers of a media packet.
pub(super) const HEADER_BYTES: u16 = DATAGRAM_HEADER_BYTES + RTP_HEADER_BYTES;
/// Of a report (RFC 8888 section 3.1): RTCP header and sender, one stream, its first number and count,
/// timestamp.
const REPORT_FIXED_BYTES: u16 = 20;
/// For each packet that it covers.
const REPORT_PACKET_BYTES: u16 = 2;

/// Bytes of a report of so many packets, padded to words of 32 bits.
pub(super) fn report_bytes(packets: u64) -> u16 {
    let most = u64::from((u16::MAX - REPORT_FIXED_BYTES) / REPORT_PACKET_BYTES - 2);
    let block = packets.min(most) as u16 * REPORT_PACKET_BYTES;
    REPORT_FIXED_BYTES + block.next_multiple_of(4)
}

/// The time of an arrival as a report made at `made` tells it: so many parts of a second before that
/// (RFC 8888 section 3.1: 1024). 0 parts: exactly.
pub(super) fn reported(arrival: Nanos, made: Nanos, parts: u64) -> Nanos {
    if parts == 0 {
        return arrival;
    }
    let ago = made.saturating_sub(arrival);
    // A packet is in ten reports, and what fits into 64 bits is divided much faster.
    match ago.checked_mul(parts) {
        Some(product) => made - product / SECOND * SECOND / parts,
        None => {
            let (second, parts) = (u128::from(SECOND), u128::from(parts));
            made - (u128::from(ago) * parts / second * second / parts) as Nanos
        }
    }
}

/// Packets that fit into a report of an IP length.
pub(super) fn packets_in_report(ip_bytes: u16) -> u64 {
    let room = ip_bytes.saturating_sub(DATAGRAM_HEADER_BYTES + REPORT_FIXED_BYTES);
    u64::from(room / 4 * 4 / REPORT_PACKET_BYTES).max(2)
}

/// Which part of a frame a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) frame: u32,
    /// Packets of the frame, and which one of them it is. Padding is of a frame of none.
    pub(super) count: u16,
    pub(super) index: u16,
}

impl Part {
    pub(super) const PADDING: Self = Self { frame: 0, count: 0, index: 0 };

    pub(super) fn of(packet: &Packet) -> Self {
        let word = packet.aux[0];
        Self { frame: (word >> 32) as u32, count: (word >> 16) as u16, index: word as u16 }
    }

    pub(super) fn word(self) -> u64 {
        u64::from(self.frame) << 32 | u64::from(self.count) << 16 | u64::from(self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE: Nanos = 7_000_000_000;

    /// RFC 8888 section 3.1: an offset of 512 is exactly half a second; less than a part is left out,
    /// so that a packet seems to have arrived later by less than that.
    #[test]
    fn arrivals_are_told_in_parts_of_a_second() {
        for (offset, told) in [
            (500_000_000, 500_000_000),
            (500_900_000, 500_000_000),
            // 513 of 1024 parts are 500 976 562.5 ns.
            (500_976_563, 500_976_562),
            (976_562, 0),
            (0, 0),
        ] {
            assert_eq!(reported(MADE - offset, MADE, 1024), MADE - told, "{offset}");
            assert_eq!(reported(MADE - offset, MADE, 0), MADE - offset);
        }
        // More than 64 bits between: 100 days in nanoseconds.
        let long = 8_640_000_000_000_000;
        assert_eq!(reported(MADE, MADE + long + 1, 1_000_000_000), MADE);
        // libwebrtc's transport-wide feedback: 250 us.
        assert_eq!(reported(MADE - 999_999, MADE, 4000), MADE - 750_000);
    }

    /// RFC 8888: 8 bytes of RTCP header and sender, 8 of one stream's header, 2 for each packet padded to
    /// 4, 4 of timestamp.
    #[test]
    fn reports_are_as_long_as_in_rfc_8888() {
        assert_eq!([0, 1, 2, 3].map(report_bytes), [20, 24, 24, 28]);
        assert_eq!(packets_in_report(1200), 576);
        assert_eq!(report_bytes(576) + DATAGRAM_HEADER_BYTES, 1200);
        assert!(report_bytes(u64::MAX) > 65_000);
    }

    #[test]
    fn parts_come_back() {
        let part = Part { frame: 0xfedc_ba98, count: 0x1234, index: 0x0123 };
        let packet = Packet { aux: [part.word(), 0, 0], ..Packet::default() };
        assert_eq!(Part::of(&packet), part);
    }
}
