//! What the sender knows of each segment between the first unacknowledged and the next to be sent.

use std::collections::VecDeque;

use dumbbell_cc::Nanos;

use crate::IntervalSet;

const SACKED: u8 = 1;
const LOST: u8 = 2;
/// The last transmission is a retransmission that is thought to be in flight.
const RETRANSMITTED: u8 = 4;
const EVER_RETRANSMITTED: u8 = 8;
const APP_LIMITED: u8 = 16;
/// End of an application write.
const PUSH: u8 = 32;

/// One sent segment. The rate fields are those of its last transmission.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) sent: Nanos,
    pub(super) delivered: u64,
    pub(super) delivered_at: Nanos,
    pub(super) first_sent: Nanos,
    pub(super) lost: u64,
    /// Segments in flight just after this one was sent.
    pub(super) in_flight: u32,
    pub(super) len: u16,
    flags: u8,
}

impl Segment {
    pub(super) fn new(len: u16, push: bool) -> Self {
        Self { len, flags: if push { PUSH } else { 0 }, ..Self::default() }
    }

    pub(super) fn sacked(&self) -> bool {
        self.flags & SACKED != 0
    }

    pub(super) fn is_lost(&self) -> bool {
        self.flags & LOST != 0
    }

    pub(super) fn retransmitted(&self) -> bool {
        self.flags & RETRANSMITTED != 0
    }

    pub(super) fn ever_retransmitted(&self) -> bool {
        self.flags & EVER_RETRANSMITTED != 0
    }

    pub(super) fn app_limited(&self) -> bool {
        self.flags & APP_LIMITED != 0
    }

    pub(super) fn push(&self) -> bool {
        self.flags & PUSH != 0
    }

    pub(super) fn set_app_limited(&mut self, on: bool) {
        self.flags = if on { self.flags | APP_LIMITED } else { self.flags & !APP_LIMITED };
    }
}

/// Segments `una..nxt` in a ring, with the counts that make up the pipe (RFC 6675).
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    ring: Vec<Segment>,
    mask: u64,
    pub(super) una: u64,
    pub(super) nxt: u64,
    pub(super) sacked_out: u64,
    pub(super) lost_out: u64,
    pub(super) retrans_out: u64,
    /// SACKed ranges above `una`.
    pub(super) sacked: IntervalSet,
    /// Segments marked lost and not retransmitted since, ascending; entries may be stale.
    lost: VecDeque<u64>,
    /// Retransmissions in the order of their sending, with their send time; entries may be stale.
    pub(super) retransmissions: VecDeque<(u64, Nanos)>,
}

impl Scoreboard {
    #[inline]
    pub(super) fn get(&self, number: u64) -> &Segment {
        &self.ring[(number & self.mask) as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u64) -> &mut Segment {
        &mut self.ring[(number & self.mask) as usize]
    }

    #[inline]
    pub(super) fn packets_out(&self) -> u64 {
        self.nxt - self.una
    }

    /// Segments thought to be in the network.
    #[inline]
    pub(super) fn in_flight(&self) -> u64 {
        self.packets_out() + self.retrans_out - self.sacked_out - self.lost_out
    }

    /// Append a segment that is sent for the first time.
    #[inline]
    pub(super) fn push(&mut self, segment: Segment) {
        if self.packets_out() == self.ring.len() as u64 {
            self.grow();
        }
        let slot = (self.nxt & self.mask) as usize;
        self.ring[slot] = segment;
        self.nxt += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.ring.len() * 2).max(8);
        let mask = size as u64 - 1;
        let mut ring = vec![Segment::default(); size];
        for number in self.una..self.nxt {
            ring[(number & mask) as usize] = *self.get(number);
        }
        self.ring = ring;
        self.mask = mask;
    }

    /// Take a segment out of all counts because it was delivered.
    #[inline]
    pub(super) fn account_delivered(&mut self, number: u64) {
        let flags = self.get(number).flags;
        if flags & (LOST | RETRANSMITTED) != 0 {
            self.lost_out -= u64::from(flags & LOST != 0);
            self.retrans_out -= u64::from(flags & RETRANSMITTED != 0);
            self.get_mut(number).flags &= !(LOST | RETRANSMITTED);
        }
    }

    pub(super) fn mark_sacked(&mut self, number: u64) {
        self.account_delivered(number);
        self.get_mut(number).flags |= SACKED;
        self.sacked_out += 1;
    }

    /// A SACKed segment is now acknowledged cumulatively.
    #[inline]
    pub(super) fn unsack(&mut self) {
        self.sacked_out -= 1;
    }

    /// Mark lost (again, if it was a retransmission). Returns false if it was lost already.
    pub(super) fn mark_lost(&mut self, number: u64) -> bool {
        let segment = self.get_mut(number);
        let flags = segment.flags;
        debug_assert!(flags & SACKED == 0);
        if flags & RETRANSMITTED != 0 {
            segment.flags &= !RETRANSMITTED;
            self.retrans_out -= 1;
        } else if flags & LOST != 0 {
            return false;
        }
        if flags & LOST == 0 {
            self.get_mut(number).flags |= LOST;
            self.lost_out += 1;
        }
        match self.lost.back() {
            Some(&last) if last >= number => {
                let at = self.lost.partition_point(|&other| other < number);
                if self.lost.get(at) != Some(&number) {
                    self.lost.insert(at, number);
                }
            }
            _ => self.lost.push_back(number),
        }
        true
    }

    /// The lowest segment that is lost and not retransmitted.
    #[inline]
    pub(super) fn next_lost(&mut self) -> Option<u64> {
        while let Some(&number) = self.lost.front() {
            if number >= self.una {
                let flags = self.get(number).flags;
                if flags & (LOST | RETRANSMITTED | SACKED) == LOST {
                    return Some(number);
                }
            }
            self.lost.pop_front();
        }
        None
    }

    pub(super) fn mark_retransmitted(&mut self, number: u64, now: Nanos) {
        let segment = self.get_mut(number);
        if segment.flags & RETRANSMITTED == 0 {
            segment.flags |= RETRANSMITTED | EVER_RETRANSMITTED;
            self.retrans_out += 1;
        }
        self.retransmissions.push_back((number, now));
    }

    /// After a spurious timeout: nothing is lost.
    pub(super) fn unmark_all_lost(&mut self) {
        for number in self.una..self.nxt {
            let segment = self.get_mut(number);
            if segment.is_lost() {
                segment.flags &= !LOST;
            }
        }
        self.lost_out = 0;
        self.lost.clear();
    }

    /// Drop what a long burst of losses left allocated.
    pub(super) fn forget_recovery(&mut self) {
        self.retransmissions.clear();
        self.lost.clear();
    }

    /// Counts recomputed from the segments: (sacked, lost, retransmitted).
    fn recount(&self) -> (u64, u64, u64) {
        (self.una..self.nxt).fold((0, 0, 0), |(sacked, lost, retransmitted), number| {
            let segment = self.get(number);
            (
                sacked + u64::from(segment.sacked()),
                lost + u64::from(segment.is_lost()),
                retransmitted + u64::from(segment.retransmitted()),
            )
        })
    }

    /// The counts agree with the segments. Costs a walk over the window.
    pub(super) fn is_consistent(&self) -> bool {
        self.recount() == (self.sacked_out, self.lost_out, self.retrans_out)
    }
}
