//! The random numbers of queues.

use rand_core::RngCore;
use rand_pcg::Pcg32;

/// Evenly spread from 0 to just below 1.
pub(crate) fn uniform(random: &mut Pcg32) -> f64 {
    f64::from(random.next_u32()) / 4_294_967_296.0
}
