//! An event that happens once, and for which any number of threads can wait.
//!
//! `set` releases and `is_set` acquires:
//!
//! * setting thread: makes its writes, then sets the signal;
//! * waiting thread: finds the signal set, then sees these writes.

use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};

/// The signal, which the setting thread and the waiting threads share.
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

    /// Sleeps until the signal is set. Returns false if the time ran out first.
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
