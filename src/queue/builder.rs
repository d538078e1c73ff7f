//! Describes, checks and builds a queue.

use std::sync::Arc;

use crate::engine::carrier::Carrier;
use crate::engine::queue::workqueue::{Limit, QueueHandle, QueueKind, QueueSpec, Unbound};
use crate::engine::user_code::report;
use crate::error::BuildQueueError;
use crate::executor::Executor;
use crate::policy::admission::{MAX_ACTIVE_DEFAULT, NO_LIMIT, most_active};
use crate::policy::attrs::Attrs;
use crate::policy::when_full::WhenFull;
use crate::queue::WorkQueue;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub(super) enum Kind {
    #[default]
    Managed,
    PerCpu,
    Unbound,
    Ordered,
    Bh,
}

/// Describes a queue. [`build`](Self::build) then makes the queue.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{WhenFull, WorkQueue};
///
/// let urgent = WorkQueue::per_cpu("acks").high_priority(true).build()?;
/// let log = WorkQueue::ordered("log").max_pending(1000).when_full(WhenFull::Wait).build()?;
/// let error = WorkQueue::ordered("log").max_active(2).build().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "max_active does not go with an ordered queue: it runs one item at a time, in queueing order"
/// );
/// let bulk = WorkQueue::per_cpu("bulk").cpu_intensive(true).histograms(true).build()?;
/// let attrs = cmwq::Attrs::new().scope(cmwq::AffinityScope::Numa);
/// let near = WorkQueue::builder("near its data").max_active_total(64).attrs(attrs).build()?;
/// # drop((urgent, log, bulk, near));
/// # Ok(())
/// # }
/// ```
///
/// With the feature `serde`, a configuration can describe queues. Each queue needs a name. The kinds are `managed`,
/// `per_cpu`, `unbound`, `ordered` and `bh`. A limit or weight that is `null` is unset. [`build`](Self::build) checks
/// the values.
///
/// ```
/// # #[cfg(feature = "serde")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = r#"{ "name": "uploads", "kind": "unbound", "max_active": 16, "max_pending": 1000 }"#;
/// let queue = serde_json::from_str::<cmwq::WorkQueueBuilder>(text)?.build()?;
/// assert_eq!((queue.name(), queue.max_active()), ("uploads", Some(16)));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "serde"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
#[must_use = "a builder makes nothing until `build`"]
pub struct WorkQueueBuilder {
    pub(super) name: String,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) kind: Kind,
    #[cfg_attr(feature = "serde", serde(default))]
    high_priority: bool,
    #[cfg_attr(feature = "serde", serde(default))]
    cpu_intensive: bool,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) power_efficient: bool,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) freezable: bool,
    #[cfg_attr(feature = "serde", serde(default))]
    rescuer: bool,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) name_threads: bool,
    #[cfg_attr(feature = "serde", serde(default))]
    control: bool,
    #[cfg_attr(feature = "serde", serde(default))]
    histograms: Option<bool>,
    #[cfg_attr(feature = "serde", serde(default))]
    max_active: Option<usize>,
    #[cfg_attr(feature = "serde", serde(default))]
    max_active_total: Option<usize>,
    #[cfg_attr(feature = "serde", serde(default))]
    max_pending: Option<usize>,
    #[cfg_attr(feature = "serde", serde(default))]
    when_full: WhenFull,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) weight: Option<u32>,
    #[cfg_attr(feature = "serde", serde(default))]
    attrs: Option<Attrs>,
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) carriers: Vec<Carrier>,
}

impl WorkQueueBuilder {
    pub(super) fn new(name: String, kind: Kind) -> Self {
        Self {
            name,
            kind,
            high_priority: false,
            cpu_intensive: false,
            power_efficient: false,
            freezable: false,
            rescuer: false,
            name_threads: false,
            control: false,
            histograms: None,
            max_active: None,
            max_active_total: None,
            max_pending: None,
            when_full: WhenFull::default(),
            weight: None,
            attrs: None,
            carriers: Vec::new(),
        }
    }

    /// Sets whether the queue's items go to separate pools, whose workers have the [nice level of high-priority
    /// pools](crate::ExecutorBuilder::high_priority_nice). Default: false. This setting cannot be combined with
    /// `attrs` that specify a nice level.
    #[doc(alias = "WQ_HIGHPRI")]
    pub fn high_priority(mut self, yes: bool) -> Self {
        self.high_priority = yes;
        self
    }

