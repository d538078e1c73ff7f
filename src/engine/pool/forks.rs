//! The pool's side of forks: it wakes a worker for a fork, and a worker without work takes the forks of other workers.

use std::sync::Arc;

use crate::policy::concurrency::Reserved;
use crate::policy::idle_set::WorkerId;
use crate::protocol::forks::ForkBits;
use crate::sys::sync::{Ordering, fence_after_update};

use crate::engine::item::entry::Entry;
use crate::engine::worker::shared::Worker;

use super::binding::Near;
use super::worker_pool::{Pool, State};

impl Pool {
    /// Notes that this worker has put a fork on its list. Returns whether a CPU of the pool is free. If none is, offers
    /// the fork to siblings.
    #[inline]
    pub(crate) fn forked(&self, worker: WorkerId) -> bool {
        self.forks.set(worker);
        let wants_thread = self.running.load().need_more_worker();
        if !wants_thread {
            self.offer();
        }
        wants_thread
    }

    /// Calls a thread that waits for a fork, in the place of a worker, if one is wanted. `call` returns the reservation
    /// if another thread has called the thread.
    #[cold]
    pub(crate) fn call_for_fork(&self, call: impl FnOnce(Reserved) -> Option<Reserved>) {
        // The thread that is called has kept its place.
        if let Some(reserved) = self.running.reserve_for_fork(|| 0).and_then(call) {
            self.drop_reservation(reserved);
            self.look();
        }
    }

    /// Wakes or requests a worker for a fork, if one is wanted.
    #[cold]
    pub(crate) fn wake_for_fork(&self) {
        self.wake_for_forks(Near::Anywhere);
    }

    /// Wakes or requests a worker for forks, if one is wanted. Before the call, the caller has left the count, used up
    /// a reservation, or lowered the number of threads that wait for forks, and has issued a fence.
    #[inline]
    pub(super) fn look_for_forks(&self, near: impl FnOnce() -> Near) {
        if self.forks.are_any() {
            self.wake_for_forks(near());
        }
    }

    #[cold]
    fn wake_for_forks(&self, near: Near) {
        if self.find_forks() {
            if let Some(reserved) = self.running.reserve_for_fork(|| self.joining()) {
                let _comes = self.wake(reserved, near);
            }
        }
    }

    /// Returns the number of the pool's threads that wait for forks.
    #[inline]
    pub(super) fn joining(&self) -> u64 {
        self.joining.load(Ordering::Relaxed)
    }

    /// Calls `wait`, in which a thread of this pool waits for a fork.
    ///
    /// During the call, the thread is not counted as running, but keeps its place as far as forks are concerned. It is
    /// counted here before it leaves the other count, and it comes back to the other count before it is no longer
    /// counted here. While it is in both counts, another thread may wake no worker for a fork. So the thread looks for
    /// forks itself each time after it was in both.
    pub(crate) fn joins(&self, wait: impl FnOnce()) {
        self.joining.fetch_add(1, Ordering::AcqRel);
        // The guard of the wait looks for forks after the thread has left the count.
        wait();
        self.joining.fetch_sub(1, Ordering::AcqRel);
        fence_after_update(); // with `ForkBits::set`
        self.wake_for_forks(Near::Anywhere);
    }

    /// Notes that a thread that waited for a fork has come instead of a worker, and counts as running.
    pub(crate) fn joining_thread_came(&self, reserved: Reserved) {
        self.drop_reservation(reserved);
        self.look();
    }

    /// Returns whether workers of the pool have forks that a worker can take. Clears the bits of workers that have none.
    #[cold]
    fn find_forks(&self) -> bool {
        let state = self.state.lock();
        while let Some(bit) = self.forks.first() {
            if state.have_forks(bit) {
                return true;
            }
            self.forks.clear(bit, || state.have_forks(bit));
        }
        false
    }

    /// Returns whether items of this pool may fork: the pool is managed, and may have a free CPU, or a sibling may.
    #[inline]
    pub(crate) fn permits_forks(&self) -> bool {
        self.several_cpus || self.has_siblings()
    }

    /// Takes a fork of a worker of this pool, for a thread that has nothing else to do. The thread executes the
    /// returned entry next.
    pub(crate) fn take_fork(&self) -> Option<Entry> {
        while let Some(bit) = self.forks.first() {
            let state = self.state.lock();
            let fork = state.workers_of(bit).find_map(|worker| worker.forks.take());
            if fork.is_none() {
                self.forks.clear(bit, || state.have_forks(bit));
            }
            drop(state);
            let entry = fork.and_then(|fork| fork.admit());
            if entry.is_some() {
                return entry;
            }
        }
        None
    }
}

impl State {
    /// Returns the workers that share this bit.
    fn workers_of(&self, bit: WorkerId) -> impl Iterator<Item = &Arc<Worker>> {
        ForkBits::workers_of(bit, self.workers.len()).filter_map(|number| self.workers[number].worker())
    }

    fn have_forks(&self, bit: WorkerId) -> bool {
        self.workers_of(bit).any(|worker| worker.forks.have_forks())
    }
}
