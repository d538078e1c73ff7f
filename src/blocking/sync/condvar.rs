//! [`Condvar`]: parking_lot's condition variable, for the mutexes of this module.
#![allow(unsafe_code, reason = "a guard of the inner mutex is made where the outer one is locked")]

use std::fmt;
use std::time::{Duration, Instant};

use crate::blocking::guard::blocking;
use crate::engine::item::cancellation;
use crate::engine::refusal::Cancelled;
use crate::sys::{clock, machine};

use super::MutexGuard;
use super::waits::Waits;

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

/// A condition variable for this module's [`Mutex`](super::Mutex), on which threads wait under a blocking guard.
///
/// The blocking guard of a wait begins before the mutex is released, and ends after the mutex is locked again. The
/// guard costs 10 to 30 ns, far less than the wait. A wait may end without a notification. So
/// [`wait_while`](Self::wait_while) checks its condition again after each wait, outside the blocking guard. A
/// notification costs one load more than with parking_lot. A `notify_one` saves this load if it wakes a thread from a
/// wait that cannot be cancelled.
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
#[derive(Default)]
pub struct Condvar {
    usual: parking_lot::Condvar,
    cancellable: Waits,
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Condvar").field(&self.usual).finish()
    }
}

impl Condvar {
    /// Makes a condition variable on which no thread waits.
    #[must_use]
    #[inline]
    pub const fn new() -> Self {
        Self { usual: parking_lot::Condvar::new(), cancellable: Waits::new() }
    }

