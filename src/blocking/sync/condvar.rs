//! [`Condvar`]: parking_lot's condition variable, for the mutexes of this module.
#![allow(unsafe_code, reason = "a guard of the inner mutex is made where the outer one is locked")]

use std::time::{Duration, Instant};

use super::MutexGuard;
use crate::blocking::guard::blocking;

/// Tells whether a wait ended because its time was over.
///
/// # Examples
///
/// ```
/// use cmwq::blocking::sync::{Condvar, Mutex};
/// use std::time::Duration;
///
/// let (mutex, condvar) = (Mutex::new(()), Condvar::new());
/// assert!(condvar.wait_for(&mut mutex.lock(), Duration::from_millis(1)).timed_out());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns whether the wait ended because its time was over.
    #[must_use]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

/// A condition variable whose waits have a guard. Used with this module's [`Mutex`](super::Mutex).
///
/// Each wait is under a guard, from before the mutex is released until it is locked again; a wait costs far more than
/// the 20 ns of its guard. Waits may end without a notification; [`wait_while`](Self::wait_while) checks its condition
/// again, outside of the guard. A notification costs what parking_lot's costs.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::sync::{Condvar, Mutex};
///
/// static READY: Mutex<bool> = Mutex::new(false);
/// static CHANGED: Condvar = Condvar::new();
///
/// let queue = cmwq::WorkQueue::ordered("one at a time").build()?;
/// let others = cmwq::WorkQueue::new("others").build()?;
/// let waits = queue.spawn(|| CHANGED.wait_while(&mut READY.lock(), |ready| !*ready))?;
/// others.spawn(|| {
///     *READY.lock() = true;
///     CHANGED.notify_all();
/// })?;
/// waits.join()?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "wait_event")]
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// Makes a condition variable without waiting threads.
    #[must_use]
    #[inline]
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// Wakes one waiting thread. Returns whether there was one.
    #[doc(alias = "wake_up")]
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.0.notify_one()
    }

    /// Wakes all waiting threads. Returns how many there were.
    #[doc(alias = "wake_up_all")]
    #[inline]
    pub fn notify_all(&self) -> usize {
        self.0.notify_all()
    }

    /// Releases the mutex, waits for a notification, and locks it again.
    ///
    /// # Panics
    ///
    /// If another thread waits on this with another mutex. The mutex is then unlocked by its guard, as usual.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.locked(guard, |inner| self.0.wait(inner));
    }

    /// As [`wait`](Self::wait), but waits for `timeout` at most. Returns whether it timed out.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeoutResult {
        self.locked(guard, |inner| WaitTimeoutResult(self.0.wait_for(inner, timeout).timed_out()))
    }

    /// As [`wait`](Self::wait), but waits until `deadline` at most. Returns whether it timed out.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.locked(guard, |inner| WaitTimeoutResult(self.0.wait_until(inner, deadline).timed_out()))
    }

    /// Waits as long as `condition` holds. Does not wait if it does not hold now.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait), and if `condition` does.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// As [`wait_while`](Self::wait_while), but waits for `timeout` at most. Returns whether it timed out. The
    /// condition may be false even then.
    ///
    /// # Panics
    ///
    /// As [`wait_while`](Self::wait_while).
    #[allow(clippy::disallowed_methods, reason = "it is the clock that a caller's own deadline is read from")]
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        // A deadline beyond the clock's range never comes.
        self.wait_while_by(guard, condition, Instant::now().checked_add(timeout))
    }

    /// As [`wait_while`](Self::wait_while), but waits until `deadline` at most. Returns whether it timed out. The
    /// condition may be false even then.
    ///
    /// # Panics
    ///
    /// As [`wait_while`](Self::wait_while).
    pub fn wait_while_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.wait_while_by(guard, condition, Some(deadline))
    }

    fn wait_while_by<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        deadline: Option<Instant>,
    ) -> WaitTimeoutResult {
        let mut result = WaitTimeoutResult(false);
        while !result.timed_out() && condition(guard) {
            match deadline {
                Some(deadline) => result = self.wait_until(guard, deadline),
                None => self.wait(guard),
            }
        }
        result
    }

    /// Waits by parking_lot's condition variable, which needs a guard of its own mutex.
    fn locked<T: ?Sized, R>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        wait: impl FnOnce(&mut parking_lot::MutexGuard<'_, ()>) -> R,
    ) -> R {
        // SAFETY: we do not unlock the raw lock; `with_guard` leaves it as it was.
        let raw = unsafe { MutexGuard::mutex(guard).raw() };
        // SAFETY: the exclusive borrow of `guard` shows that this thread holds the lock. parking_lot returns and
        // unwinds with the lock held.
        blocking(|| unsafe { raw.with_guard(wait) })
    }
}
