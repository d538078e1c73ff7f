//! A seed in, and what is chosen by it out: workloads and interleavings.

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

    /// A number below `n`, which is not 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n)
    }

    pub(super) fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        self.0.usize(range)
    }

    /// True `percent` times of a hundred.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// From nothing to `longest`, both included, in steps of a quarter: ties are what makes a run
    /// interesting.
    pub(super) fn duration(&mut self, longest: Duration) -> Duration {
        longest * self.within(0..=4) as u32 / 4
    }
}
