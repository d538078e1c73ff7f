//! [`Executor`]: the worker pools of a set of CPUs.

mod attrs;
mod builder;
mod global;
mod on_cpus;
mod shutdown;
mod system;

use std::fmt;
use std::sync::Arc;

use crate::CpuSet;
use crate::engine::executor::ExecutorInner;
use crate::engine::offenders::{Offender, Offenders};
use crate::engine::user_code::report;
use crate::observe::{Monitor, Snapshot};
use crate::sys::fork::PerProcess;

pub use self::builder::ExecutorBuilder;
pub use self::global::GlobalExecutor;
pub use self::shutdown::{QueueReport, ShutdownReport};
use self::system::SystemQueues;

static GLOBAL: PerProcess<Executor> = PerProcess::new();

/// The worker pools of a set of CPUs, and the thread that manages them.
///
/// An executor is a value, cheap to clone: all clones are the same executor. It has two pools per CPU, of normal and
/// high priority, which all per-CPU queues share, and pools of pods, which all queues with equal attributes share.
/// Pools are made when first used: an executor without work has no worker threads, only its manager, asleep.
///
/// Most programs need none of their own: queues use [`Executor::global`] unless told otherwise.
///
/// When the last clone and the last queue are gone and everything accepted has run, the threads end by themselves.
/// Dropping never blocks.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{Executor, WorkQueue};
///
/// let executor = Executor::builder().thread_name_prefix("resize").max_threads(16).build()?;
/// let queue = WorkQueue::new("thumbnails").build_on(&executor)?;
/// assert_eq!(queue.spawn(|| 6 * 7)?.join()?, 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Executor {
    pub(crate) inner: Arc<ExecutorInner>,
    handles: Arc<Handles>,
}

/// What all clones share. When the last one goes nobody could thaw the executor any more: so it thaws.
struct Handles {
    inner: Arc<ExecutorInner>,
    system: SystemQueues,
}

impl Drop for Handles {
    fn drop(&mut self) {
        self.inner.freeze(false);
    }
}

impl Executor {
    fn from_inner(inner: ExecutorInner) -> Self {
        let inner = Arc::new(inner);
        let handles = Handles { inner: Arc::clone(&inner), system: SystemQueues::default() };
        Self { handles: Arc::new(handles), inner }
    }

    /// Starts to describe an executor.
    pub fn builder() -> ExecutorBuilder {
        ExecutorBuilder::new()
    }