    /// Wakes one waiting thread. Returns whether a thread was waiting.
    #[doc(alias = "wake_up")]
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.usual.notify_one()
            || machine::wake_object(self.key(), false) > 0
            || self.cancellable.notify() > 0
    }

    /// Wakes all waiting threads. Returns their number.
    #[doc(alias = "wake_up_all")]
    #[inline]
    pub fn notify_all(&self) -> usize {
        self.usual.notify_all() + self.cancellable.notify() + machine::wake_object(self.key(), true)
    }

    /// Releases the mutex, waits for a notification, and locks the mutex again.
    ///
    /// # Panics
    ///
    /// Panics if another thread waits on this condition variable with another mutex. As in other panics, `guard`
    /// unlocks its mutex when it is dropped.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        if self.wait_on_machine(guard, None).is_none() {
            self.locked(guard, |inner| self.usual.wait(inner));
        }
    }

    /// Does the same as [`wait`](Self::wait), but stops waiting when the calling item is
    /// [cancelled](crate::is_cancelled). When the call returns, the mutex is locked again in any case.
    ///
    /// [`notify_one`](Self::notify_one) prefers a thread in a wait that cannot be cancelled. If there is no such
    /// thread, `notify_one` wakes all threads in cancellable waits.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::blocking::sync::{Condvar, Mutex};
    /// use cmwq::{Cancelled, JoinError};
    ///
    /// static JOBS: Mutex<u32> = Mutex::new(0);
    /// static ADDED: Condvar = Condvar::new();
    ///
    /// let queue = cmwq::WorkQueue::new("jobs");
    /// let takes = queue.spawn(|| {
    ///     let mut jobs = JOBS.lock();
    ///     while *jobs == 0 {
    ///         ADDED.wait_cancellable(&mut jobs)?;
    ///     }
    ///     *jobs -= 1;
    ///     Ok::<_, Cancelled>(())
    /// })?;
    /// takes.stop(); // No job ever comes.
    /// assert!(matches!(takes.join(), Ok(Err(Cancelled::Requested)) | Err(JoinError::Cancelled)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the reason for the cancel if the item is cancelled before a notification.
    #[doc(alias = "wait_event_interruptible")]
    pub fn wait_cancellable<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) -> Result<(), Cancelled> {
        let Some(token) = cancellation::current_token() else {
            self.wait(guard);
            return Ok(());
        };
        machine::step();
        token.reason().map_or(Ok(()), Err)?;
        // The wait is counted, and the number of notifications is read, before the mutex is released. So a thread that
        // changes the data under the mutex and then notifies finds the wait, and ends it.
        let wait = self.cancellable.begin();
        let _says = machine::waits_for("a condition variable");
        blocking(|| MutexGuard::unlocked(guard, || wait.sleep(&token)))
    }

    /// Waits as long as `condition` holds, but stops waiting when the calling item is [cancelled](crate::is_cancelled).
    /// If `condition` is false at first, does not wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::blocking::sync::{Condvar, Mutex};
    /// use cmwq::{CancelToken, Cancelled};
    ///
    /// let (ready, changed) = (Mutex::new(false), Condvar::new());
    /// let wait = || changed.wait_while_cancellable(&mut ready.lock(), |ready| !*ready);
    /// let token = CancelToken::new();
    /// token.cancel();
    /// assert_eq!(token.enter(wait), Err(Cancelled::Requested));
    /// *ready.lock() = true;
    /// assert_eq!(token.enter(wait), Ok(()));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the reason for the cancel if the item is cancelled while `condition` holds.
    ///
    /// # Panics
    ///
    /// Panics if `condition` panics.
    pub fn wait_while_cancellable<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Result<(), Cancelled> {
        while condition(guard) {
            self.wait_cancellable(guard)?;
        }
        Ok(())
    }

    /// Does the same as [`wait`](Self::wait), but waits for `timeout` at most. Returns whether the wait timed out.
    ///
    /// # Panics
    ///
    /// Panics as [`wait`](Self::wait) does.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeoutResult {
        if machine::listens() {
            return self.wait_by(guard, clock::present().checked_add(timeout));
        }
        self.locked(guard, |inner| WaitTimeoutResult(self.usual.wait_for(inner, timeout).timed_out()))
    }

    /// Does the same as [`wait`](Self::wait), but waits until `deadline` at most. Returns whether the wait timed out.
    ///
    /// # Panics
    ///
    /// Panics as [`wait`](Self::wait) does.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        if let Some(result) = self.wait_on_machine(guard, Some(deadline)) {
            return result;
        }
        self.locked(guard, |inner| WaitTimeoutResult(self.usual.wait_until(inner, deadline).timed_out()))
    }

    /// Waits as long as `condition` holds. If `condition` is false at first, does not wait.
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

    /// Does the same as [`wait_while`](Self::wait_while), but waits for `timeout` at most. Returns whether the wait
    /// timed out. After a timeout, the condition is not checked again, so the condition may be false.
    ///
    /// # Panics
    ///
    /// Panics as [`wait_while`](Self::wait_while) does.
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        // A deadline beyond the clock's range is never reached.
        self.wait_while_by(guard, condition, clock::present().checked_add(timeout))
    }

    /// Does the same as [`wait_while`](Self::wait_while), but waits until `deadline` at most. Returns whether the wait
    /// timed out. After a timeout, the condition is not checked again, so the condition may be false.
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
            result = self.wait_by(guard, deadline);
        }
        result
    }

    fn wait_by<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Instant>,
    ) -> WaitTimeoutResult {
        match deadline {
            Some(deadline) => self.wait_until(guard, deadline),
            None => {
                self.wait(guard);
                WaitTimeoutResult(false)
            }
        }
    }

    /// Waits on a made-up machine. The address of this condition variable is the key of the wait. Returns `None` if the
    /// calling thread belongs to no machine.
    #[inline]
    fn wait_on_machine<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Instant>,
    ) -> Option<WaitTimeoutResult> {
        if !machine::listens() {
            return None;
        }
        // A thread may notify without the mutex, between the caller's check of its data and the wait. So the made-up
        // machine may run such a thread here.
        machine::step();
        let (key, until) = (self.key(), deadline.map(clock::time));
        if until.is_some_and(|until| machine::now().is_some_and(|now| until <= now)) {
            // The deadline has already passed. A thread that waits with a passed deadline polls, so it first lets the
            // other threads take their turns. The other threads may need the mutex.
            blocking(|| MutexGuard::unlocked(guard, machine::yield_now));
            return Some(WaitTimeoutResult(true));
        }
        let wait = || machine::until_woken(key, until, "a condition variable");
        // No other thread runs between the unlock and the wait, so no notification is missed.
        let woken = machine::quietly(|| blocking(|| MutexGuard::unlocked(guard, wait)));
        woken.map(|woken| WaitTimeoutResult(!woken))
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
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
