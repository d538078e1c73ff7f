//! Something that happens once, and that any number of threads wait for.
//!
//! Setting releases, and who sees it set has acquired: what was done before is seen after the wait.

use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};

/// Shared by whoever sets it and those who wait.
#[derive(Debug)]
pub(crate) struct Signal(AtomicU64);

impl Signal {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn set(&self) {
        self.0.store(1, Ordering::Release);
        wait::wake_all(self.key());
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }

    /// Sleeps until it is set. False if the time ran out first.
    pub(crate) fn wait(&self, until: Until) -> bool {
        while !self.is_set() {
            if !wait::sleep(self.key(), || !self.is_set(), until) {
                return self.is_set();
            }
        }
        true
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}
