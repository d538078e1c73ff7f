//! Submissions with a token or a deadline, and functions that end a queue without running the items that have not
//! begun.

use std::time::{Duration, Instant};

use crate::blocking;
use crate::cancel::CancelToken;
use crate::engine::item::token::Token;
use crate::engine::refusal::WaitError;
use crate::policy::time::Time;
use crate::queue::WorkQueue;
use crate::queue::submission::Submission;
use crate::sys::clock;
use crate::sys::wait::Until;

/// The token and the deadline of a submission.
#[derive(Default, Debug)]
pub(super) struct Leash {
    token: Option<Token>,
    deadline: Option<Time>,
}

impl Leash {
    /// Makes the token of the item. Returns `None` if the submission has neither a token nor a deadline.
    pub(super) fn token(&self) -> Option<Token> {
        self.is_set().then(|| self.make_token())
    }

    /// Returns whether the submission has a token or a deadline.
    pub(super) fn is_set(&self) -> bool {
        self.token.is_some() || self.deadline.is_some()
    }

    /// Makes the token of an item.
    pub(super) fn make_token(&self) -> Token {
        let deadline = self.deadline.unwrap_or(Time::NEVER);
        match &self.token {
            Some(token) => token.child(deadline),
            None => Token::new(deadline),
        }
    }

    pub(super) fn holds(&mut self, token: &CancelToken) {
        self.token = Some(token.0.clone());
    }

    pub(super) fn ends_at(&mut self, deadline: Instant) {
        self.expires(clock::time(deadline));
    }

    pub(super) fn ends_in(&mut self, time: Duration) {
        self.expires(clock::now() + time);
    }

    fn expires(&mut self, at: Time) {
        self.deadline = Some(self.deadline.map_or(at, |deadline| deadline.min(at)));
    }
}

/// Submissions of closures that can be cancelled from outside.
impl<I> Submission<'_, I> {
    /// Makes the item cancellable by `token`. The item's own token ([`cancel_token`](crate::cancel_token)) becomes a
    /// [child](CancelToken::child) of `token`.
    ///
    /// * If the token is cancelled before the item begins, the item does not run. A join returns
    ///   [`JoinError::Cancelled`](crate::JoinError::Cancelled) immediately. The timer of a [delayed](Self::after) item
    ///   is removed. The closure of an item without a delay is dropped when a worker reaches the item, or when the
    ///   item's handle is joined.
    /// * If the token is cancelled while the item runs, [`is_cancelled`](crate::is_cancelled) becomes true in the item.
    /// * After the token is cancelled, a [periodic](Self::spawn_every) item is not called again.
    ///
    /// If the token is already cancelled, the queue accepts the submission, but the item does not run. So the caller
    /// need not check the token first, because a cancel just after the submission has the same effect. A full queue
    /// refuses a submission with a cancelled token like any other submission. If the submission [waits for
    /// room](crate::WhenFull::Wait), a cancel of the token ends the wait with
    /// [`QueueError::Full`](crate::QueueError::Full).
    ///
    /// For an item with a token, the submission makes about four more allocations. The submission and the end of the
    /// item each take the lock of the parent token for a short time.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{CancelToken, JoinError, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let (queue, session) = (WorkQueue::new("sessions"), CancelToken::new());
    /// let reminder = queue.item(|| println!("still there?")).after(Duration::from_secs(60)).token(&session).spawn()?;
    /// session.cancel();
    /// assert!(matches!(reminder.join(), Err(JoinError::Cancelled)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn token<T>(mut self, token: &CancelToken) -> Self
    where
        I: FnOnce() -> T,
    {
        self.leash.holds(token);
        self
    }

    /// Sets the time by which the item must begin. If that time has passed when a worker reaches the item, the item
    /// does not run. The queue counts such a late item as [`expired`](crate::Counters::expired), and a join of the item
    /// returns [`JoinError::DeadlinePassed`](crate::JoinError::DeadlinePassed). A thread or task that waits for the
    /// item gets this error at the deadline, even if no worker has reached the item yet. If the item has begun in time,
    /// [`is_cancelled`](crate::is_cancelled) is true in the item from the deadline on.
    ///
    /// A submission with a deadline in the past is accepted, but its item does not run. A submission that [waits for
    /// room](crate::WhenFull::Wait) waits until the deadline at most, and is then refused with
    /// [`QueueError::Full`](crate::QueueError::Full). If several deadlines are set, the earliest applies. A deadline
    /// arms no timer, unless a task awaits the item. If the [delay](Self::after) of an item ends after the deadline,
    /// the timer of the delay fires at the deadline instead, and the item is given up. A [periodic](Self::spawn_every)
    /// item is not called after its deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{JoinError, WorkQueue};
    /// use std::time::Instant;
    ///
    /// let queue = WorkQueue::new("quotes");
    /// let quote = queue.item(|| "of no use any more").deadline(Instant::now()).spawn()?;
    /// assert!(matches!(quote.join(), Err(JoinError::DeadlinePassed)));
    /// queue.flush()?;
    /// assert_eq!(queue.counters().expired, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline<T>(mut self, deadline: Instant) -> Self
    where
        I: FnOnce() -> T,
    {
        self.leash.ends_at(deadline);
        self
    }

    /// Sets a [deadline](Self::deadline) that passes `time` after this call.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("quotes");
    /// let quote = queue.item(|| (cmwq::cancel_token().time_left(), 42)).within(Duration::from_secs(60)).spawn()?;
    /// let (left, price) = quote.join()?;
    /// assert!(left > Some(Duration::from_secs(30)) && price == 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn within<T>(mut self, time: Duration) -> Self
    where
        I: FnOnce() -> T,
    {
        self.leash.ends_in(time);
        self
    }
}

