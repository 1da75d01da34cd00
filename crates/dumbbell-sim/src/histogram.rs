//! Log-linear histogram of times: relative error below 0.8 %, constant memory.

/// Sub-buckets for each power of two.
const SUB_BITS: u32 = 6;
const SUB: u64 = 1 << SUB_BITS;

#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    /// Of the buckets from `base` on: what is measured of one flow spans few of them.
    counts: Vec<u64>,
    base: usize,
    total: u64,
    sum: u128,
    max: u64,
}

#[inline]
fn bucket(value: u64) -> usize {
    let log = (value | SUB).ilog2();
    let shift = log - SUB_BITS;
    (u64::from(shift) * SUB + (value >> shift)) as usize
}

/// Middle of a bucket.
fn middle(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    let shift = (bucket / SUB).saturating_sub(1);
    let base = (bucket - shift * SUB) << shift;
    base as f64 + ((1u64 << shift) - 1) as f64 / 2.0
}

impl Histogram {
    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        let offset = bucket(value).wrapping_sub(self.base);
        match self.counts.get_mut(offset) {
            Some(count) => *count += 1,
            None => self.widen(bucket(value)),
        }
        self.total += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// Count the first value of a bucket outside the present range.
    #[cold]
    fn widen(&mut self, index: usize) {
        if self.counts.is_empty() {
            self.base = index;
        }
        if index < self.base {
            self.counts.splice(0..0, std::iter::repeat_n(0, self.base - index));
            self.base = index;
        } else if index - self.base >= self.counts.len() {
            self.counts.resize(index - self.base + 1, 0);
        }
        self.counts[index - self.base] += 1;
    }

    /// Non-empty buckets: (middle, count).
    fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(offset, &count)| (middle(self.base + offset).min(self.max as f64), count))
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum as f64 / self.total as f64)
    }

    pub(crate) fn max(&self) -> Option<f64> {
        (self.total > 0).then_some(self.max as f64)
    }

    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let rank = ((q * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.buckets().find_map(|(value, count)| {
            seen += count;
            (seen >= rank).then_some(value)
        })
    }

    /// Points (value, fraction at or below) of the distribution function.
    pub(crate) fn cdf(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let mut seen = 0;
        self.buckets().map(move |(value, count)| {
            seen += count;
            (value, seen as f64 / self.total as f64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_within_the_bucket_error(mut values in prop::collection::vec(0u64..1 << 50, 1..200), q in 0.01f64..1.0) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.add(value));
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).max(1) - 1;
            let exact = values[rank] as f64;
            let found = histogram.quantile(q).unwrap();
            prop_assert!((found - exact).abs() <= exact * 0.016 + 0.5, "{} {}", found, exact);
            prop_assert_eq!(histogram.max().unwrap(), *values.last().unwrap() as f64);
        }
    }
}
