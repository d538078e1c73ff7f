//! Iterators over the CPUs of a set.

#![forbid(unsafe_code)]

use std::iter::FusedIterator;
use std::vec;

use super::{CpuSet, WORD_BITS};

/// An iterator over the CPUs of a [`CpuSet`] in ascending order, which [`CpuSet::iter`] returns.
///
/// # Examples
///
/// ```
/// use cmwq::{CpuSet, CpuSetIter};
///
/// let cpus = CpuSet::from_iter([1, 4]);
/// let mut iter: CpuSetIter<'_> = cpus.iter();
/// assert_eq!((iter.len(), iter.next(), iter.next(), iter.next()), (2, Some(1), Some(4), None));
/// ```
#[derive(Clone, Debug)]
pub struct CpuSetIter<'set> {
    /// The words that the iterator has not reached yet.
    words: &'set [u64],
    /// The number of the lowest CPU that the first of `words` can contain.
    next: usize,
    /// The CPUs that remain in the present word.
    rest: u64,
}

impl<'set> CpuSetIter<'set> {
    pub(super) fn new(words: &'set [u64]) -> Self {
        Self { words, next: 0, rest: 0 }
    }
}

impl Iterator for CpuSetIter<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.rest == 0 {
            let (first, later) = self.words.split_first()?;
            (self.rest, self.words) = (*first, later);
            self.next += WORD_BITS;
        }
        let lowest = self.rest.trailing_zeros() as usize;
        // Clears the lowest bit of `rest`.
        self.rest &= self.rest - 1;
        Some(self.next - WORD_BITS + lowest)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = |word: &u64| word.count_ones() as usize;
        let left = count(&self.rest) + self.words.iter().map(count).sum::<usize>();
        (left, Some(left))
    }
}

impl ExactSizeIterator for CpuSetIter<'_> {}
impl FusedIterator for CpuSetIter<'_> {}

impl<'set> IntoIterator for &'set CpuSet {
    type Item = usize;
    type IntoIter = CpuSetIter<'set>;

    fn into_iter(self) -> CpuSetIter<'set> {
        self.iter()
    }
}

impl IntoIterator for CpuSet {
    type Item = usize;
    type IntoIter = vec::IntoIter<usize>;

    fn into_iter(self) -> vec::IntoIter<usize> {
        self.iter().collect::<Vec<_>>().into_iter()
    }
}
