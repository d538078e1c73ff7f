//! Locks that each thread takes in the order of their [`Rank`]s.
//!
//! In a debug build, a thread panics if it takes a lock against the order of the locks that it holds, even if no other
//! thread uses these locks. The panic message names the lock that the thread takes and the lock that it holds. A
//! release build has plain locks, and does not check their order.

use std::fmt;
use std::ops::{Deref, DerefMut};

#[cfg(not(any(test, feature = "testing")))]
use parking_lot as plain;

use crate::policy::locks::Rank;

use super::held_locks::{Held, Place};
#[cfg(test)]
use super::machine as plain;
#[cfg(all(feature = "testing", not(test)))]
use super::machine::plain;
use super::yields::around_lock;

pub(crate) struct Mutex<T> {
    place: Place,
    lock: plain::Mutex<T>,
}

pub(crate) struct MutexGuard<'a, T> {
    guard: plain::MutexGuard<'a, T>,
    held: Held,
}

/// A condition for which threads wait.
#[derive(Default, Debug)]
pub(crate) struct Condvar(plain::Condvar);

impl<T> Mutex<T> {
    /// Makes a lock of the rank [`Rank::Last`].
    #[inline]
    #[track_caller]
    pub(crate) const fn new(value: T) -> Self {
        Self::ranked(Rank::Last, value)
    }

    #[inline]
    #[track_caller]
    pub(crate) const fn ranked(rank: Rank, value: T) -> Self {
        Self { place: Place::new(rank), lock: plain::Mutex::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.place.check();
        MutexGuard { guard: around_lock(|| self.lock.lock()), held: self.place.hold() }
    }

    /// Takes the lock if no thread holds it. A thread may try locks in any order, because it does not wait for them.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = around_lock(|| self.lock.try_lock())?;
        Some(MutexGuard { guard, held: self.place.hold() })
    }

    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }

    #[allow(dead_code, reason = "used with some features only")]
    #[inline]
    pub(crate) fn into_inner(self) -> T {
        self.lock.into_inner()
    }
}

impl<T: Default> Default for Mutex<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Condvar {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self(plain::Condvar::new())
    }

    /// Releases the lock, waits until a thread notifies the condition variable, and then takes the lock again.
    #[inline]
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let MutexGuard { guard, held } = guard;
        held.apart(|| self.0.wait(guard));
    }

    #[cfg(test)]
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    #[inline]
    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Takes the lock `inner` while the thread holds the lock `outer`. If the thread panics, returns the message of the
    /// panic.
    fn nested(outer: &Mutex<u8>, inner: &Mutex<u8>) -> Result<(), String> {
        let take = || {
            let _outer = outer.lock();
            drop(inner.lock());
        };
        let caught = catch_unwind(AssertUnwindSafe(take));
        caught.map_err(|payload| *payload.downcast::<String>().expect("it has a message"))
    }

    #[test]
    fn a_lock_that_is_taken_against_the_order_is_reported_with_the_one_that_is_held() {
        let (class, pool, last) =
            (Mutex::ranked(Rank::Class, 0), Mutex::ranked(Rank::Pool, 0), Mutex::new(0));
        assert_eq!((nested(&class, &pool), nested(&pool, &last)), (Ok(()), Ok(())));
        let message = nested(&pool, &class).unwrap_err();
        let here = |rank| format!("the lock {rank} of {}:", file!());
        assert!(message.starts_with(&format!("a thread takes {}", here("Class"))), "{message}");
        assert!(message.contains(&format!("while it holds {}", here("Pool"))), "{message}");
        assert!(nested(&last, &pool).is_err() && nested(&last, &Mutex::new(0)).is_err());
        assert!(nested(&pool, &pool).is_err(), "a thread that would wait for itself");
        // A released lock no longer counts as held, even if a panic released it.
        assert_eq!(nested(&class, &pool), Ok(()));
    }

    #[test]
    fn a_lock_is_forgotten_when_it_is_released_in_any_order() {
        let (class, pool) = (Mutex::ranked(Rank::Class, 0), Mutex::ranked(Rank::Pool, 0));
        let outer = class.lock();
        let inner = pool.lock();
        drop(outer);
        assert!(class.try_lock().is_some(), "a thread that does not wait needs no order");
        drop(inner);
        drop(class.lock());
    }
}
