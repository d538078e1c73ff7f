//! A cell that holds the *name* of a thread: the number by which the operating system knows the thread. The cell holds
//! the name while the thread works for the executor.
//!
//! After the thread has ended, the system may give the name to another thread. The following must not happen:
//!
//! * manager: reads the name of a worker's thread;
//! * worker: ends;
//! * system: gives the name to a new thread of another part of the program;
//! * manager: binds that new thread to a CPU.
//!
//! So the manager uses the name under a lock, and the worker's thread takes the same lock before it ends.

use crate::sys::sync::Mutex;

/// See the module.
#[derive(Debug)]
pub(crate) struct AliveCell<T>(Mutex<Option<T>>);

impl<T: Copy> AliveCell<T> {
    pub(crate) fn new(name: T) -> Self {
        Self(Mutex::new(Some(name)))
    }

    /// Calls `act` with the thread's name, and returns the result of `act`. Returns `None` if the thread has removed
    /// its name.
    pub(crate) fn with<R>(&self, act: impl FnOnce(T) -> R) -> Option<R> {
        let name = self.0.lock();
        (*name).map(act)
    }

    /// Removes the name. The named thread calls this function before it ends. After the call, no other thread uses the
    /// name.
    pub(crate) fn leave(&self) {
        *self.0.lock() = None;
    }
}
