//! Queueing delay as LEDBAT measures it (RFC 6817 section 2.4.2): a filter over the newest samples
//! less the least delay of the last minutes.
//!
//! The RFC uses one-way delay. An ACK here tells the round-trip time, as it does to LEDBAT++, so
//! what waits on the way back counts too.

use crate::event::Nanos;

const MINUTE: Nanos = 60_000_000_000;
/// BASE_HISTORY may be this long at most.
pub(crate) const MAX_MINUTES: usize = 32;
/// CURRENT_FILTER may be this long at most.
pub(crate) const MAX_FILTER: usize = 32;

/// The last values given, at most `len` of them.
#[derive(Clone, Copy, Debug)]
struct Recent<const N: usize> {
    values: [Nanos; N],
    len: usize,
    next: usize,
}

impl<const N: usize> Recent<N> {
    fn new(len: usize) -> Self {
        Self { values: [Nanos::MAX; N], len: len.clamp(1, N), next: 0 }
    }

    fn push(&mut self, value: Nanos) {
        self.values[self.next] = value;
        self.next = (self.next + 1) % self.len;
    }

    fn lower_newest(&mut self, value: Nanos) {
        let newest = &mut self.values[(self.next + self.len - 1) % self.len];
        *newest = value.min(*newest);
    }

    /// `Nanos::MAX` if there is none.
    fn min(&self) -> Nanos {
        self.values[..self.len].iter().copied().min().unwrap_or(Nanos::MAX)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueingDelay {
    base: Recent<MAX_MINUTES>,
    current: Recent<MAX_FILTER>,
    minute: Option<u64>,
}

impl QueueingDelay {
    /// `minutes`: BASE_HISTORY; `samples`: CURRENT_FILTER.
    pub(crate) fn new(minutes: usize, samples: usize) -> Self {
        Self { base: Recent::new(minutes), current: Recent::new(samples), minute: None }
    }

    pub(crate) fn add(&mut self, now: Nanos, rtt: Nanos) {
        self.current.push(rtt);
        let minute = now / MINUTE;
        if self.minute == Some(minute) {
            self.base.lower_newest(rtt);
        } else {
            self.minute = Some(minute);
            self.base.push(rtt);
        }
    }

    /// Least delay of the history; none without a sample.
    pub(crate) fn base(&self) -> Option<Nanos> {
        self.minute.map(|_| self.base.min())
    }

    /// What the newest samples exceed the base by; 0 without a sample.
    pub(crate) fn queueing(&self) -> Nanos {
        self.base().map_or(0, |base| self.current.min().saturating_sub(base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn the_least_of_the_last_four_samples_over_the_base() {
        let mut delay = QueueingDelay::new(10, 4);
        assert_eq!((delay.base(), delay.queueing()), (None, 0));
        delay.add(0, 40 * MS);
        for rtt in [90, 70, 80] {
            delay.add(MS, rtt * MS);
            assert_eq!(delay.queueing(), 0, "the first sample still counts");
        }
        delay.add(2 * MS, 100 * MS);
        assert_eq!(delay.queueing(), 30 * MS);
        assert_eq!(delay.base(), Some(40 * MS));
    }

    /// BASE_HISTORY minutes after its last sighting a delay is forgotten.
    #[test]
    fn the_base_is_remembered_for_its_minutes() {
        let mut delay = QueueingDelay::new(10, 4);
        delay.add(0, 40 * MS);
        for minute in 1..10 {
            delay.add(minute * MINUTE, 50 * MS);
            assert_eq!(delay.base(), Some(40 * MS), "minute {minute}");
        }
        delay.add(10 * MINUTE, 50 * MS);
        assert_eq!(delay.base(), Some(50 * MS));
    }
}
