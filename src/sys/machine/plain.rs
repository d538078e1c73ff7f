//! The locks in builds for users' tests. These locks are those of parking_lot, and cost as much as in other builds.
//!
//! A machine need not know which threads hold these locks. Only the thread that has the machine's *baton* runs, and a
//! thread that gives the baton away holds none of the crate's locks. So a thread never finds one of these locks taken
//! by another thread of the same machine. At each hand-over of the baton, a debug build checks that the thread holds
//! none of these locks. Only waits for a condition variable are visible to the machine.

use super::{Key, machine, sleep, wake};

pub(crate) use parking_lot::{Mutex, MutexGuard};

/// A condition variable for the locks of parking_lot.
#[derive(Default, Debug)]
pub(crate) struct Condvar {
    condvar: parking_lot::Condvar,
    /// A field whose address identifies the condition variable on a machine.
    key: u8,
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self { condvar: parking_lot::Condvar::new(), key: 0 }
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if machine().is_none() {
            return self.condvar.wait(guard);
        }
        // No other thread of the machine runs between the release of the lock and the sleep.
        MutexGuard::unlocked(guard, || sleep(self.key(), &mut || true, None));
    }

    pub(crate) fn notify_all(&self) {
        self.condvar.notify_all();
        wake(self.key(), true);
    }

    fn key(&self) -> Key {
        Key::Address(std::ptr::from_ref(&self.key) as usize)
    }
}
