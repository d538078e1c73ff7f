//! A queue's rescuer: a thread that is made with the queue, and runs the queue's items while their pools cannot have
//! a worker.
//!
//! It sleeps until a pool in distress calls it. It serves the calling pools in turn, one item at a time, through the
//! same code as a worker. It counts in no pool, and `max_threads` does not limit rescuers.
//!
//! The thread shares the [`Rescuer`] with its queue. It reaches the queue only through an entry that it holds. When
//! it completes the last entry, it may free the queue. That stops the rescuer, and no thread waits for its end.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::policy::rescue::gives_way;
use crate::sys::affinity::ThreadId;
use crate::sys::sync::{Condvar, Mutex};

use crate::engine::executor::core::Core;
use crate::engine::executor::threads::Place;
use crate::engine::item::entry::Entry;
use crate::engine::pool::calls::{Calls, Order, OwnedRescuer, Rescuer};
use crate::engine::pool::worker_pool::Pool;
use crate::engine::queue::route;
use crate::engine::trace;

use super::worker_thread::{self, WorkerThread};

impl Order {
    /// Makes the rescuer, and wakes the thread that waits for it. Called by the manager.
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
        Place::of_rescuer(core).spawn(core, self.name.clone(), move || shared.live(&its_core, nice))?;
        Ok(OwnedRescuer(rescuer))
    }
}

impl Rescuer {
    /// Wakes the rescuer for a pool that was listed.
    pub(crate) fn call(&self, pool: &Pool) {
        // Traced first, so that this event comes before those of the rescuer.
        trace::mayday(&self.queue, pool);
        self.called.notify_all();
    }

    /// Runs the thread from its beginning to its end.
    fn live(self: Arc<Self>, core: &Core, nice: i32) {
        *self.system.lock() = Some(ThreadId::current());
        worker_thread::set_nice(core, nice);
        core.settings.hooks.started();
        while let Some(pool) = self.next_call() {
            worker_thread::lend(pool, &self, |worker| self.serve(worker));
        }
        core.settings.hooks.stopped();
        *self.system.lock() = None;
    }

    /// Sleeps until a pool calls. Returns `None` if the queue ends.
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

    /// Runs the queue's items in one pool, until the pool needs no more help or it is another pool's turn.
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

    /// Submits an entry that got its slot from one that the rescuer has completed, while it serves `pool`. If the
    /// entry's pool is another one and in distress, the rescuer lists that pool itself, and so serves it without a
    /// call.
    #[cold]
    pub(crate) fn hand_on(&self, next: Entry, pool: &Pool) {
        let home = next.shard().pool().shared();
        route::submit(next);
        if !std::ptr::eq(&*home, pool) && home.needs_help() {
            self.list(&home);
        }
    }
}
