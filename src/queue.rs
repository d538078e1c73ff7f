//! [`WorkQueue`] and its builder.

use std::fmt;
use std::sync::Arc;

use crate::engine::queue::{Limit, QueueHandle, QueueKind, QueueSpec};
use crate::engine::worker;
use crate::policy::admission::{MAX_ACTIVE_DEFAULT, MAX_ACTIVE_LIMIT};
use crate::{
    AffinityScope, BuildQueueError, CpuSet, Executor, FlushError, JoinHandle, QueueError, Refused, Work,
    blocking,
};

/// A named queue in front of the worker pools that all queues share.
///
/// A queue costs no thread: a service may have a hundred. It is where a group of items gets its limits, is flushed,
/// and is told apart. Handles are cheap to clone; all clones are the same queue. When the last handle goes, what was
/// accepted still runs; dropping never blocks.
///
/// Four kinds:
///
/// | made by | its items run | how many at once |
/// |---|---|---|
/// | [`new`](Self::new) | on the issuer's pod (by default the CPUs that share its last-level cache) | as many as the pod has CPUs; blocked ones do not count |
/// | [`per_cpu`](Self::per_cpu) | on the issuer's CPU | one per CPU; blocked ones do not count |
/// | [`unbound`](Self::unbound) | on the issuer's pod | as many as there are, up to `max_active` |
/// | [`ordered`](Self::ordered) | on the issuer's pod | one in the whole process, in queueing order |
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
    /// CPUs, not counting those that block under a guard.
    #[expect(clippy::new_ret_no_self, reason = "a queue is described first, like a thread or a command")]
    pub fn new(name: impl Into<String>) -> WorkQueueBuilder {
        WorkQueueBuilder::new(name.into(), Kind::Managed)
    }

    /// Items run on the CPU that they were queued on, one at a time while it does not block.
    #[doc(alias = "WQ_PERCPU")]
    pub fn per_cpu(name: impl Into<String>) -> WorkQueueBuilder {
        WorkQueueBuilder::new(name.into(), Kind::PerCpu)
    }

    /// Items start as soon as possible, up to `max_active`, without regard to how many run.
    #[doc(alias = "WQ_UNBOUND")]
    pub fn unbound(name: impl Into<String>) -> WorkQueueBuilder {
        WorkQueueBuilder::new(name.into(), Kind::Unbound)
    }

    /// At most one item at a time in the whole process, in queueing order.
    #[doc(alias = "alloc_ordered_workqueue")]
    pub fn ordered(name: impl Into<String>) -> WorkQueueBuilder {
        WorkQueueBuilder::new(name.into(), Kind::Ordered)
    }

    /// Its name, whole.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.queue().name()
    }

    /// Queues a closure that runs once. Costs one allocation, and no lock or system call while the pool is busy.
    ///
    /// Everything before this call happens before the closure runs. Dropping the handle detaches the item.
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
    /// [`QueueError::Full`] if the queue holds `max_pending` items, with the closure.
    #[inline]
    pub fn spawn<F, T>(&self, closure: F) -> Result<JoinHandle<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.handle.queue().spawn(closure) {
            Ok(handle) => Ok(JoinHandle::new(handle)),
            Err((_full, closure)) => Err(Refused::new(QueueError::Full, closure)),
        }
    }

    /// Queues a reusable item. True: it is pending now. False: it was pending already, and that run will see
    /// everything written before this call. The last queueing always gets a run that begins after it.
    ///
    /// An item is executed by one worker at a time: queued while it runs, also from inside itself or onto another
    /// queue, it runs again afterwards, in the slot and order of the queue that it was queued on.
    ///
    /// No allocation, and no lock or system call while the pool is busy.
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
    /// queue.queue(&refresh)?; // Once more, or the same run, if that has not begun.
    /// queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`QueueError::Full`] if the queue holds `max_pending` items and this one is not among them.
    #[doc(alias = "queue_work")]
    #[inline]
    pub fn queue(&self, work: &Work) -> Result<bool, QueueError> {
        self.handle.queue().queue(&work.item).map_err(|_full| QueueError::Full)
    }

    /// Waits until everything that was queued before this call is done, under a blocking guard. What is queued
    /// meanwhile is not waited for, and does not delay it.
    ///
    /// Flushes of the same queue by several threads are batched. Costs O(CPUs) for a queue that is used on all.
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
    /// [`FlushError::WouldDeadlock`] if the caller is an item of this queue.
    #[doc(alias = "flush_workqueue")]
    pub fn flush(&self) -> Result<(), FlushError> {
        let queue = self.handle.queue();
        let current = worker::with_current(|worker| worker?.current());
        if current.is_some_and(|current| std::ptr::eq(current.queue, queue)) {
            return Err(FlushError::WouldDeadlock);
        }
        blocking(|| queue.flush.wait(queue.gates()));
        Ok(())
    }
}

