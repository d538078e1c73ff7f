//! [`WorkQueue`]: a named queue in front of the shared pools.

pub(crate) mod attrs;
mod awaited;
pub(crate) mod batch;
pub(crate) mod builder;
mod cancellable;
mod carry;
mod chunks;
mod counts;
mod end;
mod flush;
pub(crate) mod limits;
pub(crate) mod map;
mod options;
pub(crate) mod permits;
pub(crate) mod scope;
pub(crate) mod scoped;
mod spawn;
pub(crate) mod submission;
mod threads;
mod weight;

use std::fmt;
use std::sync::Arc;

use crate::engine::executor::inner::ExecutorInner;
use crate::engine::queue::workqueue::QueueHandle;
use crate::error::BuildQueueError;
use crate::executor::Executor;

use self::builder::{Kind, WorkQueueBuilder};

/// A named queue in front of the worker pools that all queues share.
///
/// A queue costs no thread, so a service may have a hundred queues. Give a group of items its own queue if it needs its
/// own limits, flush or counters. Handles are cheap to clone, and all clones refer to the same queue. After the last
/// handle is dropped, accepted items still run. Dropping a handle never blocks.
///
/// There are five kinds of queues. The *issuer* of an item is the thread that submits it, and a *pod* is a group of
/// CPUs that share a pool of workers:
///
/// | made by | its items run | how many at once |
/// |---|---|---|
/// | [`new`](Self::new), [`builder`](Self::builder) | in the issuer's pod (by default the CPUs that share its last-level cache) | as many as the pod has CPUs; blocked ones do not count |
/// | [`per_cpu`](Self::per_cpu) | on the issuer's CPU | one per CPU; blocked ones do not count |
/// | [`unbound`](Self::unbound) | in the issuer's pod | all of them, up to `max_active` |
/// | [`ordered`](Self::ordered) | in the issuer's pod | one in the whole process, in queueing order |
/// | [`kernel::bh`](crate::kernel::bh) | on the issuer's CPU, and must not block | one per CPU, in queueing order |
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("checksums");
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
    /// Makes a queue of the recommended kind on the [global executor](Executor::global). The queue is unbound and
    /// *managed*. Its items run near their issuer. A pod runs as many items at a time as it has CPUs. An item that
    /// blocks under a [guard](crate#guards) does not count as running.
    ///
    /// If an item's pod is full, or if the worker that was woken for the item gets no CPU, the item starts in another
    /// of the queue's pods, in which a CPU is free.
    ///
    /// While items are short, the items that a running item queues stay with the worker of this running item. Other
    /// workers of the pod can take such items from that worker. So the items that a running item queues may overtake an
    /// item that was queued earlier. While items are short and many, a slot (a place below `max_active`) may stay with
    /// a worker, too. When an item ends, its worker then immediately runs the item that gets the slot, although items
    /// that were queued earlier on the same CPU still wait. On each CPU, at most 64 items overtake an earlier item
    /// because they or their slot stayed with a worker. After these 64 items, one more item may overtake the earlier
    /// item for each item that the pod's workers take before it from the pod's list.
    ///
    /// The list of a pod has separate parts for the items of different issuing CPUs, so that short items mostly run
    /// where they were queued. The items of one CPU leave the list in order. But items of other parts, at most 64 for
    /// each CPU of the pod, may overtake the first item of a part. While items are short, the overtaking items delay
    /// the first item of a part by less than 1 ms in all. If the items become long, the overtaking ends with the second
    /// check that the manager thread makes after that. The second check comes within 48 ms, and mostly within 6 ms.
    /// While the items are long, the workers take items of the issuing CPUs in turn.
    ///
    /// Managed queues share the limit of a pod if they divide the same CPUs into pods in the same way and have the same
    /// nice level. So a hundred such queues run no more items at a time than one of them: see [Classes](crate#classes).
    /// [`builder`](Self::builder) makes a managed queue with other settings, or on another executor.
    ///
    /// If the global executor was shut down, the queue refuses all items.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("thumbnails");
    /// let size = queue.spawn(|| cmwq::blocking(|| std::fs::metadata("Cargo.toml")))?.join()??.len();
    /// assert!(size > 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A queue for the whole program. The runs of `cmwq::testing` cannot share such a `static`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::LazyLock;
    ///
    /// static MAIL: LazyLock<cmwq::WorkQueue> = LazyLock::new(|| cmwq::WorkQueue::new("mail"));
    ///
    /// assert_eq!(MAIL.spawn(|| "sent")?.join()?, "sent");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name is empty. [`builder`](Self::builder) returns an error instead.
    #[doc(alias = "alloc_workqueue")]
    #[must_use]
    #[track_caller]
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        assert!(!name.is_empty(), "{}", BuildQueueError::EmptyName);
        let made = Self::builder(name).make_on(&Executor::default_for_queues());
        made.expect("a queue with a name and the default settings can be built").0
    }

    /// Returns a builder for a queue of the recommended kind, which [`new`](Self::new) describes.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::builder("thumbnails").max_pending(1000).build()?;
    /// assert_eq!(queue.spawn(|| 6 * 7)?.join()?, 42);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "alloc_workqueue")]
    pub fn builder(name: impl Into<String>) -> WorkQueueBuilder {
        WorkQueueBuilder::new(name.into(), Kind::Managed)
    }

    /// Returns a builder for a queue whose items run on the CPU on which they were queued. The CPU runs one item at a
    /// time, but starts the next item while an item blocks.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::per_cpu("acks").high_priority(true).build()?;
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
    /// let queue = cmwq::WorkQueue::unbound("resolver").max_active_total(16).build()?;
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

    pub(crate) fn bh_builder(name: String) -> WorkQueueBuilder {
        WorkQueueBuilder::new(name, Kind::Bh)
    }

    pub(crate) fn from_handle(handle: Arc<QueueHandle>) -> Self {
        Self { handle }
    }

    pub(crate) fn handle(&self) -> &Arc<QueueHandle> {
        &self.handle
    }

    fn executor(&self) -> &ExecutorInner {
        &self.handle.queue().executor
    }

    /// Returns the full name of the queue.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.queue().name()
    }
}

impl fmt::Debug for WorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("name", &self.name()).finish_non_exhaustive()
    }
}
