//! The high-priority module: a TCP sender, and which bytes of the connection its segments carry.

use std::collections::VecDeque;

use dumbbell_cc::Controller;
use dumbbell_queue::Nanos;

use super::scheduler::Range;
use crate::tcp::{Sender, SenderConfig, SenderStats};
use crate::{Kind, Packet, flags};

/// What a segment, or an ACK, has beside the headers of TCP: the place of its bytes in the connection, or
/// the data ACK (the DSS option of RFC 8684 without the parts that follow from a segment's number).
pub(super) const OPTION_BYTES: u16 = 12;
const SACK_BLOCK_BYTES: u16 = 8;

pub(super) struct High {
    sender: Sender,
    mss: u16,
    /// Of segments from `base` on.
    segments: VecDeque<Range>,
    base: u64,
}

impl High {
    pub(super) fn new(config: SenderConfig, cc: Box<dyn Controller>) -> Self {
        let mss = config.mss;
        Self { sender: Sender::new(config, cc), mss, segments: VecDeque::new(), base: 0 }
    }

    pub(super) fn start(&mut self, now: Nanos) {
        self.sender.on_established(now, None);
    }

    pub(super) fn controller(&self) -> &dyn Controller {
        self.sender.controller()
    }

    pub(super) fn take_error(&mut self) -> Option<String> {
        self.sender.controller_mut().take_error()
    }

    pub(super) fn stats(&self) -> &SenderStats {
        self.sender.stats()
    }

    pub(super) fn srtt(&self) -> Nanos {
        self.sender.srtt()
    }

    pub(super) fn rtt_sample(&self) -> Option<Nanos> {
        self.sender.rtt_sample()
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.sender.in_flight()
    }

    /// Bytes between the first unacknowledged and the next segment.
    pub(super) fn outstanding_bytes(&self) -> u64 {
        self.sender.packets_out() * u64::from(self.mss)
    }

    pub(super) fn next_timeout(&self) -> Nanos {
        self.sender.next_timeout()
    }

    fn next(&self) -> u64 {
        self.base + self.segments.len() as u64
    }

    /// The segment sent last, if it is outstanding.
    pub(super) fn newest(&self) -> Option<Range> {
        self.segments.back().copied()
    }

    /// The range of the first outstanding segment from number `from` on, and its number.
    pub(super) fn outstanding_from(&self, from: u64) -> Option<(u64, Range)> {
        let number = from.max(self.base);
        let index = usize::try_from(number - self.base).ok()?;
        self.segments.get(index).map(|&range| (number, range))
    }

    /// Tell TCP what there is to send: nothing, the last range that there is, or one before others.
    /// TCP takes whole segments, so while others follow it may believe in an endless supply, and does
    /// not take the sender for one that has too little to send.
    #[inline]
    fn offer(&mut self, range: Option<Range>, more: bool) {
        let unsent = match range {
            None => 0,
            Some(range) if more && range.len == self.mss => u64::MAX,
            Some(range) => u64::from(range.len),
        };
        if self.sender.unsent() != unsent {
            self.sender.truncate();
            if unsent > 0 {
                self.sender.write(unsent);
            }
        }
    }

    /// The next packet, and whether it carries `range` for the first time; `more` ranges follow.
    #[inline]
    pub(super) fn poll(
        &mut self,
        now: Nanos,
        range: Option<Range>,
        more: bool,
    ) -> Option<(Packet, bool)> {
        self.offer(range, more);
        let mut packet = self.sender.poll_transmit(now)?;
        let new = packet.seq == self.next();
        if new {
            self.segments.push_back(range?);
        }
        let index = usize::try_from(packet.seq - self.base).ok()?;
        packet.kind = Kind::Payload;
        packet.aux[0] = self.segments.get(index)?.start;
        packet.ip_bytes += OPTION_BYTES;
        Some((packet, new))
    }

    /// Call [`Self::poll`] with the same range right afterwards.
    pub(super) fn on_timeout(&mut self, now: Nanos, range: Option<Range>, more: bool) {
        self.offer(range, more);
        self.sender.on_timeout(now);
    }

    /// An answer of the receiver; those that no receiver can have sent are ignored. Returns the data
    /// ACK.
    pub(super) fn on_ack(&mut self, now: Nanos, report: &Packet) -> Option<u64> {
        if report.seq > self.next() || report.timestamp > now {
            return None;
        }
        self.sender.on_ack(now, &Packet { kind: Kind::Ack, ..*report });
        let first = self.next() - self.sender.packets_out();
        while self.base < first {
            self.segments.pop_front();
            self.base += 1;
        }
        Some(report.aux[2])
    }
}

/// An ACK of the TCP receiver as it travels: with the data ACK in the place of the third SACK block.
pub(super) fn report(ack: Packet, data_ack: u64) -> Packet {
    let dropped = if ack.aux[2] == 0 { 0 } else { SACK_BLOCK_BYTES };
    Packet {
        kind: Kind::Report,
        flags: ack.flags | flags::COUNTERS,
        ip_bytes: ack.ip_bytes + OPTION_BYTES - dropped,
        aux: [ack.aux[0], ack.aux[1], data_ack],
        ..ack
    }
}
