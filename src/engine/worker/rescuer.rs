//! A queue's rescuer: a thread that is made with the queue, and runs the queue's items while their pools cannot get a
//! worker.
//!
//! The rescuer sleeps until a pool in distress calls it. The rescuer serves the calling pools one after the other. It
//! runs one item at a time, with the same code as a worker. No pool counts the rescuer, and `max_threads` does not
//! limit rescuers.
//!
//! The thread shares the [`Rescuer`] with its queue. The thread reaches the queue only through an entry that the thread
//! holds. When the thread completes the queue's last entry, the thread may also free the queue. Freeing the queue stops
//! the rescuer, and no thread waits until the rescuer has ended.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crossbeam_deque::Worker as List;

use crate::policy::idle_set::WorkerId;
use crate::policy::rescue::gives_way;
use crate::policy::worker::Phase;
use crate::sys::affinity::ThreadId;
use crate::sys::sync::{Condvar, Mutex};

use crate::engine::executor::core::Core;
use crate::engine::executor::threads::ThreadPlace;
use crate::engine::item::cancellation;
use crate::engine::item::entry::Entry;
use crate::engine::pool::calls::{Calls, Order, OwnedRescuer, Rescuer};
use crate::engine::pool::worker_pool::Pool;
use crate::engine::queue::route;
use crate::engine::trace;

use super::shared::Worker;
use super::worker_thread::{self, Role, WorkerThread};

impl Order {
    /// Makes the rescuer, and wakes the thread that ordered it. The manager calls this.
    pub(crate) fn fulfil(&self, core: &Arc<Core>) {
        let result = self.spawn(core);
        *self.result.lock() = Some(result);
        self.done.notify_all();
    }

    fn spawn(&self, core: &Arc<Core>) -> io::Result<OwnedRescuer> {
        let rescuer = Arc::new(Rescuer {
            calls: Mutex::new(Calls { pools: VecDeque::new(), stop: false }),
            called: Condvar::new(),
            name: self.name.clone(),
            system: Mutex::new(None),
            queue: self.queue.clone(),
        });
        let (shared, its_core, nice) = (Arc::clone(&rescuer), Arc::clone(core), self.nice);
        ThreadPlace::of_rescuer(core).spawn(core, self.name.clone(), move || shared.live(&its_core, nice))?;
        Ok(OwnedRescuer(rescuer))
    }
}

impl Rescuer {
    /// Wakes the rescuer so that it serves this pool. The caller has already put the pool on the rescuer's list of
    /// calls.
    pub(crate) fn call(&self, pool: &Pool) {
        // The call is traced first, so that its event comes before the rescuer's events.
        trace::mayday(&self.queue, pool);
        self.called.notify_all();
    }

    /// Runs the rescuer's thread until the queue ends.
    fn live(self: Arc<Self>, core: &Core, nice: i32) {
        *self.system.lock() = Some(ThreadId::current());
        worker_thread::set_nice(core, nice);
        core.thread_starts();
        while let Some(pool) = self.next_call() {
            lend(pool, &self, |worker| self.serve(worker));
        }
        core.thread_stops();
        *self.system.lock() = None;
    }

    /// Sleeps until a pool calls, and returns that pool. Returns `None` if the queue has ended.
    fn next_call(&self) -> Option<Arc<Pool>> {
        let mut calls = self.calls.lock();
        loop {
            if calls.stop {
                return None;
            }
            if let Some(pool) = calls.pools.pop_front() {
                return Some(pool);
            }
            self.called.wait(&mut calls);
        }
    }

    /// Runs the queue's items in one pool. Stops when the pool has no more items of the queue, when the pool needs no
    /// more help, or when it is another pool's turn.
    fn serve(self: &Arc<Self>, worker: &WorkerThread) {
        let mut rescued = 0;
        while let Some(entry) = worker.pool.take_for(self) {
            if !entry.is_marker() {
                entry.shard().events.rescued.raise();
                trace::rescued(&entry, &worker.pool);
            }
            worker.execute(entry);
            rescued += 1;
            if gives_way(rescued, self.others_wait()) {
                self.list(&worker.pool);
                break;
            }
        }
        worker.pool.relieved();
    }

    /// Submits an entry. The entry got its slot when the rescuer, which serves `pool`, completed another entry. If the
    /// submitted entry goes to another pool that is in distress, the rescuer itself puts that pool on its list of
    /// calls. So the rescuer serves the other pool without being called.
    #[cold]
    pub(crate) fn hand_on(&self, next: Entry, pool: &Pool) {
        let home = next.shard().pool().shared();
        route::submit(next);
        if !std::ptr::eq(&*home, pool) && home.needs_help() {
            self.list(&home);
        }
    }
}

/// Lends the calling rescuer thread to a pool. `serve` executes entries of the pool on this thread.
fn lend(pool: Arc<Pool>, rescuer: &Arc<Rescuer>, serve: impl FnOnce(&WorkerThread)) {
    // No worker of a pool has the number `WorkerId::MAX`, and no thread looks up a rescuer by its number.
    let local = List::new_fifo();
    let shared = Arc::new(Worker::new(WorkerId::MAX, Phase::Between, local.stealer()));
    pool.binding.enter(&shared);
    pool.keep_bound(pool.bind());
    pool.core.environment.active();
    let worker = WorkerThread::new(pool, shared, local, Role::Rescuer(Arc::clone(rescuer)));
    worker.with_thread(|| {
        serve(&worker);
        worker.take_name_for(None);
    });
    cancellation::forget();
    worker.pool.binding.leave(&worker.shared);
    worker.shared.leaves();
}

impl WorkerThread {
    pub(crate) fn is_rescuer(&self) -> bool {
        matches!(self.role, Role::Rescuer(_))
    }
}
