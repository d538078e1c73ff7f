//! The random number generator that chooses the steps of flushes from a seed.

#![forbid(unsafe_code)]

use std::ops::RangeInclusive;

use fastrand::Rng;

#[derive(Clone, Debug)]
pub(super) struct Prng(Rng);

impl Prng {
    pub(super) fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// Returns a number below `n`, which must not be 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n)
    }

    pub(super) fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        self.0.usize(range)
    }

    /// Returns true with a probability of `percent` %.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
