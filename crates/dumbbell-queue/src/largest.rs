//! Which of many numbers is the largest: a tournament whose matches are played again only where a
//! number changed, and only when asked. A change costs one test, and the answer a few matches for each
//! number that changed since the last one.

/// One of the numbers, or the winner of a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    size: u64,
    index: u32,
    /// Of a number: it is on the list of those that changed.
    changed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Largest {
    /// Winner of each match, then from `count` on the numbers; match `k` is between the places `2 k`
    /// and `2 k + 1`, and match 1 decides.
    entries: Vec<Entry>,
    count: usize,
    changed: Vec<u32>,
}

impl Largest {
    /// `count` numbers, all zero; at least one.
    pub(crate) fn new(count: usize) -> Self {
        let mut entries = vec![Entry::default(); 2 * count];
        for (index, entry) in entries[count..].iter_mut().enumerate() {
            entry.index = index as u32;
        }
        let mut largest = Self { entries, count, changed: Vec::new() };
        for place in (1..count).rev() {
            largest.entries[place] = largest.play(place);
        }
        largest
    }

    pub(crate) fn get(&self, index: usize) -> u64 {
        self.entries[self.count + index].size
    }

    pub(crate) fn set(&mut self, index: usize, size: u64) {
        let entry = &mut self.entries[self.count + index];
        entry.size = size;
        if !entry.changed {
            entry.changed = true;
            self.changed.push(index as u32);
        }
    }

    /// Index of the largest number; the lowest where several are equal.
    pub(crate) fn find(&mut self) -> usize {
        while let Some(index) = self.changed.pop() {
            let mut place = self.count + index as usize;
            self.entries[place].changed = false;
            while place > 1 {
                place /= 2;
                let winner = self.play(place);
                if self.entries[place] == winner {
                    break;
                }
                self.entries[place] = winner;
            }
        }
        self.entries[1].index as usize
    }

    fn play(&self, place: usize) -> Entry {
        let (a, b) = (self.entries[2 * place], self.entries[2 * place + 1]);
        let a_wins = a.size > b.size || a.size == b.size && a.index < b.index;
        Entry { changed: false, ..if a_wins { a } else { b } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The same as looking at all, for any number of entries and any changes between questions.
        #[test]
        fn finds_what_a_scan_finds(
            count in 1..70_usize,
            steps in prop::collection::vec((any::<usize>(), 0..6_u64, any::<bool>()), 0..300),
        ) {
            let mut largest = Largest::new(count);
            let mut sizes = vec![0; count];
            prop_assert_eq!(largest.find(), 0);
            for (index, size, ask) in steps {
                largest.set(index % count, size);
                sizes[index % count] = size;
                if ask {
                    let most = *sizes.iter().max().unwrap();
                    let first = sizes.iter().position(|&size| size == most).unwrap();
                    prop_assert_eq!(largest.find(), first);
                }
            }
        }
    }
}