impl fmt::Debug for WorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Where the items of an unbound queue run, and how urgently.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{AffinityScope, Attrs, WorkQueue};
///
/// let attrs = Attrs::new().scope(AffinityScope::Numa).nice(10);
/// let queue = WorkQueue::new("reindex").attrs(attrs).build()?;
/// # drop(queue);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "workqueue_attrs")]
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[must_use]
pub struct Attrs {
    nice: Option<i32>,
    cpus: Option<CpuSet>,
    scope: Option<AffinityScope>,
}

impl Attrs {
    /// The defaults: the executor's normal nice level, CPUs and scope.
    pub fn new() -> Self {
        Self::default()
    }

    /// The nice level, −20 to 19.
    pub fn nice(mut self, level: i32) -> Self {
        self.nice = Some(level);
        self
    }

    /// The CPUs that items may run on, a part of the executor's.
    #[doc(alias = "cpumask")]
    pub fn cpus(mut self, cpus: CpuSet) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// How near to their issuer items run.
    #[doc(alias = "affn_scope")]
    pub fn scope(mut self, scope: AffinityScope) -> Self {
        self.scope = Some(scope);
        self
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Managed,
    PerCpu,
    Unbound,
    Ordered,
}

/// Describes a queue; [`build`](Self::build) makes it.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::WorkQueue;
///
/// let urgent = WorkQueue::per_cpu("acks").high_priority().build()?;
/// let log = WorkQueue::ordered("log").max_pending(1000).build()?;
/// let error = WorkQueue::ordered("log").max_active(2).build().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "max_active does not go with an ordered queue: it runs one item at a time, that is what orders it"
/// );
/// # drop((urgent, log));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing until `build`"]
pub struct WorkQueueBuilder {
    name: String,
    kind: Kind,
    high_priority: bool,
    cpu_intensive: bool,
    power_efficient: bool,
    max_active: Option<usize>,
    max_active_total: Option<usize>,
    max_pending: Option<usize>,
    attrs: Option<Attrs>,
}

impl WorkQueueBuilder {
    fn new(name: String, kind: Kind) -> Self {
        Self {
            name,
            kind,
            high_priority: false,
            cpu_intensive: false,
            power_efficient: false,
            max_active: None,
            max_active_total: None,
            max_pending: None,
            attrs: None,
        }
    }

    /// Items go to pools of their own, whose workers have the high nice level. Not for queues with `attrs` that name
    /// a nice level.
    #[doc(alias = "WQ_HIGHPRI")]
    pub fn high_priority(mut self) -> Self {
        self.high_priority = true;
        self
    }

    /// Items do not count as running: they keep the CPU busy for long, and the system's scheduler shares it between
    /// them and other items. When they may start is regulated all the same. Per-CPU queues only.
    #[doc(alias = "WQ_CPU_INTENSIVE")]
    pub fn cpu_intensive(mut self) -> Self {
        self.cpu_intensive = true;
        self
    }

    /// Per-CPU, unless the executor was built as [`power_efficient`](crate::ExecutorBuilder::power_efficient): then
    /// unbound. Per-CPU queues only.
    #[doc(alias = "WQ_POWER_EFFICIENT")]
    pub fn power_efficient(mut self) -> Self {
        self.power_efficient = true;
        self
    }

    /// How many items may be active (running, blocked, or on a worklist) per CPU that they were queued on: 1 to 512.
    /// 0 stands for the default, 256. The rest wait in order.
    pub fn max_active(mut self, items: usize) -> Self {
        self.max_active = Some(items);
        self
    }

    /// Limits the active items of the queue as a whole instead, 1 to 512. 0 stands for the default, 256.
    pub fn max_active_total(mut self, items: usize) -> Self {
        self.max_active_total = Some(items);
        self
    }

    /// How many accepted items may wait to begin; beyond that the queue answers [`QueueError::Full`]. Default: no
    /// limit. A cancelled item counts until its place in the queue is reached.
    pub fn max_pending(mut self, items: usize) -> Self {
        self.max_pending = Some(items);
        self
    }

    /// Where items run, and how urgently. Not for per-CPU queues.
    pub fn attrs(mut self, attrs: Attrs) -> Self {
        self.attrs = Some(attrs);
        self
    }

