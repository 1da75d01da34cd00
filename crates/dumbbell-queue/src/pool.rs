//! Packets of many FIFO queues in one allocation, linked by index: an idle queue costs eight bytes,
//! and memory follows the largest total backlog, not the largest backlog of each queue.

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot<P> {
    packet: Option<P>,
    next: u32,
    /// Means nothing at the head of a queue.
    previous: u32,
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

/// Where a packet of a queue is, until the queue changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Slot of the packet before it, `NONE` for the head.
    before: u32,
}

impl<P> Pool<P> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: NONE }
    }

    /// Appends to a queue. There must be fewer than `u32::MAX` packets in all.
    pub(crate) fn push(&mut self, chain: &mut Chain, packet: P) {
        let slot = Slot { packet: Some(packet), next: NONE, previous: chain.tail };
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

    /// Takes from the tail of a queue.
    pub(crate) fn pop_tail(&mut self, chain: &mut Chain) -> Option<P> {
        if chain.head == chain.tail || chain.is_empty() {
            return self.pop(chain);
        }
        let index = chain.tail;
        let slot = self.slots.get_mut(index as usize)?;
        chain.tail = slot.previous;
        slot.next = self.free;
        self.free = index;
        let packet = slot.packet.take();
        self.slots[chain.tail as usize].next = NONE;
        packet
    }

    /// The packet at the head of a queue.
    pub(crate) fn head(&self, chain: Chain) -> Option<&P> {
        self.slots.get(chain.head as usize)?.packet.as_ref()
    }

    /// The packet at the tail of a queue.
    pub(crate) fn last(&self, chain: Chain) -> Option<&P> {
        if chain.is_empty() { None } else { self.slots[chain.tail as usize].packet.as_ref() }
    }

    /// The packets of a queue from its head, with their places.
    pub(crate) fn iter(&self, chain: Chain) -> impl Iterator<Item = (Place, &P)> {
        let (mut before, mut index) = (NONE, chain.head);
        std::iter::from_fn(move || {
            let slot = self.slots.get(index as usize)?;
            let place = Place { before };
            (before, index) = (index, slot.next);
            slot.packet.as_ref().map(|packet| (place, packet))
        })
    }

    /// Takes a packet out of the queue that it is in.
    pub(crate) fn remove(&mut self, chain: &mut Chain, place: Place) -> Option<P> {
        let Some(before) = self.slots.get(place.before as usize) else {
            return self.pop(chain);
        };
        let index = before.next;
        let slot = self.slots.get_mut(index as usize)?;
        let next = std::mem::replace(&mut slot.next, self.free);
        let packet = slot.packet.take();
        self.free = index;
        self.slots[place.before as usize].next = next;
        match self.slots.get_mut(next as usize) {
            Some(after) => after.previous = place.before,
            None => chain.tail = place.before,
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From both ends, also after one went from the middle.
    #[test]
    fn packets_can_be_taken_from_the_tail() {
        let mut pool = Pool::new();
        let mut chain = Chain::default();
        assert_eq!(pool.pop_tail(&mut chain), None);
        for n in 0..5 {
            pool.push(&mut chain, n);
        }
        let middle = pool.iter(chain).nth(3).unwrap().0;
        assert_eq!(pool.remove(&mut chain, middle), Some(3));
        assert_eq!(pool.pop_tail(&mut chain), Some(4));
        assert_eq!(pool.pop_tail(&mut chain), Some(2));
        pool.push(&mut chain, 5);
        assert_eq!(pool.pop(&mut chain), Some(0));
        assert_eq!(pool.pop_tail(&mut chain), Some(5));
        assert_eq!(pool.pop_tail(&mut chain), Some(1));
        assert!(chain.is_empty());
        pool.push(&mut chain, 6);
        assert_eq!((pool.pop(&mut chain), pool.slots.len()), (Some(6), 5));
    }

    /// Takes out the head, one in the middle and the tail, and fills the free slots again.
    #[test]
    fn packets_can_be_taken_out_anywhere() {
        let mut pool = Pool::new();
        let mut chain = Chain::default();
        for n in 0..6 {
            pool.push(&mut chain, n);
        }
        for n in [0, 3, 5] {
            let place = pool.iter(chain).find(|&(_, &packet)| packet == n).unwrap().0;
            assert_eq!(pool.remove(&mut chain, place), Some(n));
        }
        assert_eq!(pool.last(chain), Some(&4));
        for n in 6..9 {
            pool.push(&mut chain, n);
        }
        assert!(pool.iter(chain).map(|(_, &packet)| packet).eq([1, 2, 4, 6, 7, 8]));
        assert!(std::iter::from_fn(|| pool.pop(&mut chain)).eq([1, 2, 4, 6, 7, 8]));
        assert_eq!(pool.slots.len(), 6);
    }
}