    /// The process-wide default, made on first use.
    ///
    /// It uses the CPUs that the process may run on and the machine's topology; where that cannot be read, it takes the
    /// CPUs for equals and logs an error. To have it otherwise, call [`ExecutorBuilder::build_global`] before the first
    /// use: only what that returns can [shut it down](crate::GlobalExecutor). If its manager's thread cannot be made, that
    /// is tried again as work comes, at most once a second; meanwhile the work waits.
    ///
    /// A forked process has none of its parent's threads: there, this makes a new one on first use, which
    /// `build_global` may configure before. See [Fork](crate#fork).
    ///
    /// # Examples
    ///
    /// ```
    /// let cpus = cmwq::Executor::global().cpus();
    /// assert!(!cpus.is_empty());
    /// ```
    pub fn global() -> &'static Self {
        let mut complaints = (None, None);
        let executor = GLOBAL.get_or_init(|| {
            let (executor, manager, fallback) = ExecutorBuilder::new().assemble_default();
            complaints = (fallback, manager.err());
            executor
        });
        // Only now: a logger may use the global executor itself, which is not to be had while it is being made.
        if let Some(error) = complaints.0 {
            report!(error, "{error}; taking the CPUs for equals");
        }
        if let Some(error) = complaints.1 {
            report!(error, "the manager's thread cannot be made: {error}; work waits");
        }
        executor
    }

    /// Returns whether this is the process-wide executor, or a clone of it.
    fn is_global(&self) -> bool {
        GLOBAL.get().is_some_and(|global| Arc::ptr_eq(&global.inner, &self.inner))
    }

    /// The CPUs that it uses, by the numbers of its topology. Those that the process has lost for now are among them:
    /// [`Snapshot::lost_cpus`](crate::observe::Snapshot::lost_cpus).
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.inner.cpus
    }

    /// Freezes the queues that were built as [`freezable`](crate::WorkQueueBuilder::freezable): nothing starts any more.
    /// What is active goes on; [`freeze_busy`](Self::freeze_busy) tells whether something is. Queues still accept items,
    /// which wait in order, and a flush waits for them, until the executor [thaws](Self::thaw). Queues that are built
    /// meanwhile begin frozen.
    ///
    /// For moments at which nothing must change: a snapshot of the process, a switch of its storage. Does nothing if the
    /// executor is frozen. It thaws by itself when its last clone is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Executor, WorkQueue};
    ///
    /// let executor = Executor::builder().build()?;
    /// let writes = WorkQueue::ordered("writes").freezable().build_on(&executor)?;
    /// executor.freeze_begin();
    /// let write = writes.spawn(|| "written")?;
    /// assert!(!executor.freeze_busy(), "it has not begun, and will not");
    /// executor.thaw();
    /// assert_eq!(write.join()?, "written");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "freeze_workqueues_begin")]
    pub fn freeze_begin(&self) {
        self.inner.freeze(true);
    }

    /// Is an item of a freezable queue still active? Once it says no, while frozen, it stays so.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let executor = cmwq::Executor::builder().build()?;
    /// executor.freeze_begin();
    /// while executor.freeze_busy() {
    ///     std::thread::sleep(Duration::from_millis(1));
    /// }
    /// // Nothing of the freezable queues runs here.
    /// executor.thaw();
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "freeze_workqueues_busy")]
    #[must_use]
    pub fn freeze_busy(&self) -> bool {
        self.inner.freeze_busy()
    }

    /// Freezable queues go on, in order and with their limits; those that were set meanwhile count. Does nothing if the
    /// executor is not frozen.
    #[doc(alias = "thaw_workqueues")]
    pub fn thaw(&self) {
        self.inner.freeze(false);
    }

    /// All of it at this moment: pods, pools, workers and queues (the kernel's `wq_dump`). What is going on right now is
    /// told by [`busy`](Snapshot::busy), and what queues have done so far by a [`monitor`](Self::monitor).
    ///
    /// Nothing is stopped. Costs O(queues × CPUs + threads), some microseconds for each queue.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::builder().build()?;
    /// assert_eq!(executor.dump().threads, 0, "no work, no workers");
    /// println!("{}", executor.dump());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "wq_dump")]
    #[doc(alias = "show_all_workqueues")]
    #[must_use]
    pub fn dump(&self) -> Snapshot {
        Snapshot::take(&self.inner)
    }

    /// What takes samples of what its queues have done so far (the kernel's `wq_monitor`).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::builder().build()?;
    /// print!("{}", executor.monitor().sample());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "wq_monitor")]
    pub fn monitor(&self) -> Monitor {
        Monitor::new(&self.inner)
    }

    /// The types of items that used the CPU for longer than the
    /// [`hog_threshold`](crate::ExecutorBuilder::hog_threshold) without blocking, while others waited for their place:
    /// the most frequent first. Empty in a forked process, and with [`Detection::Off`](crate::Detection::Off).
    ///
    /// Such an item belongs on a [`cpu_intensive`](crate::WorkQueueBuilder::cpu_intensive) or
    /// [unbound](crate::WorkQueue::unbound) queue, or is better divided into several.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::builder().build()?;
    /// assert!(executor.hogs().is_empty(), "nothing ran");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "wq_cpu_intensive_report")]
    #[doc(alias = "WQ_CPU_INTENSIVE")]
    #[must_use]
    pub fn hogs(&self) -> Vec<Offender> {
        self.offenders(Offenders::hogs)
    }

    /// The types of items that were seen blocking outside of any [guard](crate#guards), while others waited for their
    /// place: the most frequent first. There a guard is missing. Empty in a forked process.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::builder().build()?;
    /// for offender in executor.undeclared_blockers() {
    ///     println!("{}: no guard, {} times", offender.item_type, offender.count);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn undeclared_blockers(&self) -> Vec<Offender> {
        self.offenders(Offenders::blockers)
    }

    fn offenders(&self, list: impl FnOnce(&Offenders) -> Vec<Offender>) -> Vec<Offender> {
        let core = &self.inner.core;
        // The lock may be held for ever in a forked process.
        if core.origin.is_forked() { Vec::new() } else { list(&core.offenders) }
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("cpus", self.cpus()).finish_non_exhaustive()
    }
}
