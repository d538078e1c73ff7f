//! A report of what an executor is doing now, in the format of the kernel's `show_all_workqueues`.

use std::fmt;

use crate::engine::manager::offenders::Offender;

use super::snapshot::{PoolSnapshot, QueueSnapshot, RunningItem, Snapshot, WorkerSnapshot, WorkerState};
use super::text::{For, Item, Thread};

/// A report of what an executor is doing. The report lists the busy queues with the items that run, the busy pools, and
/// the types of items that delayed other items.
///
/// [`Snapshot::busy`] makes this report, which borrows from the snapshot. The report's `Display` has the format of the
/// kernel's `show_all_workqueues`, which SysRq-t prints. The report only counts the waiting items, because a worklist
/// cannot be listed while it is in use.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{Executor, WorkQueue, set_description};
///
/// let executor = Executor::builder().build()?;
/// assert!(executor.dump().busy().is_idle());
///
/// let mail = WorkQueue::builder("mail").build_on(&executor)?;
/// let its = executor.clone();
/// let report = mail.spawn(move || {
///     set_description("to postmaster");
///     its.dump().busy().to_string()
/// })?;
/// let report = report.join()?;
/// assert!(report.contains("workqueue mail: managed"), "{report}");
/// assert!(report.contains(r#""to postmaster""#), "{report}");
/// # Ok(())
/// # }
/// ```
#[doc(alias = "show_all_workqueues")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BusyReport<'a> {
    /// The queues whose items run or wait, in the order in which the queues were made.
    pub queues: Vec<BusyQueue<'a>>,
    /// The running items whose queue has ended, or was made after the snapshot listed the queues.
    pub others: Vec<InFlight<'a>>,
    /// The pools that have waiting items, or a worker that is not idle.
    pub pools: Vec<&'a PoolSnapshot>,
    /// The types of items that kept the CPU for too long, as [`Executor::hogs`](crate::Executor::hogs) returns them.
    pub hogs: &'a [Offender],
    /// The types of items that blocked without a guard, as
    /// [`Executor::undeclared_blockers`](crate::Executor::undeclared_blockers) returns them.
    pub undeclared_blockers: &'a [Offender],
    forked: bool,
}

/// A queue whose items run or wait.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BusyQueue<'a> {
    /// The queue.
    pub queue: &'a QueueSnapshot,
    /// The queue's running items that workers and rescuers have taken. Items on lent threads are not listed: items that
    /// run on [their issuer's thread](crate::WhenFull::CallerRuns), and closures of [`join`](crate::join()) that the
    /// thread of a waiting item runs. The queue's [counters](crate::Counters::in_flight) count all running items.
    pub in_flight: Vec<InFlight<'a>>,
    /// The number of items that have a slot and wait for a worker.
    pub pending: usize,
    /// The number of items that wait for a slot.
    pub inactive: usize,
}

/// A running item, with its worker and its pool.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct InFlight<'a> {
    /// The item.
    pub item: &'a RunningItem,
    /// The worker or rescuer that executes the item.
    pub worker: &'a WorkerSnapshot,
    /// The pool to which the worker belongs, or which the rescuer serves.
    pub pool: &'a PoolSnapshot,
}

impl Snapshot {
    /// Returns a report of what the executor is doing: its busy queues and pools, and its running items with their age
    /// and description.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::builder().build()?;
    /// println!("{}", executor.dump().busy());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn busy(&self) -> BusyReport<'_> {
        let workers =
            self.pools.iter().flat_map(|pool| pool.worker_details.iter().map(move |worker| (pool, worker)));
        let running =
            workers.filter_map(|(pool, worker)| Some(InFlight { item: worker.item.as_ref()?, worker, pool }));
        let number = |item: &InFlight<'_>| item.item.queue_number;
        let mut running: Vec<InFlight<'_>> = running.collect();
        running.sort_by_key(number);
        let of = |queue: &QueueSnapshot| {
            let from = running.partition_point(|item| number(item) < Some(queue.number));
            let to = running.partition_point(|item| number(item) <= Some(queue.number));
            running[from..to].to_vec()
        };
        let is_known = |item: &InFlight<'_>| {
            let known = |number| self.queues.binary_search_by_key(&number, |queue| queue.number).is_ok();
            number(item).is_some_and(known)
        };
        let queues = self.queues.iter().map(|queue| BusyQueue::new(queue, of(queue)));
        BusyReport {
            queues: queues.filter(BusyQueue::is_busy).collect(),
            others: running.iter().copied().filter(|item| !is_known(item)).collect(),
            pools: self.pools.iter().filter(|pool| is_busy(pool)).collect(),
            hogs: &self.hogs,
            undeclared_blockers: &self.undeclared_blockers,
            forked: self.forked,
        }
    }
}

