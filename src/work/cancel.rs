//! Cancelling, disabling and enabling a reusable item.

use std::time::Duration;

use crate::engine::refusal::WaitError;
use crate::error::EnableError;
use crate::sys::wait::Until;
use crate::work::Work;

impl Work {
    /// Cancels a pending submission. Returns whether a submission was pending. Does not wait for a run that has begun.
    ///
    /// When a queued item is cancelled, it leaves an empty place in the queue, until a worker reaches that place. If
    /// the item is queued again on the same queue and to the same pool before a worker reaches the empty place, the
    /// item gets this place back. In ordered and bh queues, an item never gets a place back. While a flush of the queue
    /// waits, an item gets back only the place that it took last, and only if it took this place after the flush had
    /// begun. If the item is armed (waits for its timer), the timer is removed immediately.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let work = cmwq::Work::new(|| ());
    /// assert!(!work.cancel(), "it was not pending");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "cancel_work")]
    #[doc(alias = "cancel_delayed_work")]
    pub fn cancel(&self) -> bool {
        self.item.cancel()
    }

    /// Cancels a pending submission, and asks a run that has begun to stop. Returns whether a submission was pending.
    /// Does not wait for the run. To wait for the end of the run, call [`cancel_and_wait`](Self::cancel_and_wait)
    /// afterwards.
    ///
    /// In the run, [`is_cancelled`](crate::is_cancelled) becomes true, and the [waits that can be
    /// cancelled](crate::guide::cancellation) end early. Later runs are not affected. But a [periodic
    /// item](crate::Submission::spawn_every) that was submitted with a token or a deadline is not called again.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    ///
    /// let (queue, poll) = (WorkQueue::new("polls"), Work::new(|| while !cmwq::is_cancelled() {}));
    /// queue.enqueue(&poll)?;
    /// poll.stop();
    /// poll.cancel_and_wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop(&self) -> bool {
        self.item.stop()
    }

    /// Cancels a pending submission, and waits under a blocking guard for a run that has begun. Returns whether a
    /// submission was pending. After this call, the item is neither pending nor running until a thread queues it again.
    ///
    /// While the call waits, each submission of the item is refused with
    /// [`QueueError::Disabled`](crate::QueueError::Disabled), even if the item queues itself.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    ///
    /// let queue = WorkQueue::new("polls");
    /// let again = queue.clone();
    /// let poll = Work::with_handle(move |this| drop(again.enqueue(this)));
    /// queue.enqueue(&poll)?;
    /// poll.cancel_and_wait()?; // The item queues itself for ever; this call ends it.
    /// assert!(!poll.is_pending() && !poll.is_running());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`WaitError::WouldDeadlock`] if the caller is the item itself, and [`WaitError::Forked`] in a forked
    /// process. A call by the item itself, or in a forked process, cancels nothing. A debug build also returns
    /// `WouldDeadlock` if the wait closes a cycle of items. In this case, the call has already cancelled a submission
    /// that was pending.
    #[doc(alias = "cancel_sync")]
    #[doc(alias = "cancel_work_sync")]
    #[doc(alias = "cancel_delayed_work_sync")]
    pub fn cancel_and_wait(&self) -> Result<bool, WaitError> {
        self.item.cancel_and_wait(Until::FOREVER)
    }

    /// Does the same as [`cancel_and_wait`](Self::cancel_and_wait), but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{WaitError, Work, WorkQueue};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::new("slow");
    /// let (go, door) = mpsc::channel::<()>();
    /// let (begin, begun) = mpsc::channel();
    /// let work = Work::new(move || {
    ///     begin.send(()).unwrap();
    ///     cmwq::blocking(|| drop(door.recv()));
    /// });
    /// queue.enqueue(&work)?;
    /// begun.recv()?;
    /// assert_eq!(work.cancel_and_wait_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
    /// go.send(())?;
    /// assert_eq!(work.cancel_and_wait_timeout(Duration::from_secs(60)), Ok(false), "it was not pending");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`cancel_and_wait`](Self::cancel_and_wait), and [`WaitError::TimedOut`] if the run
    /// has not ended in time. Even after a timeout, the pending submission is cancelled. The run continues, and the
    /// item can be queued again.
    pub fn cancel_and_wait_timeout(&self, timeout: Duration) -> Result<bool, WaitError> {
        let until = Until::after(timeout);
        self.item.cancel_and_wait(until)
    }

    /// Disables the item: cancels a pending submission, and refuses every later submission until
    /// [`enable`](Self::enable) has been called as many times as `disable`. Returns whether a submission was pending.
    /// Does not wait for a run that has begun.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{QueueError, Work, WorkQueue};
    ///
    /// let (queue, upload) = (WorkQueue::new("uploads"), Work::new(|| ()));
    /// assert!(!upload.disable(), "it was not pending");
    /// upload.disable();
    /// assert_eq!(queue.enqueue(&upload), Err(QueueError::Disabled));
    /// assert_eq!((upload.enable()?, upload.enable()?), (false, true), "as often as it was disabled");
    /// assert_eq!(queue.enqueue(&upload), Ok(true));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the item has already been disabled four billion times.
    #[doc(alias = "disable_work")]
    #[doc(alias = "disable_delayed_work")]
    pub fn disable(&self) -> bool {
        self.item.disable()
    }

    /// Disables the item, as [`disable`](Self::disable) does, and waits under a blocking guard for a run that has
    /// begun. Call this function before you free a resource that the item needs. After this call, the item does not run
    /// even if other threads try to queue it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{QueueError, Work, WorkQueue};
    ///
    /// let queue = WorkQueue::new("cache");
    /// let refresh = Work::new(|| ());
    /// refresh.disable_and_wait()?;
    /// assert_eq!(queue.enqueue(&refresh), Err(QueueError::Disabled));
    /// assert!(refresh.enable()?);
    /// assert_eq!(queue.enqueue(&refresh), Ok(true));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`WaitError::WouldDeadlock`] if the caller is the item itself, and [`WaitError::Forked`] in a forked
    /// process. A call by the item itself, or in a forked process, changes nothing. A debug build also returns
    /// `WouldDeadlock` if the wait closes a cycle of items. In this case, the call has already cancelled a submission
    /// that was pending, but has not disabled the item.
    #[doc(alias = "disable_sync")]
    #[doc(alias = "disable_work_sync")]
    #[doc(alias = "disable_delayed_work_sync")]
    pub fn disable_and_wait(&self) -> Result<bool, WaitError> {
        self.item.disable_and_wait(Until::FOREVER)
    }

    /// Does the same as [`disable_and_wait`](Self::disable_and_wait), but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let work = cmwq::Work::new(|| ());
    /// assert_eq!(work.disable_and_wait_timeout(Duration::from_secs(1)), Ok(false), "it was not pending");
    /// assert!(work.is_disabled());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`disable_and_wait`](Self::disable_and_wait), and [`WaitError::TimedOut`] if the run
    /// has not ended in time. Even after a timeout, the item is disabled.
    pub fn disable_and_wait_timeout(&self, timeout: Duration) -> Result<bool, WaitError> {
        let until = Until::after(timeout);
        self.item.disable_and_wait(until)
    }

    /// Undoes one [`disable`](Self::disable). Returns true if no other `disable` is in effect, so that the item can be
    /// queued again. Submissions that were refused while the item was disabled are not repeated. To make up for refused
    /// submissions, queue the item once more if this call returns true.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{EnableError, Work};
    ///
    /// let work = Work::new(|| ());
    /// work.disable();
    /// if work.enable()? {
    ///     cmwq::WorkQueue::new("frames").enqueue(&work)?;
    /// }
    /// assert_eq!(work.enable(), Err(EnableError::NotDisabled));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`EnableError::NotDisabled`] if the item is not disabled.
    #[doc(alias = "enable_work")]
    #[doc(alias = "enable_delayed_work")]
    #[doc(alias = "enable_and_queue")]
    #[doc(alias = "enable_and_queue_work")]
    pub fn enable(&self) -> Result<bool, EnableError> {
        self.item.enable().map_err(|_not_disabled| EnableError::NotDisabled)
    }

    /// Returns whether the item is disabled, which means that it was disabled more times than it was enabled. The
    /// answer is only a hint, like the answer of [`is_pending`](Self::is_pending).
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.item.cell.load().is_disabled()
    }
}
