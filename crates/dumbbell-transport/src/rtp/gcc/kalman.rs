//! Delay variation by a scalar Kalman filter (draft section 5.3).

use std::collections::VecDeque;

use super::arrival::Variation;

/// In the noise, innovations count up to so many of its standard deviations.
const OUTLIER: f64 = 3.0;

#[derive(Clone, Debug)]
pub(super) struct Kalman {
    state_noise: f64,
    chi: f64,
    groups: usize,
    /// ms between the last groups.
    intervals: VecDeque<f64>,
    estimate: f64,
    error: f64,
    noise: f64,
}

impl Kalman {
    /// `groups`: of how many the highest rate counts.
    pub(super) fn new(state_noise: f64, error: f64, chi: f64, groups: usize) -> Self {
        Self {
            state_noise,
            chi,
            groups,
            intervals: VecDeque::new(),
            estimate: 0.0,
            error,
            noise: 1.0,
        }
    }

    /// m(i), ms.
    pub(super) fn update(&mut self, variation: &Variation) -> f64 {
        self.intervals.push_back(variation.departure.max(1e-3));
        if self.intervals.len() > self.groups {
            self.intervals.pop_front();
        }
        let least = self.intervals.iter().copied().fold(f64::INFINITY, f64::min);
        // 30/(1000 f_max) with f_max in groups per ms, as its unit is not stated.
        let alpha = (1.0 - self.chi).powf(30.0 / (1000.0 / least));

        let innovation = variation.delay - self.estimate;
        let bound = OUTLIER * self.noise.sqrt();
        let bounded = innovation.clamp(-bound, bound);
        self.noise = (alpha * self.noise + (1.0 - alpha) * bounded * bounded).max(1.0);
        let predicted = self.error + self.state_noise;
        let gain = predicted / (self.noise + predicted);
        self.estimate += innovation * gain;
        self.error = (1.0 - gain) * predicted;
        self.estimate
    }
}
