//! [`RawMutex`]: parking_lot's raw mutex, with a guard around its waits.
#![allow(unsafe_code, reason = "the traits of lock_api are unsafe to implement")]

use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use lock_api::{RawMutex as _, RawMutexTimed as _};

use super::contended;

/// The raw lock of a [`Mutex`](super::Mutex): parking_lot's raw mutex, with a guard around its waits.
///
/// Use this raw lock to build other lock types with [`lock_api`].
///
/// # Examples
///
/// ```
/// use cmwq::blocking::sync::{RawMutex, lock_api};
///
/// let once: lock_api::Mutex<RawMutex, _> = lock_api::Mutex::new(Some("token"));
/// assert_eq!(once.lock().take(), Some("token"));
/// ```
// This type contains the whole mutex of parking_lot, not only the raw lock, because parking_lot's condition variable
// takes only a guard of parking_lot's own mutex.
pub struct RawMutex(parking_lot::Mutex<()>);

impl RawMutex {
    #[inline]
    fn raw(&self) -> &parking_lot::RawMutex {
        // SAFETY: only the trait's functions unlock the raw lock, and the callers of these functions hold the lock. A
        // guard of the inner mutex exists only in `with_guard`, which says why such a guard is sound.
        unsafe { self.0.raw() }
    }

    /// Calls `f` with a guard of the inner mutex. Leaves the mutex locked.
    ///
    /// # Safety
    ///
    /// The calling thread holds the lock. Until this function has returned or unwound, no code but `f` unlocks the lock
    /// on behalf of this thread. When `f` returns or unwinds, the thread holds the lock.
    pub(super) unsafe fn with_guard<R>(
        &self,
        f: impl FnOnce(&mut parking_lot::MutexGuard<'_, ()>) -> R,
    ) -> R {
        // SAFETY: the caller holds the lock. The guard is never dropped, so the caller still holds the lock afterwards.
        let mut guard = ManuallyDrop::new(unsafe { self.0.make_guard_unchecked() });
        f(&mut guard)
    }

    fn lock_contended(&self, deadline: Option<Instant>) -> bool {
        let attempt = || self.raw().try_lock();
        contended::take(self.key(), deadline, attempt, |until| match until {
            Some(until) => self.raw().try_lock_until(until),
            None => {
                self.raw().lock();
                true
            }
        })
    }

    #[inline]
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

// SAFETY: each function calls the function of parking_lot's raw lock that has the same contract.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes a lock of its own")]
    const INIT: Self = Self(parking_lot::const_mutex(()));

    type GuardMarker = <parking_lot::RawMutex as lock_api::RawMutex>::GuardMarker;

    #[inline]
    fn lock(&self) {
        // With a timeout of zero, this call does everything that parking_lot's `lock` does before it sleeps: one
        // compare-and-swap if the lock is free, and otherwise a few more attempts. `try_lock` would load the word
        // first, which makes a free lock 50 % more expensive.
        if !contended::at_once(self.key(), || self.raw().try_lock_for(Duration::ZERO)) {
            self.lock_contended(None);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        contended::at_once(self.key(), || self.raw().try_lock())
    }

    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.raw().unlock() }
        contended::released(self.key());
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.raw().is_locked()
    }
}

// SAFETY: the function calls the function of parking_lot's raw lock that has the same contract. `bump` is the trait's
// default, which calls `unlock_fair` and `lock`.
unsafe impl lock_api::RawMutexFair for RawMutex {
    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn unlock_fair(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.raw().unlock_fair() }
        contended::released(self.key());
    }
}

// SAFETY: the functions call parking_lot's raw lock, which fulfils the contract of this trait.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.try_lock() || self.lock_contended(contended::deadline(timeout))
    }

    fn try_lock_until(&self, deadline: Instant) -> bool {
        self.try_lock() || self.lock_contended(Some(deadline))
    }
}
