//! Cooperative cancellation: [`CancelToken`], and the functions by which code asks whether it should stop.

use std::fmt;
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::engine::item::cancellation;
use crate::engine::item::token::Token;
use crate::engine::item::waits;
use crate::engine::refusal::{Cancelled, WaitError};
use crate::policy::time::Time;
use crate::sys::clock;
use crate::sys::wait::Until;

/// Returns whether the calling code should stop. A long item calls this from time to time, and returns early when the
/// result is true.
///
/// In an item, the result is true once
///
/// * a handle has asked the item to stop ([`JoinHandle::stop`](crate::JoinHandle::stop),
///   [`Work::stop`](crate::Work::stop) and others),
/// * the [token](crate::Submission::token) of its submission is cancelled, or its
///   [deadline](crate::Submission::deadline) has passed,
/// * its queue is [destroyed at once](crate::WorkQueue::destroy_now), or
/// * a [shutdown](crate::Executor::shutdown) of its executor has run out of time.
///
/// In a call of [`CancelToken::enter`], the result is true once the entered token is cancelled. Anywhere else, the
/// result is false.
///
/// The call takes a few nanoseconds, allocates nothing, and works in every item. While a thread waits for the run of a
/// [`Work`](crate::Work), the call takes a lock, too. An item that never calls this function pays nothing.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("search");
/// let search = queue.spawn(|| (0u64..).find(|_| cmwq::is_cancelled()))?;
/// search.stop();
/// assert!(!matches!(search.join(), Ok(None)), "it has stopped, or has not begun");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn is_cancelled() -> bool {
    cancellation::is_cancelled()
}

/// Returns the token of the item that the caller executes, or the token that the caller has
/// [entered](CancelToken::enter). The token is cancelled when [`is_cancelled`] becomes true. Outside of items, returns
/// a new token that no other code cancels.
///
/// An item can hand its token to other threads, which can then wait until the item is asked to stop. The item can also
/// submit other items with its token. When the item is asked to stop, the items with its token are asked to stop, too.
/// A cancel of the token by any thread asks the item itself to stop. The token of a reusable [`Work`](crate::Work)
/// belongs to one run.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::WorkQueue;
///
/// let queue = WorkQueue::new("crawl");
/// let (parts, whole) = (queue.clone(), queue.clone());
/// let whole = whole.spawn(move || {
///     let token = cmwq::cancel_token();
///     let part = parts.item(|| cmwq::cancel_token().wait()).token(&token).spawn()?;
///     token.cancel(); // For example because another part has failed.
///     Ok::<_, cmwq::QueueError>(matches!(part.join(), Ok(Ok(())) | Err(cmwq::JoinError::Cancelled)))
/// })?;
/// assert!(whole.join()??, "the part was asked to stop, or did not begin");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn cancel_token() -> CancelToken {
    CancelToken(cancellation::current_token().unwrap_or_else(|| Token::new(Time::NEVER)))
}

/// A token by which threads ask items, or any other code, to stop. All clones refer to the same token.
///
/// Tokens form trees. A cancel of a token also cancels its [children](Self::child). A cancel of a child does not cancel
/// its parent. A token may have a deadline. Once the deadline has passed, the token counts as cancelled. The deadline
/// of a child is never later than the deadline of its parent.
///
/// A cancel interrupts no code. Items that have not begun do not run, and the waits whose names end in `_cancellable`
/// end early. All other code must ask whether it should stop, and then return.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{CancelToken, JoinError, WorkQueue};
///
/// let queue = WorkQueue::new("requests");
/// let request = CancelToken::new();
/// let parts: Vec<_> = (0..4)
///     .map(|_| queue.item(|| while !cmwq::is_cancelled() {}).token(&request).spawn())
///     .collect::<Result<_, _>>()?;
/// request.cancel(); // The client has gone.
/// for part in parts {
///     match part.join() {
///         Ok(()) | Err(JoinError::Cancelled) => {} // It has stopped, or never began.
///         Err(error) => return Err(error.into()),
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// In a forked process, a token of the parent process keeps the state that it had at the fork. In the forked process,
/// waits for the token return [`WaitError::Forked`], and a cancel of the token has no effect.
#[derive(Clone)]
pub struct CancelToken(pub(crate) Token);