    /// Makes the queue on the [global executor](Executor::global).
    ///
    /// # Errors
    ///
    /// If what was asked for has no meaning: the error says what, and why. Nothing was made.
    pub fn build(self) -> Result<WorkQueue, BuildQueueError> {
        self.build_on(Executor::global())
    }

    /// Makes the queue on this executor.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_on(self, executor: &Executor) -> Result<WorkQueue, BuildQueueError> {
        if self.name.is_empty() {
            return Err(BuildQueueError::EmptyName);
        }
        self.check_combination()?;
        if self.max_pending == Some(0) {
            return Err(BuildQueueError::MaxPending);
        }
        let spec = QueueSpec {
            limit: self.limit()?,
            kind: self.queue_kind(executor)?,
            name: self.name.into(),
            max_pending: self.max_pending,
            cpu_intensive: self.cpu_intensive,
        };
        Ok(WorkQueue { handle: Arc::new(QueueHandle::new(spec, Arc::clone(&executor.inner))) })
    }

    fn check_combination(&self) -> Result<(), BuildQueueError> {
        let ordered = self.kind == Kind::Ordered;
        let per_cpu = self.kind == Kind::PerCpu;
        let one_at_a_time = "it runs one item at a time, that is what orders it";
        let nice = self.attrs.as_ref().is_some_and(|attrs| attrs.nice.is_some());
        let rules = [
            (ordered && self.max_active.is_some(), "max_active", "an ordered queue", one_at_a_time),
            (
                ordered && self.max_active_total.is_some(),
                "max_active_total",
                "an ordered queue",
                one_at_a_time,
            ),
            (
                self.max_active.is_some() && self.max_active_total.is_some(),
                "max_active",
                "max_active_total",
                "one limits each CPU's part of the queue, the other the queue as a whole",
            ),
            (
                self.cpu_intensive && !per_cpu,
                "cpu_intensive",
                "an unbound queue",
                "it exempts items from the count of a per-CPU pool",
            ),
            (
                self.power_efficient && !per_cpu,
                "power_efficient",
                "an unbound queue",
                "it turns a per-CPU queue into an unbound one",
            ),
            (
                self.attrs.is_some() && per_cpu,
                "attrs",
                "a per-CPU queue",
                "its items run on the CPU that they were queued on",
            ),
            (
                self.high_priority && nice,
                "high_priority",
                "attrs with a nice level",
                "both choose the nice level",
            ),
        ];
        match rules.into_iter().find(|rule| rule.0) {
            Some((_, this, with, because)) => Err(BuildQueueError::Contradiction { this, with, because }),
            None => Ok(()),
        }
    }

    fn limit(&self) -> Result<Limit, BuildQueueError> {
        let checked = |items: Option<usize>| match items.unwrap_or(0) {
            0 => Ok(MAX_ACTIVE_DEFAULT),
            value if value <= MAX_ACTIVE_LIMIT => Ok(value),
            value => Err(BuildQueueError::MaxActive { value, limit: MAX_ACTIVE_LIMIT }),
        };
        match (self.kind, self.max_active_total) {
            (Kind::Ordered, _) => Ok(Limit::Total(1)),
            (_, Some(_)) => checked(self.max_active_total).map(Limit::Total),
            (_, None) => checked(self.max_active).map(Limit::PerCpu),
        }
    }

    fn queue_kind(&self, executor: &Executor) -> Result<QueueKind, BuildQueueError> {
        let executor = &executor.inner;
        let becomes_unbound = self.power_efficient && executor.power_efficient;
        if self.kind == Kind::PerCpu && !becomes_unbound {
            return Ok(QueueKind::PerCpu { high: self.high_priority });
        }
        let attrs = self.attrs.clone().unwrap_or_default();
        let level = if self.high_priority { executor.nice.high } else { executor.nice.normal };
        let nice = attrs.nice.unwrap_or(level);
        if !(-20..=19).contains(&nice) {
            return Err(BuildQueueError::Nice(nice));
        }
        let cpus = attrs.cpus.unwrap_or_else(|| executor.cpus.clone());
        if cpus.is_empty() {
            return Err(BuildQueueError::NoCpu);
        }
        if let Some(cpu) = cpus.iter().find(|cpu| !executor.cpus.contains(*cpu)) {
            return Err(BuildQueueError::UnknownCpu { cpu, known: executor.cpus.clone() });
        }
        let scope = attrs.scope.unwrap_or(executor.default_scope);
        Ok(QueueKind::Unbound { managed: self.kind == Kind::Managed, scope, nice, cpus })
    }
}
