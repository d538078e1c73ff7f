//! The cell of a pool's [`Searching`] word, which says which worker searches before it sleeps.
//!
//! The word is only a hint, so all accesses are relaxed. If a worker reads an outdated word, it sleeps too early, or
//! searches beside another worker until its own limit. No wake-up depends on the word: a searching worker is on the idle
//! stack, and is woken like a worker that sleeps.

use std::time::Duration;

use crate::policy::idle_set::WorkerId;
use crate::policy::search::Searching;
use crate::sys::sync::{AtomicU64, Ordering};

/// The worker of a pool that searches, and the patience of the pool.
#[derive(Debug)]
pub(crate) struct SearchCell(AtomicU64);

impl SearchCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Searching::NEW.into_bits()))
    }

    /// Returns whether the worker, which has just become idle, searches.
    pub(crate) fn begin(&self, worker: WorkerId) -> bool {
        self.update(|word| word.begin(worker))
    }

    /// Returns whether this worker still searches.
    #[inline]
    pub(crate) fn is_by(&self, worker: WorkerId) -> bool {
        Searching::from_bits(self.0.load(Ordering::Relaxed)).is_by(worker)
    }

    /// Notes that the worker ends its search, which has used this much CPU time.
    pub(crate) fn end(&self, worker: WorkerId, found: bool, used: Duration) {
        self.update(|word| (word.end(worker, found, used), ()));
    }

    fn update<A>(&self, transition: impl FnMut(Searching) -> (Searching, A)) -> A {
        super::update(&self.0, Ordering::Relaxed, Searching::from_bits, Searching::into_bits, transition)
    }
}
