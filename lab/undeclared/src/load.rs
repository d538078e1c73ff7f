//! The behaviour of items.

use std::time::Duration;

use fastrand::Rng;

pub(crate) use testkit::burn;

/// Returns a random time up to `most`.
pub(crate) fn some(random: &mut Rng, most: Duration) -> Duration {
    most.mul_f64(random.f64())
}
