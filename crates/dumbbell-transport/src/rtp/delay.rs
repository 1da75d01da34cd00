//! One-way delay of packets, and the least of it.
//!
//! The clocks of sender and receiver need not agree: only differences between delays count, so a
//! constant offset of the receiver's clock changes nothing.

use dumbbell_cc::windowed_filter::WindowedFilter;
use dumbbell_queue::Nanos;

/// Milliseconds, the unit that the documents of these controllers reckon in.
pub(super) fn millis(time: Nanos) -> f64 {
    time as f64 / 1e6
}

/// From the sender's clock to the receiver's, whatever lies between the two.
pub(super) fn one_way_delay(sent: Nanos, arrival: Nanos) -> i64 {
    arrival.wrapping_sub(sent) as i64
}

/// Least one-way delay of a window of time: that of the empty path.
#[derive(Clone, Copy, Debug)]
pub(super) struct BaseDelay {
    window: Nanos,
    least: Option<WindowedFilter<i64>>,
}

impl BaseDelay {
    pub(super) fn new(window: Nanos) -> Self {
        Self { window, least: None }
    }

    pub(super) fn add(&mut self, now: Nanos, delay: i64) {
        match &mut self.least {
            Some(least) => {
                least.update(now, delay);
            }
            None => self.least = Some(WindowedFilter::min(self.window, now, delay)),
        }
    }

    /// What of this delay is queueing.
    pub(super) fn queueing(&self, delay: i64) -> Nanos {
        self.least.map_or(0, |least| delay.saturating_sub(least.get()).max(0) as Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queueing_is_what_exceeds_the_least_delay_whatever_the_clocks() {
        for offset in [0, 1_000_000, u64::MAX - 5] {
            let mut base = BaseDelay::new(1_000);
            let mut queueing = |now: Nanos, delay: Nanos| {
                let delay = one_way_delay(now, (now + delay).wrapping_add(offset));
                base.add(now, delay);
                base.queueing(delay)
            };
            assert_eq!(queueing(0, 50), 0);
            assert_eq!(queueing(100, 80), 30);
            assert_eq!(queueing(200, 40), 0);
            assert_eq!(queueing(300, 80), 40);
        }
    }

    #[test]
    fn the_least_delay_is_forgotten_after_the_window() {
        let mut base = BaseDelay::new(1_000);
        base.add(0, 40);
        for now in [400, 800, 1_200, 1_600, 2_000] {
            base.add(now, 60);
        }
        assert_eq!(base.queueing(60), 0);
    }
}
