//! The system's name for a thread, for as long as the thread works here: afterwards it may soon be another thread's.
//!
//! What could go wrong: manager: reads the number of a worker's thread. Worker: ends. System: gives the number to a new
//! thread of another part of the program. Manager: binds that thread to a CPU. So the name is used under a lock, which the
//! thread takes before it leaves.

use crate::sys::sync::Mutex;

/// See the module.
#[derive(Debug)]
pub(crate) struct AliveCell<T>(Mutex<Option<T>>);

impl<T: Copy> AliveCell<T> {
    pub(crate) fn new(name: T) -> Self {
        Self(Mutex::new(Some(name)))
    }

    /// Calls `act` with the name, and returns what that returns. `None`: the thread works here no more.
    pub(crate) fn with<R>(&self, act: impl FnOnce(T) -> R) -> Option<R> {
        let name = self.0.lock();
        (*name).map(act)
    }

    /// By the thread: from the return of this on, no other thread uses its name.
    pub(crate) fn leave(&self) {
        *self.0.lock() = None;
    }
}
