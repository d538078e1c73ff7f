//! [`Work`]: an item that is queued again and again.

use std::fmt;
use std::time::Duration;

use crate::engine::item_type::ItemType;
use crate::engine::work_item::WorkHandle;
use crate::sys::wait::Until;
use crate::{EnableError, WaitError};

/// A reusable work item: a function that is queued again and again.
///
/// Queueing it while it is pending does nothing, so that any number of requests before a run lead to one run, which
/// sees all of them: one active and one waiting, at most. One worker executes it at a time.
///
/// Handles are cheap to clone; all clones are the same item. It stays alive while it is pending or running, also if
/// the last handle goes: what was accepted runs.
///
/// # Examples
///
/// A status page that is rendered after changes, at most once at a time, and never misses the last one:
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
    /// An item that calls `function`.
    #[doc(alias = "INIT_WORK")]
    #[doc(alias = "INIT_DELAYED_WORK")]
    #[must_use]
    pub fn new<F>(function: F) -> Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        Self { item: WorkHandle::new(ItemType::of::<F>(), Box::new(move |_| function())) }
    }

    /// An item that calls `function` with itself, so that it can queue itself again without holding a handle of its
    /// own.
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

    /// Will it run? True from a queueing, now or later, until its run begins. A hint: it may change at any time.
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

    /// Is a worker inside it? A hint, as [`is_pending`](Self::is_pending); both may be true.
    #[doc(alias = "work_busy")]
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.item.origin.is_forked() && self.item.cell.load().is_running()
    }

    /// Takes a pending queueing back: true if there was one. Does not wait for a run that has begun.
    ///
    /// Its place in the queue stays behind, empty, until it is reached. Queued again to the same place before that, the
    /// item has it back, but not in an ordered or bh queue. While a flush of the queue waits, it has the place back only if it
    /// took it since that flush began. A timer that holds it is gone at once.
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

    /// Takes a pending queueing back, and waits for the run that has begun, under a blocking guard: afterwards the item
    /// is neither pending nor running, unless somebody queues it anew. Was it pending?
    ///
    /// Meanwhile nobody can queue it, also not itself: that is refused with
    /// [`QueueError::Disabled`](crate::QueueError::Disabled).
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
    /// poll.cancel_sync()?; // It queues itself for ever, and ends here all the same.
    /// assert!(!poll.is_pending() && !poll.is_running());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`WaitError::WouldDeadlock`] from inside the item itself, [`WaitError::Forked`] in a forked process: nothing is
    /// cancelled then.
    #[doc(alias = "cancel_work_sync")]
    #[doc(alias = "cancel_delayed_work_sync")]
    pub fn cancel_sync(&self) -> Result<bool, WaitError> {
        self.item.cancel_sync(Until::FOREVER)
    }

    /// As [`cancel_sync`](Self::cancel_sync), waiting for so long at most.
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
    /// As [`cancel_sync`](Self::cancel_sync), and [`WaitError::TimedOut`]: the pending queueing was taken back all the
    /// same, the run goes on, and queueing is permitted again.
    pub fn cancel_sync_timeout(&self, timeout: Duration) -> Result<bool, WaitError> {
        let until = Until::after(timeout);
        self.item.cancel_sync(until)
    }

    /// Takes a pending queueing back, and has every later one refused until [`enable`](Self::enable) was called as often
    /// as this. Was it pending? Does not wait for a run that has begun.
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
    /// If it was disabled four billion times already.
    #[doc(alias = "disable_work")]
    #[doc(alias = "disable_delayed_work")]
    pub fn disable(&self) -> bool {
        self.item.disable()
    }

    /// As [`disable`](Self::disable), and waits for the run that has begun, under a blocking guard. The way to take
    /// something down that the item uses: nothing runs afterwards, whoever tries to queue it.
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
    /// [`WaitError::WouldDeadlock`] from inside the item itself, [`WaitError::Forked`] in a forked process: nothing is
    /// changed then.
    #[doc(alias = "disable_work_sync")]
    #[doc(alias = "disable_delayed_work_sync")]
    pub fn disable_sync(&self) -> Result<bool, WaitError> {
        self.item.disable_sync(Until::FOREVER)
    }

    /// As [`disable_sync`](Self::disable_sync), waiting for so long at most.
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
    /// As [`disable_sync`](Self::disable_sync), and [`WaitError::TimedOut`]: the item is disabled all the same.
    pub fn disable_sync_timeout(&self, timeout: Duration) -> Result<bool, WaitError> {
        let until = Until::after(timeout);
        self.item.disable_sync(until)
    }

    /// Takes one [`disable`](Self::disable) back. True if it was the last one: the item may be queued again. What was
    /// refused meanwhile is not made up for: [`WorkQueue::enable_and_queue`](crate::WorkQueue::enable_and_queue) does that.
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
    /// [`EnableError::NotDisabled`] if it is not disabled.
    #[doc(alias = "enable_work")]
    #[doc(alias = "enable_delayed_work")]
    pub fn enable(&self) -> Result<bool, EnableError> {
        self.item.enable().map_err(|_not_disabled| EnableError::NotDisabled)
    }

    /// Has it been disabled, and not enabled as often? A hint, as [`is_pending`](Self::is_pending).
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.item.cell.load().is_disabled()
    }

    /// Waits for the last queueing before this call, under a blocking guard: until its run has ended or it was
    /// cancelled. False if there is none, and no run that has begun. What a timer holds is queued now.
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
    /// [`WaitError::WouldDeadlock`] from inside the item itself, or from one that holds the only slot that it waits for;
    /// [`WaitError::Forked`] in a forked process.
    #[doc(alias = "flush_work")]
    #[doc(alias = "flush_delayed_work")]
    pub fn flush(&self) -> Result<bool, WaitError> {
        self.item.flush(Until::FOREVER)
    }

    /// As [`flush`](Self::flush), for so long at most.
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
    /// As [`flush`](Self::flush), and [`WaitError::TimedOut`].
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
