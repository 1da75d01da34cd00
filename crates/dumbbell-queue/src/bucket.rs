//! The token bucket of shapers, policers and meters, exact to the nanosecond: it counts bits times a thousand
//! million, which is what a rate in bit/s brings in whole numbers for each nanosecond.

use crate::Nanos;

/// A bit, in what a bucket counts.
const BIT: i128 = 1_000_000_000;

/// A number of tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens(i128);

fn cost(bytes: u64) -> i128 {
    i128::from(bytes) * 8 * BIT
}

/// Tokens that come at a rate, up to a size. May be in debt.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// bit/s.
    rate: u64,
    size: i128,
    level: i128,
    updated: Nanos,
}

impl Bucket {
    /// Full; `rate` in bit/s, `size` in bytes.
    pub(crate) fn new(rate: u64, size: u64) -> Self {
        Self { rate, size: cost(size), level: cost(size), updated: 0 }
    }

    /// Adds the tokens that came by `now`; gives those that found no room.
    pub(crate) fn fill(&mut self, now: Nanos) -> Tokens {
        let passed = now.saturating_sub(self.updated);
        self.updated = self.updated.max(now);
        self.add(Tokens(i128::from(passed).saturating_mul(i128::from(self.rate))))
    }

    /// Adds tokens that another had no room for; gives those that find none here.
    pub(crate) fn add(&mut self, come: Tokens) -> Tokens {
        let room = self.size - self.level;
        self.level += come.0.min(room);
        Tokens((come.0 - room).max(0))
    }

    /// When there are tokens for so many bytes, if none are taken before; not before the time of the
    /// last [`Self::fill`]. More than the size never come: [`Nanos::MAX`]. The rate is above 0.
    pub(crate) fn ready(&self, bytes: u64) -> Nanos {
        let missing = cost(bytes) - self.level;
        if missing <= 0 {
            return self.updated;
        }
        if cost(bytes) > self.size {
            return Nanos::MAX;
        }
        let rate = i128::from(self.rate);
        let wait = (missing + rate - 1) / rate;
        self.updated.saturating_add(Nanos::try_from(wait).unwrap_or(Nanos::MAX))
    }

    /// Takes tokens, into debt if there are too few.
    pub(crate) fn take(&mut self, bytes: u32) {
        self.level = self.level.saturating_sub(cost(u64::from(bytes)));
    }

    /// Takes tokens, if there are as many.
    pub(crate) fn take_if_enough(&mut self, bytes: u32) -> bool {
        let enough = self.level >= cost(u64::from(bytes));
        if enough {
            self.take(bytes);
        }
        enough
    }

    /// Bytes; less than zero in debt.
    pub(crate) fn level(&self) -> f64 {
        self.level as f64 / (8 * BIT) as f64
    }
}

/// The size of a bucket that a user did not give: what the rate brings in a millisecond, so that
/// scheduling that is late by no more costs no rate, and at least two full Ethernet frames.
pub(crate) fn default_burst(rate: u64) -> u64 {
    (rate / 8000).max(2 * 1514)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// From 1 bit/s to 1 Tbit/s, bursts to 4 GB and any times: nothing overflows, a packet may
        /// leave at the time that was said and not a nanosecond before, and by then the bucket has
        /// given its size and what the rate brought, to a bit.
        #[test]
        fn exact_at_all_rates_and_bursts(
            rate in prop_oneof![1..100_u64, 1..1_000_000_000_000_u64, Just(1_000_000_000_000_u64)],
            size in prop_oneof![1_500..10_000_u64, 1_500..4_000_000_000_u64, Just(4_000_000_000_u64)],
            steps in prop::collection::vec((any::<u64>(), 0..64_u32, 1..1501_u32), 1..100),
        ) {
            let mut bucket = Bucket::new(rate, size);
            let (mut now, mut sent) = (0_u64, 0_i128);
            for (wait, shift, bytes) in steps {
                now = now.saturating_add(wait >> shift);
                bucket.fill(now);
                let ready = bucket.ready(u64::from(bytes));
                prop_assert!(ready >= now);
                if ready == Nanos::MAX {
                    break;
                }
                if ready > now {
                    bucket.fill(ready - 1);
                    prop_assert_eq!(bucket.ready(u64::from(bytes)), ready);
                }
                bucket.fill(ready);
                prop_assert_eq!(bucket.ready(u64::from(bytes)), ready);
                bucket.take(bytes);
                (now, sent) = (ready, sent + i128::from(bytes));
                // Bits times 10^9, as the bucket has them.
                let come = i128::from(now) * i128::from(rate) + cost(size);
                prop_assert!(sent * 8 * BIT <= come);
            }
        }
    }

    /// A debt of 1000 bytes at 8 Mbit/s is paid in a millisecond.
    #[test]
    fn debts_are_paid_at_the_rate() {
        let mut bucket = Bucket::new(8_000_000, 500);
        bucket.take(1500);
        assert_eq!((bucket.level(), bucket.ready(0)), (-1000.0, 1_000_000));
        assert_eq!(bucket.ready(501), Nanos::MAX);
    }
}
