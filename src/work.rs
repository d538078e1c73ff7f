//! [`Work`]: an item that is queued again and again.

use std::fmt;
use std::time::Duration;

use crate::engine::item::entry::ItemType;
use crate::engine::item::work::WorkHandle;
use crate::engine::refusal::WaitError;
use crate::error::EnableError;
use crate::sys::wait::Until;

/// A reusable work item: a function that is queued again and again.
///
/// Queueing a pending item does nothing. So any number of requests before a run lead to one run, and this run sees all
/// these requests. At most one run is active, and at most one more run waits. Only one worker executes the item at a
/// time.
///
/// Handles are cheap to clone, and all clones refer to the same item. The item stays alive while it is pending or
/// running, even if the last handle is dropped. So an accepted item runs.
///
/// # Examples
///
/// This item renders a status page after changes. Only one rendering runs at a time, and the last change is never
/// missed:
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{Work, WorkQueue};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// let (version, rendered) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
/// let render = {
///     let (version, rendered) = (version.clone(), rendered.clone());
///     Work::new(move || rendered.store(version.load(Relaxed), Relaxed))
/// };
/// let queue = WorkQueue::new("status").build()?;
/// for change in 1..=100 {
///     version.store(change, Relaxed);
///     queue.queue(&render)?;
/// }
/// queue.flush()?;
/// assert_eq!(rendered.load(Relaxed), 100);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "work_struct")]
#[doc(alias = "delayed_work")]
#[derive(Clone)]
pub struct Work {
    pub(crate) item: WorkHandle,
}

