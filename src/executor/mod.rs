//! [`Executor`]: the worker pools of a set of CPUs.

mod attrs;
pub(crate) mod builder;
pub(crate) mod global;
pub(crate) mod of_run;
mod on_cpus;
pub(crate) mod shutdown;
pub(crate) mod system;

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use crate::engine::executor::inner::ExecutorInner;
use crate::engine::manager::offenders::{Offender, Offenders};
use crate::engine::user_code::report;
use crate::observe::{Monitor, Snapshot};
use crate::policy::cpu_set::CpuSet;
use crate::sys::fork::PerProcess;

use self::builder::ExecutorBuilder;
use self::of_run::OfRun;
use self::system::SystemQueues;

static GLOBAL: PerProcess<Executor> = PerProcess::new();

/// The worker pools of a set of CPUs, and the thread that manages them.
///
/// An executor is cheap to clone, and all clones refer to the same executor. An executor has two pools for each CPU,
/// one of normal and one of high priority, which all per-CPU queues share. An executor also has pools for pods, which
/// are groups of CPUs. All queues with equal attributes share the same pools for pods. A pool is made when it is first
/// used. Before its first work, an executor has no worker threads, and its manager sleeps.
///
/// Most programs need no executor of their own, because queues use [`Executor::global`] by default.
///
/// The threads of an executor end by themselves when all clones and all queues of the executor are dropped and all
/// accepted items have run. Dropping an executor never blocks.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{Executor, WorkQueue};
///
/// let executor = Executor::builder().thread_name_prefix("resize").max_threads(16).build()?;
/// let queue = WorkQueue::builder("thumbnails").build_on(&executor)?;
/// assert_eq!(queue.spawn(|| 6 * 7)?.join()?, 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Executor {
    pub(crate) inner: Arc<ExecutorInner>,
    handles: Arc<Handles>,
}

/// The part of an executor that all its clones share. The destructor of this part thaws the executor, because no handle
/// is left that could thaw it.
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

    /// Returns a builder with the default settings.
    pub fn builder() -> ExecutorBuilder {
        ExecutorBuilder::new()
    }

    /// Returns the process-wide executor, which is made on first use.
    ///
    /// The executor uses the CPUs that the process may run on and the machine's topology. If the topology cannot be
    /// read, or lacks one of these CPUs, the executor treats all CPUs as equals, and a line is logged. To configure the
    /// executor, call [`ExecutorBuilder::build_global`] before the first use. Only the return value of that call can
    /// [shut the executor down](crate::GlobalExecutor). If the manager's thread cannot be made, work waits. The next
    /// thread that submits or waits tries again to make the manager, at most once a second.
    ///
    /// A forked process has none of its parent's threads. In a forked process, this function makes a new executor on
    /// first use, unless `build_global` has made one before. See [Fork](crate#fork).
    ///
    /// # Examples
    ///
    /// ```
    /// let cpus = cmwq::Executor::global().cpus();
    /// assert!(!cpus.is_empty());
    /// ```
    pub fn global() -> &'static Self {
        if let Some(run) = OfRun::current() {
            return run.global_for_ever();
        }
        let mut complaints = None;
        let executor = GLOBAL.get_or_init(|| {
            let (executor, manager, fallback) = ExecutorBuilder::new().assemble_default();
            complaints = Some((fallback, manager.err()));
            executor
        });
        // The errors are logged last, because a logger might use the global executor, which does not exist until it is
        // made.
        if let Some((fallback, no_manager)) = complaints {
            executor.tell_of_unlisted_cpus();
            if let Some(error) = fallback {
                report!(error, "{error}; all CPUs count as equals");
            }
            if let Some(error) = no_manager {
                report!(error, "the manager's thread cannot be made: {error}; work waits");
            }
        }
        executor
    }

    /// Logs a warning if the process may use CPUs that the probed topology lacks.
    fn tell_of_unlisted_cpus(&self) {
        let unlisted = self.inner.topology.unlisted();
        if !unlisted.is_empty() {
            report!(
                warn,
                "the system does not describe CPUs {unlisted} of this process; all CPUs count as equals"
            );
        }
    }

    /// Returns the executor that [`global`](Self::global) returns.
    pub(crate) fn default_for_queues() -> Self {
        OfRun::current().map_or_else(|| Self::global().clone(), |run| run.global())
    }

    /// Returns whether this is the process-wide executor, or a clone of it.
    fn is_global(&self) -> bool {
        if let Some(run) = OfRun::current() {
            return run.is_global(self);
        }
        GLOBAL.get().is_some_and(|global| Arc::ptr_eq(&global.inner, &self.inner))
    }

    /// Returns the CPUs that the executor uses, numbered as in its topology. The set includes CPUs that the process
    /// cannot use at present (see [`Snapshot::lost_cpus`](crate::observe::Snapshot::lost_cpus)).
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.inner.cpus
    }

    /// Returns a snapshot of the executor: pods, pools, workers and queues (the kernel's `wq_dump`). The snapshot's
    /// [`busy`](Snapshot::busy) report shows which items run now. A [`monitor`](Self::monitor) shows the counters of
    /// queues over time.
    ///
    /// The call stops no thread. It costs O(queues × CPUs + threads), which is a few microseconds for each queue.
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

    /// Returns a monitor, which samples the counters of the executor's queues (the kernel's `wq_monitor`).
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

    /// Returns the types of the items that were *hogs* on [per-CPU](crate::WorkQueue::per_cpu) queues. A hog has used
    /// the CPU for longer than the [`hog_threshold`](crate::ExecutorBuilder::hog_threshold) without blocking, while
    /// other items waited to start. The most frequent type comes first. The list is empty in a forked process, and with
    /// [`Detection::Off`](crate::Detection::Off).
    ///
    /// Queue hogs on a [managed](crate::WorkQueue::builder) queue with a [nice level](crate::Attrs::nice) above 0, or
    /// divide each hog into several items. If hogs must run on their issuer's CPU, build their queue with
    /// [`cpu_intensive`](crate::WorkQueueBuilder::cpu_intensive).
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

    /// Returns the types of items that blocked without a [guard](crate#guards), while other items waited to start. The
    /// most frequent type comes first. The items of these types lack a guard. The list is empty in a forked process.
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
        // In a forked process, the lock of the offenders may stay locked for ever.
        if self.inner.origin.is_forked() { Vec::new() } else { list(&self.inner.upkeep.offenders) }
    }
}

/// Equal handles refer to the same executor.
impl PartialEq for Executor {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Executor {}

/// A panic cannot leave an executor in a wrong state.
impl UnwindSafe for Executor {}
impl RefUnwindSafe for Executor {}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("cpus", self.cpus()).finish_non_exhaustive()
    }
}
