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
/// A queue costs no thread, so a service may have a hundred queues. A group of items needs its own queue to have its
/// own limits, flush and counters. Handles are cheap to clone, and all clones refer to the same queue. After the last
/// handle is dropped, accepted items still run. Dropping never blocks.
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
    /// Returns a builder for a queue of the recommended kind, which is unbound and *managed*. Items run near their
    /// issuer. A pod runs as many items at a time as it has CPUs. Items that block under a guard do not count.
    ///
    /// If an item's pod is full, or gets no CPU, the item starts in another pod of the queue that has a free CPU,
    /// unless the queue is [strict](crate::Attrs::strict).
    ///
    /// While items are short, the items that an item queues stay with its worker, and other workers of the pod take
    /// them from there. So such items may start before items that were queued earlier: on each CPU, at most 64 of them,
    /// and one for each item that waits in front.
    ///
    /// Managed queues share this limit if they divide the same CPUs in the same way and have the same nice level. So a
    /// hundred such queues run no more items at a time than one queue. Each of the following groups of queues has a
    /// separate limit: managed queues with another nice level, managed queues with other pods (set by
    /// [`Attrs`](crate::Attrs), even if the pods overlap), strict queues, per-CPU queues of normal priority, and
    /// per-CPU queues of high priority. No group counts the items of another group. Plain unbound and ordered queues
    /// have no such limit. If several groups use the same CPU, the system's scheduler divides the CPU between them.
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

    /// Returns a builder for a queue whose items run on the CPU on which they were queued. The CPU runs one item at a
    /// time, but starts the next item while an item blocks.
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

    /// Returns a builder for a queue that starts items as soon as possible, regardless of how many already run, up to
    /// `max_active`. Each running item has its own thread. This kind is for items that mostly wait in code where guards
    /// cannot be placed.
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

    /// Returns a builder for a queue whose items run one at a time in the whole process, in queueing order. Such a
    /// queue works like a lock, but no thread blocks on it.
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

    /// Returns a builder for a queue of short items that must not block and that should run soon, like the kernel's
    /// bottom halves. Each CPU has one thread for such items, and one for such items of high priority. CPU 0, for
    /// example, has `cmwq/bh0` and `cmwq/bh0H`. All bh queues share these threads. Such a thread runs one item after
    /// the other, in the order in which they were queued on that CPU, regardless of what else runs on the CPU.
    ///
    /// There is no concurrency management. While an item blocks, no other item takes its place, and all other items of
    /// its thread wait. So a blocking guard has no effect here, and neither have the guards of joins and flushes. Debug
    /// builds report the use of a guard through `log`, once for each type of items. Use another kind of queue for work
    /// that has to block.
    ///
    /// The thread runs items in batches. The items that arrive during a batch form the next batch. After 2 ms, or after
    /// the first batch and ten further batches, the thread yields its CPU to other threads once. Then it goes on.
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

    /// Queues a closure that runs once. Returns a handle with which to join the item. The call costs one allocation at
    /// most, and none if the cell of an earlier item can be used again. The lists of pending items take one more
    /// allocation for each block of 63 entries. While the pool is busy, the call makes no system call and waits for no
    /// lock.
    ///
    /// Everything that happens before this call happens before the closure runs. Dropping the handle detaches the item.
    /// If you do not need the handle, [`spawn_detached`](Self::spawn_detached) is cheaper.
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
    /// * [`QueueError::Full`] if `max_pending` items are pending in the queue, or if a hundred million items wait.
    /// * [`QueueError::Draining`] if the queue is being drained, [`QueueError::Destroyed`] if the queue was destroyed,
    ///   and [`QueueError::ShutDown`] if the executor is being shut down.
    /// * [`QueueError::Forked`] in a process that was forked after the executor was made.
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

    /// Queues a reusable item. Returns true if this call made the item pending. Returns false if the item was pending
    /// already. In that case, the pending run sees everything that was written before this call. After the last
    /// submission, the item always runs at least once more, unless it is cancelled.
    ///
    /// At most one worker executes the item at a time. If the item is queued while it runs, it runs again afterwards.
    /// This also holds if the item queues itself, or is queued on another queue. The new run gets its slot and its
    /// order from the queue on which the item was queued.
    ///
    /// The call makes no allocation for the item. The lists of pending items take one allocation for each block of 63
    /// entries. While the pool is busy, the call takes no lock and makes no system call.
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
    /// * [`QueueError::Full`] if the item is not pending yet, and either `max_pending` items are pending in the queue
    ///   or a hundred million items wait.
    /// * [`QueueError::Disabled`] if the item is [disabled](Work::disable), or if another thread is cancelling it and
    ///   waits for its run to end.
    /// * [`QueueError::Draining`] if the queue is being drained, [`QueueError::Destroyed`] if the queue was destroyed,
    ///   and [`QueueError::ShutDown`] if the executor is being shut down.
    /// * [`QueueError::Forked`] in a process that was forked after the executor or the item was made.
    #[doc(alias = "queue_work")]
    #[doc(alias = "schedule_work")]
    #[inline]
    pub fn queue(&self, work: &Work) -> Result<bool, QueueError> {
        self.handle.queue().queue(Place::Here, &work.item)
    }

    /// Returns the limit of active items. The limit applies to each CPU's part of the queue, or to the whole queue if
    /// the queue was built with [`max_active_total`](WorkQueueBuilder::max_active_total). Returns 1 for an ordered
    /// queue. Returns `usize::MAX` for a bh queue, which has no such limit. In a forked child, returns the limit that
    /// the queue was built with.
    #[must_use]
    pub fn max_active(&self) -> usize {
        self.handle.queue().max_active()
    }

    /// Sets the limit of active items, from 1 to 512. The value 0 stands for the default of 256.
    ///
    /// Raising the limit immediately starts waiting items, in order. Lowering the limit does not stop active items, so
    /// the new limit holds only once enough of these items have ended.
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
    /// Returns an error, and changes nothing, if the queue is an ordered or a bh queue, or if the value is out of
    /// range.
    #[doc(alias = "workqueue_set_max_active")]
    pub fn set_max_active(&self, items: usize) -> Result<(), SetMaxActiveError> {
        set_max_active(self.handle.queue(), items)
    }

    /// Waits under a blocking guard until every item that was queued before this call has ended.
    ///
    /// The call does not wait for items that are queued later, even if other threads flush the same queue. Each flush
    /// waits only for the items that were queued before its own call. So a later item may itself wait for the flush,
    /// with one exception. If another thread is still queueing a [`Work`] when the flush begins, the flush may wait for
    /// a later run of that [`Work`]. Such a run must not wait for the flush.
    ///
    /// The call costs O(CPUs) for a queue that is used on all CPUs. Until the items that were queued before the call
    /// have ended, each submission to the same queue takes one more lock and makes one more allocation, even if the
    /// flush has timed out.
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
    /// Returns [`WaitError::WouldDeadlock`] if the calling item belongs to this queue, is pending on this queue, or
    /// occupies a bh thread that the queue's items need. Returns [`WaitError::Forked`] in a forked process.
    #[doc(alias = "flush_workqueue")]
    pub fn flush(&self) -> Result<(), WaitError> {
        self.handle.queue().flush_until(Until::FOREVER)
    }

    /// Flushes the queue as [`flush`](Self::flush) does, but waits for `timeout` at most.
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
    /// Returns the same errors as [`flush`](Self::flush). Returns [`WaitError::TimedOut`] if the items have not ended
    /// in time.
    pub fn flush_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.handle.queue().flush_until(Until::after(timeout))
    }
}

/// Sets the limit of active items, if the queue has a limit that can be set. The caller holds a reference to the queue.
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
