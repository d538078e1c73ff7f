//! Describes, checks and builds an executor.

mod backlog;
mod carry;
#[cfg(feature = "serde")]
mod config;
mod cpus;
mod self_management;
mod threads;

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::executor::core::Core;
use crate::engine::executor::environment::LiveEnvironment;
use crate::engine::executor::inner::{ExecutorInner, NiceLevels};
use crate::engine::executor::placement::Placement;
use crate::engine::executor::reports::PanicReport;
use crate::engine::executor::settings::{Hooks, Settings};
use crate::engine::executor::upkeep::Upkeep;
use crate::engine::manager::bell::Bell;
use crate::engine::manager::{detection, manager_thread};
use crate::engine::pool::worker_pool::Pool;
use crate::error::BuildExecutorError;
use crate::executor::Executor;
use crate::executor::global::GlobalExecutor;
use crate::observe::Snapshot;
use crate::policy::cpu_set::CpuSet;
use crate::policy::idle_set::{IdleLimits, MIN_IDLE};
use crate::policy::pods::AffinityScope;
use crate::policy::threads::default_cap;
use crate::policy::topology::Topology;
use crate::sys;
use crate::sys::topology::TopologySource;

use self::cpus::ChosenCpus;
use self::self_management::SelfManagement;
use super::GLOBAL;
use super::of_run::OfRun;

/// The smallest stack with which a worker can run.
const STACK_LEAST: usize = 16 << 10;
/// The largest stack size that is accepted. A larger size is a mistake. Such a stack often exceeds the address space,
/// so the system could never make a thread with it.
const STACK_LIMIT: usize = if cfg!(target_pointer_width = "64") { 1 << 30 } else { 64 << 20 };
/// The shortest permitted patience of the progress check. The manager checks a pool several times within that time.
#[cfg(any(test, feature = "__testing"))]
const PATIENCE_LEAST: Duration = Duration::from_millis(1);

/// Describes and builds an executor. Every setting has a default. With the feature `serde`, a configuration can contain
/// the settings, under the names of the setters. In a configuration, `null` turns a threshold off, and means the
/// default for any other setting that may be unset. Only code can set hooks and the topology.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{AffinityScope, CpuSet, Executor, TopologySource};
/// use std::time::Duration;
///
/// let executor = Executor::builder()
///     // For tests: a synthetic machine of two caches with four CPUs each. The real CPUs serve these CPUs.
///     .topology(TopologySource::Synthetic("l3:2 core:4 pu:1".into()))
///     .default_scope(AffinityScope::Cache)
///     .idle_timeout(Duration::from_secs(10))
///     .idle_ratio(2.try_into()?)
///     .max_threads(64)
///     .stack_size(256 << 10)
///     .nice(5)
///     .high_priority_nice(0)
///     .histograms(true)
///     .panic_handler(|report| eprintln!("{} panicked in {}", report.item_type, report.queue))
///     .build()?;
/// assert_eq!(executor.cpus().len(), 8);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct ExecutorBuilder {
    cpus: Option<CpuSet>,
    topology: TopologySource,
    default_scope: AffinityScope,
    nice_normal: Option<i32>,
    nice_high: i32,
    idle_limits: IdleLimits,
    prestart: bool,
    max_threads: Option<usize>,
    max_pending: Option<usize>,
    max_pending_bytes: Option<u64>,
    name_prefix: String,
    stack_size: Option<usize>,
    pub(crate) power_efficient: bool,
    histograms: bool,
    progress_check: Option<Duration>,
    random_placement: Option<u64>,
    self_management: SelfManagement,
    hooks: Hooks,
}

impl ExecutorBuilder {
    pub(super) fn new() -> Self {
        Self {
            cpus: None,
            topology: TopologySource::Probe,
            default_scope: AffinityScope::Cache,
            nice_normal: None,
            nice_high: -20,
            idle_limits: IdleLimits {
                idle_timeout: Duration::from_secs(300),
                idle_ratio: 4,
                min_idle: MIN_IDLE,
            },
            prestart: false,
            max_threads: None,
            max_pending: None,
            max_pending_bytes: None,
            name_prefix: "cmwq".into(),
            stack_size: None,
            power_efficient: false,
            histograms: false,
            progress_check: None,
            random_placement: None,
            self_management: SelfManagement::default(),
            hooks: Hooks::default(),
        }
    }

