//! A growing first-in first-out ring with a power-of-two capacity: what every packet passes through,
//! so kept to a mask and one bounds check.

#[derive(Debug, Default)]
pub(crate) struct Ring<T> {
    slots: Vec<T>,
    head: usize,
    len: usize,
}

impl<T: Copy + Default> Ring<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        if self.len == 0 { None } else { self.slots.get(self.head) }
    }

    #[inline]
    pub(crate) fn push_back(&mut self, value: T) {
        if self.len == self.slots.len() {
            self.grow();
        }
        let slot = (self.head + self.len) & (self.slots.len() - 1);
        self.slots[slot] = value;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let value = self.slots[self.head];
        self.len -= 1;
        // What is mostly empty stays in the first slots, which are in the cache.
        self.head = if self.len == 0 { 0 } else { (self.head + 1) & (self.slots.len() - 1) };
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + '_ {
        (0..self.len).map(|index| &self.slots[(self.head + index) & (self.slots.len() - 1)])
    }

    /// The newest element that `wanted` accepts.
    pub(crate) fn find_newest(&mut self, wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let mask = self.slots.len().wrapping_sub(1);
        let slot = (0..self.len).rev().map(|index| (self.head + index) & mask);
        let slot = slot.into_iter().find(|&slot| wanted(&self.slots[slot]))?;
        self.slots.get_mut(slot)
    }

    #[cold]
    fn grow(&mut self) {
        self.slots.rotate_left(self.head);
        self.head = 0;
        self.slots.resize((2 * self.slots.len()).max(8), T::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn behaves_like_a_deque(pushes in prop::collection::vec(any::<Option<u32>>(), 0..400)) {
            let (mut ring, mut deque) = (Ring::default(), VecDeque::new());
            for push in pushes {
                match push {
                    Some(value) => {
                        ring.push_back(value);
                        deque.push_back(value);
                    }
                    None => prop_assert_eq!(ring.pop_front(), deque.pop_front()),
                }
                prop_assert_eq!(ring.len(), deque.len());
                prop_assert_eq!(ring.front(), deque.front());
                prop_assert!(ring.iter().eq(deque.iter()));
                let even = |value: &u32| value.is_multiple_of(2);
                let newest = deque.iter().rev().find(|value| even(value));
                prop_assert_eq!(ring.find_newest(even).copied(), newest.copied());
            }
        }
    }
}
