//! Log-linear histogram of times: relative error below 0.8 %, constant memory.

/// Sub-buckets for each power of two.
const SUB_BITS: u32 = 6;
const SUB: u64 = 1 << SUB_BITS;

#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
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
        let index = bucket(value);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.total += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
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
        for (index, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank && count > 0 {
                return Some(middle(index).min(self.max as f64));
            }
        }
        None
    }

    /// Points (value, fraction at or below) of the distribution function.
    pub(crate) fn cdf(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let mut seen = 0;
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(
            move |(index, &count)| {
                seen += count;
                (middle(index).min(self.max as f64), seen as f64 / self.total as f64)
            },
        )
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
