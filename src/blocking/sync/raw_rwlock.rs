//! [`RawRwLock`]: parking_lot's raw lock, with a guard around its waits.
#![allow(unsafe_code, reason = "the traits of lock_api are unsafe to implement")]

use std::time::{Duration, Instant};

use lock_api::{
    RawRwLock as _, RawRwLockRecursive as _, RawRwLockRecursiveTimed as _, RawRwLockTimed as _,
    RawRwLockUpgrade as _, RawRwLockUpgradeDowngrade as _, RawRwLockUpgradeTimed as _,
};

use super::contended;
use crate::blocking::guard::{blocking, may_block};
use crate::sys::machine;
use crate::sys::sync::{Ordering, fence};

/// The raw lock of a [`RwLock`](super::RwLock): parking_lot's raw lock, with a guard around its waits.
///
/// Use this raw lock to build other lock types with [`lock_api`].
///
/// # Examples
///
/// ```
/// use cmwq::blocking::sync::{RawRwLock, lock_api};
///
/// let lock: lock_api::RwLock<RawRwLock, _> = lock_api::RwLock::new(5);
/// assert_eq!(*lock.read(), 5);
/// ```
pub struct RawRwLock(parking_lot::RawRwLock);

impl RawRwLock {
    #[inline]
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn lock_shared_contended(&self, deadline: Option<Instant>) -> bool {
        let attempt = || self.0.try_lock_shared();
        contended::take(self.key(), deadline, attempt, |until| match until {
            Some(until) => self.0.try_lock_shared_until(until),
            None => {
                self.0.lock_shared();
                true
            }
        })
    }

    fn lock_exclusive_contended(&self, deadline: Option<Instant>) -> bool {
        let attempt = || self.0.try_lock_exclusive();
        contended::take(self.key(), deadline, attempt, |until| match until {
            Some(until) => self.0.try_lock_exclusive_until(until),
            None => {
                self.0.lock_exclusive();
                true
            }
        })
    }

    fn lock_shared_recursive_contended(&self, deadline: Option<Instant>) -> bool {
        let attempt = || self.0.try_lock_shared_recursive();
        contended::take(self.key(), deadline, attempt, |until| match until {
            Some(until) => self.0.try_lock_shared_recursive_until(until),
            None => {
                self.0.lock_shared_recursive();
                true
            }
        })
    }

    fn lock_upgradable_contended(&self, deadline: Option<Instant>) -> bool {
        let attempt = || self.0.try_lock_upgradable();
        contended::take(self.key(), deadline, attempt, |until| match until {
            Some(until) => self.0.try_lock_upgradable_until(until),
            None => {
                self.0.lock_upgradable();
                true
            }
        })
    }

    /// Upgrades the lock if there are no other readers. Returns whether the lock was upgraded.
    ///
    /// # Safety
    ///
    /// The caller holds the upgradable lock.
    #[inline]
    unsafe fn upgrade_at_once(&self) -> bool {
        // SAFETY: the caller holds the upgradable lock.
        upgraded(unsafe { self.0.try_upgrade() })
    }

    /// # Safety
    ///
    /// The caller holds the upgradable lock.
    unsafe fn upgrade_contended(&self, deadline: Option<Instant>) -> bool {
        // SAFETY: the caller holds the upgradable lock.
        let attempt = || unsafe { self.0.try_upgrade() };
        let success = contended::wait(self.key(), deadline, attempt, |until| match until {
            // SAFETY: the caller holds the upgradable lock, and keeps it if an attempt fails. After a success there is
            // no other attempt.
            Some(until) => unsafe { self.0.try_upgrade_until(until) },
            None => {
                // SAFETY: the caller holds the upgradable lock.
                unsafe { self.0.upgrade() };
                true
            }
        });
        upgraded(success)
    }

    /// Releases the upgradable lock by calling `unlock`.
    ///
    /// If threads wait, parking_lot 0.12 releases an upgradable lock with a relaxed read-modify-write. The fence adds
    /// the release ordering that this read-modify-write lacks:
    ///
    /// ```text
    /// reader:  reads the value, and unlocks (fence, relaxed)
    /// writer:  locks (acquire), and writes the value
    /// ```
    ///
    /// Without the fence, the reader could read the value that the writer writes.
    ///
    /// # Safety
    ///
    /// The caller holds the upgradable lock, and `unlock` unlocks it.
    #[inline]
    unsafe fn release_upgradable(&self, unlock: unsafe fn(&parking_lot::RawRwLock)) {
        if cfg!(cmwq_tsan) {
            // ThreadSanitizer does not support fences, so this build makes the lock a shared lock. parking_lot releases
            // a shared lock without a fence.
            // SAFETY: the caller holds the upgradable lock, and then the shared lock.
            unsafe {
                self.0.downgrade_upgradable();
                self.0.unlock_shared();
            }
        } else {
            fence(Ordering::Release);
            // SAFETY: the caller holds the upgradable lock.
            unsafe { unlock(&self.0) }
        }
        contended::released(self.key());
    }
}

