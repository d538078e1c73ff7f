//! Where the workers of a pool run at present: on the pool's own CPUs, or on others while these are lost.
//!
//! Two threads bind a worker: the worker itself when it begins, and the manager when the CPUs have changed. The newer
//! binding must take effect last, and no worker may be missed:
//!
//! * The manager writes the new binding down, then takes the list of workers, then binds each of them.
//! * A worker reads the binding, binds itself, enters the list, and reads the binding again. If it has changed, the
//!   worker binds itself and reads again.
//!
//! If the worker is on the manager's list, the manager binds it. If the worker then binds itself by the old binding,
//! it has read that before the new one was written, so its next read finds the change. If the worker is not on the
//! list, it enters after the new binding was written, and its next read finds the change.
//!
//! The manager binds a thread only while that lives, and a rescuer only while it serves the pool: [`Worker::pin`]
//! holds a lock during the call, and a worker that ends waits for that lock.

use std::sync::Arc;

use crate::policy::cpu_set::CpuSet;
use crate::sys::sync::Mutex;

use crate::engine::executor::environment::Present;
use crate::engine::worker::shared::Worker;

/// The binding of a pool.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(super) state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    /// The number of the last change that the pool has taken over.
    pub(super) number: u64,
    pub(super) cpus: CpuSet,
    /// Rescuers that serve the pool. They are not among its workers.
    pub(super) guests: Vec<Arc<Worker>>,
}

/// The number of the change by which a thread is bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bound(pub(super) u64);

impl Binding {
    /// Makes the binding of a new pool whose workers may run on these CPUs of the topology. Returns it, and the
    /// pool's target.
    pub(super) fn new(present: &Present, reach: &CpuSet) -> (Self, usize) {
        let share = present.cpus.share(reach);
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

/// Where a woken worker should run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Near {
    Anywhere,
    /// The calling thread is about to leave this CPU.
    Leaves(usize),
    /// No worker of the pool runs on this CPU.
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
