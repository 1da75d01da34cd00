//! The random stream of a sender.

use rand_core::RngCore;
use rand_pcg::Pcg32;

/// Tells its numbers from those that others draw with the same seed.
const STREAM: u64 = 0x0072_7470;

#[derive(Clone, Debug)]
pub(crate) struct Random(Pcg32);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg32::new(seed, STREAM))
    }

    /// Uniform in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Mean 0, variance `2 * scale^2`: the inverse of the Laplace distribution's function.
    pub(crate) fn laplace(&mut self, scale: f64) -> f64 {
        // In (-0.5, 0.5]: the logarithm's argument must not be 0.
        let u = 0.5 - self.uniform();
        let tail = (1.0 - 2.0 * u.abs()).max(f64::MIN_POSITIVE);
        -scale * u.signum() * libm::log(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Laplace(0, b): mean 0, variance 2 b^2, mean of absolute values b, and a share exp(-t/b) beyond
    /// t on both sides together.
    #[test]
    fn laplace_has_its_moments() {
        let (n, scale) = (400_000, 0.15);
        let mut random = Random::new(1);
        let samples: Vec<f64> = (0..n).map(|_| random.laplace(scale)).collect();
        let mean = |f: &dyn Fn(f64) -> f64| samples.iter().map(|&x| f(x)).sum::<f64>() / n as f64;
        // Six standard errors: b sqrt(2/n), b/sqrt(n), 2 b^2 sqrt(5/n).
        assert!(mean(&|x| x).abs() < 6.0 * scale * (2.0 / n as f64).sqrt());
        assert!((mean(&f64::abs) - scale).abs() < 6.0 * scale / (n as f64).sqrt());
        let variance = 2.0 * scale * scale;
        assert!((mean(&|x| x * x) - variance).abs() < 6.0 * variance * (5.0 / n as f64).sqrt());
        let beyond = mean(&|x| f64::from(u8::from(x.abs() > 0.3)));
        assert!((beyond - (-2.0f64).exp()).abs() < 0.004, "{beyond}");
    }
}
