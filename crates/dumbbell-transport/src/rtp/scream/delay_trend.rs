//! Whether queueing delay is about to grow (section 4.1.2): correlation of its fraction of the
//! target from one sample to the next, times its average.

use dumbbell_queue::Nanos;

/// Samples of the history, and the time between two.
const SAMPLES: usize = 20;
const INTERVAL: Nanos = 50_000_000;
/// What is left of the greatest trend after a sample (section 4.1.2: 0.99).
const MEMORY: f64 = 0.99;

#[derive(Clone, Debug)]
pub(super) struct DelayTrend {
    weight: f64,
    average: f64,
    history: [f64; SAMPLES],
    next: usize,
    sampled: Nanos,
    trend: f64,
    memory: f64,
}

impl DelayTrend {
    pub(super) fn new(weight: f64) -> Self {
        Self {
            weight,
            average: 0.0,
            history: [0.0; SAMPLES],
            next: 0,
            sampled: 0,
            trend: 0.0,
            memory: 0.0,
        }
    }

    pub(super) fn start(&mut self, now: Nanos) {
        self.sampled = now;
    }

    /// Newest queueing delay over its target; whether it went into the history.
    pub(super) fn update(&mut self, now: Nanos, fraction: f64) -> bool {
        self.average += self.weight * (fraction - self.average);
        let samples = now.saturating_sub(self.sampled) / INTERVAL;
        if samples == 0 {
            return false;
        }
        self.sampled = now;
        // Where feedback is sparse, a sample stands for all that were missed.
        for _ in 0..samples.min(SAMPLES as u64) {
            self.history[self.next] = fraction;
            self.next = (self.next + 1) % SAMPLES;
        }
        self.trend = (self.correlation() * self.average).clamp(0.0, 1.0);
        self.memory = (MEMORY * self.memory).max(self.trend);
        true
    }

    pub(super) fn forget(&mut self) {
        (self.trend, self.memory) = (0.0, 0.0);
    }

    pub(super) fn value(&self) -> f64 {
        self.trend
    }

    /// The greatest of late.
    pub(super) fn memory(&self) -> f64 {
        self.memory
    }

    /// Autocorrelation at lag 1 over that at lag 0, mean removed; 0 if nothing varies.
    fn correlation(&self) -> f64 {
        let mean = self.history.iter().sum::<f64>() / SAMPLES as f64;
        let at = |sample: usize| self.history[(self.next + sample) % SAMPLES] - mean;
        let power: f64 = (0..SAMPLES).map(|k| at(k) * at(k)).sum();
        let lagged: f64 = (1..SAMPLES).map(|k| at(k) * at(k - 1)).sum();
        let correlation = lagged / power;
        if correlation.is_finite() { correlation } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// History 0, 1, ..., 19 (its mean 9.5): sum of squares (20^3 - 20)/12 = 665; that of products
    /// of neighbours, sum of (k - 9.5)(k - 8.5) for k = 0..18, is 665 - 9.5^2 - 19/2 = 565.25.
    /// Their ratio is 0.85; the average (weight 1) is the newest fraction.
    #[test]
    fn trend_of_a_ramp() {
        for (scale, expected) in [(0.01, 0.85 * 0.19), (1.0, 1.0)] {
            let mut trend = DelayTrend::new(1.0);
            trend.start(0);
            for sample in 0..SAMPLES as u64 {
                assert!(trend.update((sample + 1) * INTERVAL, sample as f64 * scale));
            }
            assert!((trend.value() - expected).abs() < 1e-9, "{}", trend.value());
        }
    }

    /// Alternating delay is correlated negatively from sample to sample: no trend.
    #[test]
    fn jitter_is_no_trend() {
        let mut trend = DelayTrend::new(0.1);
        trend.start(0);
        for sample in 0..40 {
            trend.update((sample + 1) * INTERVAL, (sample % 2) as f64);
        }
        assert_eq!(trend.value(), 0.0);
        assert!(!trend.update(40 * INTERVAL + 1, 0.5));
    }

    #[test]
    fn the_greatest_trend_is_remembered() {
        let mut trend = DelayTrend::new(1.0);
        trend.start(0);
        for sample in 0..20 {
            trend.update((sample + 1) * INTERVAL, sample as f64);
        }
        assert_eq!(trend.memory(), 1.0);
        trend.update(21 * INTERVAL, 0.0);
        assert_eq!((trend.value(), trend.memory()), (0.0, 0.99));
    }
}
