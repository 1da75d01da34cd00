//! Which of many numbers is the largest. A few that are seldom asked about are looked through. Otherwise
//! it is a tournament whose matches are played again only where a number changed, and only when asked: a
//! change costs one test, and the answer a few matches for each number that changed since the last one.

/// So many are looked through faster than matches are played, if many change between two questions.
const FEW: usize = 2048;
/// Fewer changes than this between two questions, so many times in a row, and the tournament begins: a
/// queue that drops one packet for each that arrives asks all the time, one that drops many at once does
/// not.
const FEW_CHANGES: u32 = 16;
const OFTEN: u32 = 64;

#[derive(Clone, Debug)]
pub(crate) struct Largest {
    sizes: Vec<u64>,
    tournament: Option<Tournament>,
    /// Changes since the last question, and questions in a row after few of them.
    changes: u32,
    eager: u32,
}

impl Largest {
    /// `count` numbers, all zero; at least one.
    pub(crate) fn new(count: usize) -> Self {
        let sizes = vec![0; count];
        let tournament = (count > FEW).then(|| Tournament::new(&sizes));
        Self { sizes, tournament, changes: 0, eager: 0 }
    }

    pub(crate) fn get(&self, index: usize) -> u64 {
        self.sizes[index]
    }

    pub(crate) fn set(&mut self, index: usize, size: u64) {
        self.sizes[index] = size;
        match &mut self.tournament {
            Some(tournament) => tournament.set(index, size),
            None => self.changes = self.changes.saturating_add(1),
        }
    }

    /// How many are not zero.
    pub(crate) fn positive(&self) -> usize {
        self.sizes.iter().filter(|&&size| size > 0).count()
    }

    /// Index of the largest number; the lowest where several are equal.
    pub(crate) fn find(&mut self) -> usize {
        if let Some(tournament) = &mut self.tournament {
            return tournament.find();
        }
        self.eager = if self.changes < FEW_CHANGES { self.eager + 1 } else { 0 };
        self.changes = 0;
        if self.eager == OFTEN {
            return self.tournament.insert(Tournament::new(&self.sizes)).find();
        }
        let sizes = self.sizes.iter().enumerate();
        let largest = sizes.max_by_key(|&(index, &size)| (size, std::cmp::Reverse(index)));
        largest.map_or(0, |(index, _)| index)
    }
}

/// One of the numbers, or the winner of a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    size: u64,
    index: u32,
    /// Of a number: it is on the list of those that changed.
    changed: bool,
}

#[derive(Clone, Debug)]
struct Tournament {
    /// Winner of each match, then from `count` on the numbers; match `k` is between the places `2 k`
    /// and `2 k + 1`, and match 1 decides.
    entries: Vec<Entry>,
    count: usize,
    changed: Vec<u32>,
}

impl Tournament {
    fn new(sizes: &[u64]) -> Self {
        let count = sizes.len();
        let mut entries = vec![Entry::default(); 2 * count];
        for (index, (entry, &size)) in entries[count..].iter_mut().zip(sizes).enumerate() {
            (entry.index, entry.size) = (index as u32, size);
        }
        let mut tournament = Self { entries, count, changed: Vec::new() };
        for place in (1..count).rev() {
            tournament.entries[place] = tournament.play(place);
        }
        tournament
    }

    fn set(&mut self, index: usize, size: u64) {
        let entry = &mut self.entries[self.count + index];
        entry.size = size;
        if !entry.changed {
            entry.changed = true;
            self.changed.push(index as u32);
        }
    }

    fn find(&mut self) -> usize {
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
            steps in prop::collection::vec((any::<usize>(), 0..6_u64, any::<bool>()), 0..600),
        ) {
            let mut few = Largest::new(count);
            let mut many = Tournament::new(&vec![0; count]);
            let mut sizes = vec![0; count];
            prop_assert_eq!((few.find(), many.find()), (0, 0));
            for (index, size, ask) in steps {
                few.set(index % count, size);
                many.set(index % count, size);
                sizes[index % count] = size;
                if ask {
                    let most = *sizes.iter().max().unwrap();
                    let first = sizes.iter().position(|&size| size == most).unwrap();
                    prop_assert_eq!((few.find(), many.find()), (first, first));
                }
            }
        }
    }
}
