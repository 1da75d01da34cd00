//! Slope of the smoothed delay over the last groups (libwebrtc's trendline estimator).

use std::collections::VecDeque;

use super::arrival::Variation;

#[derive(Clone, Debug)]
pub(super) struct Trendline {
    window: usize,
    smoothing: f64,
    accumulated: f64,
    smoothed: f64,
    /// Arrival and smoothed delay, ms.
    points: VecDeque<(f64, f64)>,
    slope: f64,
}

impl Trendline {
    pub(super) fn new(window: usize, smoothing: f64) -> Self {
        Self {
            window,
            smoothing,
            accumulated: 0.0,
            smoothed: 0.0,
            points: VecDeque::new(),
            slope: 0.0,
        }
    }

    /// ms of delay per ms.
    pub(super) fn update(&mut self, variation: &Variation) -> f64 {
        self.accumulated += variation.delay;
        self.smoothed = self.smoothing * self.smoothed + (1.0 - self.smoothing) * self.accumulated;
        self.points.push_back((variation.arrival, self.smoothed));
        if self.points.len() > self.window {
            self.points.pop_front();
        }
        if self.points.len() == self.window {
            self.slope = slope(&self.points).unwrap_or(self.slope);
        }
        self.slope
    }
}

/// Least squares; `None` if all points have the same abscissa.
fn slope(points: &VecDeque<(f64, f64)>) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|p| p.0).sum::<f64>() / count;
    let mean_y = points.iter().map(|p| p.1).sum::<f64>() / count;
    let covariance: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let slope = covariance / variance;
    (variance > 0.0 && slope.is_finite()).then_some(slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delay grows by 0.5 ms for each group, which arrive 10.5 ms apart. Without smoothing that is
    /// a slope of 0.5/10.5; smoothing only lags behind a line, so its slope is reached, too.
    #[test]
    fn slope_of_a_linear_ramp() {
        for (smoothing, groups) in [(0.0, 20), (0.9, 300)] {
            let mut trendline = Trendline::new(20, smoothing);
            let mut slope = 0.0;
            for group in 0..groups {
                slope = trendline.update(&Variation {
                    departure: 10.0,
                    delay: 0.5,
                    arrival: f64::from(group) * 10.5,
                });
            }
            assert!((slope - 0.5 / 10.5).abs() < 1e-9, "{slope}");
        }
    }

    #[test]
    fn no_slope_before_the_window_is_full() {
        let mut trendline = Trendline::new(20, 0.0);
        for group in 0..19 {
            let variation =
                Variation { departure: 10.0, delay: 5.0, arrival: f64::from(group) * 15.0 };
            assert_eq!(trendline.update(&variation), 0.0);
        }
    }

    /// Points (0, 0), (1, 2), (2, 3), (4, 4): means 7/4 and 9/4; slope (20/4 + ...) by hand
    /// = (24 - 4*7/4*9/4) / (21 - 4*49/16) = 8.25/8.75.
    #[test]
    fn least_squares_by_hand() {
        let points = VecDeque::from([(0.0, 0.0), (1.0, 2.0), (2.0, 3.0), (4.0, 4.0)]);
        assert!((slope(&points).unwrap() - 8.25 / 8.75).abs() < 1e-12);
        assert_eq!(slope(&VecDeque::from([(1.0, 0.0), (1.0, 2.0)])), None);
    }
}
