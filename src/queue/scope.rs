//! [`WorkQueue::scope`]: items that borrow variables from the caller.
//!
//! The following programs must not compile. In the first three programs, the scope itself or a handle leaves the scope:
//!
//! ```compile_fail,E0521
//! let queue = cmwq::WorkQueue::new("q");
//! let mut outside = None;
//! queue.scope(|s| outside = Some(s));
//! ```
//!
//! ```compile_fail,E0521
//! let queue = cmwq::WorkQueue::new("q");
//! let mut outside = None;
//! queue.scope(|s| outside = s.spawn(|| 1).ok());
//! outside.unwrap().join();
//! ```
//!
//! ```compile_fail
//! let queue = cmwq::WorkQueue::new("q");
//! let handle = queue.scope(|s| s.spawn(|| 1).unwrap());
//! handle.join();
//! ```
//!
//! Two items change the same variable:
//!
//! ```compile_fail,E0499
//! let queue = cmwq::WorkQueue::new("q");
//! let mut count = 0;
//! queue.scope(|s| {
//!     s.spawn(|| count += 1);
//!     s.spawn(|| count += 1);
//! });
//! ```
//!
//! An item borrows a variable of the body, but may outlive this variable:
//!
//! ```compile_fail,E0597
//! let queue = cmwq::WorkQueue::new("q");
//! queue.scope(|s| {
//!     let text = String::from("of the body");
//!     let borrowed = &text;
//!     s.spawn(move || borrowed.len());
//! });
//! ```
//!
//! The result of an item borrows one of the item's own variables:
//!
//! ```compile_fail,E0515
//! let queue = cmwq::WorkQueue::new("q");
//! queue.scope(|s| {
//!     s.spawn(|| {
//!         let text = String::from("of the item");
//!         text.as_str()
//!     });
//! });
//! ```
//!
//! The closure of an item captures a value that must not be sent to another thread:
//!
//! ```compile_fail,E0277
//! let queue = cmwq::WorkQueue::new("q");
//! let count = std::rc::Rc::new(1);
//! queue.scope(|s| {
//!     s.spawn(|| *count);
//! });
//! ```
//!
//! The body changes a variable that stays borrowed until the scope ends:
//!
//! ```compile_fail,E0506
//! let queue = cmwq::WorkQueue::new("q");
//! let mut count = 0;
//! queue.scope(|s| {
//!     let handle = s.spawn(|| count + 1).unwrap();
//!     drop(handle);
//!     count = 2;
//! });
//! ```

use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::item::closure::Closure;
use crate::engine::item::one_shot::handle::RawHandle;
use crate::engine::item::place::Place;
use crate::engine::item::scope::{Scope, ScopeState};
use crate::engine::item::with_options::ClosureOptions;
use crate::engine::refusal::{QueueError, WaitError};
use crate::error::join::{JoinError, PanicPayload};
use crate::error::refused::Refused;
use crate::error::scope::ScopeError;
use crate::join::join_error;
use crate::queue::WorkQueue;
use crate::sys::wait::Until;