impl CancelToken {
    /// Makes a token without a parent and without a deadline.
    #[must_use]
    pub fn new() -> Self {
        Self(Token::new(Time::NEVER))
    }

    /// Makes a child of this token. A cancel of this token also cancels the child, but a cancel of the child does not
    /// cancel this token. If this token is already cancelled, so is the child. Once all clones of a child and of
    /// the tokens below it are dropped, the child takes no memory.
    ///
    /// # Examples
    ///
    /// ```
    /// let service = cmwq::CancelToken::new();
    /// let (one, other) = (service.child(), service.child());
    /// one.cancel();
    /// assert!(one.is_cancelled() && !other.is_cancelled() && !service.is_cancelled());
    /// service.cancel();
    /// assert!(other.is_cancelled() && service.child().is_cancelled());
    /// ```
    #[must_use]
    pub fn child(&self) -> Self {
        Self(self.0.child(Time::NEVER))
    }

    /// Makes a [child](Self::child) with a deadline. If this token has an earlier deadline, the child has that earlier
    /// deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::{CancelToken, Cancelled};
    /// use std::time::{Duration, Instant};
    ///
    /// let token = CancelToken::new().child_until(Instant::now() + Duration::from_millis(1));
    /// token.wait()?;
    /// assert_eq!(token.check(), Err(Cancelled::DeadlinePassed));
    /// # Ok::<_, cmwq::WaitError>(())
    /// ```
    #[must_use]
    pub fn child_until(&self, deadline: Instant) -> Self {
        Self(self.0.child(clock::time(deadline)))
    }

    /// Makes a [child](Self::child) whose deadline passes after `time`, counted from this call.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let request = cmwq::CancelToken::new().child_within(Duration::from_secs(30));
    /// let lookup = request.child_within(Duration::from_secs(60));
    /// assert!(lookup.time_left() <= Some(Duration::from_secs(30)), "the earlier deadline applies");
    /// ```
    #[must_use]
    pub fn child_within(&self, time: Duration) -> Self {
        Self(self.0.child(clock::now() + time))
    }

    /// Cancels this token and all its descendants, and then wakes the threads and tasks that wait for them. Has no
    /// effect if the token is already cancelled. Code that finds the token cancelled also finds its descendants
    /// cancelled.
    ///
    /// The call runs no item. The call may run the destructors of closures whose timers it cancels, and the wakers of
    /// tasks. Panics of these destructors and wakers do not reach the caller.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Returns whether the token or an ancestor of it was cancelled, or whether the token's deadline has passed.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Returns an error if the token is cancelled, so that `?` ends the calling function.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::{CancelToken, Cancelled};
    ///
    /// fn sum(numbers: &[u64], token: &CancelToken) -> Result<u64, Cancelled> {
    ///     let mut sum = 0;
    ///     for chunk in numbers.chunks(1000) {
    ///         token.check()?;
    ///         sum += chunk.iter().sum::<u64>();
    ///     }
    ///     Ok(sum)
    /// }
    ///
    /// let token = CancelToken::new();
    /// assert_eq!(sum(&[1, 2, 3], &token), Ok(6));
    /// token.cancel();
    /// assert_eq!(sum(&[1, 2, 3], &token), Err(Cancelled::Requested));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Cancelled::Requested`] if the token or an ancestor of it was cancelled, and
    /// [`Cancelled::DeadlinePassed`] if only the token's deadline has passed.
    pub fn check(&self) -> Result<(), Cancelled> {
        self.0.reason().map_or(Ok(()), Err)
    }

