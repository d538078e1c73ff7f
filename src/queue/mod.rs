//! [`WorkQueue`]: a named queue in front of the shared pools.

pub(crate) mod attrs;
mod batch;
pub(crate) mod builder;
mod counts;
mod delayed;
mod detached;
mod end;
mod placed;
pub(crate) mod scope;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::item::place::Place;
use crate::engine::queue::workqueue::{Queue, QueueHandle};
use crate::engine::refusal::{QueueError, WaitError};
use crate::error::Refused;
use crate::error::limit::SetMaxActiveError;
use crate::join::JoinHandle;
use crate::policy::admission::{MAX_ACTIVE_DEFAULT, MAX_ACTIVE_LIMIT};
use crate::sys::wait::Until;
use crate::work::Work;

use self::builder::{Kind, WorkQueueBuilder};

/// A named queue in front of the worker pools that all queues share.
///
/// A queue costs no thread: a service may have a hundred. A group of items gets a queue for its limits, its flush and
/// its counters. Handles are cheap to clone; all clones refer to the same queue. After the last handle is dropped,
/// accepted items still run. Dropping never blocks.
///
/// Five kinds:
///
/// | made by | its items run | how many at once |
/// |---|---|---|
/// | [`new`](Self::new) | in the issuer's pod (by default the CPUs that share its last-level cache) | as many as the pod has CPUs; blocked ones do not count |
/// | [`per_cpu`](Self::per_cpu) | on the issuer's CPU | one per CPU; blocked ones do not count |
/// | [`unbound`](Self::unbound) | in the issuer's pod | all of them, up to `max_active` |
/// | [`ordered`](Self::ordered) | in the issuer's pod | one in the whole process, in queueing order |
/// | [`bh`](Self::bh) | on the issuer's CPU, and must not block | one per CPU, in queueing order |
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("checksums").build()?;
/// let handles: Vec<_> = (0..4u64).map(|n| queue.spawn(move || n * n)).collect::<Result<_, _>>()?;
/// let sum: u64 = handles.into_iter().map(|handle| handle.join()).sum::<Result<_, _>>()?;
/// assert_eq!(sum, 14);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "workqueue_struct")]
#[derive(Clone)]
pub struct WorkQueue {
    handle: Arc<QueueHandle>,
}

impl WorkQueue {
    /// The recommended kind: unbound and *managed*. Items run near their issuer, as many at a time as their pod has
    /// CPUs. Items that block under a guard do not count.
    ///
    /// If an item's pod is full, or gets no CPU, the item starts in another pod of the queue that has a free CPU,
    /// unless the queue is [strict](crate::Attrs::strict).
    ///
    /// Managed queues share this limit if they divide the same CPUs in the same way and have the same nice level: a
    /// hundred such queues run no more items than one. Other queues do not share it. Managed queues with another nice
    /// level, managed queues with other pods (by [`Attrs`](crate::Attrs), also if the pods overlap), strict ones, and
    /// per-CPU queues of normal and of high priority each have a limit of their own, and do not count each other's
    /// items. Plain unbound and ordered queues have no such limit. Where several of these share a CPU, the system's
    /// scheduler divides it between them.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("thumbnails").max_pending(1000).build()?;
    /// let size = queue.spawn(|| cmwq::blocking(|| std::fs::metadata("Cargo.toml")))?.join()??.len();
    /// assert!(size > 0);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "alloc_workqueue")]
    #[expect(clippy::new_ret_no_self, reason = "a queue is described first, like a thread or a command")]
    pub fn new(name: impl Into<String>) -> WorkQueueBuilder {
        WorkQueueBuilder::new(name.into(), Kind::Managed)
    }

    /// Items run on the CPU on which they were queued, one at a time while that one does not block.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::per_cpu("acks").high_priority().build()?;
    /// let name = queue.spawn(|| std::thread::current().name().map(str::to_owned))?.join()?;
    /// assert!(name.unwrap().ends_with('H'), "a worker of high priority");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "create_workqueue")]
    #[doc(alias = "WQ_PERCPU")]
    pub fn per_cpu(name: impl Into<String>) -> WorkQueueBuilder {
        WorkQueueBuilder::new(name.into(), Kind::PerCpu)
    }

    /// Items start as soon as possible, up to `max_active`, regardless of how many run: each has a thread. For items
    /// that mostly wait, where guards cannot be placed.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::unbound("resolver").max_active(16).build()?;
    /// let host = queue.spawn(|| std::net::ToSocketAddrs::to_socket_addrs("127.0.0.1:80"))?;
    /// assert_eq!(host.join()??.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "WQ_UNBOUND")]
    pub fn unbound(name: impl Into<String>) -> WorkQueueBuilder {
        WorkQueueBuilder::new(name.into(), Kind::Unbound)
    }