    /// Sets whether the queue's items are CPU intensive. Default: false. This setting is for items that keep the CPU
    /// busy for a long time. A CPU-intensive item does not count as running, so the pool starts other items beside it.
    /// The system's scheduler shares the CPU among all these items. CPU-intensive items start by the same rule as other
    /// items. Only per-CPU queues can have this setting.
    #[doc(alias = "WQ_CPU_INTENSIVE")]
    pub fn cpu_intensive(mut self, yes: bool) -> Self {
        self.cpu_intensive = yes;
        self
    }

    /// Sets whether the queue has a thread of its own, the *rescuer*, which is made together with the queue. Default:
    /// false. The rescuer runs the queue's items when no other thread can be made. A queue needs a rescuer if threads
    /// wait for its items while they hold a resource of which the system has run out.
    ///
    /// The name of the rescuer's thread is `cmwq/R-` followed by the queue's name. The rescuer sleeps until a worker
    /// pool with items of this queue has needed a worker for 10 ms and has not got one. For example, the system refuses
    /// to make a thread, or `max_threads` is reached. After the 10 ms, the rescuer runs this queue's items from the
    /// pool, one at a time, until the pool gets a worker. If several pools need the rescuer, it alternates between
    /// them. While a pool still needs a worker, it calls the rescuer again every 100 ms. Items that the rescuer runs
    /// count as rescued, and not as running in the pool. The rescuer is bound to the CPUs of the pool that it serves.
    /// The rescuer keeps the nice level that the queue's workers have when the queue is built.
    ///
    /// A rescuer is one thread, so an item that it runs must not wait for another item that also needs the rescuer.
    /// Rescuers do not count towards [`max_threads`](crate::ExecutorBuilder::max_threads), because they help out when
    /// `max_threads` threads are not enough. The executor calls its thread hooks for rescuers, too. A rescuer ends with
    /// its queue. A bh queue cannot have a rescuer. A rescuer helps if the
    /// [`before_spawn`](crate::ExecutorBuilder::before_spawn) hook, or the system call that makes threads, returns an
    /// error. A rescuer cannot help if the hook or the system call never returns.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::io;
    ///
    /// // Only the manager and rescuers get a thread.
    /// let refuse = |name: &str| {
    ///     let permitted = name.contains("/R-") || name.ends_with("/manager");
    ///     if permitted { Ok(()) } else { Err(io::Error::from(io::ErrorKind::WouldBlock)) }
    /// };
    /// let executor = cmwq::Executor::builder().before_spawn(refuse).build()?;
    /// let queue = cmwq::WorkQueue::builder("writeback").rescuer(true).build_on(&executor)?;
    /// assert_eq!(queue.spawn(cmwq::is_rescuer)?.join()?, true);
    /// assert!(queue.counters().rescuer_calls >= 1 && queue.counters().rescued == 1);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "WQ_MEM_RECLAIM")]
    pub fn rescuer(mut self, yes: bool) -> Self {
        self.rescuer = yes;
        self
    }

    /// Sets whether any process that can open the control socket may change the queue's attributes and limit. Default:
    /// false. The module `cmwq::control`, with the feature `control`, provides this socket. Without this setting, the
    /// socket's clients can only read the attributes and the limit. Without the feature `control`, this setting has no
    /// effect, and each build of a queue with this setting logs a warning.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::builder("thumbnails").control(true).build()?;
    /// # drop(queue);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "WQ_SYSFS")]
    pub fn control(mut self, yes: bool) -> Self {
        self.control = yes;
        self
    }

    /// Limits how many of the items that were queued on the same CPU are active at a time (running, blocked, or on a
    /// worklist). The limit is 1 to 512, or 1 to 2000 for a plain [unbound](WorkQueue::unbound) queue. Default: 256.
    /// Items above the limit wait in order. [`WorkQueue::set_max_active`](crate::WorkQueue::set_max_active) can change
    /// the limit later. Ordered and bh queues run one item at a time, so they have no such setting.
    pub fn max_active(mut self, items: usize) -> Self {
        self.max_active = Some(items);
        self
    }

    /// Limits how many items of the whole queue are active at a time. The range is that of `max_active`, and a queue
    /// has only one of the two limits. Default: unset, so `max_active` applies. Ordered and bh queues have neither.
    pub fn max_active_total(mut self, items: usize) -> Self {
        self.max_active_total = Some(items);
        self
    }

    /// Limits how many accepted items of the whole queue have not begun. At this limit, the queue refuses further items
    /// with [`QueueError::Full`](crate::QueueError::Full). Without this setting, the limit is a hundred million items
    /// for each CPU on which items were queued. A cancelled item counts until a worker reaches its place in the queue.
    ///
    /// Armed timers do not count. Even at the limit, a timer can be armed, and the queue accepts the timer's item when
    /// the timer fires. There are two exceptions. First, in ordered and bh queues and during flushes, a cancelled item
    /// can keep its former place until a worker reaches that place. Until then, arming the item needs room. Second,
    /// [`reschedule`](crate::Submission::reschedule) without a delay needs room, as any submission does.
    pub fn max_pending(mut self, items: usize) -> Self {
        self.max_pending = Some(items);
        self
    }