    /// Returns the time until the deadline, or zero if the deadline has passed. Returns `None` if the token has no
    /// deadline.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let deadline = self.0.deadline();
        (deadline < Time::NEVER).then(|| deadline.since(clock::now()))
    }

    /// Waits under a blocking guard until the token is cancelled, or its deadline has passed.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let token = cmwq::CancelToken::new();
    /// let waits = {
    ///     let token = token.clone();
    ///     cmwq::WorkQueue::new("cleanups").spawn(move || token.wait())?
    /// };
    /// token.cancel();
    /// waits.join()??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`WaitError::Forked`] if the token is not cancelled, and belongs to the process from which this process
    /// was forked.
    pub fn wait(&self) -> Result<(), WaitError> {
        self.wait_until(Until::FOREVER)
    }

    /// Does the same as [`wait`](Self::wait), but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::{CancelToken, WaitError};
    /// use std::time::Duration;
    ///
    /// let token = CancelToken::new();
    /// assert_eq!(token.wait_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
    /// token.cancel();
    /// assert_eq!(token.wait_timeout(Duration::ZERO), Ok(()));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`wait`](Self::wait), and [`WaitError::TimedOut`] if the token was not cancelled in
    /// time.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.wait_until(Until::after(timeout))
    }

    pub(crate) fn wait_until(&self, until: Until) -> Result<(), WaitError> {
        if self.0.is_cancelled() { Ok(()) } else { waits::guarded(|| self.0.wait(until)) }
    }

    /// Waits in a task of any runtime until the token is cancelled. Dropping the future ends only the wait.
    ///
    /// The token's deadline wakes no task, because this crate has no timers for tasks. To wait for the deadline, too,
    /// use a timer of the runtime beside this future.
    ///
    /// # Examples
    ///
    /// ```
    /// let token = cmwq::CancelToken::new();
    /// let task = async { token.cancelled_async().await };
    /// token.cancel();
    /// # cmwq::blocking::block_on(task)?;
    /// # Ok::<_, cmwq::WaitError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The future returns [`WaitError::Forked`] as [`wait`](Self::wait) does.
    pub fn cancelled_async(&self) -> impl Future<Output = Result<(), WaitError>> + Send + Sync + use<> {
        let (token, mut watch) = (self.0.clone(), None);
        poll_fn(move |context| {
            if token.is_cancelled() {
                return Poll::Ready(Ok(()));
            }
            if token.is_forked() {
                return Poll::Ready(Err(WaitError::Forked));
            }
            let _former = std::mem::replace(&mut watch, token.on_cancel(context.waker().clone()));
            if watch.is_some() { Poll::Pending } else { Poll::Ready(Ok(())) }
        })
    }

    /// Calls `function`. Until `function` returns, [`is_cancelled`], [`cancel_token`] and the waits whose names end in
    /// `_cancellable` refer to this token. In an item, this token replaces the item's own token. If the code must obey
    /// the item's own token, too, enter a [child](Self::child) of [`cancel_token`] instead. Calls of `enter` may be
    /// nested. When a call returns or panics, the former token applies again.
    ///
    /// # Examples
    ///
    /// One step of an item has less time than the whole item:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::blocking::thread;
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("lookups");
    /// let lookup = queue.spawn(|| {
    ///     let step = cmwq::cancel_token().child_within(Duration::from_millis(1));
    ///     let in_time = step.enter(|| thread::sleep_cancellable(Duration::from_secs(3600)));
    ///     assert_eq!(in_time, Err(cmwq::Cancelled::DeadlinePassed));
    ///     assert!(!cmwq::is_cancelled(), "the item itself goes on");
    /// })?;
    /// lookup.join()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn enter<R>(&self, function: impl FnOnce() -> R) -> R {
        self.0.enter(function)
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::new()
    }
}

/// Two `CancelToken`s are equal if they refer to the same token.
impl PartialEq for CancelToken {
    fn eq(&self, other: &Self) -> bool {
        self.0.is(&other.0)
    }
}

impl Eq for CancelToken {}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("cancelled", &self.check().err())
            .field("left", &self.time_left())
            .finish()
    }
}
