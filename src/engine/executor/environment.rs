//! The part of the machine that the process may use, as the manager has last seen it.
//!
//! A change takes effect in two steps. First the manager stores the change here under a new number. Then each pool
//! adopts the change and binds its workers accordingly. A pool that is made during these steps does not miss the
//! change, because it enters the register before it reads the environment. So either the manager finds the pool in the
//! register, or the pool finds the change in the environment. The number ensures that an older change never replaces a
//! newer change.

use std::sync::Arc;

use crate::policy::cpu_set::CpuSet;
use crate::policy::environment::{Environment, MappedCpu};
use crate::protocol::attention::AttentionCell;
use crate::sys::affinity;
use crate::sys::cgroup::CpuGroups;
use crate::sys::sync::Mutex;

use crate::engine::manager::bell::Bell;

/// The part of the machine that an executor may use. This struct also contains the bell with which a worker wakes the
/// manager.
#[derive(Debug)]
pub(crate) struct LiveEnvironment {
    pub(crate) attention: AttentionCell, // A
    bell: Arc<Bell>,                     // A
    present: Mutex<Present>,             // K
}

/// The environment as the manager has last seen it.
#[derive(Clone, Debug)]
pub(crate) struct Present {
    /// The number of changes so far.
    pub(crate) number: u64,
    pub(crate) cpus: Arc<Environment>,
}

impl LiveEnvironment {
    /// Returns the environment of a new executor. The executor's CPUs were chosen by means of `process`, the set of
    /// CPUs that the process may use. This function does not read this set again. After a second reading, a CPU that
    /// the process has lost meanwhile would count as one that the user gave to the executor although the process may
    /// not use it.
    pub(crate) fn new(mapped: &[MappedCpu], process: Option<CpuSet>, bell: Arc<Bell>) -> Self {
        let quota = CpuGroups::of_process(None).quota();
        let cpus = Arc::new(Environment::new(mapped, process, quota));
        Self { attention: AttentionCell::new(), bell, present: Mutex::new(Present { number: 0, cpus }) }
    }

    pub(crate) fn present(&self) -> Present {
        self.present.lock().clone()
    }

    /// Stores a change under a new number. Returns the change with that number.
    pub(crate) fn change(&self, cpus: Environment) -> Present {
        let mut present = self.present.lock();
        *present = Present { number: present.number + 1, cpus: Arc::new(cpus) };
        present.clone()
    }

    /// Returns whether the process's CPUs have changed since the manager last checked them.
    pub(crate) fn is_behind(&self) -> bool {
        affinity::watched_cpus().is_some_and(|allowed| allowed != *self.present().cpus.allowed())
    }

    /// Wakes the manager if the manager has suspended its checks of the machine. A worker calls this function when it
    /// has become active. The worker either has raised its pool's count of running workers before the call, or its
    /// phase says that it is active, and the worker has executed a read-modify-write since then. The call never waits
    /// for a lock. The call costs one load if the manager's checks are not suspended.
    #[inline]
    pub(crate) fn active(&self) {
        if self.attention.active() {
            self.bell.ring();
        }
    }

    /// Returns the manager's bell.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}
