//! The packets of one FIFO, with their bytes.

use std::collections::VecDeque;

use crate::{Amount, Nanos, Packet};

#[derive(Debug)]
pub(crate) struct Backlog<P> {
    packets: VecDeque<P>,
    bytes: u64,
}

impl<P> Default for Backlog<P> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }
}

impl<P: Packet> Backlog<P> {
    /// Appends a packet and notes when.
    pub(crate) fn push(&mut self, now: Nanos, mut packet: P) {
        packet.set_enqueued_at(now);
        self.bytes += u64::from(packet.bytes());
        self.packets.push_back(packet);
    }

    pub(crate) fn pop(&mut self) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes());
        Some(packet)
    }

    /// Takes the packet at a place counted from the head.
    pub(crate) fn remove(&mut self, index: usize) -> Option<P> {
        let packet = self.packets.remove(index)?;
        self.bytes -= u64::from(packet.bytes());
        Some(packet)
    }

    /// When the packet at the head arrived.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        self.packets.front().map(P::enqueued_at)
    }
}

impl<P> Backlog<P> {
    pub(crate) fn packets(&self) -> u64 {
        self.packets.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn amount(&self) -> Amount {
        Amount { packets: self.packets(), bytes: self.bytes }
    }

    /// From the head on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &P> {
        self.packets.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}
