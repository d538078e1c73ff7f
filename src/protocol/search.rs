//! The cell of a pool's [`Searching`] word, which names the worker that searches for work before it sleeps.
//!
//! The word is only a hint, so all accesses are relaxed. A worker that reads an outdated word either sleeps too early,
//! or searches at the same time as another worker, but searches only up to its own limit. No wake-up depends on the
//! word: a searching worker is on the idle stack, and is woken like a sleeping worker.

use std::time::Duration;

use crate::policy::idle_set::WorkerId;
use crate::policy::search::Searching;
use crate::sys::sync::{AtomicU64, Ordering};

/// The word of a pool. The word holds the number of the worker that searches, and the pool's *patience*, which says
/// whether a search is worth its time.
#[derive(Debug)]
pub(crate) struct SearchCell(AtomicU64);

impl SearchCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Searching::NEW.into_bits()))
    }

    /// Begins a search for a worker that has just become idle, if a search is worth its time. Returns whether the
    /// worker searches.
    pub(crate) fn begin(&self, worker: WorkerId) -> bool {
        self.update(|word| word.begin(worker))
    }

    /// Returns whether this worker is still the pool's searching worker.
    #[inline]
    pub(crate) fn is_by(&self, worker: WorkerId) -> bool {
        Searching::from_bits(self.0.load(Ordering::Relaxed)).is_by(worker)
    }

    /// Notes that the worker ends its search. `used` is the CPU time that the search has used.
    pub(crate) fn end(&self, worker: WorkerId, found: bool, used: Duration) {
        self.update(|word| (word.end(worker, found, used), ()));
    }

    fn update<A>(&self, transition: impl FnMut(Searching) -> (Searching, A)) -> A {
        super::update(&self.0, Ordering::Relaxed, Searching::from_bits, Searching::into_bits, transition)
    }
}