impl Work {
    /// Makes an item that calls `function`.
    #[doc(alias = "INIT_WORK")]
    #[doc(alias = "INIT_DELAYED_WORK")]
    #[must_use]
    pub fn new<F>(function: F) -> Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        Self { item: WorkHandle::new(ItemType::of::<F>(), Box::new(move |_| function())) }
    }

    /// Makes an item that calls `function` with a handle to the item itself. So the item can queue itself again without
    /// owning a handle to itself.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::sync::mpsc;
    ///
    /// let queue = WorkQueue::new("steps").build()?;
    /// let (done, is_done) = mpsc::channel();
    /// let (steps, again) = (AtomicU32::new(0), queue.clone());
    /// let work = Work::with_handle(move |this| {
    ///     if steps.fetch_add(1, Ordering::Relaxed) < 2 {
    ///         again.queue(this).unwrap();
    ///     } else {
    ///         done.send("three steps").unwrap();
    ///     }
    /// });
    /// queue.queue(&work)?;
    /// assert_eq!(is_done.recv()?, "three steps");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_handle<F>(function: F) -> Self
    where
        F: Fn(&Self) + Send + Sync + 'static,
    {
        let call = move |item: &WorkHandle| function(&Self { item: item.clone() });
        Self { item: WorkHandle::new(ItemType::of::<F>(), Box::new(call)) }
    }

    /// Returns whether the item is queued or armed and has not started. The answer is a hint, because it may change at
    /// any time.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let (queue, work) = (WorkQueue::new("hints").build()?, Work::new(|| ()));
    /// queue.queue_delayed(&work, Duration::from_secs(60))?;
    /// assert!(work.is_pending() && !work.is_running(), "armed");
    /// work.cancel();
    /// assert!(!work.is_pending());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "work_pending")]
    #[must_use]
    pub fn is_pending(&self) -> bool {
        !self.item.origin.is_forked() && self.item.cell.load().is_pending()
    }

    /// Returns whether a worker executes the item. The answer is a hint, as that of [`is_pending`](Self::is_pending).
    /// Both may be true at the same time.
    #[doc(alias = "work_busy")]
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.item.origin.is_forked() && self.item.cell.load().is_running()
    }

    /// Cancels a pending submission. Returns whether there was one. Does not wait for a run that has begun.
    ///
    /// A queued item that is cancelled leaves an empty place in the queue, until a worker reaches that place. If the
    /// item is queued to the same pool of the same queue before that, it gets its place back, but not in an ordered or
    /// bh queue. While a flush of the queue waits, the item gets back only the place that it took last, and only if it
    /// took this place after the flush had begun. An armed timer is removed immediately.
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

    /// Cancels a pending submission, and waits under a blocking guard for a run that has begun. Returns whether a
    /// submission was pending. Afterwards the item is neither pending nor running, until a thread queues it again.
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
    /// let queue = WorkQueue::new("polls").build()?;
    /// let again = queue.clone();
    /// let poll = Work::with_handle(move |this| drop(again.queue(this)));
    /// queue.queue(&poll)?;
    /// poll.cancel_sync()?; // The item queues itself for ever; this call ends it.
    /// assert!(!poll.is_pending() && !poll.is_running());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`WaitError::WouldDeadlock`] if the caller is the item itself, and [`WaitError::Forked`] in a forked
    /// process. In both cases, nothing is cancelled.
    #[doc(alias = "cancel_work_sync")]
    #[doc(alias = "cancel_delayed_work_sync")]
    pub fn cancel_sync(&self) -> Result<bool, WaitError> {
        self.item.cancel_sync(Until::FOREVER)
    }

    /// Does the same as [`cancel_sync`](Self::cancel_sync), but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{WaitError, Work, WorkQueue};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::new("slow").build()?;
    /// let (go, door) = mpsc::channel::<()>();
    /// let (begin, begun) = mpsc::channel();
    /// let door = std::sync::Mutex::new(door);
    /// let work = Work::new(move || {
    ///     begin.send(()).unwrap();
    ///     cmwq::blocking(|| drop(door.lock().unwrap().recv()));
    /// });
    /// queue.queue(&work)?;
    /// begun.recv()?;
    /// assert_eq!(work.cancel_sync_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
    /// go.send(())?;
    /// assert_eq!(work.cancel_sync_timeout(Duration::from_secs(60)), Ok(false), "it was not pending");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`cancel_sync`](Self::cancel_sync), and [`WaitError::TimedOut`] if the run has not
    /// ended in time. After a timeout, the pending submission is cancelled nevertheless, the run goes on, and the item
    /// can be queued again.
    pub fn cancel_sync_timeout(&self, timeout: Duration) -> Result<bool, WaitError> {
        let until = Until::after(timeout);
        self.item.cancel_sync(until)
    }

    /// Disables the item. This cancels a pending submission, and refuses every later submission until
    /// [`enable`](Self::enable) has been called as many times as `disable`. Returns whether a submission was pending.
    /// Does not wait for a run that has begun.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{QueueError, Work, WorkQueue};
    ///
    /// let (queue, upload) = (WorkQueue::new("uploads").build()?, Work::new(|| ()));
    /// assert!(!upload.disable(), "it was not pending");
    /// upload.disable();
    /// assert_eq!(queue.queue(&upload), Err(QueueError::Disabled));
    /// assert_eq!((upload.enable()?, upload.enable()?), (false, true), "as often as it was disabled");
    /// assert_eq!(queue.queue(&upload), Ok(true));
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
    /// begun. Call this before you free a resource that the item needs. Afterwards, the item does not run even if other
    /// threads try to queue it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{QueueError, Work, WorkQueue};
    ///
    /// let queue = WorkQueue::new("cache").build()?;
    /// let refresh = Work::new(|| ());
    /// refresh.disable_sync()?;
    /// assert_eq!(queue.queue(&refresh), Err(QueueError::Disabled));
    /// assert!(refresh.enable()?);
    /// assert_eq!(queue.queue(&refresh), Ok(true));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`WaitError::WouldDeadlock`] if the caller is the item itself, and [`WaitError::Forked`] in a forked
    /// process. In both cases, nothing is changed.
    #[doc(alias = "disable_work_sync")]
    #[doc(alias = "disable_delayed_work_sync")]
    pub fn disable_sync(&self) -> Result<bool, WaitError> {
        self.item.disable_sync(Until::FOREVER)
    }

    /// Does the same as [`disable_sync`](Self::disable_sync), but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let work = cmwq::Work::new(|| ());
    /// assert_eq!(work.disable_sync_timeout(Duration::from_secs(1)), Ok(false), "it was not pending");
    /// assert!(work.is_disabled());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`disable_sync`](Self::disable_sync), and [`WaitError::TimedOut`] if the run has not
    /// ended in time. After a timeout, the item is disabled nevertheless.
    pub fn disable_sync_timeout(&self, timeout: Duration) -> Result<bool, WaitError> {
        let until = Until::after(timeout);
        self.item.disable_sync(until)
    }

    /// Undoes one [`disable`](Self::disable). Returns true if no other `disable` is in effect, so that the item can be
    /// queued again. Submissions that were refused in the meantime are not repeated.
    /// [`WorkQueue::enable_and_queue`](crate::WorkQueue::enable_and_queue) also queues the item.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{EnableError, Work};
    ///
    /// let work = Work::new(|| ());
    /// work.disable();
    /// assert!(work.enable()?);
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
    pub fn enable(&self) -> Result<bool, EnableError> {
        self.item.enable().map_err(|_not_disabled| EnableError::NotDisabled)
    }

    /// Returns whether the item is disabled, which means that it was disabled more times than it was enabled. The
    /// answer is a hint, as that of [`is_pending`](Self::is_pending).
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.item.cell.load().is_disabled()
    }

    /// Waits under a blocking guard until the last submission before this call has run or was cancelled. If the item is
    /// armed, queues it immediately. Returns false if the item was neither pending nor running.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::new("saves").build()?;
    /// let save = Work::new(|| ());
    /// assert!(!save.flush()?, "nothing to wait for");
    /// queue.queue_delayed(&save, Duration::from_secs(60))?;
    /// assert!(save.flush()?, "saved, without waiting for a minute");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`WaitError::WouldDeadlock`] if the caller is the item itself, or an item that holds the only slot for
    /// which this item waits. Returns [`WaitError::Forked`] in a forked process.
    #[doc(alias = "flush_work")]
    #[doc(alias = "flush_delayed_work")]
    pub fn flush(&self) -> Result<bool, WaitError> {
        self.item.flush(Until::FOREVER)
    }

    /// Does the same as [`flush`](Self::flush), but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{WaitError, Work, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let executor = cmwq::Executor::builder().build()?;
    /// let queue = WorkQueue::new("reports").freezable().build_on(&executor)?;
    /// let report = Work::new(|| ());
    /// executor.freeze_begin();
    /// queue.queue(&report)?;
    /// assert_eq!(report.flush_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
    /// executor.thaw();
    /// report.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`flush`](Self::flush), and [`WaitError::TimedOut`] if the run has not ended in time.
    pub fn flush_timeout(&self, timeout: Duration) -> Result<bool, WaitError> {
        let until = Until::after(timeout);
        self.item.flush(until)
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("function", &self.item.type_name())
            .field("pending", &self.is_pending())
            .field("running", &self.is_running())
            .finish()
    }
}
