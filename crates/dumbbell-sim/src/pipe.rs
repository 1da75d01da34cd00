//! Packets on their way, ordered by arrival time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dumbbell_transport::Packet;

use crate::ring::Ring;

/// A first-in first-out pipe, or one where packets may overtake each other.
#[derive(Debug)]
pub(crate) enum Pipe {
    Ordered { queue: Ring<(u64, Packet)>, last: u64 },
    Unordered { heap: BinaryHeap<Reverse<Entry>>, sequence: u64 },
}

#[derive(Debug)]
pub(crate) struct Entry {
    key: (u64, u64),
    packet: Packet,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl Pipe {
    pub(crate) fn new(ordered: bool) -> Self {
        if ordered {
            Self::Ordered { queue: Ring::default(), last: 0 }
        } else {
            Self::Unordered { heap: BinaryHeap::new(), sequence: 0 }
        }
    }

    /// Time of the first arrival.
    #[inline]
    pub(crate) fn head(&self) -> Option<u64> {
        match self {
            Self::Ordered { queue, .. } => queue.front().map(|entry| entry.0),
            Self::Unordered { heap, .. } => heap.peek().map(|entry| entry.0.key.0),
        }
    }

    /// Add a packet. In an ordered pipe a time before that of the last packet becomes that time.
    /// Returns the new head time if the head changed.
    #[inline]
    pub(crate) fn push(&mut self, time: u64, packet: Packet) -> Option<u64> {
        match self {
            Self::Ordered { queue, last } => {
                let time = time.max(*last);
                *last = time;
                queue.push_back((time, packet));
                (queue.len() == 1).then_some(time)
            }
            Self::Unordered { heap, sequence } => {
                let before = heap.peek().map_or(u64::MAX, |entry| entry.0.key.0);
                *sequence += 1;
                heap.push(Reverse(Entry { key: (time, *sequence), packet }));
                (time < before).then_some(time)
            }
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        match self {
            Self::Ordered { queue, .. } => queue.pop_front().map(|entry| entry.1),
            Self::Unordered { heap, .. } => heap.pop().map(|entry| entry.0.packet),
        }
    }

    /// Let an ACK take the place of the newest one of its connection, which is returned, if that one
    /// is not needed any more.
    pub(crate) fn supersede(&mut self, packet: Packet) -> Option<Packet> {
        let Self::Ordered { queue, .. } = self else { return None };
        let same = |held: &Packet| held.kind == packet.kind && held.flow == packet.flow;
        let (_, held) = queue.find_newest(|(_, held)| same(held))?;
        held.is_superseded_by(&packet).then(|| std::mem::replace(held, packet))
    }

    /// All packets inside, in no particular order.
    pub(crate) fn packets(&self) -> Box<dyn Iterator<Item = &Packet> + '_> {
        match self {
            Self::Ordered { queue, .. } => Box::new(queue.iter().map(|entry| &entry.1)),
            Self::Unordered { heap, .. } => Box::new(heap.iter().map(|entry| &entry.0.packet)),
        }
    }
}
