//! The crate's locks in unit tests. A simulated machine sees that its threads wait for these locks. For threads outside
//! of all machines, these locks work like those of parking_lot.

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Key, machine, point, sleep, wake, wake_under_locks};

thread_local! {
    static WAITS: Cell<u64> = const { Cell::new(0) };
}

/// Returns how many times the calling thread has taken a lock through a call that can wait.
pub(crate) fn locks_taken() -> u64 {
    WAITS.get()
}

/// A lock with two *points*, at which another thread may go on. A thread passes one point before it takes the lock, and
/// the other point after it has released the lock.
#[derive(Default)]
pub(crate) struct Mutex<T> {
    lock: parking_lot::Mutex<T>,
    /// The machine of the thread that holds the lock, or 0 if this thread belongs to no machine.
    owner: AtomicUsize,
}

pub(crate) struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    /// The guard of the inner lock. `None` only while the thread waits for a [`Condvar`].
    guard: Option<parking_lot::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { lock: parking_lot::Mutex::new(value), owner: AtomicUsize::new(0) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.touch();
        self.take()
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.touch();
        self.lock.try_lock().map(|guard| self.guard(guard))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }

    pub(crate) fn into_inner(self) -> T {
        self.lock.into_inner()
    }

    fn touch(&self) {
        super::touch(std::ptr::from_ref(&self.owner) as usize, true);
        point();
    }

    fn take(&self) -> MutexGuard<'_, T> {
        // `WAITS` may no longer exist while the thread's other thread-local values are destroyed.
        let _counted = WAITS.try_with(|waits| waits.set(waits.get() + 1));
        loop {
            if let Some(guard) = self.lock.try_lock() {
                return self.guard(guard);
            }
            match machine() {
                // No other thread of the machine runs between the failed attempt to take the lock and the sleep.
                Some(own) if self.owner.load(Ordering::Relaxed) == own => {
                    _ = sleep(self.key(), &mut || true, None);
                }
                // This thread and the holder do not run on the same made-up machine, so the holder can run while this
                // thread blocks.
                _ => return self.guard(self.lock.lock()),
            }
        }
    }

    fn guard<'a>(&'a self, guard: parking_lot::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.owner.store(machine().unwrap_or(0), Ordering::Relaxed);
        MutexGuard { lock: self, guard: Some(guard) }
    }

    fn key(&self) -> Key {
        Key::Address(std::ptr::from_ref(&self.owner) as usize)
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("no wait goes on")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("no wait goes on")
    }
}

impl<T> MutexGuard<'_, T> {
    /// Clears the lock's owner, and then releases the lock. In the other order, a thread of another machine could
    /// already hold the lock while a thread of this machine still reads that the owner is its own machine.
    fn release(&mut self) {
        self.lock.owner.store(0, Ordering::Relaxed);
        self.guard = None;
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.release();
        wake_under_locks(self.lock.key(), false);
    }
}

/// A condition variable for the locks of this module.
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
            return self.condvar.wait(guard.guard.as_mut().expect("no wait goes on"));
        }
        guard.release();
        // A thread that waits for the lock becomes ready, but does not run before this thread sleeps.
        super::quietly(|| wake(guard.lock.key(), false));
        _ = sleep(self.key(), &mut || true, None);
        let mut taken = guard.lock.take();
        guard.guard = taken.guard.take();
        std::mem::forget(taken);
    }

    pub(crate) fn notify_one(&self) {
        self.condvar.notify_one();
        wake(self.key(), false);
    }

    pub(crate) fn notify_all(&self) {
        self.condvar.notify_all();
        wake(self.key(), true);
    }

    fn key(&self) -> Key {
        Key::Address(std::ptr::from_ref(&self.key) as usize)
    }
}
