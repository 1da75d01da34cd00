//! Windowed maximum or minimum in constant space (Kathleen Nichols's algorithm, as in Linux's
//! lib/win_minmax and draft-cardwell-iccrg-bbr-congestion-control).
//!
//! Three samples are kept: the best of the window, the best since it, and the best since that one.

/// Running extreme over a window of "time", which may be any counter that never falls.
#[derive(Clone, Copy, Debug)]
pub struct WindowedFilter<T> {
    samples: [(u64, T); 3],
    window: u64,
    wins: fn(T, T) -> bool,
}

impl<T: Copy + PartialOrd> WindowedFilter<T> {
    /// Maximum over `window`, starting with `value` at `time`.
    pub fn max(window: u64, time: u64, value: T) -> Self {
        Self { samples: [(time, value); 3], window, wins: |new, old| new >= old }
    }

    /// Minimum over `window`, starting with `value` at `time`.
    pub fn min(window: u64, time: u64, value: T) -> Self {
        Self { samples: [(time, value); 3], window, wins: |new, old| new <= old }
    }

    /// From now on the window is this long: for windows that follow the round-trip time.
    pub fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    /// The extreme of the window.
    pub fn get(&self) -> T {
        self.samples[0].1
    }

    /// Forget everything but this sample.
    pub fn reset(&mut self, time: u64, value: T) -> T {
        self.samples = [(time, value); 3];
        value
    }

    /// Add a sample and return the extreme of the window that ends at `time`.
    pub fn update(&mut self, time: u64, value: T) -> T {
        let sample = (time, value);
        let age = |at: u64| time.saturating_sub(at);
        if (self.wins)(value, self.samples[0].1) || age(self.samples[2].0) > self.window {
            return self.reset(time, value);
        }
        if (self.wins)(value, self.samples[1].1) {
            self.samples[1] = sample;
            self.samples[2] = sample;
        } else if (self.wins)(value, self.samples[2].1) {
            self.samples[2] = sample;
        }

        let best_age = age(self.samples[0].0);
        if best_age > self.window {
            self.samples = [self.samples[1], self.samples[2], sample];
            if age(self.samples[0].0) > self.window {
                self.samples = [self.samples[1], self.samples[2], sample];
            }
        } else if self.samples[1].0 == self.samples[0].0 && best_age > self.window / 4 {
            // A quarter of the window without a second choice: take one from the second quarter.
            self.samples[1] = sample;
            self.samples[2] = sample;
        } else if self.samples[2].0 == self.samples[1].0 && best_age > self.window / 2 {
            self.samples[2] = sample;
        }
        self.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn maximum_is_held_for_the_window_and_no_longer() {
        let mut filter = WindowedFilter::max(10, 0, 0.0);
        filter.update(1, 100.0);
        for round in 2..=11 {
            assert_eq!(filter.update(round, 50.0), 100.0, "round {round}");
        }
        assert_eq!(filter.update(12, 50.0), 50.0);
    }

    #[test]
    fn a_new_maximum_counts_at_once() {
        let mut filter = WindowedFilter::max(10, 0, 1);
        assert_eq!(filter.update(3, 7), 7);
        assert_eq!(filter.update(3, 8), 8);
    }

    #[test]
    fn minimum_mirrors_maximum() {
        let mut filter = WindowedFilter::min(10, 0, 20_u64);
        filter.update(2, 5);
        assert_eq!(filter.update(12, 9), 5);
        assert_eq!(filter.update(13, 9), 9);
    }

    #[test]
    fn falls_to_the_second_choice_when_the_best_expires() {
        let mut filter = WindowedFilter::max(10, 0, 100);
        filter.update(4, 80);
        filter.update(8, 60);
        assert_eq!(filter.update(11, 10), 80);
        assert_eq!(filter.update(15, 10), 60);
    }

    proptest! {
        /// The result is a sample of the window, never below the newest, never above the true maximum.
        #[test]
        fn stays_between_the_newest_and_the_true_maximum(
            steps in prop::collection::vec((0_u64..4, 0_u32..1000), 1..200),
        ) {
            let mut filter = WindowedFilter::max(10, 0, 0);
            let mut history = vec![(0_u64, 0_u32)];
            let mut time = 0;
            for (step, value) in steps {
                time += step;
                history.push((time, value));
                let got = filter.update(time, value);
                let truth = history.iter().filter(|(t, _)| time - t <= 10).map(|(_, v)| *v).max().unwrap();
                prop_assert!(got >= value && got <= truth);
                prop_assert!(history.iter().any(|(t, v)| *v == got && time - t <= 10));
            }
        }
    }
}
