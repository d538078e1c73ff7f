//! SplitMix64: a seed in, a stream of numbers out. Good enough to choose workloads and interleavings.

#![forbid(unsafe_code)]

use std::ops::RangeInclusive;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct Prng(u64);

impl Prng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `n`, which is not 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(super) fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + self.below(range.end() - range.start() + 1)
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
