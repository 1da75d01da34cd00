//! Random streams: one for each component, keyed by the run's seed and the component's name, so that
//! adding a component does not change what another draws. The laws are written out here so that
//! results do not move with a library.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::config::Law;

/// Seed of the component `name` (FNV-1a over the name, mixed with the run's seed by SplitMix64).
pub(crate) fn derive_seed(seed: u64, name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let mut z = seed.wrapping_add(hash).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Clone, Debug)]
pub(crate) struct Stream(Pcg64Mcg);

impl Stream {
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        Self(Pcg64Mcg::seed_from_u64(derive_seed(seed, name)))
    }

    /// Uniform in [0, 1).
    #[inline]
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    #[inline]
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.uniform())
    }

    /// Mean 0, standard deviation 1 (Box-Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(2.0 * std::f64::consts::PI * self.uniform())
    }

    pub(crate) fn draw(&mut self, law: &Law) -> f64 {
        match law {
            Law::Constant { value } => *value,
            Law::Uniform { low, high } => low + (high - low) * self.uniform(),
            Law::Exponential { mean } => self.exponential(*mean),
            Law::Pareto { mean, shape, max } => {
                let scale = mean * (shape - 1.0) / shape;
                let value = scale / libm::pow(1.0 - self.uniform(), 1.0 / shape);
                max.map_or(value, |max| value.min(max))
            }
            Law::Empirical { values } => {
                let index = (self.uniform() * values.len() as f64) as usize;
                values[index.min(values.len() - 1)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(law: &Law) -> f64 {
        let mut stream = Stream::new(1, "test");
        (0..200_000).map(|_| stream.draw(law)).sum::<f64>() / 200_000.0
    }

    #[test]
    fn laws_have_their_means() {
        assert!((mean(&Law::Exponential { mean: 3.0 }) / 3.0 - 1.0).abs() < 0.01);
        assert!((mean(&Law::Uniform { low: 1.0, high: 3.0 }) / 2.0 - 1.0).abs() < 0.01);
        let pareto = Law::Pareto { mean: 10.0, shape: 2.5, max: None };
        assert!((mean(&pareto) / 10.0 - 1.0).abs() < 0.02);
        let values = Law::Empirical { values: vec![1.0, 2.0, 6.0] };
        assert!((mean(&values) / 3.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn streams_depend_on_seed_and_name_only() {
        let draw = |seed, name| Stream::new(seed, name).uniform();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }
}
