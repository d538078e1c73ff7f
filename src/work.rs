//! [`Work`]: an item that is queued again and again.

mod cancel;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::engine::item::context;
use crate::engine::item::entry::ItemType;
use crate::engine::item::work::WorkHandle;
use crate::engine::item::work_item;
use crate::engine::refusal::WaitError;
use crate::sys::machine;
use crate::sys::wait::Until;

/// A reusable work item: a function that is queued again and again.
///
/// Queueing a pending item does nothing. So if the item is queued several times before a run, it runs only once, and
/// this run sees all these requests. At any time, at most one run is active, and at most one more run waits. Only one
/// worker executes the item at a time.
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
/// let queue = WorkQueue::new("status");
/// for change in 1..=100 {
///     version.store(change, Relaxed);
///     queue.enqueue(&render)?;
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
    /// Makes an item that calls `function`. Only one worker executes the item at a time, so the function needs no lock
    /// to change the values that it owns. Each run sees the changes of the earlier runs. If a run panics, later runs
    /// still call the function, and find its values as the panic left them.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    ///
    /// let queue = WorkQueue::new("counts");
    /// let (mut runs, (tell, told)) = (0, std::sync::mpsc::channel());
    /// let count = Work::new(move || {
    ///     runs += 1;
    ///     tell.send(runs).unwrap();
    /// });
    /// for expected in 1..=3 {
    ///     queue.enqueue(&count)?;
    ///     assert_eq!(told.recv()?, expected);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "INIT_WORK")]
    #[doc(alias = "INIT_DELAYED_WORK")]
    #[must_use]
    pub fn new<F>(mut function: F) -> Self
    where
        F: FnMut() + Send + 'static,
    {
        Self { item: WorkHandle::new(ItemType::of::<F>(), Box::new(move |_| function())) }
    }

    /// Makes an item that calls `function`, and has a name. Snapshots show the name while the item runs, unless the
    /// function [sets another description](crate::set_description). The name costs one allocation and one lock for each
    /// run.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Executor, Work, WorkQueue};
    ///
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let compact = Work::named("compacting table 3", move || {
    ///     tell.send(Executor::global().dump().to_string()).unwrap();
    /// });
    /// WorkQueue::new("tables").enqueue(&compact)?;
    /// assert!(told.recv()?.contains("compacting table 3"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn named<F>(name: impl Into<Cow<'static, str>>, mut function: F) -> Self
    where
        F: FnMut() + Send + 'static,
    {
        let name = name.into();
        let call = move |_: &WorkHandle| {
            context::describe(name.clone().into_owned());
            function();
        };
        Self { item: WorkHandle::new(ItemType::of::<F>(), Box::new(call)) }
    }

    /// Makes an item that calls `function` with a handle to the item itself. So the item can queue itself again without
    /// owning a handle to itself. The function may change the values that it owns, like the function of
    /// [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    /// use std::sync::mpsc;
    ///
    /// let queue = WorkQueue::new("steps");
    /// let (done, is_done) = mpsc::channel();
    /// let (mut steps, again) = (0, queue.clone());
    /// let work = Work::with_handle(move |this| {
    ///     steps += 1;
    ///     if steps < 3 {
    ///         again.enqueue(this).unwrap();
    ///     } else {
    ///         done.send("three steps").unwrap();
    ///     }
    /// });
    /// queue.enqueue(&work)?;
    /// assert_eq!(is_done.recv()?, "three steps");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_handle<F>(mut function: F) -> Self
    where
        F: FnMut(&Self) + Send + 'static,
    {
        let call = move |item: &WorkHandle| function(&Self { item: item.clone() });
        Self { item: WorkHandle::new(ItemType::of::<F>(), Box::new(call)) }
    }

    /// Returns whether the item is queued, or waits for its timer (is armed), and has not started. The answer is a
    /// hint, because it may change at any time.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let (queue, work) = (WorkQueue::new("hints"), Work::new(|| ()));
    /// queue.item(&work).after(Duration::from_secs(60)).enqueue()?;
    /// assert!(work.is_pending() && !work.is_running(), "armed");
    /// work.cancel();
    /// assert!(!work.is_pending());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "work_pending")]
    #[must_use]
    pub fn is_pending(&self) -> bool {
        machine::step();
        !self.item.origin.is_forked() && self.item.cell.load().is_pending()
    }

    /// Returns whether a worker executes the item. The answer is only a hint, like the answer of
    /// [`is_pending`](Self::is_pending). `is_pending` and `is_running` may both return true at the same time.
    #[doc(alias = "work_busy")]
    #[must_use]
    pub fn is_running(&self) -> bool {
        machine::step();
        !self.item.origin.is_forked() && self.item.cell.load().is_running()
    }

    /// Waits under a blocking guard until the last submission before this call has run or was cancelled. If the item
    /// waits for its timer, queues it immediately. Returns false if the item was neither pending nor running.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::new("saves");
    /// let save = Work::new(|| ());
    /// assert!(!save.flush()?, "nothing to wait for");
    /// queue.item(&save).after(Duration::from_secs(60)).enqueue()?;
    /// assert!(save.flush()?, "saved, without waiting for a minute");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`WaitError::WouldDeadlock`] if the caller is the item itself, or an item that holds the only slot in
    /// which this item can run. Returns [`WaitError::Forked`] in a forked process.
    #[doc(alias = "flush_work")]
    #[doc(alias = "flush_delayed_work")]
    pub fn flush(&self) -> Result<bool, WaitError> {
        self.item.flush(Until::FOREVER)
    }

    /// Begins a [`flush`](Self::flush) of this item. The returned future is ready when the last submission before this
    /// call has run or was cancelled. The future returns false if the item was neither pending nor running. Dropping
    /// the future ends only the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    ///
    /// let save = Work::new(|| println!("saved"));
    /// WorkQueue::new("saves").enqueue(&save)?;
    /// let saved = async { save.flush_async().await };
    /// # cmwq::blocking::block_on(saved)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The future returns [`WaitError::Forked`] in a forked process. Under [`block_on`](crate::blocking::block_on), the
    /// future returns [`WaitError::WouldDeadlock`] if `flush` would return this error.
    pub fn flush_async(&self) -> impl Future<Output = Result<bool, WaitError>> + Send + Sync + use<> {
        work_item::flush(self.item.clone())
    }

    /// Does the same as [`flush`](Self::flush), but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::kernel::{ExecutorExt, WorkQueueBuilderExt};
    /// use cmwq::{WaitError, Work, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let executor = cmwq::Executor::builder().build()?;
    /// let queue = WorkQueue::builder("reports").freezable(true).build_on(&executor)?;
    /// let report = Work::new(|| ());
    /// executor.freeze_begin();
    /// queue.enqueue(&report)?;
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
