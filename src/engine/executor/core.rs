//! The data that the pools and threads of one executor share.

use std::sync::Arc;

use crate::policy::cpu_set::CpuSet;
use crate::sys;
use crate::sys::fork::{self, Origin};
use crate::sys::sync::{AtomicBool, Ordering};

use crate::engine::manager::inbox::ManagerHandle;
use crate::engine::user_code::report;

use super::environment::LiveEnvironment;
use super::reports::PanicReport;
use super::settings::Settings;
use super::threads::ExecutorThreads;

/// The data that the pools and threads of one executor share.
#[derive(Debug)]
pub(crate) struct Core {
    /// The process that has made the executor and its threads.
    pub(crate) origin: Origin, // I
    pub(crate) settings: Settings,           // I
    pub(crate) manager: Arc<ManagerHandle>,  // K
    pub(crate) denials: Denials,             // A
    pub(crate) environment: LiveEnvironment, // A, K
    /// The executor's threads. Each thread holds a reference to this value until the thread is gone.
    pub(crate) threads: Arc<ExecutorThreads>, // A, K
}

/// The settings of workers that the system has denied. Each denial is logged once, and dumps show each denial.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    nice: AtomicBool,
    affinity: AtomicBool,
}

impl Core {
    pub(crate) fn new(settings: Settings, environment: LiveEnvironment) -> Self {
        Self {
            origin: Origin::here(),
            settings,
            manager: Arc::new(ManagerHandle::new(Arc::clone(environment.bell()))),
            denials: Denials::default(),
            environment,
            threads: Arc::new(ExecutorThreads::new()),
        }
    }

    /// Calls the hook for a thread that begins.
    pub(crate) fn thread_starts(&self) {
        self.settings.hooks.started();
        self.end_child();
    }

    /// Calls the hook for a thread that ends.
    pub(crate) fn thread_stops(&self) {
        self.settings.hooks.stopped();
        self.end_child();
    }

    /// Calls the handler of panics.
    pub(crate) fn item_panicked(&self, report: &PanicReport<'_>) {
        self.settings.hooks.panicked(report);
        self.end_child();
    }

    /// Ends the calling process with status 0 if it is a child of the process that made the executor. A thread calls
    /// this function after user code that may have forked, because only the parent may run the executor's items.
    fn end_child(&self) {
        if self.origin.is_forked() {
            fork::end_process(0);
        }
    }

    /// Returns whether the executor has rescuers. If the executor has none, a pool in distress has no rescuer to call.
    pub(crate) fn has_rescuers(&self) -> bool {
        self.threads.load().rescuers() > 0
    }

    /// Returns the number of workers. The count rises before a worker is made, and falls when the worker leaves.
    pub(crate) fn threads(&self) -> usize {
        self.threads.load().workers() as usize
    }
}

impl Denials {
    pub(crate) fn nice(&self, granted: bool, nice: i32) {
        if !granted && !sys::PORTABLE && !self.nice.swap(true, Ordering::Relaxed) {
            report!(
                warn,
                "workers cannot have nice level {nice} (it needs CAP_SYS_NICE or a higher \
                RLIMIT_NICE). They keep the manager's level: the executor's normal level or, if that was denied as \
                well, the level of the thread that started the manager"
            );
        }
    }

    pub(crate) fn affinity(&self, granted: bool, cpus: &CpuSet) {
        if !granted && !sys::PORTABLE && !self.affinity.swap(true, Ordering::Relaxed) {
            report!(warn, "workers cannot be bound to CPUs {cpus}: they run wherever the system puts them");
        }
    }

    pub(crate) fn nice_denied(&self) -> bool {
        self.nice.load(Ordering::Relaxed)
    }

    pub(crate) fn affinity_denied(&self) -> bool {
        self.affinity.load(Ordering::Relaxed)
    }
}