    /// Items run one at a time in the whole process, in queueing order: like a lock, but no thread blocks on it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::{Arc, Mutex};
    ///
    /// let (log, lines) = (cmwq::WorkQueue::ordered("log").build()?, Arc::new(Mutex::new(Vec::new())));
    /// for n in 0..5 {
    ///     let lines = Arc::clone(&lines);
    ///     drop(log.spawn(move || lines.lock().unwrap().push(n))?);
    /// }
    /// log.flush()?;
    /// assert_eq!(*lines.lock().unwrap(), [0, 1, 2, 3, 4]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "create_singlethread_workqueue")]
    #[doc(alias = "alloc_ordered_workqueue")]
    pub fn ordered(name: impl Into<String>) -> WorkQueueBuilder {
        WorkQueueBuilder::new(name.into(), Kind::Ordered)
    }

    /// For short items that must not block, and are to run soon, like the kernel's bottom halves. Each CPU has one
    /// thread for them, `cmwq/bh0`, and one for those of high priority, `cmwq/bh0H`. All bh queues share these threads.
    /// Such a thread runs one item after the other, in the order in which they were queued on that CPU, regardless of
    /// what else runs there.
    ///
    /// There is no concurrency management: while an item blocks, no other takes its place, and all bh items of its CPU
    /// wait. So a blocking guard does nothing here, nor do the guards of joins and flushes. In debug builds a guard is
    /// reported through `log`, once for each type of items. Queue work that has to block on another kind of queue.
    ///
    /// The thread yields its CPU to other threads once after 2 ms, or after it has restarted ten times with the items
    /// that came meanwhile. Then it goes on.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Executor, WorkQueue};
    /// use std::sync::mpsc;
    ///
    /// let queue = WorkQueue::bh("completions").build()?;
    /// let (send, receive) = mpsc::channel();
    /// let cpu = Executor::global().cpus().first().unwrap();
    /// for n in 0..3 {
    ///     let send = send.clone();
    ///     drop(queue.spawn_on(cpu, move || send.send(n))?);
    /// }
    /// queue.flush()?;
    /// assert_eq!(receive.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "WQ_BH")]
    pub fn bh(name: impl Into<String>) -> WorkQueueBuilder {
        WorkQueueBuilder::new(name.into(), Kind::Bh)
    }

    pub(crate) fn from_handle(handle: Arc<QueueHandle>) -> Self {
        Self { handle }
    }

