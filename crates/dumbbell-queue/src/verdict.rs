//! What an AQM decides about a packet, and how that is carried out.

use crate::{Counters, DropReason, Dropped, Enqueued, Packet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// Mark the packet if it is ECN-capable; drop it if not.
    Mark,
    Drop,
}

impl Verdict {
    /// Gives the packet back with what became of it, or drops it and gives nothing.
    pub(crate) fn carry_out<P: Packet>(
        self,
        mut packet: P,
        counters: &mut Counters,
        dropped: &mut Dropped<P>,
    ) -> Option<(P, Enqueued)> {
        if self == Self::Pass {
            return Some((packet, Enqueued::Accepted));
        }
        let marked = counters.marked;
        if self == Self::Drop || !counters.mark_ce(&mut packet) {
            counters.drop(packet, DropReason::Aqm, dropped);
            return None;
        }
        // One that came with CE is not marked here.
        let outcome = if counters.marked > marked { Enqueued::Marked } else { Enqueued::Accepted };
        Some((packet, outcome))
    }
}
