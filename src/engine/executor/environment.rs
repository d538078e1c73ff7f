//! The part of the machine that the process may use, as the manager has last seen it.
//!
//! A change takes effect in this order: the manager writes it down here, under a new number. Then each pool takes it
//! over and binds its workers. If a pool is made meanwhile, either the manager finds it; or the pool is registered
//! later, then asks once more, and finds the change. The number keeps an older change from replacing a newer one.

use std::sync::Arc;

use crate::policy::environment::{Environment, Slot};
use crate::protocol::attention::AttentionCell;
use crate::sys::affinity;
use crate::sys::cgroup::CpuGroups;
use crate::sys::sync::Mutex;

use crate::engine::manager::bell::Bell;

/// The part of the machine that an executor may use, and how a worker that begins to work wakes the manager.
#[derive(Debug)]
pub(crate) struct LiveEnvironment {
    pub(crate) attention: AttentionCell, // A
    bell: Arc<Bell>,                     // A
    present: Mutex<Present>,             // K
}

/// What the last look has seen.
#[derive(Clone, Debug)]
pub(crate) struct Present {
    /// The number of changes so far.
    pub(crate) number: u64,
    pub(crate) cpus: Arc<Environment>,
}

impl LiveEnvironment {
    pub(crate) fn new(slots: &[Slot], bell: Arc<Bell>) -> Self {
        let quota = CpuGroups::of_process().quota();
        let cpus = Arc::new(Environment::new(slots, affinity::watched_cpus(), quota));
        Self { attention: AttentionCell::new(), bell, present: Mutex::new(Present { number: 0, cpus }) }
    }

    pub(crate) fn present(&self) -> Present {
        self.present.lock().clone()
    }

    /// Writes down a change, under a new number.
    pub(crate) fn change(&self, cpus: Environment) -> Present {
        let mut present = self.present.lock();
        *present = Present { number: present.number + 1, cpus: Arc::new(cpus) };
        present.clone()
    }

    /// Returns whether the process's CPUs have changed since the manager's last look.
    pub(crate) fn is_behind(&self) -> bool {
        affinity::watched_cpus().is_some_and(|allowed| allowed != *self.present().cpus.allowed())
    }

    /// Called by a worker that has begun to do something. Either its phase says so, and it has made a
    /// read-modify-write since; or it has raised its pool's count. Costs one load, and never waits for a lock.
    #[inline]
    pub(crate) fn active(&self) {
        if self.attention.active() {
            self.bell.ring();
        }
    }

    /// The manager's bell.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}