    /// Sets what the queue does at the limit of [`max_pending`](Self::max_pending), or of the
    /// [executor](crate::ExecutorBuilder::max_pending). By default, the queue refuses the submission.
    #[doc(alias = "spawn_wait")]
    pub fn when_full(mut self, reaction: WhenFull) -> Self {
        self.when_full = reaction;
        self
    }

    /// Sets whether the queue measures how long items wait and run ([`WorkQueue::latency`](crate::WorkQueue::latency)).
    /// If items run for 2 µs or less on average, only some of them are measured. The default is the setting of the
    /// [executor](crate::ExecutorBuilder::histograms). [`WorkQueue::set_histograms`](crate::WorkQueue::set_histograms)
    /// changes the setting later.
    pub fn histograms(mut self, yes: bool) -> Self {
        self.histograms = Some(yes);
        self
    }

    /// Sets the attributes, which decide where items run and at which nice level. Per-CPU and bh queues have no
    /// attributes. [`WorkQueue::apply_attrs`](crate::WorkQueue::apply_attrs) can change the attributes later.
    pub fn attrs(mut self, attrs: Attrs) -> Self {
        self.attrs = Some(attrs);
        self
    }

    /// Makes the queue on the [global executor](Executor::global). If the queue has a rescuer, waits until the
    /// rescuer's thread exists.
    ///
    /// # Errors
    ///
    /// Returns an error if settings contradict each other or are out of range. The error names these settings and the
    /// reason. Returns [`BuildQueueError::Rescuer`] if the queue's rescuer cannot be made,
    /// [`BuildQueueError::ShutDown`] if the executor is shut down, and [`BuildQueueError::Forked`] in a forked process.
    /// A call that fails makes nothing.
    pub fn build(self) -> Result<WorkQueue, BuildQueueError> {
        self.build_on(&Executor::default_for_queues())
    }