    /// Sets the CPUs to use. By default, the executor uses the CPUs that the process may run on. If the topology
    /// describes another machine, the default is all CPUs of the topology.
    ///
    /// The set may contain CPUs that the process may not use when the executor is built. The executor uses these CPUs
    /// if the system permits that, and never gives them up.
    pub fn cpus(mut self, cpus: CpuSet) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Sets the source of the topology, which consists of caches, cores and nodes. The default source is this machine,
    /// as hwloc or Linux itself describes it.
    ///
    /// If the source describes another machine, the executor assigns real CPUs to that machine's CPUs, one after the
    /// other. If the real CPUs run out, the executor begins again with the first real CPU.
    pub fn topology(mut self, source: TopologySource) -> Self {
        self.topology = source;
        self
    }

    /// Sets the affinity scope for queues that do not specify one. Default: [`AffinityScope::Cache`].
    #[doc(alias = "default_affinity_scope")]
    pub fn default_scope(mut self, scope: AffinityScope) -> Self {
        self.default_scope = scope;
        self
    }

    /// Sets a hook that each worker and each rescuer calls before its first item. A panic of the hook is contained.
    ///
    /// The worker serves its pool only after the hook has returned, but the pool already relies on the worker while the
    /// hook runs. So the hook must not wait for work of the same executor, because that work may wait for this worker.
    ///
    /// The executor owns its hooks. A hook that owns an [`Executor`] or a [`WorkQueue`](crate::WorkQueue) of the same
    /// executor keeps the executor and its threads alive for ever. All hooks are dropped after the executor, on any
    /// thread but the manager's. A panic in a hook's destructor is contained.
    pub fn on_thread_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.on_thread_start = Some(Box::new(hook));
        self
    }

    /// Sets a hook that each worker and each rescuer calls before it ends. A panic of the hook is contained. A worker
    /// counts towards [`max_threads`](Self::max_threads) until the hook returns. So the hook must not wait for work of
    /// the same executor, because that work may wait for this thread. See [`on_thread_start`](Self::on_thread_start)
    /// for the values that a hook must not own.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::builder()
    ///     .on_thread_start(|| println!("{:?} begins", std::thread::current().name()))
    ///     .on_thread_stop(|| println!("{:?} ends", std::thread::current().name()))
    ///     .build()?;
    /// # drop(executor);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_thread_stop(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.on_thread_stop = Some(Box::new(hook));
        self
    }

    /// Sets a handler that the worker's thread calls for every panic of an item, before the joiner learns of the panic.
    /// See [`on_thread_start`](Self::on_thread_start) for the values that a hook must not own.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::mpsc;
    ///
    /// let (tell, told) = mpsc::channel();
    /// let executor = cmwq::Executor::builder()
    ///     .panic_handler(move |report| tell.send((report.queue.to_owned(), report.item_type)).unwrap())
    ///     .build()?;
    /// let queue = cmwq::WorkQueue::builder("imports").build_on(&executor)?;
    /// drop(queue.spawn(|| panic!("no such file"))?);
    /// let (queue, item) = told.recv()?;
    /// assert_eq!(queue, "imports");
    /// println!("{item} panicked");
    /// # Ok(())
    /// # }
    /// ```
    pub fn panic_handler(mut self, handler: impl Fn(&PanicReport<'_>) + Send + Sync + 'static) -> Self {
        self.hooks.panic_handler = Some(Box::new(handler));
        self
    }

    /// Sets a hook that the executor calls before it makes the thread of a worker, of a rescuer or of the manager. The
    /// hook's argument is the thread's name. If the hook returns an error, the thread is not made, as if the system had
    /// refused it. Without a worker, work waits, and the executor tries again after a second. The hook can test how a
    /// program behaves if threads are missing. The hook can also limit the number of threads that are ever made, as in
    /// the example. In contrast, [`max_threads`](Self::max_threads) limits the number of workers at any time.
    ///
    /// If the hook refuses a worker by an error or a panic, a separate thread drops the error or the panic's payload,
    /// because a destructor must not run on the manager's thread. The executor makes that thread without calling the
    /// hook. The thread is named `cmwq/cleaner` with the default prefix, and ends afterwards. So the executor makes one
    /// such thread each second while the hook refuses workers.
    ///
    /// For a worker or a rescuer, the manager's thread calls the hook. Until the hook returns, the manager makes no
    /// other thread and calls no rescuer. So the hook must not wait for work of the same executor, and cannot build a
    /// queue with a rescuer on that executor. See [`on_thread_start`](Self::on_thread_start) for the values that a hook
    /// must not own.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::io;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let left = AtomicUsize::new(64);
    /// let budget = move |name: &str| {
    ///     let spend = |left: usize| left.checked_sub(1);
    ///     match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend) {
    ///         Ok(_) => Ok(()),
    ///         Err(_) => Err(io::Error::other(format!("no thread is left for {name}"))),
    ///     }
    /// };
    /// let executor = cmwq::Executor::builder().before_spawn(budget).build()?;
    /// # drop(executor);
    /// # Ok(())
    /// # }
    /// ```
    pub fn before_spawn(mut self, hook: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.hooks.before_spawn = Some(Box::new(hook));
        self
    }

    /// For tests of this crate: queues each item on a random CPU instead of the issuer's own CPU (the kernel's
    /// `debug_force_rr_cpu`). The random numbers start from this seed.
    #[cfg(any(test, feature = "__testing"))]
    #[doc(hidden)]
    pub fn random_placement(mut self, seed: u64) -> Self {
        self.random_placement = Some(seed);
        self
    }

    /// Sets whether queues measure how long their items wait and run. The setting applies to each queue whose builder
    /// does not set [`WorkQueueBuilder::histograms`](crate::WorkQueueBuilder::histograms). Default: false.
    pub fn histograms(mut self, yes: bool) -> Self {
        self.histograms = yes;
        self
    }

    /// Makes the executor.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is out of range, if the topology or the process's CPUs cannot be read, or if the
    /// manager's thread cannot be made. If the call returns an error, it has made nothing.
    ///
    /// With the feature `hwloc`, a separate thread reads the machine's topology. If the system refuses that thread, the
    /// error is [`BuildExecutorError::Topology`].
    pub fn build(self) -> Result<Executor, BuildExecutorError> {
        self.make().inspect(Executor::tell_of_unlisted_cpus)
    }

    fn make(self) -> Result<Executor, BuildExecutorError> {
        let (executor, manager) = self.assemble()?;
        manager.map_err(BuildExecutorError::Thread)?;
        Ok(executor)
    }

    /// Makes the process-wide executor. Returns a [`GlobalExecutor`], which has the right to shut that executor down. A
    /// program that never shuts the executor down can drop this value.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), cmwq::BuildExecutorError> {
    /// let global = cmwq::Executor::builder().thread_name_prefix("my-service").build_global()?;
    /// assert!(std::ptr::eq(global.executor(), cmwq::Executor::global()));
    /// assert!(cmwq::Executor::builder().build_global().is_err(), "there is one");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`build`](Self::build). Also returns an error if the global executor exists already,
    /// because it was used or configured earlier.
    pub fn build_global(self) -> Result<GlobalExecutor, BuildExecutorError> {
        if let Some(run) = OfRun::current() {
            if run.has_global() || !run.set_global(self.make()?) {
                return Err(BuildExecutorError::GlobalExists);
            }
            return Ok(GlobalExecutor::new(Executor::global()));
        }
        if GLOBAL.get().is_some() {
            return Err(BuildExecutorError::GlobalExists);
        }
        // Another thread may have installed its executor first. If so, this thread's executor is dropped here.
        GLOBAL.set(self.make()?).map_err(|_ours| BuildExecutorError::GlobalExists)?;
        // The warning comes last, because a logger might use the global executor.
        Executor::global().tell_of_unlisted_cpus();
        Ok(GlobalExecutor::new(Executor::global()))
    }

    /// Makes an executor and starts its manager. Returns the executor and the result of starting the manager.
    fn assemble(mut self) -> Result<(Executor, io::Result<()>), BuildExecutorError> {
        self.check()?;
        let (topology, process) = self.load_topology()?;
        let cpus = self.choose_cpus(&topology, process)?;
        Ok(self.assemble_on(topology, cpus))
    }

    /// Makes the default executor. If the machine's topology cannot be read, treats all its CPUs as equals, and also
    /// returns the error. Logs nothing, because a logger might use the executor that is being made. The caller logs the
    /// error once the executor exists.
    pub(super) fn assemble_default(self) -> (Executor, io::Result<()>, Option<BuildExecutorError>) {
        match self.assemble() {
            Ok((executor, manager)) => (executor, manager, None),
            Err(error) => {
                let (topology, cpus) = cpus::without_description();
                let (executor, manager) = Self::new().assemble_on(topology, cpus);
                (executor, manager, Some(error))
            }
        }
    }

    fn assemble_on(self, topology: Topology, cpus: ChosenCpus) -> (Executor, io::Result<()>) {
        let ChosenCpus { mapped, process } = cpus;
        let normal = self.nice_normal.unwrap_or_else(|| sys::thread::process_nice().unwrap_or(0));
        let nice = NiceLevels { normal, high: self.nice_high };
        let probe = self.self_management.probe;
        let detection = detection::choose(self.self_management.detection, probe);
        let settings = Settings {
            idle_limits: self.idle_limits,
            max_threads: self.max_threads.unwrap_or_else(|| default_cap(mapped.len(), sys::tasks::limit())),
            max_pending: self.max_pending,
            max_pending_bytes: self.max_pending_bytes,
            nice: normal,
            name_prefix: self.name_prefix,
            stack_size: self.stack_size,
            hooks: self.hooks,
            detection: detection.mode,
            probe,
            hog_threshold: self.self_management.hog_threshold,
            watchdog_threshold: self.self_management.watchdog_threshold,
            patience: self.progress_check,
        };
        let environment = LiveEnvironment::new(&mapped, process, Arc::new(Bell::new(detection.pause)));
        let placement = Placement::new(mapped, self.random_placement);
        let upkeep = Arc::new(Upkeep::new(
            Core::new(settings, environment),
            2 * placement.len(),
            (detection.shortfall, detection.ready),
            abort_with_dump,
        ));
        let manager = manager_thread::start(&upkeep);
        let inner = ExecutorInner::new(
            upkeep,
            (placement, topology),
            self.default_scope,
            nice,
            (self.power_efficient, self.histograms, self.prestart),
        );
        let executor = Executor::from_inner(inner);
        if let Some(run) = OfRun::current() {
            run.add(&executor);
        }
        (executor, manager)
    }

    fn check(&self) -> Result<(), BuildExecutorError> {
        let levels = [self.nice_normal.unwrap_or(0), self.nice_high];
        if let Some(level) = levels.into_iter().find(|level| !(-20..=19).contains(level)) {
            return Err(BuildExecutorError::Nice(level));
        }
        if self.default_scope == AffinityScope::Default {
            return Err(BuildExecutorError::DefaultScope);
        }
        if self.max_threads == Some(0) {
            return Err(BuildExecutorError::MaxThreads);
        }
        self.check_backlog()?;
        if self.idle_limits.min_idle < MIN_IDLE {
            return Err(BuildExecutorError::MinIdle(self.idle_limits.min_idle));
        }
        if self.name_prefix.is_empty() || self.name_prefix.contains('\0') {
            return Err(BuildExecutorError::ThreadName(self.name_prefix.clone()));
        }
        if let Some(bytes) = self.stack_size.filter(|bytes| !(STACK_LEAST..=STACK_LIMIT).contains(bytes)) {
            return Err(BuildExecutorError::StackSize { bytes, limit: STACK_LIMIT });
        }
        #[cfg(any(test, feature = "__testing"))]
        if let Some(patience) = self.progress_check.filter(|patience| *patience < PATIENCE_LEAST) {
            return Err(BuildExecutorError::ProgressCheck(patience));
        }
        self.self_management.check()
    }
}

/// Writes a dump to standard error and aborts the process. The manager calls this when the progress check has found a
/// lost wake-up.
fn abort_with_dump(upkeep: &Upkeep, pool: &Pool, since: Duration) {
    let snapshot = Snapshot::of_pools(upkeep);
    let text =
        format!("cmwq: {:?} has had work and no worker on it for {since:?}\n{snapshot}\n", pool.spec.kind);
    // The dump is not written with `eprintln`, because a test harness captures that output and loses it when the
    // process aborts.
    drop(io::stderr().write_all(text.as_bytes()));
    std::process::abort()
}

impl fmt::Debug for ExecutorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorBuilder")
            .field("cpus", &self.cpus)
            .field("topology", &self.topology)
            .field("default_scope", &self.default_scope)
            .field("max_threads", &self.max_threads)
            .field("name_prefix", &self.name_prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