/// Issues a fence after a successful upgrade, and returns `success`. parking_lot 0.12 upgrades with a relaxed
/// read-modify-write if there is a deadline, or if the first compare-and-exchange of `try_upgrade` fails. The fence
/// adds the acquire ordering that such an upgrade lacks:
///
/// ```text
/// reader:  reads the value, and unlocks (release)
/// writer:  upgrades (relaxed, fence), and writes the value
/// ```
///
/// Without the fence, the reader could read the value that the writer writes.
#[inline]
fn upgraded(success: bool) -> bool {
    if success {
        fence(Ordering::Acquire);
    }
    success
}

// SAFETY: each function calls the function of parking_lot's raw lock that has the same contract.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes a lock of its own")]
    const INIT: Self = Self(parking_lot::RawRwLock::INIT);

    type GuardMarker = <parking_lot::RawRwLock as lock_api::RawRwLock>::GuardMarker;

    #[inline]
    fn lock_shared(&self) {
        if !self.try_lock_shared() {
            self.lock_shared_contended(None);
        }
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        contended::at_once(self.key(), || self.0.try_lock_shared())
    }

    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller holds a shared lock.
        unsafe { self.0.unlock_shared() }
        contended::released(self.key());
    }

    #[inline]
    fn lock_exclusive(&self) {
        if !self.try_lock_exclusive() {
            self.lock_exclusive_contended(None);
        }
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        contended::at_once(self.key(), || self.0.try_lock_exclusive())
    }

    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller holds the exclusive lock.
        unsafe { self.0.unlock_exclusive() }
        contended::released(self.key());
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.0.is_locked_exclusive()
    }
}

// SAFETY: each function calls the function of parking_lot's raw lock that has the same contract. The two `bump`
// functions are the trait's defaults, each of which unlocks and locks.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn unlock_shared_fair(&self) {
        // SAFETY: the caller holds a shared lock.
        unsafe { self.0.unlock_shared_fair() }
        contended::released(self.key());
    }

    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn unlock_exclusive_fair(&self) {
        // SAFETY: the caller holds the exclusive lock.
        unsafe { self.0.unlock_exclusive_fair() }
        contended::released(self.key());
    }
}

// SAFETY: the function calls parking_lot's raw lock, which fulfils the contract of this trait.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn downgrade(&self) {
        // SAFETY: the caller holds the exclusive lock.
        unsafe { self.0.downgrade() }
        contended::downgraded(self.key());
    }
}

// SAFETY: the functions call parking_lot's raw lock, which fulfils the contract of this trait.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.try_lock_shared() || self.lock_shared_contended(contended::deadline(timeout))
    }

    fn try_lock_shared_until(&self, deadline: Instant) -> bool {
        self.try_lock_shared() || self.lock_shared_contended(Some(deadline))
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.try_lock_exclusive() || self.lock_exclusive_contended(contended::deadline(timeout))
    }

    fn try_lock_exclusive_until(&self, deadline: Instant) -> bool {
        self.try_lock_exclusive() || self.lock_exclusive_contended(Some(deadline))
    }
}

// SAFETY: the functions call parking_lot's raw lock, which fulfils the contract of this trait.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    #[inline]
    fn lock_shared_recursive(&self) {
        if !self.try_lock_shared_recursive() {
            self.lock_shared_recursive_contended(None);
        }
    }

    #[inline]
    fn try_lock_shared_recursive(&self) -> bool {
        contended::at_once(self.key(), || self.0.try_lock_shared_recursive())
    }
}

// SAFETY: the functions call parking_lot's raw lock, which fulfils the contract of this trait.
unsafe impl lock_api::RawRwLockRecursiveTimed for RawRwLock {
    fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
        self.try_lock_shared_recursive() || self.lock_shared_recursive_contended(contended::deadline(timeout))
    }

    fn try_lock_shared_recursive_until(&self, deadline: Instant) -> bool {
        self.try_lock_shared_recursive() || self.lock_shared_recursive_contended(Some(deadline))
    }
}

