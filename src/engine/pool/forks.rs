//! How a pool handles forks: the pool wakes a worker for a fork, and a worker without work takes the forks of other
//! workers. (A fork is a part of an item that another worker may run.)

use std::sync::Arc;

use crate::policy::concurrency::Reserved;
use crate::policy::idle_set::WorkerId;
use crate::protocol::forks::ForkBits;
use crate::sys::sync::{Ordering, fence_after_update};

use crate::engine::item::entry::Entry;
use crate::engine::item::fork_head::JoiningPool;
use crate::engine::worker::shared::Worker;

use super::binding::Near;
use super::worker_pool::{Pool, State};

impl Pool {
    /// Notes that this worker has put a fork on its list. Returns whether a CPU of the pool is free. If no CPU is free,
    /// makes sure that the manager watches the pool. The caller then looks for a thread that takes the fork.
    #[inline]
    pub(crate) fn forked(&self, worker: WorkerId) -> bool {
        self.forks.set(worker);
        self.has_free_cpu_or_watch()
    }

    /// Returns whether a CPU of the pool is free. If no CPU is free, makes sure that the manager watches the pool. The
    /// caller has found forks. As long as the pool has forks, the manager does not end its watch of the pool.
    #[inline]
    fn has_free_cpu_or_watch(&self) -> bool {
        let word = self.running.load();
        let has_free_cpu = word.has_free_cpu();
        if !has_free_cpu && !word.is_watched() && self.running.watch() {
            self.ask_to_watch();
        }
        has_free_cpu
    }

    /// Finds a worker for a fork. A thread of the pool that waits for a fork keeps its place: it still counts towards
    /// the pool's target. If another place is free, this call wakes or requests a worker. If no place is free, this
    /// call offers the fork to siblings.
    pub(crate) fn find_worker_for_fork(&self, has_free_cpu: bool) {
        if has_free_cpu {
            self.wake_for_forks(Near::Anywhere, true);
        } else {
            self.offer();
        }
    }

    /// Wakes or requests a worker for forks, if one is wanted. Before the call, the caller has left the count of
    /// running workers, used up a reservation, or lowered the number of threads that wait for forks. After that change,
    /// the caller has issued a fence. `joins` says whether the threads that wait for forks keep their places, and so
    /// still count towards the pool's target. Threads that wait for forks lose their places if a worker leaves its CPU
    /// to other threads, because that worker then calls none of the waiting threads.
    #[inline]
    pub(super) fn look_for_forks(&self, near: impl FnOnce() -> Near, joins: bool) {
        if self.forks.are_any() {
            self.wake_for_forks(near(), joins);
        }
    }

    #[cold]
    fn wake_for_forks(&self, near: Near, joins: bool) {
        if !self.has_forks() {
            return;
        }
        match self.running.reserve_for_fork(|| if joins { self.joining() } else { 0 }) {
            Some(reserved) => _ = self.wake(reserved, near),
            None => {
                // The fork may have been made while the manager ended its watch. If so, the watch begins again.
                self.has_free_cpu_or_watch();
                self.offer();
            }
        }
    }

    /// Returns whether workers of the pool have forks that no worker has taken.
    pub(super) fn has_forks(&self) -> bool {
        self.forks.are_any() && self.find_forks(&self.state.lock())
    }

    /// Returns the number of the pool's threads that wait for forks.
    #[inline]
    pub(super) fn joining(&self) -> u64 {
        self.joining.load(Ordering::Relaxed)
    }

    /// Calls `wait`, in which a thread of this pool waits for a fork.
    ///
    /// During the wait, the thread does not count as running, but no worker is woken for a fork in its place. The
    /// thread enters the count `joining` before it leaves the count of running workers. After the wait, the thread
    /// returns to the count of running workers before it leaves `joining`. While both counts include the thread,
    /// another thread may fail to wake a worker for a fork. So the waiting thread itself looks for forks each time
    /// after it was in both counts.
    pub(crate) fn keep_place_during(&self, wait: impl FnOnce()) {
        self.joining.fetch_add(1, Ordering::AcqRel);
        // The guard of the wait looks for forks after the thread has left the count of running workers.
        wait();
        self.joining.fetch_sub(1, Ordering::AcqRel);
        fence_after_update(); // with `ForkBits::set`
        self.look();
    }

    /// Returns whether workers of the pool have forks that a worker can take. Clears the bits of workers that have no
    /// forks.
    #[cold]
    pub(super) fn find_forks(&self, state: &State) -> bool {
        while let Some(bit) = self.forks.first() {
            if state.have_forks(bit) {
                return true;
            }
            self.forks.clear(bit, || state.have_forks(bit));
        }
        false
    }

    /// Returns whether the pool permits its items to fork. Managed pools that serve several CPUs and pools that have
    /// siblings permit forks, because another CPU may be free to run a fork.
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

impl JoiningPool for Pool {
    fn reserve_place(&self) -> Option<Reserved> {
        self.running.reserve_for_fork(|| 0)
    }

    fn give_up_place(&self, reserved: Reserved) {
        self.drop_reservation(reserved);
        self.look();
    }
}

impl State {
    /// Returns the workers that share this bit of the pool's [`ForkBits`].
    fn workers_of(&self, bit: WorkerId) -> impl Iterator<Item = &Arc<Worker>> {
        ForkBits::workers_of(bit, self.workers.len()).filter_map(|number| self.workers[number].worker())
    }

    fn have_forks(&self, bit: WorkerId) -> bool {
        self.workers_of(bit).any(|worker| worker.forks.have_forks())
    }
}