impl WorkQueue {
    /// Runs `body` with a [`Scope`], whose items may borrow variables from outside `body`. Waits until all of these
    /// items have ended, and then returns the result of `body`.
    ///
    /// The caller waits under a [blocking guard](crate#guards). During the wait, the caller never runs another item on
    /// its own stack. There is no variant with a timeout, because items that had not ended at the timeout would still
    /// hold their borrows. To stop early, give the items a [token](crate::ScopedSubmission::token), or
    /// [stop](ScopedJoinHandle::stop) them through their handles. Because of the borrows, the wait at the end of a
    /// scope is never refused as a deadlock. So a scope never ends if one of its items waits for something that the
    /// caller does only after the scope.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("words");
    /// let text = String::from("to be or not to be");
    /// let (mut longest, mut words) = ("", 0);
    /// queue.scope(|s| {
    ///     s.spawn(|| longest = text.split(' ').max_by_key(|word| word.len()).unwrap_or_default())?;
    ///     s.spawn(|| words = text.split(' ').count())?;
    ///     Ok::<_, cmwq::QueueError>(())
    /// })?;
    /// assert_eq!((longest, words), ("not", 6));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If `body` panics, the call rethrows this panic once all items have ended. If `body` does not panic, the call
    /// rethrows the panic of an item, unless a join has returned that panic. If several items panicked and no join
    /// returned their panics, one of these panics is rethrown. If the payload was lost with a leaked handle, the call
    /// panics with another payload.
    ///
    /// Also panics if items of the scope never ran, because a shutdown of the executor ran out of time, or because
    /// [`destroy_now`](Self::destroy_now) ended the queue. Also panics in a process that was forked inside `body`. In
    /// these cases, [`try_scope`](Self::try_scope) returns an error instead.
    #[doc(alias = "thread::scope")]
    #[track_caller]
    pub fn scope<'env, F, R>(&self, body: F) -> R
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    {
        self.try_scope(body).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs `body` with a [`Scope`], as [`scope`](Self::scope) does. If items of the scope never ran, returns an error
    /// instead of panicking.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("sums");
    /// let numbers = [1, 2, 3];
    /// let sum = queue.try_scope(|s| s.spawn(|| numbers.iter().sum::<u32>()).map(|sum| sum.join()))???;
    /// assert_eq!(sum, 6);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ScopeError::Dropped`] if an item of the scope did not run because a shutdown of the executor ran out
    /// of time, or because [`destroy_now`](Self::destroy_now) ended the queue. Items that were cancelled by their
    /// handle, token or deadline do not cause this error. Returns [`ScopeError::Forked`] in a process that was forked
    /// inside `body`.
    ///
    /// # Panics
    ///
    /// Rethrows the panic of `body` or of an item, as [`scope`](Self::scope) does.
    pub fn try_scope<'env, F, R>(&self, body: F) -> Result<R, ScopeError>
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    {
        let end = Scope::run(Arc::clone(&self.handle), body);
        let result = end.result.unwrap_or_else(|payload| resume_unwind(payload));
        match end.dropped {
            _ if end.forked => Err(ScopeError::Forked),
            0 => Ok(result),
            items => Err(ScopeError::Dropped { items }),
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Queues a closure that runs once, before the scope ends. The closure may borrow variables that outlive the scope.
    /// Returns a handle with which to join the item. Costs as much as [`WorkQueue::spawn`].
    ///
    /// Items may spawn more items of the scope. The scope waits for the item even if the handle is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("words");
    /// let text = String::from("to be or not to be");
    /// let (words, letters) = queue.scope(|s| {
    ///     let words = s.spawn(|| text.split(' ').count())?;
    ///     Ok::<_, cmwq::QueueError>((words.join(), text.replace(' ', "").len()))
    /// })?;
    /// assert_eq!((words?, letters), (6, 13));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`WorkQueue::spawn`]. The errors do not contain the closure, because an error that
    /// borrows could not leave the scope. [`try_spawn`](Self::try_spawn) hands the closure back. Also returns
    /// [`QueueError::WouldDeadlock`] if the item that opened the scope holds the only slot in which the new item could
    /// run at present, as in an ordered queue. The new item could then begin only after the scope has ended, but the
    /// scope ends only after its items.
    #[inline]
    pub fn spawn<F, T>(&'scope self, closure: F) -> Result<ScopedJoinHandle<'scope, T>, QueueError>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.spawn_closure::<F, T>(Place::Here, closure)
            .map_err(|(error, _closure)| self.count_refusal(error))
    }

    /// Queues a closure as [`spawn`](Self::spawn) does. If the queue refuses the closure, hands it back.
    ///
    /// # Examples
    ///
    /// If the queue is full, the caller runs the closure:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::builder("sums").max_pending(1).build()?;
    /// let mut sums = [0; 8];
    /// queue.scope(|s| {
    ///     for (n, sum) in sums.iter_mut().enumerate() {
    ///         if let Err(refused) = s.try_spawn(move || *sum = (0..=n).sum()) {
    ///             (refused.into_closure())();
    ///         }
    ///     }
    /// });
    /// assert_eq!(sums, [0, 1, 3, 6, 10, 15, 21, 28]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`spawn`](Self::spawn), with the closure.
    #[inline]
    pub fn try_spawn<F, T>(&'scope self, closure: F) -> Result<ScopedJoinHandle<'scope, T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.spawn_closure::<F, T>(Place::Here, closure)
            .map_err(|(error, closure)| Refused::new(self.count_refusal(error), closure))
    }

    #[inline]
    pub(super) fn spawn_closure<F, T>(
        &'scope self,
        place: Place,
        closure: F,
    ) -> Result<ScopedJoinHandle<'scope, T>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'scope,
        T: Send + 'scope,
    {
        let raw = self.spawn_raw::<F, T>(place, closure)?;
        Ok(ScopedJoinHandle { raw: Some(raw), scope_state: self.scope_state() })
    }

    pub(super) fn spawn_closure_with<F, T>(
        &'scope self,
        place: Place,
        options: ClosureOptions,
        closure: F,
    ) -> Result<ScopedJoinHandle<'scope, T>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'scope,
        T: Send + 'scope,
    {
        let token = options.token.clone();
        let mut raw = self.spawn_raw_with(place, options, closure)?;
        if let Some(token) = token {
            raw.set_token(token, &self.executor().upkeep.timers);
        }
        Ok(ScopedJoinHandle { raw: Some(raw), scope_state: self.scope_state() })
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("queue", &self.queue_name()).finish_non_exhaustive()
    }
}

/// The handle of an item of a [`Scope`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("words");
/// let text = String::from("to be or not to be");
/// let (longest, count) = queue.scope(|s| {
///     let longest = s.spawn(|| text.split(' ').max_by_key(|word| word.len()).unwrap())?;
///     let count = s.spawn(|| text.split(' ').count())?;
///     Ok::<_, cmwq::QueueError>((longest.join(), count.join()))
/// })?;
/// assert_eq!((longest?, count?), ("not", 6));
///
/// queue.scope(|s| {
///     let handle = s.spawn(|| text.len())?;
///     if handle.is_finished() || !handle.cancel() {
///         let length = handle.join_timeout(std::time::Duration::from_secs(60));
///         assert_eq!(length.ok().expect("it has run")?, 18);
///     }
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct ScopedJoinHandle<'scope, T> {
    /// `None` once the item is joined.
    raw: Option<RawHandle<T>>,
    scope_state: &'scope ScopeState,
}

impl<T> ScopedJoinHandle<'_, T> {
    fn raw(&self) -> &RawHandle<T> {
        self.raw.as_ref().expect("a handle that was joined is gone")
    }

    /// Returns whether the item has ended or was cancelled.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.raw().has_finished()
    }