    /// Makes the queue on this executor.
    ///
    /// # Errors
    ///
    /// The errors are those of [`build`](Self::build).
    pub fn build_on(self, executor: &Executor) -> Result<WorkQueue, BuildQueueError> {
        if self.name.is_empty() {
            return Err(BuildQueueError::EmptyName);
        }
        self.check_combination()?;
        if self.max_pending == Some(0) {
            return Err(BuildQueueError::MaxPending);
        }
        if executor.inner.origin.is_forked() {
            return Err(BuildQueueError::Forked);
        }
        if executor.inner.is_shut_down() {
            return Err(BuildQueueError::ShutDown);
        }
        if self.control && !cfg!(feature = "control") {
            report!(
                warn,
                "queue {:?} was built with `control`, but the crate without the feature `control`; the queue cannot be \
                 changed from outside",
                self.name
            );
        }
        match self.make_on(executor) {
            Ok((queue, true)) => Ok(queue),
            // The executor was shut down after the check above. The executor's manager may have ended before it could
            // make a rescuer.
            Ok((_, false)) => Err(BuildQueueError::ShutDown),
            Err(BuildQueueError::Rescuer { .. }) if executor.inner.is_shut_down() => {
                Err(BuildQueueError::ShutDown)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the queue, even in a forked process or on an executor that was shut down. In both cases, the new queue
    /// refuses every operation. Also returns whether the executor accepts the queue.
    pub(crate) fn make_on(self, executor: &Executor) -> Result<(WorkQueue, bool), BuildQueueError> {
        let (limit, share, unbound) = (self.limit()?, self.share()?, self.unbound(executor));
        let attrs = self.attrs.clone().unwrap_or_default();
        if let Some(fault) = attrs.fault(executor.cpus()) {
            return Err(BuildQueueError::of_attrs(fault, executor.cpus()));
        }
        let kind = match unbound {
            Some(unbound) => QueueKind::Unbound(executor.inner.resolve(unbound, &attrs)),
            None if self.kind == Kind::Bh => QueueKind::Bh { high: self.high_priority },
            None => QueueKind::PerCpu { high: self.high_priority },
        };
        let spec = QueueSpec {
            rescuer: self.rescuer.then(|| self.make_rescuer(&kind, executor)).transpose()?,
            limit,
            most_active: most_active(self.kind == Kind::Unbound),
            unbound,
            is_bh: self.kind == Kind::Bh,
            name: self.name.into(),
            max_pending: self.max_pending,
            when_full: self.when_full,
            high_priority: self.high_priority,
            cpu_intensive: self.cpu_intensive,
            ordered: matches!(self.kind, Kind::Ordered | Kind::Bh),
            freezable: self.freezable,
            names_threads: self.name_threads,
            control: self.control,
            carriers: self.carriers,
            share,
        };
        let histograms = self.histograms.unwrap_or(executor.inner.times_items);
        let (handle, in_time) =
            QueueHandle::new(spec, (kind, attrs), histograms, Arc::clone(&executor.inner));
        if in_time && executor.inner.prestarts {
            handle.queue().prestart();
        }
        Ok((WorkQueue::from_handle(handle), in_time))
    }

    fn check_combination(&self) -> Result<(), BuildQueueError> {
        let ordered = matches!(self.kind, Kind::Ordered | Kind::Bh);
        let per_cpu = self.kind == Kind::PerCpu;
        let (kind, one_at_a_time) = match self.kind {
            Kind::Ordered => ("an ordered queue", "it runs one item at a time, in queueing order"),
            Kind::Bh => ("a bh queue", "each CPU runs one of its items at a time, in their order"),
            _ => ("", ""),
        };
        let not_per_cpu = if self.kind == Kind::Bh { kind } else { "an unbound queue" };
        let nice = self.attrs.as_ref().is_some_and(Attrs::names_nice);
        let strict = self.attrs.as_ref().is_some_and(Attrs::is_strict);
        let bound_to_cpus = if per_cpu { "a per-CPU queue" } else { "strict attrs" };
        let rules = [
            (ordered && self.max_active.is_some(), "max_active", kind, one_at_a_time),
            (ordered && self.max_active_total.is_some(), "max_active_total", kind, one_at_a_time),
            (
                self.max_active.is_some() && self.max_active_total.is_some(),
                "max_active",
                "max_active_total",
                "one limits each CPU's part of the queue, the other the queue as a whole",
            ),
            (
                self.cpu_intensive && !per_cpu,
                "cpu_intensive",
                not_per_cpu,
                "it exempts items from the count of a per-CPU pool",
            ),
            (
                self.power_efficient && !per_cpu,
                "power_efficient",
                not_per_cpu,
                "it turns a per-CPU queue into an unbound one",
            ),
            (
                self.attrs.is_some() && matches!(self.kind, Kind::PerCpu | Kind::Bh),
                "attrs",
                if per_cpu { "a per-CPU queue" } else { kind },
                "its items run on the CPU that they were queued on",
            ),
            (
                self.rescuer && self.kind == Kind::Bh,
                "rescuer",
                kind,
                "its items run on the one thread of their CPU, in order, and on no other",
            ),
            (
                self.freezable && self.kind == Kind::Bh,
                "freezable",
                kind,
                "its items go to the thread of their CPU at once, and nothing holds them back",
            ),
            (
                self.when_full == WhenFull::CallerRuns && (ordered || per_cpu || strict),
                "WhenFull::CallerRuns",
                if ordered { kind } else { bound_to_cpus },
                if ordered { one_at_a_time } else { "a caller may be on any other CPU" },
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
        let limit = most_active(self.kind == Kind::Unbound);
        let checked = |setter, items: Option<usize>| match items.unwrap_or(MAX_ACTIVE_DEFAULT) {
            value if (1..=limit).contains(&value) => Ok(value),
            value => Err(BuildQueueError::MaxActive { setter, value, limit }),
        };
        match (self.kind, self.max_active_total) {
            (Kind::Ordered, _) => Ok(Limit::Total(1)),
            // A bh queue needs no limit, because a single worker on each CPU runs its items.
            (Kind::Bh, _) => Ok(Limit::PerCpu(NO_LIMIT)),
            (_, Some(_)) => checked("max_active_total", self.max_active_total).map(Limit::Total),
            (_, None) => checked("max_active", self.max_active).map(Limit::PerCpu),
        }
    }

    /// Returns the settings that complete the attributes of an unbound queue. Returns `None` for a queue without
    /// attributes.
    fn unbound(&self, executor: &Executor) -> Option<Unbound> {
        let executor = &executor.inner;
        let is_unbound = match self.kind {
            Kind::Managed | Kind::Unbound | Kind::Ordered => true,
            Kind::PerCpu => self.power_efficient && executor.power_efficient,
            Kind::Bh => false,
        };
        let nice = if self.high_priority { executor.nice.high } else { executor.nice.normal };
        is_unbound.then_some(Unbound { managed: self.kind == Kind::Managed, nice })
    }
}