impl WorkQueue {
    /// Ends the queue without running the items that have not begun. Waits under a [blocking guard](crate#guards) until
    /// the queue is empty.
    ///
    /// From the call on, the queue refuses every submission with
    /// [`QueueError::Destroyed`](crate::QueueError::Destroyed), even a submission by one of its own items. Items that
    /// have not begun are cancelled: a join returns [`JoinError::Cancelled`](crate::JoinError::Cancelled), and
    /// [`Work::flush`](crate::Work::flush) returns. Items that run are asked to stop:
    /// [`is_cancelled`](crate::is_cancelled) is true in them. The call waits until the running items have ended,
    /// however long they take. Armed timers are cancelled, and the call returns their number, as
    /// [`destroy`](Self::destroy) does.
    ///
    /// A thread or task that waits for a cancelled item learns of the cancel immediately if the item waits for a slot
    /// of `max_active`. If the item waits elsewhere, the thread or task learns of the cancel as soon as a worker
    /// reaches the item. [`counters`](Self::counters) counts the items as cancelled. If a [`destroy`](Self::destroy) is
    /// in progress, it continues to wait, and both calls return when the queue is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{JoinError, WorkQueue};
    ///
    /// let queue = WorkQueue::ordered("plugin").build()?;
    /// let runs = queue.spawn(|| cmwq::cancel_token().wait())?;
    /// let behind = queue.spawn(|| unreachable!("the first item ends only when it is asked to stop"))?;
    /// queue.destroy_now()?;
    /// assert!(matches!(runs.join(), Ok(Ok(())) | Err(JoinError::Cancelled)));
    /// assert!(matches!(behind.join(), Err(JoinError::Cancelled)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`destroy`](Self::destroy).
    pub fn destroy_now(&self) -> Result<usize, WaitError> {
        blocking(|| self.handle().queue().destroy_now(Until::FOREVER))
    }

    /// Does the same as [`destroy_now`](Self::destroy_now), but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("plugin");
    /// drop(queue.item(|| println!("never")).after(Duration::from_secs(60)).spawn()?);
    /// assert_eq!(queue.destroy_now_timeout(Duration::from_secs(10)), Ok(1), "one timer was cancelled");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`destroy`](Self::destroy). Returns [`WaitError::TimedOut`] if items still run. In
    /// that case, no further item begins, and a later call of `destroy` or `destroy_now` continues the wait.
    pub fn destroy_now_timeout(&self, timeout: Duration) -> Result<usize, WaitError> {
        blocking(|| self.handle().queue().destroy_now(Until::after(timeout)))
    }
}