    /// Waits for the result under a blocking guard. Everything that happens in the item's run happens before this call
    /// returns. If the call returns a panic, the scope does not rethrow that panic.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`JoinHandle::join`](crate::JoinHandle::join).
    pub fn join(self) -> Result<T, JoinError> {
        self.wait()?;
        self.result()
    }

    /// Waits until the item has ended. In contrast to [`join`](Self::join), keeps the handle if the wait is refused.
    pub(super) fn wait(&self) -> Result<(), JoinError> {
        self.raw().wait(Until::FOREVER).map_err(join_error)
    }

    /// Waits for the result as [`join`](Self::join) does, but for `timeout` at most.
    ///
    /// # Errors
    ///
    /// Returns the handle as the error if the item has not ended in time. The errors of [`join`](Self::join) are inside
    /// `Ok`.
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<T, JoinError>, Self> {
        match self.raw().wait(Until::after(timeout)) {
            Ok(()) => Ok(self.result()),
            Err(WaitError::TimedOut) => Err(self),
            Err(error) => Ok(Err(join_error(error))),
        }
    }

    /// Cancels the item if it has not begun. Returns whether this call cancelled the item. If it did, the closure has
    /// been dropped, the scope does not wait for the item any more, and a join returns [`JoinError::Cancelled`].
    pub fn cancel(&self) -> bool {
        self.raw().cancel()
    }

    /// Cancels the item as [`cancel`](Self::cancel) does or, if the item has begun, asks it to stop. See
    /// [`JoinHandle::stop`](crate::JoinHandle::stop).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("search");
    /// queue.scope(|s| s.spawn(|| while !cmwq::is_cancelled() {}).map(|search| search.stop()))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop(&self) -> bool {
        self.raw().stop()
    }

    fn result(mut self) -> Result<T, JoinError> {
        let mut raw = self.raw.take().expect("a handle that was joined is gone");
        let Some(result) = raw.take_result() else {
            return Err(if raw.is_late() { JoinError::DeadlinePassed } else { JoinError::Cancelled });
        };
        result.map_err(|payload| {
            self.scope_state.panic_was_joined();
            JoinError::Panicked(PanicPayload::new(payload))
        })
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        if let Some(payload) = self.raw.take().and_then(RawHandle::let_go) {
            self.scope_state.keep_panic(payload);
        }
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("finished", &self.raw().is_finished()).finish()
    }
}
