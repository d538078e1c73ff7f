//! The CPUs on which the workers of a pool run at present. The workers run on the pool's own CPUs or, if all of these
//! are lost, on other CPUs.

use std::sync::Arc;

use crate::policy::cpu_set::CpuSet;
use crate::sys::sync::Mutex;

use crate::engine::executor::environment::Present;
use crate::engine::worker::shared::Worker;

use super::spec::PoolSpec;

/// The CPUs to which the workers of a pool are bound at present.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(super) state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    /// The number of the last CPU change that the pool has adopted.
    pub(super) number: u64,
    pub(super) cpus: CpuSet,
    /// The rescuers that serve the pool at present. A rescuer is not a worker of the pool.
    pub(super) guests: Vec<Arc<Worker>>,
}

/// The number of the last CPU change that a thread's binding takes into account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bound(pub(super) u64);

impl Binding {
    /// Makes the binding of a new pool. Also returns the pool's target: the number of workers that the pool keeps
    /// running.
    pub(super) fn new(present: &Present, spec: &PoolSpec) -> (Self, usize) {
        let share = spec.share(present);
        let state = State { number: present.number, cpus: share.binding, guests: Vec::new() };
        (Self { state: Mutex::new(state) }, share.target)
    }

    /// Returns the real CPUs that the pool's workers are bound to at present.
    pub(crate) fn cpus(&self) -> CpuSet {
        self.state.lock().cpus.clone()
    }

    /// Returns the rescuers that serve the pool at present.
    pub(crate) fn guests(&self) -> Vec<Arc<Worker>> {
        self.state.lock().guests.clone()
    }

    /// Adds a rescuer that begins to serve the pool.
    pub(crate) fn enter(&self, guest: &Arc<Worker>) {
        self.state.lock().guests.push(Arc::clone(guest));
    }

    /// Removes a rescuer that no longer serves the pool.
    pub(crate) fn leave(&self, guest: &Arc<Worker>) {
        self.state.lock().guests.retain(|known| !Arc::ptr_eq(known, guest));
    }
}

/// The place where a woken worker should run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Near {
    Anywhere,
    /// The worker should run on this CPU, which the calling thread is about to leave.
    Leaves(usize),
    /// The worker should run on this CPU, where no worker of the pool runs.
    Free(usize),
}

impl Near {
    pub(super) fn cpu(self) -> Option<usize> {
        match self {
            Self::Anywhere => None,
            Self::Leaves(cpu) | Self::Free(cpu) => Some(cpu),
        }
    }
}
