//! Packets of many FIFO queues in one allocation, linked by index: an idle queue costs eight bytes,
//! and memory follows the largest total backlog, not the largest backlog of each queue.

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot<P> {
    packet: Option<P>,
    next: u32,
}

/// The packets of all queues.
#[derive(Debug)]
pub(crate) struct Pool<P> {
    slots: Vec<Slot<P>>,
    /// First free slot.
    free: u32,
}

/// Head and tail of one queue; the tail means nothing while the queue is empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    head: u32,
    tail: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl Chain {
    pub(crate) fn is_empty(self) -> bool {
        self.head == NONE
    }
}

impl<P> Pool<P> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: NONE }
    }

    /// Appends to a queue. There must be fewer than `u32::MAX` packets in all.
    pub(crate) fn push(&mut self, chain: &mut Chain, packet: P) {
        let slot = Slot { packet: Some(packet), next: NONE };
        let index = self.free;
        let index = if index == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            self.free = self.slots[index as usize].next;
            self.slots[index as usize] = slot;
            index
        };
        if chain.is_empty() {
            chain.head = index;
        } else {
            self.slots[chain.tail as usize].next = index;
        }
        chain.tail = index;
    }

    /// Takes from the head of a queue.
    pub(crate) fn pop(&mut self, chain: &mut Chain) -> Option<P> {
        let slot = self.slots.get_mut(chain.head as usize)?;
        let index = chain.head;
        chain.head = slot.next;
        slot.next = self.free;
        self.free = index;
        slot.packet.take()
    }
}
