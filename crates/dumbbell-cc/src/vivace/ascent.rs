//! Utility, and the steps of the rate along its gradient (sections 3 and 4 of the paper).
//!
//! Rates are in Mbit/s here: that is the unit for which the paper's constants are.

#[derive(Clone, Copy, Debug)]
pub(super) struct Utility {
    /// t: exponent of the rate.
    pub(super) exponent: f64,
    /// b: coefficient of the latency gradient.
    pub(super) latency: f64,
    /// c: coefficient of loss.
    pub(super) loss: f64,
    /// Latency gradients up to this are noise.
    pub(super) tolerance: f64,
    /// A falling latency counts for the rate as a rising one counts against it.
    pub(super) reward_drain: bool,
}

impl Utility {
    /// x^t - b x dRTT/dt - c x L.
    pub(super) fn of(&self, rate: f64, gradient: f64, loss: f64) -> f64 {
        let counts = gradient.abs() >= self.tolerance && (gradient > 0.0 || self.reward_drain);
        let gradient = if counts { gradient } else { 0.0 };
        libm::pow(rate, self.exponent) - self.latency * rate * gradient - self.loss * rate * loss
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AscentSettings {
    /// theta_0: Mbit/s for a gradient of 1 a Mbit/s.
    pub(super) conversion: f64,
    /// omega_0 and delta: parts of the rate.
    pub(super) boundary: f64,
    pub(super) boundary_step: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ascent {
    settings: AscentSettings,
    /// Sign of the last step.
    direction: f64,
    /// tau: steps in that direction.
    steps: u32,
    /// k: how often the boundary has been widened.
    widened: f64,
}

impl Ascent {
    pub(super) fn new(settings: AscentSettings) -> Self {
        Self { settings, direction: 0.0, steps: 0, widened: 0.0 }
    }

    /// m(tau): 1, 2, 3, then 5, 7, 9, ...
    pub(super) fn amplifier(&self) -> f64 {
        let steps = f64::from(self.steps);
        if self.steps <= 3 { steps } else { 2.0 * steps - 3.0 }
    }

    pub(super) fn boundary(&self) -> f64 {
        self.settings.boundary + self.widened * self.settings.boundary_step
    }

    /// Change of a rate of `rate` Mbit/s where utility's slope is `gradient`.
    pub(super) fn step(&mut self, rate: f64, gradient: f64) -> f64 {
        let direction = if gradient == 0.0 { 0.0 } else { gradient.signum() };
        if direction == self.direction {
            self.steps = self.steps.saturating_add(1);
        } else {
            self.steps = 1;
            self.widened = 0.0;
            self.direction = direction;
        }
        let change = self.amplifier() * self.settings.conversion * gradient;
        let bound = self.boundary() * rate;
        if change.abs() > bound {
            self.widened += 1.0;
            direction * bound
        } else {
            let part = change.abs() / rate;
            self.widened =
                ((part - self.settings.boundary) / self.settings.boundary_step).ceil().max(0.0);
            change
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTILITY: Utility = Utility {
        exponent: 0.9,
        latency: 900.0,
        loss: 11.35,
        tolerance: 0.01,
        reward_drain: false,
    };
    const SETTINGS: AscentSettings =
        AscentSettings { conversion: 1.0, boundary: 0.05, boundary_step: 0.1 };

    #[test]
    fn utility_is_the_papers() {
        let free = libm::pow(100.0, 0.9);
        assert_eq!(UTILITY.of(100.0, 0.0, 0.0), free);
        assert!((UTILITY.of(100.0, 0.05, 0.0) - (free - 4500.0)).abs() < 1e-9);
        assert!((UTILITY.of(100.0, 0.0, 0.1) - (free - 113.5)).abs() < 1e-9);
        assert_eq!(UTILITY.of(100.0, 0.0099, 0.0), free, "noise");
        assert_eq!(UTILITY.of(100.0, -0.05, 0.0), free);
        let rewarding = Utility { reward_drain: true, ..UTILITY };
        assert!((rewarding.of(100.0, -0.05, 0.0) - (free + 4500.0)).abs() < 1e-9);
    }

    /// c = 11.35 makes the rate worth raising at random loss below 5 %, for rates up to 100 Mbit/s.
    #[test]
    fn five_percent_of_random_loss_is_borne_at_100_mbit() {
        let slope = |rate: f64, loss: f64| {
            UTILITY.of(1.05 * rate, 0.0, loss) - UTILITY.of(0.95 * rate, 0.0, loss)
        };
        for rate in [1.0, 10.0, 90.0] {
            assert!(slope(rate, 0.05) > 0.0, "{rate}");
        }
        assert!(slope(100.0, 0.051) < 0.0);
    }

    #[test]
    fn confidence_amplifies_steps_in_one_direction() {
        let mut ascent = Ascent::new(SETTINGS);
        let steps: Vec<f64> = (0..6).map(|_| ascent.step(1000.0, 1.0)).collect();
        assert_eq!(steps, [1.0, 2.0, 3.0, 5.0, 7.0, 9.0]);
        assert_eq!(ascent.step(1000.0, -1.0), -1.0);
    }

    /// omega is 5 %, then 15 %, 25 %, ... of the rate while steps are cut off at it; a step within it
    /// takes it back to the least that holds it.
    #[test]
    fn the_boundary_widens_while_it_binds() {
        let mut ascent = Ascent::new(SETTINGS);
        assert_eq!(ascent.step(100.0, 50.0), 5.0);
        assert!((ascent.step(100.0, 50.0) - 15.0).abs() < 1e-9);
        assert!((ascent.step(100.0, 50.0) - 25.0).abs() < 1e-9);
        assert!((ascent.boundary() - 0.35).abs() < 1e-12);
        assert!((ascent.step(100.0, 3.0) - 15.0).abs() < 1e-9);
        assert!((ascent.boundary() - 0.15).abs() < 1e-12);
        assert_eq!(ascent.step(100.0, -50.0), -5.0, "a turn starts at omega_0");
    }

    #[test]
    fn no_gradient_is_no_step() {
        let mut ascent = Ascent::new(SETTINGS);
        ascent.step(100.0, 1.0);
        assert_eq!(ascent.step(100.0, 0.0), 0.0);
        assert_eq!(ascent.step(100.0, 1.0), 1.0);
    }
}