// SAFETY: the functions call parking_lot's raw lock, which fulfils the contract of this trait except for some memory
// orderings. `upgraded` and `release_upgradable` add these orderings.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    #[inline]
    fn lock_upgradable(&self) {
        if !self.try_lock_upgradable() {
            self.lock_upgradable_contended(None);
        }
    }

    #[inline]
    fn try_lock_upgradable(&self) -> bool {
        contended::at_once(self.key(), || self.0.try_lock_upgradable())
    }

    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn unlock_upgradable(&self) {
        // SAFETY: the caller holds the upgradable lock.
        unsafe { self.release_upgradable(parking_lot::RawRwLock::unlock_upgradable) }
    }

    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn upgrade(&self) {
        if cfg!(cmwq_tsan) {
            // ThreadSanitizer does not support fences, so this build calls parking_lot's `upgrade`, which acquires
            // without a fence.
            // SAFETY: the caller holds the upgradable lock.
            return blocking(|| unsafe { self.0.upgrade() });
        }
        // SAFETY: the caller holds the upgradable lock.
        if unsafe { !self.upgrade_at_once() } {
            // SAFETY: the caller still holds the upgradable lock, because the attempt failed.
            unsafe { self.upgrade_contended(None) };
        }
    }

    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: the caller holds the upgradable lock.
        unsafe { self.upgrade_at_once() }
    }
}

// SAFETY: the functions call parking_lot's raw lock, which fulfils the contract of this trait except for a release
// ordering. `release_upgradable` and `bump_upgradable` add this ordering.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLock {
    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn unlock_upgradable_fair(&self) {
        // SAFETY: the caller holds the upgradable lock.
        unsafe { self.release_upgradable(parking_lot::RawRwLock::unlock_upgradable_fair) }
    }

    /// Hands the lock to a waiting thread, and waits until the lock is free again. The trait's default calls
    /// `unlock_upgradable_fair`, which parking_lot 0.12 makes fair only from time to time. With this default, the
    /// calling thread would usually have the lock again before the waiting thread is awake.
    ///
    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn bump_upgradable(&self) {
        // parking_lot's function needs a fence in front of it, and a made-up machine must learn of the release.
        if cfg!(cmwq_tsan) || machine::current().is_some() {
            // SAFETY: the caller holds the upgradable lock.
            unsafe { self.unlock_upgradable_fair() }
            return self.lock_upgradable();
        }
        fence(Ordering::Release);
        // parking_lot does not tell whether a thread waits for the lock. If no thread waits, the item keeps its place.
        // SAFETY: the caller holds the upgradable lock.
        may_block(|| unsafe { self.0.bump_upgradable() });
    }
}

// SAFETY: the functions call parking_lot's raw lock, which fulfils the contract of this trait.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn downgrade_upgradable(&self) {
        // SAFETY: the caller holds the upgradable lock.
        unsafe { self.0.downgrade_upgradable() }
        contended::downgraded(self.key());
    }

    /// # Safety
    ///
    /// The trait states the conditions.
    #[inline]
    unsafe fn downgrade_to_upgradable(&self) {
        // SAFETY: the caller holds the exclusive lock.
        unsafe { self.0.downgrade_to_upgradable() }
        contended::downgraded(self.key());
    }
}

// SAFETY: the functions call parking_lot's raw lock, which fulfils the contract of this trait except for an acquire
// ordering. `upgraded` adds this ordering.
unsafe impl lock_api::RawRwLockUpgradeTimed for RawRwLock {
    fn try_lock_upgradable_for(&self, timeout: Duration) -> bool {
        self.try_lock_upgradable() || self.lock_upgradable_contended(contended::deadline(timeout))
    }

    fn try_lock_upgradable_until(&self, deadline: Instant) -> bool {
        self.try_lock_upgradable() || self.lock_upgradable_contended(Some(deadline))
    }

    /// # Safety
    ///
    /// The trait states the conditions.
    unsafe fn try_upgrade_for(&self, timeout: Duration) -> bool {
        // SAFETY: the caller holds the upgradable lock, and keeps it if the first attempt fails.
        unsafe { self.upgrade_at_once() || self.upgrade_contended(contended::deadline(timeout)) }
    }

    /// # Safety
    ///
    /// The trait states the conditions.
    unsafe fn try_upgrade_until(&self, deadline: Instant) -> bool {
        // SAFETY: the caller holds the upgradable lock, and keeps it if the first attempt fails.
        unsafe { self.upgrade_at_once() || self.upgrade_contended(Some(deadline)) }
    }
}
