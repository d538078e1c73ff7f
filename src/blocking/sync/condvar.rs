//! [`Condvar`]: parking_lot's condition variable, for the mutexes of this module.
#![allow(unsafe_code, reason = "a guard of the inner mutex is made where the outer one is locked")]

use std::time::{Duration, Instant};

use super::MutexGuard;
use crate::blocking::guard::blocking;

/// Tells whether a wait ended because its time limit was reached.
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
    /// Returns whether the wait ended because its time limit was reached.
    #[must_use]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

/// A condition variable for this module's [`Mutex`](super::Mutex), on which threads wait under a guard.
///
/// Each wait is under a guard from before the mutex is released until it is locked again. The guard costs about 20 ns,
/// far less than the wait. A wait may end without a notification, so [`wait_while`](Self::wait_while) then checks its
/// condition again, outside the guard. A notification costs the same as with parking_lot.
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
/// let others = cmwq::WorkQueue::new("others");
/// let waits = queue.spawn(|| CHANGED.wait_while(&mut READY.lock(), |ready| !*ready))?;
/// others.spawn(|| {
///     *READY.lock() = true;
///     CHANGED.notify_all();
/// })?;
/// waits.join()?;
/// # Ok(())
/// # }
/// ```
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::sync::{Condvar, Mutex};
/// use std::time::{Duration, Instant};
///
/// static JOBS: Mutex<u32> = Mutex::new(0);
/// static ADDED: Condvar = Condvar::new();
///
/// let queue = cmwq::WorkQueue::new("jobs");
/// let takes = queue.spawn(|| {
///     let mut jobs = JOBS.lock();
///     while *jobs == 0 {
///         ADDED.wait(&mut jobs);
///     }
///     *jobs -= 1;
/// })?;
/// *JOBS.lock() += 1;
/// ADDED.notify_one();
/// takes.join()?;
/// // Each wait may have a limit.
/// let (mut jobs, soon) = (JOBS.lock(), Duration::from_millis(1));
/// assert!(ADDED.wait_for(&mut jobs, soon).timed_out());
/// assert!(ADDED.wait_until(&mut jobs, Instant::now() + soon).timed_out());
/// assert!(ADDED.wait_while_for(&mut jobs, |jobs| *jobs == 0, soon).timed_out());
/// assert!(ADDED.wait_while_until(&mut jobs, |jobs| *jobs == 0, Instant::now() + soon).timed_out());
/// # Ok(())
/// # }
/// ```
#[doc(alias = "wait_event")]
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// Makes a condition variable on which no thread waits.
    #[must_use]
    #[inline]
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// Wakes one waiting thread. Returns whether a thread was waiting.
    #[doc(alias = "wake_up")]
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.0.notify_one()
    }

    /// Wakes all waiting threads. Returns their number.
    #[doc(alias = "wake_up_all")]
    #[inline]
    pub fn notify_all(&self) -> usize {
        self.0.notify_all()
    }

    /// Releases the mutex, waits for a notification, and locks the mutex again.
    ///
    /// # Panics
    ///
    /// Panics if another thread waits on this condition variable with another mutex. As usual, `guard` then unlocks its
    /// mutex.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.locked(guard, |inner| self.0.wait(inner));
    }

    /// Does the same as [`wait`](Self::wait), but waits for `timeout` at most. Returns whether it timed out.
    ///
    /// # Panics
    ///
    /// Panics as [`wait`](Self::wait) does.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeoutResult {
        self.locked(guard, |inner| WaitTimeoutResult(self.0.wait_for(inner, timeout).timed_out()))
    }

    /// Does the same as [`wait`](Self::wait), but waits until `deadline` at most. Returns whether it timed out.
    ///
    /// # Panics
    ///
    /// Panics as [`wait`](Self::wait) does.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.locked(guard, |inner| WaitTimeoutResult(self.0.wait_until(inner, deadline).timed_out()))
    }

    /// Waits as long as `condition` holds. Does not wait if `condition` does not hold at first.
    ///
    /// # Panics
    ///
    /// Panics as [`wait`](Self::wait) does, and also if `condition` panics.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Does the same as [`wait_while`](Self::wait_while), but waits for `timeout` at most. Returns whether it timed
    /// out. Even after a timeout, the condition may no longer hold.
    ///
    /// # Panics
    ///
    /// Panics as [`wait_while`](Self::wait_while) does.
    #[allow(clippy::disallowed_methods, reason = "callers read their own deadlines from this clock")]
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        // A deadline beyond the clock's range is never reached.
        self.wait_while_by(guard, condition, Instant::now().checked_add(timeout))
    }

    /// Does the same as [`wait_while`](Self::wait_while), but waits until `deadline` at most. Returns whether it timed
    /// out. Even after a timeout, the condition may no longer hold.
    ///
    /// # Panics
    ///
    /// Panics as [`wait_while`](Self::wait_while) does.
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

    /// Calls `wait`, which waits on parking_lot's condition variable, with a guard of parking_lot's own mutex.
    fn locked<T: ?Sized, R>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        wait: impl FnOnce(&mut parking_lot::MutexGuard<'_, ()>) -> R,
    ) -> R {
        // SAFETY: this function does not unlock the raw lock, and `with_guard` leaves it locked.
        let raw = unsafe { MutexGuard::mutex(guard).raw() };
        // SAFETY: the exclusive borrow of `guard` shows that this thread holds the lock. parking_lot returns and
        // unwinds with the lock held.
        blocking(|| unsafe { raw.with_guard(wait) })
    }
}