impl BusyReport<'_> {
    /// Returns whether the report lists no busy queue, no running item and no busy pool.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queues.is_empty() && self.others.is_empty() && self.pools.is_empty()
    }
}

impl<'a> BusyQueue<'a> {
    fn new(queue: &'a QueueSnapshot, in_flight: Vec<InFlight<'a>>) -> Self {
        // An item on a lent thread has no worker in a pool, so only the queue's counters include this item.
        let running = in_flight.len().max(queue.counters.in_flight() as usize);
        // The snapshot read the workers, the counters and the queue at different times, so more items can be running
        // than `queue.active` says.
        let pending = queue.active.saturating_sub(running);
        Self { queue, in_flight, pending, inactive: queue.inactive }
    }

    fn is_busy(&self) -> bool {
        self.queue.len > 0 || !self.in_flight.is_empty()
    }
}

fn is_busy(pool: &PoolSnapshot) -> bool {
    pool.idle < pool.workers
        || pool.pending > 0
        || pool.creating && pool.waking > 0
        || pool.worker_details.iter().any(|worker| worker.item.is_some())
}

impl fmt::Display for BusyReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Showing busy workqueues and worker pools:")?;
        if self.forked {
            writeln!(f, "the executor belongs to the process that this one was forked from")?;
        } else if self.is_idle() {
            writeln!(f, "nothing is busy")?;
        }
        for queue in &self.queues {
            write!(f, "{queue}")?;
        }
        if !self.others.is_empty() {
            writeln!(f, "workqueues that are not listed:")?;
            self.others.iter().try_for_each(|item| writeln!(f, "  in-flight: {item}"))?;
        }
        self.pools.iter().try_for_each(|pool| busy_pool(f, pool))?;
        offenders(f, "hogs (items that kept the CPU for too long):", self.hogs)?;
        offenders(f, "undeclared blockers (items that blocked outside of a guard):", self.undeclared_blockers)
    }
}

impl fmt::Display for BusyQueue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue;
        write!(f, "workqueue {}: {}", queue.name.escape_debug(), queue.kind)?;
        if let Some(attrs) = &queue.attrs {
            let strict = if attrs.strict { " strict" } else { "" };
            write!(f, " cpus={} scope={}{strict} nice={}", attrs.cpus, attrs.scope, attrs.nice)?;
        }
        write!(f, " active={}", queue.active)?;
        if let Some(max) = queue.max_active {
            write!(f, " max_active={max}{}", if queue.limited_as_a_whole { "" } else { "/cpu" })?;
        }
        for (said, word) in [(queue.frozen, " frozen"), (queue.draining, " draining")] {
            f.write_str(if said { word } else { "" })?;
        }
        writeln!(f)?;
        self.in_flight.iter().try_for_each(|item| writeln!(f, "  in-flight: {item}"))?;
        if self.pending > 0 {
            writeln!(f, "  pending: {}", self.pending)?;
        }
        if self.inactive > 0 {
            writeln!(f, "  inactive: {}", self.inactive)?;
        }
        Ok(())
    }
}

impl fmt::Display for InFlight<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Thread(self.worker), Item(self.item))?;
        match self.worker.state {
            WorkerState::Running | WorkerState::Uncounted => Ok(()),
            state => write!(f, " ({state})"),
        }
    }
}

fn busy_pool(f: &mut fmt::Formatter<'_>, pool: &PoolSnapshot) -> fmt::Result {
    write!(f, "pool {} ({}): cpus={} nice={}", pool.id, pool.name, pool.cpus, pool.nice)?;
    if let Some(time) = pool.stalled_for {
        write!(f, " hung={}", For(time))?;
    }
    write!(f, " workers={} running={} pending={}", pool.workers, pool.running, pool.pending)?;
    if pool.creating {
        f.write_str(" creating")?;
    }
    let idle = pool.worker_details.iter().filter(|worker| worker.state == WorkerState::Idle);
    let names: Vec<String> = idle
        .map(|worker| worker.thread_id.map_or_else(|| worker.thread.clone(), |id| id.to_string()))
        .collect();
    if !names.is_empty() {
        write!(f, " idle: {}", names.join(" "))?;
    }
    writeln!(f)
}

fn offenders(f: &mut fmt::Formatter<'_>, title: &str, offenders: &[Offender]) -> fmt::Result {
    if !offenders.is_empty() {
        writeln!(f, "{title}")?;
    }
    offenders
        .iter()
        .try_for_each(|offender| writeln!(f, "  {}: {} times", offender.item_type, offender.count))
}
