//! An event that happens once, and that any number of threads wait for.
//!
//! `set` releases and `is_set` acquires:
//!
//! * setting thread: writes, then sets the signal;
//! * waiting thread: finds the signal set, then reads what was written.

use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};

/// Shared by the thread that sets it and the threads that wait.
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
