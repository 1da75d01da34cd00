//! Telling packets that come for the first time from copies.

const WORDS: usize = 64;
const BITS: u64 = 64;
/// How far a packet may be behind the highest and still be told from a copy.
const WINDOW: u64 = WORDS as u64 * BITS;

/// Sequence numbers seen among the [`WINDOW`] up to the highest; older ones count as seen.
#[derive(Clone, Debug)]
pub(crate) struct Distinct {
    /// One more than the highest; 0: none yet.
    end: u64,
    bits: [u64; WORDS],
}

impl Default for Distinct {
    fn default() -> Self {
        Self { end: 0, bits: [0; WORDS] }
    }
}

impl Distinct {
    /// Whether `seq` has not been seen before; it has been from now on.
    pub(crate) fn insert(&mut self, seq: u64) -> bool {
        let end = seq.saturating_add(1);
        if end > self.end {
            self.advance(end);
        } else if self.end - seq > WINDOW {
            return false;
        }
        let word = &mut self.bits[(seq / BITS) as usize % WORDS];
        let bit = 1 << (seq % BITS);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Forget what leaves the window, which from now on is up to `end`.
    fn advance(&mut self, end: u64) {
        if end - self.end >= WINDOW {
            self.bits = [0; WORDS];
        } else {
            for seq in self.end..end {
                self.bits[(seq / BITS) as usize % WORDS] &= !(1 << (seq % BITS));
            }
        }
        self.end = end;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ends_of_the_number_space() {
        let mut distinct = Distinct::default();
        assert!(distinct.insert(0) && distinct.insert(5000) && distinct.insert(5000 - 4095));
        assert!(!distinct.insert(5000 - 4096), "too old to tell");
        assert!(distinct.insert(u64::MAX));
        assert!(!distinct.insert(5000));
    }

    proptest! {
        /// Within the window it is a set.
        #[test]
        fn is_a_set(seqs in prop::collection::vec(0_u64..WINDOW, 0..300), base in 0_u64..1_000_000) {
            let mut distinct = Distinct::default();
            let mut set = BTreeSet::new();
            for seq in seqs {
                prop_assert_eq!(distinct.insert(base + seq), set.insert(seq));
            }
        }
    }
}
