//! The random number generator that chooses workloads and interleavings from a seed.

#![forbid(unsafe_code)]

use std::ops::RangeInclusive;
use std::time::Duration;

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

    /// Returns true with a probability of `percent`.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns a time from zero to `longest`, both included, in steps of a quarter: coarse steps cause ties, which make
    /// a run interesting.
    pub(super) fn duration(&mut self, longest: Duration) -> Duration {
        longest * self.within(0..=4) as u32 / 4
    }
}