    /// Returns the full name of the queue.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.queue().name()
    }

    /// Queues a closure that runs once. Returns the handle to join it. Costs one allocation at most, and none if the
    /// cell of an earlier item can be used again. The lists of pending items take one more allocation for each block of
    /// 63 entries. While the pool is busy, it costs no system call and no wait for a lock.
    ///
    /// All that happens before this call happens before the closure runs. Dropping the handle detaches the item. If you
    /// do not need the handle, [`spawn_detached`](Self::spawn_detached) is cheaper.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("sums").build()?;
    /// let sum = queue.spawn(|| (1..=100).sum::<u32>())?;
    /// assert_eq!(sum.join()?, 5050);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// All errors return the closure.
    ///
    /// * [`QueueError::Full`] if the queue holds `max_pending` items, or a hundred million wait.
    /// * [`QueueError::Draining`], [`QueueError::Destroyed`] and [`QueueError::ShutDown`] if the queue or the executor
    ///   ends.
    /// * [`QueueError::Forked`] in a process that was forked from the executor's.
    #[inline]
    pub fn spawn<F, T>(&self, closure: F) -> Result<JoinHandle<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_at(Place::Here, closure)
    }

    #[inline]
    pub(crate) fn spawn_at<F, T>(&self, place: Place, closure: F) -> Result<JoinHandle<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.handle.queue().spawn(place, closure) {
            Ok(handle) => Ok(JoinHandle::new(handle)),
            Err((error, closure)) => Err(Refused::new(error, closure)),
        }
    }

    /// Queues a reusable item. Returns true if the item is pending by this call. Returns false if it was pending
    /// already; the pending run sees all that was written before this call. The last submission always gets a run that
    /// begins after it.
    ///
    /// One worker executes an item at a time. An item that is queued while it runs, also from inside itself or on
    /// another queue, runs again afterwards, in the slot and order of the queue on which it was queued.
    ///
    /// Costs no allocation for the item; the lists of pending items take one for each block of 63 entries. While the
    /// pool is busy, it costs no lock and no system call.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    ///
    /// let queue = WorkQueue::new("refresh").build()?;
    /// let refresh = Work::new(|| println!("refreshed"));
    /// assert!(queue.queue(&refresh)?);
    /// queue.queue(&refresh)?; // A second run, or the same one, if that has not begun.
    /// queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// * [`QueueError::Full`] if the queue holds `max_pending` items, or a hundred million wait, and this one is not
    ///   among them.
    /// * [`QueueError::Disabled`] if the item is [disabled](Work::disable), or another thread waits for the end of its
    ///   cancellation.
    /// * [`QueueError::Draining`], [`QueueError::Destroyed`] and [`QueueError::ShutDown`] if the queue or the executor
    ///   ends.
    /// * [`QueueError::Forked`] in a process that was forked from the one in which the executor, or the item, was made.
    #[doc(alias = "queue_work")]
    #[doc(alias = "schedule_work")]
    #[inline]
    pub fn queue(&self, work: &Work) -> Result<bool, QueueError> {
        self.handle.queue().queue(Place::Here, &work.item)
    }

    /// Returns the limit of active items. It holds for each CPU's part of the queue or, if the queue was built with
    /// [`max_active_total`](WorkQueueBuilder::max_active_total), for the queue as a whole. 1 for an ordered queue;
    /// `usize::MAX` for a bh queue, which has no such limit. In a forked child, the limit that the queue was built
    /// with.
    #[must_use]
    pub fn max_active(&self) -> usize {
        self.handle.queue().max_active()
    }

    /// Sets the limit of active items, 1 to 512; 0 stands for the default, 256.
    ///
    /// Raising it starts waiting items at once, in order. Lowering it lets the active items finish; the limit holds
    /// once enough of them have ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("uploads").max_active(2).build()?;
    /// queue.set_max_active(8)?;
    /// assert_eq!(queue.max_active(), 8);
    /// let error = queue.set_max_active(513).unwrap_err();
    /// assert_eq!(error.to_string(), "max_active is 513; it must be 1 to 512, or 0 for the default of 256");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the queue is an ordered or a bh queue, or the value is out of range. Nothing was changed.
    #[doc(alias = "workqueue_set_max_active")]
    pub fn set_max_active(&self, items: usize) -> Result<(), SetMaxActiveError> {
        set_max_active(self.handle.queue(), items)
    }

    /// Waits under a blocking guard until every item that was queued before this call has ended.
    ///
    /// It does not wait for items that are queued later, even if other threads flush the same queue: each flush waits
    /// for the items that were queued before its own call. So a later item may itself wait for the flush, with one
    /// exception. If another thread is still queueing a [`Work`] when the flush begins, the flush may wait for a later
    /// run of that [`Work`]. Such a run must not wait for the flush.
    ///
    /// Costs O(CPUs) for a queue that is used on all. Until the items that were queued before the call have ended, each
    /// submission to the same queue takes one lock and one allocation more, even if the flush has timed out.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let queue = cmwq::WorkQueue::new("counts").build()?;
    /// let count = Arc::new(AtomicU32::new(0));
    /// for _ in 0..10 {
    ///     let count = Arc::clone(&count);
    ///     queue.spawn(move || count.fetch_add(1, Ordering::Relaxed))?;
    /// }
    /// queue.flush()?;
    /// assert_eq!(count.load(Ordering::Relaxed), 10);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`WaitError::WouldDeadlock`] if the caller is an item of this queue, or an item that is pending on it;
    /// [`WaitError::Forked`] in a forked process.
    #[doc(alias = "flush_workqueue")]
    pub fn flush(&self) -> Result<(), WaitError> {
        self.handle.queue().flush_until(Until::FOREVER)
    }

    /// As [`flush`](Self::flush), but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("counts").build()?;
    /// drop(queue.spawn(|| ())?);
    /// queue.flush_timeout(Duration::from_secs(60))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush). [`WaitError::TimedOut`] if the items have not ended in time.
    pub fn flush_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.handle.queue().flush_until(Until::after(timeout))
    }
}

/// Sets the limit of active items, if the queue has one that can be set. The caller holds a reference to the queue.
pub(crate) fn set_max_active(queue: &Queue, items: usize) -> Result<(), SetMaxActiveError> {
    if queue.spec.is_bh {
        return Err(SetMaxActiveError::Bh);
    }
    if queue.spec.ordered {
        return Err(SetMaxActiveError::Ordered);
    }
    if items > MAX_ACTIVE_LIMIT {
        return Err(SetMaxActiveError::MaxActive { value: items, limit: MAX_ACTIVE_LIMIT });
    }
    queue.set_max_active(if items == 0 { MAX_ACTIVE_DEFAULT } else { items });
    Ok(())
}

impl fmt::Debug for WorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("name", &self.name()).finish_non_exhaustive()
    }
}
