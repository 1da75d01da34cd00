//! A 4-ary min-heap of (time, id): the order of the whole simulation.
//!
//! Ids are unique within a heap where it matters and rank events of the same time, so the order is
//! total and does not depend on when an event was scheduled.

/// Packed key: time in the upper 64 bits, id in the lower 32.
type Key = u128;

#[derive(Debug, Default)]
pub(crate) struct EventHeap {
    keys: Vec<Key>,
}

#[inline]
fn pack(time: u64, id: u32) -> Key {
    Key::from(time) << 32 | Key::from(id)
}

impl EventHeap {
    /// Earliest event.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(u64, u32)> {
        self.keys.first().map(|&key| ((key >> 32) as u64, key as u32))
    }

    #[inline]
    pub(crate) fn push(&mut self, time: u64, id: u32) {
        let key = pack(time, id);
        let mut hole = self.keys.len();
        self.keys.push(key);
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.keys[parent] <= key {
                break;
            }
            self.keys[hole] = self.keys[parent];
            hole = parent;
        }
        self.keys[hole] = key;
    }

    #[inline]
    pub(crate) fn pop(&mut self) {
        if let Some(last) = self.keys.pop()
            && !self.keys.is_empty()
        {
            self.sift_down(last);
        }
    }

    /// Replace the earliest event by another of the same id.
    #[inline]
    pub(crate) fn replace_top(&mut self, time: u64, id: u32) {
        self.sift_down(pack(time, id));
    }

    #[inline]
    fn sift_down(&mut self, key: Key) {
        let keys = &mut self.keys[..];
        let mut hole = 0;
        // Which child is least cannot be predicted: it is computed without branches.
        while let Some(&[a, b, c, d]) = keys.get(4 * hole + 1..4 * hole + 5) {
            let (right, further) = (usize::from(b < a), usize::from(d < c));
            let left = [a, b][right];
            let other = [c, d][further];
            let least = [right, 2 + further][usize::from(other < left)];
            let value = [left, other][usize::from(other < left)];
            if value >= key {
                keys[hole] = key;
                return;
            }
            keys[hole] = value;
            hole = 4 * hole + 1 + least;
        }
        let first = 4 * hole + 1;
        if let Some(least) = (first..keys.len()).min_by_key(|&child| keys[child])
            && keys[least] < key
        {
            keys[hole] = keys[least];
            hole = least;
        }
        keys[hole] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pops_in_the_order_of_a_sort(events in prop::collection::vec((0u64..50, 0u32..1000), 0..300)) {
            let mut heap = EventHeap::default();
            for &(time, id) in &events {
                heap.push(time, id);
            }
            let mut sorted = events.clone();
            sorted.sort_unstable();
            for expected in sorted {
                prop_assert_eq!(heap.peek(), Some(expected));
                heap.pop();
            }
            prop_assert_eq!(heap.peek(), None);
        }
    }
}
