//! A set of segment numbers kept as sorted disjoint ranges: the scoreboard of both TCP ends.

use std::collections::VecDeque;

/// Sorted, disjoint, non-adjacent half-open ranges, each with a tag that belongs to its end (the
/// receiver keeps the byte offset there).
#[derive(Clone, Debug, Default)]
pub struct IntervalSet {
    ranges: VecDeque<(u64, u64, u64)>,
}

impl IntervalSet {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// End of the last range: one past the highest member.
    pub fn end(&self) -> Option<u64> {
        self.ranges.back().map(|range| range.1)
    }

    /// Take out the first range if it starts at or below `start`: (end, tag).
    pub fn pop_reached(&mut self, start: u64) -> Option<(u64, u64)> {
        if self.ranges.front()?.0 > start {
            return None;
        }
        self.ranges.pop_front().map(|range| (range.1, range.2))
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|range| (range.0, range.1))
    }

    /// The range that holds `value`.
    pub fn range_of(&self, value: u64) -> Option<(u64, u64)> {
        let index = self.ranges.partition_point(|range| range.1 <= value);
        self.ranges.get(index).filter(|range| range.0 <= value).map(|range| (range.0, range.1))
    }

    pub fn contains(&self, value: u64) -> bool {
        self.range_of(value).is_some()
    }

    /// Add `[start, end)`, `tag` belonging to `end`, and call `fresh` for each part that was not in the set before, in
    /// ascending order. The cost is that of the new parts plus a binary search, so long lists of
    /// holes are cheap to extend at either end.
    pub fn insert(&mut self, start: u64, end: u64, tag: u64, mut fresh: impl FnMut(u64, u64)) {
        if start >= end {
            return;
        }
        // Most blocks extend the newest range.
        if let Some(last) = self.ranges.back_mut() {
            if start >= last.0 && start <= last.1 {
                if end > last.1 {
                    fresh(last.1, end);
                    (last.1, last.2) = (end, tag);
                }
                return;
            }
            if start > last.1 {
                fresh(start, end);
                self.ranges.push_back((start, end, tag));
                return;
            }
        } else {
            fresh(start, end);
            self.ranges.push_back((start, end, tag));
            return;
        }
        // First range that touches [start, end), and one past the last.
        let from = self.ranges.partition_point(|range| range.1 < start);
        let mut to = from;
        let mut covered = start;
        let (mut low, mut high, mut high_tag) = (start, end, tag);
        while to < self.ranges.len() && self.ranges[to].0 <= end {
            let (s, e, t) = self.ranges[to];
            if s > covered {
                fresh(covered, s.min(end));
            }
            covered = covered.max(e);
            low = low.min(s);
            if e > high {
                (high, high_tag) = (e, t);
            }
            to += 1;
        }
        if covered < end {
            fresh(covered, end);
        }
        if to == from {
            self.ranges.insert(from, (low, high, high_tag));
        } else {
            self.ranges[from] = (low, high, high_tag);
            if to - from > 1 {
                self.ranges.drain(from + 1..to);
            }
        }
    }

    /// Forget everything below `bound`.
    pub fn remove_below(&mut self, bound: u64) {
        while let Some(front) = self.ranges.front_mut() {
            if front.1 <= bound {
                self.ranges.pop_front();
            } else {
                front.0 = front.0.max(bound);
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against a plain set of numbers: same members, each reported fresh exactly once, and the
        /// ranges stay sorted, disjoint and non-adjacent.
        #[test]
        fn agrees_with_a_plain_set(ops in prop::collection::vec((0u64..200, 0u64..20, 0u64..40), 1..80)) {
            let mut set = IntervalSet::default();
            let mut model = BTreeSet::new();
            let mut floor = 0;
            for (start, length, cut) in ops {
                let start = start.max(floor);
                let mut fresh = Vec::new();
                set.insert(start, start + length, 10 * (start + length), |s, e| fresh.extend(s..e));
                let expected: Vec<u64> = (start..start + length).filter(|v| model.insert(*v)).collect();
                prop_assert_eq!(fresh, expected);
                if cut > 35 {
                    floor += cut / 4;
                    set.remove_below(floor);
                    model.retain(|v| *v >= floor);
                }
                let flat: Vec<u64> = set.iter().flat_map(|(s, e)| s..e).collect();
                prop_assert_eq!(flat, model.iter().copied().collect::<Vec<_>>());
                let ranges: Vec<_> = set.iter().collect();
                for pair in ranges.windows(2) {
                    prop_assert!(pair[0].1 < pair[1].0);
                }
                prop_assert!(set.ranges.iter().all(|range| range.2 == 10 * range.1));
            }
        }
    }
}
